/*
 * What interceptors see, change and answer, in their order, alike on both sides. Over a socket and
 * without one.
 */
#include "tests/support/interceptor_kit.h"

TEST_BOTH(chain, the_first_one_is_the_outermost_on_both_sides_in_all_styles)
{
    struct client_kit kit = open_kit();
    on_server(&kit, around, "s");
    on_server(&kit, around, "t");
    on_client(&kit, around, "a");
    on_client(&kit, around, "b");
    greeted(&kit, "x", NULL, "x");
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    trace[0] = '\0';
    cr_assert_eq(greeted(&kit, "fail", NULL, NULL).code, PK_ABORTED);
    cr_assert_str_eq(trace, "a(b(s(t(h!t!s!b!a");
    trace[0] = '\0';
    pk_reader *in = many(&kit, "1");
    cr_assert_str_eq(read_one(&kit, in), "1");
    cr_assert_null(read_one(&kit, in));
    cr_assert_eq(last_code, PK_OK);
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    pk_reader_unref(in);
    trace[0] = '\0';
    pk_writer *out;
    pk_future reply = helloworld_greeter_it_keeps_talking(kit.channel, &out, NULL);
    pk_writer_end(out);
    cr_assert_eq(pk_loop_run_until(kit.loop, reply, NULL).code, PK_OK);
    pk_writer_unref(out);
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    trace[0] = '\0';
    in = helloworld_greeter_stream_hellos(kit.channel, &out, NULL);
    pk_writer_end(out);
    cr_assert_null(read_one(&kit, in));
    cr_assert_str_eq(trace, "a(b(s(t(h)t)s)b)a");
    pk_reader_unref(in);
    pk_writer_unref(out);
    client_kit_close(&kit);
}

/* ---- Metadata, values, messages ---- */

static pk_future change_tail(const void *value, void *arg)
{
    pk_call *call = arg;
    cr_assert_eq(pk_metadata_remove(pk_call_headers(call), "X-Secret"), 0);
    cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-head", "h"), 0);
    cr_assert_eq(pk_metadata_add(pk_call_trailers(call), "x-tail", "two"), 0);
    return pk_done(value);
}

/* The handler sees another color, and who calls; the peer other fields. */
static pk_future server_edits(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_metadata_remove((pk_metadata *) (uintptr_t) pk_call_metadata(call), "x-color"),
                 PK_ERR_STATE, "what was received is not changed by accident");
    pk_metadata *metadata = pk_call_edit_metadata(call);
    cr_assert_eq(pk_call_edit_metadata(call), metadata);
    cr_assert(says(pk_metadata_get(metadata, "x-color"), "red"));
    cr_assert(says(pk_metadata_get(metadata, "x-other"), "o"));
    cr_assert_eq(pk_metadata_remove(metadata, "x-color"), 0);
    cr_assert_eq(pk_metadata_add(metadata, "x-color", "blue "), 0);
    cr_assert_eq(pk_call_set_value(call, &identity_key, (void *) "nobody"), 0);
    cr_assert_eq(pk_call_set_value(call, &identity_key, (void *) "ann:"), 0);
    cr_assert_null(pk_call_value(call, &trace));
    return pk_then(pk_next_run(next), change_tail, call);
}

static pk_future edit_response(const void *value, void *arg)
{
    pk_call *call = arg;
    cr_assert(says(pk_metadata_get(pk_call_metadata(call), "x-head"), "h"));
    cr_assert_null(pk_metadata_get(pk_call_metadata(call), "x-secret").bytes);
    cr_assert(says(pk_metadata_get_last(pk_call_received_trailers(call), "x-tail"), "two"));
    cr_assert_eq(pk_metadata_add(pk_call_edit_metadata(call), "x-head", "more"), 0);
    cr_assert_eq(pk_metadata_remove(pk_call_edit_received_trailers(call), "x-tail"), 0);
    return pk_done(value);
}

static pk_future client_edits(void *self, pk_call *call, pk_next *next)
{
    cr_assert_eq(pk_metadata_remove(pk_call_headers(call), "x-color"), 0);
    cr_assert_eq(pk_metadata_add(pk_call_headers(call), "x-color", "red"), 0);
    return pk_then(pk_next_run(next), edit_response, call);
}

TEST_BOTH(chain, metadata_can_be_seen_and_changed_in_both_directions)
{
    struct client_kit kit = open_kit();
    on_server(&kit, server_edits, NULL);
    on_client(&kit, client_edits, NULL);
    pk_call *call;
    const char *const fields[] = {"x-color", "green", "x-other", "o", NULL};
    greeted(&kit, "x", PK_CALL_OPTS(.fields = fields, .call = &call), "ann:bluex");
    cr_assert(says(pk_metadata_get_last(pk_call_metadata(call), "x-head"), "more"));
    cr_assert_null(pk_metadata_get(pk_call_received_trailers(call), "x-tail").bytes);
    pk_call_unref(call);
    client_kit_close(&kit);
}

TEST_BOTH(chain, requests_and_replies_can_be_replaced)
{
    struct client_kit kit = open_kit();
    on_client(&kit, change_messages, "a");
    on_client(&kit, change_messages, "b");
    greeted(&kit, "x", NULL, "baxbaxbaxbax");
    on_server(&kit, change_messages, "s");
    greeted(&kit, "x", NULL, "sbaxsbaxsbaxsbaxsbaxsbaxsbaxsbax");
    client_kit_close(&kit);
}

