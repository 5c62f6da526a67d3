/* HTTP/1.1 requests, strictly read: see http1_parser.h. Sections are of RFC 9112 where not said. */
#include "transport/http1_parser.h"

#include "transport/field_rules.h"

#include <string.h>

#define FIELD_OVERHEAD 32u     /* per field, as HTTP/2 counts (RFC 9113 section 6.5.2) */
#define FIELDS_FIRST 32u       /* room of the first table */
#define PSEUDO_FIELDS 3u       /* that stand in front of the head's own */
#define CHUNK_DIGITS_MAX 15u   /* leading zeros count: no number of so many can overflow */
#define LINE_FIRST 512u        /* bytes of the first memory for a line in pieces */
#define LINE_SLACK 64u         /* of a field's line: its colon, blanks and line end */
#define KEPT_LINE_BYTES 16384u /* of line memory that is kept for the next request */

/* ---- Refusal ---- */

static int refuse(pk_http1_parser *parser, unsigned status, const char *why)
{
    parser->state = PK_HTTP1_REFUSED;
    parser->status = status;
    parser->why = why;
    return PK_ERR_MALFORMED;
}

/* ---- Text ---- */

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t) (c + ('a' - 'A')) : c;
}

static bool is(pk_slice text, const char *literal)
{
    size_t length = strlen(literal);
    if (text.length != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (lower(text.bytes[i]) != (uint8_t) literal[i])
            return false;
    }
    return true;
}

static bool blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static pk_slice trimmed(const uint8_t *at, const uint8_t *end)
{
    while (at < end && blank(*at))
        at++;
    while (end > at && blank(end[-1]))
        end--;
    return (pk_slice){at, (size_t) (end - at)};
}

/* What uri-host and port are made of (RFC 3986 section 3.2); user information is not among it. */
static bool host_valid(pk_slice host)
{
    for (size_t i = 0; i < host.length; i++) {
        uint8_t c = host.bytes[i];
        bool letter = lower(c) >= 'a' && lower(c) <= 'z';
        if (!letter && !(c >= '0' && c <= '9') && (c == 0 || !strchr("-._~!$&'()*+;=%:[]", c)))
            return false;
    }
    return true;
}

