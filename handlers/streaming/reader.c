/*
 * The pull side of a stream: bytes wait until the handler asks, and a message that is there already
 * costs a function call.
 *
 * Flow control: what arrives is owed to the peer until a read has used it up. A reader that stops
 * therefore lets the peer send one window and no more. Bytes that wait are copied out of the
 * transport's buffer, since a small piece must not pin a large one.
 */
#include "core/status.h"
#include "handlers/client_call.h"
#include "handlers/filter.h"
#include "handlers/streaming/stream.h"
#include "marshalling/protocol_frames.h"

#include <stdarg.h>
#include <string.h>

/* Credit is given back in pieces of this many bytes, or when the reader waits. */
#define CREDIT_PIECE 16384u

/* A message with memory of its own. Its root is copied behind this, so that it can be found. */
struct pk_taken {
    struct pk_taken *next, **previous;
    pk_arena arena;
    pk_buffer *kept; /* what it was decoded in; NULL: it was copied */
    size_t size;     /* of this block */
    _Alignas(PK_ARENA_ALIGNMENT) uint8_t root[];
};

static void release_reader(struct pk_call_release *release);

void pk_reader_open(pk_reader *reader, pk_call *call, const pk_message_type *type)
{
    reader->release.fn = release_reader;
    pk_call_on_release(call, &reader->release);
    reader->call = call;
    reader->type = type;
    pk_arena_init(&reader->arena, call->scope.arena.memory, 0);
    reader->wait = (struct pk_stream_wait){NULL, NULL, NULL};
    reader->kept = NULL;
    reader->kept_bytes = 0;
    reader->taken = NULL;
    reader->unread = NULL;
    reader->owed = 0;
    reader->held = 0;
    reader->lent = NULL;
    reader->asked = PK_READING_MESSAGE;
    reader->ended = false;
}

pk_call *pk_reader_call(pk_reader *reader)
{
    return reader->call;
}

/* ---- Flow control ---- */

/* Body bytes that have come and were not used up by a read. */
static size_t bytes_left(const pk_reader *reader)
{
    size_t left = pk_body_reader_left(&reader->call->body);
    return left + (reader->unread ? pk_buffer_length(reader->unread) : 0);
}

/* Gives credit back for what was used up, from `least` bytes on; at least 1. */
static void give_credit(pk_reader *reader, size_t least)
{
    pk_exchange *exchange = reader->call->exchange;
    if (PK_LIKELY(reader->owed < least))
        return;
    size_t left = bytes_left(reader);
    if (!exchange || reader->owed < left + least)
        return;
    /* What is decoded is not longer than what came (base64): never more than is owed. */
    exchange->ops->consume(exchange, reader->owed - left);
    reader->owed = left;
}

/*
 * Tells the exchange how much is kept beyond what is owed: an incomplete message, and the buffers
 * that messages were decoded in.
 */
static void tell_held(pk_reader *reader)
{
    size_t held = pk_body_reader_held(&reader->call->body) + reader->kept_bytes;
    if (PK_LIKELY(held == reader->held || !reader->call->exchange))
        return;
    reader->held = held;
    reader->call->exchange->ops->hold(reader->call->exchange, held);
}

/* Gives credit back for all that has come. */
static inline void give_all_credit(pk_reader *reader)
{
    pk_exchange *exchange = reader->call->exchange;
    if (PK_UNLIKELY(reader->owed == 0 || !exchange))
        return;
    exchange->ops->consume(exchange, reader->owed);
    reader->owed = 0;
}

/* Lets go of a buffer that a message was decoded in. */
static void drop_kept(pk_reader *reader, pk_buffer *kept)
{
    if (PK_LIKELY(!kept))
        return;
    reader->kept_bytes -= kept->capacity;
    pk_buffer_unref(kept);
}

/* What the last read has lent out goes. */
static void take_back(pk_reader *reader)
{
    drop_kept(reader, pk_steal(&reader->kept));
    if (reader->lent)
        pk_buffer_unref(pk_steal(&reader->lent));
}

/* ---- Messages with memory of their own ---- */

