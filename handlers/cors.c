/* Cross-origin requests: see cors.h. */
#include "handlers/cors.h"

#include "core/loop.h"
#include "handlers/call.h"

#include <stdio.h>
#include <string.h>

#define MAX_AGE_DEFAULT 7200u /* seconds: more than that no browser keeps */

/* What a page needs to read of any reply. */
#define ALWAYS_EXPOSED "grpc-status, grpc-message, grpc-status-details-bin"

struct pk_cors {
    pk_cors_opts opts;
    bool any; /* "*" is among the origins */
    size_t exposed_size;
    char exposed[]; /* the value of access-control-expose-headers */
};

/* ---- The rules ---- */

/* A list of names that can stand in a field. */
static bool names_valid(const char *const *names)
{
    for (; names && *names; names++) {
        if (**names == '\0')
            return false;
        for (const char *at = *names; *at; at++) {
            if ((unsigned char) *at <= ' ' || (unsigned char) *at >= 0x7f || *at == ',')
                return false;
        }
    }
    return true;
}

int pk_cors_new(pk_cors **ret_cors, pk_memory *memory, const pk_cors_opts *opts_in)
{
    pk_cors_opts opts = {.size = sizeof opts};
    memcpy(&opts, opts_in, opts_in->size < sizeof opts ? opts_in->size : sizeof opts);
    if (!names_valid(opts.origins) || !names_valid(opts.exposed))
        return PK_ERR_INVALID;
    size_t size = sizeof ALWAYS_EXPOSED;
    for (const char *const *name = opts.exposed; name && *name; name++)
        size += 2 + strlen(*name);
    pk_cors *cors = pk_memory_get(memory, sizeof *cors + size);
    if (!cors)
        return PK_ERR_NOMEM;
    *cors = (pk_cors){.opts = opts, .exposed_size = size};
    if (!opts.max_age_s)
        cors->opts.max_age_s = MAX_AGE_DEFAULT;
    for (const char *const *origin = opts.origins; origin && *origin; origin++)
        cors->any |= strcmp(*origin, "*") == 0;
    char *at = stpcpy(cors->exposed, ALWAYS_EXPOSED);
    for (const char *const *name = opts.exposed; name && *name; name++)
        at = stpcpy(stpcpy(at, ", "), *name);
    *ret_cors = cors;
    return 0;
}

pk_cors *pk_cors_free(pk_cors *cors, pk_memory *memory)
{
    if (cors)
        pk_memory_put(memory, cors, sizeof *cors + cors->exposed_size);
    return NULL;
}

/* Compared byte by byte, as the Fetch standard serializes origins. */
static bool allowed(const pk_cors *cors, pk_slice origin)
{
    if (cors->any)
        return true;
    for (const char *const *one = cors->opts.origins; one && *one; one++) {
        if (strlen(*one) == origin.length && memcmp(*one, origin.bytes, origin.length) == 0)
            return true;
    }
    return cors->opts.allow && cors->opts.allow(cors->opts.self, origin);
}

/* With credentials "*" means nothing to a browser, so the origin itself is named. */
static bool names_origin(const pk_cors *cors)
{
    return !cors->any || cors->opts.credentials;
}

/* ---- Preflights ---- */

/* Lives as long as its exchange. */
struct preflight {
    pk_field fields[8];
    size_t count;
    char max_age[12];
};

static void add(struct preflight *preflight, pk_slice name, pk_slice value)
{
    preflight->fields[preflight->count++] = (pk_field){.name = name, .value = value};
}

static pk_slice find(const pk_head *head, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < head->count; i++) {
        const pk_field *field = &head->fields[i];
        if (field->name.length == length && memcmp(field->name.bytes, name, length) == 0)
            return field->value;
    }
    return (pk_slice){NULL, 0};
}

static void on_preflight_closed(pk_exchange *exchange)
{
    pk_memory_put(&exchange->loop->memory, exchange->user, sizeof(struct preflight));
}

static void fill(const pk_cors *cors, struct preflight *preflight, pk_slice origin, pk_slice asked)
{
    int digits = snprintf(preflight->max_age, sizeof preflight->max_age, "%u",
                          (unsigned) cors->opts.max_age_s);
    add(preflight, (pk_slice) PK_SLICE("access-control-allow-origin"),
        names_origin(cors) ? origin : (pk_slice) PK_SLICE("*"));
    if (cors->opts.credentials)
        add(preflight, (pk_slice) PK_SLICE("access-control-allow-credentials"),
            (pk_slice) PK_SLICE("true"));
    add(preflight, (pk_slice) PK_SLICE("access-control-allow-methods"),
        (pk_slice) PK_SLICE("POST"));
    if (asked.length > 0)
        add(preflight, (pk_slice) PK_SLICE("access-control-allow-headers"), asked);
    add(preflight, (pk_slice) PK_SLICE("access-control-max-age"),
        (pk_slice){(const uint8_t *) preflight->max_age, (size_t) digits});
}

bool pk_cors_answer_preflight(const pk_cors *cors, pk_exchange *exchange, const pk_head *head)
{
    static const pk_exchange_events events = {.on_closed = on_preflight_closed};
    pk_slice verb = pk_head_value(head, PK_FIELD_METHOD);
    pk_slice origin = pk_head_value(head, PK_FIELD_ORIGIN);
    if (verb.length != 7 || memcmp(verb.bytes, "OPTIONS", 7) != 0 || origin.length == 0 ||
        find(head, "access-control-request-method").length == 0)
        return false;
    struct preflight *preflight = pk_memory_get(&exchange->loop->memory, sizeof *preflight);
    if (!preflight)
        return false;
    preflight->count = 0;
    bool right = allowed(cors, origin);
    if (right)
        fill(cors, preflight, origin, find(head, "access-control-request-headers"));
    add(preflight, (pk_slice) PK_SLICE("vary"),
        (pk_slice) PK_SLICE("origin, access-control-request-method, "
                            "access-control-request-headers"));
    exchange->events = &events;
    exchange->user = preflight;
    exchange->ops->reply_strict(exchange, &(pk_reply){.http_status = right ? 204 : 403,
                                                      .fields = preflight->fields,
                                                      .field_count = preflight->count});
    return true;
}

/* ---- Calls ---- */

static void put(pk_call *call, const char *name, const char *value)
{
    /* Without memory the call answers so itself; anything else was checked. */
    (void) !pk_metadata_add(pk_call_headers(call), name, value);
}

void pk_cors_mark(const pk_cors *cors, pk_call *call, const pk_head *head)
{
    pk_slice origin = pk_head_value(head, PK_FIELD_ORIGIN);
    /* Caches must know also of replies to requests without an origin. */
    if (names_origin(cors))
        put(call, "vary", "origin");
    if (origin.length == 0 || !allowed(cors, origin))
        return;
    put(call, "access-control-allow-origin",
        names_origin(cors) ? pk_call_copy(call, origin.bytes, origin.length) : "*");
    if (cors->opts.credentials)
        put(call, "access-control-allow-credentials", "true");
    put(call, "access-control-expose-headers", cors->exposed);
}
