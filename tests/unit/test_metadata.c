/* core/metadata.c: what an application sees of a call's fields, and what it may add. */
#include "core/metadata.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static pk_memory memory;
static pk_arena arena;

static void set_up(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_arena_init(&arena, &memory, 0);
}

static void tear_down(void)
{
    pk_arena_done(&arena);
    pk_memory_done(&memory);
}

static pk_slice slice(const char *text)
{
    return (pk_slice){(const uint8_t *) text, strlen(text)};
}

static pk_field field(const char *name, const char *value)
{
    pk_field made = {.name = slice(name), .value = slice(value)};
    made.known = (uint8_t) pk_field_lookup(made.name);
    return made;
}

/* All values of a key, each in brackets. */
static const char *all(const pk_metadata *metadata, const char *key)
{
    static char text[512];
    char *at = text;
    pk_metadata_place place = PK_METADATA_START;
    pk_slice name, value;
    *at = '\0';
    while (pk_metadata_next(metadata, key, &place, &name, &value)) {
        if (!key)
            at += sprintf(at, "%.*s", (int) name.length, (const char *) name.bytes);
        *at++ = '[';
        for (size_t i = 0; i < value.length; i++)
            at += sprintf(at, value.bytes[i] >= 0x80 ? "%02x" : "%c", value.bytes[i]);
        *at++ = ']';
        *at = '\0';
    }
    return text;
}

#define OVER(fields) pk_metadata_over(fields, sizeof(fields) / sizeof *(fields), &arena)

Test(metadata, shows_the_applications_fields_in_order_and_nothing_else, .init = set_up,
     .fini = tear_down)
{
    const pk_field fields[] = {
        field(":method", "POST"),
        field(":path", "/a.B/C"),
        field(":protocol", "x"),
        field("te", "trailers"),
        field("content-type", "application/grpc"),
        field("grpc-timeout", "1S"),
        field("grpc-encoding", "gzip"),
        field("grpc-unheard-of", "x"),
        field("user-agent", "me"),
        field("a", "1"),
        field("b", "2"),
        field("a", "3"),
        field("connection", "close"),
        field("grpc-previous-rpc-attempts", "2"),
        field("empty", ""),
    };
    pk_metadata metadata = OVER(fields);
    cr_expect_str_eq(all(&metadata, NULL),
                     "user-agent[me]a[1]b[2]a[3]grpc-previous-rpc-attempts[2]empty[]");
    cr_expect_str_eq(all(&metadata, "a"), "[1][3]");
    cr_expect_str_eq(all(&metadata, "A"), "[1][3]");
    cr_expect_str_eq(all(&metadata, "te"), "");
    cr_expect_str_eq(all(&metadata, ":path"), "");
    cr_expect_eq(pk_metadata_get(&metadata, "a").bytes[0], '1');
    cr_expect_eq(pk_metadata_get_last(&metadata, "a").bytes[0], '3');
    cr_expect_null(pk_metadata_get(&metadata, "c").bytes);
    cr_expect_null(pk_metadata_get_last(&metadata, "c").bytes);
    cr_expect_not_null(pk_metadata_get(&metadata, "empty").bytes);
    cr_expect_null(pk_metadata_get(&metadata, NULL).bytes);
    cr_expect_null(pk_metadata_get(NULL, "a").bytes);
}

Test(metadata, values_that_are_text_are_not_copied, .init = set_up, .fini = tear_down)
{
    const pk_field fields[] = {field("a", "value")};
    pk_metadata metadata = OVER(fields);
    cr_expect_eq(pk_metadata_get(&metadata, "a").bytes, fields[0].value.bytes);
    cr_expect_eq(arena.total, 0);
}

