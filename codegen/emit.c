/*
 * Which outputs there are and who writes their parts: see emit.h.
 */
#include "codegen/emit.h"

#include <string.h>

/* One output file per row; a row without parts is not written. */
struct output {
    const char *ending; /* behind the file's c_stem */
    unsigned step;      /* spaces per level */
    bool messages;      /* one that messages=none leaves out */
    gen_emitter *const *parts;
    size_t n_parts;
};

static gen_emitter *const message_header[] = {gen_emit_message_header};
static gen_emitter *const message_source[] = {gen_emit_message_source};

#define PARTS(list) list, sizeof(list) / sizeof((list)[0])

static const struct output outputs[] = {
    {".pb-c.h", 2, true, PARTS(message_header)},
    {".pb-c.c", 2, true, PARTS(message_source)},
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

        if (output->n_parts == 0 ||
            (output->messages && (!run->parameters->messages || file->no_generate)))
            continue;
        gen_printer_init(&out, run->memory, output->step);
        for (size_t j = 0; j < output->n_parts; j++)
            output->parts[j](run, file, &out);
        add_output(run, file, output->ending, &out.text);
        gen_printer_done(&out);
    }
}
