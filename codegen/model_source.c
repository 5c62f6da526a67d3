/*
 * Places, comments and extension options: see model_source.h.
 */
#include "codegen/model_source.h"

#include "codegen/varint.h"

#include <stdlib.h>
#include <string.h>

typedef Google__Protobuf__SourceCodeInfo__Location location;

void gen_path_push(struct gen_memory *memory, struct gen_path *path, int32_t field, size_t index)
{
    if (path->length + 2 > path->capacity) {
        size_t capacity = path->capacity ? path->capacity * 2 : 16;
        int32_t *steps = gen_array(memory, capacity, sizeof *steps);

        if (path->length > 0)
            memcpy(steps, path->steps, path->length * sizeof *steps);
        path->steps = steps;
        path->capacity = capacity;
    }
    path->steps[path->length++] = field;
    path->steps[path->length++] = (int32_t) index;
}

void gen_path_pop(struct gen_path *path)
{
    path->length -= 2;
}

static int compare_paths(const int32_t *a, size_t a_length, const int32_t *b, size_t b_length)
{
    for (size_t i = 0; i < a_length && i < b_length; i++) {
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    }
    if (a_length == b_length)
        return 0;
    return a_length < b_length ? -1 : 1;
}

static int compare_locations(const void *left, const void *right)
{
    const location *const *a = left;
    const location *const *b = right;

    return compare_paths((*a)->path, (*a)->n_path, (*b)->path, (*b)->n_path);
}

void gen_source_init(struct gen_source *source, struct gen_memory *memory,
                     const Google__Protobuf__FileDescriptorProto *proto)
{
    const Google__Protobuf__SourceCodeInfo *info = proto->source_code_info;

    *source = (struct gen_source){.file = proto->name};
    if (!info || info->n_location == 0)
        return;
    source->locations = gen_array(memory, info->n_location, sizeof *source->locations);
    memcpy(source->locations, info->location, info->n_location * sizeof *source->locations);
    source->n_locations = info->n_location;
    qsort(source->locations, source->n_locations, sizeof *source->locations, compare_locations);
}

void gen_source_find(const struct gen_source *source, const struct gen_path *path,
                     struct gen_place *ret_place, struct gen_comment *ret_comment)
{
    size_t low = 0;
    size_t high = source->n_locations;

    *ret_place = (struct gen_place){.file = source->file};
    *ret_comment = (struct gen_comment){0};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const location *found = source->locations[middle];
        int order = compare_paths(found->path, found->n_path, path->steps, path->length);

        if (order == 0) {
            if (found->n_span >= 3 && found->span[0] >= 0 && found->span[0] < INT32_MAX &&
                found->span[1] >= 0 && found->span[1] < INT32_MAX) {
                ret_place->line = found->span[0] + 1;
                ret_place->column = found->span[1] + 1;
            }
            ret_comment->leading = found->leading_comments;
            ret_comment->trailing = found->trailing_comments;
            return;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
}

/* One record of a message: a number, or bytes (with data not NULL). */
struct record {
    uint32_t field;
    uint32_t wire_type;
    uint64_t number;
    const uint8_t *data;
    size_t length;
};

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2, WIRE_FIXED32 = 5 };

static bool read_payload(const uint8_t **at, const uint8_t *end, struct record *record)
{
    size_t left;

    switch (record->wire_type) {
    case WIRE_VARINT:
        return gen_read_varint(at, end, &record->number);
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        record->length = record->wire_type == WIRE_FIXED64 ? 8 : 4;
        left = (size_t) (end - *at);
        break;
    case WIRE_LENGTH: {
        uint64_t length;

        if (!gen_read_varint(at, end, &length))
            return false;
        left = (size_t) (end - *at);
        if (length > left)
            return false;
        record->length = (size_t) length;
        break;
    }
    default:
        return false;
    }
    if (record->length > left)
        return false;
    record->data = *at;
    *at += record->length;
    return true;
}

static bool read_record(const uint8_t **at, const uint8_t *end, struct record *ret_record)
{
    uint64_t tag;

    *ret_record = (struct record){0};
    if (*at >= end || !gen_read_varint(at, end, &tag) || tag > UINT32_MAX)
        return false;
    ret_record->field = (uint32_t) (tag >> 3);
    ret_record->wire_type = (uint32_t) (tag & 7);
    return read_payload(at, end, ret_record);
}

static bool find_option(const ProtobufCMessage *options, uint32_t number, uint32_t inner,
                        uint32_t wire_type, struct record *ret_record)
{
    bool found = false;

    if (!options)
        return false;
    for (unsigned i = 0; i < options->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *unknown = &options->unknown_fields[i];
        const uint8_t *at = unknown->data;
        const uint8_t *end = at + unknown->len;
        struct record record = {.field = unknown->tag, .wire_type = unknown->wire_type};

        if (unknown->tag != number || !read_payload(&at, end, &record))
            continue;
        if (inner == 0) {
            if (record.wire_type == wire_type) {
                *ret_record = record;
                found = true;
            }
            continue;
        }
        if (record.wire_type != WIRE_LENGTH)
            continue;
        at = record.data;
        end = at + record.length;
        while (read_record(&at, end, &record)) {
            if (record.field == inner && record.wire_type == wire_type) {
                *ret_record = record;
                found = true;
            }
        }
    }
    return found;
}

bool gen_option_number(const ProtobufCMessage *options, uint32_t number, uint32_t inner,
                       uint64_t *ret_value)
{
    struct record record;

    if (!find_option(options, number, inner, WIRE_VARINT, &record))
        return false;
    *ret_value = record.number;
    return true;
}

bool gen_option_text(const ProtobufCMessage *options, uint32_t number, uint32_t inner,
                     struct gen_memory *memory, const char **ret_value)
{
    struct record record;

    if (!find_option(options, number, inner, WIRE_LENGTH, &record))
        return false;
    *ret_value = gen_strndup(memory, (const char *) record.data, record.length);
    return true;
}
