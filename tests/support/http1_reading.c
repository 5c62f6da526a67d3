/* See http1_reading.h. */
#include "http1_reading.h"

#include <stdlib.h>
#include <string.h>

void reading_put(struct reading *reading, const void *bytes, size_t length)
{
    if (reading->length + length + 1 > reading->capacity) {
        reading->capacity = 2 * (reading->length + length + 1);
        reading->text = realloc(reading->text, reading->capacity);
        if (!reading->text)
            abort();
    }
    if (length > 0)
        memcpy(reading->text + reading->length, bytes, length);
    reading->length += length;
    reading->text[reading->length] = '\0';
}

static void put_text(struct reading *reading, const char *text)
{
    reading_put(reading, text, strlen(text));
}

static void put_fields(struct reading *reading, const pk_head *head, size_t from)
{
    for (size_t i = from; i < head->count; i++) {
        const pk_field *field = &head->fields[i];
        if (field->known == PK_FIELD_AUTHORITY)
            put_text(reading, "host");
        else
            reading_put(reading, field->name.bytes, field->name.length);
        put_text(reading, ": ");
        reading_put(reading, field->value.bytes, field->value.length);
        put_text(reading, "\n");
        if (field->name.bytes[field->name.length] != 0 ||
            field->value.bytes[field->value.length] != 0)
            abort(); /* each ends in NUL */
    }
}

static void put_head(struct reading *reading, const pk_http1_parser *parser)
{
    pk_slice method = pk_head_value(&parser->head, PK_FIELD_METHOD);
    pk_slice path = pk_head_value(&parser->head, PK_FIELD_PATH);
    reading_put(reading, method.bytes, method.length);
    put_text(reading, " ");
    reading_put(reading, path.bytes, path.length);
    put_text(reading, parser->minor ? " 1\n" : " 0\n");
    put_fields(reading, &parser->head, 3);
    put_text(reading, "\n");
    reading->close = parser->close;
    reading->expects_continue = parser->expects_continue;
}

/* Feeds one piece, as a block of its own so that a sanitizer sees a read past its end. */
static void feed(struct reading *reading, pk_http1_parser *parser, const uint8_t *bytes,
                 size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy)
        abort();
    if (length > 0)
        memcpy(copy, bytes, length);
    const uint8_t *at = copy, *end = copy + length;
    pk_http1_event event = PK_HTTP1_HEAD;
    while (reading->end == READING_INCOMPLETE && event != PK_HTTP1_MORE) {
        int r = pk_http1_parser_next(parser, &at, end, &event);
        if (r < 0) {
            reading->end = READING_REFUSED;
            reading->status = parser->status;
            reading->why = parser->why;
        } else if (event == PK_HTTP1_HEAD) {
            put_head(reading, parser);
        } else if (event == PK_HTTP1_DATA) {
            reading_put(reading, parser->data.bytes, parser->data.length);
        } else if (event == PK_HTTP1_END && parser->trailers.count > 0) {
            put_text(reading, "\n");
            put_fields(reading, &parser->trailers, 0);
        }
        if (reading->end == READING_INCOMPLETE && parser->state == PK_HTTP1_COMPLETE)
            reading->end = READING_COMPLETE;
    }
    reading->eaten += (size_t) (at - copy);
    free(copy);
}

static void begin(struct reading *reading, pk_memory *memory, pk_http1_parser *parser,
                  size_t header_bytes)
{
    *reading = (struct reading){.end = READING_INCOMPLETE};
    reading_put(reading, "", 0);
    if (pk_memory_init(memory, NULL) < 0)
        abort();
    pk_http1_parser_init(parser, memory, header_bytes);
}

static void end(pk_memory *memory, pk_http1_parser *parser)
{
    pk_http1_parser_done(parser);
    if (memory->live_blocks > 0)
        abort();
    pk_memory_done(memory);
}

void reading_of(struct reading *reading, const uint8_t *bytes, size_t length, size_t piece,
                size_t header_bytes)
{
    pk_memory memory;
    pk_http1_parser parser;
    begin(reading, &memory, &parser, header_bytes);
    for (size_t at = 0; at < length && reading->end == READING_INCOMPLETE; at += piece)
        feed(reading, &parser, bytes + at, length - at < piece ? length - at : piece);
    end(&memory, &parser);
}

void reading_of_halves(struct reading *reading, const uint8_t *bytes, size_t length, size_t cut,
                       size_t header_bytes)
{
    pk_memory memory;
    pk_http1_parser parser;
    begin(reading, &memory, &parser, header_bytes);
    feed(reading, &parser, bytes, cut);
    feed(reading, &parser, bytes + cut, length - cut);
    end(&memory, &parser);
}

void reading_done(struct reading *reading)
{
    free(reading->text);
}