static void give_back(pk_reader *reader, struct pk_taken *taken)
{
    pk_memory *memory = reader->arena.memory;
    *taken->previous = taken->next;
    if (taken->next)
        taken->next->previous = taken->previous;
    pk_arena_done(&taken->arena);
    drop_kept(reader, taken->kept);
    pk_memory_put(memory, taken, taken->size);
}

static struct pk_taken *taken_of(const void *message)
{
    return (struct pk_taken *) ((uintptr_t) message - offsetof(struct pk_taken, root));
}

void pk_reader_give_back(pk_reader *reader, const void *message)
{
    if (!message)
        return;
    give_back(reader, taken_of(message));
    tell_held(reader);
}

/* Bytes of a decoded message's root. */
static size_t root_size(const pk_reader *reader)
{
    return reader->type ? reader->type->struct_size : sizeof(pk_raw_message);
}

/* Moves a message that was decoded into `arena` behind a header. NULL without memory. */
static const void *take_root(pk_reader *reader, pk_arena *arena, const void *message)
{
    size_t size = sizeof(struct pk_taken) + root_size(reader);
    struct pk_taken *taken = pk_memory_get(arena->memory, size);
    if (!taken)
        return NULL;
    *taken = (struct pk_taken){
        .next = reader->taken, .previous = &reader->taken, .arena = *arena, .size = size};
    if (taken->next)
        taken->next->previous = &taken->next;
    reader->taken = taken;
    memcpy(taken->root, message, root_size(reader));
    return taken->root;
}

/* The call's memory goes. */
static void release_reader(struct pk_call_release *release)
{
    pk_reader *reader = (pk_reader *) ((char *) release - offsetof(pk_reader, release));
    while (reader->taken)
        give_back(reader, reader->taken);
    take_back(reader);
    pk_arena_done(&reader->arena);
}

/* ---- Decoding ---- */

/* A message as it came: where its bytes are nobody else's they stay where they lie. */
static int keep_raw(const pk_body_message *message, pk_arena *arena, const void **ret_message,
                    pk_buffer **ret_kept, pk_status *ret_status)
{
    pk_raw_message *raw = pk_arena_try(arena, sizeof *raw);
    bool in_place = message->owned && message->holder;
    size_t length = message->bytes.length;
    uint8_t *copy = in_place ? NULL : pk_arena_try(arena, length + 1);
    *ret_kept = NULL;
    if (!raw || (!in_place && !copy)) {
        *ret_status = pk_status_no_memory;
        return PK_ERR_NOMEM;
    }
    if (in_place)
        *ret_kept = pk_buffer_ref(message->holder);
    else if (length > 0)
        memcpy(copy, message->bytes.bytes, length);
    *raw = (pk_raw_message){{in_place ? message->bytes.bytes : copy, length}, message->compressed};
    *ret_message = raw;
    return 0;
}

static int read_raw(pk_call *call, const pk_body_message *message, pk_arena *arena,
                    const void **ret_message, pk_buffer **ret_kept, pk_status *ret_status)
{
    int r = keep_raw(message, arena, ret_message, ret_kept, ret_status);
    if (r == 0)
        r = pk_filter_raw(call, true, ret_message, ret_status);
    if (r < 0)
        *ret_kept = pk_buffer_unref(*ret_kept);
    return r;
}

/* A raw message, or one whose bytes need not be copied. */
static __attribute__((noinline)) int unmarshal_owned(pk_reader *reader,
                                                     const pk_body_message *message,
                                                     pk_arena *arena, const void **ret_message,
                                                     pk_buffer **ret_kept, pk_status *ret_status)
{
    int r = !reader->type
                ? read_raw(reader->call, message, arena, ret_message, ret_kept, ret_status)
                : pk_body_unmarshal(&reader->call->encoding, reader->type, message, arena,
                                    ret_message, ret_kept, ret_status);
    if (*ret_kept)
        reader->kept_bytes += (*ret_kept)->capacity;
    return r;
}

static inline int unmarshal(pk_reader *reader, const pk_body_message *message, pk_arena *arena,
                            const void **ret_message, pk_buffer **ret_kept, pk_status *ret_status)
{
    const pk_encoding *encoding = &reader->call->encoding;
    if (PK_UNLIKELY(!reader->type || message->owned))
        return unmarshal_owned(reader, message, arena, ret_message, ret_kept, ret_status);
    *ret_kept = NULL;
    return pk_unmarshal(encoding->codec, encoding->backup, reader->type, message->bytes, arena,
                        ret_message, ret_status);
}

