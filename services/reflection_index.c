/* What descriptors declare, sorted to be looked up: see reflection_index.h. */
#include "services/reflection_index.h"

#include <google/protobuf/descriptor.pb-c.h>

#include <stdlib.h>
#include <string.h>

/* What is gathered of one file after the other; arrays double, and move, in the arena. */
struct builder {
    pk_reflection_index *index;
    size_t symbol_capacity, extension_capacity;
    const pk_described_file *file; /* the one that is walked */
};

void pk_reflection_index_init(pk_reflection_index *index, pk_memory *memory)
{
    *index = (pk_reflection_index){.file_count = 0};
    pk_arena_init(&index->arena, memory, 0);
}

void pk_reflection_index_done(pk_reflection_index *index)
{
    pk_arena_done(&index->arena);
}

/* ---- One file ---- */

/* Twice the array, once it is full. What is scratch is seen at the end of the build. */
static void *grown(pk_arena *arena, void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity ? 2 * *capacity : 64;
    void *larger = pk_arena_try(arena, *capacity * size);
    if (!larger) {
        arena->exhausted = true;
        *capacity = count;
        return NULL;
    }
    if (count > 0)
        memcpy(larger, array, count * size);
    return larger;
}

/* "scope.name" in the index; NULL without memory. */
static const char *full_name(struct builder *b, const char *scope, const char *name)
{
    pk_arena *arena = &b->index->arena;
    return scope[0] ? pk_arena_printf(arena, "%s.%s", scope, name)
                    : pk_arena_copy(arena, name, strlen(name));
}

/* Notes that the file declares a name, and returns its full name. */
static const char *declare(struct builder *b, const char *scope, const char *name, bool message)
{
    pk_reflection_index *index = b->index;
    const char *full = full_name(b, scope, name);
    void *symbols = grown(&index->arena, index->symbols, index->symbol_count, &b->symbol_capacity,
                          sizeof *index->symbols);
    if (!symbols || index->arena.exhausted)
        return "";
    index->symbols = symbols;
    index->symbols[index->symbol_count++] = (pk_described_symbol){full, b->file, message};
    return full;
}

static void declare_extension(struct builder *b, const char *scope,
                              const Google__Protobuf__FieldDescriptorProto *field)
{
    pk_reflection_index *index = b->index;
    declare(b, scope, field->name, false);
    /* protoc resolves names: they begin with a dot. */
    const char *extendee = field->extendee[0] == '.' ? field->extendee + 1 : field->extendee;
    void *extensions = grown(&index->arena, index->extensions, index->extension_count,
                             &b->extension_capacity, sizeof *index->extensions);
    const char *copy = pk_arena_copy(&index->arena, extendee, strlen(extendee));
    if (!extensions || index->arena.exhausted)
        return;
    index->extensions = extensions;
    index->extensions[index->extension_count++] =
        (pk_described_extension){copy, field->number, b->file};
}

/* The values of an enum are named in the scope of the enum itself, as in C. */
static void declare_enum(struct builder *b, const char *scope,
                         const Google__Protobuf__EnumDescriptorProto *type)
{
    declare(b, scope, type->name, false);
    for (size_t i = 0; i < type->n_value; i++)
        declare(b, scope, type->value[i]->name, false);
}

static void declare_message(struct builder *b, const char *scope,
                            const Google__Protobuf__DescriptorProto *type)
{
    const char *name = declare(b, scope, type->name, true);
    for (size_t i = 0; i < type->n_field; i++)
        declare(b, name, type->field[i]->name, false);
    for (size_t i = 0; i < type->n_oneof_decl; i++)
        declare(b, name, type->oneof_decl[i]->name, false);
    for (size_t i = 0; i < type->n_enum_type; i++)
        declare_enum(b, name, type->enum_type[i]);
    for (size_t i = 0; i < type->n_extension; i++)
        declare_extension(b, name, type->extension[i]);
    for (size_t i = 0; i < type->n_nested_type; i++)
        declare_message(b, name, type->nested_type[i]);
}

static void declare_file(struct builder *b, const Google__Protobuf__FileDescriptorProto *file)
{
    const char *scope = file->package ? file->package : "";
    for (size_t i = 0; i < file->n_message_type; i++)
        declare_message(b, scope, file->message_type[i]);
    for (size_t i = 0; i < file->n_enum_type; i++)
        declare_enum(b, scope, file->enum_type[i]);
    for (size_t i = 0; i < file->n_extension; i++)
        declare_extension(b, scope, file->extension[i]);
    for (size_t i = 0; i < file->n_service; i++) {
        const Google__Protobuf__ServiceDescriptorProto *service = file->service[i];
        const char *name = declare(b, scope, service->name, false);
        for (size_t j = 0; j < service->n_method; j++)
            declare(b, name, service->method[j]->name, false);
    }
}

