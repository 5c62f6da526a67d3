/*
 * Requests' heads that a connection repeats: see http2_session.h.
 *
 * The bytes that come in are walked over by their frames before the library gets them. A block that
 * came before and means the same still is not decoded again: the library is fed HEADERS without
 * fields in its place, for it to check and to count, and the stream shares the head that was made
 * then. This is exact: a block is known only while the peer's table is what it was, and it must
 * leave that as it is. All that is not a plain HEADERS frame, whole in what was read, is left to the
 * library, and whatever may have changed the table unseen makes all blocks unknown.
 */
#include "transport/hpack.h"
#include "transport/http2_session_private.h"

#define FRAME_HEAD 9u
#define PREFACE 24u
#define BLOCK_MOST 255u  /* bytes of a block that is kept */
#define TEXTS_MOST 1024u /* of its names and values */

/* A head that streams share. Its fields, their texts and the block follow. */
struct pk_http2_known_head {
    size_t references;
    size_t size; /* of all of it */
    pk_head head;
    size_t bytes;
    int64_t body_left;
    const uint8_t *block;
    size_t length;
    pk_field fields[];
};

/* ---- The heads ---- */

pk_http2_known_head *pk_http2_known_unref(pk_http2_session *session, pk_http2_known_head *known)
{
    if (known && --known->references == 0)
        pk_memory_put(session->memory, known, known->size);
    return NULL;
}

void pk_http2_session_forget_known(pk_http2_session *session)
{
    for (size_t i = 0; i < PK_HTTP2_KNOWN; i++)
        session->known[i].head = pk_http2_known_unref(session, session->known[i].head);
}

void pk_http2_session_share_known(pk_http2_session *session, pk_http2_stream *stream)
{
    pk_http2_known_head *known = pk_steal(&session->arriving);
    known->references++;
    stream->known = known;
    stream->head.head = known->head;
    stream->head.bytes = known->bytes;
    stream->body_left = known->body_left;
}

static pk_http2_known_head *make_known(pk_http2_session *session, const pk_http2_stream *stream,
                                       const uint8_t *block, size_t length)
{
    const pk_head *head = &stream->head.head;
    size_t texts = 0;
    for (size_t i = 0; i < head->count; i++)
        texts += head->fields[i].name.length + head->fields[i].value.length;
    if (texts > TEXTS_MOST)
        return NULL;
    size_t size = sizeof(pk_http2_known_head) + head->count * sizeof(pk_field) + texts + length;
    pk_http2_known_head *known = pk_memory_get(session->memory, size);
    if (!known)
        return NULL; /* it is decoded again the next time */
    *known = (pk_http2_known_head){.references = 1,
                                   .size = size,
                                   .head = *head,
                                   .bytes = stream->head.bytes,
                                   .body_left = stream->body_left,
                                   .length = length};
    uint8_t *at = (uint8_t *) (known->fields + head->count);
    for (size_t i = 0; i < head->count; i++) {
        pk_field *field = &known->fields[i];
        *field = head->fields[i];
        memcpy(at, field->name.bytes, field->name.length);
        field->name.bytes = at;
        at += field->name.length;
        if (field->value.length > 0)
            memcpy(at, field->value.bytes, field->value.length);
        field->value.bytes = at;
        at += field->value.length;
    }
    known->head.fields = known->fields;
    known->block = memcpy(at, block, length);
    return known;
}

void pk_http2_session_learn(pk_http2_session *session, const pk_http2_stream *stream)
{
    const uint8_t *block = pk_steal(&session->learning);
    pk_http2_known_head *known = make_known(session, stream, block, session->learning_length);
    if (!known)
        return;
    pk_http2_known_block *place = &session->known[session->known_next++ % PK_HTTP2_KNOWN];
    pk_http2_known_unref(session, place->head);
    *place = (pk_http2_known_block){known, session->learning_hash, session->peer_table_changes};
}

/* ---- Finding one ---- */