/* Visible characters of US-ASCII; a fragment is none of a request's business. */
static bool target_valid(pk_slice target)
{
    for (size_t i = 0; i < target.length; i++) {
        uint8_t c = target.bytes[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return false;
    }
    return target.length > 0;
}

/* Upper case is another method than lower case, but both are tokens. */
static bool method_valid(pk_slice method)
{
    for (size_t i = 0; i < method.length; i++) {
        uint8_t c = lower(method.bytes[i]);
        if (!pk_field_name_valid((pk_slice){&c, 1}))
            return false;
    }
    return method.length > 0;
}

/* ---- Fields ---- */

static int add_field(pk_http1_parser *parser, pk_slice name, pk_slice value)
{
    if (parser->field_count == parser->field_capacity) {
        size_t capacity = parser->field_capacity ? 2 * parser->field_capacity : FIELDS_FIRST;
        pk_field *fields = pk_arena_try(&parser->arena, capacity * sizeof *fields);
        if (!fields)
            return PK_ERR_NOMEM;
        if (parser->field_count > 0)
            memcpy(fields, parser->fields, parser->field_count * sizeof *fields);
        parser->fields = fields;
        parser->field_capacity = capacity;
    }
    parser->fields[parser->field_count++] =
        (pk_field){.name = name, .value = value, .known = (uint8_t) pk_field_lookup(name)};
    return 0;
}

static void forget_fields(pk_http1_parser *parser)
{
    parser->fields = NULL;
    parser->field_count = parser->field_capacity = parser->field_bytes = 0;
}

static pk_head finished_head(const pk_http1_parser *parser)
{
    pk_head head = {.fields = parser->fields, .count = parser->field_count};
    for (size_t i = 0; i < head.count; i++) {
        uint8_t known = head.fields[i].known;
        if (known != PK_FIELD_OTHER && head.first[known] == 0)
            head.first[known] = (uint16_t) (i + 1);
        else if (known != PK_FIELD_OTHER)
            head.repeated |= 1u << known;
    }
    return head;
}

/* A line's own copy without its end, followed by a NUL; NULL when memory runs out. */
static uint8_t *copy_line(pk_http1_parser *parser, const uint8_t *line, size_t length)
{
    uint8_t *copy = pk_arena_try(&parser->arena, length + 1);
    if (copy) {
        memcpy(copy, line, length);
        copy[length] = 0;
    }
    return copy;
}

/* "name: value" in place, the name in lower case (section 5). */
static int split_field(pk_http1_parser *parser, uint8_t *line, size_t length, pk_slice *ret_name,
                       pk_slice *ret_value)
{
    if (blank(line[0]))
        return refuse(parser, 400, "a field goes on on a second line");
    uint8_t *colon = memchr(line, ':', length);
    if (!colon)
        return refuse(parser, 400, "a field has no colon");
    for (uint8_t *at = line; at < colon; at++)
        *at = lower(*at);
    pk_slice name = {line, (size_t) (colon - line)};
    if (!pk_field_name_valid(name))
        return refuse(parser, 400, "a field's name is not valid");
    pk_slice value = trimmed(colon + 1, line + length);
    if (!pk_field_value_valid(value))
        return refuse(parser, 400, "a field's value has control characters");
    ((uint8_t *) (uintptr_t) value.bytes)[value.length] = 0; /* values end in NUL, see exchange.h */
    *colon = 0;
    /* Blanks around the value are kept with the line, so they count where they are many. */
    size_t counted = name.length + value.length + FIELD_OVERHEAD;
    parser->field_bytes += counted > length ? counted : length;
    if (parser->field_bytes > parser->header_bytes)
        return refuse(parser, 431, "the fields are too many bytes");
    *ret_name = name;
    *ret_value = value;
    return 0;
}

/* What "connection" lists. True: it names fields, which a proxy has to leave out (RFC 9110, 7.6.1). */
static bool read_connection(pk_http1_parser *parser, pk_slice list)
{
    bool names_fields = false;
    const uint8_t *at = list.bytes, *end = at + list.length;
    while (at < end) {
        const uint8_t *comma = memchr(at, ',', (size_t) (end - at));
        const uint8_t *stop = comma ? comma : end;
        pk_slice option = trimmed(at, stop);
        if (is(option, "close"))
            parser->close = true;
        else if (option.length > 0 && !is(option, "keep-alive") && !is(option, "upgrade"))
            names_fields = true;
        at = stop + 1;
    }
    return names_fields;
}

/* Section 6.1: of codings only "chunked", once. */
static int read_coding(pk_http1_parser *parser, pk_slice value)
{
    if (++parser->codings > 1)
        return refuse(parser, 400, "there are two fields transfer-encoding");
    if (!is(value, "chunked"))
        return refuse(parser, 501, "the transfer coding is not known");
    parser->chunked = true;
    return 0;
}

static int read_length(pk_http1_parser *parser, pk_slice value)
{
    int64_t length = pk_field_content_length(value);
    if (++parser->lengths > 1)
        return refuse(parser, 400, "there are two fields content-length");
    if (length < 0)
        return refuse(parser, 400, "content-length is no number");
    parser->content_length = (uint64_t) length;
    return 0;
}

/* Fields that are about the connection. True: it was one; *ret_result is how it went. */
static bool read_hop_field(pk_http1_parser *parser, pk_slice name, pk_slice value, int *ret_result)
{
    int result = 0;
    if (is(name, "transfer-encoding")) {
        result = read_coding(parser, value);
    } else if (is(name, "connection")) {
        if (read_connection(parser, value))
            return false; /* it stays, for who passes the request on */
    } else if (is(name, "expect")) {
        if (is(value, "100-continue"))
            parser->expects_continue = true;
        else
            result = refuse(parser, 417, "the expectation is not known");
    } else if (is(name, "te")) {
        /* What it may say beyond that concerns codings of this connection. */
        if (is(value, "trailers"))
            return false;
    } else if (!is(name, "keep-alive") && !is(name, "proxy-connection") && !is(name, "upgrade")) {
        return false;
    }
    *ret_result = result;
    return true;
}

static int head_field(pk_http1_parser *parser, uint8_t *line, size_t length)
{
    static const pk_slice authority = PK_SLICE(":authority");
    pk_slice name, value;
    int r = split_field(parser, line, length, &name, &value);
    if (r < 0 || read_hop_field(parser, name, value, &r))
        return r;
    if (is(name, "content-length")) {
        r = read_length(parser, value);
    } else if (is(name, "host")) {
        if (++parser->hosts > 1)
            return refuse(parser, 400, "there are two fields host");
        if (!host_valid(value))
            return refuse(parser, 400, "the host is not valid");
        name = authority;
    }
    return r < 0 ? r : add_field(parser, name, value);
}

/* Section 7.1.2, RFC 9110 section 6.5.1: what steers framing or routing may not come so late. */
static int trailer_field(pk_http1_parser *parser, uint8_t *line, size_t length)
{
    pk_slice name, value;
    int r = split_field(parser, line, length, &name, &value);
    if (r < 0)
        return r;
    static const char *const forbidden[] = {
        "content-length", "transfer-encoding", "host",       "connection",      "trailer", "te",
        "expect",         "upgrade",           "keep-alive", "proxy-connection"};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        if (is(name, forbidden[i]))
            return refuse(parser, 400, "a field may not stand in trailers");
    }
    return add_field(parser, name, value);
}

