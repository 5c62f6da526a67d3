/*
 * Bytes from protoc to a CodeGeneratorRequest. Called by run.c only.
 */
#ifndef PEKOE_CODEGEN_REQUEST_H
#define PEKOE_CODEGEN_REQUEST_H

#include <google/protobuf/compiler/plugin.pb-c.h>

#include <stddef.h>
#include <stdint.h>

/*
 * The request, to be freed with google__protobuf__compiler__code_generator_request__free_unpacked,
 * or NULL where the bytes are not one. Nested messages deeper than 100 levels are refused, as
 * protobuf-c itself would follow them until the stack is used up.
 */
Google__Protobuf__Compiler__CodeGeneratorRequest *gen_request_read(const uint8_t *data,
                                                                   size_t length);

#endif
