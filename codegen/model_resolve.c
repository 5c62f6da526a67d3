/*
 * The second half of building a model: fields, oneofs, extensions and services, with what they
 * refer to. See model_build.h.
 */
#include "codegen/model_build.h"

#include <stdlib.h>
#include <string.h>

/* Field numbers of DescriptorProto, FileDescriptorProto and ServiceDescriptorProto. */
enum {
    PATH_MESSAGE_FIELD = 2,
    PATH_MESSAGE_MESSAGE = 3,
    PATH_MESSAGE_EXTENSION = 6,
    PATH_MESSAGE_ONEOF = 8,
    PATH_FILE_SERVICE = 6,
    PATH_SERVICE_METHOD = 2,
};

/* Of protobuf-c's pb_c_field. */
enum { OPTION_PROTOBUF_C = 1019, OPTION_STRING_AS_BYTES = 1 };

#define LAST_FIELD_NUMBER ((1 << 29) - 1)

/* `name` as a descriptor refers to a type: with a leading dot. */
static struct gen_symbol *find_symbol(struct gen_builder *builder, const char *name)
{
    return name && name[0] == '.' ? gen_table_find(&builder->symbols, name + 1) : NULL;
}

static struct gen_message *find_message(struct gen_builder *builder, struct gen_place place,
                                        const char *user, const char *name)
{
    struct gen_symbol *symbol = find_symbol(builder, name);

    if (symbol && symbol->message)
        return symbol->message;
    gen_fail(builder->report, place, "\"%s\" refers to \"%s\", which is no message", user,
             name ? name : "");
    return NULL;
}

static void read_type(struct gen_builder *builder, struct gen_field *field,
                      const field_proto *proto)
{
    struct gen_symbol *symbol;

    if ((int) proto->type < GEN_DOUBLE || (int) proto->type > GEN_SINT64) {
        gen_fail(builder->report, field->place, "field \"%s\" has no known type", field->full_name);
        return;
    }
    field->type = (enum gen_type) proto->type;
    if (field->type == GEN_MESSAGE || field->type == GEN_GROUP) {
        field->message = find_message(builder, field->place, field->full_name, proto->type_name);
    } else if (field->type == GEN_ENUM) {
        symbol = find_symbol(builder, proto->type_name);
        if (symbol)
            field->enumeration = symbol->enumeration;
        if (!field->enumeration)
            gen_fail(builder->report, field->place, "\"%s\" refers to \"%s\", which is no enum",
                     field->full_name, proto->type_name ? proto->type_name : "");
    }
}

static void read_options(struct gen_field *field, const Google__Protobuf__FieldOptions *options,
                         bool proto3)
{
    uint64_t value;

    field->is_binary = field->type == GEN_BYTES;
    field->check_utf8 = field->type == GEN_STRING && proto3;
    field->packable = field->presence == GEN_REPEATED && field->type != GEN_STRING &&
                      field->type != GEN_BYTES && field->type != GEN_MESSAGE &&
                      field->type != GEN_GROUP;
    field->packed = field->packable && proto3;
    if (!options)
        return;
    if (options->has_packed)
        field->packed = field->packable && options->packed;
    field->deprecated = options->deprecated;
    if (field->type == GEN_STRING &&
        gen_option_number(&options->base, OPTION_PROTOBUF_C, OPTION_STRING_AS_BYTES, &value))
        field->is_binary = value != 0;
}

/* Of a field that is neither repeated nor required nor in a oneof. */
static enum gen_presence singular_presence(const struct gen_field *field, bool proto3)
{
    if (field->type == GEN_MESSAGE || field->type == GEN_GROUP)
        return GEN_POINTER;
    if (proto3 && !field->optional)
        return GEN_IMPLICIT;
    return field->type == GEN_STRING && !field->is_binary ? GEN_POINTER : GEN_HAS;
}

