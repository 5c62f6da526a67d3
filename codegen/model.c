/*
 * Builds the model: declares every file, message, enum and value of the request, then has
 * model_resolve.c fill in what refers to other things. See model.h.
 */
#include "codegen/model.h"

#include "codegen/model_build.h"
#include "codegen/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Field numbers of FileDescriptorProto, DescriptorProto and EnumDescriptorProto. */
enum {
    PATH_FILE_MESSAGE = 4,
    PATH_FILE_ENUM = 5,
    PATH_FILE_EXTENSION = 7,
    PATH_MESSAGE_MESSAGE = 3,
    PATH_MESSAGE_ENUM = 4,
    PATH_ENUM_VALUE = 2,
};

/* Extension numbers of options. */
enum {
    OPTION_PROTOBUF_C = 1019,  /* protobuf-c's pb_c_file, pb_c_msg, pb_c_field */
    OPTION_PEKOE_SLAB = 73563, /* pekoe/options.proto */
    OPTION_PEKOE_ZERO_COPY = 73564,
    OPTION_VTPROTO_MEMPOOL = 64101,
    OPTION_VTPROTO_SLAB = 64103,
};

bool gen_check_name(struct gen_builder *builder, struct gen_place place, const char *name,
                    const char *what)
{
    bool good = name && (isalpha((unsigned char) name[0]) || name[0] == '_');

    for (const char *at = name; good && *at; at++)
        good = isalnum((unsigned char) *at) || *at == '_';
    if (!good)
        gen_fail(builder->report, place, "\"%s\" is no name for %s", name ? name : "", what);
    return good;
}

const char *gen_join_name(struct gen_memory *memory, const char *scope, const char *name)
{
    return scope[0] != '\0' ? gen_format(memory, "%s.%s", scope, name) : name;
}

void gen_locate(struct gen_builder *builder, struct gen_place *ret_place,
                struct gen_comment *ret_comment)
{
    gen_source_find(&builder->source, &builder->path, ret_place, ret_comment);
}

static void declare_symbol(struct gen_builder *builder, const char *full_name,
                           struct gen_message *message, struct gen_enum *enumeration,
                           struct gen_place place)
{
    struct gen_symbol *symbol = gen_new(builder->memory, struct gen_symbol);
    struct gen_symbol *other;

    *symbol = (struct gen_symbol){message, enumeration, place};
    other = gen_table_add(&builder->symbols, full_name, symbol);
    if (other)
        gen_fail(builder->report, place, "\"%s\" is defined twice, also at %s", full_name,
                 gen_place_text(builder->memory, other->place));
}

static struct gen_enum *declare_enum(struct gen_builder *builder, struct gen_message *parent,
                                     const char *scope, const enum_proto *proto)
{
    struct gen_memory *memory = builder->memory;
    struct gen_enum *enumeration = gen_new(memory, struct gen_enum);

    enumeration->file = builder->file;
    enumeration->parent = parent;
    enumeration->closed = !builder->file->proto3;
    enumeration->deprecated = proto->options && proto->options->deprecated;
    gen_locate(builder, &enumeration->place, &enumeration->comment);
    enumeration->name = proto->name ? proto->name : "";
    enumeration->full_name = gen_join_name(memory, scope, enumeration->name);
    if (!gen_check_name(builder, enumeration->place, proto->name, "an enum"))
        return enumeration;
    declare_symbol(builder, enumeration->full_name, NULL, enumeration, enumeration->place);

    enumeration->n_values = proto->n_value;
    enumeration->values = gen_array(memory, proto->n_value, sizeof *enumeration->values);
    if (proto->n_value == 0)
        gen_fail(builder->report, enumeration->place, "enum \"%s\" has no value",
                 enumeration->full_name);
    for (size_t i = 0; i < proto->n_value; i++) {
        const Google__Protobuf__EnumValueDescriptorProto *from = proto->value[i];
        struct gen_enum_value *value = &enumeration->values[i];

        gen_path_push(memory, &builder->path, PATH_ENUM_VALUE, i);
        gen_locate(builder, &value->place, &value->comment);
        gen_path_pop(&builder->path);
        value->name = from->name ? from->name : "";
        value->number = from->number;
        value->deprecated = from->options && from->options->deprecated;
        gen_check_name(builder, value->place, from->name, "an enum value");
    }
    return enumeration;
}

