/* A recursive-descent JSON parser; see json_reader.h. */
#include "jmh-like-bench/json_reader.h"

#include "jmh-like-bench/allocate.h"
#include "jmh-like-bench/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const char *start;
    const char *at;
    const char *end;
    int depth;
    const char *fault; /* the first one, static */
};

static bool fail(struct parser *parser, const char *fault)
{
    if (!parser->fault)
        parser->fault = fault;
    return false;
}

static void skip_space(struct parser *parser)
{
    while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) && *parser->at)
        parser->at++;
}

static bool take(struct parser *parser, char wanted)
{
    if (parser->at == parser->end || *parser->at != wanted)
        return false;
    parser->at++;
    return true;
}

static bool take_word(struct parser *parser, const char *word)
{
    size_t length = strlen(word);
    if ((size_t) (parser->end - parser->at) < length || memcmp(parser->at, word, length) != 0)
        return fail(parser, "unknown word");
    parser->at += length;
    return true;
}

static bool is_digit(const struct parser *parser)
{
    return parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9';
}

static bool skip_digits(struct parser *parser)
{
    if (!is_digit(parser))
        return fail(parser, "a digit is missing");
    while (is_digit(parser))
        parser->at++;
    return true;
}

static bool parse_number(struct parser *parser, double *ret_number)
{
    const char *start = parser->at;
    take(parser, '-');
    bool zero = take(parser, '0');
    if (zero ? is_digit(parser) : !skip_digits(parser))
        return fail(parser, "a number begins with 0");
    if (take(parser, '.') && !skip_digits(parser))
        return false;
    if (take(parser, 'e') || take(parser, 'E')) {
        if (!take(parser, '-'))
            take(parser, '+');
        if (!skip_digits(parser))
            return false;
    }
    /* strtod wants an end that it can see; the text may have none. */
    pk_bench_text digits = {0};
    pk_bench_text_add(&digits, start, (size_t) (parser->at - start));
    *ret_number = strtod(digits.bytes, NULL);
    pk_bench_text_done(&digits);
    return true;
}

static bool parse_hex(struct parser *parser, uint32_t *ret_unit)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *found =
            parser->at < parser->end && *parser->at ? strchr(digits, *parser->at) : NULL;
        if (!found)
            return fail(parser, "\\u wants four hexadecimal digits");
        uint32_t digit = (uint32_t) (found - digits);
        unit = unit * 16 + (digit > 15 ? digit - 6 : digit);
        parser->at++;
    }
    *ret_unit = unit;
    return true;
}

static void put_utf8(pk_bench_text *text, uint32_t point)
{
    char bytes[4];
    size_t count = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint32_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = count; i-- > 1; point >>= 6)
        bytes[i] = (char) (0x80 | (point & 0x3F));
    bytes[0] = (char) (lead[count] | point);
    pk_bench_text_add(text, bytes, count);
}

static bool parse_escape(struct parser *parser, pk_bench_text *text)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (take(parser, 'u')) {
        uint32_t point;
        uint32_t low;
        if (!parse_hex(parser, &point))
            return false;
        if (point >= 0xD800 && point < 0xDC00) {
            if (!take(parser, '\\') || !take(parser, 'u') || !parse_hex(parser, &low) ||
                low < 0xDC00 || low > 0xDFFF)
                return fail(parser, "half of a surrogate pair");
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        } else if (point >= 0xDC00 && point <= 0xDFFF) {
            return fail(parser, "half of a surrogate pair");
        }
        put_utf8(text, point);
        return true;
    }
    const char *found = parser->at < parser->end && *parser->at ? strchr(from, *parser->at) : NULL;
    if (!found)
        return fail(parser, "unknown escape");
    pk_bench_text_add(text, &to[found - from], 1);
    parser->at++;
    return true;
}