static void read_presence(struct gen_builder *builder, struct gen_field *field,
                          const field_proto *proto)
{
    bool proto3 = builder->file->proto3;
    int label = (int) proto->label;

    field->required = label == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REQUIRED;
    if (label == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED)
        field->presence = GEN_REPEATED;
    else if (label != GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_OPTIONAL &&
             !field->required)
        gen_fail(builder->report, field->place, "field \"%s\" has no known label",
                 field->full_name);
    read_options(field, proto->options, proto3);
    if (field->oneof && (field->required || field->presence == GEN_REPEATED))
        gen_fail(builder->report, field->place,
                 "field \"%s\" is in a oneof, so it cannot be "
                 "required or repeated",
                 field->full_name);
    if (field->required && proto3)
        gen_fail(builder->report, field->place, "field \"%s\" is required, in proto3",
                 field->full_name);
    if (field->presence == GEN_REPEATED)
        return;
    if (field->oneof)
        field->presence = GEN_ONEOF;
    else if (field->required)
        field->presence = GEN_REQUIRED;
    else
        field->presence = singular_presence(field, proto3);
}

/* A field or extension, but for its oneof and its parent. */
static struct gen_field *read_field(struct gen_builder *builder, const char *scope,
                                    const field_proto *proto)
{
    struct gen_field *field = gen_new(builder->memory, struct gen_field);

    gen_locate(builder, &field->place, &field->comment);
    field->name = proto->name ? proto->name : "";
    field->full_name = gen_join_name(builder->memory, scope, field->name);
    field->json_name = proto->json_name ? proto->json_name : field->name;
    field->number = proto->number;
    field->optional = builder->file->proto3 && proto->proto3_optional;
    gen_check_name(builder, field->place, proto->name, "a field");
    if (field->number < 1 || field->number > LAST_FIELD_NUMBER)
        gen_fail(builder->report, field->place, "field \"%s\" has the number %ld", field->full_name,
                 (long) field->number);
    read_type(builder, field, proto);
    return field;
}

static int compare_numbers(const void *left, const void *right)
{
    const struct gen_field *const *a = left;
    const struct gen_field *const *b = right;

    return ((*a)->number > (*b)->number) - ((*a)->number < (*b)->number);
}

static void sort_fields(struct gen_builder *builder, struct gen_message *message)
{
    message->by_number = gen_array(builder->memory, message->n_fields, sizeof *message->by_number);
    if (message->n_fields == 0)
        return;
    memcpy(message->by_number, message->fields, message->n_fields * sizeof *message->by_number);
    qsort(message->by_number, message->n_fields, sizeof *message->by_number, compare_numbers);
    for (size_t i = 1; i < message->n_fields; i++) {
        const struct gen_field *field = message->by_number[i];

        if (field->number == message->by_number[i - 1]->number)
            gen_fail(builder->report, field->place,
                     "fields \"%s\" and \"%s\" have the same "
                     "number %ld",
                     field->full_name, message->by_number[i - 1]->full_name, (long) field->number);
    }
}

/*
 * The oneofs that the user wrote. `oneofs[i]` is the i-th of the descriptor, NULL where protoc
 * made it up for a field of proto3 with the word optional.
 */
static struct gen_oneof **read_oneofs(struct gen_builder *builder, struct gen_message *message,
                                      const message_proto *proto)
{
    struct gen_memory *memory = builder->memory;
    struct gen_oneof **oneofs = gen_array(memory, proto->n_oneof_decl, sizeof(*oneofs));
    bool *synthetic = gen_array(memory, proto->n_oneof_decl, sizeof *synthetic);

    for (size_t i = 0; i < proto->n_field; i++) {
        const field_proto *field = proto->field[i];

        if (field->has_oneof_index && field->proto3_optional && field->oneof_index >= 0 &&
            (size_t) field->oneof_index < proto->n_oneof_decl)
            synthetic[field->oneof_index] = true;
    }
    message->oneofs = gen_array(memory, proto->n_oneof_decl, sizeof *message->oneofs);
    for (size_t i = 0; i < proto->n_oneof_decl; i++) {
        struct gen_oneof *oneof;

        if (synthetic[i])
            continue;
        oneof = gen_new(memory, struct gen_oneof);
        gen_path_push(memory, &builder->path, PATH_MESSAGE_ONEOF, i);
        gen_locate(builder, &oneof->place, &oneof->comment);
        gen_path_pop(&builder->path);
        oneof->name = proto->oneof_decl[i]->name ? proto->oneof_decl[i]->name : "";
        oneof->full_name = gen_join_name(memory, message->full_name, oneof->name);
        oneof->parent = message;
        oneof->fields = gen_array(memory, proto->n_field, sizeof(*oneof->fields));
        gen_check_name(builder, oneof->place, oneof->name, "a oneof");
        oneofs[i] = oneof;
        message->oneofs[message->n_oneofs++] = oneof;
    }
    return oneofs;
}