static enum gen_choice read_choice(const ProtobufCMessage *options, uint32_t number)
{
    uint64_t value;

    if (!gen_option_number(options, number, 0, &value))
        return GEN_UNSET;
    return value ? GEN_YES : GEN_NO;
}

/* gen_pack_helpers and gen_init_helpers of the message, else what it takes from its parent. */
static void read_helpers(struct gen_message *message, const ProtobufCMessage *options)
{
    const ProtobufCMessage *file_options = NULL;
    uint64_t value;
    uint64_t ignored;

    if (message->file->proto->options)
        file_options = &message->file->proto->options->base;
    message->pack_helpers = true;
    message->init_helpers = true;
    if (gen_option_number(file_options, OPTION_PROTOBUF_C, 2, &value))
        message->pack_helpers = value != 0;
    if (gen_option_number(file_options, OPTION_PROTOBUF_C, 3, &value))
        message->init_helpers = value != 0;
    if (message->parent) {
        message->init_helpers = message->parent->init_helpers;
        /* protoc-gen-c's rule: without a word of the file, messages nested in one at the top have
         * pack functions only where that one says so; deeper ones do as their parent does. */
        if (message->parent->parent ||
            gen_option_number(file_options, OPTION_PROTOBUF_C, 2, &ignored))
            message->pack_helpers = message->parent->pack_helpers;
        else
            message->pack_helpers = message->parent->nested_pack_helpers;
    }
    if (gen_option_number(options, OPTION_PROTOBUF_C, 1, &value)) {
        message->pack_helpers = value != 0;
        message->nested_pack_helpers = value != 0;
    }
    if (gen_option_number(options, OPTION_PROTOBUF_C, 2, &value))
        message->init_helpers = value != 0;
}

static void read_message_options(struct gen_builder *builder, struct gen_message *message,
                                 const Google__Protobuf__MessageOptions *options)
{
    const ProtobufCMessage *base = options ? &options->base : NULL;

    message->c_base = "base";
    if (options) {
        message->is_map_entry = options->map_entry;
        message->message_set = options->message_set_wire_format;
        message->deprecated = options->deprecated;
        message->slab = read_choice(base, OPTION_PEKOE_SLAB);
        if (message->slab == GEN_UNSET)
            message->slab = read_choice(base, OPTION_VTPROTO_SLAB);
        message->zero_copy = read_choice(base, OPTION_PEKOE_ZERO_COPY);
        message->mempool = read_choice(base, OPTION_VTPROTO_MEMPOOL) == GEN_YES;
        gen_option_text(base, OPTION_PROTOBUF_C, 3, builder->memory, &message->c_base);
    }
    gen_check_name(builder, message->place, message->c_base, "a struct member (base_field_name)");
    if (message->slab == GEN_YES && message->mempool)
        gen_fail(builder->report, message->place,
                 "message \"%s\" has both options slab and (vtproto.mempool): a pooled message "
                 "must not point into a slab",
                 message->full_name);
    read_helpers(message, base);
}

static struct gen_message *declare_message(struct gen_builder *builder, struct gen_message *parent,
                                           const char *scope, const message_proto *proto)
{
    struct gen_memory *memory = builder->memory;
    struct gen_message *message = gen_new(memory, struct gen_message);

    message->file = builder->file;
    message->parent = parent;
    gen_locate(builder, &message->place, &message->comment);
    message->name = proto->name ? proto->name : "";
    message->full_name = gen_join_name(memory, scope, message->name);
    gen_check_name(builder, message->place, proto->name, "a message");
    declare_symbol(builder, message->full_name, message, NULL, message->place);
    read_message_options(builder, message, proto->options);

    message->n_messages = proto->n_nested_type;
    message->messages = gen_array(memory, proto->n_nested_type, sizeof *message->messages);
    for (size_t i = 0; i < proto->n_nested_type; i++) {
        gen_path_push(memory, &builder->path, PATH_MESSAGE_MESSAGE, i);
        message->messages[i] =
            declare_message(builder, message, message->full_name, proto->nested_type[i]);
        gen_path_pop(&builder->path);
    }
    message->n_enums = proto->n_enum_type;
    message->enums = gen_array(memory, proto->n_enum_type, sizeof *message->enums);
    for (size_t i = 0; i < proto->n_enum_type; i++) {
        gen_path_push(memory, &builder->path, PATH_MESSAGE_ENUM, i);
        message->enums[i] = declare_enum(builder, message, message->full_name, proto->enum_type[i]);
        gen_path_pop(&builder->path);
    }
    message->n_extension_ranges = proto->n_extension_range;
    message->extension_ranges =
        gen_array(memory, proto->n_extension_range, sizeof *message->extension_ranges);
    for (size_t i = 0; i < proto->n_extension_range; i++)
        message->extension_ranges[i] =
            (struct gen_range){proto->extension_range[i]->start, proto->extension_range[i]->end};
    return message;
}