/* ---- All files ---- */

static pk_described_file *find_file(const pk_reflection_index *index, const char *name)
{
    for (size_t i = 0; i < index->file_count; i++) {
        if (strcmp(index->files[i].file->name, name) == 0)
            return &index->files[i];
    }
    return NULL;
}

/* The files of all services, each once: every generated source carries its own copies. */
static int gather_files(pk_reflection_index *index, const pk_router *router)
{
    size_t most = 0;
    const pk_service *service;
    for (size_t i = 0; (service = pk_router_service(router, i)); i++)
        most += service->file_count;
    index->files = pk_arena_try(&index->arena, (most ? most : 1) * sizeof *index->files);
    if (!index->files)
        return PK_ERR_NOMEM;
    for (size_t i = 0; (service = pk_router_service(router, i)); i++) {
        for (size_t j = 0; j < service->file_count; j++) {
            size_t place = index->file_count;
            if (find_file(index, service->files[j]->name))
                continue;
            index->files[place] = (pk_described_file){.file = service->files[j], .place = place};
            index->file_count++;
        }
        index->service_count++;
    }
    return 0;
}

/* Files that are imported and not here are left out. */
static int gather_imports(pk_reflection_index *index, pk_described_file *file,
                          const Google__Protobuf__FileDescriptorProto *proto)
{
    size_t count = proto->n_dependency;
    file->imports = pk_arena_try(&index->arena, (count ? count : 1) * sizeof *file->imports);
    if (!file->imports)
        return PK_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const pk_described_file *import = find_file(index, proto->dependency[i]);
        if (import)
            file->imports[file->import_count++] = import;
    }
    return 0;
}

static int read_file(struct builder *b, pk_described_file *file)
{
    Google__Protobuf__FileDescriptorProto *proto = google__protobuf__file_descriptor_proto__unpack(
        NULL, file->file->length, file->file->bytes);
    if (!proto)
        return PK_ERR_MALFORMED;
    b->file = file;
    int r = gather_imports(b->index, file, proto);
    declare_file(b, proto);
    google__protobuf__file_descriptor_proto__free_unpacked(proto, NULL);
    return r;
}

static int compare_symbols(const void *left, const void *right)
{
    return strcmp(((const pk_described_symbol *) left)->name,
                  ((const pk_described_symbol *) right)->name);
}

static int compare_extensions(const void *left, const void *right)
{
    const pk_described_extension *a = left, *b = right;
    int order = strcmp(a->extendee, b->extendee);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

int pk_reflection_index_build(pk_reflection_index *index, const pk_router *router)
{
    pk_memory *memory = index->arena.memory;
    pk_reflection_index_done(index);
    pk_reflection_index_init(index, memory);
    struct builder b = {.index = index};
    int r = gather_files(index, router);
    for (size_t i = 0; r == 0 && i < index->file_count; i++)
        r = read_file(&b, &index->files[i]);
    if (r == 0 && index->arena.exhausted)
        r = PK_ERR_NOMEM;
    if (r < 0) {
        pk_reflection_index_done(index);
        pk_reflection_index_init(index, memory);
        return r;
    }
    if (index->symbol_count > 0)
        qsort(index->symbols, index->symbol_count, sizeof *index->symbols, compare_symbols);
    if (index->extension_count > 0)
        qsort(index->extensions, index->extension_count, sizeof *index->extensions,
              compare_extensions);
    return 0;
}

/* ---- Looking up ---- */

const pk_described_file *pk_reflection_file(const pk_reflection_index *index, const char *name)
{
    return find_file(index, name);
}

const pk_described_symbol *pk_reflection_symbol(const pk_reflection_index *index, const char *name)
{
    const pk_described_symbol wanted = {.name = name};
    if (index->symbol_count == 0)
        return NULL;
    return bsearch(&wanted, index->symbols, index->symbol_count, sizeof wanted, compare_symbols);
}

const pk_described_extension *pk_reflection_extensions(const pk_reflection_index *index,
                                                       const char *extendee, size_t *ret_count)
{
    size_t first = 0, count = 0;
    while (first < index->extension_count &&
           strcmp(index->extensions[first].extendee, extendee) != 0)
        first++;
    while (first + count < index->extension_count &&
           strcmp(index->extensions[first + count].extendee, extendee) == 0)
        count++;
    *ret_count = count;
    return count ? &index->extensions[first] : NULL;
}