static void join_oneof(struct gen_builder *builder, struct gen_field *field,
                       const field_proto *proto, struct gen_oneof **oneofs, size_t n_oneofs)
{
    struct gen_oneof *oneof;

    if (!proto->has_oneof_index)
        return;
    if (proto->oneof_index < 0 || (size_t) proto->oneof_index >= n_oneofs) {
        gen_fail(builder->report, field->place, "field \"%s\" is in a oneof that does not exist",
                 field->full_name);
        return;
    }
    oneof = oneofs[proto->oneof_index];
    if (!oneof) {
        if (!field->optional)
            gen_fail(builder->report, field->place,
                     "field \"%s\" shares the oneof of an "
                     "optional field",
                     field->full_name);
        return;
    }
    field->oneof = oneof;
    oneof->fields[oneof->n_fields++] = field;
}

void gen_resolve_message(struct gen_builder *builder, struct gen_message *message,
                         const message_proto *proto)
{
    struct gen_memory *memory = builder->memory;
    struct gen_oneof **oneofs = read_oneofs(builder, message, proto);

    message->fields = gen_array(memory, proto->n_field, sizeof *message->fields);
    for (size_t i = 0; i < proto->n_field; i++) {
        struct gen_field *field;

        gen_path_push(memory, &builder->path, PATH_MESSAGE_FIELD, i);
        field = read_field(builder, message->full_name, proto->field[i]);
        gen_path_pop(&builder->path);
        field->parent = message;
        join_oneof(builder, field, proto->field[i], oneofs, proto->n_oneof_decl);
        read_presence(builder, field, proto->field[i]);
        message->has_group |= field->type == GEN_GROUP;
        message->fields[message->n_fields++] = field;
    }
    for (size_t i = 0; i < message->n_oneofs; i++) {
        if (message->oneofs[i]->n_fields == 0)
            gen_fail(builder->report, message->oneofs[i]->place, "oneof \"%s\" has no field",
                     message->oneofs[i]->full_name);
    }
    sort_fields(builder, message);
    for (size_t i = 0; i < message->n_messages; i++) {
        gen_path_push(memory, &builder->path, PATH_MESSAGE_MESSAGE, i);
        gen_resolve_message(builder, message->messages[i], proto->nested_type[i]);
        gen_path_pop(&builder->path);
    }
    gen_resolve_extensions(builder, message->full_name, PATH_MESSAGE_EXTENSION, proto->extension,
                           proto->n_extension);
}

void gen_resolve_extensions(struct gen_builder *builder, const char *scope, int32_t path_field,
                            field_proto **protos, size_t count)
{
    struct gen_memory *memory = builder->memory;
    struct gen_file *file = builder->file;
    struct gen_field **all = gen_array(memory, file->n_extensions + count, sizeof(*all));

    if (file->n_extensions > 0)
        memcpy(all, file->extensions, file->n_extensions * sizeof(*all));
    file->extensions = all;
    for (size_t i = 0; i < count; i++) {
        struct gen_field *field;

        gen_path_push(memory, &builder->path, path_field, i);
        field = read_field(builder, scope, protos[i]);
        gen_path_pop(&builder->path);
        field->parent = find_message(builder, field->place, field->full_name, protos[i]->extendee);
        read_presence(builder, field, protos[i]);
        all[file->n_extensions++] = field;
    }
}

