/*
 * What the code that protoc-gen-pekoe generates is made of. Programs use the generated functions.
 */
#ifndef PEKOE_GENERATED_H
#define PEKOE_GENERATED_H

#include <pekoe/call.h>
#include <pekoe/channel.h>
#include <pekoe/generated_messages.h>
#include <pekoe/service.h>
#include <pekoe/stream.h>

PK_BEGIN_DECLS

typedef enum pk_style {
    PK_UNARY = 0,
    PK_CLIENT_STREAMING = 1,
    PK_SERVER_STREAMING = 2,
    PK_BIDI_STREAMING = 3,
} pk_style;

/* One rpc. The row carries its serve function, so that the router knows no style. */
struct pk_method {
    const char *path; /* "/demo.Greeter/SayHello", the exact proto names */
    size_t path_length;
    const pk_message_type *request;
    const pk_message_type *reply;
    /*
     * Calls the member of the impl table. `request` is NULL where `in` is given; `in` and `out` are
     * NULL where the style has none. A NULL member gives a future failed with UNIMPLEMENTED.
     */
    pk_future (*invoke)(const void *impl, void *self, pk_call *call, const void *request,
                        pk_reader *in, pk_writer *out);
    /* One of the pk_serve_... functions below. */
    void (*serve)(pk_call *call, bool ended);
    pk_style style;
};

/* A serialized google.protobuf.FileDescriptorProto, for reflection. */
typedef struct pk_file {
    const char *name; /* "demo/greeter.proto" */
    const uint8_t *bytes;
    size_t length;
} pk_file;

struct pk_service {
    const char *name; /* "demo.Greeter" */
    const pk_method *methods;
    size_t method_count;
    /* The service's file and all that it imports, each after what it imports. */
    const pk_file *const *files;
    size_t file_count;
};

/*
 * Takes a call whose head was accepted: installs what receives its body, or answers. `ended`: the
 * request has no body.
 */
PK_API void pk_serve_unary(pk_call *call, bool ended);
PK_API void pk_serve_streaming(pk_call *call, bool ended);

/*
 * What client stubs call. The value of the future is the reply; it fails with the status of the
 * call. `request` is read before it returns; `opts` may be NULL.
 */
PK_API PK_NODISCARD pk_future pk_call_unary(pk_channel *channel, const pk_method *method,
                                            const void *request, const pk_call_opts *opts);

/*
 * Streaming stubs never return NULL and always set *ret_out: what is wrong shows at the first read
 * or write. Readers and writers are owed pk_reader_unref and pk_writer_unref, except those of calls
 * with a parent, as long as which they live.
 */
PK_API PK_NODISCARD pk_reader *pk_call_server_streaming(pk_channel *channel,
                                                        const pk_method *method,
                                                        const void *request,
                                                        const pk_call_opts *opts);
PK_API PK_NODISCARD pk_future pk_call_client_streaming(pk_channel *channel, const pk_method *method,
                                                       pk_writer **ret_out,
                                                       const pk_call_opts *opts);
PK_API PK_NODISCARD pk_reader *pk_call_bidi_streaming(pk_channel *channel, const pk_method *method,
                                                      pk_writer **ret_out,
                                                      const pk_call_opts *opts);

/* What a NULL member of an impl table answers. */
PK_API PK_NODISCARD pk_future pk_unimplemented(pk_call *call);

PK_END_DECLS

#endif
