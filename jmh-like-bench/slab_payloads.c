/* Fills the messages from a fixed sequence of random numbers: every run measures the same bytes. */
#include "jmh-like-bench/slab_payloads.h"

#include <pekoe/generated_messages.h>

#include "slab_shapes.pekoe.h"
#include "slab_unchecked.pekoe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
    pk_arena *arena;
    uint64_t state;
    bool dense;
};

static uint64_t next_random(struct source *source)
{
    uint64_t x = source->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    source->state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d) >> 11;
}

static size_t below(struct source *source, size_t limit)
{
    return (size_t) (next_random(source) % limit);
}

static bool chance(struct source *source, unsigned percent)
{
    return source->dense || below(source, 100) < percent;
}

static void *take(struct source *source, size_t size)
{
    return pk_arena_zeroed(source->arena, size);
}

static void *start(struct source *source, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = take(source, type->sizeof_message);
    type->message_init(message);
    return message;
}

static char *text(struct source *source, size_t least, size_t most)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz-0123456789";
    size_t length = least + below(source, most - least + 1);
    char *made = take(source, length + 1);
    for (size_t i = 0; i < length; i++)
        made[i] = letters[below(source, sizeof letters - 1)];
    return made;
}

static ProtobufCBinaryData bytes(struct source *source, size_t least, size_t most)
{
    ProtobufCBinaryData made;
    made.len = least + below(source, most - least + 1);
    made.data = take(source, made.len);
    for (size_t i = 0; i < made.len; i++)
        made.data[i] = (uint8_t) below(source, 256);
    return made;
}

/* As many bytes on the wire as a version, a time or an amount usually takes: 1 to 6. */
static int64_t number(struct source *source)
{
    return (int64_t) (next_random(source) & ((UINT64_C(1) << (7 * (1 + below(source, 6)))) - 1));
}

static double real(struct source *source)
{
    return (double) next_random(source) / 1024.0;
}

/* ---- Flat ----------------------------------------------------------------------------------- */

static SlabShapes__BatchMeta *batch_meta(struct source *source)
{
    SlabShapes__BatchMeta *meta = start(source, &slab_shapes__batch_meta__descriptor);
    meta->created = 1700000000000 + (int64_t) below(source, 1u << 30);
    if ((meta->has_lifetime = chance(source, 50)))
        meta->lifetime = (uint32_t) below(source, 100000);
    if ((meta->has_weight = chance(source, 50)))
        meta->weight = (float) below(source, 1000);
    return meta;
}

static SlabShapes__BatchItem *batch_item(struct source *source)
{
    SlabShapes__BatchItem *item = start(source, &slab_shapes__batch_item__descriptor);
    item->key = text(source, 8, 20);
    item->value = bytes(source, 8, 32);
    if ((item->has_expected_version = chance(source, 70)))
        item->expected_version = number(source);
    if (chance(source, 50))
        item->client = text(source, 6, 16);
    if ((item->has_flag = chance(source, 60)))
        item->flag = (protobuf_c_boolean) below(source, 2);
    if ((item->has_score = chance(source, 50)))
        item->score = real(source);
    if ((item->has_stamp = chance(source, 50)))
        item->stamp = next_random(source);
    if ((item->has_flavor = chance(source, 60)))
        item->flavor = (SlabShapes__Flavor) below(source, 3);
    if (chance(source, 50))
        item->meta = batch_meta(source);
    return item;
}

static void *batch(struct source *source, size_t count)
{
    SlabShapes__SlabBatch *made = start(source, &slab_shapes__slab_batch__descriptor);
    if ((made->has_shard = chance(source, 90)))
        made->shard = (int64_t) below(source, 1000);
    made->n_items = count;
    made->items = take(source, count * sizeof(void *));
    for (size_t i = 0; i < count; i++)
        made->items[i] = batch_item(source);
    made->n_ranges = count / 4;
    made->ranges = take(source, count * sizeof(void *));
    for (size_t i = 0; i < made->n_ranges; i++) {
        SlabShapes__BatchRange *range = start(source, &slab_shapes__batch_range__descriptor);
        range->from = text(source, 8, 16);
        range->to = text(source, 8, 16);
        if ((range->has_delta = chance(source, 60)))
            range->delta = number(source) - 1000;
        made->ranges[i] = range;
    }
    made->n_index = count / 8;
    made->index = take(source, count * sizeof(void *));
    for (size_t i = 0; i < made->n_index; i++) {
        SlabShapes__SlabBatch__IndexEntry *entry =
            start(source, &slab_shapes__slab_batch__index_entry__descriptor);
        entry->key = text(source, 12, 12);
        entry->value = batch_item(source);
        made->index[i] = entry;
    }
    if (chance(source, 70))
        made->meta = batch_meta(source);
    made->extra_case = SLAB_SHAPES__SLAB_BATCH__EXTRA_NOTE;
    made->note = text(source, 10, 40);
    made->n_ids = count;
    made->ids = take(source, count * sizeof(int64_t));
    for (size_t i = 0; i < count; i++)
        made->ids[i] = number(source);
    return made;
}