/* The same into a block of its own. */
static __attribute__((noinline)) int unmarshal_taken(pk_reader *reader,
                                                     const pk_body_message *message,
                                                     const void **ret_message,
                                                     pk_status *ret_status)
{
    pk_arena arena;
    pk_arena_init(&arena, reader->arena.memory, 0);
    pk_buffer *kept;
    int r = unmarshal(reader, message, &arena, ret_message, &kept, ret_status);
    if (r == 0) {
        *ret_message = take_root(reader, &arena, *ret_message);
        if (*ret_message) {
            taken_of(*ret_message)->kept = kept;
            return 0;
        }
        drop_kept(reader, kept);
        *ret_status = pk_status_no_memory;
        r = PK_ERR_NOMEM;
    } else {
        /* Its text may lie in the arena that goes. */
        *ret_status = pk_status_copy(&reader->call->scope.arena, ret_status);
    }
    pk_arena_done(&arena);
    return r;
}

/*
 * The message, with those that lie behind it, in one buffer. Where interceptors look at messages each
 * comes alone.
 */
static int collect(pk_reader *reader, const pk_body_message *message, size_t *ret_count,
                   bool *ret_compressed, pk_buffer **ret_buffer, pk_status *ret_status)
{
    pk_call *call = reader->call;
    int r;
    if (PK_UNLIKELY(pk_filter_sees_raw(call, true))) {
        const void *value;
        pk_buffer *kept;
        r = read_raw(call, message, &reader->arena, &value, &kept, ret_status);
        if (r < 0)
            return r;
        const pk_raw_message *raw = value;
        r = pk_frames_copy_message(call->body.marshalling->buffers, raw->bytes, raw->compressed,
                                   ret_buffer);
        *ret_compressed = raw->compressed;
        *ret_count = 1;
        pk_buffer_unref(kept);
    } else {
        r = pk_frames_collect(&call->body, message, ret_count, ret_buffer);
        *ret_compressed = message->compressed;
    }
    if (PK_UNLIKELY(r < 0))
        *ret_status = pk_status_no_memory;
    return r;
}

static int lend_frames(pk_reader *reader, const pk_body_message *message, const void **ret_frames,
                       pk_status *ret_status)
{
    pk_raw_frames *frames = &reader->frames;
    int r =
        collect(reader, message, &frames->count, &frames->compressed, &frames->buffer, ret_status);
    if (PK_UNLIKELY(r < 0))
        return r;
    frames->bytes = (pk_slice){frames->buffer->start, pk_buffer_length(frames->buffer)};
    if (PK_UNLIKELY(frames->buffer == message->holder)) {
        reader->kept = frames->buffer;
        reader->kept_bytes += frames->buffer->capacity;
    } else {
        reader->lent = frames->buffer;
    }
    *ret_frames = frames;
    return 0;
}

/*
 * A failure of the stream itself ends the call: what follows in it cannot be understood. While a
 * client's interceptors have not said what that means the call is open, and reads may be asked for:
 * they find nothing, neither in a chunk that is the transport's nor in what waited behind it.
 */
static void break_off(pk_reader *reader, const pk_status *status)
{
    pk_call *call = reader->call;
    call->fail(call, status);
    if (PK_UNLIKELY(pk_call_is_open(call))) {
        pk_body_reader_let_go(&call->body);
        reader->unread = pk_buffer_unref(reader->unread);
    }
}

/* Decodes for a read. False: the call has ended. Once in line for each of the three that call it. */
PK_INLINE bool decode(pk_reader *reader, const pk_body_message *message, enum pk_reading asked,
                      const void **ret_message)
{
    reader->call->request_compressed = message->compressed;
    pk_status status;
    int r;
    if (PK_LIKELY(asked == PK_READING_MESSAGE))
        r = unmarshal(reader, message, &reader->arena, ret_message, &reader->kept, &status);
    else if (asked == PK_READING_TAKEN)
        r = unmarshal_taken(reader, message, ret_message, &status);
    else
        r = lend_frames(reader, message, ret_message, &status);
    if (PK_LIKELY(r == 0)) {
        give_credit(reader, CREDIT_PIECE);
        tell_held(reader);
        return true;
    }
    break_off(reader, &status);
    return false;
}

