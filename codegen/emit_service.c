/*
 * Services: the impl table that a user fills, its functions that put it into a server or router,
 * the client's functions, the method rows, and the file descriptors for reflection. Part of x.pekoe.h and x.pekoe.c.
 */
#include "codegen/emit_fields.h"
#include "codegen/table.h"

#include <string.h>

static const char *style_of(const struct gen_method *method)
{
    if (method->client_streaming)
        return method->server_streaming ? "BIDI_STREAMING" : "CLIENT_STREAMING";
    return method->server_streaming ? "SERVER_STREAMING" : "UNARY";
}

static const char *serve_of(const struct gen_method *method)
{
    return method->client_streaming || method->server_streaming ? "pk_serve_streaming"
                                                                : "pk_serve_unary";
}

static void set_method(struct gen_printer *out, const struct gen_method *method)
{
    gen_set(out, "method", method->c_name);
    gen_set(out, "member", method->c_member);
    gen_set(out, "path", method->path);
    gen_set_number(out, "path_length", (long long) strlen(method->path));
    gen_set(out, "input", method->input->c_type);
    gen_set(out, "input_pekoe", method->input->c_pekoe);
    gen_set(out, "output_pekoe", method->output->c_pekoe);
    gen_set(out, "style", style_of(method));
    gen_set(out, "serve", serve_of(method));
}

/* ---- x.pekoe.h ---- */

static void write_member(struct gen_printer *out, const struct gen_method *method)
{
    set_method(out, method);
    gen_write_comment(out, method->comment.leading);
    if (method->client_streaming && method->server_streaming)
        gen_print(out, "pk_future (*$member$)(void *self, pk_call *call, pk_reader *in, "
                       "pk_writer *out);\n");
    else if (method->client_streaming)
        gen_print(out, "pk_future (*$member$)(void *self, pk_call *call, pk_reader *in);\n");
    else if (method->server_streaming)
        gen_print(out, "pk_future (*$member$)(void *self, pk_call *call, const $input$ *request, "
                       "pk_writer *out);\n");
    else
        gen_print(out, "pk_future (*$member$)(void *self, pk_call *call, "
                       "const $input$ *request);\n");
}

/* The client's function of a method, up to its last parenthesis. */
static void write_stub_head(struct gen_printer *out, const struct gen_method *method)
{
    set_method(out, method);
    gen_print(out,
              "$kind$$function$(pk_channel *channel,\n    $request$$out$const pk_call_opts *opts)",
              "function", method->c_function, "kind",
              method->server_streaming ? "pk_reader *" : "pk_future ", "request",
              method->client_streaming
                  ? ""
                  : gen_format(out->memory, "const %s *request, ", method->input->c_type),
              "out", method->client_streaming ? "pk_writer **ret_out, " : "");
}

static void write_stub_declaration(struct gen_printer *out, const struct gen_method *method)
{
    gen_write(out, "\n");
    gen_write_comment(out, method->comment.leading);
    gen_write(out, "PK_NODISCARD ");
    write_stub_head(out, method);
    gen_write(out, ";\n");
}

static void write_service_header(struct gen_printer *out, const struct gen_service *service)
{
    gen_set(out, "service", service->c_pekoe);
    gen_set(out, "full", service->full_name);
    gen_print(out, "\n"
                   "/* ---- service $full$ ---- */\n"
                   "\n"
                   "/* What serves it; a member that is NULL answers UNIMPLEMENTED. */\n"
                   "typedef struct $service$_impl {\n");
    gen_indent(out);
    for (size_t i = 0; i < service->n_methods; i++)
        write_member(out, service->methods[i]);
    if (service->n_methods == 0)
        gen_write(out, "char empty; /* the service has no method */\n");
    gen_outdent(out);
    gen_print(
        out, "} $service$_impl;\n"
             "\n"
             "extern const pk_service $service$_service;\n"
             "\n"
             "/* Has the router serve it: see pk_router_add for what is borrowed and returned. */\n"
             "PK_NODISCARD static inline int $service$_route(pk_router *router,\n"
             "    const $service$_impl *impl, void *self)\n"
             "{\n"
             "    return pk_router_add(router, &$service$_service, impl, self);\n"
             "}\n"
             "\n"
             "/* Has the server serve it. */\n"
             "PK_NODISCARD static inline int $service$_serve(pk_server *server,\n"
             "    const $service$_impl *impl, void *self)\n"
             "{\n"
             "    return pk_router_add(pk_server_router(server), &$service$_service, impl, self);\n"
             "}\n");
    for (size_t i = 0; i < service->n_methods; i++)
        write_stub_declaration(out, service->methods[i]);
}