/* ---- Nested --------------------------------------------------------------------------------- */

static SlabShapes__OrderAddress *order_address(struct source *source)
{
    SlabShapes__OrderAddress *address = start(source, &slab_shapes__order_address__descriptor);
    address->street = text(source, 10, 28);
    address->city = text(source, 5, 14);
    if (chance(source, 40))
        address->region = text(source, 2, 10);
    if ((address->has_zip = chance(source, 80)))
        address->zip = (uint32_t) (10000 + below(source, 89999));
    if (chance(source, 50)) {
        SlabShapes__OrderPlace *place = start(source, &slab_shapes__order_place__descriptor);
        place->latitude = real(source);
        place->longitude = real(source);
        if ((place->has_accuracy = chance(source, 50)))
            place->accuracy = (float) below(source, 100);
        address->place = place;
    }
    return address;
}

static SlabShapes__OrderProduct *order_product(struct source *source)
{
    SlabShapes__OrderProduct *product = start(source, &slab_shapes__order_product__descriptor);
    product->title = text(source, 8, 30);
    if (chance(source, 40))
        product->thumbnail = bytes(source, 8, 32);
    product->n_attributes = source->dense ? 2 : below(source, 3);
    product->attributes = take(source, 2 * sizeof(void *));
    for (size_t i = 0; i < product->n_attributes; i++) {
        SlabShapes__OrderProduct__AttributesEntry *entry =
            start(source, &slab_shapes__order_product__attributes_entry__descriptor);
        entry->key = text(source, 3, 10);
        entry->value = text(source, 3, 12);
        product->attributes[i] = entry;
    }
    if (chance(source, 50)) {
        SlabShapes__OrderSize *size = start(source, &slab_shapes__order_size__descriptor);
        if ((size->has_width = chance(source, 70)))
            size->width = real(source);
        if ((size->has_height = chance(source, 70)))
            size->height = real(source);
        if ((size->has_depth = chance(source, 70)))
            size->depth = real(source);
        if ((size->has_weight = chance(source, 70)))
            size->weight = below(source, 1000000);
        product->size = size;
    }
    if (chance(source, 50))
        product->brand = text(source, 4, 12);
    return product;
}

static SlabShapes__OrderLine *order_line(struct source *source)
{
    SlabShapes__OrderLine *line = start(source, &slab_shapes__order_line__descriptor);
    line->sku = text(source, 6, 14);
    if ((line->has_quantity = chance(source, 80)))
        line->quantity = (int64_t) below(source, 200);
    if ((line->has_price = chance(source, 80)))
        line->price = real(source);
    if (chance(source, 80))
        line->product = order_product(source);
    line->n_discounts = source->dense ? 1 : below(source, 3);
    line->discounts = take(source, 2 * sizeof(void *));
    for (size_t i = 0; i < line->n_discounts; i++) {
        SlabShapes__OrderDiscount *discount =
            start(source, &slab_shapes__order_discount__descriptor);
        discount->code = text(source, 4, 8);
        if ((discount->has_amount = chance(source, 70)))
            discount->amount = number(source);
        line->discounts[i] = discount;
    }
    if (chance(source, 30)) {
        SlabShapes__OrderShipment *shipment =
            start(source, &slab_shapes__order_shipment__descriptor);
        shipment->carrier = text(source, 3, 10);
        if (chance(source, 60))
            shipment->destination = order_address(source);
        if ((shipment->has_expected = chance(source, 50)))
            shipment->expected = next_random(source);
        line->fulfilment_case = SLAB_SHAPES__ORDER_LINE__FULFILMENT_SHIPMENT;
        line->shipment = shipment;
    } else if (chance(source, 50)) {
        line->fulfilment_case = SLAB_SHAPES__ORDER_LINE__FULFILMENT_PICKUP;
        line->pickup = text(source, 6, 20);
    }
    return line;
}

static void *order(struct source *source, size_t count)
{
    SlabShapes__NestedOrder *made = start(source, &slab_shapes__nested_order__descriptor);
    made->id = text(source, 16, 16);
    if ((made->has_sequence = chance(source, 80)))
        made->sequence = number(source);
    SlabShapes__OrderParty *customer = start(source, &slab_shapes__order_party__descriptor);
    customer->name = text(source, 8, 24);
    if (chance(source, 50))
        customer->tax_id = text(source, 9, 12);
    if (chance(source, 80))
        customer->billing = order_address(source);
    if (chance(source, 50))
        customer->delivery = order_address(source);
    made->customer = customer;
    made->n_lines = count;
    made->lines = take(source, count * sizeof(void *));
    for (size_t i = 0; i < count; i++)
        made->lines[i] = order_line(source);
    made->n_notes = count / 8 + 1;
    made->notes = take(source, made->n_notes * sizeof(void *));
    for (size_t i = 0; i < made->n_notes; i++) {
        SlabShapes__NestedOrder__NotesEntry *entry =
            start(source, &slab_shapes__nested_order__notes_entry__descriptor);
        SlabShapes__OrderNote *note = start(source, &slab_shapes__order_note__descriptor);
        note->author = text(source, 5, 14);
        note->text = text(source, 20, 60);
        if ((note->has_time = chance(source, 70)))
            note->time = 1700000000 + (int64_t) below(source, 1u << 24);
        entry->key = text(source, 6, 10);
        entry->value = note;
        made->notes[i] = entry;
    }
    SlabShapes__OrderTotals *totals = start(source, &slab_shapes__order_totals__descriptor);
    totals->has_subtotal = totals->has_tax = totals->has_total = 1;
    totals->subtotal = number(source);
    totals->tax = number(source);
    totals->total = number(source);
    made->totals = totals;
    return made;
}