/* The inputs are those of grpc-go's pull request 1209 and grpc-swift's 2243. */
Test(metadata, binary_values_are_decoded_padded_unpadded_and_in_lists, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const char *sent, *seen;
    } rows[] = {
        {"q6ur", "[ababab]"},
        {"qw==", "[ab]"},
        {"qw", "[ab]"},
        {"", "[]"},
        {"q6ur,qw==", "[ababab][ab]"},
        {"q6ur,qw", "[ababab][ab]"},
        {"q6ur, qw==", "[ababab][ab]"},
        {" q6ur ,\tqw== ", "[ababab][ab]"},
        {"q6ur,,qw==", "[ababab][][ab]"},
        {"q6ur,", "[ababab][]"},
        {"-_-_", ""},           /* the url-safe alphabet is not gRPC's: dropped */
        {"q6urq", ""},          /* 1 mod 4: dropped */
        {"q6urq,qw==", "[ab]"}, /* only the value that is wrong is dropped */
        {"qw==,*", "[ab]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const pk_field fields[] = {field("x-bin", rows[i].sent), field("y-bin", "eQ")};
        pk_metadata metadata = OVER(fields);
        cr_expect_str_eq(all(&metadata, "x-bin"), rows[i].seen, "%s", rows[i].sent);
        cr_expect_str_eq(all(&metadata, "y-bin"), "[y]");
    }
    const pk_field twice[] = {field("x-bin", "YQ,Yg"), field("a", "-"), field("x-bin", "Yw==")};
    pk_metadata metadata = OVER(twice);
    cr_expect_str_eq(all(&metadata, "x-bin"), "[a][b][c]");
    cr_expect_str_eq(all(&metadata, NULL), "x-bin[a]x-bin[b]a[-]x-bin[c]");
    cr_expect_eq(pk_metadata_get_last(&metadata, "x-bin").bytes[0], 'c');
}

Test(metadata, what_is_added_is_kept_as_it_is_sent, .init = set_up, .fini = tear_down)
{
    pk_metadata metadata;
    pk_metadata_init(&metadata, &arena);
    char key[] = "Trace-Id", value[] = "  one two ";
    cr_expect_eq(pk_metadata_add(&metadata, key, value), 0);
    memset(key, 'x', sizeof key - 1);
    memset(value, 'x', sizeof value - 1);
    cr_expect_eq(pk_metadata_add_binary(&metadata, "x-bin", "\xab", 1), 0);
    cr_expect_eq(pk_metadata_add_binary(&metadata, "x-bin", NULL, 0), 0);
    for (int i = 0; i < 10; i++)
        cr_expect_eq(pk_metadata_add(&metadata, "n", ""), 0);
    cr_assert_eq(metadata.count, 13);
    cr_expect_eq(metadata.fields[0].name.length, 8);
    cr_expect_eq(memcmp(metadata.fields[0].name.bytes, "trace-id", 8), 0);
    cr_expect_eq(metadata.fields[0].value.length, 7);
    cr_expect_eq(memcmp(metadata.fields[0].value.bytes, "one two", 7), 0);
    cr_expect_eq(metadata.fields[1].value.length, 2);
    cr_expect_eq(memcmp(metadata.fields[1].value.bytes, "qw", 2), 0); /* unpadded */
    cr_expect_str_eq(all(&metadata, "x-bin"), "[ab][]");
    cr_expect_str_eq(all(&metadata, "trace-id"), "[one two]");
    cr_expect_eq(pk_metadata_wire_size(metadata.fields, 2), 8 + 7 + 32 + 5 + 2 + 32);
}

Test(metadata, what_must_not_be_sent_is_refused, .init = set_up, .fini = tear_down)
{
    static const char *const keys[] = {"",      "grpc-status",  "GRPC-x",
                                       ":path", "te",           "a b",
                                       "a:b",   "\xc3\xa4",     "a\n",
                                       "x-bin", "content-type", "Connection",
                                       "a,b",   "grpc-",        "transfer-encoding",
                                       "host"};
    static const char *const values[] = {"a\nb", "a\r", "\x01", "\x7f", "\xc3\xa4", "a\tb"};
    pk_metadata metadata;
    pk_metadata_init(&metadata, &arena);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect_eq(pk_metadata_add(&metadata, keys[i], "v"), PK_ERR_INVALID, "%s", keys[i]);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        cr_expect_eq(pk_metadata_add(&metadata, "k", values[i]), PK_ERR_INVALID, "%zu", i);
    cr_expect_eq(pk_metadata_add(&metadata, NULL, "v"), PK_ERR_INVALID);
    cr_expect_eq(pk_metadata_add(&metadata, "k", NULL), PK_ERR_INVALID);
    cr_expect_eq(pk_metadata_add_binary(&metadata, "k", "v", 1), PK_ERR_INVALID);
    cr_expect_eq(pk_metadata_add_binary(&metadata, "-bin", "v", 1), PK_ERR_INVALID);
    cr_expect_eq(pk_metadata_add_binary(&metadata, "k-bin", NULL, 1), PK_ERR_INVALID);
    cr_expect_eq(metadata.count, 0);

    const pk_field fields[] = {field("a", "1")};
    pk_metadata received = OVER(fields);
    cr_expect_eq(pk_metadata_add(&received, "k", "v"), PK_ERR_STATE);
    cr_expect_eq(pk_metadata_add_binary(&received, "k-bin", "v", 1), PK_ERR_STATE);
    cr_expect_eq(pk_metadata_add(NULL, "k", "v"), PK_ERR_NOMEM);
}

