/*
 * The field blocks that the HTTP/2 session sends: see http2_session.h.
 *
 * The library is handed HEADERS frames without fields, so that it keeps to their order and to the
 * states of streams; when one leaves, its block is put in here. The blocks come from an encoder of
 * our own (the library's), and one that was encoded before is sent again as it was, as long as it
 * means the same: it must leave the table as it is, and nothing may have changed the table since.
 */
#include "transport/hpack.h"
#include "transport/http2_session_private.h"

#define FIELDS_ON_STACK 32u  /* fields of a block that is encoded without taking memory */
#define BLOCK_ON_STACK 1024u /* bytes of one */
#define FRAME_HEAD 9u
#define FRAME_MOST 16384u /* payload that any peer takes (RFC 9113 section 4.2) */
#define TABLE_BYTES 4096u /* of the table, at most */
#define CONTINUATION 9u

/* The library keeps a pointer to what it allocates by. */
struct encoder {
    nghttp2_hd_deflater *library;
    nghttp2_mem memory;
};

static nghttp2_hd_deflater *library_of(const pk_http2_session *session)
{
    return ((const struct encoder *) session->encoder)->library;
}

int pk_http2_session_encoder_init(pk_http2_session *session, const nghttp2_mem *library_memory)
{
    struct encoder *encoder = pk_memory_get(session->memory, sizeof *encoder);
    if (!encoder)
        return PK_ERR_NOMEM;
    encoder->memory = *library_memory;
    if (nghttp2_hd_deflate_new2(&encoder->library, TABLE_BYTES, &encoder->memory) != 0) {
        pk_memory_put(session->memory, encoder, sizeof *encoder);
        return PK_ERR_NOMEM;
    }
    session->encoder = encoder;
    return 0;
}

void pk_http2_session_encoder_done(pk_http2_session *session)
{
    if (!session->encoder)
        return;
    nghttp2_hd_deflate_del(library_of(session));
    pk_memory_put(session->memory, session->encoder, sizeof(struct encoder));
    session->encoder = NULL;
}

int pk_http2_session_encoder_limit(pk_http2_session *session, size_t bytes)
{
    session->table_changes++;
    return settle(session, nghttp2_hd_deflate_change_table_size(library_of(session), bytes));
}

/* ---- Blocks that were sent before ---- */

