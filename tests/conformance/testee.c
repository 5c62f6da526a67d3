/*
 * The program that protobuf's conformance runner talks to: each request names a message type and
 * carries bytes; the answer is the message packed again, or why it could not be decoded. Decoding
 * and packing go through the doors that calls use. What is not binary is answered with "skipped".
 *
 * On standard input and output: a little-endian length of four bytes, then a ConformanceRequest or
 * ConformanceResponse. Both are themselves read and written with pekoe.
 */
#include "conformance.pekoe.h"
#include "marshalling/message.h"
#include "test_messages_proto2.pekoe.h"
#include "test_messages_proto3.pekoe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Conformance__ConformanceRequest request;
typedef Conformance__ConformanceResponse response;

static pk_memory memory;
static pk_buffer_pool pool;

static bool read_exactly(void *bytes, size_t length)
{
    return fread(bytes, 1, length, stdin) == length;
}

static const pk_message_type *find_type(const char *name)
{
    static const pk_message_type *const types[] = {
        &protobuf_test_messages_proto2_test_all_types_proto2_type,
        &protobuf_test_messages_proto3_test_all_types_proto3_type,
        &conformance_failure_set_type,
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    }
    return NULL;
}

static void skip(response *answer, const char *reason)
{
    answer->result_case = CONFORMANCE__CONFORMANCE_RESPONSE__RESULT_SKIPPED;
    answer->skipped = (char *) (uintptr_t) reason;
}

/* `packed` holds the answer's payload until the answer is written. */
static void answer_request(const request *question, pk_arena *arena, pk_buffer *packed,
                           response *answer)
{
    const pk_message_type *type = find_type(question->message_type);
    void *message;
    const char *problem;
    pk_slice bytes = {NULL, 0};

    if (question->payload_case == CONFORMANCE__CONFORMANCE_REQUEST__PAYLOAD_PROTOBUF_PAYLOAD)
        bytes = (pk_slice){question->protobuf_payload.data, question->protobuf_payload.len};
    else if (question->payload_case != CONFORMANCE__CONFORMANCE_REQUEST__PAYLOAD__NOT_SET) {
        skip(answer, "the input is not binary");
        return;
    }
    if (!type) {
        skip(answer, "no such message type");
        return;
    }
    if (question->requested_output_format != CONFORMANCE__WIRE_FORMAT__PROTOBUF) {
        skip(answer, "the output is not binary");
        return;
    }
    int error = pk_message_decode(type, arena, NULL, bytes.bytes, bytes.length, &message, &problem);
    if (error) {
        answer->result_case = CONFORMANCE__CONFORMANCE_RESPONSE__RESULT_PARSE_ERROR;
        answer->parse_error = (char *) (uintptr_t) problem;
        return;
    }
    error = pk_message_pack(type, message, packed);
    if (error) {
        answer->result_case = CONFORMANCE__CONFORMANCE_RESPONSE__RESULT_SERIALIZE_ERROR;
        answer->serialize_error = (char *) (uintptr_t) pk_error_text(error);
        return;
    }
    answer->result_case = CONFORMANCE__CONFORMANCE_RESPONSE__RESULT_PROTOBUF_PAYLOAD;
    answer->protobuf_payload = (ProtobufCBinaryData){pk_buffer_length(packed), packed->start};
}

static bool write_answer(const response *answer)
{
    pk_buffer *packed = pk_buffer_get(&pool);
    if (!packed)
        return false;
    pk_buffer_rewind_for_prepend(packed);
    bool written = false;
    if (!pk_message_pack(&conformance_conformance_response_type, answer, packed)) {
        size_t length = pk_buffer_length(packed);
        uint8_t prefix[4] = {(uint8_t) length, (uint8_t) (length >> 8), (uint8_t) (length >> 16),
                             (uint8_t) (length >> 24)};
        written = fwrite(prefix, 1, 4, stdout) == 4 &&
                  fwrite(packed->start, 1, length, stdout) == length && fflush(stdout) == 0;
    }
    pk_buffer_unref(packed);
    return written;
}

static bool serve_one(const uint8_t *bytes, size_t length, pk_arena *arena)
{
    void *question;
    const char *problem;
    response answer = CONFORMANCE__CONFORMANCE_RESPONSE__INIT;
    pk_buffer *packed = pk_buffer_get(&pool);
    if (!packed)
        return false;
    pk_buffer_rewind_for_prepend(packed);
    if (pk_message_decode(&conformance_conformance_request_type, arena, NULL, bytes, length,
                          &question, &problem)) {
        answer.result_case = CONFORMANCE__CONFORMANCE_RESPONSE__RESULT_RUNTIME_ERROR;
        answer.runtime_error = (char *) (uintptr_t) problem;
    } else {
        answer_request(question, arena, packed, &answer);
    }
    bool written = write_answer(&answer);
    pk_buffer_unref(packed);
    return written;
}

int main(void)
{
    uint8_t prefix[4];
    pk_arena arena;
    int code = 0;

    if (pk_memory_init(&memory, NULL))
        return 1;
    pk_buffer_pool_init(&pool, &memory);
    pk_arena_init(&arena, &memory, 0);
    while (code == 0 && read_exactly(prefix, sizeof prefix)) {
        size_t length = (size_t) prefix[0] | (size_t) prefix[1] << 8 | (size_t) prefix[2] << 16 |
                        (size_t) prefix[3] << 24;
        uint8_t *bytes = malloc(length > 0 ? length : 1);
        if (!bytes || !read_exactly(bytes, length) || !serve_one(bytes, length, &arena))
            code = 1;
        free(bytes);
        pk_arena_reset(&arena);
    }
    pk_arena_done(&arena);
    pk_buffer_pool_done(&pool);
    pk_memory_done(&memory);
    return code;
}
