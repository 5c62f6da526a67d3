/*
 * Which outputs there are and who writes their parts: see emit.h.
 */
#include "codegen/emit.h"

#include <string.h>

/* One output file per row; a row without parts is not written. */
struct output {
    const char *ending;   /* behind the file's c_stem */
    unsigned step;        /* spaces per level */
    bool messages;        /* one that messages=none leaves out */
    gen_emitter *opening; /* what stands around the parts; NULL = nothing */
    gen_emitter *closing;
    gen_emitter *parts[6]; /* in the order of the output, ended by NULL */
};

static const struct output outputs[] = {
    {".pb-c.h", 2, true, NULL, NULL, {gen_emit_message_header}},
    {".pb-c.c", 2, true, NULL, NULL, {gen_emit_message_source}},
    {".pekoe.h",
     4,
     false,
     gen_emit_pekoe_header_opening,
     gen_emit_pekoe_header_closing,
     {gen_emit_types_header, gen_emit_service_header}},
    {".pekoe.c",
     4,
     false,
     gen_emit_pekoe_source_opening,
     NULL,
     {gen_emit_pack_source, gen_emit_service_source}},
};

static void add_output(struct gen_run *run, const struct gen_file *file, const char *ending,
                       const struct gen_text *text)
{
    typedef Google__Protobuf__Compiler__CodeGeneratorResponse__File output_file;
    Google__Protobuf__Compiler__CodeGeneratorResponse *response = run->response;
    output_file *added = gen_new(run->memory, output_file);
    output_file **files = gen_array(run->memory, response->n_file + 1, sizeof(*files));

    google__protobuf__compiler__code_generator_response__file__init(added);
    added->name = gen_format(run->memory, "%s%s", file->c_stem, ending);
    added->content = gen_strndup(run->memory, text->length > 0 ? text->data : "", text->length);
    if (response->n_file > 0)
        memcpy(files, response->file, response->n_file * sizeof(*files));
    files[response->n_file++] = added;
    response->file = files;
}

void gen_emit_file(struct gen_run *run, const struct gen_file *file)
{
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        const struct output *output = &outputs[i];
        struct gen_printer out;

        if (!output->parts[0] ||
            (output->messages && (!run->parameters->messages || file->no_generate)))
            continue;
        gen_printer_init(&out, run->memory, output->step);
        if (output->opening)
            output->opening(run, file, &out);
        for (gen_emitter *const *part = output->parts; *part; part++)
            (*part)(run, file, &out);
        if (output->closing)
            output->closing(run, file, &out);
        add_output(run, file, output->ending, &out.text);
        gen_printer_done(&out);
    }
}
