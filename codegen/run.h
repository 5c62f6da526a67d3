/*
 * One run of the plugin, from the bytes of a request to the bytes of a response. Called by
 * main.c, and by the fuzz target with arbitrary bytes.
 */
#ifndef PEKOE_CODEGEN_RUN_H
#define PEKOE_CODEGEN_RUN_H

#include "codegen/memory.h"

#include <stdint.h>

/*
 * Appends a CodeGeneratorResponse to ret_response: the files, or the user's errors as its error
 * text. Returns 0, or -1 where the bytes are no CodeGeneratorRequest; then nothing is appended.
 */
int gen_run_request(const uint8_t *request, size_t length, struct gen_text *ret_response);

#endif
