/* C++ protobuf for SlabBenchmark, in three ways of owning messages: see slab_peers.h. */
#include "jmh-like-bench/slab_peers.h"
#include "slab_shapes.pb.h"

#include <google/protobuf/arena.h>

#include <memory>
#include <string>
#include <vector>

namespace pb = google::protobuf;

struct pk_bench_peer {
    const pb::Message *prototype;
    std::unique_ptr<pb::Message> reused;
    std::vector<char> block;
    std::unique_ptr<pb::Arena> arena;
    std::vector<std::unique_ptr<pb::Message>> messages;
    std::vector<uint8_t> packed;
};

static pk_bench_peer *open_peer(const char *name, const uint8_t *const *payloads,
                                const size_t *lengths, size_t count)
{
    slab_shapes::HelloRequest linked; /* so that the file's descriptors are registered */
    (void) linked;
    const pb::Descriptor *type = pb::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
    if (!type)
        return nullptr;
    pk_bench_peer *peer = new pk_bench_peer;
    peer->prototype = pb::MessageFactory::generated_factory()->GetPrototype(type);
    peer->reused.reset(peer->prototype->New());
    peer->block.resize(1 << 20);
    pb::ArenaOptions options;
    options.initial_block = peer->block.data();
    options.initial_block_size = peer->block.size();
    peer->arena.reset(new pb::Arena(options));
    size_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        peer->messages.emplace_back(peer->prototype->New());
        if (!peer->messages.back()->ParseFromArray(payloads[i], (int) lengths[i])) {
            delete peer;
            return nullptr;
        }
        largest = lengths[i] > largest ? lengths[i] : largest;
    }
    peer->packed.resize(largest);
    return peer;
}

static void close_peer(pk_bench_peer *peer)
{
    delete peer;
}

static bool decode_fresh(pk_bench_peer *peer, const uint8_t *bytes, size_t length)
{
    std::unique_ptr<pb::Message> message(peer->prototype->New());
    return message->ParseFromArray(bytes, (int) length);
}

static bool decode_reused(pk_bench_peer *peer, const uint8_t *bytes, size_t length)
{
    return peer->reused->ParseFromArray(bytes, (int) length);
}

static bool decode_arena(pk_bench_peer *peer, const uint8_t *bytes, size_t length)
{
    pb::Message *message = peer->prototype->New(peer->arena.get());
    bool parsed = message->ParseFromArray(bytes, (int) length);
    peer->arena->Reset();
    return parsed;
}

static const uint8_t *pack(pk_bench_peer *peer, size_t index, size_t *ret_length)
{
    const pb::Message &message = *peer->messages[index];
    *ret_length = message.ByteSizeLong();
    message.SerializeWithCachedSizesToArray(peer->packed.data());
    return peer->packed.data();
}

extern "C" {
const struct pk_bench_peer_kind pk_bench_cpp = {"cpp", open_peer, close_peer, decode_fresh, pack};
const struct pk_bench_peer_kind pk_bench_cpp_reused = {"cpp-reused", open_peer, close_peer,
                                                       decode_reused, pack};
const struct pk_bench_peer_kind pk_bench_cpp_arena = {"cpp-arena", open_peer, close_peer,
                                                      decode_arena, pack};
}
