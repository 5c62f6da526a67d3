/* Statuses as JSON: see protocol_bare_error.h. */
#include "marshalling/protocol_bare_error.h"

#include "core/base64.h"
#include "marshalling/utf8.h"

#include <string.h>

#define TYPE_PREFIX "type.googleapis.com/"
#define DEPTH_MAX 32u /* nested values of members that are passed over */

/* The names of Connect's codes; Triple's are the same. Unlike gRPC's, "canceled" has one l. */
static const char *const code_names[] = {
    NULL,
    "canceled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
};
#define CODES (sizeof code_names / sizeof *code_names)

/* ---- google.rpc.Status: 1 code, 2 message, 3 repeated Any {1 type_url, 2 value} ---- */

static bool read_varint(pk_slice *rest, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 10 && i < rest->length; i++) {
        value |= (uint64_t) (rest->bytes[i] & 0x7f) << (7 * i);
        if (rest->bytes[i] < 0x80) {
            rest->bytes += i + 1;
            rest->length -= i + 1;
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* The next field; *ret_contents is empty where it is a number. False at the end or where broken. */
static bool read_field(pk_slice *rest, uint64_t *ret_field, pk_slice *ret_contents)
{
    uint64_t key, length;
    *ret_contents = (pk_slice){NULL, 0};
    if (!read_varint(rest, &key))
        return false;
    *ret_field = key >> 3;
    if ((key & 7) == 0)
        return read_varint(rest, &length);
    if ((key & 7) != 2 || !read_varint(rest, &length) || length > rest->length)
        return false;
    *ret_contents = (pk_slice){rest->bytes, (size_t) length};
    rest->bytes += length;
    rest->length -= (size_t) length;
    return true;
}

/* ---- Writing ---- */

static int append_literal(pk_buffer *buffer, const char *text)
{
    return pk_buffer_append(buffer, text, strlen(text));
}

/* Text in quotes. A byte that is not part of UTF-8 becomes U+FFFD, so that the JSON stays JSON. */
static int append_quoted(pk_buffer *buffer, pk_slice text)
{
    static const char digits[] = "0123456789abcdef";
    bool is_utf8 = pk_utf8_check(text.bytes, text.length) != PK_TEXT_BAD;
    int r = append_literal(buffer, "\"");
    for (size_t i = 0; r == 0 && i < text.length; i++) {
        uint8_t c = text.bytes[i];
        if (c == '"' || c == '\\') {
            const char escape[] = {'\\', (char) c};
            r = pk_buffer_append(buffer, escape, 2);
        } else if (c < 0x20) {
            const char escape[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
            r = pk_buffer_append(buffer, escape, 6);
        } else if (c >= 0x80 && !is_utf8) {
            r = append_literal(buffer, "\\ufffd");
        } else {
            r = pk_buffer_append(buffer, &c, 1);
        }
    }
    return r < 0 ? r : append_literal(buffer, "\"");
}

/* One Any: its type without the prefix that all have, its value in unpadded base64. */
static int append_detail(pk_buffer *buffer, pk_slice any, bool is_first)
{
    pk_slice type = {NULL, 0}, value = {NULL, 0}, contents;
    uint64_t field;
    while (read_field(&any, &field, &contents)) {
        if (field == 1)
            type = contents;
        if (field == 2)
            value = contents;
    }
    size_t prefix = sizeof TYPE_PREFIX - 1;
    if (type.length > prefix && memcmp(type.bytes, TYPE_PREFIX, prefix) == 0)
        type = (pk_slice){type.bytes + prefix, type.length - prefix};
    size_t length = pk_base64_encoded_length(value.length, false);
    if (append_literal(buffer, is_first ? "{\"type\":" : ",{\"type\":") < 0 ||
        append_quoted(buffer, type) < 0 || append_literal(buffer, ",\"value\":\"") < 0 ||
        pk_buffer_room_after(buffer, length) < 0)
        return PK_ERR_NOMEM;
    buffer->end += pk_base64_encode(buffer->end, value.bytes, value.length, false);
    return append_literal(buffer, "\"}");
}

static int append_details(pk_buffer *buffer, pk_slice details)
{
    pk_slice contents;
    uint64_t field;
    bool is_first = true;
    int r = 0;
    while (r == 0 && read_field(&details, &field, &contents)) {
        if (field != 3)
            continue;
        if (is_first)
            r = append_literal(buffer, ",\"details\":[");
        if (r == 0)
            r = append_detail(buffer, contents, is_first);
        is_first = false;
    }
    return r < 0 || is_first ? r : append_literal(buffer, "]");
}

int pk_bare_error_write(const pk_status *status, pk_buffer *buffer)
{
    unsigned code = (unsigned) status->code;
    if (code >= CODES || !code_names[code])
        code = PK_UNKNOWN;
    if (append_literal(buffer, "{\"code\":\"") < 0 ||
        append_literal(buffer, code_names[code]) < 0 || append_literal(buffer, "\"") < 0)
        return PK_ERR_NOMEM;
    if (status->message.length > 0 &&
        (append_literal(buffer, ",\"message\":") < 0 || append_quoted(buffer, status->message) < 0))
        return PK_ERR_NOMEM;
    if (append_details(buffer, status->details) < 0)
        return PK_ERR_NOMEM;
    return append_literal(buffer, "}");
}

/* ---- Reading: a strict reader of RFC 8259 that keeps strings only ---- */

struct json {
    const uint8_t *at, *end;
    pk_arena *arena;
};

static uint8_t peek(struct json *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
    return json->at < json->end ? *json->at : 0;
}

static bool take(struct json *json, uint8_t wanted)
{
    if (peek(json) != wanted)
        return false;
    json->at++;
    return true;
}

static int hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    uint8_t lower = digit | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Four digits of a \u escape; -1 where they are none. */
static int32_t read_unit(struct json *json)
{
    int32_t unit = 0;
    if (json->end - json->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(*json->at++);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static uint8_t *put_utf8(uint8_t *out, uint32_t point)
{
    if (point < 0x80) {
        *out++ = (uint8_t) point;
        return out;
    }
    if (point < 0x800) {
        *out++ = (uint8_t) (0xc0 | point >> 6);
    } else {
        if (point < 0x10000) {
            *out++ = (uint8_t) (0xe0 | point >> 12);
        } else {
            *out++ = (uint8_t) (0xf0 | point >> 18);
            *out++ = (uint8_t) (0x80 | (point >> 12 & 0x3f));
        }
        *out++ = (uint8_t) (0x80 | (point >> 6 & 0x3f));
    }
    *out++ = (uint8_t) (0x80 | (point & 0x3f));
    return out;
}

/* What follows "\u"; a surrogate without its partner becomes U+FFFD. NULL where it is broken. */
static uint8_t *read_unicode(struct json *json, uint8_t *out)
{
    int32_t unit = read_unit(json);
    if (unit < 0)
        return NULL;
    if (unit < 0xd800 || unit > 0xdfff)
        return put_utf8(out, (uint32_t) unit);
    if (unit < 0xdc00 && json->end - json->at >= 6 && json->at[0] == '\\' && json->at[1] == 'u') {
        struct json ahead = *json;
        ahead.at += 2;
        int32_t low = read_unit(&ahead);
        if (low >= 0xdc00 && low <= 0xdfff) {
            json->at = ahead.at;
            return put_utf8(out, 0x10000 + ((uint32_t) (unit - 0xd800) << 10) +
                                     (uint32_t) (low - 0xdc00));
        }
    }
    return put_utf8(out, 0xfffd);
}

/* One escape behind its backslash. */
static uint8_t *read_escape(struct json *json, uint8_t *out)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return NULL;
    uint8_t c = *json->at++;
    if (c == 'u')
        return read_unicode(json, out);
    const char *found = c ? strchr(escapes, c) : NULL;
    if (!found)
        return NULL;
    *out = (uint8_t) meanings[found - escapes];
    return out + 1;
}

/* A string, which never gets longer by being read, into the arena. */
static bool read_string(struct json *json, pk_slice *ret_text)
{
    if (!take(json, '"'))
        return false;
    const uint8_t *close = json->at;
    while (close < json->end && *close != '"')
        close += *close == '\\' && json->end - close > 1 ? 2 : 1;
    if (close >= json->end)
        return false;
    uint8_t *text = pk_arena_try(json->arena, (size_t) (close - json->at) + 1), *out = text;
    if (!text)
        return false;
    while (*json->at != '"') {
        uint8_t c = *json->at++;
        if (c < 0x20)
            return false;
        if (c != '\\')
            *out++ = c;
        else if (!(out = read_escape(json, out)))
            return false;
    }
    json->at++;
    *ret_text = (pk_slice){text, (size_t) (out - text)};
    return pk_utf8_check(text, ret_text->length) != PK_TEXT_BAD;
}

static bool skip_value(struct json *json, unsigned depth);

/* Numbers and the three words, as far as it takes to pass over them. */
static bool skip_word(struct json *json)
{
    const uint8_t *start = json->at;
    while (json->at < json->end &&
           ((*json->at >= '0' && *json->at <= '9') || (*json->at >= 'a' && *json->at <= 'z') ||
            *json->at == '-' || *json->at == '+' || *json->at == '.' || *json->at == 'E'))
        json->at++;
    return json->at > start;
}

static bool skip_members(struct json *json, uint8_t close, unsigned depth)
{
    json->at++;
    if (take(json, close))
        return true;
    do {
        pk_slice key;
        if (close == '}' && (!read_string(json, &key) || !take(json, ':')))
            return false;
        if (!skip_value(json, depth + 1))
            return false;
    } while (take(json, ','));
    return take(json, close);
}

static bool skip_value(struct json *json, unsigned depth)
{
    pk_slice text;
    if (depth > DEPTH_MAX)
        return false;
    switch (peek(json)) {
    case '"':
        return read_string(json, &text);
    case '{':
        return skip_members(json, '}', depth);
    case '[':
        return skip_members(json, ']', depth);
    default:
        return skip_word(json);
    }
}

static bool is_text(pk_slice have, const char *want)
{
    return have.length == strlen(want) && memcmp(have.bytes, want, have.length) == 0;
}

struct detail {
    pk_slice type;
    pk_slice value; /* decoded */
};

static bool read_detail(struct json *json, struct detail *ret_detail)
{
    struct detail detail = {{NULL, 0}, {NULL, 0}};
    if (!take(json, '{'))
        return false;
    if (!take(json, '}')) {
        do {
            pk_slice key, text;
            if (!read_string(json, &key) || !take(json, ':'))
                return false;
            if (is_text(key, "type")) {
                if (!read_string(json, &detail.type))
                    return false;
            } else if (is_text(key, "value")) {
                if (!read_string(json, &text))
                    return false;
                uint8_t *bytes = pk_arena_try(json->arena, pk_base64_decoded_max(text.length));
                if (!bytes || pk_base64_decode(bytes, text, &detail.value.length) < 0)
                    return false;
                detail.value.bytes = bytes;
            } else if (!skip_value(json, 0)) {
                return false;
            }
        } while (take(json, ','));
        if (!take(json, '}'))
            return false;
    }
    *ret_detail = detail;
    return true;
}

static size_t varint_size(size_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static uint8_t *put_varint(uint8_t *out, size_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (uint8_t) (value | 0x80);
    *out++ = (uint8_t) value;
    return out;
}

static uint8_t *put_bytes(uint8_t *out, unsigned field, pk_slice prefix, pk_slice bytes)
{
    size_t length = prefix.length + bytes.length;
    *out++ = (uint8_t) (field << 3 | 2);
    out = put_varint(out, length);
    if (prefix.length > 0)
        memcpy(out, prefix.bytes, prefix.length);
    if (bytes.length > 0)
        memcpy(out + prefix.length, bytes.bytes, bytes.length);
    return out + length;
}

static size_t bytes_size(size_t length)
{
    return 1 + varint_size(length) + length;
}

#define DETAILS_MAX 64u

/* google.rpc.Status of what was read, in the arena. */
static pk_slice make_details(pk_arena *arena, const pk_status *status, const struct detail *details,
                             size_t count)
{
    const pk_slice prefix = PK_SLICE(TYPE_PREFIX), none = {NULL, 0};
    size_t sizes[DETAILS_MAX], size = 2 + bytes_size(status->message.length);
    for (size_t i = 0; i < count; i++) {
        sizes[i] = bytes_size(prefix.length + details[i].type.length) +
                   bytes_size(details[i].value.length);
        size += bytes_size(sizes[i]);
    }
    uint8_t *bytes = pk_arena_try(arena, size), *out = bytes;
    if (!bytes)
        return none;
    *out++ = 1 << 3;
    *out++ = (uint8_t) status->code;
    out = put_bytes(out, 2, none, status->message);
    for (size_t i = 0; i < count; i++) {
        *out++ = 3 << 3 | 2;
        out = put_varint(out, sizes[i]);
        out = put_bytes(out, 1, prefix, details[i].type);
        out = put_bytes(out, 2, none, details[i].value);
    }
    return (pk_slice){bytes, (size_t) (out - bytes)};
}

static bool read_details(struct json *json, struct detail *details, size_t *ret_count)
{
    size_t count = 0;
    if (!take(json, '['))
        return false;
    if (!take(json, ']')) {
        do {
            if (count == DETAILS_MAX || !read_detail(json, &details[count++]))
                return false;
        } while (take(json, ','));
        if (!take(json, ']'))
            return false;
    }
    *ret_count = count;
    return true;
}

static pk_code code_of(pk_slice name)
{
    for (unsigned i = 1; i < CODES; i++)
        if (is_text(name, code_names[i]))
            return (pk_code) i;
    return PK_OK;
}

bool pk_bare_error_read(pk_slice bytes, pk_arena *arena, pk_status *ret_status)
{
    struct json json = {bytes.bytes, bytes.bytes + bytes.length, arena};
    struct detail details[DETAILS_MAX];
    size_t detail_count = 0;
    pk_status status = {PK_OK, {NULL, 0}, {NULL, 0}};
    if (bytes.length == 0 || !take(&json, '{') || peek(&json) == '}')
        return false;
    do {
        pk_slice key, text;
        if (!read_string(&json, &key) || !take(&json, ':'))
            return false;
        bool is_string = peek(&json) == '"';
        if (is_text(key, "code") && is_string) {
            if (!read_string(&json, &text))
                return false;
            status.code = code_of(text);
        } else if (is_text(key, "message") && is_string) {
            if (!read_string(&json, &status.message))
                return false;
        } else if (is_text(key, "details") && peek(&json) == '[') {
            if (!read_details(&json, details, &detail_count))
                return false;
        } else if (!skip_value(&json, 0)) {
            return false;
        }
    } while (take(&json, ','));
    if (!take(&json, '}') || peek(&json) != 0 || json.at != json.end || status.code == PK_OK)
        return false;
    if (detail_count > 0)
        status.details = make_details(arena, &status, details, detail_count);
    *ret_status = status;
    return true;
}
