/*
 * Compares protobuf-c code from two generators: every descriptor field by field, and what the
 * init functions put into a struct. Called by golden.py with two shared objects, one per
 * generator, and the names of the descriptors that both must hold.
 *
 *   compare REFERENCE.so OURS.so NAME...
 *
 * Prints each difference; exit code 0 = none. Tables are compared by content, pointers to other
 * descriptors by the name of what they point to.
 */
#include <protobuf-c/protobuf-c.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *current; /* the descriptor that is being compared */
static unsigned differences;

static void differ(const char *what, const char *where)
{
    printf("%s: %s %s differs\n", current, where ? where : "", what);
    differences++;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

#define SAME(member, where)         \
    do {                            \
        if (a->member != b->member) \
            differ(#member, where); \
    } while (0)
#define SAME_TEXT(member, where)              \
    do {                                      \
        if (!same_text(a->member, b->member)) \
            differ(#member, where);           \
    } while (0)

/* What a name or, with CODE_SIZE, an address stands for: the symbol at the address. */
static const char *symbol_of(const void *address)
{
    Dl_info info;

    return address && dladdr(address, &info) && info.dli_sname ? info.dli_sname : "";
}

static void compare_default(const ProtobufCFieldDescriptor *a, const ProtobufCFieldDescriptor *b)
{
    size_t size = 4;

    if (!a->default_value != !b->default_value) {
        differ("default", a->name);
        return;
    }
    if (!a->default_value)
        return;
    if (a->type == PROTOBUF_C_TYPE_STRING) {
        if (!same_text(a->default_value, b->default_value))
            differ("default", a->name);
        return;
    }
    if (a->type == PROTOBUF_C_TYPE_BYTES) {
        const ProtobufCBinaryData *left = a->default_value;
        const ProtobufCBinaryData *right = b->default_value;

        if (left->len != right->len || memcmp(left->data, right->data, left->len + 1) != 0)
            differ("default", a->name);
        return;
    }
    if (a->type == PROTOBUF_C_TYPE_INT64 || a->type == PROTOBUF_C_TYPE_SINT64 ||
        a->type == PROTOBUF_C_TYPE_SFIXED64 || a->type == PROTOBUF_C_TYPE_UINT64 ||
        a->type == PROTOBUF_C_TYPE_FIXED64 || a->type == PROTOBUF_C_TYPE_DOUBLE)
        size = 8;
    if (memcmp(a->default_value, b->default_value, size) != 0)
        differ("default", a->name);
}

static void compare_field(const ProtobufCFieldDescriptor *a, const ProtobufCFieldDescriptor *b)
{
    SAME_TEXT(name, a->name);
    SAME(id, a->name);
    SAME(label, a->name);
    SAME(type, a->name);
    SAME(quantifier_offset, a->name);
    SAME(offset, a->name);
    SAME(flags, a->name);
    SAME(reserved_flags, a->name);
    SAME(reserved2, a->name);
    SAME(reserved3, a->name);
    if (strcmp(symbol_of(a->descriptor), symbol_of(b->descriptor)) != 0)
        differ("descriptor", a->name);
    compare_default(a, b);
}

static void compare_ranges(const ProtobufCIntRange *a, const ProtobufCIntRange *b, unsigned count)
{
    /* One more row than is counted ends the table; an empty one is not there at all. */
    for (unsigned i = 0; count > 0 && i <= count; i++) {
        if (a[i].start_value != b[i].start_value || a[i].orig_index != b[i].orig_index)
            differ("range", NULL);
    }
}

static void compare_start(const ProtobufCMessageDescriptor *a, const ProtobufCMessageDescriptor *b)
{
    ProtobufCMessage *left = calloc(1, a->sizeof_message);
    ProtobufCMessage *right = calloc(1, b->sizeof_message);

    if (!left || !right)
        abort();
    a->message_init(left);
    b->message_init(right);
    if (left->descriptor != a || right->descriptor != b)
        differ("descriptor of a new message", NULL);
    for (unsigned i = 0; i < a->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &a->fields[i];
        const char *at_left = (const char *) left + field->offset;
        const char *at_right = (const char *) right + field->offset;

        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            continue;
        if (field->type == PROTOBUF_C_TYPE_STRING && field->label != PROTOBUF_C_LABEL_REPEATED) {
            if (!same_text(*(char *const *) at_left, *(char *const *) at_right))
                differ("start value", field->name);
        } else if (field->type == PROTOBUF_C_TYPE_BYTES &&
                   field->label != PROTOBUF_C_LABEL_REPEATED) {
            const ProtobufCBinaryData *x = (const ProtobufCBinaryData *) at_left;
            const ProtobufCBinaryData *y = (const ProtobufCBinaryData *) at_right;

            if (x->len != y->len || !x->data != !y->data)
                differ("start value", field->name);
        } else if (memcmp(at_left, at_right, 4) != 0) {
            differ("start value", field->name);
        }
    }
    free(left);
    free(right);
}

static void compare_messages(const ProtobufCMessageDescriptor *a,
                             const ProtobufCMessageDescriptor *b)
{
    SAME_TEXT(name, NULL);
    SAME_TEXT(short_name, NULL);
    SAME_TEXT(c_name, NULL);
    SAME_TEXT(package_name, NULL);
    SAME(sizeof_message, NULL);
    SAME(n_fields, NULL);
    SAME(n_field_ranges, NULL);
    if (a->n_fields != b->n_fields || a->n_field_ranges != b->n_field_ranges)
        return;
    for (unsigned i = 0; i < a->n_fields; i++)
        compare_field(&a->fields[i], &b->fields[i]);
    for (unsigned i = 0; a->fields_sorted_by_name && i < a->n_fields; i++)
        SAME(fields_sorted_by_name[i], a->fields[i].name);
    if (!a->fields_sorted_by_name != !b->fields_sorted_by_name)
        differ("name index", NULL);
    compare_ranges(a->field_ranges, b->field_ranges, a->n_field_ranges);
    if (!a->message_init != !b->message_init)
        differ("init", NULL);
    else if (a->message_init)
        compare_start(a, b);
}

static void compare_enums(const ProtobufCEnumDescriptor *a, const ProtobufCEnumDescriptor *b)
{
    SAME_TEXT(name, NULL);
    SAME_TEXT(short_name, NULL);
    SAME_TEXT(c_name, NULL);
    SAME_TEXT(package_name, NULL);
    SAME(n_values, NULL);
    SAME(n_value_names, NULL);
    SAME(n_value_ranges, NULL);
    if (differences)
        return;
    for (unsigned i = 0; i < a->n_values; i++) {
        SAME_TEXT(values[i].name, NULL);
        SAME_TEXT(values[i].c_name, NULL);
        SAME(values[i].value, NULL);
    }
    for (unsigned i = 0; i < a->n_value_names; i++) {
        SAME_TEXT(values_by_name[i].name, NULL);
        SAME(values_by_name[i].index, NULL);
    }
    compare_ranges(a->value_ranges, b->value_ranges, a->n_value_ranges);
}

static void compare_services(const ProtobufCServiceDescriptor *a,
                             const ProtobufCServiceDescriptor *b)
{
    SAME_TEXT(name, NULL);
    SAME_TEXT(short_name, NULL);
    SAME_TEXT(c_name, NULL);
    SAME_TEXT(package, NULL);
    SAME(n_methods, NULL);
    if (a->n_methods != b->n_methods)
        return;
    for (unsigned i = 0; i < a->n_methods; i++) {
        SAME_TEXT(methods[i].name, NULL);
        if (strcmp(symbol_of(a->methods[i].input), symbol_of(b->methods[i].input)) != 0)
            differ("input", a->methods[i].name);
        if (strcmp(symbol_of(a->methods[i].output), symbol_of(b->methods[i].output)) != 0)
            differ("output", a->methods[i].name);
        if (a->method_indices_by_name)
            SAME(method_indices_by_name[i], NULL);
    }
}

static void compare(const void *a, const void *b)
{
    uint32_t magic;
    uint32_t other;

    memcpy(&magic, a, sizeof magic);
    memcpy(&other, b, sizeof other);
    if (magic != other)
        differ("magic", NULL);
    else if (magic == PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC)
        compare_messages(a, b);
    else if (magic == PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC)
        compare_enums(a, b);
    else if (magic == PROTOBUF_C__SERVICE_DESCRIPTOR_MAGIC)
        compare_services(a, b);
    else
        differ("magic", NULL);
}

int main(int argc, char **argv)
{
    void *objects[2];

    if (argc < 4)
        return 2;
    for (int i = 0; i < 2; i++) {
        objects[i] = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL);
        if (!objects[i]) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
    }
    for (int i = 3; i < argc; i++) {
        const void *a = dlsym(objects[0], argv[i]);
        const void *b = dlsym(objects[1], argv[i]);

        current = argv[i];
        if (a && b)
            compare(a, b);
        else
            differ("existence", NULL);
    }
    return differences ? 1 : 0;
}
