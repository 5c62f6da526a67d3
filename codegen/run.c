/*
 * One run of the plugin: see run.h.
 */
#include "codegen/run.h"

#include "codegen/emit.h"
#include "codegen/request.h"
#include "codegen/table.h"

#include <string.h>

typedef Google__Protobuf__Compiler__CodeGeneratorRequest request_type;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse response_type;

static void check_outputs(const struct gen_model *model, struct gen_report *report)
{
    struct gen_table stems = {.memory = report->memory};

    for (size_t i = 0; i < model->n_files; i++) {
        struct gen_file *file = model->files[i];
        struct gen_file *other;

        if (!file->generated)
            continue;
        other = gen_table_add(&stems, file->c_stem, file);
        if (other)
            gen_fail(report, file->place, "\"%s\" and \"%s\" would both write %s.pb-c.h",
                     file->name, other->name, file->c_stem);
    }
}

static void fill_response(struct gen_run *run, const request_type *request)
{
    struct gen_parameters parameters;
    struct gen_model *model;

    gen_parameters_read(&parameters, request->parameter, run->report);
    run->parameters = &parameters;
    model = gen_model_new(request, &parameters, run->report);
    if (run->report->count > 0)
        return;
    gen_names_check(model, &parameters, run->report);
    check_outputs(model, run->report);
    if (run->report->count > 0)
        return;
    run->model = model;
    gen_slab_check(run);
    if (run->report->count > 0)
        return;
    for (size_t i = 0; i < model->n_files; i++) {
        if (model->files[i]->generated)
            gen_emit_file(run, model->files[i]);
    }
}

static void append_response(const response_type *response, struct gen_text *ret_response)
{
    const ProtobufCMessage *message = &response->base;
    size_t size = protobuf_c_message_get_packed_size(message);
    struct gen_memory memory = {0};
    uint8_t *bytes = gen_alloc(&memory, size);

    protobuf_c_message_pack(message, bytes);
    gen_text_append(ret_response, (const char *) bytes, size);
    gen_memory_done(&memory);
}

int gen_run_request(const uint8_t *data, size_t length, struct gen_text *ret_response)
{
    struct gen_memory memory = {0};
    struct gen_report report = {.memory = &memory};
    response_type response = GOOGLE__PROTOBUF__COMPILER__CODE_GENERATOR_RESPONSE__INIT;
    struct gen_run run = {.memory = &memory, .report = &report, .response = &response};
    request_type *request = gen_request_read(data, length);

    if (!request)
        return -1;
    response.has_supported_features = 1;
    response.supported_features =
        GOOGLE__PROTOBUF__COMPILER__CODE_GENERATOR_RESPONSE__FEATURE__FEATURE_PROTO3_OPTIONAL;
    fill_response(&run, request);
    if (report.count > 0) {
        if (report.count > GEN_REPORT_LIMIT)
            gen_text_append(&report.text, "\n(and more)", strlen("\n(and more)"));
        response.error = report.text.data;
        response.n_file = 0;
    }
    append_response(&response, ret_response);
    google__protobuf__compiler__code_generator_request__free_unpacked(request, NULL);
    gen_report_done(&report);
    gen_memory_done(&memory);
    return 0;
}
