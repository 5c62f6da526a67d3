/*
 * The client: channels, and what every call of a generated stub can be given.
 *
 * A channel stands for a server, or for several that are alike. It connects when the first call needs
 * it, connects again after a loss, and carries any number of calls at once; a program has one per
 * server and keeps it. Stubs
 * such as demo_greeter_say_hello(channel, &request, opts) start a call on it and return at once.
 *
 * Lifetimes. The request is encoded before the stub returns. A unary reply (and its status) lives
 * until the whole chain of steps hung on the stub's future has run; one that is handed on, as a
 * proxy returns it from its own handler, until that handler's reply was encoded; with .parent as
 * long as the parent; with .call until pk_call_unref.
 */
#ifndef PEKOE_CHANNEL_H
#define PEKOE_CHANNEL_H

#include <pekoe/call.h>
#include <pekoe/interceptor.h>
#include <pekoe/loop.h>
#include <pekoe/service_config.h>
#include <pekoe/tls.h>

PK_BEGIN_DECLS

typedef struct pk_channel pk_channel;

/*
 * Which calls are tried again when they fail, and how. Source: gRFC A6, "Retry Policy". An attempt
 * that fails is repeated only before the response's headers have come and while all that was written
 * is at hand (see call_buffer_bytes). The deadline of the call holds for all attempts together. A
 * server may say in grpc-retry-pushback-ms when to come again, or that it wants no more.
 */
typedef struct pk_retry_policy {
    const char *method;          /* "/demo.Greeter/SayHello", "/demo.Greeter/" for all of a service,
                                    NULL for all */
    unsigned max_attempts;       /* the first one included; 2 to 5, more count as 5 */
    uint32_t initial_backoff_ms; /* the first pause, give or take 20 % */
    uint32_t max_backoff_ms;
    double backoff_multiplier; /* of the pause, with each repetition */
    uint32_t codes;            /* PK_CODE_BIT of those that are tried again */
} pk_retry_policy;

/*
 * Which calls are sent several times at once, for methods that may run more than once. Source: gRFC
 * A6, "Hedging Policy". The first attempt whose response begins, or that fails with a code that is
 * not among `codes`, is the call's, and the others are cancelled. One that fails with a code of
 * these brings the next forward. The deadline, the buffers and the server's word hold as for retries.
 */
typedef struct pk_hedging_policy {
    const char *method;    /* as in a pk_retry_policy */
    unsigned max_attempts; /* the first one included; 2 to 5, more count as 5 */
    uint32_t delay_ms;     /* between two attempts; 0: all at once */
    uint32_t codes;        /* PK_CODE_BIT of those that do not end the call */
} pk_hedging_policy;

#define PK_CODE_BIT(code) (1u << (code))

/*
 * No call is repeated or hedged while too many fail: there are `max_tokens` at first, a failure that
 * a policy names takes one, a success gives `token_ratio` back, and half of them must be there.
 */
typedef struct pk_retry_throttling {
    double max_tokens;
    double token_ratio;
} pk_retry_throttling;

/*
 * What tells a server who calls, call by call: a token, for one. The function adds to
 * pk_call_headers(call); it is asked once for each call, behind the interceptors and before anything
 * is sent, and what it added goes with each attempt. `audience` is the service that the call is for,
 * "https://example.org/package.Service", in the call. Done: the call goes on. Failed: it ends with
 * that status, or with INTERNAL for a code that only servers mean (gRFC A54). Pending: it waits, and
 * its deadline and cancel hold.
 *
 * Without TLS everybody on the way can read and use what is sent: such a call fails with
 * UNAUTHENTICATED, and the function is not asked, unless `without_tls` is set.
 */
typedef struct pk_call_credentials {
    pk_future (*add)(void *self, pk_call *call, const char *audience);
    void *self;
    bool without_tls;
} pk_call_credentials;

