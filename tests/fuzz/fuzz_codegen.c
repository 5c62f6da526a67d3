/*
 * The plugin on arbitrary bytes: whatever protoc, or somebody in its place, may send. Bytes that
 * are a request must give a response that can be read; it holds files or an error, never both.
 */
#include "codegen/run.h"

#include <google/protobuf/compiler/plugin.pb-c.h>

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gen_text text = {0};

    if (gen_run_request(data, size, &text) == 0) {
        Google__Protobuf__Compiler__CodeGeneratorResponse *response =
            google__protobuf__compiler__code_generator_response__unpack(
                NULL, text.length, (const uint8_t *) text.data);

        if (!response || (response->error && response->n_file > 0))
            abort();
        google__protobuf__compiler__code_generator_response__free_unpacked(response, NULL);
    } else if (text.length > 0) {
        abort();
    }
    gen_text_done(&text);
    return 0;
}