void gen_emit_service_header(struct gen_run *run, const struct gen_file *file,
                             struct gen_printer *out)
{
    for (size_t i = 0; i < file->n_services; i++)
        write_service_header(out, file->services[i]);
}

/* ---- x.pekoe.c ---- */

static void write_invoke(struct gen_printer *out, const struct gen_method *method)
{
    set_method(out, method);
    gen_print(out, "\n"
                   "static pk_future invoke_$service$_$method$(const void *impl, void *self, "
                   "pk_call *call,\n"
                   "    const void *request, pk_reader *in, pk_writer *out)\n"
                   "{\n"
                   "    const $service$_impl *table = (const $service$_impl *) impl;\n"
                   "\n");
    if (method->client_streaming)
        gen_write(out, "    (void) request;\n");
    else
        gen_write(out, "    (void) in;\n");
    if (!method->server_streaming)
        gen_write(out, "    (void) out;\n");
    gen_print(out, "    if (!table->$member$)\n"
                   "        return pk_unimplemented(call);\n");
    gen_print(out, "    return table->$member$(self, call$request$$in$$out$);\n", "request",
              method->client_streaming
                  ? ""
                  : gen_format(out->memory, ", (const %s *) request", method->input->c_type),
              "in", method->client_streaming ? ", in" : "", "out",
              method->server_streaming ? ", out" : "");
    gen_write(out, "}\n");
}

static void write_row(struct gen_printer *out, const struct gen_method *method)
{
    set_method(out, method);
    gen_print(out,
              "{\n"
              "    .path = \"$path$\",\n"
              "    .path_length = $path_length$,\n"
              "    .request = &$input_type$,\n"
              "    .reply = &$output_type$,\n"
              "    .invoke = invoke_$service$_$method$,\n"
              "    .serve = $serve$,\n"
              "    .style = PK_$style$,\n"
              "},\n",
              "input_type", gen_type_table(out->memory, method->input, method->service->file),
              "output_type", gen_type_table(out->memory, method->output, method->service->file));
}

static const char *call_of(const struct gen_method *method)
{
    if (method->client_streaming)
        return method->server_streaming ? "bidi_streaming" : "client_streaming";
    return method->server_streaming ? "server_streaming" : "unary";
}

static void write_stub(struct gen_printer *out, const struct gen_method *method, size_t index)
{
    gen_write(out, "\n");
    write_stub_head(out, method);
    gen_set_number(out, "index", (long long) index);
    gen_print(out,
              "\n{\n"
              "    return pk_call_$call$(channel, &$service$_methods[$index$]$arguments$, opts);\n"
              "}\n",
              "call", call_of(method), "arguments",
              method->client_streaming ? ", ret_out" : ", request");
}

static void write_service_source(struct gen_printer *out, const struct gen_file *file,
                                 const struct gen_service *service)
{
    gen_set(out, "service", service->c_pekoe);
    gen_set(out, "full", service->full_name);
    gen_set(out, "identifier", file->c_identifier);
    gen_set_number(out, "n_methods", (long long) service->n_methods);
    for (size_t i = 0; i < service->n_methods; i++)
        write_invoke(out, service->methods[i]);
    if (service->n_methods > 0) {
        gen_print(out, "\nstatic const pk_method $service$_methods[] = {\n");
        gen_indent(out);
        for (size_t i = 0; i < service->n_methods; i++)
            write_row(out, service->methods[i]);
        gen_outdent(out);
        gen_write(out, "};\n");
    }
    gen_print(out,
              "\nconst pk_service $service$_service = {\n"
              "    .name = \"$full$\",\n"
              "    .methods = $methods$,\n"
              "    .method_count = $n_methods$,\n"
              "    .files = files_of_$identifier$,\n"
              "    .file_count = sizeof files_of_$identifier$ / sizeof files_of_$identifier$[0],\n"
              "};\n",
              "methods",
              service->n_methods > 0 ? gen_format(out->memory, "%s_methods", service->c_pekoe)
                                     : "NULL");
    for (size_t i = 0; i < service->n_methods; i++)
        write_stub(out, service->methods[i], i);
}

