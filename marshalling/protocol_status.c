/* Statuses as fields: see protocol_status.h. */
#include "marshalling/protocol_status.h"

#include "core/base64.h"
#include "core/percent.h"

#include <string.h>

#define STATUS "grpc-status"
#define MESSAGE "grpc-message"
#define DETAILS "grpc-status-details-bin"

const pk_field pk_status_field_ok = {
    .name = {(const uint8_t *) STATUS, sizeof STATUS - 1},
    .value = {(const uint8_t *) "0", 1},
};

const pk_field pk_status_field_no_memory = {
    .name = {(const uint8_t *) STATUS, sizeof STATUS - 1},
    .value = {(const uint8_t *) "8", 1},
};

static const char code_digits[] = "0001020304050607080910111213141516";

/* The code in decimal; static. */
static pk_slice code_value(pk_code code)
{
    unsigned number = (unsigned) code;
    if (number > PK_UNAUTHENTICATED)
        number = PK_UNKNOWN;
    const uint8_t *digits = (const uint8_t *) code_digits + 2 * (size_t) number;
    return number < 10 ? (pk_slice){digits + 1, 1} : (pk_slice){digits, 2};
}

size_t pk_status_write_fields(const pk_status *status, pk_arena *arena, pk_field *out)
{
    size_t count = 0;
    out[count++] = (pk_field){.name = PK_SLICE(STATUS), .value = code_value(status->code)};
    if (status->message.length > 0) {
        size_t length = pk_percent_encoded_length(status->message);
        uint8_t *text = pk_arena_try(arena, length);
        if (text) {
            pk_percent_encode(text, status->message);
            out[count++] = (pk_field){.name = PK_SLICE(MESSAGE), .value = {text, length}};
        }
    }
    if (status->details.length > 0) {
        size_t length = pk_base64_encoded_length(status->details.length, false);
        uint8_t *text = pk_arena_try(arena, length);
        if (text) {
            pk_base64_encode(text, status->details.bytes, status->details.length, false);
            out[count++] = (pk_field){.name = PK_SLICE(DETAILS), .value = {text, length}};
        }
    }
    return count;
}

static const pk_field *find_field(const pk_field *fields, size_t count, pk_slice name)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].name.length == name.length &&
            memcmp(fields[i].name.bytes, name.bytes, name.length) == 0)
            return &fields[i];
    return NULL;
}

/* One or two digits; -1 for anything else. */
static int read_code(pk_slice value)
{
    int code = 0;
    if (value.length < 1 || value.length > 2)
        return -1;
    for (size_t i = 0; i < value.length; i++) {
        int digit = value.bytes[i] - '0';
        if (digit < 0 || digit > 9)
            return -1;
        code = code * 10 + digit;
    }
    return code <= PK_UNAUTHENTICATED ? code : -1;
}

static pk_slice read_message(pk_slice value, pk_arena *arena)
{
    if (!pk_percent_present(value))
        return value;
    uint8_t *text = pk_arena_try(arena, value.length);
    return text ? (pk_slice){text, pk_percent_decode(text, value)} : value;
}

static pk_slice read_details(pk_slice value, pk_arena *arena)
{
    uint8_t *bytes = pk_arena_try(arena, pk_base64_decoded_max(value.length));
    size_t length;
    if (!bytes || pk_base64_decode(bytes, value, &length) < 0)
        return (pk_slice){NULL, 0};
    return (pk_slice){bytes, length};
}

bool pk_status_read_fields(const pk_field *fields, size_t count, pk_arena *arena,
                           pk_status *ret_status)
{
    const pk_field *found = find_field(fields, count, PK_SLICE(STATUS));
    if (!found)
        return false;
    const pk_field *message = find_field(fields, count, PK_SLICE(MESSAGE));
    const pk_field *details = find_field(fields, count, PK_SLICE(DETAILS));
    int code = read_code(found->value);
    pk_status status = {.code = code < 0 ? PK_UNKNOWN : (pk_code) code};
    if (message)
        status.message = read_message(message->value, arena);
    else if (code < 0)
        status = pk_status_print(arena, PK_UNKNOWN, STATUS " \"%.*s\" is no status code",
                                 found->value.length < 32 ? (int) found->value.length : 32,
                                 found->value.bytes ? (const char *) found->value.bytes : "");
    if (details)
        status.details = read_details(details->value, arena);
    *ret_status = status;
    return true;
}
