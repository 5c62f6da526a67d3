/* See http2_bytes.h. */
#include "http2_bytes.h"

#include <nghttp2/nghttp2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

void bytes_free(struct bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct bytes){0};
}

void put(struct bytes *to, const void *bytes, size_t length)
{
    if (to->length + length > to->capacity) {
        to->capacity = 2 * (to->length + length) + 64;
        to->at = realloc(to->at, to->capacity);
        if (!to->at)
            abort();
    }
    if (length > 0)
        memcpy(to->at + to->length, bytes, length);
    to->length += length;
}

static void put_byte(struct bytes *to, unsigned value)
{
    uint8_t byte = (uint8_t) value;
    put(to, &byte, 1);
}

static void put_number(struct bytes *to, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t) (value >> 24), (uint8_t) (value >> 16), (uint8_t) (value >> 8),
                        (uint8_t) value};
    put(to, bytes, 4);
}

void put_frame(struct bytes *to, unsigned type, unsigned flags, uint32_t stream,
               const void *payload, size_t length)
{
    put_byte(to, (unsigned) (length >> 16));
    put_byte(to, (unsigned) (length >> 8));
    put_byte(to, (unsigned) length);
    put_byte(to, type);
    put_byte(to, flags);
    put_number(to, stream);
    put(to, payload, length);
}