/* ---- Reading ---- */

/* The next message of the bytes that are here. 1, or 0 for none, or negative after a failure. */
static int next_message(pk_reader *reader, pk_body_message *ret_message)
{
    pk_body_reader *body = &reader->call->body;
    int got;
    while ((got = pk_body_reader_next(body, ret_message)) == 0 && reader->unread) {
        pk_buffer *chunk = pk_steal(&reader->unread);
        int r = pk_body_reader_feed(body, chunk->start, pk_buffer_length(chunk), chunk);
        if (r == 0)
            r = pk_body_reader_keep(body);
        pk_buffer_unref(chunk);
        if (r < 0)
            return r;
    }
    return got;
}

/* What a read says after that: a client's interceptors may have to be waited for. */
static pk_future broken_off(const pk_call *call)
{
    return PK_UNLIKELY(pk_call_is_open(call)) ? (pk_future){.state = PK_FUTURE_PENDING}
                                              : pk_stream_ended(call);
}

/* What a read finds right now. Pending: nothing, and a promise is needed. */
static pk_future read_now(pk_reader *reader, enum pk_reading asked)
{
    pk_call *call = reader->call;
    pk_body_message message;
    const void *value = NULL;
    int got = next_message(reader, &message);
    if (PK_LIKELY(got > 0))
        return decode(reader, &message, asked, &value) ? pk_done(value) : broken_off(call);
    if (PK_LIKELY(got == 0)) {
        give_credit(reader, 1);
        tell_held(reader);
        if (!reader->ended)
            return (pk_future){.state = PK_FUTURE_PENDING};
        /* A server that says why it ended need not have come to the end of a message. */
        bool failed = call->client && call->client->status.code != PK_OK;
        got = failed ? 0 : pk_body_reader_end(&call->body);
        if (PK_LIKELY(got == 0))
            return call->client ? pk_stream_outcome(call) : pk_done(NULL);
    }
    break_off(reader, &call->body.status);
    return broken_off(call);
}

static pk_future ask(pk_reader *reader, enum pk_reading asked)
{
    pk_call *call = reader->call;
    if (PK_UNLIKELY(!pk_call_is_open(call)))
        return call->client ? pk_stream_outcome(call) : pk_stream_ended(call);
    if (PK_UNLIKELY(call->scope.arena.exhausted)) /* the handler's own memory may be scratch */
        return pk_failed_with(&pk_status_no_memory);
    if (PK_UNLIKELY(pk_stream_waits(&reader->wait)))
        return pk_failed(call, PK_INTERNAL, "a read is asked for while another one is pending");
    pk_arena_reset(&reader->arena);
    take_back(reader);
    pk_body_message message;
    const void *value;
    int got = pk_body_reader_next_plainly(&call->body, &message);
    if (PK_LIKELY(got > 0) && PK_LIKELY(decode(reader, &message, asked, &value)))
        return pk_done(value);
    if (got == 0 && !reader->unread && !reader->ended) {
        give_all_credit(reader);
        tell_held(reader);
    } else {
        pk_future now = got > 0 ? broken_off(call) : read_now(reader, asked);
        if (PK_LIKELY(now.state != PK_FUTURE_PENDING))
            return now;
    }
    reader->asked = asked;
    return pk_stream_wait(call, &reader->wait);
}

pk_future pk_reader_read(pk_reader *reader)
{
    return ask(reader, PK_READING_MESSAGE);
}

pk_future pk_reader_take(pk_reader *reader)
{
    return ask(reader, PK_READING_TAKEN);
}

pk_future pk_reader_read_frames(pk_reader *reader)
{
    if (PK_UNLIKELY(reader->type != NULL))
        return pk_failed(reader->call, PK_INTERNAL, "frames are read of a call that is not raw");
    return ask(reader, PK_READING_FRAMES);
}

/* ---- Memory beside a message ---- */

/* The call, too, has to answer for scratch that was handed out. */
static void pass_exhaustion(pk_reader *reader, const pk_arena *arena)
{
    if (PK_UNLIKELY(arena->exhausted))
        reader->call->scope.arena.exhausted = true;
}