static uint64_t hash_of(const uint8_t *block, size_t length)
{
    uint64_t hash = length, word = 0;
    while (length >= sizeof word) {
        memcpy(&word, block, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
        block += sizeof word;
        length -= sizeof word;
    }
    word = 0;
    memcpy(&word, block, length);
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static pk_http2_known_head *find_known(const pk_http2_session *session, const uint8_t *block,
                                       size_t length, uint64_t hash)
{
    for (size_t i = 0; i < PK_HTTP2_KNOWN; i++) {
        const pk_http2_known_block *known = &session->known[i];
        if (known->hash == hash && known->head && known->head->length == length &&
            known->table_changes == session->peer_table_changes &&
            memcmp(known->head->block, block, length) == 0)
            return known->head;
    }
    return NULL;
}

/* Whether a block with this hash came lately; if not it has now. */
static bool came_before(pk_http2_session *session, uint64_t hash)
{
    for (size_t i = 0; i < PK_HTTP2_KNOWN; i++) {
        if (session->came[i] == hash)
            return true;
    }
    session->came[session->came_next++ % PK_HTTP2_KNOWN] = hash;
    return false;
}

/* ---- Walking over frames ---- */

struct frame_head {
    size_t length;
    uint8_t type, flags;
    int32_t id;
};

static struct frame_head read_frame_head(const uint8_t *at)
{
    return (struct frame_head){
        .length = (size_t) at[0] << 16 | (size_t) at[1] << 8 | at[2],
        .type = at[3],
        .flags = at[4],
        .id = (int32_t) (((uint32_t) at[5] << 24 | (uint32_t) at[6] << 16 | (uint32_t) at[7] << 8 |
                          at[8]) &
                         0x7fffffff),
    };
}

static bool has_block(const struct frame_head *head)
{
    return head->type == NGHTTP2_HEADERS || head->type == NGHTTP2_CONTINUATION;
}

static int hand_over(pk_http2_session *session, const uint8_t *bytes, size_t length)
{
    if (length == 0 || session->failed)
        return session->failed;
    ssize_t eaten = nghttp2_session_mem_recv(engine(session), bytes, length);
    if (eaten < 0)
        return settle(session, (int) eaten);
    return session->failed;
}

/* The library checks and counts a request whose fields are known. */
static int hand_over_known(pk_http2_session *session, const struct frame_head *head,
                           pk_http2_known_head *known)
{
    uint8_t bare[FRAME_HEAD] = {0, 0, 0, NGHTTP2_HEADERS, head->flags};
    for (unsigned i = 0; i < 4; i++)
        bare[5 + i] = (uint8_t) ((uint32_t) head->id >> (24 - 8 * i));
    session->arriving = known;
    int r = hand_over(session, bare, sizeof bare);
    session->arriving = NULL; /* where the library refused the stream */
    return r;
}

/* What the walk does with a frame that is whole and has a block. */
enum step { PASS, LEARN, KNOWN };

static enum step look_at_block(pk_http2_session *session, const struct frame_head *head,
                               const uint8_t *block, pk_http2_known_head **ret_known)
{
    bool plain = head->type == NGHTTP2_HEADERS && head->flags & NGHTTP2_FLAG_END_HEADERS &&
                 !(head->flags & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY));
    bool fresh = head->id > session->newest;
    if (fresh)
        session->newest = head->id;
    if (!plain) {
        session->peer_table_changes++;
        return PASS;
    }
    bool small = head->length > 0 && head->length <= BLOCK_MOST;
    uint64_t hash = small ? hash_of(block, head->length) : 0;
    if (small && fresh) {
        *ret_known = find_known(session, block, head->length, hash);
        if (PK_LIKELY(*ret_known != NULL))
            return KNOWN;
    }
    if (!pk_hpack_block_inert(block, head->length)) {
        session->peer_table_changes++;
        return PASS;
    }
    if (!small || !fresh || !came_before(session, hash))
        return PASS;
    session->learning_hash = hash;
    session->learning_length = head->length;
    return LEARN;
}

/* The rest of a frame's head that began in what was fed before. */
static size_t complete_frame_head(pk_http2_session *session, const uint8_t *at, size_t left)
{
    size_t part = FRAME_HEAD - session->frame_head_length;
    if (part > left)
        part = left;
    memcpy(session->frame_head + session->frame_head_length, at, part);
    session->frame_head_length += (uint8_t) part;
    if (session->frame_head_length < FRAME_HEAD)
        return part;
    struct frame_head head = read_frame_head(session->frame_head);
    session->frame_head_length = 0;
    session->frame_left = head.length;
    if (has_block(&head)) {
        session->peer_table_changes++;
        if (head.id > session->newest)
            session->newest = head.id;
    }
    return part;
}

void pk_http2_session_begin_walk(pk_http2_session *session)
{
    session->frame_left = session->server ? PREFACE : 0;
}

int pk_http2_session_walk(pk_http2_session *session, const uint8_t *bytes, size_t length)
{
    const uint8_t *from = bytes, *at = bytes, *end = bytes + length;
    int r = 0;
    if (!session->server)
        return hand_over(session, bytes, length);
    while (at < end && r == 0) {
        size_t left = (size_t) (end - at);
        if (session->frame_left > 0) {
            size_t part = session->frame_left < left ? session->frame_left : left;
            session->frame_left -= part;
            at += part;
            continue;
        }
        if (session->frame_head_length > 0 || left < FRAME_HEAD) {
            at += complete_frame_head(session, at, left);
            continue;
        }
        struct frame_head head = read_frame_head(at);
        if (!has_block(&head) || head.length > left - FRAME_HEAD) {
            if (has_block(&head)) {
                /* Its rest is still to come. */
                session->peer_table_changes++;
                if (head.id > session->newest)
                    session->newest = head.id;
            }
            session->frame_left = head.length;
            at += FRAME_HEAD;
            continue;
        }
        const uint8_t *block = at + FRAME_HEAD, *behind = block + head.length;
        pk_http2_known_head *known = NULL;
        enum step step = look_at_block(session, &head, block, &known);
        if (step == KNOWN) {
            r = hand_over(session, from, (size_t) (at - from));
            if (r == 0)
                r = hand_over_known(session, &head, known);
            from = behind;
        } else if (step == LEARN) {
            r = hand_over(session, from, (size_t) (at - from));
            session->learning = block;
            if (r == 0)
                r = hand_over(session, at, FRAME_HEAD + head.length);
            session->learning = NULL;
            from = behind;
        }
        at = behind;
    }
    return r < 0 ? r : hand_over(session, from, (size_t) (end - from));
}