static pk_future wrong_request(void *self, pk_call *call, pk_next *next)
{
    return pk_next_run_with(next, helloworld_hello_reply_new(call));
}

static pk_future wrong_reply(void *self, pk_call *call, pk_next *next)
{
    Helloworld__HelloRequest *other = pk_call_new(call, Helloworld__HelloRequest);
    helloworld__hello_request__init(other);
    return pk_done(strcmp(self, "null") == 0 ? NULL : other);
}

static pk_future run_twice(void *self, pk_call *call, pk_next *next)
{
    pk_detach(pk_next_run(next));
    return pk_next_run(next);
}

TEST_BOTH(chain, what_an_interceptor_must_not_do_is_INTERNAL)
{
    static const struct {
        pk_interceptor *fn;
        const char *self;
    } wrongs[] = {{wrong_request, ""}, {wrong_reply, "null"}, {wrong_reply, "x"}, {run_twice, ""}};
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        struct client_kit kit = open_kit();
        on_server(&kit, wrongs[i].fn, wrongs[i].self);
        cr_assert_eq(greeted(&kit, "x", NULL, NULL).code, PK_INTERNAL, "server, %zu", i);
        client_kit_close(&kit);
        kit = open_kit();
        on_client(&kit, wrongs[i].fn, wrongs[i].self);
        cr_assert_eq(greeted(&kit, "x", NULL, NULL).code, PK_INTERNAL, "client, %zu", i);
        client_kit_close(&kit);
    }
}

/* ---- Short circuits and statuses ---- */

static pk_future refuse(void *self, pk_call *call, pk_next *next)
{
    return pk_failed(call, PK_UNAUTHENTICATED, "who are you?");
}

static pk_future answer_here(void *self, pk_call *call, pk_next *next)
{
    if (!pk_next_request(next))
        return pk_done(NULL);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(call);
    reply->message = pk_call_printf(call, "cached");
    return helloworld_hello_reply_done(reply);
}

static pk_future forgive(const pk_status *status, void *arg)
{
    if (status->code != PK_ABORTED)
        return pk_failed_with(status);
    Helloworld__HelloReply *reply = helloworld_hello_reply_new(arg);
    reply->message = pk_call_printf(arg, "forgiven");
    return helloworld_hello_reply_done(reply);
}

static pk_future forgives(void *self, pk_call *call, pk_next *next)
{
    return pk_recover(pk_next_run(next), forgive, call);
}

static pk_future deny(const void *value, void *arg)
{
    return pk_failed(arg, PK_DATA_LOSS, "lost on the way");
}

static pk_future deny_failed(const pk_status *status, void *arg)
{
    return pk_failed(arg, PK_OUT_OF_RANGE, "was %s", pk_code_name(status->code));
}

static pk_future denies(void *self, pk_call *call, pk_next *next)
{
    return pk_then(pk_recover(pk_next_run(next), deny_failed, call), deny, call);
}

TEST_BOTH(chain, calls_are_answered_without_the_rest_and_statuses_replaced)
{
    static const struct {
        pk_interceptor *fn;
        const char *name, *reply;
        pk_code code;
        bool handled;
    } cases[] = {{refuse, "x", NULL, PK_UNAUTHENTICATED, false},
                 {answer_here, "x", "cached", PK_OK, false},
                 {forgives, "fail", "forgiven", PK_OK, true},
                 {forgives, "x", "x", PK_OK, true},
                 {denies, "x", NULL, PK_DATA_LOSS, true},
                 {denies, "fail", NULL, PK_OUT_OF_RANGE, true}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct client_kit kit = open_kit();
        pk_interceptor *fn = cases[i / 2].fn;
        if (i % 2)
            on_client(&kit, fn, NULL);
        else
            on_server(&kit, fn, NULL);
        pk_call *call;
        pk_status status =
            greeted(&kit, cases[i / 2].name, PK_CALL_OPTS(.call = &call), cases[i / 2].reply);
        cr_assert_eq(status.code, cases[i / 2].code, "%zu: %d", i, status.code);
        cr_assert_eq(pk_call_status(call)->code, status.code);
        cr_assert_eq(strchr(trace, 'h') != NULL, cases[i / 2].handled, "%zu", i);
        pk_call_unref(call);
        client_kit_close(&kit);
    }
}

TEST_BOTH(chain, the_status_of_a_stream_is_replaced_behind_its_messages)
{
    for (unsigned i = 0; i < 2; i++) {
        struct client_kit kit = open_kit();
        if (i)
            on_client(&kit, denies, NULL);
        else
            on_server(&kit, denies, NULL);
        pk_reader *in = many(&kit, "2");
        cr_assert_str_eq(read_one(&kit, in), "2");
        cr_assert_str_eq(read_one(&kit, in), "1");
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, PK_DATA_LOSS);
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, PK_DATA_LOSS, "again");
        pk_reader_unref(in);
        in = many(&kit, "9");
        for (unsigned j = 0; j < 9; j++)
            cr_assert_not_null(read_one(&kit, in));
        cr_assert_null(read_one(&kit, in));
        cr_assert_eq(last_code, PK_OUT_OF_RANGE);
        pk_reader_unref(in);
        client_kit_close(&kit);
    }
}