static size_t count_messages(struct gen_message *const *messages, size_t count)
{
    size_t sum = count;

    for (size_t i = 0; i < count; i++)
        sum += count_messages(messages[i]->messages, messages[i]->n_messages);
    return sum;
}

static void list_messages(struct gen_file *file, struct gen_message *const *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list_messages(file, messages[i]->messages, messages[i]->n_messages);
        messages[i]->index = (unsigned) file->n_all_messages;
        file->all_messages[file->n_all_messages++] = messages[i];
    }
}

static void read_file_options(struct gen_builder *builder, struct gen_file *file,
                              const Google__Protobuf__FileOptions *options)
{
    const ProtobufCMessage *base = options ? &options->base : NULL;
    uint64_t value;

    if (!options)
        return;
    file->deprecated = options->deprecated;
    file->code_size =
        options->has_optimize_for &&
        options->optimize_for == GOOGLE__PROTOBUF__FILE_OPTIONS__OPTIMIZE_MODE__CODE_SIZE;
    if (gen_option_number(base, OPTION_PROTOBUF_C, 1, &value))
        file->no_generate = value != 0;
    if (gen_option_number(base, OPTION_PROTOBUF_C, 4, &value))
        file->const_strings = value != 0;
    if (gen_option_number(base, OPTION_PROTOBUF_C, 5, &value))
        file->oneof_field_names = value != 0;
    gen_option_text(base, OPTION_PROTOBUF_C, 6, builder->memory, &file->c_package);
}

static bool check_package(struct gen_builder *builder, const struct gen_file *file,
                          const char *package)
{
    char *left = gen_strdup(builder->memory, package);

    while (left && package[0] != '\0') {
        if (!gen_check_name(builder, file->place, strsep(&left, "."), "a package"))
            return false;
    }
    return true;
}

/* Names of files stand in #include lines, in comments and in output paths. */
static bool check_file_name(struct gen_builder *builder, const struct gen_file *file)
{
    bool good = file->name[0] != '\0' && !strstr(file->name, "*/") && !strstr(file->name, "/*");

    for (const char *at = file->name; good && *at; at++)
        good = (unsigned char) *at >= 0x20 && *at != '"' && *at != '\\' && *at != 0x7f;
    if (!good)
        gen_fail(builder->report, (struct gen_place){0},
                 "\"%s\" is no name for a file that C "
                 "code can include",
                 file->name);
    return good;
}

static void read_syntax(struct gen_builder *builder, struct gen_file *file, const char *syntax)
{
    if (!syntax || syntax[0] == '\0' || strcmp(syntax, "proto2") == 0)
        return;
    if (strcmp(syntax, "proto3") == 0)
        file->proto3 = true;
    else
        gen_fail(builder->report, file->place,
                 "syntax \"%s\" is not supported; proto2 and proto3 are", syntax);
}

static void read_imports(struct gen_builder *builder, struct gen_file *file)
{
    const Google__Protobuf__FileDescriptorProto *proto = file->proto;

    file->imports = gen_array(builder->memory, proto->n_dependency, sizeof *file->imports);
    for (size_t i = 0; i < proto->n_dependency; i++) {
        struct gen_file *import = gen_table_find(&builder->files, proto->dependency[i]);

        /* Files come before those that import them, so a cycle ends here, too. */
        if (import)
            file->imports[file->n_imports++] = import;
        else
            gen_fail(builder->report, file->place,
                     "imports \"%s\", which protoc did not send "
                     "before it",
                     proto->dependency[i]);
    }
}

