/* The prepared exchange of the handler benchmarks: see handler_exchange.h. */
#include "jmh-like-bench/handler_exchange.h"

#include "core/loop.h"
#include "handlers/call.h"
#include "jmh-like-bench/wire_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Operations: what the handler does with the response ---- */

static struct pk_bench_exchange *of(pk_exchange *exchange)
{
    return (struct pk_bench_exchange *) exchange;
}

static void consume(pk_exchange *exchange, size_t length)
{
}

static void hold(pk_exchange *exchange, size_t bytes)
{
}

static void start(pk_exchange *exchange, unsigned http_status, const pk_field *fields, size_t count)
{
    of(exchange)->http_status = http_status;
    of(exchange)->fields_read += count;
}

static bool write_body(pk_exchange *exchange, pk_buffer *body_take)
{
    struct pk_bench_exchange *bench = of(exchange);
    size_t length = body_take ? pk_buffer_length(body_take) : 0;
    if (length > 0 && bench->response_length + length <= sizeof bench->response) {
        memcpy(bench->response + bench->response_length, body_take->start, length);
        bench->response_length += length;
    }
    pk_buffer_unref(body_take);
    return true;
}

static void finish(pk_exchange *exchange, const pk_field *trailers, size_t count)
{
    struct pk_bench_exchange *bench = of(exchange);
    for (size_t i = 0; i < count; i++)
        bench->trailers_read += trailers[i].value.length + trailers[i].value.bytes[0];
    bench->finished = true;
    bench->responses++;
}

static void reply_strict(pk_exchange *exchange, const pk_reply *reply)
{
    start(exchange, reply->http_status, reply->fields, reply->field_count);
    if (reply->body)
        (void) write_body(exchange, reply->body);
    finish(exchange, reply->trailers, reply->trailer_count);
}

static void reset(pk_exchange *exchange, pk_reset why)
{
}

static const pk_exchange_ops operations = {
    .consume = consume,
    .reply_strict = reply_strict,
    .start = start,
    .write = write_body,
    .finish = finish,
    .reset = reset,
    .hold = hold,
};

/* ---- The prepared request ---- */

static void add_field(struct pk_bench_exchange *bench, const char *name, const char *value)
{
    pk_slice key = {(const uint8_t *) name, strlen(name)};
    pk_slice text = {(const uint8_t *) value, strlen(value)};
    pk_field_name known = pk_field_lookup(key);
    bench->fields[bench->head.count++] =
        (pk_field){.name = key, .value = text, .known = (uint8_t) known};
    if (known != PK_FIELD_OTHER)
        bench->head.first[known] = (uint16_t) bench->head.count;
}

/* One HelloRequest with its prefix; a name that is worth compressing where it is compressed. */
static size_t make_message(uint8_t *out, size_t room, bool compressed)
{
    uint8_t message[256] = {0x0a, 5, 'A', 'l', 'i', 'c', 'e'};
    size_t length = 7;
    if (compressed) {
        message[1] = 0xa0; /* 160 bytes */
        message[2] = 0x01;
        for (size_t i = 0; i < 160; i++)
            message[3 + i] = (uint8_t) "Alice"[i % 5];
        length = 163;
    }
    return pk_bench_frame(message, length, compressed, out, room);
}

static const pk_peer bench_peer = {"bench:", NULL};

static bool is_one_of(const char *value, const char *const *names)
{
    while (*names && strcmp(value, *names) != 0)
        names++;
    return *names != NULL;
}

void pk_bench_exchange_init(struct pk_bench_exchange *bench, pk_bench_context *context,
                            pk_router *router, const char *path, unsigned messages)
{
    const char *protocol = pk_bench_value(context, "protocol");
    const char *codec = pk_bench_value(context, "codec");
    if (!is_one_of(protocol, PK_BENCH_VALUES("grpc", "grpc-web", "grpc-web-text")) ||
        !is_one_of(codec, PK_BENCH_VALUES("identity", "gzip")))
        pk_bench_fail(context, "there is no protocol %s with the codec %s", protocol, codec);
    bool compressed = strcmp(codec, "gzip") == 0;
    bool web = strncmp(protocol, "grpc-web", 8) == 0;
    bool text = strcmp(protocol, "grpc-web-text") == 0;
    bench->exchange = (pk_exchange){.ops = &operations, .loop = router->loop, .peer = &bench_peer};
    bench->acceptor = pk_router_acceptor(router);
    add_field(bench, ":method", "POST");
    add_field(bench, ":scheme", "http");
    add_field(bench, ":path", path);
    add_field(bench, ":authority", "localhost");
    add_field(bench, "content-type",
              text  ? "application/grpc-web-text+proto"
              : web ? "application/grpc-web+proto"
                    : "application/grpc+proto");
    if (text)
        add_field(bench, "accept", "application/grpc-web-text");
    add_field(bench, "te", "trailers");
    add_field(bench, "user-agent", "pekoe-bench/1");
    if (compressed)
        add_field(bench, "grpc-encoding", "gzip");
    add_field(bench, "grpc-accept-encoding", compressed ? "gzip" : "identity");
    bench->head.fields = bench->fields;

    uint8_t plain[PK_BENCH_BODY / 2];
    size_t length = 0;
    for (unsigned i = 0; i < messages; i++)
        length += make_message(plain + length, sizeof plain - length, compressed);
    if (text) {
        bench->body_length = pk_bench_encode_base64(plain, length, bench->body);
    } else {
        memcpy(bench->body, plain, length);
        bench->body_length = length;
    }
    bench->chunk = bench->body_length / messages / 2 + 1;
}

