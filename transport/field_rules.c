/* The rules for HTTP fields: see field_rules.h. */
#include "transport/field_rules.h"

#include <string.h>

/* Token characters (RFC 9110 section 5.6.2) without the upper-case letters. */
static const uint8_t name_characters[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1,
    ['-'] = 1, ['.'] = 1, ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1,  ['~'] = 1, ['0'] = 1,
    ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1,  ['7'] = 1, ['8'] = 1,
    ['9'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1,  ['f'] = 1, ['g'] = 1,
    ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1, ['l'] = 1, ['m'] = 1,  ['n'] = 1, ['o'] = 1,
    ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1,  ['v'] = 1, ['w'] = 1,
    ['x'] = 1, ['y'] = 1, ['z'] = 1,
};

static bool equal(pk_slice text, const char *literal, size_t length)
{
    return text.length == length && memcmp(text.bytes, literal, length) == 0;
}

#define EQUAL(text, literal) equal(text, literal, sizeof(literal) - 1)

bool pk_field_name_valid(pk_slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        if (!name_characters[name.bytes[i]])
            return false;
    }
    return name.length > 0;
}

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))
#define HIGH_BITS EACH_BYTE(0x80)

/* Whether one of eight bytes may be a control character; false alarms are left to the slow path. */
static uint64_t suspicious(uint64_t word)
{
    uint64_t below_space = (word - EACH_BYTE(0x20)) & ~word & HIGH_BITS;
    uint64_t delete = word ^ EACH_BYTE(0x7f);
    uint64_t is_delete = (delete - EACH_BYTE(1)) & ~delete &HIGH_BITS;
    return below_space | is_delete;
}

static bool plain(const uint8_t *at, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((at[i] < 0x20 && at[i] != '\t') || at[i] == 0x7f)
            return false;
    }
    return true;
}

static bool blank(uint8_t character)
{
    return character == ' ' || character == '\t';
}

static uint64_t load8(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint64_t load4(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

bool pk_field_value_valid(pk_slice value)
{
    const uint8_t *at = value.bytes;
    size_t length = value.length;
    if (length == 0)
        return true;
    if (blank(at[0]) || blank(at[length - 1]))
        return false;
    if (length < 4)
        return plain(at, length);
    /* Words that overlap at the end look at each byte at least once. */
    uint64_t found = 0;
    if (length < 8) {
        found = suspicious(load4(at) << 32 | load4(at + length - 4));
    } else {
        for (size_t i = 0; i + 8 < length; i += 8)
            found |= suspicious(load8(at + i));
        found |= suspicious(load8(at + length - 8));
    }
    return PK_LIKELY(!found) || plain(at, length);
}

/* Fields that concern one connection only (RFC 9113 section 8.2.2). */
static bool concerns_connection(pk_slice name)
{
    switch (name.length) {
    case 7:
        return EQUAL(name, "upgrade");
    case 10:
        return EQUAL(name, "connection") || EQUAL(name, "keep-alive");
    case 16:
        return EQUAL(name, "proxy-connection");
    case 17:
        return EQUAL(name, "transfer-encoding");
    default:
        return false;
    }
}

bool pk_field_allowed(const pk_field *field)
{
    /* Known names were compared with valid ones; only strangers need the check. */
    if (field->known == PK_FIELD_OTHER &&
        (!pk_field_name_valid(field->name) || concerns_connection(field->name)))
        return false;
    if (field->known == PK_FIELD_TE && !EQUAL(field->value, "trailers"))
        return false;
    return pk_field_value_valid(field->value);
}

bool pk_field_request_complete(const pk_head *head)
{
    /* CONNECT has neither path nor scheme; nobody here could serve it. */
    pk_slice path = pk_head_value(head, PK_FIELD_PATH);
    pk_slice method = pk_head_value(head, PK_FIELD_METHOD);
    if (method.length == 0 || !head->first[PK_FIELD_SCHEME] || head->first[PK_FIELD_STATUS])
        return false;
    if (path.length == 0)
        return false;
    return path.bytes[0] == '/' || (EQUAL(path, "*") && EQUAL(method, "OPTIONS"));
}

bool pk_field_response_complete(const pk_head *head)
{
    return pk_field_status(pk_head_value(head, PK_FIELD_STATUS)) != 0 &&
           !head->first[PK_FIELD_METHOD] && !head->first[PK_FIELD_PATH] &&
           !head->first[PK_FIELD_SCHEME] && !head->first[PK_FIELD_AUTHORITY];
}

int64_t pk_field_content_length(pk_slice value)
{
    if (value.length == 0 || value.length > 18)
        return -1;
    int64_t number = 0;
    for (size_t i = 0; i < value.length; i++) {
        if (value.bytes[i] < '0' || value.bytes[i] > '9')
            return -1;
        number = number * 10 + (value.bytes[i] - '0');
    }
    return number;
}

unsigned pk_field_status(pk_slice value)
{
    if (value.length != 3)
        return 0;
    unsigned status = 0;
    for (size_t i = 0; i < 3; i++) {
        if (value.bytes[i] < '0' || value.bytes[i] > '9')
            return 0;
        status = status * 10 + (unsigned) (value.bytes[i] - '0');
    }
    return status >= 100 ? status : 0;
}
