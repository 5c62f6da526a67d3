/*
 * Fuzzes a server's HTTP/2 side without a socket: the input is what a peer sends. The first byte
 * says whether a preface goes in front and into how large pieces the bytes are cut.
 *
 * Checked: every exchange is closed once, events come in order, every buffer comes back.
 */
#include "../support/path_acceptor.h"
#include "core/loop.h"
#include "transport/http2_exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void output_wanted(pk_http2_exchanges *exchanges)
{
}

static uint64_t no_time(const void *context)
{
    return 0;
}

/* Takes all output and drops it, as if the socket had taken it. False: the session has ended. */
static bool drop_output(pk_http2_exchanges *exchanges, pk_output *output)
{
    int more;
    do {
        more = pk_http2_session_take(&exchanges->session, output, 65536);
        if (more < 0)
            return false;
        pk_output_advance(output, output->bytes);
        if (exchanges->session.event_count > 0) {
            pk_http2_dispatch(exchanges, NULL);
            more = 1;
        }
        pk_loop_drain(exchanges->loop);
    } while (more > 0);
    pk_http2_settle(exchanges, 0);
    return !pk_http2_session_over(&exchanges->session);
}

/* A copy of exactly its size, so that ASan sees a read past its end. */
static bool feed(pk_http2_exchanges *exchanges, pk_output *output, const uint8_t *bytes,
                 size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy)
        abort();
    if (length > 0)
        memcpy(copy, bytes, length);
    bool goes_on = pk_http2_session_feed(&exchanges->session, copy, length) == 0;
    if (goes_on)
        pk_http2_dispatch(exchanges, NULL);
    pk_loop_drain(exchanges->loop);
    free(copy);
    return goes_on && drop_output(exchanges, output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const pk_http2_limits limits = {.max_streams = 16,
                                           .stream_window = 65535,
                                           .connection_window = 65535,
                                           .header_bytes = 4096,
                                           .resets = 20,
                                           .resets_per_second = 1,
                                           .glitches = 50,
                                           .queued_frames = 100,
                                           .send_budget = 100000};
    static const pk_status gone = {.code = PK_CANCELLED};
    struct path_acceptor acceptor;
    pk_http2_exchanges exchanges;
    pk_output output;
    pk_loop *loop;
    if (size == 0 || pk_loop_new(&loop, NULL) < 0)
        return 0;
    path_acceptor_init(&acceptor);
    acceptor.bounded = true;
    exchanges = (pk_http2_exchanges){.loop = loop,
                                     .peer = &(pk_peer){"unix:", NULL},
                                     .acceptor = &acceptor.acceptor,
                                     .header_bytes = 1024,
                                     .budget = 200000,
                                     .output_wanted = output_wanted};
    if (pk_http2_session_init(&exchanges.session, true, &loop->memory, &limits,
                              pk_http2_exchange_size, no_time, NULL) < 0)
        abort();
    pk_output_init(&output, &loop->buffers);
    size_t piece = data[0] >> 1 ? (size_t) (data[0] >> 1) : size;
    bool goes_on = !(data[0] & 1) || feed(&exchanges, &output, greeting, sizeof greeting - 1);
    for (size_t at = 1; goes_on && at < size; at += piece)
        goes_on = feed(&exchanges, &output, data + at, size - at < piece ? size - at : piece);
    if (goes_on) {
        pk_http2_tick(&exchanges);
        path_acceptor_answer(&acceptor);
        drop_output(&exchanges, &output);
    }
    pk_output_done(&output);
    pk_http2_lose(&exchanges, &gone);
    pk_http2_session_done(&exchanges.session);
    assert(acceptor.closed == acceptor.accepted + acceptor.refused);
    assert(acceptor.events_after_end == 0);
    assert(loop->buffers.lent == 0);
    pk_loop_free(loop);
    return 0;
}