static void accept_unrouted(void *self, pk_exchange *exchange, const pk_head *head, bool ended)
{
    const struct pk_bench_unrouted *unrouted = self;
    pk_router *router = unrouted->router;
    pk_call *call = pk_call_open(router, exchange, head, unrouted->protocol, &router->encoding,
                                 router->receive_limit);
    if (!call)
        abort();
    router->open_calls++;
    exchange->user = call;
    call->method = unrouted->method;
    call->path = unrouted->method->path;
    call->impl = unrouted->impl;
    call->self = unrouted->self;
    call->encoding.compressor = unrouted->compressor;
    pk_body_reader_set_incoming(&call->body, unrouted->compressor);
    unrouted->method->serve(call, ended);
}

void pk_bench_exchange_unroute(struct pk_bench_exchange *bench, struct pk_bench_unrouted *unrouted)
{
    const pk_head *head = &bench->head;
    pk_slice accepted = pk_head_value(head, PK_FIELD_GRPC_ACCEPT_ENCODING);
    unrouted->protocol = pk_protocol_for(pk_head_value(head, PK_FIELD_CONTENT_TYPE),
                                         PK_PROTOCOLS_GRPC | PK_PROTOCOLS_GRPC_WEB);
    unrouted->compressor = pk_negotiate_accepted(&pk_compressor_set_default, accepted);
    bench->acceptor = (pk_acceptor){.accept = accept_unrouted, .self = unrouted};
}

void pk_bench_exchange_done(struct pk_bench_exchange *bench)
{
    pk_loop_end_turn(bench->exchange.loop);
}

/* ---- One exchange ---- */

static inline void begin(struct pk_bench_exchange *bench)
{
    bench->response_length = 0;
    bench->finished = false;
    bench->acceptor.accept(bench->acceptor.self, &bench->exchange, &bench->head, false);
}

static inline void end(struct pk_bench_exchange *bench)
{
    bench->exchange.events->on_end(&bench->exchange, NULL);
    pk_loop_drain(bench->exchange.loop);
    bench->exchange.events->on_closed(&bench->exchange);
    pk_bench_keep(bench->response);
}

void pk_bench_exchange_strict(struct pk_bench_exchange *bench)
{
    begin(bench);
    bench->exchange.events->on_data(&bench->exchange, bench->body, bench->body_length, NULL);
    end(bench);
}

void pk_bench_exchange_nonstrict(struct pk_bench_exchange *bench)
{
    begin(bench);
    for (size_t at = 0; at < bench->body_length; at += bench->chunk) {
        size_t left = bench->body_length - at;
        bench->exchange.events->on_data(&bench->exchange, bench->body + at,
                                        left < bench->chunk ? left : bench->chunk, NULL);
        /* Each chunk is a turn of its own. */
        pk_loop_drain(bench->exchange.loop);
    }
    end(bench);
}

/* ---- The check: a decoder of its own ---- */

/* Whether a frame's payload is a HelloReply whose text begins as it should. */
static bool reply_is(const uint8_t *payload, size_t length, bool compressed, const char *text)
{
    uint8_t plain[512];
    if (compressed) {
        length = pk_bench_gunzip(payload, length, plain, sizeof plain);
        payload = plain;
    }
    size_t begins = length > 2 && payload[1] >= 0x80 ? 3 : 2;
    return length >= begins + strlen(text) && payload[0] == 0x0a &&
           memcmp(payload + begins, text, strlen(text)) == 0;
}

void pk_bench_exchange_expect(struct pk_bench_exchange *bench, pk_bench_context *context,
                              unsigned messages, const char *text)
{
    static const char ok[] = "\x80\0\0\0\x0fgrpc-status:0\r\n";
    static uint8_t binary[PK_BENCH_RESPONSE];
    const uint8_t *body = bench->response;
    size_t length = bench->response_length;
    PK_BENCH_EXPECT(context, bench->finished && bench->http_status == 200);
    const char *protocol = pk_bench_value(context, "protocol");
    bool web = strncmp(protocol, "grpc-web", 8) == 0;
    if (strcmp(protocol, "grpc-web-text") == 0) {
        length = pk_bench_decode_base64(bench->response, length, binary);
        body = binary;
    }
    bool compressed = strcmp(pk_bench_value(context, "codec"), "gzip") == 0;
    /* Of gRPC every response so far has ended with `grpc-status: 0`, a length of 1 and that digit. */
    bool ended = bench->trailers_read == bench->responses * (1 + '0');
    if (web)
        PK_BENCH_EXPECT(context, bench->trailers_read == 0);
    unsigned right = 0;
    for (size_t at = 0; at + 5 <= length;) {
        size_t payload = (size_t) body[at + 3] << 8 | body[at + 4];
        if (body[at] == 0x80) { /* gRPC-Web's trailers */
            ended = length - at == sizeof ok - 1 && memcmp(body + at, ok, sizeof ok - 1) == 0;
            break;
        }
        right += body[at] == compressed && reply_is(body + at + 5, payload, compressed, text);
        at += 5 + payload;
    }
    PK_BENCH_EXPECT(context, right == messages);
    PK_BENCH_EXPECT(context, ended);
}
