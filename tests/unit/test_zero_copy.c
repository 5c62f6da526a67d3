/*
 * Messages of calls that are decoded where their bytes were gathered, and those that are copied:
 * what they point into, how long they can be read, and what the exchange is told of their bytes.
 */
#include <pekoe/generated.h>
#include <pekoe/testing.h>

#include "core/loop.h"
#include "handlers/streaming/stream.h"
#include "live.pekoe.h"
#include "tests/support/client_kit.h"
#include "tests/support/counting_allocator.h"

#include <stdlib.h>

/* ---- A router without a socket, and exchanges that remember what they were told ---- */

#define DATA 3000u /* bytes of a message's data: more than a block of a call */

static struct {
    counting_allocator counts;
    pk_loop *loop;
    pk_router *router;
    const pk_exchange_ops *ops; /* the exchange's own */
    size_t held;                /* what it was told last */
    unsigned told;
    pk_promise *pending; /* of the handler that waits */
    pk_call *call;
    pk_reader *in;
    const void *message; /* of the handler */
} seen;

static void remember_held(pk_exchange *exchange, size_t bytes)
{
    seen.held = bytes;
    seen.told++;
}

static pk_future wait_with(pk_call *call, const void *message)
{
    seen.call = call;
    seen.message = message;
    seen.pending = pk_promise_new(pk_call_scope(call));
    return pk_promise_future(seen.pending);
}

static pk_future place(void *self, pk_call *call, const Live__InPlace *request)
{
    return wait_with(call, request);
}

static pk_future copy(void *self, pk_call *call, const Live__Copied *request)
{
    return wait_with(call, request);
}

static pk_future stream(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    seen.in = in;
    return wait_with(call, NULL);
}

static const live_live_impl waiting = {.place = place, .copy = copy, .stream = stream};

static void open_router(void)
{
    memset(&seen, 0, sizeof seen);
    pk_allocator allocator = {counting_resize, &seen.counts};
    cr_assert_eq(pk_loop_new(&seen.loop, PK_LOOP_OPTS(.allocator = &allocator)), 0);
    cr_assert_eq(pk_router_new(&seen.router, seen.loop, NULL), 0);
    cr_assert_eq(live_live_route(seen.router, &waiting, NULL), 0);
}

static void close_router(void)
{
    pk_router_free(seen.router);
    pk_loop_end_turn(seen.loop);
    cr_assert_eq(seen.loop->buffers.lent, 0u);
    pk_loop_free(seen.loop);
    cr_assert_eq(seen.counts.blocks, 0u);
}

static pk_test_exchange *open_call(const char *path)
{
    static pk_exchange_ops listening;
    pk_test_exchange *x = pk_test_exchange_new(
        seen.router, &(pk_test_request){.path = path, .content_type = "application/grpc"});
    cr_assert_not_null(x);
    /* A test's exchange begins with that of the seam. */
    pk_exchange *exchange = (pk_exchange *) x;
    listening = *exchange->ops;
    listening.hold = remember_held;
    exchange->ops = &listening;
    return x;
}

/* A message in its frame: name "n", then DATA bytes that are all `fill`. */
static size_t frame(uint8_t *at, uint8_t fill)
{
    const size_t length = 3 + 3 + DATA;
    memcpy(at, (uint8_t[]){0, 0, 0, (uint8_t) (length >> 8), (uint8_t) length}, 5);
    memcpy(at + 5, "\x0a\x01n\x12", 4);
    at[9] = (uint8_t) (DATA & 0x7f) | 0x80;
    at[10] = (uint8_t) (DATA >> 7);
    memset(at + 11, fill, DATA);
    return 5 + length;
}

/* In pieces, so that it must be gathered. What was sent is overwritten at once. */
static void send_in_pieces(pk_test_exchange *x, uint8_t fill)
{
    uint8_t bytes[DATA + 16];
    size_t length = frame(bytes, fill);
    pk_test_exchange_send(x, bytes, 100);
    pk_test_exchange_send(x, bytes + 100, length - 100);
    memset(bytes, 0xff, sizeof bytes);
}

static void expect_message(const void *message, uint8_t fill)
{
    const Live__InPlace *in_place = message; /* the two kinds have the same members */
    cr_assert_str_eq(in_place->name, "n");
    cr_assert_eq(in_place->data.len, DATA);
    for (size_t i = 0; i < DATA; i++)
        cr_assert_eq(in_place->data.data[i], fill);
}

