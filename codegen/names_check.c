/*
 * Finds C names that two things would share: see gen_names_check in names.h.
 *
 * Each file is looked at together with everything that it imports, as those headers meet in one
 * translation unit. The names that must exist are claimed first; then protobuf-c's service code,
 * service by service, which is left out where it finds one of its names taken.
 */
#include "codegen/names.h"
#include "codegen/table.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

/* Who bears a C name. */
struct claim {
    const char *kind; /* "message", "method", ... */
    const char *full_name;
    const struct gen_file *file;
    struct gen_place place;
};

struct check {
    struct gen_memory *memory;
    struct gen_report *report;
    const struct gen_file *file; /* the one that is looked at */
    struct gen_table names;      /* C name -> struct claim */
    struct gen_table told;       /* pairs that were reported */
};

static void report_pair(struct check *check, const char *name, const struct claim *first,
                        const struct claim *second)
{
    struct gen_memory *memory = check->memory;
    const struct claim *here = second->file == check->file ? second : first;
    const struct claim *there = here == second ? first : second;
    char *pair;

    if (here->file != check->file || !here->file->generated)
        return;
    pair = gen_format(memory, "%s %s|%s %s", here->kind, here->full_name, there->kind,
                      there->full_name);
    if (gen_table_add(&check->told, pair, pair))
        return;
    gen_fail(check->report, here->place,
             "%s \"%s\" and %s \"%s\" (%s) would both be named %s in "
             "C",
             here->kind, here->full_name, there->kind, there->full_name,
             gen_place_text(memory, there->place), name);
}

static void claim_name(struct check *check, struct claim *claim, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void claim_name(struct check *check, struct claim *claim, const char *format, ...)
{
    const struct claim *other;
    const char *name;
    va_list arguments;

    va_start(arguments, format);
    name = gen_vformat(check->memory, format, arguments);
    va_end(arguments);
    other = gen_table_add(&check->names, name, claim);
    if (other && other != claim)
        report_pair(check, name, other, claim);
}

static struct claim *new_claim(struct check *check, const char *kind, const char *full_name,
                               const struct gen_file *file, struct gen_place place)
{
    struct claim *claim = gen_new(check->memory, struct claim);

    *claim = (struct claim){kind, full_name, file, place};
    return claim;
}

/* A name that no C file could use. Only what has no package can get one. */
static void check_type(struct check *check, const char *type, const struct claim *claim)
{
    /* Macros and types of the C library, as far as a message name can be spelt like them. */
    static const char *const taken[] = {
        "BUFSIZ", "DIR",  "EDOM",    "EILSEQ", "EOF",    "ERANGE", "FILE",    "INFINITY",
        "NAN",    "NULL", "SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM",
    };

    if (claim->file != check->file || !claim->file->generated)
        return;
    if (type[0] == '\0' || isdigit((unsigned char) type[0]))
        gen_fail(check->report, claim->place,
                 "%s \"%s\" would be named \"%s\", which is no name "
                 "in C; give the file a package",
                 claim->kind, claim->full_name, type);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (strcmp(type, taken[i]) == 0)
            gen_fail(check->report, claim->place,
                     "%s \"%s\" would be named %s, as \"%s\" of the "
                     "C library; give the file a package",
                     claim->kind, claim->full_name, type, taken[i]);
    }
}

static void check_prefix(struct check *check, const char *pekoe_name, const struct claim *claim)
{
    if (claim->file == check->file && claim->file->generated && strncmp(pekoe_name, "pk_", 3) == 0)
        gen_fail(check->report, claim->place,
                 "%s \"%s\": names that begin with pk_ are those of "
                 "the library, so no package can be named pk",
                 claim->kind, claim->full_name);
}

static void claim_enum(struct check *check, const struct gen_enum *enumeration)
{
    struct claim *claim =
        new_claim(check, "enum", enumeration->full_name, enumeration->file, enumeration->place);

    check_type(check, enumeration->c_type, claim);
    claim_name(check, claim, "%s", enumeration->c_type);
    claim_name(check, claim, "%s__descriptor", enumeration->c_lower);
    claim_name(check, claim, "%s__enum_values_by_number", enumeration->c_lower);
    claim_name(check, claim, "%s__enum_values_by_name", enumeration->c_lower);
    claim_name(check, claim, "%s__value_ranges", enumeration->c_lower);
    for (size_t i = 0; i < enumeration->n_values; i++) {
        const struct gen_enum_value *value = &enumeration->values[i];

        claim_name(
            check,
            new_claim(check, "enum value",
                      gen_format(check->memory, "%s.%s", enumeration->full_name, value->name),
                      enumeration->file, value->place),
            "%s", value->c_name);
    }
}

static void claim_fields(struct check *check, const struct gen_message *message)
{
    for (size_t i = 0; i < message->n_oneofs; i++) {
        const struct gen_oneof *oneof = message->oneofs[i];
        struct claim *claim =
            new_claim(check, "oneof", oneof->full_name, message->file, oneof->place);

        claim_name(check, claim, "%s", oneof->c_case_type);
        claim_name(check, claim, "%s", oneof->c_not_set);
    }
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];
        struct claim *claim =
            new_claim(check, "field", field->full_name, message->file, field->place);

        if (field->oneof)
            claim_name(check, claim, "%s", field->c_constant);
        if (!field->initial.present)
            continue;
        claim_name(check, claim, "%s", field->c_default);
        if (field->is_binary)
            claim_name(check, claim, "%s_data", field->c_default);
    }
}

