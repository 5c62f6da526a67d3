/*
 * Makes every generated name: see names.h. Collisions between names that are not members of one
 * struct are found in names_check.c.
 */
#include "codegen/names.h"

#include "codegen/table.h"

#include <ctype.h>
#include <string.h>

/* protoc-gen-c's own list; sorted by hand, searched from front to back. */
static const char *const escaped_by_protobuf_c[] = {
    "and",         "and_eq",    "asm",          "auto",     "bitand",  "bitor",
    "bool",        "break",     "case",         "catch",    "char",    "class",
    "compl",       "const",     "const_cast",   "continue", "default", "delete",
    "do",          "double",    "dynamic_cast", "else",     "enum",    "explicit",
    "extern",      "false",     "float",        "for",      "friend",  "goto",
    "if",          "inline",    "int",          "long",     "mutable", "namespace",
    "new",         "not",       "not_eq",       "operator", "or",      "or_eq",
    "private",     "protected", "public",       "register", "return",  "short",
    "signed",      "sizeof",    "static",       "struct",   "switch",  "template",
    "this",        "throw",     "true",         "try",      "typedef", "typeid",
    "typename",    "union",     "unsigned",     "using",    "virtual", "void",
    "volatile",    "wchar_t",   "while",        "xor",      "xor_eq",  "reinterpret_cast",
    "static_cast",
};

/*
 * What else does not compile as a member: C99's restrict; keywords of C23 and of C++11 to 20; GNU
 * C's typeof; macros that gcc predefines for its default dialect; errno, a macro of every libc.
 */
static const char *const escaped_by_pekoe[] = {
    "alignas",       "alignof",  "char16_t", "char32_t",      "char8_t",      "co_await",
    "co_return",     "co_yield", "concept",  "consteval",     "constexpr",    "constinit",
    "decltype",      "errno",    "export",   "i386",          "linux",        "noexcept",
    "nullptr",       "requires", "restrict", "static_assert", "thread_local", "typeof",
    "typeof_unqual", "unix",
};

const char *const gen_message_endings[] = {"done", "new", "read", "type", "write", NULL};
const char *const gen_service_endings[] = {"impl", "methods", "route", "serve", "service", NULL};

static bool is_listed(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0)
            return true;
    }
    return false;
}

#define IS_LISTED(name, list) is_listed(name, list, sizeof(list) / sizeof((list)[0]))

static void append(struct gen_text *text, char letter)
{
    gen_text_append(text, &letter, 1);
}

/* "foo_bar" to "FooBar"; a capital stays one. */
static void append_camel(struct gen_text *text, const char *piece, size_t length)
{
    bool upper = true;

    for (size_t i = 0; i < length; i++) {
        if (piece[i] == '_') {
            upper = true;
            continue;
        }
        append(text, upper ? (char) toupper((unsigned char) piece[i]) : piece[i]);
        upper = false;
    }
}

/* "FooBar" to "foo_bar", in the case that `change` makes. */
static void append_words(struct gen_text *text, const char *piece, size_t length,
                         int (*change)(int))
{
    bool was_upper = true; /* no '_' in front */

    for (size_t i = 0; i < length; i++) {
        bool is_upper = isupper((unsigned char) piece[i]) != 0;

        if (is_upper && !was_upper)
            append(text, '_');
        append(text, (char) change((unsigned char) piece[i]));
        was_upper = is_upper;
    }
}

static void append_lower(struct gen_text *text, const char *piece, size_t length)
{
    append_words(text, piece, length, tolower);
}

static void append_upper(struct gen_text *text, const char *piece, size_t length)
{
    append_words(text, piece, length, toupper);
}

static const char *spell(struct gen_memory *memory, const char *full_name, const char *separator,
                         void (*append_piece)(struct gen_text *, const char *, size_t))
{
    struct gen_text text = {0};
    const char *result;

    while (*full_name) {
        size_t length = strcspn(full_name, ".");

        if (length > 0) {
            if (text.length > 0)
                gen_text_append(&text, separator, strlen(separator));
            append_piece(&text, full_name, length);
        }
        full_name += length + (full_name[length] == '.');
    }
    result = gen_strndup(memory, text.length > 0 ? text.data : "", text.length);
    gen_text_done(&text);
    return result;
}

const char *gen_name_type(struct gen_memory *memory, const char *full_name)
{
    return spell(memory, full_name, "__", append_camel);
}

const char *gen_name_lower(struct gen_memory *memory, const char *full_name)
{
    return spell(memory, full_name, "__", append_lower);
}

const char *gen_name_upper(struct gen_memory *memory, const char *full_name)
{
    return spell(memory, full_name, "__", append_upper);
}

const char *gen_name_pekoe(struct gen_memory *memory, const char *full_name)
{
    return spell(memory, full_name, "_", append_lower);
}

const char *gen_name_member(struct gen_memory *memory, const char *name, bool messages)
{
    if (IS_LISTED(name, escaped_by_protobuf_c) || (messages && IS_LISTED(name, escaped_by_pekoe)))
        return gen_format(memory, "%s_", name);
    return name;
}