/* In all of them 0 means the default that the comment names. */
typedef struct pk_channel_opts {
    size_t size;                 /* set by PK_CHANNEL_OPTS */
    const char *authority;       /* what servers are told that they are; the target's name */
    const char *dns_servers;     /* "10.0.0.1:53,..." instead of the system's name servers */
    const char *user_agent;      /* stands before pekoe's own */
    size_t receive_limit;        /* bytes of one message, decompressed; 4 MiB */
    size_t send_limit;           /* bytes of one message as sent; none */
    size_t compress_min_bytes;   /* of calls with .compression; 1,024 */
    uint32_t connect_timeout_ms; /* for one attempt, the server's SETTINGS included; 20 s */
    uint32_t backoff_initial_ms; /* pause after the first failed attempt; 1 s */
    uint32_t backoff_max_ms;     /* pauses grow by 1.6, with a jitter of 20 %, up to 120 s */
    uint32_t stream_window;      /* bytes of a response in flight; 2 MiB */
    uint32_t connection_window;  /* and of all of a connection's; 8 MiB. A response that is not
                                    read takes of its own window alone, and holds up no other */
    /*
     * Milliseconds, counted in whole seconds and up to one second late. A PING is sent when nothing
     * has come from the server for `keepalive_ms` (never), while there are calls, with
     * `keepalive_idle` always; without an answer for `keepalive_timeout_ms` (20 s) the connection is
     * lost. A server that finds that too often (GOAWAY with ENHANCE_YOUR_CALM) doubles the time.
     * Servers of gRPC's own projects allow one in 5 minutes unless told otherwise.
     */
    uint32_t keepalive_ms;
    uint32_t keepalive_timeout_ms;
    bool keepalive_idle;
    uint32_t idle_timeout_ms; /* a connection without calls is closed after it; 30 minutes */
    /* The first policy that names a method holds for it. Borrowed as long as the channel; none. */
    const pk_retry_policy *retry_policies;
    size_t retry_policy_count;
    pk_retry_throttling retry_throttling; /* max_tokens 0: none */
    /* Likewise, for methods that no retry policy names. */
    const pk_hedging_policy *hedging_policies;
    size_t hedging_policy_count;
    /*
     * What was not said here is taken from it, method by method: policies, throttling, load
     * balancing; its timeouts and limits hold besides a call's and the channel's own. Borrowed as
     * long as the channel; none.
     */
    const pk_service_config *service_config;
    /*
     * Bytes that were written and are kept so that they can be sent again: of a call (256 KiB), and
     * of all calls of the channel (16 MiB). A call that goes beyond is sent once.
     */
    size_t call_buffer_bytes;
    size_t buffer_bytes;
    uint32_t header_bytes; /* of a response's metadata (RFC 9113 6.5.2); 64 KiB */
    /*
     * "pick_first" (the default): one connection, to the first address that answers. "round_robin":
     * a connection to each address, and calls go to those that are ready in turn.
     */
    const char *load_balancing;
    uint32_t resolve_interval_ms; /* round_robin: the least time between two resolutions; 30 s */
    /*
     * TLS; NULL: none. The channel takes a reference. The server's certificate must be issued by a CA
     * that the credentials trust, be valid now, and name `server_name` among its alternative names
     * (RFC 9110 section 4.3.4; the subject's common name does not count). That name is also sent
     * (SNI, RFC 6066), unless it is an IP address; default: the host of the authority, which is the
     * target's unless `authority` says otherwise. The server must choose HTTP/2 by ALPN. What fails is
     * told by the status of the calls, UNAVAILABLE.
     */
    pk_channel_credentials *credentials;
    const char *server_name;
    const pk_call_credentials *call_credentials; /* of all calls; borrowed as long as the channel */
    /*
     * Servers may limit the calls that go on at once on a connection (SETTINGS_MAX_CONCURRENT_STREAMS,
     * RFC 9113). Those above it wait, unless a further connection to the same address may be opened:
     * up to this many at once. One that had no call for 30 s is closed; 1.
     */
    uint32_t connections_per_address;
} pk_channel_opts;

#define PK_CHANNEL_OPTS(...) (&(pk_channel_opts){.size = sizeof(pk_channel_opts), ##__VA_ARGS__})