static bool lies_in(const pk_buffer *buffer, const void *message)
{
    const uint8_t *data = ((const Live__InPlace *) message)->data.data;
    return buffer && data >= buffer->memory && data < buffer->memory + buffer->capacity;
}

/* Gathers and drops a message, so that whatever buffer the pool has to give is overwritten. */
static void overwrite_buffers(void)
{
    pk_test_exchange *others[3];
    pk_promise *pending = seen.pending;
    pk_call *call = seen.call;
    const void *message = seen.message;
    size_t held = seen.held;
    for (int i = 0; i < 3; i++) {
        others[i] = open_call("/live.Live/Copy");
        send_in_pieces(others[i], 0xee);
    }
    for (int i = 0; i < 3; i++)
        pk_test_exchange_free(others[i]);
    seen.pending = pending;
    seen.call = call;
    seen.message = message;
    seen.held = held;
}

/* ---- One message ---- */

Test(zero_copy, only_types_that_ask_for_it_have_the_flag)
{
    cr_assert(live_in_place_type.flags & PK_MESSAGE_ZERO_COPY);
    cr_assert_not_null(live_in_place_type.decode);
    cr_assert_not(live_copied_type.flags & PK_MESSAGE_ZERO_COPY);
}

static void read_once_more(void *arg)
{
    overwrite_buffers();
    expect_message(seen.message, 'a');
    seen.message = NULL;
}

Test(zero_copy, a_request_stays_readable_until_its_call_has_gone)
{
    open_router();
    pk_test_exchange *x = open_call("/live.Live/Place");
    send_in_pieces(x, 'a');
    pk_test_exchange_end(x);
    cr_assert(lies_in(seen.call->kept, seen.message));
    cr_assert_eq(seen.held, seen.call->kept->capacity, "its bytes are counted");
    overwrite_buffers();
    expect_message(seen.message, 'a');
    /* The last that the handler hears of its call. */
    cr_assert_eq(pk_call_on_end(seen.call, read_once_more, NULL), 0);
    pk_test_exchange_cancel(x);
    cr_assert_null(seen.message);
    pk_test_exchange_free(x);
    close_router();
}

Test(zero_copy, a_request_that_is_copied_points_into_no_buffer)
{
    open_router();
    pk_test_exchange *x = open_call("/live.Live/Copy");
    send_in_pieces(x, 'b');
    pk_test_exchange_end(x);
    cr_assert_null(seen.call->kept);
    cr_assert_not(lies_in(seen.call->body.frames.gathered, seen.message));
    pk_body_reader_done(&seen.call->body); /* the buffer goes back ... */
    overwrite_buffers();                   /* ... and is used again */
    expect_message(seen.message, 'b');
    pk_test_exchange_free(x);
    close_router();
}

Test(zero_copy, bytes_of_the_transport_are_copied)
{
    open_router();
    uint8_t bytes[DATA + 16];
    pk_test_exchange *x = open_call("/live.Live/Place");
    size_t length = frame(bytes, 'c');
    pk_test_exchange_send(x, bytes, length); /* whole: nobody has gathered it */
    memset(bytes, 0xff, sizeof bytes);
    pk_test_exchange_end(x);
    cr_assert_null(seen.call->kept);
    cr_assert_eq(seen.told, 0u);
    expect_message(seen.message, 'c');
    pk_test_exchange_free(x);
    close_router();
}

Test(zero_copy, what_cannot_be_decoded_in_place_holds_nothing)
{
    open_router();
    uint8_t bytes[DATA + 16];
    pk_test_exchange *x = open_call("/live.Live/Place");
    size_t length = frame(bytes, 'd');
    bytes[9] |= 0x80;
    bytes[10] |= 0x80; /* a length that does not end there */
    pk_test_exchange_send(x, bytes, 100);
    pk_test_exchange_send(x, bytes + 100, length - 100);
    pk_test_exchange_end(x);
    cr_assert_str_eq(pk_test_exchange_field(x, "grpc-status"), "13");
    pk_test_exchange_free(x);
    close_router();
}

/* ---- Streams ---- */

static pk_future keep_value(const void *value, void *arg)
{
    *(const void **) arg = value;
    return pk_done(NULL);
}