void *pk_reader_alloc(pk_reader *reader, size_t size)
{
    void *memory = pk_arena_zeroed(&reader->arena, size);
    pass_exhaustion(reader, &reader->arena);
    return memory;
}

void *pk_reader_alloc_with(pk_reader *reader, const void *message, size_t size)
{
    pk_arena *arena = &taken_of(message)->arena;
    void *memory = pk_arena_zeroed(arena, size);
    pass_exhaustion(reader, arena);
    return memory;
}

char *pk_reader_printf(pk_reader *reader, const char *format, ...)
{
    char *text;
    PK_ARENA_PRINT(text, &reader->arena, format);
    pass_exhaustion(reader, &reader->arena);
    return text;
}

/* ---- What the exchange tells ---- */

/* Keeps what is left of a chunk that a pending read got. */
static void keep_rest(pk_reader *reader)
{
    pk_body_reader *body = &reader->call->body;
    if (PK_UNLIKELY(pk_body_reader_left(body) > 0 && pk_body_reader_keep(body) < 0))
        break_off(reader, &body->status);
}

/*
 * Settles the pending read and lets whoever waits for it go on at once: what it reads next may be
 * here, in the transport's buffer still. Where the loop drains its ready queue already, that waits
 * for its place in there.
 */
static void settle_pending(pk_reader *reader, const void *message)
{
    pk_call *call = reader->call;
    pk_scope_pin(&call->scope); /* steps may end the call, and close its exchange */
    pk_stream_settle(&reader->wait, pk_done(message));
    pk_loop_drain(call->loop);
    if (PK_LIKELY(pk_call_is_open(call)))
        keep_rest(reader);
    pk_scope_unpin(&call->scope);
}

/* The same, if what came is enough for it. */
static void serve_pending(pk_reader *reader)
{
    pk_future now = read_now(reader, reader->asked);
    if (now.state == PK_FUTURE_DONE)
        settle_pending(reader, now.pointer);
}

/* Keeps bytes for later reads. */
static void keep_unread(pk_reader *reader, const uint8_t *bytes, size_t length)
{
    if (!reader->unread) {
        reader->unread = pk_buffer_get(reader->call->encoding.marshalling->buffers);
        if (reader->unread)
            pk_buffer_rewind_for_append(reader->unread, 0);
    }
    if (!reader->unread || pk_buffer_append(reader->unread, bytes, length) < 0)
        break_off(reader, &pk_status_no_memory);
}

/* A chunk for a pending read, which has used up all that came before. */
static __attribute__((noinline)) void take_chunk(pk_reader *reader, const uint8_t *bytes,
                                                 size_t length)
{
    pk_body_reader *body = &reader->call->body;
    if (PK_LIKELY(pk_body_reader_feed(body, bytes, length, NULL) == 0))
        serve_pending(reader);
    else
        break_off(reader, &body->status);
}

/* The same where `message` is the first that it completes. */
static __attribute__((noinline)) void take_message(pk_reader *reader,
                                                   const pk_body_message *message)
{
    const void *value;
    if (PK_LIKELY(decode(reader, message, reader->asked, &value)))
        settle_pending(reader, value);
}

void pk_reader_data(pk_reader *reader, const uint8_t *bytes, size_t length)
{
    pk_call *call = reader->call;
    if (!pk_stream_is_awaited(&reader->wait)) {
        reader->owed += length;
        keep_unread(reader, bytes, length);
        return;
    }
    pk_body_message message;
    int got = pk_body_reader_feed_short(&call->body, bytes, length, &message);
    if (got == 0) {
        /* What came before is not owed any more. */
        call->exchange->ops->consume(call->exchange, length);
        return;
    }
    reader->owed += length;
    if (PK_LIKELY(got > 0))
        take_message(reader, &message);
    else
        take_chunk(reader, bytes, length);
}

void pk_reader_end(pk_reader *reader)
{
    reader->ended = true;
    if (pk_stream_is_awaited(&reader->wait))
        serve_pending(reader);
}

/* ---- The end ---- */

void pk_reader_close(pk_reader *reader)
{
    give_all_credit(reader);
    reader->owed = 0;
    reader->unread = pk_buffer_unref(reader->unread);
    pk_stream_forget(&reader->wait);
}