static bool parse_string(struct parser *parser, char **ret_string)
{
    pk_bench_text text = {0};
    bool good = take(parser, '"') || fail(parser, "a string is missing");
    while (good && !take(parser, '"')) {
        if (parser->at == parser->end)
            good = fail(parser, "a string does not end");
        else if ((unsigned char) *parser->at < 0x20)
            good = fail(parser, "a control character in a string");
        else if (take(parser, '\\'))
            good = parse_escape(parser, &text);
        else
            pk_bench_text_add(&text, parser->at++, 1);
    }
    if (good)
        *ret_string = pk_bench_text_take(&text);
    pk_bench_text_done(&text);
    return good;
}

static bool parse_value(struct parser *parser, pk_bench_json *json);

static bool parse_items(struct parser *parser, pk_bench_json *json, char bracket)
{
    bool object = json->type == PK_BENCH_JSON_OBJECT;
    skip_space(parser);
    if (take(parser, bracket))
        return true;
    do {
        json->items = pk_bench_room(json->items, json->count, sizeof *json->items);
        if (object)
            json->names = pk_bench_room(json->names, json->count, sizeof *json->names);
        json->items[json->count] = (pk_bench_json){0};
        if (object)
            json->names[json->count] = NULL;
        pk_bench_json *item = &json->items[json->count++];
        skip_space(parser);
        if (object) {
            if (!parse_string(parser, &json->names[json->count - 1]))
                return false;
            skip_space(parser);
            if (!take(parser, ':'))
                return fail(parser, "':' is missing");
        }
        if (!parse_value(parser, item))
            return false;
        skip_space(parser);
    } while (take(parser, ','));
    return take(parser, bracket) || fail(parser, "a bracket is not closed");
}

static bool parse_value(struct parser *parser, pk_bench_json *json)
{
    skip_space(parser);
    if (parser->at == parser->end)
        return fail(parser, "a value is missing");
    switch (*parser->at) {
    case '{':
    case '[':
        json->type = *parser->at == '{' ? PK_BENCH_JSON_OBJECT : PK_BENCH_JSON_ARRAY;
        parser->at++;
        if (++parser->depth > PK_BENCH_JSON_DEPTH)
            return fail(parser, "nested too deeply");
        bool good = parse_items(parser, json, json->type == PK_BENCH_JSON_OBJECT ? '}' : ']');
        parser->depth--;
        return good;
    case '"':
        json->type = PK_BENCH_JSON_STRING;
        return parse_string(parser, &json->string);
    case 't':
        json->type = PK_BENCH_JSON_BOOLEAN;
        json->number = 1;
        return take_word(parser, "true");
    case 'f':
        json->type = PK_BENCH_JSON_BOOLEAN;
        return take_word(parser, "false");
    case 'n':
        return take_word(parser, "null");
    default:
        json->type = PK_BENCH_JSON_NUMBER;
        return parse_number(parser, &json->number);
    }
}

bool pk_bench_json_parse(pk_bench_json *json, const char *text, size_t length, char **ret_error)
{
    struct parser parser = {.start = text, .at = text, .end = text + length};
    *json = (pk_bench_json){0};
    if (parse_value(&parser, json)) {
        skip_space(&parser);
        if (parser.at == parser.end)
            return true;
        fail(&parser, "text after the value");
    }
    pk_bench_text error = {0};
    int line = 1;
    for (const char *at = text; at < parser.at; at++)
        line += *at == '\n';
    pk_bench_text_print(&error, "line %d: %s", line, parser.fault);
    *ret_error = pk_bench_text_take(&error);
    pk_bench_json_done(json);
    return false;
}

void pk_bench_json_done(pk_bench_json *json)
{
    for (size_t i = 0; i < json->count; i++) {
        pk_bench_json_done(&json->items[i]);
        if (json->names)
            free(json->names[i]);
    }
    free(json->items);
    free(json->names);
    free(json->string);
    *json = (pk_bench_json){0};
}

const pk_bench_json *pk_bench_json_member(const pk_bench_json *json, const char *name)
{
    if (!json || json->type != PK_BENCH_JSON_OBJECT)
        return NULL;
    for (size_t i = 0; i < json->count; i++)
        if (strcmp(json->names[i], name) == 0)
            return &json->items[i];
    return NULL;
}