/* ---- File descriptors ---- */

/* The serialized descriptor without source code info: comments are of no use to reflection. */
static void write_descriptor(struct gen_printer *out, const struct gen_file *file, size_t index)
{
    Google__Protobuf__FileDescriptorProto proto = *file->proto;
    proto.source_code_info = NULL;
    size_t length = google__protobuf__file_descriptor_proto__get_packed_size(&proto);
    uint8_t *bytes = gen_array(out->memory, length + 1, 1);
    google__protobuf__file_descriptor_proto__pack(&proto, bytes);
    gen_printf(out, "\n/* %s */\nstatic const uint8_t descriptor_%zu[] = {", file->name, index);
    for (size_t i = 0; i < length; i++)
        gen_printf(out, "%s%u,", i % 20 == 0 ? "\n    " : "", bytes[i]);
    gen_printf(out,
               "\n};\nstatic const pk_file file_%zu = {\"%s\", descriptor_%zu, "
               "sizeof descriptor_%zu};\n",
               index, file->name, index, index);
}

/* Imports before importers, each once. */
static void collect(const struct gen_file *file, const struct gen_file **files, size_t *n_files)
{
    for (size_t i = 0; i < *n_files; i++) {
        if (files[i] == file)
            return;
    }
    for (size_t i = 0; i < file->n_imports; i++)
        collect(file->imports[i], files, n_files);
    for (size_t i = 0; i < *n_files; i++) {
        if (files[i] == file)
            return;
    }
    files[(*n_files)++] = file;
}

static void write_files(struct gen_run *run, const struct gen_file *file, struct gen_printer *out)
{
    const struct gen_file **files = gen_array(run->memory, run->model->n_files, sizeof *files);
    size_t n_files = 0;
    collect(file, files, &n_files);
    for (size_t i = 0; i < n_files; i++)
        write_descriptor(out, files[i], i);
    gen_print(out, "\nstatic const pk_file *const files_of_$identifier$[] = {\n", "identifier",
              file->c_identifier);
    for (size_t i = 0; i < n_files; i++)
        gen_printf(out, "    &file_%zu,\n", i);
    gen_write(out, "};\n");
}

static void include_once(const struct gen_file *file, const struct gen_file *other,
                         struct gen_table *seen, struct gen_printer *out)
{
    if (other != file && !gen_table_add(seen, other->name, (void *) other))
        gen_print(out, "#include $header$\n", "header",
                  gen_name_include(out->memory, file, other, ".pekoe.h"));
}

/*
 * The types of the messages that methods take and return are declared in the x.pekoe.h of the
 * files that define these. Other imports may have none.
 */
static void write_includes(const struct gen_file *file, struct gen_printer *out)
{
    struct gen_table seen = {.memory = out->memory};

    for (size_t i = 0; i < file->n_services; i++) {
        for (size_t j = 0; j < file->services[i]->n_methods; j++) {
            include_once(file, file->services[i]->methods[j]->input->file, &seen, out);
            include_once(file, file->services[i]->methods[j]->output->file, &seen, out);
        }
    }
}

void gen_emit_service_source(struct gen_run *run, const struct gen_file *file,
                             struct gen_printer *out)
{
    if (file->n_services == 0)
        return;
    gen_write(out, "\n");
    write_includes(file, out);
    write_files(run, file, out);
    for (size_t i = 0; i < file->n_services; i++)
        write_service_source(out, file, file->services[i]);
}
