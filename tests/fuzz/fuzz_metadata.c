/*
 * core/metadata.c: lines of "name value" are received as fields and walked over; the same lines are
 * added, and what was taken reads back.
 */
#include "core/metadata.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS_MAX 32u

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Splits lines in place into fields; both halves end in NUL. */
static size_t split(char *text, size_t size, pk_field *fields)
{
    size_t count = 0;
    char *at = text, *end = text + size;
    while (at < end && count < FIELDS_MAX) {
        char *newline = memchr(at, '\n', (size_t) (end - at)), *stop = newline ? newline : end;
        *stop = '\0';
        char *space = memchr(at, ' ', (size_t) (stop - at)), *value = space ? space + 1 : stop;
        if (space)
            *space = '\0';
        size_t name_length = strlen(at);
        pk_field *field = &fields[count++];
        *field = (pk_field){.name = {(const uint8_t *) at, name_length},
                            .value = {(const uint8_t *) value, (size_t) (stop - value)}};
        field->known = (uint8_t) pk_field_lookup(field->name);
        at = stop + 1;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pk_memory memory;
    pk_arena arena;
    pk_field fields[FIELDS_MAX];
    char *text = malloc(size + 1);
    if (!text || pk_memory_init(&memory, NULL) < 0)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    pk_arena_init(&arena, &memory, 0);
    size_t count = split(text, size, fields);

    pk_metadata received = pk_metadata_over(fields, count, &arena);
    pk_metadata_place place = PK_METADATA_START;
    pk_slice key, value;
    size_t steps = 0;
    while (pk_metadata_next(&received, NULL, &place, &key, &value)) {
        check(value.bytes != NULL && key.bytes != NULL);
        check(++steps <= size + FIELDS_MAX);
    }
    pk_metadata sent;
    pk_metadata_init(&sent, &arena);
    for (size_t i = 0; i < count; i++) {
        const char *name = (const char *) fields[i].name.bytes;
        const char *contents = (const char *) fields[i].value.bytes;
        size_t before = sent.count;
        (void) pk_metadata_get_last(&received, name);
        if (pk_metadata_add(&sent, name, contents) == 0) {
            check(sent.count == before + 1);
            check(pk_metadata_get_last(&sent, name).bytes == sent.fields[before].value.bytes);
        }
        if (pk_metadata_add_binary(&sent, name, contents, fields[i].value.length) == 0) {
            pk_slice back = pk_metadata_get_last(&sent, name);
            check(back.length == fields[i].value.length &&
                  memcmp(back.bytes, contents, back.length) == 0);
        }
    }
    pk_arena_done(&arena);
    pk_memory_done(&memory);
    free(text);
    return 0;
}