const char *gen_name_stem(struct gen_memory *memory, const char *file_name)
{
    static const char *const endings[] = {".protodevel", ".proto"};
    size_t length = strlen(file_name);

    for (size_t i = 0; i < 2; i++) {
        size_t ending = strlen(endings[i]);

        if (length >= ending && strcmp(file_name + length - ending, endings[i]) == 0)
            return gen_strndup(memory, file_name, length - ending);
    }
    return file_name;
}

const char *gen_name_identifier(struct gen_memory *memory, const char *file_name)
{
    struct gen_text text = {0};
    const char *result;

    for (; *file_name; file_name++) {
        unsigned char letter = (unsigned char) *file_name;

        if (letter < 0x80 && isalnum(letter)) {
            append(&text, (char) letter);
        } else {
            static const char digits[] = "0123456789abcdef";
            const char escape[3] = {'_', digits[letter >> 4], digits[letter & 15]};

            /* As protoc-gen-c, which leaves out a leading zero. */
            append(&text, escape[0]);
            if (letter >> 4)
                append(&text, escape[1]);
            append(&text, escape[2]);
        }
    }
    result = gen_strndup(memory, text.length > 0 ? text.data : "", text.length);
    gen_text_done(&text);
    return result;
}

const char *gen_name_include(struct gen_memory *memory, const struct gen_file *file,
                             const struct gen_file *import, const char *ending)
{
    size_t folder = strcspn(file->c_stem, "/");
    bool quotes =
        file->c_stem[folder] == '\0' || strncmp(file->c_stem, import->c_stem, folder + 1) == 0;

    return gen_format(memory, quotes ? "\"%s%s\"" : "<%s%s>", import->c_stem, ending);
}

static const char *lower_case(struct gen_memory *memory, const char *name)
{
    char *lower = gen_strdup(memory, name);

    for (char *at = lower; *at; at++)
        *at = (char) tolower((unsigned char) *at);
    return lower;
}

/* What C names are made of: the full name, with protobuf-c's c_package for the package. */
static const char *spelt_name(struct gen_memory *memory, const struct gen_file *file,
                              const char *full_name)
{
    size_t length = strlen(file->package);

    if (strcmp(file->package, file->c_package) == 0)
        return full_name;
    if (length > 0)
        full_name += length + 1;
    return gen_format(memory, "%s.%s", file->c_package, full_name);
}

static void set_derived(struct gen_memory *memory, struct gen_field *field)
{
    field->c_has = field->presence == GEN_HAS ? gen_format(memory, "has_%s", field->c_name) : NULL;
    field->c_count =
        field->presence == GEN_REPEATED ? gen_format(memory, "n_%s", field->c_name) : NULL;
}

/* What stands in a struct, and whether the user or the generator named it. */
struct member {
    const struct gen_field *field; /* NULL: of a oneof, or the base */
    const struct gen_oneof *oneof;
    bool explicit;
};

static const struct member *add_member(struct gen_table *members, const char *name,
                                       struct member member)
{
    struct member *added = gen_new(members->memory, struct member);

    *added = member;
    return name ? gen_table_add(members, name, added) : NULL;
}

static void add_implicit(struct gen_table *members, const struct gen_message *message)
{
    add_member(members, message->c_base, (struct member){0});
    for (size_t i = 0; i < message->n_oneofs; i++)
        add_member(members, message->oneofs[i]->c_case,
                   (struct member){.oneof = message->oneofs[i]});
    for (size_t i = 0; i < message->n_fields; i++) {
        add_member(members, message->fields[i]->c_has,
                   (struct member){.field = message->fields[i]});
        add_member(members, message->fields[i]->c_count,
                   (struct member){.field = message->fields[i]});
    }
}

/* Fields whose name the generator needs itself move out of the way. */
static void move_aside(struct gen_memory *memory, struct gen_message *message)
{
    bool again = true;

    /* A moved field's own n_ or has_ moves with it and may hit another one: settle in rounds. */
    for (unsigned round = 0; again && round < 4; round++) {
        struct gen_table members = {.memory = memory};

        again = false;
        add_implicit(&members, message);
        for (size_t i = 0; i < message->n_fields; i++) {
            struct gen_field *field = message->fields[i];

            if (!gen_table_find(&members, field->c_name))
                continue;
            field->c_name = gen_format(memory, "%s_", field->c_name);
            set_derived(memory, field);
            again = true;
        }
    }
}

static const char *describe(struct gen_memory *memory, const struct gen_message *message,
                            const struct member *member)
{
    if (member->field && member->explicit)
        return gen_format(memory, "field \"%s\"", member->field->full_name);
    if (member->field)
        return gen_format(memory, "the %s of field \"%s\"",
                          member->field->c_has ? "presence flag" : "count",
                          member->field->full_name);
    if (member->oneof)
        return gen_format(memory, "the case of oneof \"%s\"", member->oneof->full_name);
    return gen_format(memory, "the base of message \"%s\"", message->full_name);
}

