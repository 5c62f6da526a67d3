/* core/status.c: the names and maps of gRPC's statuscodes.md and http-grpc-status-mapping.md. */
#include "core/status.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

Test(status, each_code_has_the_name_of_the_specification)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    for (int code = 0; code <= 16; code++)
        cr_expect_str_eq(pk_code_name((pk_code) code), names[code]);
    cr_expect_str_eq(pk_code_name((pk_code) 17), "UNKNOWN");
    cr_expect_str_eq(pk_code_name((pk_code) -1), "UNKNOWN");
}

Test(status, http_statuses_map_as_the_specification_says)
{
    static const struct {
        unsigned http;
        int code;
    } rows[] = {{400, 13}, {401, 16}, {403, 7}, {404, 12}, {429, 14}, {502, 14}, {503, 14},
                {504, 14}, {200, 2},  {500, 2}, {302, 2},  {0, 2},    {999, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq((int) pk_code_from_http(rows[i].http), rows[i].code, "%u", rows[i].http);
}

Test(status, a_peer_that_cannot_be_reached_is_unavailable)
{
    static const int unavailable[] = {ECONNREFUSED, ECONNRESET,   EPIPE,  ETIMEDOUT,
                                      ENETUNREACH,  EHOSTUNREACH, ENOENT, ECONNABORTED};
    for (size_t i = 0; i < sizeof unavailable / sizeof *unavailable; i++)
        cr_expect_eq(pk_code_from_errno(unavailable[i]), PK_UNAVAILABLE, "%d", unavailable[i]);
    cr_expect_eq(pk_code_from_errno(0), PK_OK);
    cr_expect_eq(pk_code_from_errno(EMFILE), PK_RESOURCE_EXHAUSTED);
    cr_expect_eq(pk_code_from_errno(ENOMEM), PK_RESOURCE_EXHAUSTED);
    cr_expect_eq(pk_code_from_errno(ECANCELED), PK_CANCELLED);
    cr_expect_eq(pk_code_from_errno(EINVAL), PK_INTERNAL);
    cr_expect_eq(pk_code_from_errno(-5), PK_UNKNOWN);
}

Test(status, each_local_error_has_a_text_and_a_code)
{
    static const struct {
        int error;
        pk_code code;
    } rows[] = {
        {0, PK_OK},
        {PK_ERR_NOMEM, PK_RESOURCE_EXHAUSTED},
        {PK_ERR_LIMIT, PK_RESOURCE_EXHAUSTED},
        {PK_ERR_INVALID, PK_INTERNAL},
        {PK_ERR_STATE, PK_INTERNAL},
        {PK_ERR_MALFORMED, PK_INTERNAL},
        {PK_ERR_EXISTS, PK_INTERNAL},
        {PK_ERR_CLOSED, PK_UNAVAILABLE},
        {PK_ERR_SYSTEM, PK_UNAVAILABLE},
        {PK_ERR_UNSUPPORTED, PK_UNIMPLEMENTED},
        {PK_ERR_TOO_LATE, PK_CANCELLED},
        {-1000, PK_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(pk_code_from_error(rows[i].error), rows[i].code, "%d", rows[i].error);
        for (size_t j = 0; j < i; j++)
            cr_expect_str_neq(pk_error_text(rows[i].error), pk_error_text(rows[j].error));
    }
}

static void *refuse(void *context, void *block, size_t size)
{
    return NULL;
}

Test(status, printed_and_copied_statuses_live_in_the_arena)
{
    pk_memory memory;
    pk_arena arena;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cr_assert_eq(pk_memory_init(&memory, NULL), 0);
    pk_arena_init(&arena, &memory, 0);

    pk_status status = pk_status_print(&arena, PK_NOT_FOUND, "no %s in %d", "book", 7);
    cr_expect_eq(status.code, PK_NOT_FOUND);
    cr_expect_eq(status.message.length, 12);
    cr_expect_str_eq((const char *) status.message.bytes, "no book in 7");
    pk_status longer = pk_status_print(&arena, PK_NOT_FOUND, "<%s>", text);
    cr_expect_eq(longer.message.length, 1001);
    cr_expect_eq(longer.message.bytes[1000], '>');

    status.details = PK_SLICE("\x08\x05");
    pk_status copy = pk_status_copy(&arena, &status);
    cr_expect_neq(copy.message.bytes, status.message.bytes);
    cr_expect_eq(memcmp(copy.message.bytes, "no book in 7", 12), 0);
    cr_expect_eq(copy.details.length, 2);
    cr_expect_eq(memcmp(copy.details.bytes, "\x08\x05", 2), 0);

    pk_arena_done(&arena);
    cr_expect_eq(memory.live_blocks, 0);
    pk_memory_done(&memory);
}

Test(status, without_memory_the_code_is_kept)
{
    pk_memory memory;
    pk_arena arena;
    const pk_allocator nothing = {refuse, NULL};
    cr_assert_eq(pk_memory_init(&memory, &nothing), 0);
    pk_arena_init(&arena, &memory, 0);
    pk_status status = pk_status_print(&arena, PK_ABORTED, "gone");
    cr_expect_eq(status.code, PK_ABORTED);
    cr_expect_eq(status.message.length, 0);
    pk_status whole = PK_STATUS(PK_ABORTED, "gone");
    cr_expect_eq(pk_status_copy(&arena, &whole).code, PK_ABORTED);
    pk_arena_done(&arena);
    pk_memory_done(&memory);
}