static uint64_t load8(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint32_t load4(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Most texts are short: words that overlap are faster than a call. */
static bool same_bytes(const uint8_t *one, const uint8_t *other, size_t length)
{
    if (length > 16)
        return memcmp(one, other, length) == 0;
    if (length >= 8)
        return load8(one) == load8(other) && load8(one + length - 8) == load8(other + length - 8);
    if (length >= 4)
        return load4(one) == load4(other) && load4(one + length - 4) == load4(other + length - 4);
    for (size_t i = 0; i < length; i++) {
        if (one[i] != other[i])
            return false;
    }
    return true;
}

static bool was_sent(const pk_http2_session *session, const pk_http2_sent_block *sent,
                     unsigned status, const pk_field *fields, size_t count)
{
    if (sent->length == 0 || sent->table_changes != session->table_changes ||
        sent->count != count || sent->status != status)
        return false;
    const uint8_t *text = sent->texts;
    for (size_t i = 0; i < count; i++) {
        size_t name = fields[i].name.length, value = fields[i].value.length;
        if (name != text[0] || value != text[1] || fields[i].sensitive)
            return false;
        text += 2;
        if (!same_bytes(text, fields[i].name.bytes, name) ||
            !same_bytes(text + name, fields[i].value.bytes, value))
            return false;
        text += name + value;
    }
    return true;
}

/* Keeps a block that leaves the table as it is, where all of it is small. */
static void keep_sent(const pk_http2_session *session, pk_http2_sent_block *sent, unsigned status,
                      const pk_field *fields, size_t count, const uint8_t *block, size_t length)
{
    sent->length = 0;
    if (length > sizeof sent->block || count > UINT8_MAX)
        return;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t name = fields[i].name.length, value = fields[i].value.length;
        if (fields[i].sensitive || name > UINT8_MAX || value > UINT8_MAX ||
            name + value + 2 > sizeof sent->texts - used)
            return;
        uint8_t *text = sent->texts + used;
        text[0] = (uint8_t) name;
        text[1] = (uint8_t) value;
        memcpy(text + 2, fields[i].name.bytes, name);
        memcpy(text + 2 + name, fields[i].value.bytes, value);
        used += name + value + 2;
    }
    memcpy(sent->block, block, length);
    sent->length = (uint8_t) length;
    sent->status = (uint16_t) status;
    sent->count = (uint8_t) count;
    sent->table_changes = session->table_changes;
}

/* ---- Encoding ---- */

static void put_frame_head(uint8_t *ret_head, size_t length, uint8_t type, uint8_t flags,
                           int32_t id)
{
    ret_head[0] = (uint8_t) (length >> 16);
    ret_head[1] = (uint8_t) (length >> 8);
    ret_head[2] = (uint8_t) length;
    ret_head[3] = type;
    ret_head[4] = flags;
    for (unsigned i = 0; i < 4; i++)
        ret_head[5 + i] = (uint8_t) ((uint32_t) id >> (24 - 8 * i));
}

/* The frames of one block. */
static int put_frames(pk_http2_session *session, int32_t id, uint8_t flags, const uint8_t *block,
                      size_t length)
{
    uint8_t type = NGHTTP2_HEADERS;
    do {
        uint8_t head[FRAME_HEAD];
        size_t part = length < FRAME_MOST ? length : FRAME_MOST;
        length -= part;
        put_frame_head(head, part, type,
                       (uint8_t) (flags | (length == 0 ? NGHTTP2_FLAG_END_HEADERS : 0)), id);
        if (pk_output_copy(session->output, head, sizeof head) < 0 ||
            pk_output_copy(session->output, block, part) < 0)
            return PK_ERR_NOMEM;
        block += part;
        type = CONTINUATION;
        flags = 0;
    } while (length > 0);
    return 0;
}

/* A block being encoded: on the stack where it is small. */
struct encoding {
    nghttp2_nv few[FIELDS_ON_STACK], *fields;
    size_t count;
    uint8_t small[BLOCK_ON_STACK], *block;
    size_t room;
    char status[3];
};

static int encoding_init(struct encoding *encoding, pk_http2_session *session, unsigned status,
                         const pk_field *fields, size_t count)
{
    size_t at = status > 0;
    encoding->count = at + count;
    encoding->fields = encoding->few;
    encoding->block = encoding->small;
    if (encoding->count > FIELDS_ON_STACK)
        encoding->fields = pk_memory_get(session->memory, encoding->count * sizeof(nghttp2_nv));
    if (!encoding->fields)
        return PK_ERR_NOMEM;
    if (status > 0) {
        for (size_t i = 3, rest = status; i > 0; i--, rest /= 10)
            encoding->status[i - 1] = (char) ('0' + rest % 10);
        encoding->fields[0] = (nghttp2_nv){.name = (uint8_t *) (uintptr_t) ":status",
                                           .namelen = 7,
                                           .value = (uint8_t *) encoding->status,
                                           .valuelen = 3};
    }
    for (size_t i = 0; i < count; i++) {
        encoding->fields[at + i] =
            (nghttp2_nv){.name = (uint8_t *) (uintptr_t) fields[i].name.bytes,
                         .value = (uint8_t *) (uintptr_t) fields[i].value.bytes,
                         .namelen = fields[i].name.length,
                         .valuelen = fields[i].value.length,
                         .flags = fields[i].sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : 0};
    }
    encoding->room =
        nghttp2_hd_deflate_bound(library_of(session), encoding->fields, encoding->count);
    if (encoding->room > sizeof encoding->small)
        encoding->block = pk_memory_get(session->memory, encoding->room);
    return encoding->block ? 0 : PK_ERR_NOMEM;
}

static void encoding_done(struct encoding *encoding, pk_memory *memory)
{
    if (encoding->block != encoding->small)
        pk_memory_put(memory, encoding->block, encoding->room);
    if (encoding->fields != encoding->few)
        pk_memory_put(memory, encoding->fields, encoding->count * sizeof(nghttp2_nv));
}

/* Encodes the block anew. */
static int encode(pk_http2_session *session, int32_t id, uint8_t flags, unsigned status,
                  const pk_field *fields, size_t count, pk_http2_sent_block *sent)
{
    struct encoding encoding;
    ssize_t length = -1;
    if (encoding_init(&encoding, session, status, fields, count) == 0)
        length = nghttp2_hd_deflate_hd(library_of(session), encoding.block, encoding.room,
                                       encoding.fields, encoding.count);
    int r = PK_ERR_NOMEM;
    if (length >= 0) {
        if (pk_hpack_block_inert(encoding.block, (size_t) length))
            keep_sent(session, sent, status, fields, count, encoding.block, (size_t) length);
        else
            session->table_changes++;
        r = put_frames(session, id, flags, encoding.block, (size_t) length);
    }
    encoding_done(&encoding, session->memory);
    return r;
}

int pk_http2_session_put_fields(pk_http2_session *session, int32_t id, bool ended, unsigned status,
                                const pk_field *fields, size_t count, pk_http2_sent_block *sent)
{
    uint8_t flags = ended ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
    if (PK_UNLIKELY(!was_sent(session, sent, status, fields, count)))
        return encode(session, id, flags, status, fields, count, sent);
    uint8_t frame[FRAME_HEAD + sizeof sent->block];
    put_frame_head(frame, sent->length, NGHTTP2_HEADERS,
                   (uint8_t) (flags | NGHTTP2_FLAG_END_HEADERS), id);
    memcpy(frame + FRAME_HEAD, sent->block, sizeof sent->block);
    return pk_output_copy(session->output, frame, FRAME_HEAD + sent->length);
}