static void declare_file(struct gen_builder *builder, struct gen_file *file)
{
    struct gen_memory *memory = builder->memory;
    const Google__Protobuf__FileDescriptorProto *proto = file->proto;

    builder->file = file;
    gen_source_init(&builder->source, memory, proto);
    file->name = proto->name ? proto->name : "";
    file->place = (struct gen_place){.file = file->name};
    file->package = proto->package ? proto->package : "";
    file->c_package = file->package;
    if (!check_file_name(builder, file) || !check_package(builder, file, file->package))
        return;
    read_syntax(builder, file, proto->syntax);
    read_imports(builder, file);
    read_file_options(builder, file, proto->options);
    check_package(builder, file, file->c_package);
    if (gen_table_add(&builder->files, file->name, file))
        gen_fail(builder->report, file->place, "was sent twice");

    file->messages = gen_array(memory, proto->n_message_type, sizeof *file->messages);
    for (size_t i = 0; i < proto->n_message_type; i++) {
        gen_path_push(memory, &builder->path, PATH_FILE_MESSAGE, i);
        file->messages[file->n_messages++] =
            declare_message(builder, NULL, file->package, proto->message_type[i]);
        gen_path_pop(&builder->path);
    }
    file->all_messages = gen_array(memory, count_messages(file->messages, file->n_messages),
                                   sizeof *file->all_messages);
    list_messages(file, file->messages, file->n_messages);
    file->enums = gen_array(memory, proto->n_enum_type, sizeof *file->enums);
    for (size_t i = 0; i < proto->n_enum_type; i++) {
        gen_path_push(memory, &builder->path, PATH_FILE_ENUM, i);
        file->enums[file->n_enums++] =
            declare_enum(builder, NULL, file->package, proto->enum_type[i]);
        gen_path_pop(&builder->path);
    }
}

static void resolve_file(struct gen_builder *builder, struct gen_file *file)
{
    const Google__Protobuf__FileDescriptorProto *proto = file->proto;

    builder->file = file;
    gen_source_init(&builder->source, builder->memory, proto);
    for (size_t i = 0; i < file->n_messages; i++) {
        gen_path_push(builder->memory, &builder->path, PATH_FILE_MESSAGE, i);
        gen_resolve_message(builder, file->messages[i], proto->message_type[i]);
        gen_path_pop(&builder->path);
    }
    gen_resolve_extensions(builder, file->package, PATH_FILE_EXTENSION, proto->extension,
                           proto->n_extension);
    gen_resolve_services(builder);
}

static void mark_generated(struct gen_builder *builder,
                           const Google__Protobuf__Compiler__CodeGeneratorRequest *request)
{
    for (size_t i = 0; i < request->n_file_to_generate; i++) {
        struct gen_file *file = gen_table_find(&builder->files, request->file_to_generate[i]);

        if (file)
            file->generated = true;
        else
            gen_fail(builder->report, (struct gen_place){.file = request->file_to_generate[i]},
                     "was asked for, but protoc did not send it");
    }
}

struct gen_model *gen_model_new(const Google__Protobuf__Compiler__CodeGeneratorRequest *request,
                                const struct gen_parameters *parameters, struct gen_report *report)
{
    struct gen_memory *memory = report->memory;
    struct gen_model *model = gen_new(memory, struct gen_model);
    struct gen_builder builder = {.memory = memory,
                                  .report = report,
                                  .model = model,
                                  .symbols.memory = memory,
                                  .files.memory = memory};

    model->files = gen_array(memory, request->n_proto_file, sizeof *model->files);
    for (size_t i = 0; i < request->n_proto_file; i++) {
        struct gen_file *file = gen_new(memory, struct gen_file);

        file->proto = request->proto_file[i];
        model->files[model->n_files++] = file;
        declare_file(&builder, file);
    }
    mark_generated(&builder, request);
    if (report->count > 0)
        return model;
    for (size_t i = 0; i < model->n_files; i++)
        resolve_file(&builder, model->files[i]);
    if (report->count > 0)
        return model;
    for (size_t i = 0; i < model->n_files; i++) {
        for (size_t j = 0; j < model->files[i]->n_messages; j++)
            gen_resolve_rest(&builder, model->files[i]->messages[j],
                             model->files[i]->proto->message_type[j]);
    }
    if (report->count == 0)
        gen_names_assign(model, parameters, report);
    return model;
}