static void check_members(struct gen_message *message, struct gen_report *report)
{
    struct gen_memory *memory = report->memory;
    struct gen_table members = {.memory = memory};

    add_implicit(&members, message);
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct gen_field *field = message->fields[i];
        const struct member mine = {.field = field, .explicit = true};
        const struct member *other = add_member(&members, field->c_name, mine);

        if (other)
            gen_fail(report, field->place, "%s and %s would both be the member %s of struct %s",
                     describe(memory, message, &mine), describe(memory, message, other),
                     field->c_name, message->c_type);
    }
}

static void name_field(struct gen_memory *memory, struct gen_field *field, bool messages)
{
    field->c_name = gen_name_member(memory, lower_case(memory, field->name), messages);
    set_derived(memory, field);
    field->c_default = gen_format(memory, "%s__%s__default_value", field->parent->c_lower,
                                  gen_name_lower(memory, field->name));
    if (field->oneof)
        field->c_constant = gen_format(memory, "%s__%s_%s", field->parent->c_upper,
                                       gen_name_upper(memory, field->oneof->name),
                                       gen_name_upper(memory, field->name));
}

static void name_oneof(struct gen_memory *memory, struct gen_oneof *oneof)
{
    const struct gen_message *parent = oneof->parent;
    const char *upper = gen_name_upper(memory, oneof->name);

    oneof->c_name = gen_name_lower(memory, oneof->name);
    oneof->c_case = gen_format(memory, "%s_case", oneof->c_name);
    oneof->c_case_type =
        gen_format(memory, "%s__%sCase", parent->c_type, gen_name_type(memory, oneof->name));
    oneof->c_not_set = gen_format(memory, "%s__%s__NOT_SET", parent->c_upper, upper);
    oneof->c_case_upper = gen_format(memory, "%s__%s__CASE", parent->c_upper, upper);
}

static void name_enum(struct gen_memory *memory, struct gen_enum *enumeration)
{
    const char *spelt = spelt_name(memory, enumeration->file, enumeration->full_name);

    enumeration->c_type = gen_name_type(memory, spelt);
    enumeration->c_lower = gen_name_lower(memory, spelt);
    enumeration->c_upper = gen_name_upper(memory, spelt);
    for (size_t i = 0; i < enumeration->n_values; i++)
        enumeration->values[i].c_name =
            gen_format(memory, "%s__%s", enumeration->c_upper, enumeration->values[i].name);
}

static void name_message(struct gen_message *message, bool messages, struct gen_report *report)
{
    struct gen_memory *memory = report->memory;
    const char *spelt = spelt_name(memory, message->file, message->full_name);

    message->c_type = gen_name_type(memory, spelt);
    message->c_lower = gen_name_lower(memory, spelt);
    message->c_upper = gen_name_upper(memory, spelt);
    message->c_pekoe = gen_name_pekoe(memory, spelt);
    message->c_short = gen_name_type(memory, message->name);
    for (size_t i = 0; i < message->n_oneofs; i++)
        name_oneof(memory, message->oneofs[i]);
    for (size_t i = 0; i < message->n_fields; i++)
        name_field(memory, message->fields[i], messages);
    if (messages)
        move_aside(memory, message);
    check_members(message, report);
    for (size_t i = 0; i < message->n_enums; i++)
        name_enum(memory, message->enums[i]);
    for (size_t i = 0; i < message->n_messages; i++)
        name_message(message->messages[i], messages, report);
}

static bool is_own_ending(const char *const *endings, const char *name)
{
    for (; *endings; endings++) {
        if (strcmp(*endings, name) == 0)
            return true;
    }
    return false;
}

static void name_service(struct gen_memory *memory, struct gen_service *service)
{
    const char *spelt = spelt_name(memory, service->file, service->full_name);

    service->c_type = gen_name_type(memory, spelt);
    service->c_lower = gen_name_lower(memory, spelt);
    service->c_upper = gen_name_upper(memory, spelt);
    service->c_pekoe = gen_name_pekoe(memory, spelt);
    for (size_t i = 0; i < service->n_methods; i++) {
        struct gen_method *method = service->methods[i];

        method->c_name = gen_name_lower(memory, method->name);
        method->c_member = gen_name_member(memory, method->c_name, true);
        if (strcmp(method->c_member, "base") == 0)
            method->c_member = "base_";
        method->c_function =
            gen_format(memory, "%s_%s%s", service->c_pekoe, method->c_name,
                       is_own_ending(gen_service_endings, method->c_name) ? "_" : "");
    }
}

void gen_names_assign(struct gen_model *model, const struct gen_parameters *parameters,
                      struct gen_report *report)
{
    struct gen_memory *memory = report->memory;

    for (size_t i = 0; i < model->n_files; i++) {
        struct gen_file *file = model->files[i];

        file->c_stem = gen_name_stem(memory, file->name);
        file->c_identifier = gen_name_identifier(memory, file->name);
        for (size_t j = 0; j < file->n_messages; j++)
            name_message(file->messages[j], parameters->messages, report);
        for (size_t j = 0; j < file->n_enums; j++)
            name_enum(memory, file->enums[j]);
        for (size_t j = 0; j < file->n_services; j++)
            name_service(memory, file->services[j]);
    }
}
