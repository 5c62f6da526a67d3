/* marshalling/negotiation.c: which compressors a request leads to. */
#include "marshalling/negotiation.h"

#include <criterion/criterion.h>

#include <string.h>

static pk_memory memory;
static pk_buffer_pool pool;
static pk_arena arena;
static pk_marshalling marshalling;

static void set_up(void)
{
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_buffer_pool_init(&pool, &memory);
    pk_arena_init(&arena, &memory, 0);
    pk_marshalling_init(&marshalling, &memory, &pool);
}

static void tear_down(void)
{
    pk_marshalling_done(&marshalling);
    pk_arena_done(&arena);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
}

/* A head of up to four fields; a NULL value leaves a field out. */
static pk_head head_of(pk_field fields[4], const char *encoding, const char *accept,
                       const char *more_accept)
{
    const char *const names[] = {"x", "grpc-encoding", "grpc-accept-encoding",
                                 "grpc-accept-encoding"};
    const char *const values[] = {"y", encoding, accept, more_accept};
    pk_head head = {.fields = fields};
    for (size_t i = 0; i < 4; i++) {
        if (!values[i])
            continue;
        pk_field *field = &fields[head.count++];
        *field = (pk_field){.name = {(const uint8_t *) names[i], strlen(names[i])},
                            .value = {(const uint8_t *) values[i], strlen(values[i])}};
        field->known = (uint8_t) pk_field_lookup(field->name);
        if (field->known && head.first[field->known])
            head.repeated |= 1u << field->known;
        else if (field->known)
            head.first[field->known] = (uint16_t) head.count;
    }
    return head;
}

Test(negotiation, the_servers_most_wanted_of_what_the_client_accepts_is_chosen, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const char *accept, *more;
        const pk_compressor *chosen;
    } rows[] = {
        {NULL, NULL, NULL},
        {"", NULL, NULL},
        {"identity", NULL, NULL},
        {"gzip", NULL, &pk_compressor_gzip},
        {"identity,deflate,gzip", NULL, &pk_compressor_gzip}, /* the C core's */
        {"gzip,deflate,identity", NULL, &pk_compressor_gzip},
        {"deflate", NULL, &pk_compressor_deflate},
        {"  deflate ,\tidentity", NULL, &pk_compressor_deflate},
        {",,gzip,,", NULL, &pk_compressor_gzip},
        {"GZip", NULL, &pk_compressor_gzip},
        {"br, zstd", NULL, NULL},
        {"gzi", NULL, NULL},
        {"gzipx", NULL, NULL},
        {"gzip deflate", NULL, NULL},
        {"deflate", "gzip", &pk_compressor_gzip},
        {"identity", "deflate", &pk_compressor_deflate},
        {"a-list-that-is-much-longer-than-what-anybody-would-ever-keep-around-for-later,deflate",
         NULL, &pk_compressor_deflate},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int again = 0; again < 2; again++) { /* the second answer may be a remembered one */
            pk_field fields[4];
            pk_head head = head_of(fields, NULL, rows[i].accept, rows[i].more);
            pk_negotiation got;
            pk_status status;
            cr_assert_eq(pk_negotiate(&marshalling, &pk_compressor_set_default, &head, &arena, &got,
                                      &status),
                         0);
            cr_expect_eq(got.outgoing, rows[i].chosen, "%s", rows[i].accept);
            cr_expect_null(got.incoming);
        }
    }
}

Test(negotiation, another_set_is_not_answered_from_memory, .init = set_up, .fini = tear_down)
{
    pk_compressor_set deflate_first, none;
    pk_compressor_set_init(&none);
    pk_compressor_set_init(&deflate_first);
    cr_assert_eq(pk_compressor_set_add(&deflate_first, &pk_compressor_deflate), 0);
    cr_assert_eq(pk_compressor_set_add(&deflate_first, &pk_compressor_gzip), 0);
    const struct {
        const pk_compressor_set *set;
        const pk_compressor *chosen;
    } rows[] = {{&pk_compressor_set_default, &pk_compressor_gzip},
                {&deflate_first, &pk_compressor_deflate},
                {&none, NULL},
                {&pk_compressor_set_default, &pk_compressor_gzip}};
    for (size_t i = 0; i < 4; i++) {
        pk_field fields[4];
        pk_head head = head_of(fields, NULL, "gzip,deflate", NULL);
        pk_negotiation got;
        pk_status status;
        cr_assert_eq(pk_negotiate(&marshalling, rows[i].set, &head, &arena, &got, &status), 0);
        cr_expect_eq(got.outgoing, rows[i].chosen);
    }
}

