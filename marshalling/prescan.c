/*
 * Reservation before the first record: the strategy that counts the root's records in a pass of its
 * own. Called by generated roots where the plugin's slab-reserve=prescan chose it; hints only.
 */
#include "marshalling/decoder.h"

#include <string.h>

#define PRESCAN_BYTES_MIN 256u  /* shorter payloads are not counted */
#define PRESCAN_ELEMENTS_MIN 4u /* fewer elements are left to growth */
#define PRESCAN_BYTES_FACTOR 8u /* bytes reserved per byte of payload, at most */

/*
 * Counts the records of the plan's fields on the root's level, length-delimited ones only. Stops at
 * groups and at whatever does not look right: the decoder will say what it is.
 */
static void count_records(const pk_reserve_plan *plan, uint8_t *p, uint8_t *end, uint32_t *counts)
{
    while (p < end) {
        pk_varint tag = pk_read_varint(p);
        if (!tag.next || tag.next > end || tag.next - p > PK_TAG_BYTES_MAX)
            return;
        p = tag.next;
        pk_varint value;
        switch (tag.value & 7) {
        case PK_WIRE_VARINT:
            value = pk_read_varint(p);
            if (!value.next || value.next > end)
                return;
            p = value.next;
            break;
        case PK_WIRE_64:
        case PK_WIRE_32: {
            ptrdiff_t size = (tag.value & 7) == PK_WIRE_64 ? 8 : 4;
            if (end - p < size)
                return;
            p += size;
            break;
        }
        case PK_WIRE_LENGTH:
            value = pk_read_varint(p);
            if (!value.next || value.next > end || value.next - p > PK_LENGTH_BYTES_MAX ||
                value.value > (size_t) (end - value.next))
                return;
            p = value.next + value.value;
            for (unsigned i = 0; i < plan->field_count; i++) {
                if (plan->fields[i].number == tag.value >> 3)
                    counts[i]++;
            }
            break;
        default:
            return;
        }
    }
}

void pk_decoder_prescan(pk_decoder *decoder, const pk_reserve_plan *plan, void *message, uint8_t *p,
                        uint8_t *end)
{
    uint32_t counts[PK_RESERVE_FIELDS_MAX] = {0};
    size_t payload = (size_t) (end - p);
    if (payload < PRESCAN_BYTES_MIN || plan->field_count > PK_RESERVE_FIELDS_MAX)
        return;
    count_records(plan, p, end, counts);
    uint64_t elements = 0;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < plan->field_count; i++) {
        elements += counts[i];
        bytes += (uint64_t) counts[i] * (plan->fields[i].object_size + sizeof(void *));
    }
    if (elements < PRESCAN_ELEMENTS_MIN)
        return;
    if (bytes > (uint64_t) payload * PRESCAN_BYTES_FACTOR)
        bytes = (uint64_t) payload * PRESCAN_BYTES_FACTOR;
    /* One block for all of it: taken, and at once given back to the decoder. */
    if (bytes > (size_t) (decoder->limit - decoder->at) && bytes < decoder->budget) {
        uint8_t *piece = pk_decoder_grow(decoder, (size_t) bytes);
        if (!piece)
            return;
        decoder->at = piece;
    }
    for (unsigned i = 0; i < plan->field_count; i++) {
        uint8_t *member = (uint8_t *) message + plan->fields[i].offset;
        void *array_there;
        memcpy(&array_there, member, sizeof array_there);
        if (counts[i] == 0 || array_there)
            continue;
        pk_array array = pk_decoder_new_array(decoder, NULL, 0, counts[i], sizeof(void *));
        if (!array.next)
            return;
        memcpy(member, &array.next, sizeof array.next);
    }
}
