/*
 * peers.Echo called in all four styles, plain and with gzip: what comes back is what was sent, and
 * the server saw the metadata and the deadline. One line of TAP per check; peers.py numbers them.
 *
 *     peers-caller 127.0.0.1:50051
 */
#include <pekoe/pekoe.h>

#include "peers.pekoe.h"

#include <stdio.h>
#include <string.h>

#define MESSAGES 5u
#define TEXT 4000u
#define TIMEOUT_MS 20000
#define USERS "ann, bob, and others"

static pk_loop *loop;
static pk_channel *channel;
static char text[TEXT + 1];
static const char data[] = {'\0', '\xff', ',', '\n', 'a'};
static bool failed;

static void report(bool right, const char *style, const char *compression, const char *what)
{
    printf("%sok 0 - %s, %s: %s\n", right ? "" : "not ", style, compression ? compression : "plain",
           what);
    failed |= !right;
}

static bool is(pk_slice value, const void *bytes, size_t length)
{
    return value.length == length && value.bytes && memcmp(value.bytes, bytes, length) == 0;
}

/* Adds a value to a list with commas: what several fields of one name mean, and Node makes of them. */
static void join(char *list, size_t size, const char *value, size_t length)
{
    size_t at = strlen(list);
    snprintf(list + at, size - at, "%s%.*s", at ? ", " : "", (int) length, value);
}

/* ---- What a call brought ---- */

struct outcome {
    pk_status status;
    unsigned replies;
    bool right; /* each reply says what it should */
    pk_call *call;
};

static bool check_reply(const Peers__Reply *reply, unsigned messages, size_t copies)
{
    char users[100] = "";
    for (size_t i = 0; i < reply->n_user; i++)
        join(users, sizeof users, reply->user[i], strlen(reply->user[i]));
    bool texts = strlen(reply->text) == copies * TEXT;
    for (size_t i = 0; i < copies && texts; i++)
        texts = memcmp(reply->text + i * TEXT, text, TEXT) == 0;
    return texts && reply->messages == messages && reply->time_left_ms > 0 &&
           reply->time_left_ms <= TIMEOUT_MS && strcmp(users, USERS) == 0 && reply->n_data == 1 &&
           reply->data[0].len == sizeof data && memcmp(reply->data[0].data, data, sizeof data) == 0;
}

static void check_outcome(struct outcome *outcome, unsigned replies, const char *style,
                          const char *compression)
{
    pk_metadata_place place = PK_METADATA_START;
    pk_slice value;
    char heads[100] = "";
    report(outcome->status.code == PK_OK, style, compression, "the call ends with OK");
    report(outcome->replies == replies && outcome->right, style, compression,
           "the server saw messages, metadata and deadline, and says so");
    const pk_metadata *headers = pk_call_metadata(outcome->call);
    while (pk_metadata_next(headers, "x-head", &place, NULL, &value))
        join(heads, sizeof heads, (const char *) value.bytes, value.length);
    report(strcmp(heads, USERS) == 0, style, compression, "headers come back");
    report(is(pk_metadata_get(pk_call_received_trailers(outcome->call), "x-tail-bin"), data,
              sizeof data),
           style, compression, "binary trailers come back");
    outcome->call = pk_call_unref(outcome->call);
}

/* ---- The styles ---- */

static pk_metadata *new_metadata(void)
{
    pk_metadata *metadata = pk_metadata_new(pk_loop_scope(loop));
    if (pk_metadata_add(metadata, "x-user", "ann") < 0 ||
        pk_metadata_add(metadata, "x-user", "bob, and others") < 0 ||
        pk_metadata_add_binary(metadata, "x-data-bin", data, sizeof data) < 0)
        report(false, "all", NULL, "metadata can be made");
    return metadata;
}

#define OPTS(metadata_, compression_, call_)                                                \
    PK_CALL_OPTS(.timeout_ms = TIMEOUT_MS, .metadata = (metadata_), .wait_for_ready = true, \
                 .compression = (compression_), .call = (call_))

static Peers__Request new_request(void)
{
    Peers__Request request = PEERS__REQUEST__INIT;
    request.text = text;
    request.replies = MESSAGES;
    return request;
}

static void call_unary(const char *compression)
{
    struct outcome outcome = {.right = false};
    Peers__Request request = new_request();
    const void *reply = NULL;
    pk_future future =
        peers_echo_unary(channel, &request, OPTS(new_metadata(), compression, &outcome.call));
    outcome.status = pk_loop_run_until(loop, future, &reply);
    outcome.replies = reply != NULL;
    outcome.right = reply && check_reply(reply, 1, 1);
    check_outcome(&outcome, 1, "unary", compression);
}

/* Reads one; false at the end, which goes to outcome->status. */
static bool read_one(pk_reader *in, struct outcome *outcome, unsigned messages)
{
    const void *reply = NULL;
    outcome->status = pk_loop_run_until(loop, pk_reader_read(in), &reply);
    if (outcome->status.code != PK_OK || !reply)
        return false;
    outcome->replies++;
    outcome->right = outcome->right && check_reply(reply, messages, 1);
    return true;
}