static void read_method(struct gen_builder *builder, struct gen_method *method,
                        const Google__Protobuf__MethodDescriptorProto *proto)
{
    const Google__Protobuf__MethodOptions *options = proto->options;

    method->name = proto->name ? proto->name : "";
    method->full_name = gen_join_name(builder->memory, method->service->full_name, method->name);
    method->path = gen_format(builder->memory, "/%s/%s", method->service->full_name, method->name);
    gen_check_name(builder, method->place, proto->name, "a method");
    method->input = find_message(builder, method->place, method->full_name, proto->input_type);
    method->output = find_message(builder, method->place, method->full_name, proto->output_type);
    method->client_streaming = proto->client_streaming != 0;
    method->server_streaming = proto->server_streaming != 0;
    if (!options)
        return;
    method->deprecated = options->deprecated != 0;
    method->no_side_effects = options->idempotency_level ==
                              GOOGLE__PROTOBUF__METHOD_OPTIONS__IDEMPOTENCY_LEVEL__NO_SIDE_EFFECTS;
    method->idempotent = method->no_side_effects ||
                         options->idempotency_level ==
                             GOOGLE__PROTOBUF__METHOD_OPTIONS__IDEMPOTENCY_LEVEL__IDEMPOTENT;
}

static struct gen_service *read_service(struct gen_builder *builder, const service_proto *proto)
{
    struct gen_memory *memory = builder->memory;
    struct gen_service *service = gen_new(memory, struct gen_service);
    struct gen_table names = {.memory = memory};

    service->file = builder->file;
    service->name = proto->name ? proto->name : "";
    service->full_name = gen_join_name(memory, builder->file->package, service->name);
    service->deprecated = proto->options && proto->options->deprecated;
    gen_locate(builder, &service->place, &service->comment);
    gen_check_name(builder, service->place, proto->name, "a service");
    service->methods = gen_array(memory, proto->n_method, sizeof *service->methods);
    for (size_t i = 0; i < proto->n_method; i++) {
        struct gen_method *method = gen_new(memory, struct gen_method);

        method->service = service;
        gen_path_push(memory, &builder->path, PATH_SERVICE_METHOD, i);
        gen_locate(builder, &method->place, &method->comment);
        gen_path_pop(&builder->path);
        read_method(builder, method, proto->method[i]);
        if (gen_table_add(&names, method->name, method))
            gen_fail(builder->report, method->place, "\"%s\" is defined twice", method->full_name);
        service->methods[service->n_methods++] = method;
    }
    return service;
}

void gen_resolve_services(struct gen_builder *builder)
{
    struct gen_file *file = builder->file;

    file->services = gen_array(builder->memory, file->proto->n_service, sizeof *file->services);
    for (size_t i = 0; i < file->proto->n_service; i++) {
        gen_path_push(builder->memory, &builder->path, PATH_FILE_SERVICE, i);
        file->services[file->n_services++] = read_service(builder, file->proto->service[i]);
        gen_path_pop(&builder->path);
    }
}

static void check_map(struct gen_builder *builder, struct gen_field *field)
{
    const struct gen_message *entry = field->message;

    if (!entry || !entry->is_map_entry)
        return;
    if (field->presence == GEN_REPEATED && entry->parent == field->parent && entry->n_fields == 2 &&
        entry->n_oneofs == 0 && entry->by_number[0]->number == 1 &&
        entry->by_number[1]->number == 2 && entry->fields[0]->presence != GEN_REPEATED &&
        entry->fields[1]->presence != GEN_REPEATED)
        field->is_map = true;
    else
        gen_fail(builder->report, field->place, "field \"%s\" is no proper map", field->full_name);
}

void gen_resolve_rest(struct gen_builder *builder, struct gen_message *message,
                      const message_proto *proto)
{
    for (size_t i = 0; i < message->n_fields; i++) {
        check_map(builder, message->fields[i]);
        gen_default_read(builder->report, message->fields[i], proto->field[i]->default_value);
    }
    for (size_t i = 0; i < message->n_messages; i++)
        gen_resolve_rest(builder, message->messages[i], proto->nested_type[i]);
}
