/*
 * What one loop has for marshalling, without a loop: memory that is counted, a buffer pool, a
 * call's arena, and an encoding of google.protobuf.BytesValue messages.
 *
 * For the tests of marshalling/. The messages are the library's own well-known type, so the packer
 * and decoder under test are the generated ones.
 */
#ifndef PEKOE_TESTS_MARSHALLING_FIXTURE_H
#define PEKOE_TESTS_MARSHALLING_FIXTURE_H

#include "core/status.h"
#include "google/protobuf/wrappers.pekoe.h"
#include "marshalling/protocol.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

typedef struct marshalling_fixture {
    counting_allocator counts;
    pk_memory memory;
    pk_buffer_pool pool;
    pk_arena arena;
    pk_marshalling marshalling;
    pk_encoding encoding; /* proto, no compression, no limit */
} marshalling_fixture;

static inline void fixture_init(marshalling_fixture *fixture)
{
    *fixture = (marshalling_fixture){.counts = {0}};
    if (pk_memory_init(&fixture->memory, COUNTING_ALLOCATOR(&fixture->counts)) < 0)
        abort();
    pk_buffer_pool_init(&fixture->pool, &fixture->memory);
    pk_arena_init(&fixture->arena, &fixture->memory, 0);
    pk_marshalling_init(&fixture->marshalling, &fixture->memory, &fixture->pool);
    fixture->encoding = (pk_encoding){
        .marshalling = &fixture->marshalling,
        .arena = &fixture->arena,
        .codec = &pk_codec_proto,
        .compressors = &pk_compressor_set_default,
        .compress_min_bytes = PK_COMPRESS_MIN_BYTES_DEFAULT,
    };
}

/* Gives everything back and returns how many buffers and blocks were not. */
static inline size_t fixture_done(marshalling_fixture *fixture)
{
    size_t left = fixture->pool.lent;
    pk_marshalling_done(&fixture->marshalling);
    pk_arena_done(&fixture->arena);
    if (left == 0)
        pk_buffer_pool_done(&fixture->pool);
    left += fixture->memory.live_blocks;
    pk_memory_done(&fixture->memory);
    return left + fixture->counts.blocks;
}

static inline Google__Protobuf__BytesValue bytes_value(const void *bytes, size_t length)
{
    Google__Protobuf__BytesValue message = GOOGLE__PROTOBUF__BYTES_VALUE__INIT;
    message.value.data = (uint8_t *) (uintptr_t) bytes;
    message.value.len = length;
    return message;
}

static inline const pk_message_type *bytes_value_type(void)
{
    return &google_protobuf_bytes_value_type;
}

static inline pk_slice slice_of(const char *text)
{
    return (pk_slice){(const uint8_t *) text, strlen(text)};
}

static inline bool slice_is(pk_slice have, const char *want)
{
    return have.length == strlen(want) &&
           (have.length == 0 || memcmp(have.bytes, want, have.length) == 0);
}

/* A head over fields, with `known` and `first` filled in. */
static inline pk_head make_head(pk_field *fields, size_t count)
{
    pk_head head = {.fields = fields, .count = count};
    for (size_t i = 0; i < count; i++) {
        fields[i].known = (uint8_t) pk_field_lookup(fields[i].name);
        if (fields[i].known && head.first[fields[i].known])
            head.repeated |= 1u << fields[i].known;
        else if (fields[i].known)
            head.first[fields[i].known] = (uint16_t) (i + 1);
    }
    return head;
}

/* "name: value" of each field, a line each, in a static buffer. */
static inline const char *fields_text(const pk_field *fields, size_t count)
{
    static char text[4096];
    char *at = text;
    *at = '\0';
    for (size_t i = 0; i < count; i++)
        at += snprintf(at, (size_t) (text + sizeof text - at), "%.*s: %.*s\n",
                       (int) fields[i].name.length, (const char *) fields[i].name.bytes,
                       (int) fields[i].value.length,
                       fields[i].value.length ? (const char *) fields[i].value.bytes : "");
    return text;
}

#endif