/* ---- Lines ---- */

/* "HTTP/1.1" (section 2.3), case-sensitive. */
static int read_version(pk_http1_parser *parser, pk_slice version)
{
    const uint8_t *text = version.bytes;
    if (version.length != 8 || memcmp(text, "HTTP/", 5) != 0 || text[5] < '0' || text[5] > '9' ||
        text[6] != '.' || text[7] < '0' || text[7] > '9')
        return refuse(parser, 400, "the request line has no version");
    if (text[5] != '1' || text[7] > '1')
        return refuse(parser, 505, "the version is neither HTTP/1.0 nor HTTP/1.1");
    parser->minor = (unsigned) (text[7] - '0');
    parser->close = parser->minor == 0;
    return 0;
}

static int request_line(pk_http1_parser *parser, uint8_t *line, size_t length)
{
    const uint8_t *end = line + length;
    uint8_t *first = memchr(line, ' ', length);
    uint8_t *second = first ? memchr(first + 1, ' ', (size_t) (end - first - 1)) : NULL;
    if (!second)
        return refuse(parser, 400, "the request line has no three parts");
    pk_slice method = {line, (size_t) (first - line)};
    pk_slice target = {first + 1, (size_t) (second - first - 1)};
    if (!method_valid(method))
        return refuse(parser, 400, "the method is no token");
    /* RFC 9113 section 11.6 keeps it for the beginning of HTTP/2. */
    if (method.length == 3 && memcmp(method.bytes, "PRI", 3) == 0)
        return refuse(parser, 400, "the method belongs to HTTP/2");
    if (!target_valid(target))
        return refuse(parser, 400, "the target has characters that it may not have");
    int r = read_version(parser, (pk_slice){second + 1, (size_t) (end - second - 1)});
    if (r < 0)
        return r;
    bool asterisk = target.length == 1 && target.bytes[0] == '*' && method.length == 7 &&
                    memcmp(method.bytes, "OPTIONS", 7) == 0;
    if (target.bytes[0] != '/' && !asterisk)
        return refuse(parser, 400, "the target is not a path: this is no proxy");
    *first = *second = 0;
    parser->state = PK_HTTP1_AT_FIELD;
    r = add_field(parser, (pk_slice) PK_SLICE(":method"), method);
    if (r == 0)
        r = add_field(parser, (pk_slice) PK_SLICE(":path"), target);
    if (r == 0)
        r = add_field(parser, (pk_slice) PK_SLICE(":scheme"), (pk_slice) PK_SLICE("http"));
    for (size_t i = 0; r == 0 && i < PSEUDO_FIELDS; i++)
        parser->field_bytes +=
            parser->fields[i].name.length + parser->fields[i].value.length + FIELD_OVERHEAD;
    if (r == 0 && parser->field_bytes > parser->header_bytes)
        return refuse(parser, 414, "the target is too long");
    return r;
}

/* The empty line behind the head: what follows, and whether that is clear (section 6.3). */
static int end_head(pk_http1_parser *parser, pk_http1_event *ret_event)
{
    if (parser->minor > 0 && parser->hosts == 0)
        return refuse(parser, 400, "there is no field host");
    if (parser->codings > 0 && parser->lengths > 0)
        return refuse(parser, 400, "there are both content-length and transfer-encoding");
    if (parser->codings > 0 && parser->minor == 0)
        return refuse(parser, 400, "HTTP/1.0 has no transfer-encoding");
    parser->head = finished_head(parser);
    parser->head_bytes = parser->field_bytes;
    parser->ended = !parser->chunked && parser->content_length == 0;
    parser->expects_continue &= parser->minor > 0 && !parser->ended;
    parser->left = parser->content_length;
    parser->state = parser->ended     ? PK_HTTP1_COMPLETE
                    : parser->chunked ? PK_HTTP1_AT_CHUNK_SIZE
                                      : PK_HTTP1_IN_BODY;
    forget_fields(parser);
    *ret_event = PK_HTTP1_HEAD;
    return 0;
}