Test(negotiation, the_requests_encoding_is_found_or_refused_with_what_is_known, .init = set_up,
     .fini = tear_down)
{
    static const struct {
        const char *encoding;
        int result;
        const pk_compressor *incoming;
    } rows[] = {
        {NULL, 0, NULL},
        {"", 0, NULL},
        {"identity", 0, NULL},
        {"Identity", 0, NULL},
        {"gzip", 0, &pk_compressor_gzip},
        {" gzip ", 0, &pk_compressor_gzip},
        {"deflate", 0, &pk_compressor_deflate},
        {"foo", PK_ERR_UNSUPPORTED, NULL},
        {"gzip,deflate", PK_ERR_UNSUPPORTED, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pk_field fields[4];
        pk_head head = head_of(fields, rows[i].encoding, "gzip", NULL);
        pk_negotiation got = {NULL, NULL};
        pk_status status = {.code = PK_OK};
        int r =
            pk_negotiate(&marshalling, &pk_compressor_set_default, &head, &arena, &got, &status);
        cr_expect_eq(r, rows[i].result, "%s", rows[i].encoding);
        cr_expect_eq(got.incoming, rows[i].incoming, "%s", rows[i].encoding);
        if (r < 0) {
            cr_expect_eq(status.code, PK_UNIMPLEMENTED);
            cr_expect_not_null(
                memmem(status.message.bytes, status.message.length, "identity,gzip,deflate", 21));
            cr_expect_not_null(memmem(status.message.bytes, status.message.length, rows[i].encoding,
                                      strlen(rows[i].encoding)));
        }
        const pk_compressor *incoming = NULL;
        pk_status other = {.code = PK_OK};
        cr_expect_eq(
            pk_negotiate_response(&pk_compressor_set_default, &head, &arena, &incoming, &other), r);
        cr_expect_eq(incoming, rows[i].incoming);
        if (r < 0)
            cr_expect_eq(other.code, PK_INTERNAL);
    }
}

Test(negotiation, a_set_takes_each_name_once, .init = set_up, .fini = tear_down)
{
    pk_compressor_set set;
    pk_compressor_set_init(&set);
    cr_expect_str_eq(set.names, "identity");
    cr_expect_eq(pk_compressor_set_add(&set, &pk_compressor_deflate), 0);
    cr_expect_eq(pk_compressor_set_add(&set, &pk_compressor_deflate), PK_ERR_EXISTS);
    cr_expect_str_eq(set.names, "identity,deflate");
    cr_expect_eq(set.names_length, strlen(set.names));
    static const char *const bad[] = {"", "identity", "a,b", "a b", "Gzip", "a\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pk_compressor one = pk_compressor_gzip;
        one.name = bad[i];
        cr_expect_eq(pk_compressor_set_add(&set, &one), PK_ERR_INVALID, "%s", bad[i]);
    }
    static const char *const names[] = {"b", "c", "d", "e", "f", "g", "h"};
    pk_compressor many[7];
    for (size_t i = 0; i < 7; i++) {
        many[i] = pk_compressor_gzip;
        many[i].name = names[i];
        cr_expect_eq(pk_compressor_set_add(&set, &many[i]), 0);
    }
    pk_compressor ninth = pk_compressor_gzip;
    ninth.name = "i";
    cr_expect_eq(pk_compressor_set_add(&set, &ninth), PK_ERR_LIMIT);
    cr_expect_str_eq(set.names, "identity,deflate,b,c,d,e,f,g,h");
    cr_expect_eq(pk_compressor_set_find(&set, PK_SLICE("E")), &many[3]);
    cr_expect_null(pk_compressor_set_find(&set, PK_SLICE("e\0")));
    cr_expect_null(pk_compressor_set_find(&set, (pk_slice){NULL, 0}));
}
