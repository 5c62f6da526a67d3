/*
 * Which messages a set of roots needs, and what follows from how they refer to each other. Called
 * by the emitters of packers and slab decoders, which write one function per message of a closure.
 */
#ifndef PEKOE_CODEGEN_CLOSURE_H
#define PEKOE_CODEGEN_CLOSURE_H

#include "codegen/model.h"

struct gen_closure {
    struct gen_memory *memory;           /* borrowed */
    const struct gen_message **messages; /* in the order in which they were found */
    size_t count;
    size_t capacity;
};

/* Adds the message and all that its fields lead to, each once, in whichever files they are. */
void gen_closure_add(struct gen_closure *closure, const struct gen_message *message);

/* Adds the message alone, once. False where it was there. */
bool gen_closure_add_only(struct gen_closure *closure, const struct gen_message *message);

bool gen_closure_has(const struct gen_closure *closure, const struct gen_message *message);

/* Whether messages of this type may be nested in each other without end, here or further down. */
bool gen_message_is_deep(struct gen_memory *memory, const struct gen_message *message);

/* Whether the message, or one that it may hold, has a group: protobuf-c cannot handle it. */
bool gen_message_reaches_group(struct gen_memory *memory, const struct gen_message *message);

/* Whether the message, or one that it may hold, has required fields. */
bool gen_message_reaches_required(struct gen_memory *memory, const struct gen_message *message);

/* Whether the message, or one that it may hold, has text: see gen_field_is_text. */
bool gen_message_reaches_text(struct gen_memory *memory, const struct gen_message *message);

/*
 * A few numbers and nothing else: such a message is read and written inside its parent's functions,
 * since saving registers for a call would cost as much.
 */
bool gen_message_is_small(const struct gen_message *message);

/* The member that counts as text for a C reader: it ends in a NUL. */
static inline bool gen_field_is_text(const struct gen_field *field)
{
    return field->type == GEN_STRING && !field->is_binary;
}

/* The wire type of one element: 0, 1, 2, 3 or 5. */
unsigned gen_field_wire_type(const struct gen_field *field);

#endif
