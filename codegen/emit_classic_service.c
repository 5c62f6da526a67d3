/*
 * protobuf-c's own code for a service: a ProtobufCService with its callers, as protoc-gen-c
 * writes it, for programs that use it for another kind of RPC. Called by the two emitters of
 * protobuf-c's code. Pekoe's code for services is elsewhere and does not need it.
 *
 * Left out where its names would collide (gen_service.protobuf_c); an empty service has NULL for
 * its tables, as ISO C knows no empty array.
 */
#include "codegen/emit_fields.h"

#include <stdlib.h>
#include <string.h>

static const char *spaces_for(struct gen_memory *memory, const char *text)
{
    return gen_format(memory, "%*s", (int) strlen(text), "");
}

static void set_service(struct gen_printer *out, const struct gen_service *service)
{
    gen_set(out, "type", service->c_type);
    gen_set(out, "lower", service->c_lower);
    gen_set(out, "upper", service->c_upper);
    gen_set(out, "gap", spaces_for(out->memory, service->c_lower));
}

static void set_method(struct gen_printer *out, const struct gen_method *method)
{
    gen_set(out, "method", method->c_name);
    gen_set(out, "member", method->c_member);
    gen_set(out, "input", method->input->c_type);
    gen_set(out, "output", method->output->c_type);
}

static void write_caller(struct gen_printer *out, const struct gen_method *method)
{
    set_method(out, method);
    gen_print(out,
              "void $lower$__$method$(ProtobufCService *service,\n"
              "     $gap$  $method_gap$ const $input$ *input,\n"
              "     $gap$  $method_gap$ $output$_Closure closure,\n"
              "     $gap$  $method_gap$ void *closure_data)",
              "method_gap", spaces_for(out->memory, method->c_name));
}

void gen_emit_classic_service_header(struct gen_printer *out, const struct gen_service *service)
{
    if (!service->protobuf_c)
        return;
    set_service(out, service);
    gen_print(out, "typedef struct $type$_Service $type$_Service;\n"
                   "struct $type$_Service\n"
                   "{\n"
                   "  ProtobufCService base;\n");
    for (size_t i = 0; i < service->n_methods; i++) {
        set_method(out, service->methods[i]);
        gen_print(out,
                  "  void (*$member$)($type$_Service *service,\n"
                  "         $gap$  const $input$ *input,\n"
                  "         $gap$  $output$_Closure closure,\n"
                  "         $gap$  void *closure_data);\n",
                  "gap", spaces_for(out->memory, service->methods[i]->c_member));
    }
    gen_print(out, "};\n"
                   "typedef void (*$type$_ServiceDestroy)($type$_Service *);\n"
                   "void $lower$__init ($type$_Service *service,\n"
                   "     $gap$        $type$_ServiceDestroy destroy);\n"
                   "#define $upper$__BASE_INIT \\\n"
                   "    { &$lower$__descriptor, protobuf_c_service_invoke_internal, NULL }\n"
                   "#define $upper$__INIT(function_prefix__) \\\n"
                   "    { $upper$__BASE_INIT");
    for (size_t i = 0; i < service->n_methods; i++)
        gen_print(out, ",\\\n      function_prefix__ ## $method$", "method",
                  service->methods[i]->c_name);
    gen_write(out, "  }\n");
    for (size_t i = 0; i < service->n_methods; i++) {
        write_caller(out, service->methods[i]);
        gen_write(out, ";\n");
    }
}

struct method_name {
    const char *name;
    size_t index;
};

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct method_name *) left)->name,
                  ((const struct method_name *) right)->name);
}

static void write_tables(struct gen_printer *out, const struct gen_service *service)
{
    struct method_name *sorted = gen_array(out->memory, service->n_methods, sizeof *sorted);
    bool names = !service->file->code_size;

    gen_set_number(out, "count", (long long) service->n_methods);
    if (service->n_methods == 0) {
        gen_print(out, "#define $lower$__method_descriptors NULL\n"
                       "#define $lower$__method_indices_by_name NULL\n");
        return;
    }
    gen_print(out, "static const ProtobufCMethodDescriptor $lower$__method_descriptors[$count$] =\n"
                   "{\n");
    for (size_t i = 0; i < service->n_methods; i++) {
        const struct gen_method *method = service->methods[i];

        sorted[i] = (struct method_name){method->name, i};
        gen_print(out, "  { $name$, &$input$__descriptor, &$output$__descriptor },$remark$\n",
                  "name", names ? gen_format(out->memory, "\"%s\"", method->name) : "NULL", "input",
                  method->input->c_lower, "output", method->output->c_lower, "remark",
                  names ? "" : " /* CODE_SIZE */");
    }
    gen_write(out, "};\n");
    if (!names)
        return;
    qsort(sorted, service->n_methods, sizeof *sorted, compare_names);
    gen_print(out, "const unsigned $lower$__method_indices_by_name[] = {\n");
    for (size_t i = 0; i < service->n_methods; i++) {
        gen_set_number(out, "index", (long long) sorted[i].index);
        gen_print(out, "  $index$$comma$        /* $name$ */\n", "comma",
                  i + 1 < service->n_methods ? "," : " ", "name", sorted[i].name);
    }
    gen_write(out, "};\n");
}

void gen_emit_classic_service_source(struct gen_printer *out, const struct gen_service *service)
{
    if (!service->protobuf_c)
        return;
    set_service(out, service);
    write_tables(out, service);
    gen_set(out, "name", service->name);
    gen_set(out, "full_name", service->full_name);
    gen_set(out, "package", service->file->package);
    gen_print(out, "const ProtobufCServiceDescriptor $lower$__descriptor =\n"
                   "{\n"
                   "  PROTOBUF_C__SERVICE_DESCRIPTOR_MAGIC,\n");
    if (service->file->code_size)
        gen_print(out, "  NULL,NULL,NULL,NULL, /* CODE_SIZE */\n"
                       "  $count$,\n"
                       "  $lower$__method_descriptors,\n"
                       "  NULL /* CODE_SIZE */\n"
                       "};\n");
    else
        gen_print(out, "  \"$full_name$\",\n"
                       "  \"$name$\",\n"
                       "  \"$type$\",\n"
                       "  \"$package$\",\n"
                       "  $count$,\n"
                       "  $lower$__method_descriptors,\n"
                       "  $lower$__method_indices_by_name\n"
                       "};\n");
    for (size_t i = 0; i < service->n_methods; i++) {
        write_caller(out, service->methods[i]);
        gen_set_number(out, "index", (long long) i);
        gen_print(out, "\n"
                       "{\n"
                       "  assert(service->descriptor == &$lower$__descriptor);\n"
                       "  service->invoke(service, $index$, (const ProtobufCMessage *) input, "
                       "(ProtobufCClosure) closure, closure_data);\n"
                       "}\n");
    }
    gen_print(out, "void $lower$__init ($type$_Service *service,\n"
                   "     $gap$        $type$_ServiceDestroy destroy)\n"
                   "{\n"
                   "  protobuf_c_service_generated_init (&service->base,\n"
                   "                                     &$lower$__descriptor,\n"
                   "                                     (ProtobufCServiceDestroy) destroy);\n"
                   "}\n");
}