static void *refuse(void *context, void *block, size_t size)
{
    return NULL;
}

Test(metadata, without_memory_adding_fails_and_changes_nothing)
{
    const pk_allocator nothing = {refuse, NULL};
    pk_metadata metadata;
    cr_assert_eq(pk_memory_init(&memory, &nothing), 0);
    pk_arena_init(&arena, &memory, 0);
    pk_metadata_init(&metadata, &arena);
    cr_expect_eq(pk_metadata_add(&metadata, "k", "v"), PK_ERR_NOMEM);
    cr_expect_eq(pk_metadata_add_binary(&metadata, "k-bin", "v", 1), PK_ERR_NOMEM);
    cr_expect_eq(metadata.count, 0);
    tear_down();
}

Test(metadata, forwards_fields_as_they_came_and_nothing_of_the_hop, .init = set_up,
     .fini = tear_down)
{
    const pk_field fields[] = {
        field(":path", "/a.B/C"),
        field("te", "trailers"),
        field("content-type", "application/grpc"),
        field("grpc-timeout", "1S"),
        field("grpc-accept-encoding", "gzip"),
        field("grpc-trace-bin", "AA=="),
        field("grpc-retry-pushback-ms", "10"),
        field("connection", "keep-alive, X-Hop ,x-other"),
        field("x-hop", "1"),
        field("x-other", "2"),
        field("x-text", "a"),
        field("x-text", "b"),
        field("x-key-bin", "AA==, AQ"),
        field("x-no-bin", "!"),
        field("x-tab", "a\tb"),
        field("x-high", "\xc3\xbc"),
        field("x!odd", "1"),
        field("proxy-authorization", "secret"),
        field("user-agent", "me"),
    };
    const pk_metadata from = OVER(fields);
    pk_metadata to, received = from;
    pk_metadata_init(&to, &arena);
    cr_assert_eq(pk_metadata_forward(&to, &from, NULL, NULL), 0);
    char text[512], *at = text;
    for (size_t i = 0; i < to.count; i++)
        at += sprintf(at, "%.*s=%.*s;", (int) to.fields[i].name.length,
                      (const char *) to.fields[i].name.bytes, (int) to.fields[i].value.length,
                      (const char *) to.fields[i].value.bytes);
    cr_assert_str_eq(text, "grpc-trace-bin=AA==;grpc-retry-pushback-ms=10;x-text=a;x-text=b;"
                           "x-key-bin=AA==, AQ;x-no-bin=!;user-agent=me;");
    cr_assert_eq(pk_metadata_forward(&received, &from, NULL, NULL), PK_ERR_STATE);
    cr_assert_eq(pk_metadata_forward(NULL, &from, NULL, NULL), PK_ERR_NOMEM);
    cr_assert_eq(pk_metadata_forward(&to, NULL, NULL, NULL), 0);
}

static bool begins_with_x(void *self, pk_slice key)
{
    *(unsigned *) self += 1;
    return key.bytes[0] == 'x';
}

Test(metadata, forwards_what_a_filter_keeps, .init = set_up, .fini = tear_down)
{
    const pk_field fields[] = {field("x-a", "1"), field("y-a", "2"), field("te", "trailers")};
    const pk_metadata from = OVER(fields);
    pk_metadata to;
    unsigned asked = 0;
    pk_metadata_init(&to, &arena);
    cr_assert_eq(pk_metadata_forward(&to, &from, begins_with_x, &asked), 0);
    cr_assert_eq(asked, 2);
    cr_assert_str_eq(all(&to, NULL), "x-a[1]");
}
