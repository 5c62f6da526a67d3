/*
 * Heads, trailers and messageless replies that the gRPC family of protocols has in common.
 *
 * For the protocol files only: they fill their pk_protocol with these functions or call them. Each
 * falls back to the static fields of the pk_protocol where the arena has no memory.
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_FIELDS_H
#define PEKOE_MARSHALLING_PROTOCOL_FIELDS_H

#include "marshalling/protocol.h"
#include "marshalling/protocol_flags.h"
#include "marshalling/protocol_status.h"

/* The flags of gRPC's messages. */
static const pk_envelope pk_protocol_envelope = {.plain = 0, .compressed = PK_FRAME_COMPRESSED};

/* The slow paths of the two functions below: fields in the arena. */
pk_fields pk_protocol_make_head_fields(const pk_protocol *self, const pk_encoding *encoding,
                                       bool compressed, const pk_metadata *headers);
pk_fields pk_protocol_make_trailer_fields(const pk_encoding *encoding, const pk_status *status,
                                          const pk_metadata *trailers);

/*
 * Content-type, grpc-encoding where `compressed`, what the peer must be told of compressors, and
 * the application's headers. Static where only the first is there.
 */
static inline pk_fields pk_protocol_head_fields(const pk_protocol *self,
                                                const pk_encoding *encoding, bool compressed,
                                                const pk_metadata *headers)
{
    if (PK_LIKELY(!compressed && !encoding->tell_encodings && (!headers || headers->count == 0)))
        return (pk_fields){self->head_fields, 1};
    return pk_protocol_make_head_fields(self, encoding, compressed, headers);
}

/* The status and the application's trailers. Static for OK without any. */
static inline pk_fields pk_protocol_trailer_fields(const pk_encoding *encoding,
                                                   const pk_status *status,
                                                   const pk_metadata *trailers)
{
    if (PK_LIKELY(!status && (!trailers || trailers->count == 0)))
        return (pk_fields){&pk_status_field_ok, 1};
    return pk_protocol_make_trailer_fields(encoding, status, trailers);
}

/* pk_protocol.reply_status, pk_protocol.head and pk_protocol.message of binary protocols. */
pk_code pk_protocol_reply_status(const pk_protocol *self, const pk_encoding *encoding,
                                 const pk_outcome *outcome, pk_reply *ret_reply);
pk_fields pk_protocol_head(const pk_protocol *self, const pk_encoding *encoding,
                           const pk_metadata *headers);
int pk_protocol_message(const pk_protocol *self, const pk_encoding *encoding,
                        const pk_message_type *type, const void *message, pk_buffer **ret_buffer,
                        pk_status *ret_status);

/*
 * What a unary outcome comes to before its message is encoded: NULL where that can go on, else the
 * status that is to be replied instead.
 */
const pk_status *pk_protocol_refusal(const pk_outcome *outcome);

/* A request's head; `own` fields of the protocol stand behind the pseudo fields. */
pk_fields pk_protocol_request_head(const pk_protocol *self, const pk_encoding *encoding,
                                   const pk_request_target *target, const pk_metadata *headers,
                                   const pk_field *own, size_t own_count);

/* pk_protocol.response_head and pk_protocol.response_end. */
bool pk_protocol_response_head(const pk_protocol *self, const pk_head *head, bool ended,
                               pk_arena *arena, pk_status *ret_status);
void pk_protocol_response_end(const pk_protocol *self, const pk_head *head, const pk_head *trailers,
                              const pk_body_reader *reader, pk_arena *arena, pk_status *ret_status);

#endif
