/*
 * Fuzzes a server's HTTP/1.1 side without a socket: the input is what a peer sends. The first byte
 * says into how large pieces the bytes are cut, and whether the peer reads what it gets.
 *
 * Checked: every exchange is closed once, events come in order, every buffer comes back.
 */
#include "../support/path_acceptor.h"
#include "core/loop.h"
#include "transport/http1_exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void wanted(pk_http1 *http1)
{
}

/* Runs until nothing is left to do; output is dropped, as if the socket had taken it. */
static bool run(pk_http1 *http1, bool peer_reads)
{
    pk_output *output = http1->terms.output;
    bool goes_on;
    do {
        goes_on = pk_http1_run(http1) == 0;
        pk_loop_drain(http1->terms.loop);
        if (peer_reads)
            pk_output_advance(output, output->bytes);
        pk_http1_settle(http1);
    } while (goes_on && pk_http1_runnable(http1));
    return goes_on && !pk_http1_over(http1);
}

/* A copy of exactly its size, so that ASan sees a read past its end. */
static bool feed(pk_http1 *http1, const uint8_t *bytes, size_t length, bool peer_reads)
{
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy)
        abort();
    if (length > 0)
        memcpy(copy, bytes, length);
    bool goes_on = pk_http1_feed(http1, copy, length, NULL) == 0;
    free(copy);
    return goes_on && run(http1, peer_reads);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pk_status gone = {.code = PK_CANCELLED};
    struct path_acceptor acceptor;
    pk_byte_budget server_bytes = {.limit = 300000};
    pk_output output;
    pk_http1 http1;
    pk_loop *loop;
    if (size == 0 || pk_loop_new(&loop, NULL) < 0)
        return 0;
    path_acceptor_init(&acceptor);
    acceptor.bounded = true;
    pk_output_init(&output, &loop->buffers);
    pk_http1_init(&http1, &(pk_http1_terms){.loop = loop,
                                            .peer = &(pk_peer){"unix:", NULL},
                                            .acceptor = &acceptor.acceptor,
                                            .output = &output,
                                            .header_bytes = 512,
                                            .header_bytes_max = 1024,
                                            .window = 64,
                                            .budget = 200000,
                                            .server_bytes = &server_bytes,
                                            .wanted = wanted});
    bool peer_reads = data[0] & 1, goes_on = true;
    size_t piece = data[0] >> 1 ? (size_t) (data[0] >> 1) : size;
    for (size_t at = 1; goes_on && at < size && !pk_http1_full(&http1); at += piece)
        goes_on = feed(&http1, data + at, size - at < piece ? size - at : piece, peer_reads);
    if (goes_on) {
        (void) pk_http1_tick(&http1, 1, 1);
        path_acceptor_answer(&acceptor);
        if (size & 1)
            pk_http1_drain(&http1);
        (void) run(&http1, true);
    }
    pk_http1_lose(&http1, &gone);
    pk_http1_done(&http1);
    pk_output_done(&output);
    assert(acceptor.closed == acceptor.accepted + acceptor.refused);
    assert(acceptor.events_after_end == 0);
    assert(server_bytes.used == 0);
    assert(loop->buffers.lent == 0);
    pk_loop_free(loop);
    return 0;
}