static void claim_message(struct check *check, const struct gen_message *message)
{
    static const char *const functions[] = {
        "init",
        "get_packed_size",
        "pack",
        "pack_to_buffer",
        "unpack",
        "free_unpacked",
        "descriptor",
        "field_descriptors",
        "field_indices_by_name",
        "number_ranges",
    };
    struct claim *claim =
        new_claim(check, "message", message->full_name, message->file, message->place);

    check_type(check, message->c_type, claim);
    check_prefix(check, message->c_pekoe, claim);
    claim_name(check, claim, "%s", message->c_type);
    claim_name(check, claim, "%s_Closure", message->c_type);
    claim_name(check, claim, "%s__INIT", message->c_upper);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        claim_name(check, claim, "%s__%s", message->c_lower, functions[i]);
    for (const char *const *ending = gen_message_endings; *ending; ending++)
        claim_name(check, claim, "%s_%s", message->c_pekoe, *ending);
    claim_fields(check, message);
    for (size_t i = 0; i < message->n_enums; i++)
        claim_enum(check, message->enums[i]);
    for (size_t i = 0; i < message->n_messages; i++)
        claim_message(check, message->messages[i]);
}

static void claim_service(struct check *check, const struct gen_service *service)
{
    struct claim *claim =
        new_claim(check, "service", service->full_name, service->file, service->place);

    check_type(check, service->c_type, claim);
    check_prefix(check, service->c_pekoe, claim);
    for (const char *const *ending = gen_service_endings; *ending; ending++)
        claim_name(check, claim, "%s_%s", service->c_pekoe, *ending);
    for (size_t i = 0; i < service->n_methods; i++) {
        const struct gen_method *method = service->methods[i];

        claim_name(check,
                   new_claim(check, "method", method->full_name, service->file, method->place),
                   "%s", method->c_function);
    }
}

static void claim_file(struct check *check, const struct gen_file *file, struct gen_table *seen)
{
    if (gen_table_add(seen, file->name, (void *) file))
        return;
    for (size_t i = 0; i < file->n_imports; i++)
        claim_file(check, file->imports[i], seen);
    for (size_t i = 0; i < file->n_enums; i++)
        claim_enum(check, file->enums[i]);
    for (size_t i = 0; i < file->n_messages; i++)
        claim_message(check, file->messages[i]);
    for (size_t i = 0; i < file->n_services; i++)
        claim_service(check, file->services[i]);
}

/* The names of protobuf-c's code for a service. All of them are free, or none is taken. */
static void decide_protobuf_c(struct check *check, struct gen_service *service)
{
    struct gen_memory *memory = check->memory;
    struct claim *claim =
        new_claim(check, "service", service->full_name, service->file, service->place);
    size_t count = 0;
    const char **names = gen_array(memory, service->n_methods + 8, sizeof *names);
    struct gen_table own = {.memory = memory};

    names[count++] = gen_format(memory, "%s_Service", service->c_type);
    names[count++] = gen_format(memory, "%s_ServiceDestroy", service->c_type);
    names[count++] = gen_format(memory, "%s__init", service->c_lower);
    names[count++] = gen_format(memory, "%s__descriptor", service->c_lower);
    names[count++] = gen_format(memory, "%s__method_descriptors", service->c_lower);
    names[count++] = gen_format(memory, "%s__method_indices_by_name", service->c_lower);
    names[count++] = gen_format(memory, "%s__INIT", service->c_upper);
    names[count++] = gen_format(memory, "%s__BASE_INIT", service->c_upper);
    for (size_t i = 0; i < service->n_methods; i++)
        names[count++] =
            gen_format(memory, "%s__%s", service->c_lower, service->methods[i]->c_name);
    service->protobuf_c = true;
    for (size_t i = 0; i < count; i++) {
        if (gen_table_add(&own, names[i], claim) || gen_table_find(&check->names, names[i]))
            service->protobuf_c = false;
    }
    for (size_t i = 0; service->protobuf_c && i < count; i++)
        gen_table_add(&check->names, names[i], claim);
}

static void check_file(struct gen_file *file, struct gen_report *report)
{
    struct gen_memory memory = {0};
    struct check check = {.memory = &memory,
                          .report = report,
                          .file = file,
                          .names.memory = &memory,
                          .told.memory = &memory};
    struct gen_table seen = {.memory = &memory};

    claim_file(&check, file, &seen);
    for (size_t i = 0; i < file->n_services; i++)
        decide_protobuf_c(&check, file->services[i]);
    gen_memory_done(&memory);
}

void gen_names_check(struct gen_model *model, const struct gen_parameters *parameters,
                     struct gen_report *report)
{
    (void) parameters;
    for (size_t i = 0; i < model->n_files; i++)
        check_file(model->files[i], report);
}
