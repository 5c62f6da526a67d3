/*
 * Raw calls: bytes as they travel, flags, encodings and fields as they are named. What a proxy made
 * of them does is in test_forward.c.
 */
#include <pekoe/raw.h>

#include "helloworld.pekoe.h"
#include "tests/support/client_kit.h"

static struct {
    char encoding[32], accepted[32];
    bool compressed;
    unsigned messages;
} seen;

static void copy(char *to, pk_slice from)
{
    memcpy(to, from.length > 0 ? (const char *) from.bytes : "", from.length);
    to[from.length] = '\0';
}

static pk_future send_back(const void *message, void *out)
{
    const pk_raw_message *raw = message;
    seen.messages++;
    seen.compressed = raw->compressed;
    return pk_writer_write(out, raw);
}

static pk_future handle(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    pk_encodings encodings = pk_call_received_encodings(call);
    copy(seen.encoding, encodings.message);
    copy(seen.accepted, encodings.accepted);
    cr_assert_str_eq(pk_call_protocol(call), "grpc");
    if (strcmp(pk_call_method(call), "/any.Service/Refuse") == 0) {
        encodings = (pk_encodings){.accepted = PK_SLICE("zstd")};
        cr_assert_eq(pk_call_set_encodings(call, &encodings), 0);
        return pk_failed(call, PK_UNIMPLEMENTED, "no");
    }
    encodings = (pk_encodings){.message = encodings.message, .accepted = PK_SLICE("zstd,br")};
    cr_assert_eq(pk_call_set_encodings(call, &encodings), 0);
    return pk_reader_each(in, send_back, out);
}

static void open_kit(struct client_kit *kit)
{
    const char *bound;
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(pk_loop_new(&kit->loop, NULL), 0);
    cr_assert_eq(pk_server_new(&kit->server, kit->loop, NULL), 0);
    pk_router_set_raw(pk_server_router(kit->server), handle, NULL);
    if (in_process) {
        cr_assert_eq(pk_channel_new_in_process(&kit->channel, pk_server_router(kit->server)), 0);
        return;
    }
    cr_assert_eq(pk_server_listen(kit->server, "127.0.0.1:0", &bound), 0);
    cr_assert_eq(pk_channel_new(&kit->channel, kit->loop, bound, NULL), 0);
}

static pk_code write_raw(struct client_kit *kit, pk_writer *out, const void *bytes, size_t length,
                         bool compressed)
{
    pk_raw_message message = {{bytes, length}, compressed};
    return pk_loop_run_until(kit->loop, pk_writer_write(out, &message), NULL).code;
}

static const pk_raw_message *read_raw(struct client_kit *kit, pk_reader *in, pk_code *ret_code)
{
    const void *message = NULL;
    *ret_code = pk_loop_run_until(kit->loop, pk_reader_read(in), &message).code;
    return *ret_code == PK_OK ? message : NULL;
}

TEST_BOTH(raw, bytes_and_flags_come_back_whatever_the_encoding_is_called)
{
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_call *call;
    pk_code code;
    const pk_encodings zstd = {PK_SLICE("zstd"), PK_SLICE("zstd, x")};
    pk_reader *in =
        pk_call_raw(kit.channel, "/any.Service/Method", &zstd, &out, PK_CALL_OPTS(.call = &call));
    cr_assert_eq(write_raw(&kit, out, "not zstd", 8, true), PK_OK);
    const pk_raw_message *message = read_raw(&kit, in, &code);
    cr_assert(message && message->compressed && says(message->bytes, "not zstd"));
    cr_assert_eq(write_raw(&kit, out, NULL, 0, false), PK_OK);
    message = read_raw(&kit, in, &code);
    cr_assert(message && !message->compressed && message->bytes.length == 0);
    /* One that comes in many pieces. */
    static char large[1000000];
    memset(large, 'l', sizeof large);
    cr_assert_eq(write_raw(&kit, out, large, sizeof large, false), PK_OK);
    message = read_raw(&kit, in, &code);
    cr_assert(message && message->bytes.length == sizeof large);
    cr_assert_arr_eq(message->bytes.bytes, large, sizeof large);
    pk_encodings answered = pk_call_received_encodings(call);
    cr_assert(says(answered.message, "zstd") && says(answered.accepted, "zstd,br"));
    cr_assert_str_eq(seen.encoding, "zstd");
    cr_assert_str_eq(seen.accepted, "zstd, x");
    pk_writer_end(out);
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_OK);
    pk_reader_unref(in);
    pk_writer_unref(out);
    pk_call_unref(call);
    client_kit_close(&kit);
}

TEST_BOTH(raw, a_flag_without_a_name_is_refused)
{
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_code code;
    pk_reader *in = pk_call_raw(kit.channel, "/any.Service/Method", NULL, &out, NULL);
    cr_assert_eq(write_raw(&kit, out, "x", 1, true), PK_OK);
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_INTERNAL);
    cr_assert_eq(seen.messages, 0);
    cr_assert_str_eq(seen.encoding, "");
    cr_assert_str_eq(seen.accepted, "identity");
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

TEST_BOTH(raw, a_status_alone_has_no_head_and_still_names_encodings)
{
    struct client_kit kit;
    open_kit(&kit);
    pk_writer *out;
    pk_call *call;
    pk_code code;
    pk_reader *in =
        pk_call_raw(kit.channel, "/any.Service/Refuse", NULL, &out, PK_CALL_OPTS(.call = &call));
    const void *head = in;
    cr_assert_eq(pk_loop_run_until(kit.loop, pk_call_received_head(call), &head).code, PK_OK);
    cr_assert_null(head);
    cr_assert_null(read_raw(&kit, in, &code));
    cr_assert_eq(code, PK_UNIMPLEMENTED);
    cr_assert(says(pk_call_received_encodings(call).accepted, "zstd"));
    pk_reader_unref(in);
    pk_writer_unref(out);
    pk_call_unref(call);
    client_kit_close(&kit);
}

TEST_BOTH(raw, what_cannot_be_a_call_fails)
{
    struct client_kit kit;
    open_kit(&kit);
    const pk_encodings bad = {.message = PK_SLICE("g\nzip")};
    pk_writer *out;
    pk_code code;
    for (unsigned i = 0; i < 2; i++) {
        pk_reader *in = pk_call_raw(kit.channel, i ? "/any.Service/Method" : "no path",
                                    i ? &bad : NULL, &out, NULL);
        cr_assert_null(read_raw(&kit, in, &code));
        cr_assert_eq(code, PK_INTERNAL);
        pk_reader_unref(in);
        pk_writer_unref(out);
    }
    client_kit_close(&kit);
}