/*
 * A channel for a target: "host:port" or "dns:///host:port", resolved without blocking the loop;
 * "ipv4:1.2.3.4:50051", "ipv6:[::1]:50051", each of the two also as a list with commas, or
 * "unix:/path". What becomes of several addresses is `load_balancing`'s. HTTP/2 with prior
 * knowledge, or over TLS with `credentials`. Nothing connects yet. `opts` may be NULL and is copied,
 * as the target is.
 * PK_ERR_INVALID for a target that is none of these or a policy that is not known, PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_channel_new(pk_channel **ret_channel, pk_loop *loop, const char *target,
                                       const pk_channel_opts *opts);

/*
 * Closes the connection. Calls that go on fail with UNAVAILABLE; replies that are held stay. Takes
 * NULL; returns NULL.
 */
PK_API pk_channel *pk_channel_free(pk_channel *channel);

/* gRPC's connectivity-semantics-and-api.md. */
typedef enum pk_channel_state {
    PK_CHANNEL_IDLE,       /* no connection, and no call that needs one */
    PK_CHANNEL_CONNECTING, /* the first calls wait */
    PK_CHANNEL_READY,
    PK_CHANNEL_TRANSIENT_FAILURE, /* the last attempt failed; another follows after a pause */
    PK_CHANNEL_SHUTDOWN,          /* it is being freed */
} pk_channel_state;

PK_API pk_channel_state pk_channel_get_state(const pk_channel *channel);

/* Begins to connect where the channel is idle. */
PK_API void pk_channel_connect(pk_channel *channel);

/*
 * Done with NULL once the state is another than `seen`, at once where it is already. Belongs to the
 * loop's scope.
 */
PK_API PK_NODISCARD pk_future pk_channel_changed(pk_channel *channel, pk_channel_state seen);

/* Ends the pause after a failed attempt: the next one begins now, and pauses start small again. */
PK_API void pk_channel_reset_backoff(pk_channel *channel);

/*
 * Has an interceptor asked (interceptor.h) for calls that begin from now on, inside those that are
 * there: the first one is the outermost. `self` is borrowed as long as calls of the channel go on.
 * PK_ERR_NOMEM.
 */
PK_API PK_NODISCARD int pk_channel_intercept(pk_channel *channel, pk_interceptor *fn, void *self);

/* ---- Calls ---- */

typedef struct pk_call_opts {
    size_t size;         /* set by PK_CALL_OPTS */
    uint64_t timeout_ms; /* from now; 0: none. The earliest of timeout, deadline, parent holds */
    uint64_t deadline;   /* nanoseconds of pk_loop_now; 0: none */
    /* Fields of the request: name and value in turn, ended by NULL. Copied. */
    const char *const *fields;
    const pk_metadata *metadata; /* further ones, as of another call's; copied */
    const char *compression;     /* "gzip" or "deflate"; NULL: messages go as they are */
    const char *authority;       /* instead of the channel's; copied */
    bool wait_for_ready;         /* through failed attempts; a deadline tells the last one */
    /*
     * The server's call that this one is made for: passes its deadline on, its end (any end)
     * cancels this one, and the reply, reader and writer live as long as it.
     */
    pk_call *parent;
    /* Gets the call, or NULL without memory; owed pk_call_unref. Metadata is kept for it. */
    pk_call **call;
    const pk_call_credentials *credentials; /* besides the channel's; copied */
} pk_call_opts;

#define PK_CALL_OPTS(...) (&(pk_call_opts){.size = sizeof(pk_call_opts), ##__VA_ARGS__})

/*
 * A unary call of any path ("/package.Service/Method") with raw bytes: `request` is the message as
 * it is sent, the value of the future a const pk_slice * with the reply. Otherwise as a stub.
 */
PK_API PK_NODISCARD pk_future pk_call_generic(pk_channel *channel, const char *path,
                                              pk_slice request, const pk_call_opts *opts);

/*
 * Gives a call of pk_call_opts.call back, which goes on if it has not ended. Its reply and status
 * may be gone then. Takes NULL; returns NULL.
 */
PK_API pk_call *pk_call_unref(pk_call *call);

/* How a client's call ended, details included; NULL while it goes on. */
PK_API const pk_status *pk_call_status(const pk_call *call);

/* What the server sent with the status; empty before that. Its headers: pk_call_metadata. */
PK_API const pk_metadata *pk_call_received_trailers(pk_call *call);

/* The same as a copy that interceptors may change, as pk_call_edit_metadata; NULL for a server's. */
PK_API pk_metadata *pk_call_edit_received_trailers(pk_call *call);

PK_END_DECLS

#endif