void put_preface(struct bytes *to)
{
    put(to, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
}

void put_setting(struct bytes *to, unsigned name, uint32_t value)
{
    uint8_t setting[6] = {(uint8_t) (name >> 8),   (uint8_t) name,         (uint8_t) (value >> 24),
                          (uint8_t) (value >> 16), (uint8_t) (value >> 8), (uint8_t) value};
    put_frame(to, SETTINGS, 0, 0, setting, value == UINT32_MAX ? 0 : 6);
}

/* RFC 7541 section 5.1 with a 7-bit prefix, then the text. */
static void put_text(struct bytes *to, const char *text)
{
    size_t length = strlen(text);
    if (length < 127) {
        put_byte(to, (unsigned) length);
    } else {
        put_byte(to, 127);
        size_t rest = length - 127;
        for (; rest >= 128; rest /= 128)
            put_byte(to, (unsigned) (128 | rest % 128));
        put_byte(to, (unsigned) rest);
    }
    put(to, text, length);
}

void put_field(struct bytes *block, const char *name, const char *value)
{
    put_byte(block, 0);
    put_text(block, name);
    put_text(block, value);
}

void put_request(struct bytes *to, uint32_t stream, bool end, const char *path,
                 const char *const *extra)
{
    struct bytes block = {0};
    put_field(&block, ":method", "POST");
    put_field(&block, ":scheme", "http");
    put_field(&block, ":path", path);
    put_field(&block, ":authority", "test");
    for (; extra && *extra; extra += 2)
        put_field(&block, extra[0], extra[1]);
    put_frame(to, HEADERS, END_HEADERS | (end ? END_STREAM : 0u), stream, block.at, block.length);
    bytes_free(&block);
}

void put_data(struct bytes *to, uint32_t stream, bool end, const void *data, size_t length)
{
    put_frame(to, DATA, end ? END_STREAM : 0, stream, data, length);
}

void put_filler(struct bytes *to, uint32_t stream, bool end, size_t length)
{
    static const uint8_t filler[16384];
    while (length > sizeof filler) {
        put_data(to, stream, false, filler, sizeof filler);
        length -= sizeof filler;
    }
    put_data(to, stream, end, filler, length);
}

void put_window(struct bytes *to, uint32_t stream, uint32_t increment)
{
    uint8_t payload[4] = {(uint8_t) (increment >> 24), (uint8_t) (increment >> 16),
                          (uint8_t) (increment >> 8), (uint8_t) increment};
    put_frame(to, WINDOW_UPDATE, 0, stream, payload, 4);
}

void put_reset(struct bytes *to, uint32_t stream, uint32_t error)
{
    uint8_t payload[4] = {(uint8_t) (error >> 24), (uint8_t) (error >> 16), (uint8_t) (error >> 8),
                          (uint8_t) error};
    put_frame(to, RST_STREAM, 0, stream, payload, 4);
}

void put_ping(struct bytes *to, bool ack, uint64_t mark)
{
    uint8_t payload[8];
    for (int i = 0; i < 8; i++)
        payload[i] = (uint8_t) (mark >> (56 - 8 * i));
    put_frame(to, PING, ack ? ACK : 0, 0, payload, 8);
}

/* ---- Reading ---- */

void reader_init(struct reader *reader)
{
    nghttp2_hd_inflater *inflater;
    if (nghttp2_hd_inflate_new(&inflater) != 0)
        abort();
    *reader = (struct reader){.inflater = inflater};
}

void reader_done(struct reader *reader)
{
    for (size_t i = 0; i < reader->count; i++) {
        free(reader->frames[i].fields);
        free(reader->frames[i].payload);
    }
    free(reader->frames);
    bytes_free(&reader->rest);
    bytes_free(&reader->block);
    nghttp2_hd_inflate_del(reader->inflater);
}

static uint32_t number_at(const uint8_t *at)
{
    return (uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3];
}

/* A whole block. */
static char *decode(nghttp2_hd_inflater *inflater, const uint8_t *at, size_t length)
{
    struct bytes text = {0};
    for (;;) {
        nghttp2_nv field;
        int flags = 0;
        ssize_t eaten = nghttp2_hd_inflate_hd2(inflater, &field, &flags, at, length, 1);
        if (eaten < 0) {
            bytes_free(&text);
            return NULL;
        }
        at += eaten;
        length -= (size_t) eaten;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            put(&text, field.name, field.namelen);
            put(&text, ": ", 2);
            put(&text, field.value, field.valuelen);
            put(&text, "\n", 1);
        }
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
        if (eaten == 0 && length == 0)
            break;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    put(&text, "", 1);
    return (char *) text.at;
}

static bool keep_frame(struct reader *reader, const uint8_t *at, size_t length)
{
    if (reader->count == reader->capacity) {
        reader->capacity = 2 * reader->capacity + 64;
        reader->frames = realloc(reader->frames, reader->capacity * sizeof *reader->frames);
        if (!reader->frames)
            abort();
    }
    struct frame frame = {
        .type = at[3], .flags = at[4], .stream = number_at(at + 5) & 0x7fffffff, .length = length};
    const uint8_t *payload = at + 9;
    if (frame.type == HEADERS || frame.type == CONTINUATION) {
        put(&reader->block, payload, length);
        if (frame.flags & END_HEADERS) {
            frame.fields = decode(reader->inflater, reader->block.at, reader->block.length);
            reader->block.length = 0;
            if (!frame.fields)
                return false;
        }
    } else if (frame.type == DATA) {
        reader->data_bytes += length;
    } else if (length >= 4) {
        frame.number = number_at(payload);
        if (frame.type == GOAWAY && length >= 8)
            frame.error = number_at(payload + 4);
    }
    frame.payload = malloc(length + 1);
    if (!frame.payload)
        abort();
    memcpy(frame.payload, payload, length);
    reader->frames[reader->count++] = frame;
    return true;
}

bool reader_feed(struct reader *reader, const uint8_t *bytes, size_t length)
{
    put(&reader->rest, bytes, length);
    const uint8_t *at = reader->rest.at;
    size_t left = reader->rest.length;
    while (left >= 9) {
        size_t payload = (size_t) at[0] << 16 | (size_t) at[1] << 8 | at[2];
        if (left < 9 + payload)
            break;
        if (!keep_frame(reader, at, payload))
            return false;
        at += 9 + payload;
        left -= 9 + payload;
    }
    if (left > 0)
        memmove(reader->rest.at, at, left);
    reader->rest.length = left;
    return true;
}

size_t find_frame(const struct reader *reader, size_t from, unsigned type, uint32_t stream)
{
    for (size_t i = from; i < reader->count; i++) {
        if (reader->frames[i].type == type && reader->frames[i].stream == stream)
            return i;
    }
    return SIZE_MAX;
}

unsigned status_of(const struct reader *reader, uint32_t stream)
{
    size_t place = find_frame(reader, 0, HEADERS, stream);
    unsigned status = 0;
    if (place != SIZE_MAX && reader->frames[place].fields)
        sscanf(reader->frames[place].fields, ":status: %u", &status);
    return status;
}

size_t body_of(const struct reader *reader, uint32_t stream)
{
    size_t sum = 0;
    for (size_t i = 0; i < reader->count; i++) {
        if (reader->frames[i].type == DATA && reader->frames[i].stream == stream)
            sum += reader->frames[i].length;
    }
    return sum;
}

bool ended(const struct reader *reader, uint32_t stream)
{
    for (size_t i = 0; i < reader->count; i++) {
        const struct frame *frame = &reader->frames[i];
        if (frame->stream == stream && (frame->type == DATA || frame->type == HEADERS) &&
            frame->flags & END_STREAM)
            return true;
    }
    return false;
}

bool last_has(const struct reader *reader, uint32_t stream, const char *field)
{
    for (size_t i = reader->count; i > 0; i--) {
        const struct frame *frame = &reader->frames[i - 1];
        if (frame->fields && frame->stream == stream)
            return strstr(frame->fields, field) != NULL;
    }
    return false;
}

long reset_of(const struct reader *reader, uint32_t stream)
{
    size_t place = find_frame(reader, 0, RST_STREAM, stream);
    return place == SIZE_MAX ? -1 : (long) reader->frames[place].number;
}
