/*
 * upb for SlabBenchmark, from Debian's libgrpc, which ships the library without headers: what is
 * called is declared here. Its tables are made from the schema when it is opened.
 */
#include "jmh-like-bench/slab_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct upb_Arena upb_Arena;
typedef struct upb_DefPool upb_DefPool;
typedef struct upb_alloc upb_alloc;

struct upb_Status {
    bool ok;
    char text[511];
};

extern const char google_protobuf_FileDescriptorProto_msginit[];
extern upb_alloc upb_alloc_global;

upb_Arena *upb_Arena_Init(void *memory, size_t size, upb_alloc *allocator);
void upb_Arena_Free(upb_Arena *arena);
upb_DefPool *upb_DefPool_New(void);
void upb_DefPool_Free(upb_DefPool *pool);
const void *upb_DefPool_AddFile(upb_DefPool *pool, const void *file, struct upb_Status *status);
const void *upb_DefPool_FindMessageByName(const upb_DefPool *pool, const char *name);
const void *upb_MessageDef_MiniTable(const void *message);
void *_upb_Message_New(const void *table, upb_Arena *arena);
int upb_Decode(const char *bytes, size_t length, void *message, const void *table,
               const void *extensions, int options, upb_Arena *arena);
int upb_Encode(const void *message, const void *table, int options, upb_Arena *arena,
               char **ret_bytes, size_t *ret_length);

#define BLOCK (1u << 20)

struct pk_bench_peer {
    upb_Arena *kept; /* of the schema and the messages */
    upb_DefPool *pool;
    const void *table;
    void *block;
    upb_Arena *last; /* what holds the bytes of the last pack */
    void *messages[64];
};

/* The one file of the descriptor set that the build made of slab_shapes.proto. */
static void *read_schema(upb_Arena *arena)
{
    static char set[65536];
    FILE *file = fopen(PK_BENCH_SLAB_SCHEMA, "rb");
    if (!file)
        return NULL;
    size_t length = fread(set, 1, sizeof set, file);
    fclose(file);
    size_t start = 1;
    while (start < length && (set[start] & 0x80))
        start++;
    start++;
    void *schema = _upb_Message_New(google_protobuf_FileDescriptorProto_msginit, arena);
    if (start > length || !schema ||
        upb_Decode(set + start, length - start, schema, google_protobuf_FileDescriptorProto_msginit,
                   NULL, 0, arena) != 0)
        return NULL;
    return schema;
}

static void close_peer(struct pk_bench_peer *peer)
{
    if (peer->last)
        upb_Arena_Free(peer->last);
    if (peer->pool)
        upb_DefPool_Free(peer->pool);
    if (peer->kept)
        upb_Arena_Free(peer->kept);
    free(peer->block);
    free(peer);
}

static bool open_schema(struct pk_bench_peer *peer, const char *name)
{
    struct upb_Status status = {true, ""};
    peer->kept = upb_Arena_Init(NULL, 0, &upb_alloc_global);
    peer->pool = upb_DefPool_New();
    peer->block = malloc(BLOCK);
    if (!peer->kept || !peer->pool || !peer->block)
        return false;
    const void *schema = read_schema(peer->kept);
    if (!schema || !upb_DefPool_AddFile(peer->pool, schema, &status))
        return false;
    const void *type = upb_DefPool_FindMessageByName(peer->pool, name);
    peer->table = type ? upb_MessageDef_MiniTable(type) : NULL;
    return peer->table != NULL;
}

static struct pk_bench_peer *open_peer(const char *name, const uint8_t *const *payloads,
                                       const size_t *lengths, size_t count)
{
    struct pk_bench_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    bool open = open_schema(peer, name);
    for (size_t i = 0; open && i < count; i++) {
        peer->messages[i] = _upb_Message_New(peer->table, peer->kept);
        open = peer->messages[i] &&
               upb_Decode((const char *) payloads[i], lengths[i], peer->messages[i], peer->table,
                          NULL, 0, peer->kept) == 0;
    }
    if (!open) {
        close_peer(peer);
        return NULL;
    }
    return peer;
}

static bool decode(struct pk_bench_peer *peer, const uint8_t *bytes, size_t length)
{
    upb_Arena *arena = upb_Arena_Init(peer->block, BLOCK, &upb_alloc_global);
    void *message = _upb_Message_New(peer->table, arena);
    int status = upb_Decode((const char *) bytes, length, message, peer->table, NULL, 0, arena);
    upb_Arena_Free(arena);
    return status == 0;
}

static const uint8_t *pack(struct pk_bench_peer *peer, size_t index, size_t *ret_length)
{
    char *bytes = NULL;
    if (peer->last)
        upb_Arena_Free(peer->last);
    peer->last = upb_Arena_Init(peer->block, BLOCK, &upb_alloc_global);
    if (upb_Encode(peer->messages[index], peer->table, 0, peer->last, &bytes, ret_length) != 0)
        return NULL;
    return (const uint8_t *) bytes;
}

const struct pk_bench_peer_kind pk_bench_upb = {"upb", open_peer, close_peer, decode, pack};
