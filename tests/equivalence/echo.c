/*
 * Decodes what run.py sends and packs it again, by the way that each request names, so that an
 * independent implementation can compare.
 *
 * Request: one byte of operation, one of type, then two pieces, each a length of four bytes,
 * little-endian, and bytes. Reply: one byte, 0 or the number of a local error made positive, a
 * length, and the packed message or the text of the problem.
 */
#include <pekoe/generated_messages.h>

#include "kinds2.pekoe.h"
#include "kinds3.pekoe.h"
#include "marshalling/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum operation {
    DECODE,    /* the first piece, copied; packed by the generated packer */
    IN_PLACE,  /* the first piece, in a block of exactly the size that is documented */
    MERGE,     /* both pieces */
    LOOKAHEAD, /* as DECODE, by that strategy of reservation */
    PRESCAN,
    COPY,          /* as DECODE, and packed from what pk_message_dup made of it */
    BY_PROTOBUF_C, /* as DECODE, packed by libprotobuf-c */
    GUARDED,       /* decoded by libprotobuf-c behind guards */
};

static const pk_message_type *const types[] = {
    &kinds3_everything_type,   &kinds2_everything_type, &kinds3_scalars_type, &kinds3_repeated_type,
    &kinds3_few_repeated_type, &kinds3_maps_type,       &kinds3_choice_type,  &kinds3_tree_type,
    &kinds3_high_numbers_type, &kinds2_enums_type,      &kinds2_groups_type,  &kinds2_required_type,
    &kinds2_defaults_type,     &kinds3_small_type,      &kinds3_tiny_type,    &kinds2_inner_type,
    &kinds3_forest_type,
};

static pk_memory memory;
static pk_buffer_pool pool;
static pk_arena arena;

struct piece {
    uint8_t *bytes; /* exactly `length` of them, so that a sanitizer sees what is read beyond */
    size_t length;
};

static bool read_exactly(void *bytes, size_t length)
{
    return fread(bytes, 1, length, stdin) == length;
}

static bool read_piece(struct piece *ret_piece)
{
    uint8_t prefix[4];
    if (!read_exactly(prefix, sizeof prefix))
        return false;
    ret_piece->length = pk_load32(prefix);
    ret_piece->bytes = malloc(ret_piece->length);
    return (ret_piece->bytes || ret_piece->length == 0) &&
           read_exactly(ret_piece->bytes, ret_piece->length);
}

static void write_reply(int error, const void *bytes, size_t length)
{
    uint8_t prefix[5] = {(uint8_t) -error};
    pk_store32(prefix + 1, (uint32_t) length);
    fwrite(prefix, 1, sizeof prefix, stdout);
    fwrite(bytes, 1, length, stdout);
    fflush(stdout);
}

static int decode(enum operation operation, const pk_message_type *type, const struct piece *first,
                  const struct piece *second, uint8_t *room, void **ret_message,
                  const char **ret_problem)
{
    pk_message_type changed = *type;
    pk_reserve_plan plan = {PK_RESERVE_LOOKAHEAD, 0, NULL};
    int error;

    if (operation == GUARDED)
        changed.decode = NULL;
    if (operation == LOOKAHEAD)
        changed.reserve = &plan;
    if (operation == PRESCAN && type->reserve) {
        plan = *type->reserve;
        plan.strategy = PK_RESERVE_PRESCAN;
        changed.reserve = &plan;
    }
    if (operation == IN_PLACE) {
        memcpy(room, first->bytes, first->length);
        memset(room + first->length, 0xff, PK_DECODE_PADDING);
        return pk_message_decode_in_place(type, &arena, NULL, room, first->length, ret_message,
                                          ret_problem);
    }
    error = pk_message_decode(&changed, &arena, NULL, first->bytes, first->length, ret_message,
                              ret_problem);
    if (operation == MERGE && !error)
        error = pk_message_merge(type, &arena, NULL, second->bytes, second->length, *ret_message,
                                 ret_problem);
    return error;
}

static int pack(enum operation operation, const pk_message_type *type, const void *message,
                pk_buffer *packed)
{
    pk_message_type changed = *type;
    if (operation == BY_PROTOBUF_C)
        changed.pack = NULL;
    return pk_message_pack(&changed, message, packed);
}

static void answer(enum operation operation, const pk_message_type *type, const struct piece *first,
                   const struct piece *second)
{
    void *message = NULL;
    const char *problem = "";
    uint8_t *room = malloc(first->length + PK_DECODE_PADDING);
    pk_buffer *packed = pk_buffer_get(&pool);
    void *copy = NULL;

    if (!room || !packed)
        exit(1);
    int error = decode(operation, type, first, second, room, &message, &problem);
    /* The input is not referenced, except in place. */
    if (first->length > 0)
        memset(first->bytes, 0xee, first->length);
    if (second->length > 0)
        memset(second->bytes, 0xee, second->length);
    if (!error && operation == COPY) {
        copy = pk_message_dup(type, message);
        pk_arena_reset(&arena);
        error = copy ? 0 : PK_ERR_NOMEM;
        message = copy;
    }
    if (error) {
        write_reply(error, problem, strlen(problem));
    } else {
        pk_buffer_rewind_for_prepend(packed);
        error = pack(operation, type, message, packed);
        write_reply(error, packed->start, error ? 0 : pk_buffer_length(packed));
    }
    pk_message_free(copy);
    pk_buffer_unref(packed);
    free(room);
    pk_arena_done(&arena);
}

int main(void)
{
    uint8_t head[2];
    if (pk_memory_init(&memory, NULL))
        return 1;
    pk_buffer_pool_init(&pool, &memory);
    pk_arena_init(&arena, &memory, 0);
    while (read_exactly(head, sizeof head)) {
        struct piece pieces[2] = {{NULL, 0}, {NULL, 0}};
        if (head[1] >= sizeof types / sizeof types[0] || !read_piece(&pieces[0]) ||
            !read_piece(&pieces[1]))
            return 1;
        answer((enum operation) head[0], types[head[1]], &pieces[0], &pieces[1]);
        free(pieces[0].bytes);
        free(pieces[1].bytes);
    }
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return 0;
}
