/* Debian's libhttp-parser as an oracle: see http1_oracle.h. */
#include "http1_oracle.h"

#include <http_parser.h>

static int on_url(http_parser *parser, const char *at, size_t length)
{
    struct oracle_parts *parts = parser->data;
    reading_put(&parts->target, at, length);
    return 0;
}

static int on_field(http_parser *parser, const char *at, size_t length)
{
    oracle_field(parser->data, at, length);
    return 0;
}

static int on_value(http_parser *parser, const char *at, size_t length)
{
    oracle_value(parser->data, at, length);
    return 0;
}

static int on_head(http_parser *parser)
{
    oracle_head(parser->data, http_method_str((enum http_method) parser->method),
                parser->http_minor);
    return 0;
}

static int on_body(http_parser *parser, const char *at, size_t length)
{
    struct oracle_parts *parts = parser->data;
    reading_put(parts->reading, at, length);
    return 0;
}

static int on_complete(http_parser *parser)
{
    oracle_end(parser->data);
    http_parser_pause(parser, 1);
    return 0;
}

void oracle_http_parser(struct reading *reading, const uint8_t *bytes, size_t length)
{
    static const http_parser_settings settings = {.on_url = on_url,
                                                  .on_header_field = on_field,
                                                  .on_header_value = on_value,
                                                  .on_headers_complete = on_head,
                                                  .on_body = on_body,
                                                  .on_message_complete = on_complete};
    struct oracle_parts parts = {.reading = reading};
    http_parser parser;
    *reading = (struct reading){.end = READING_INCOMPLETE};
    reading_put(reading, "", 0);
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &parts;
    reading->eaten = http_parser_execute(&parser, &settings, (const char *) bytes, length);
    enum http_errno error = HTTP_PARSER_ERRNO(&parser);
    if (reading->end != READING_COMPLETE && error != HPE_OK) {
        reading->end = READING_REFUSED;
        reading->why = http_errno_name(error);
    }
    oracle_parts_done(&parts);
}
