/*
 * Metadata: the application's own header and trailer fields of a call.
 *
 * Keys are lower case letters, digits, '-', '_' and '.'. A key that ends in "-bin" has binary
 * values, which travel as base64; all other values are printable ASCII. A key may occur more than
 * once; its values keep their order. What belongs to gRPC and HTTP ("grpc-...", ":path", te,
 * content-type and so on) is neither shown nor taken.
 * Source: gRPC's PROTOCOL-HTTP2.md, "Custom-Metadata".
 */
#ifndef PEKOE_METADATA_H
#define PEKOE_METADATA_H

#include <pekoe/base.h>
#include <pekoe/future.h>

PK_BEGIN_DECLS

/*
 * Metadata received (read only) or to be sent. It lives in a scope, as a rule a call's, and is
 * never freed by hand; keys and values that are read from it live as long.
 */
typedef struct pk_metadata pk_metadata;

/* Empty metadata to be sent, in the scope. NULL when memory runs out; every function takes that. */
PK_API pk_metadata *pk_metadata_new(pk_scope *scope);

/*
 * Adds a value behind those that the key has. The value is copied. PK_ERR_INVALID for a key or a
 * value that may not be sent (see above; CR, LF and NUL above all), PK_ERR_STATE for metadata that
 * was received, PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_metadata_add(pk_metadata *metadata, const char *key, const char *value);

/* The same for a key that ends in "-bin". */
PK_API PK_NODISCARD int pk_metadata_add_binary(pk_metadata *metadata, const char *key,
                                               const void *bytes, size_t length);

/*
 * Takes all values of a key away, if there are any. PK_ERR_STATE for metadata that was received: see
 * pk_call_edit_metadata.
 */
PK_API PK_NODISCARD int pk_metadata_remove(pk_metadata *metadata, const char *key);

/*
 * The first (the last) value of a key, compared without case; binary values are decoded. {NULL, 0}
 * where there is none; `bytes` is never NULL where there is one. A binary value that is no base64
 * counts as not there.
 */
PK_API pk_slice pk_metadata_get(const pk_metadata *metadata, const char *key);
PK_API pk_slice pk_metadata_get_last(const pk_metadata *metadata, const char *key);

/* A place in metadata: start with PK_METADATA_START. */
typedef struct pk_metadata_place {
    size_t field;
    size_t offset; /* in a list of binary values */
} pk_metadata_place;

#define PK_METADATA_START \
    {                     \
        0, 0              \
    }

/*
 * Walks over the values of one key, or of all keys where `key` is NULL, in their order. False at
 * the end. `ret_key` and `ret_value` may be NULL. A binary field with several values, joined by
 * commas on the way, gives each of them.
 */
PK_API bool pk_metadata_next(const pk_metadata *metadata, const char *key, pk_metadata_place *place,
                             pk_slice *ret_key, pk_slice *ret_value);

/*
 * Adds the fields of `from` to `to`, metadata to be sent, as they travel: binary values are not
 * decoded, several values stay several fields in their order. What concerns one hop only is left
 * out (HTTP's own fields, the grpc- fields that this hop's call sets), and so is what gRPC does not
 * allow to be sent. `keep` is asked about the others; NULL keeps all. Names and values are copied.
 * PK_ERR_STATE where `to` was received, PK_ERR_NOMEM.
 */
typedef bool pk_metadata_filter(void *self, pk_slice key);
PK_API PK_NODISCARD int pk_metadata_forward(pk_metadata *to, const pk_metadata *from,
                                            pk_metadata_filter *keep, void *self);

PK_END_DECLS

#endif
