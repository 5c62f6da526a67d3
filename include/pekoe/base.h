/*
 * What every other public header needs: symbol and compiler marks, slices, local error codes,
 * the allocator that a program may bring.
 *
 * Two kinds of error exist in pekoe. A *local* error is an int, 0 or one of the negative codes
 * below; it tells the calling C program that a function could not do what it was asked. A *wire*
 * error is a pk_status (see status.h); it travels to the peer of a call.
 */
#ifndef PEKOE_BASE_H
#define PEKOE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PK_BEGIN_DECLS extern "C" {
#define PK_END_DECLS }
#else
#define PK_BEGIN_DECLS
#define PK_END_DECLS
#endif

#define PK_API __attribute__((visibility("default")))
#define PK_NODISCARD __attribute__((warn_unused_result))
#define PK_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define PK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PK_LIKELY(x) __builtin_expect(!!(x), 1)
#define PK_INLINE static inline __attribute__((always_inline, unused))

/* Moves a pointer out of *place and leaves NULL there. */
#define pk_steal(place)                                 \
    (__extension__({                                    \
        __typeof__(place) pk_place_ = (place);          \
        __typeof__(*pk_place_) pk_stolen_ = *pk_place_; \
        *pk_place_ = NULL;                              \
        pk_stolen_;                                     \
    }))

PK_BEGIN_DECLS

/* Bytes that belong to somebody else; each use says until when they may be read. */
typedef struct pk_slice {
    const uint8_t *bytes; /* may be NULL when length is 0 */
    size_t length;        /* bytes */
} pk_slice;

/* A slice over a string literal, without its terminating NUL. */
#define PK_SLICE(literal) ((pk_slice){(const uint8_t *) ("" literal), sizeof(literal) - 1})

/* Local errors. The numbers are part of the ABI. */
enum {
    PK_ERR_NOMEM = -1,       /* memory ran out */
    PK_ERR_INVALID = -2,     /* an argument breaks the function's contract */
    PK_ERR_STATE = -3,       /* right arguments, wrong moment */
    PK_ERR_LIMIT = -4,       /* a configured limit would be passed */
    PK_ERR_MALFORMED = -5,   /* bytes from outside do not follow their format */
    PK_ERR_CLOSED = -6,      /* the other side is gone */
    PK_ERR_SYSTEM = -7,      /* a system call failed; errno says why */
    PK_ERR_UNSUPPORTED = -8, /* this build or platform cannot do it */
    PK_ERR_EXISTS = -9,      /* the name or place is taken */
    PK_ERR_TOO_LATE = -10,   /* somebody else settled it first; nothing was changed */
};

/* The name of a local error in words, for messages; static, never NULL. */
PK_API const char *pk_error_text(int error);

/*
 * Where memory comes from. `resize` behaves as realloc does: block NULL allocates, size 0 frees
 * and returns NULL; a failure returns NULL and leaves the old block as it was. It is called only
 * on the thread of the loop that it was given to.
 */
typedef struct pk_allocator {
    void *(*resize)(void *context, void *block, size_t size);
    void *context;
} pk_allocator;

PK_END_DECLS

#endif
