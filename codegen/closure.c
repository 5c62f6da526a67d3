/*
 * Walks over the references between messages: see closure.h. Schemas have hundreds of messages at
 * most, so sets are lists.
 */
#include "codegen/closure.h"

#include <string.h>

bool gen_closure_has(const struct gen_closure *closure, const struct gen_message *message)
{
    for (size_t i = 0; i < closure->count; i++) {
        if (closure->messages[i] == message)
            return true;
    }
    return false;
}

bool gen_closure_add_only(struct gen_closure *closure, const struct gen_message *message)
{
    if (gen_closure_has(closure, message))
        return false;
    if (closure->count == closure->capacity) {
        size_t capacity = closure->capacity ? closure->capacity * 2 : 16;
        const struct gen_message **messages =
            gen_array(closure->memory, capacity, sizeof(*messages));

        if (closure->count > 0)
            memcpy(messages, closure->messages, closure->count * sizeof(*messages));
        closure->messages = messages;
        closure->capacity = capacity;
    }
    closure->messages[closure->count++] = message;
    return true;
}

void gen_closure_add(struct gen_closure *closure, const struct gen_message *message)
{
    if (!gen_closure_add_only(closure, message))
        return;
    for (size_t i = 0; i < message->n_fields; i++) {
        if (message->fields[i]->message)
            gen_closure_add(closure, message->fields[i]->message);
    }
}

/* Whether the message can hold itself, at whatever distance. */
static bool is_recursive(struct gen_memory *memory, const struct gen_message *message)
{
    struct gen_closure below = {.memory = memory};

    for (size_t i = 0; i < message->n_fields; i++) {
        if (message->fields[i]->message)
            gen_closure_add(&below, message->fields[i]->message);
    }
    return gen_closure_has(&below, message);
}

static bool has_group(struct gen_memory *memory, const struct gen_message *message)
{
    (void) memory;
    return message->has_group;
}

static bool has_required(struct gen_memory *memory, const struct gen_message *message)
{
    (void) memory;
    for (size_t i = 0; i < message->n_fields; i++) {
        if (message->fields[i]->presence == GEN_REQUIRED)
            return true;
    }
    return false;
}

static bool has_text(struct gen_memory *memory, const struct gen_message *message)
{
    (void) memory;
    for (size_t i = 0; i < message->n_fields; i++) {
        if (gen_field_is_text(message->fields[i]))
            return true;
    }
    return false;
}

static bool reaches(struct gen_memory *memory, const struct gen_message *message,
                    bool (*test)(struct gen_memory *, const struct gen_message *))
{
    struct gen_closure closure = {.memory = memory};

    gen_closure_add(&closure, message);
    for (size_t i = 0; i < closure.count; i++) {
        if (test(memory, closure.messages[i]))
            return true;
    }
    return false;
}

bool gen_message_is_deep(struct gen_memory *memory, const struct gen_message *message)
{
    return reaches(memory, message, is_recursive);
}

bool gen_message_reaches_group(struct gen_memory *memory, const struct gen_message *message)
{
    return reaches(memory, message, has_group);
}

bool gen_message_reaches_required(struct gen_memory *memory, const struct gen_message *message)
{
    return reaches(memory, message, has_required);
}

bool gen_message_reaches_text(struct gen_memory *memory, const struct gen_message *message)
{
    return reaches(memory, message, has_text);
}

bool gen_message_is_small(const struct gen_message *message)
{
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];

        if (field->presence == GEN_REPEATED || field->message || field->type == GEN_STRING ||
            field->type == GEN_BYTES)
            return false;
    }
    return message->n_fields <= 4;
}

unsigned gen_field_wire_type(const struct gen_field *field)
{
    switch (field->type) {
    case GEN_DOUBLE:
    case GEN_FIXED64:
    case GEN_SFIXED64:
        return 1;
    case GEN_STRING:
    case GEN_BYTES:
    case GEN_MESSAGE:
        return 2;
    case GEN_GROUP:
        return 3;
    case GEN_FLOAT:
    case GEN_FIXED32:
    case GEN_SFIXED32:
        return 5;
    case GEN_INT64:
    case GEN_UINT64:
    case GEN_INT32:
    case GEN_BOOL:
    case GEN_UINT32:
    case GEN_ENUM:
    case GEN_SINT32:
    case GEN_SINT64:
        break;
    }
    return 0;
}
