/*
 * Wrapped messages: values of another codec inside a small protobuf message that names that codec,
 * as Dubbo's Triple protocol sends the arguments and results of services without a .proto.
 *
 * A session is a codec of its own, made per call: where a type is given it is the proto codec;
 * where none is given the message is a pk_triple_values, and both layers are written into the same
 * buffer, back to front. Source: dubbo's triple_wrapper.proto:
 *
 *     message TripleRequestWrapper  { string serializeType = 1; repeated bytes args = 2;
 *                                     repeated string argTypes = 3; }
 *     message TripleResponseWrapper { string serializeType = 1; bytes data = 2; string type = 3; }
 */
#ifndef PEKOE_MARSHALLING_TRIPLE_WRAPPER_H
#define PEKOE_MARSHALLING_TRIPLE_WRAPPER_H

#include "marshalling/codec.h"

/* The values of one request or response. NULL stands for a null value. */
typedef struct pk_triple_values {
    const void *const *items;
    const pk_slice *types; /* names of the items' types, as many; NULL: no names */
    size_t count;
} pk_triple_values;

typedef enum pk_triple_side {
    PK_TRIPLE_SERVER, /* reads request wrappers, writes response wrappers */
    PK_TRIPLE_CLIENT, /* the reverse */
} pk_triple_side;

#define PK_TRIPLE_CODECS_MAX 4u
#define PK_TRIPLE_VALUES_MAX 255u /* that a wrapper read may hold */

/* Use as a codec by &session.codec; everything it points to lives as long as it. */
typedef struct pk_triple_session {
    pk_codec codec; /* first: the functions find the session by it */
    pk_triple_side side;
    const pk_codec *inner[PK_TRIPLE_CODECS_MAX]; /* allowed in wrappers; the first is the default */
    size_t inner_count;
    /*
     * Of the values: what to write with. Set to the codec that a wrapper read named, so that a
     * reply is written as its request was.
     */
    const pk_codec *chosen;
} pk_triple_session;

/* PK_ERR_INVALID for no inner codec or more than PK_TRIPLE_CODECS_MAX. */
PK_NODISCARD int pk_triple_session_init(pk_triple_session *session, pk_triple_side side,
                                        const pk_codec *const *inner, size_t inner_count);

#endif
