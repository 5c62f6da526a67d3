/*
 * grpc.reflection.v1 and v1alpha: tells tools such as grpcurl and `buf curl` what a server serves.
 * Source: gRPC's server-reflection.md.
 */
#ifndef PEKOE_REFLECTION_H
#define PEKOE_REFLECTION_H

#include <pekoe/service.h>

PK_BEGIN_DECLS

typedef struct pk_reflection pk_reflection;

/*
 * Describes all services of the router, those that are added later and itself included, from the
 * descriptors that generated code carries; and has the router serve it. `loop` is the router's.
 * Errors as pk_router_add.
 */
PK_API PK_NODISCARD int pk_reflection_new(pk_reflection **ret_reflection, pk_loop *loop,
                                          pk_router *router);

/* After the router, and its calls, are gone. Takes NULL; returns NULL. */
PK_API pk_reflection *pk_reflection_free(pk_reflection *reflection);

PK_END_DECLS

#endif