/* A whole line, its CR and LF cut off. *ret_event is set where it completes something. */
static int take_line(pk_http1_parser *parser, const uint8_t *line, size_t length,
                     pk_http1_event *ret_event)
{
    bool head = parser->state == PK_HTTP1_AT_FIELD;
    if (length == 0) {
        if (head)
            return end_head(parser, ret_event);
        if (parser->state == PK_HTTP1_AT_TRAILER) {
            parser->trailers = finished_head(parser);
            parser->state = PK_HTTP1_COMPLETE;
            *ret_event = PK_HTTP1_END;
            return 0;
        }
        /* Section 2.2: one may follow the body of an old client's POST. */
        if (parser->blank_line_seen)
            return refuse(parser, 400, "there is more than one empty line before the request");
        parser->blank_line_seen = true;
        return 0;
    }
    if (memchr(line, '\r', length) || memchr(line, 0, length))
        return refuse(parser, 400, "a line has a CR or a NUL within");
    uint8_t *copy = copy_line(parser, line, length);
    if (!copy)
        return PK_ERR_NOMEM;
    if (parser->state == PK_HTTP1_AT_REQUEST_LINE)
        return request_line(parser, copy, length);
    return head ? head_field(parser, copy, length) : trailer_field(parser, copy, length);
}

/* Bytes that the line at hand may have, its end included. */
static size_t line_limit(const pk_http1_parser *parser)
{
    return parser->state == PK_HTTP1_AT_REQUEST_LINE
               ? PK_HTTP1_LINE_BYTES
               : parser->header_bytes - parser->field_bytes + LINE_SLACK;
}

static int too_long(pk_http1_parser *parser)
{
    return parser->state == PK_HTTP1_AT_REQUEST_LINE
               ? refuse(parser, 414, "the request line is too long")
               : refuse(parser, 431, "the fields are too many bytes");
}

/* Keeps what has come of a line. */
static int keep(pk_http1_parser *parser, const uint8_t *bytes, size_t length)
{
    size_t needed = parser->line_length + length;
    if (needed > parser->line_capacity) {
        size_t capacity = parser->line_capacity ? parser->line_capacity : LINE_FIRST;
        while (capacity < needed)
            capacity *= 2;
        uint8_t *line = pk_memory_get(parser->memory, capacity);
        if (!line)
            return PK_ERR_NOMEM;
        if (parser->line_length > 0)
            memcpy(line, parser->line, parser->line_length);
        pk_memory_put(parser->memory, parser->line, parser->line_capacity);
        parser->line = line;
        parser->line_capacity = capacity;
    }
    memcpy(parser->line + parser->line_length, bytes, length);
    parser->line_length = needed;
    return 0;
}

/* Eats a line, or what there is of it. */
static int eat_line(pk_http1_parser *parser, const uint8_t **at, const uint8_t *end,
                    pk_http1_event *ret_event)
{
    const uint8_t *start = *at;
    const uint8_t *lf = memchr(start, '\n', (size_t) (end - start));
    const uint8_t *stop = lf ? lf + 1 : end;
    size_t length = (size_t) (stop - start);
    if (parser->line_length + length > line_limit(parser))
        return too_long(parser);
    *at = stop;
    if (!lf || parser->line_length > 0) {
        int r = keep(parser, start, length);
        if (r < 0 || !lf)
            return r;
        start = parser->line;
        length = parser->line_length;
        parser->line_length = 0;
    }
    if (length < 2 || start[length - 2] != '\r')
        return refuse(parser, 400, "a line ends in LF without CR");
    return take_line(parser, start, length - 2, ret_event);
}

/* ---- Bodies ---- */

static void eat_data(pk_http1_parser *parser, const uint8_t **at, const uint8_t *end,
                     pk_http1_event *ret_event)
{
    size_t there = (size_t) (end - *at);
    size_t length = parser->left < there ? (size_t) parser->left : there;
    parser->data = (pk_slice){*at, length};
    parser->left -= length;
    *at += length;
    if (parser->left == 0)
        parser->state = PK_HTTP1_AT_DATA_CR;
    *ret_event = PK_HTTP1_DATA;
}

static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Section 7.1. Extensions are skipped, within limits: nobody uses them but for attacks. */
static int eat_chunk_size(pk_http1_parser *parser, uint8_t c)
{
    int value = digit(c);
    if (value >= 0) {
        if (++parser->digits > CHUNK_DIGITS_MAX)
            return refuse(parser, 400, "a chunk's size has too many digits");
        parser->left = parser->left << 4 | (unsigned) value;
        return 0;
    }
    if (parser->digits == 0 || (c != ';' && c != '\r'))
        return refuse(parser, 400, "a chunk's size is no number");
    parser->state = c == ';' ? PK_HTTP1_AT_EXTENSION : PK_HTTP1_AT_CHUNK_LF;
    return 0;
}

