/*
 * A server's HTTP/2 session says the same of any bytes however they are cut. Where no frame comes
 * whole the library decodes each field block; where they come at once, blocks that repeat are known
 * (transport/http2_session_known.c). Both must give the same events, fields and output.
 */
#include "core/loop.h"
#include "transport/http2_session.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    uint64_t hash; /* of all that was said; how bodies are cut is not */
    int error;
};

static void add(struct outcome *outcome, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++)
        outcome->hash = (outcome->hash ^ at[i]) * UINT64_C(1099511628211);
    outcome->hash = (outcome->hash ^ length) * UINT64_C(1099511628211);
}

static void add_head(struct outcome *outcome, const pk_http2_fields *fields)
{
    for (size_t i = 0; i < fields->head.count; i++) {
        const pk_field *field = &fields->head.fields[i];
        add(outcome, field->name.bytes, field->name.length);
        add(outcome, field->value.bytes, field->value.length);
        add(outcome, &field->known, sizeof field->known);
        add(outcome, &field->sensitive, sizeof field->sensitive);
    }
    add(outcome, fields->head.first, sizeof fields->head.first);
    add(outcome, &fields->head.repeated, sizeof fields->head.repeated);
    add(outcome, &fields->bytes, sizeof fields->bytes);
}

static void add_event(struct outcome *outcome, const pk_http2_event *event)
{
    const pk_http2_stream *stream = event->stream;
    if (event->kind == PK_HTTP2_DATA)
        return;
    add(outcome, &event->kind, sizeof event->kind);
    add(outcome, &stream->id, sizeof stream->id);
    if (event->kind == PK_HTTP2_HEAD) {
        add_head(outcome, &stream->head);
        add(outcome, &stream->head_ended, sizeof stream->head_ended);
    } else if (event->kind == PK_HTTP2_END) {
        add_head(outcome, &stream->trailers);
    } else if (event->kind == PK_HTTP2_CLOSED) {
        add(outcome, &stream->error, sizeof stream->error);
    }
}

static void hear(struct outcome *outcome, pk_http2_session *session)
{
    for (size_t i = 0; i < session->event_count; i++) {
        pk_http2_event event = session->events[i];
        add_event(outcome, &event);
        if (event.kind == PK_HTTP2_CLOSED)
            pk_http2_release(event.stream);
    }
    pk_http2_session_clear(session);
}

static void take(struct outcome *outcome, pk_http2_session *session, pk_output *output)
{
    struct iovec pieces[64];
    if (pk_http2_session_take(session, output, SIZE_MAX) < 0)
        return;
    while (output->bytes > 0) {
        int count = pk_output_gather(output, pieces, 64);
        size_t length = 0;
        for (int i = 0; i < count; i++)
            length += pieces[i].iov_len;
        for (int i = 0; i < count; i++) {
            const uint8_t *at = pieces[i].iov_base;
            for (size_t n = 0; n < pieces[i].iov_len; n++)
                outcome->hash = (outcome->hash ^ at[n]) * UINT64_C(1099511628211);
        }
        pk_output_advance(output, length);
    }
}

static uint64_t no_time(const void *context)
{
    return 0;
}

static struct outcome outcome_of(pk_loop *loop, const uint8_t *bytes, size_t size, size_t piece)
{
    static const uint8_t greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const pk_http2_limits limits = {.max_streams = 50,
                                           .stream_window = 65535,
                                           .connection_window = 65535,
                                           .header_bytes = 4096,
                                           .resets = 20,
                                           .resets_per_second = 1,
                                           .glitches = 50,
                                           .queued_frames = 100,
                                           .send_budget = 100000};
    struct outcome outcome = {0};
    pk_http2_session session;
    pk_output output;
    if (pk_http2_session_init(&session, true, &loop->memory, &limits, sizeof(pk_http2_stream),
                              no_time, NULL) < 0)
        abort();
    pk_output_init(&output, &loop->buffers);
    outcome.error = pk_http2_session_feed(&session, greeting, sizeof greeting - 1);
    for (size_t at = 0; at < size && outcome.error == 0; at += piece) {
        size_t now = size - at < piece ? size - at : piece;
        uint8_t *exact = malloc(now);
        if (!exact)
            abort();
        memcpy(exact, bytes + at, now);
        outcome.error = pk_http2_session_feed(&session, exact, now);
        hear(&outcome, &session);
        free(exact);
    }
    take(&outcome, &session, &output);
    hear(&outcome, &session);
    while (session.ring)
        pk_http2_release(session.ring);
    pk_http2_session_done(&session);
    pk_output_done(&output);
    return outcome;
}

/*
 * Debian's nghttp2 counts the pieces that heads of CONTINUATION come in, and ends the connection at
 * the ninth: what is cut finer may fail where the other did not.
 */
static void compare(const struct outcome *fine, const struct outcome *coarse)
{
    if (fine->error == PK_ERR_MALFORMED && coarse->error == 0)
        return;
    if (fine->error != coarse->error || fine->hash != coarse->hash)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_loop *loop;
    if (size == 0 || pk_loop_new(&loop, NULL) < 0)
        return 0;
    struct outcome fine = outcome_of(loop, data, size, 8); /* a frame's head has nine bytes */
    struct outcome cut = outcome_of(loop, data, size, 97);
    struct outcome whole = outcome_of(loop, data, size, size);
    compare(&fine, &cut);
    compare(&fine, &whole);
    compare(&cut, &whole);
    pk_loop_free(loop);
    return 0;
}