/* Asks for a message, which then comes in pieces. */
static const void *next(pk_test_exchange *x, bool take, uint8_t fill)
{
    const void *message = NULL;
    pk_scope *outer = pk_current.scope;
    pk_current.scope = pk_call_scope(seen.call);
    pk_detach(
        pk_then(take ? pk_reader_take(seen.in) : pk_reader_read(seen.in), keep_value, &message));
    pk_current.scope = outer;
    pk_loop_end_turn(seen.loop);
    send_in_pieces(x, fill);
    pk_loop_end_turn(seen.loop);
    cr_assert_not_null(message);
    expect_message(message, fill);
    return message;
}

Test(zero_copy, a_streamed_message_holds_its_buffer_until_the_next_read)
{
    open_router();
    pk_test_exchange *x = open_call("/live.Live/Stream");
    const void *first = next(x, false, 'e');
    cr_assert(lies_in(seen.in->kept, first));
    size_t capacity = seen.in->kept->capacity;
    cr_assert_eq(seen.held, capacity);
    send_in_pieces(x, 'f'); /* it waits, and the first is still there */
    expect_message(first, 'e');
    pk_future second = pk_reader_read(seen.in); /* whole when it is read: it is copied */
    cr_assert_eq(second.state, PK_FUTURE_DONE);
    expect_message(second.pointer, 'f');
    cr_assert_null(seen.in->kept);
    cr_assert_eq(seen.held, 0u);
    const void *third = next(x, false, 'g');
    cr_assert(lies_in(seen.in->kept, third));
    (void) pk_promise_done(seen.pending, NULL);
    pk_loop_end_turn(seen.loop);
    pk_test_exchange_free(x);
    close_router();
}

Test(zero_copy, a_taken_message_holds_its_buffer_until_it_is_given_back)
{
    open_router();
    pk_test_exchange *x = open_call("/live.Live/Stream");
    const void *first = next(x, true, 'h');
    size_t each = seen.held;
    cr_assert_gt(each, DATA);
    const void *second = next(x, true, 'i');
    cr_assert_eq(seen.held, 2 * each);
    overwrite_buffers();
    expect_message(first, 'h');
    expect_message(second, 'i');
    pk_reader_give_back(seen.in, first);
    cr_assert_eq(seen.held, each);
    expect_message(second, 'i'); /* goes with the call */
    (void) pk_promise_done(seen.pending, NULL);
    pk_loop_end_turn(seen.loop);
    pk_test_exchange_free(x);
    close_router();
}

/* ---- A client's reply ---- */

#define LARGE 100000u /* more than a frame of HTTP/2: it comes in pieces */

static pk_future answer_large(void *self, pk_call *call, const Live__InPlace *request)
{
    Live__InPlace *reply = live_in_place_new(call);
    reply->name = (char *) "large";
    reply->data.data = pk_call_alloc(call, LARGE);
    reply->data.len = LARGE;
    memset(reply->data.data, request->data.len == 1 ? request->data.data[0] : 0, LARGE);
    return live_in_place_done(reply);
}

Test(zero_copy, a_reply_holds_its_buffer_as_long_as_its_call)
{
    static const live_live_impl impl = {.place = answer_large};
    struct client_kit kit = client_kit_open(&live_live_service, &impl, NULL, NULL, NULL);
    pk_call *calls[3];
    const void *replies[3];
    for (int i = 0; i < 3; i++) {
        uint8_t fill = (uint8_t) ('a' + i);
        Live__InPlace request = LIVE__IN_PLACE__INIT;
        request.data = (ProtobufCBinaryData){.len = 1, .data = &fill};
        pk_status status = pk_loop_run_until(
            kit.loop, live_live_place(kit.channel, &request, PK_CALL_OPTS(.call = &calls[i])),
            &replies[i]);
        cr_assert_eq(status.code, PK_OK);
        cr_assert(lies_in(calls[i]->kept, replies[i]));
    }
    for (int i = 0; i < 3; i++) {
        const Live__InPlace *reply = replies[i];
        cr_assert_str_eq(reply->name, "large");
        cr_assert_eq(reply->data.len, LARGE);
        for (size_t k = 0; k < LARGE; k++)
            cr_assert_eq(reply->data.data[k], (uint8_t) ('a' + i));
        pk_call_unref(calls[i]);
    }
    client_kit_close(&kit);
}