static int eat_extension(pk_http1_parser *parser, uint8_t c)
{
    if (c == '\r') {
        parser->state = PK_HTTP1_AT_CHUNK_LF;
        return 0;
    }
    if ((c < 0x20 && c != '\t') || c == 0x7f)
        return refuse(parser, 400, "a chunk's extension has control characters");
    parser->extensions++;
    if (++parser->extension > PK_HTTP1_EXTENSION_BYTES ||
        parser->extensions > PK_HTTP1_EXTENSIONS_BYTES)
        return refuse(parser, 400, "a chunk's extensions are too long");
    return 0;
}

static void begin_chunk(pk_http1_parser *parser)
{
    parser->left = 0;
    parser->digits = 0;
    parser->extension = 0;
    parser->state = PK_HTTP1_AT_CHUNK_SIZE;
}

/* One byte of a chunk's frame. */
static int eat_frame(pk_http1_parser *parser, uint8_t c)
{
    if (parser->state == PK_HTTP1_AT_CHUNK_SIZE)
        return eat_chunk_size(parser, c);
    if (parser->state == PK_HTTP1_AT_EXTENSION)
        return eat_extension(parser, c);
    if (parser->state == PK_HTTP1_AT_DATA_CR) {
        if (c != '\r')
            return refuse(parser, 400, "a chunk is longer than its size");
        parser->state = PK_HTTP1_AT_DATA_LF;
        return 0;
    }
    if (c != '\n')
        return refuse(parser, 400, "a line of a chunk does not end in CR and LF");
    if (parser->state == PK_HTTP1_AT_CHUNK_LF)
        parser->state = parser->left > 0 ? PK_HTTP1_IN_CHUNK : PK_HTTP1_AT_TRAILER;
    else
        begin_chunk(parser);
    return 0;
}

/* ---- The parser ---- */

void pk_http1_parser_init(pk_http1_parser *parser, pk_memory *memory, size_t header_bytes)
{
    *parser = (pk_http1_parser){.memory = memory, .header_bytes = header_bytes};
    pk_arena_init(&parser->arena, memory, 0);
}

void pk_http1_parser_done(pk_http1_parser *parser)
{
    pk_arena_done(&parser->arena);
    pk_memory_put(parser->memory, parser->line, parser->line_capacity);
    parser->line = NULL;
    parser->line_capacity = 0;
}

void pk_http1_parser_next_request(pk_http1_parser *parser)
{
    pk_arena_reset(&parser->arena);
    if (parser->line_capacity > KEPT_LINE_BYTES) {
        pk_memory_put(parser->memory, parser->line, parser->line_capacity);
        parser->line = NULL;
        parser->line_capacity = 0;
    }
    *parser = (pk_http1_parser){.memory = parser->memory,
                                .arena = parser->arena,
                                .header_bytes = parser->header_bytes,
                                .line = parser->line,
                                .line_capacity = parser->line_capacity};
}

bool pk_http1_parser_in_head(const pk_http1_parser *parser)
{
    return parser->state == PK_HTTP1_AT_FIELD ||
           (parser->state == PK_HTTP1_AT_REQUEST_LINE && parser->line_length > 0);
}

/* One step; what it eats may be nothing only where it sets an event. */
static int step(pk_http1_parser *parser, const uint8_t **at, const uint8_t *end,
                pk_http1_event *ret_event)
{
    pk_http1_state state = parser->state;
    if (state == PK_HTTP1_AT_REQUEST_LINE || state == PK_HTTP1_AT_FIELD ||
        state == PK_HTTP1_AT_TRAILER)
        return eat_line(parser, at, end, ret_event);
    if (state != PK_HTTP1_IN_BODY && state != PK_HTTP1_IN_CHUNK)
        return eat_frame(parser, *(*at)++);
    eat_data(parser, at, end, ret_event);
    return 0;
}

int pk_http1_parser_next(pk_http1_parser *parser, const uint8_t **at, const uint8_t *end,
                         pk_http1_event *ret_event)
{
    pk_http1_event event = PK_HTTP1_MORE;
    /* The end of a body that has its length needs no further byte. */
    if (!parser->chunked && parser->state == PK_HTTP1_AT_DATA_CR) {
        parser->state = PK_HTTP1_COMPLETE;
        event = PK_HTTP1_END;
    }
    while (event == PK_HTTP1_MORE && *at < end && parser->state < PK_HTTP1_COMPLETE) {
        int r = step(parser, at, end, &event);
        if (r < 0)
            return r;
    }
    if (parser->state == PK_HTTP1_REFUSED)
        return PK_ERR_MALFORMED;
    *ret_event = event;
    return 0;
}