static void call_server_stream(const char *compression)
{
    struct outcome outcome = {.right = true};
    Peers__Request request = new_request();
    pk_reader *in = peers_echo_server_stream(channel, &request,
                                             OPTS(new_metadata(), compression, &outcome.call));
    while (read_one(in, &outcome, 1))
        continue;
    check_outcome(&outcome, MESSAGES, "server stream", compression);
    pk_reader_unref(in);
}

static void call_client_stream(const char *compression)
{
    struct outcome outcome = {.right = false};
    Peers__Request request = new_request();
    pk_writer *out;
    const void *reply = NULL;
    pk_future future =
        peers_echo_client_stream(channel, &out, OPTS(new_metadata(), compression, &outcome.call));
    for (unsigned i = 0; i < MESSAGES; i++)
        (void) pk_loop_run_until(loop, peers_request_write(out, &request), NULL);
    pk_writer_end(out);
    outcome.status = pk_loop_run_until(loop, future, &reply);
    outcome.replies = reply != NULL;
    outcome.right = reply && check_reply(reply, MESSAGES, MESSAGES);
    check_outcome(&outcome, 1, "client stream", compression);
    pk_writer_unref(out);
}

static void call_chat(const char *compression)
{
    struct outcome outcome = {.right = true};
    Peers__Request request = new_request();
    pk_writer *out;
    pk_reader *in =
        peers_echo_chat(channel, &out, OPTS(new_metadata(), compression, &outcome.call));
    for (unsigned i = 0; i < MESSAGES; i++) {
        (void) pk_loop_run_until(loop, peers_request_write(out, &request), NULL);
        (void) read_one(in, &outcome, i + 1);
    }
    pk_writer_end(out);
    (void) read_one(in, &outcome, MESSAGES);
    check_outcome(&outcome, MESSAGES, "chat", compression);
    pk_writer_unref(out);
    pk_reader_unref(in);
}

/* ---- Ends that are not OK ---- */

static void check_failures(void)
{
    static const char message[] = "no\tgood: caf\xc3\xa9 100%";
    Peers__Request request = new_request();
    request.text = (char *) (uintptr_t) message;
    request.code = PK_FAILED_PRECONDITION;
    pk_status status = pk_loop_run_until(loop, peers_echo_unary(channel, &request, NULL), NULL);
    report(status.code == PK_FAILED_PRECONDITION && is(status.message, message, strlen(message)),
           "unary", NULL, "code and message come over");
    pk_reader *in = peers_echo_server_stream(channel, &request, NULL);
    status = pk_loop_run_until(loop, pk_reader_read(in), NULL);
    report(status.code == PK_FAILED_PRECONDITION && is(status.message, message, strlen(message)),
           "server stream", NULL, "code and message come over");
    pk_reader_unref(in);
}

static void check_deadlines(void)
{
    Peers__Request request = new_request();
    request.sleep_ms = 2000;
    const pk_call_opts *soon = PK_CALL_OPTS(.timeout_ms = 200);
    uint64_t start = pk_loop_now(loop);
    pk_status status = pk_loop_run_until(loop, peers_echo_unary(channel, &request, soon), NULL);
    report(status.code == PK_DEADLINE_EXCEEDED, "unary", NULL, "the deadline ends it");
    pk_reader *in = peers_echo_server_stream(channel, &request, soon);
    status = pk_loop_run_until(loop, pk_reader_read(in), NULL);
    report(status.code == PK_DEADLINE_EXCEEDED, "server stream", NULL, "the deadline ends it");
    pk_reader_unref(in);
    pk_writer *out;
    pk_future reply = peers_echo_client_stream(channel, &out, soon);
    status = pk_loop_run_until(loop, reply, NULL);
    report(status.code == PK_DEADLINE_EXCEEDED, "client stream", NULL, "the deadline ends it");
    pk_writer_unref(out);
    in = peers_echo_chat(channel, &out, soon);
    status = pk_loop_run_until(loop, pk_reader_read(in), NULL);
    report(status.code == PK_DEADLINE_EXCEEDED, "chat", NULL, "the deadline ends it");
    pk_writer_unref(out);
    pk_reader_unref(in);
    report(pk_loop_now(loop) - start < UINT64_C(1900000000), "all", NULL, "and does so in time");
}

int main(int argc, char **argv)
{
    static const char *const compressions[] = {NULL, "gzip"};
    for (size_t i = 0; i < TEXT; i++)
        text[i] = (char) ('a' + i * i % 26);
    if (argc != 2 || pk_loop_new(&loop, NULL) < 0 ||
        pk_channel_new(&channel, loop, argv[1], NULL) < 0)
        return 2;
    for (size_t i = 0; i < 2; i++) {
        call_unary(compressions[i]);
        call_server_stream(compressions[i]);
        call_client_stream(compressions[i]);
        call_chat(compressions[i]);
    }
    check_failures();
    check_deadlines();
    pk_channel_free(channel);
    pk_loop_free(loop);
    return failed;
}
