/* Debian's node-llhttp as an oracle: see http1_oracle.h. */
#include "http1_oracle.h"

#include <llhttp.h>

static int on_url(llhttp_t *parser, const char *at, size_t length)
{
    struct oracle_parts *parts = parser->data;
    reading_put(&parts->target, at, length);
    return 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t length)
{
    oracle_field(parser->data, at, length);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t length)
{
    oracle_value(parser->data, at, length);
    return 0;
}

static int on_head(llhttp_t *parser)
{
    oracle_head(parser->data, llhttp_method_name((llhttp_method_t) parser->method),
                parser->http_minor);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
    struct oracle_parts *parts = parser->data;
    reading_put(parts->reading, at, length);
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    oracle_end(parser->data);
    return HPE_PAUSED;
}

void oracle_llhttp(struct reading *reading, const uint8_t *bytes, size_t length)
{
    llhttp_settings_t settings;
    struct oracle_parts parts = {.reading = reading};
    llhttp_t parser;
    *reading = (struct reading){.end = READING_INCOMPLETE};
    reading_put(reading, "", 0);
    llhttp_settings_init(&settings);
    settings.on_url = on_url;
    settings.on_header_field = on_field;
    settings.on_header_value = on_value;
    settings.on_headers_complete = on_head;
    settings.on_body = on_body;
    settings.on_message_complete = on_complete;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    parser.data = &parts;
    llhttp_errno_t error = llhttp_execute(&parser, (const char *) bytes, length);
    if (reading->end == READING_COMPLETE) {
        reading->eaten = (size_t) (llhttp_get_error_pos(&parser) - (const char *) bytes);
    } else if (error != HPE_OK) {
        reading->end = READING_REFUSED;
        reading->why = llhttp_errno_name(error);
    }
    oracle_parts_done(&parts);
}
