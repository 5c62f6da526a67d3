/* core/field.c: every known name is found, and nothing that is only close to one. */
#include "core/exchange.h"

#include <criterion/criterion.h>

#include <string.h>

static const struct {
    const char *name;
    pk_field_name known;
} names[] = {
    {":method", PK_FIELD_METHOD},
    {":path", PK_FIELD_PATH},
    {":scheme", PK_FIELD_SCHEME},
    {":authority", PK_FIELD_AUTHORITY},
    {"host", PK_FIELD_AUTHORITY},
    {":status", PK_FIELD_STATUS},
    {"content-type", PK_FIELD_CONTENT_TYPE},
    {"content-length", PK_FIELD_CONTENT_LENGTH},
    {"content-encoding", PK_FIELD_CONTENT_ENCODING},
    {"accept", PK_FIELD_ACCEPT},
    {"accept-encoding", PK_FIELD_ACCEPT_ENCODING},
    {"te", PK_FIELD_TE},
    {"user-agent", PK_FIELD_USER_AGENT},
    {"origin", PK_FIELD_ORIGIN},
    {"grpc-timeout", PK_FIELD_GRPC_TIMEOUT},
    {"grpc-encoding", PK_FIELD_GRPC_ENCODING},
    {"grpc-accept-encoding", PK_FIELD_GRPC_ACCEPT_ENCODING},
};

static pk_field_name lookup(const char *name, size_t length)
{
    return pk_field_lookup((pk_slice){(const uint8_t *) name, length});
}

Test(field, each_known_name_is_found)
{
    bool seen[PK_FIELD_NAMES] = {true}; /* PK_FIELD_OTHER has no name */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cr_expect_eq(lookup(names[i].name, strlen(names[i].name)), names[i].known, "%s",
                     names[i].name);
        seen[names[i].known] = true;
    }
    for (size_t i = 0; i < PK_FIELD_NAMES; i++)
        cr_expect(seen[i], "no name for %zu", i);
}

Test(field, a_name_that_differs_in_one_byte_or_in_length_is_other)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char changed[32];
        size_t length = strlen(names[i].name);
        strcpy(changed, names[i].name);
        for (size_t at = 0; at < length; at++) {
            changed[at] = (char) (changed[at] ^ 0x20);
            cr_expect_eq(lookup(changed, length), PK_FIELD_OTHER, "%s", changed);
            changed[at] = (char) (changed[at] ^ 0x20);
        }
        strcat(changed, "x");
        cr_expect_eq(lookup(changed, length + 1), PK_FIELD_OTHER, "%s", changed);
        cr_expect_eq(lookup(names[i].name, length - 1), PK_FIELD_OTHER);
    }
    cr_expect_eq(pk_field_lookup((pk_slice){NULL, 0}), PK_FIELD_OTHER);
}