/* ---- Writes and hello ----------------------------------------------------------------------- */

static void *write_request(struct source *source, size_t count)
{
    SlabShapes__WriteRequest *made = start(source, &slab_shapes__write_request__descriptor);
    made->has_shard = 1;
    made->shard = (int64_t) below(source, 1000);
    made->n_puts = count;
    made->puts = take(source, count * sizeof(void *));
    for (size_t i = 0; i < count; i++) {
        SlabShapes__WritePut *put = start(source, &slab_shapes__write_put__descriptor);
        put->key = text(source, 10, 24);
        put->value = bytes(source, 128, 128);
        if ((put->has_expected_version = chance(source, 50)))
            put->expected_version = number(source);
        if ((put->has_session = chance(source, 30)))
            put->session = number(source);
        if (chance(source, 30))
            put->client = text(source, 8, 16);
        if (chance(source, 30))
            put->partition = text(source, 6, 12);
        made->puts[i] = put;
    }
    return made;
}

static void *hello(struct source *source, size_t count)
{
    SlabShapes__HelloRequest *made = start(source, &slab_shapes__hello_request__descriptor);
    made->name = text(source, 9, 9);
    (void) count;
    return made;
}

/* --------------------------------------------------------------------------------------------- */

static const struct shape {
    const char *name;
    const pk_message_type *type;
    const pk_message_type *unchecked_type;
    void *(*make)(struct source *source, size_t count);
    size_t counts[5]; /* up to a 0 */
} shapes[] = {
    {"SlabBatch",
     &slab_shapes_slab_batch_type,
     &slab_unchecked_slab_batch_type,
     batch,
     {8, 32, 128}},
    {"NestedOrder",
     &slab_shapes_nested_order_type,
     &slab_unchecked_nested_order_type,
     order,
     {1, 8, 32, 128}},
    {"WriteRequest",
     &slab_shapes_write_request_type,
     &slab_unchecked_write_request_type,
     write_request,
     {1, 32, 128}},
    {"HelloRequest",
     &slab_shapes_hello_request_type,
     &slab_unchecked_hello_request_type,
     hello,
     {1}},
};

static const struct shape *find_shape(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (strcmp(name, shapes[i].name) == 0)
            return &shapes[i];
    }
    return NULL;
}

bool pk_bench_payloads_have(const char *name, size_t count)
{
    const struct shape *shape = find_shape(name);
    bool has = shape && count == 0;
    for (size_t i = 0; shape && shape->counts[i] != 0; i++)
        has |= shape->counts[i] == count;
    return has;
}

static bool add_payload(struct pk_bench_payloads *payloads, size_t index, void *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(length + PK_DECODE_PADDING);
    if (!packed)
        return false;
    protobuf_c_message_pack(message, packed);
    memset(packed + length, 0, PK_DECODE_PADDING);
    payloads->messages[index] = message;
    payloads->bytes[index] = packed;
    payloads->lengths[index] = length;
    if (length > payloads->largest)
        payloads->largest = length;
    return true;
}

bool pk_bench_payloads_init(struct pk_bench_payloads *payloads, const char *name, size_t count,
                            bool dense)
{
    const struct shape *shape = find_shape(name);
    memset(payloads, 0, sizeof *payloads);
    if (!shape || pk_memory_init(&payloads->memory, NULL))
        return false;
    pk_arena_init(&payloads->arena, &payloads->memory, 0);
    payloads->type = shape->type;
    payloads->unchecked_type = shape->unchecked_type;
    struct source source = {&payloads->arena, 88172645463325252u + count, dense};
    for (size_t i = 0; i < PK_BENCH_PAYLOADS; i++) {
        if (!add_payload(payloads, i, shape->make(&source, count)))
            return false;
    }
    return true;
}

void pk_bench_payloads_done(struct pk_bench_payloads *payloads)
{
    for (size_t i = 0; i < PK_BENCH_PAYLOADS; i++)
        free(payloads->bytes[i]);
    pk_arena_done(&payloads->arena);
    pk_memory_done(&payloads->memory);
}
