/*
 * What generated packers and slab decoders stand on: the packer, the decoder, and the functions
 * that they inline. Included by x.pekoe.c; programs do not call these functions themselves.
 *
 * A generated file checks PK_GENERATED_ABI, so output of an older plugin does not compile against
 * a newer library in silence. How a decoder works, and why it looks the way it does, is told in
 * docs/messages.md; the rules that each function here relies on:
 *
 * - `p` is the reading position, `end` the end of the message that is being read. PK_DECODE_PADDING
 *   readable bytes follow the root's end, so a field is read without a test of its bounds: `p` may
 *   run past `end` by a few bytes and is compared at the next length, or when the chain of fields
 *   is through.
 * - *end is 0 while a message is being read. No tag has a first byte of 0, so a comparison with a
 *   tag never succeeds at the end.
 * - `tag` is the first byte of the record at `p`. Text stays where it is: behind one, that byte is
 *   taken out of the buffer and a NUL is left in its place.
 */
#ifndef PEKOE_GENERATED_MESSAGES_H
#define PEKOE_GENERATED_MESSAGES_H

#include <pekoe/generated_wire.h>
#include <pekoe/message.h>

PK_BEGIN_DECLS

#define PK_GENERATED_ABI 1

/* Readable bytes behind what is decoded; the first of them is also written to. */
#define PK_DECODE_PADDING 64u

/* ---- Packing ------------------------------------------------------------------------------ */

/*
 * Where a packer writes: back to front, ending flush with `end`. Between `start` and the packer's
 * position is what is free.
 */
struct pk_packer {
    uint8_t *start; /* first usable byte */
    uint8_t *end;   /* one past the last usable byte */
    /*
     * Makes room for `need` bytes before `at`: moves [at, end) to the end of a larger buffer, sets
     * start and end, and returns the new position; NULL with the buffer as it was.
     */
    uint8_t *(*grow)(struct pk_packer *packer, uint8_t *at, size_t need);
    void *owner;
    int error; /* PK_ERR_* after a failure */
};

/* Room for `need` bytes before `at`, by `grow` where there is none; NULL after a failure. */
PK_API uint8_t *pk_packer_make_room(pk_packer *packer, uint8_t *at, size_t need);

PK_INLINE uint8_t *pk_pack_room(pk_packer *packer, uint8_t *at, size_t need)
{
    if (PK_LIKELY((size_t) (at - packer->start) >= need))
        return at;
    return pk_packer_make_room(packer, at, need);
}

PK_INLINE uint8_t *pk_pack_byte(uint8_t *at, uint8_t byte)
{
    *--at = byte;
    return at;
}

PK_INLINE uint8_t *pk_pack_varint(uint8_t *at, uint64_t value)
{
    return pk_write_varint_before(at, value);
}

PK_INLINE uint8_t *pk_pack_fixed32(uint8_t *at, uint32_t value)
{
    at -= 4;
    pk_store32(at, value);
    return at;
}

PK_INLINE uint8_t *pk_pack_fixed64(uint8_t *at, uint64_t value)
{
    at -= 8;
    pk_store64(at, value);
    return at;
}

/* Copies bytes so that they end before `at`. Short ones take no call: their halves overlap. */
PK_INLINE uint8_t *pk_pack_bytes(uint8_t *at, const void *bytes, size_t length)
{
    const uint8_t *from = (const uint8_t *) bytes;
    at -= length;
    if (length - 8 <= 8) {
        uint64_t first, last;
        memcpy(&first, from, 8);
        memcpy(&last, from + length - 8, 8);
        memcpy(at, &first, 8);
        memcpy(at + length - 8, &last, 8);
    } else if (length < 8) {
        if (length >= 4) {
            uint32_t first, last;
            memcpy(&first, from, 4);
            memcpy(&last, from + length - 4, 4);
            memcpy(at, &first, 4);
            memcpy(at + length - 4, &last, 4);
        } else if (length > 0) {
            at[0] = from[0];
            at[length / 2] = from[length / 2];
            at[length - 1] = from[length - 1];
        }
    } else if (length <= 32) {
        struct {
            uint64_t words[2];
        } first, last;
        memcpy(&first, from, 16);
        memcpy(&last, from + length - 16, 16);
        memcpy(at, &first, 16);
        memcpy(at + length - 16, &last, 16);
    } else {
        memcpy(at, from, length);
    }
    return at;
}

/* The fields that the decoder did not know, as they came, the last one first. */
PK_API uint8_t *pk_pack_unknown_fields(pk_packer *packer, uint8_t *at,
                                       const ProtobufCMessage *message);

/* Arrays of numbers. A kind says how the elements look in memory and on the wire. */
typedef enum pk_number {
    PK_NUMBER_INT32, /* and open enums: sign-extended varint */
    PK_NUMBER_UINT32,
    PK_NUMBER_SINT32,
    PK_NUMBER_INT64, /* and uint64 */
    PK_NUMBER_SINT64,
    PK_NUMBER_FIXED32, /* and sfixed32, float */
    PK_NUMBER_FIXED64, /* and sfixed64, double */
    PK_NUMBER_BOOL,
} pk_number;

/* A packed record (tag, length, elements), or one record per element; NULL after a failure. */
PK_API uint8_t *pk_pack_numbers_packed(pk_packer *packer, uint8_t *at, uint32_t number,
                                       pk_number kind, const void *array, size_t count);
PK_API uint8_t *pk_pack_numbers(pk_packer *packer, uint8_t *at, uint32_t number, pk_number kind,
                                const void *array, size_t count);

/* A tag of any length. */
PK_INLINE uint8_t *pk_pack_tag(uint8_t *at, uint32_t tag)
{
    return pk_write_varint_before(at, tag);
}

/* ---- Decoding ----------------------------------------------------------------------------- */

/*
 * The state of one decode. Memory is carved from a block of the call's arena; the block's end and
 * the budget are one limit, so that the budget costs nothing until a block is full.
 */
struct pk_decoder {
    uint8_t *at;         /* next free byte, aligned to PK_PIECE_ALIGNMENT */
    uint8_t *limit;      /* no piece may end behind it without pk_decoder_grow */
    int depth;           /* levels of messages that may still be entered */
    int error;           /* PK_ERR_* after a failure */
    const char *problem; /* what was wrong, static text */

    /* From here on only the library looks. */
    void *arena;                      /* struct pk_arena, or NULL: nothing beyond `limit` */
    size_t budget;                    /* bytes that may be taken beyond `limit` */
    pk_reserve reserve;               /* how arrays are sized */
    struct pk_required_log *required; /* pieces that lacked required fields, or NULL */
};

/* The slow path of pk_decoder_take: a new block, or NULL where memory or the budget is spent. */
PK_API void *pk_decoder_grow(pk_decoder *decoder, size_t size);

/* Notes a failure with a static text; returns false, so that readers say `return` with it. */
PK_API bool pk_decoder_fail(pk_decoder *decoder, int error, const char *problem);

/* The usual failures. They return nothing, so that inline callers fail by a plain constant. */
PK_API __attribute__((cold)) void pk_decoder_truncated(pk_decoder *decoder);
PK_API __attribute__((cold)) void pk_decoder_bad_varint(pk_decoder *decoder);
PK_API __attribute__((cold)) void pk_decoder_long_length(pk_decoder *decoder);
PK_API __attribute__((cold)) void pk_decoder_too_deep(pk_decoder *decoder);

/*
 * Whether `length` bytes from `p` on pass `end`; `p` itself may have passed it. Lengths are below
 * 2^31 or sizes of objects, so that the sum cannot wrap where addresses have 64 bits.
 */
PK_INLINE bool pk_passes(const uint8_t *p, size_t length, const uint8_t *end)
{
#if UINTPTR_MAX > 0xffffffffu
    return (uintptr_t) p + length > (uintptr_t) end;
#else
    return p > end || length > (size_t) (end - p);
#endif
}

/* Pieces start at multiples of it: no member of protobuf-c's structs wants more. */
#define PK_PIECE_ALIGNMENT 8u

/* Memory for one object, aligned to PK_PIECE_ALIGNMENT, contents undefined, into *ret_piece. */
PK_INLINE bool pk_decoder_take(pk_decoder *decoder, size_t size, void **ret_piece)
{
    size_t rounded = (size + (PK_PIECE_ALIGNMENT - 1)) & ~(size_t) (PK_PIECE_ALIGNMENT - 1);
    uint8_t *piece = decoder->at;
    if (PK_UNLIKELY(pk_passes(piece, rounded, decoder->limit))) {
        *ret_piece = pk_decoder_grow(decoder, size);
        return *ret_piece != NULL;
    }
    decoder->at = piece + rounded;
    *ret_piece = piece;
    return true;
}

typedef uint64_t pk_two_words __attribute__((vector_size(16), aligned(8), may_alias));
typedef uint64_t pk_one_word __attribute__((aligned(8), may_alias));

/*
 * Clears a piece of memory with stores of 16 bytes and, at the end, of 8, up to 7 bytes more than
 * `size`: pieces of a decoder are that large. For constant sizes; compilers make a slow instruction
 * of memset here.
 */
PK_INLINE void pk_clear_piece(void *piece, size_t size)
{
    pk_two_words *block = (pk_two_words *) piece;
    const pk_two_words zero = {0, 0};
    size_t words = (size + 7) / 8;
    if (size > 512) {
        memset(piece, 0, size);
        return;
    }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 32
#endif
    for (size_t i = 0; i < words / 2; i++)
        block[i] = zero;
    if (words % 2 != 0)
        ((pk_one_word *) piece)[words - 1] = 0;
}

/* Closes a message for the time of its reading: see the head of this file. */
PK_INLINE uint8_t pk_decode_close(uint8_t *end)
{
    uint8_t byte = *end;
    *end = 0;
    return byte;
}

/* Opens it again for its parent, whose next record starts at `end`. */
PK_INLINE void pk_decode_open(uint8_t *end, uint8_t byte)
{
    *end = byte;
}

/* Behind text: takes out the first byte of the next record, or the 0 at the end. */
PK_INLINE uint8_t pk_decode_end_text(uint8_t *p)
{
    uint8_t tag = *p;
    *p = 0;
    return tag;
}

/* One level down; false at the limit of depth. Come back with pk_decode_leave. */
PK_INLINE bool pk_decode_enter(pk_decoder *decoder)
{
    if (PK_UNLIKELY(--decoder->depth < 0)) {
        pk_decoder_too_deep(decoder);
        return false;
    }
    return true;
}

PK_INLINE void pk_decode_leave(pk_decoder *decoder)
{
    decoder->depth++;
}

PK_INLINE bool pk_decode_varint(pk_decoder *decoder, uint8_t **place, uint64_t *value)
{
    pk_varint varint = pk_read_varint(*place);
    if (PK_UNLIKELY(!varint.next)) {
        pk_decoder_bad_varint(decoder);
        return false;
    }
    *value = varint.value;
    *place = varint.next;
    return true;
}

/*
 * A length that has been compared with what is left. One that is longer than a number of 32 bits can
 * be is refused, whatever its value, as protobuf's own parsers do.
 */
PK_INLINE bool pk_decode_length(pk_decoder *decoder, uint8_t **place, uint8_t *end, size_t *length)
{
    uint8_t *p = *place;
    uint64_t value = *p++;
    if (value >= 0x80) {
        uint64_t second = *p++;
        value += (second << 7) - 0x80;
        if (PK_UNLIKELY(second >= 0x80)) {
            pk_varint varint = pk_read_varint_long(p - 2);
            if (!varint.next || varint.next - (p - 2) > PK_LENGTH_BYTES_MAX) {
                pk_decoder_long_length(decoder);
                return false;
            }
            if (varint.value > PK_LENGTH_MAX) {
                pk_decoder_truncated(decoder);
                return false;
            }
            value = varint.value;
            p = varint.next;
        }
    }
    if (PK_UNLIKELY(pk_passes(p, (size_t) value, end))) {
        pk_decoder_truncated(decoder);
        return false;
    }
    *length = (size_t) value;
    *place = p;
    return true;
}

/* Whether text of any length may stand in a char *; notes the failure where it may not. */
PK_API bool pk_decode_check_utf8(pk_decoder *decoder, const uint8_t *text, size_t length);
PK_API bool pk_decode_check_nul(pk_decoder *decoder, const uint8_t *text, size_t length);

/* The same for a string that is kept as bytes, which may hold a NUL. */
PK_API bool pk_decode_check_binary(pk_decoder *decoder, const uint8_t *text, size_t length);

/* A string that must be UTF-8 (proto3). The NUL is the caller's. */
PK_INLINE bool pk_decode_utf8(pk_decoder *decoder, uint8_t **place, uint8_t *end, char **text)
{
    size_t length;
    if (!pk_decode_length(decoder, place, end, &length))
        return false;
    uint8_t *bytes = *place;
    if (PK_UNLIKELY(!pk_text_is_plain(bytes, length)) &&
        !pk_decode_check_utf8(decoder, bytes, length))
        return false;
    *text = (char *) bytes;
    *place = bytes + length;
    return true;
}

/* A string of proto2: any bytes but NUL. */
PK_INLINE bool pk_decode_text(pk_decoder *decoder, uint8_t **place, uint8_t *end, char **text)
{
    size_t length;
    if (!pk_decode_length(decoder, place, end, &length))
        return false;
    uint8_t *bytes = *place;
    if (PK_UNLIKELY(!pk_text_has_no_nul(bytes, length)) &&
        !pk_decode_check_nul(decoder, bytes, length))
        return false;
    *text = (char *) bytes;
    *place = bytes + length;
    return true;
}

PK_INLINE bool pk_decode_bytes(pk_decoder *decoder, uint8_t **place, uint8_t *end,
                               ProtobufCBinaryData *bytes)
{
    size_t length;
    if (!pk_decode_length(decoder, place, end, &length))
        return false;
    bytes->len = length;
    bytes->data = *place;
    *place += length;
    return true;
}

/*
 * An array that is being filled. Arrays of a decoder carry their capacity in front of the first
 * element; a repeated field of a decoded message is such an array or NULL.
 */
typedef struct pk_array {
    uint8_t *next; /* where the next element goes */
    uint8_t *full; /* end of the capacity */
} pk_array;

#define PK_ARRAY_HEADER 8u

PK_INLINE pk_array pk_array_of(void *elements, size_t count, size_t element_size)
{
    pk_array array = {NULL, NULL};
    if (elements) {
        size_t capacity;
        memcpy(&capacity, (uint8_t *) elements - PK_ARRAY_HEADER, sizeof capacity);
        array.next = (uint8_t *) elements + count * element_size;
        array.full = (uint8_t *) elements + capacity * element_size;
    }
    return array;
}

/*
 * A larger copy of a full array whose elements take `used` bytes; its `next` is NULL after a
 * failure. `p` stands behind the tag of the record that found the array full; what follows may be
 * counted.
 */
PK_API pk_array pk_array_grow(pk_decoder *decoder, const void *elements, size_t used,
                              size_t element_size, uint32_t tag, uint8_t *p, uint8_t *end);

/* Room for one more element; `member` is the address of the message's pointer to the elements. */
PK_INLINE bool pk_array_room(pk_decoder *decoder, pk_array *array, void *member,
                             size_t element_size, uint32_t tag, uint8_t *p, uint8_t *end)
{
    if (PK_UNLIKELY(array->next == array->full)) {
        uint8_t *elements;
        memcpy(&elements, member, sizeof elements);
        size_t used = (size_t) (array->next - elements);
        *array = pk_array_grow(decoder, elements, used, element_size, tag, p, end);
        if (!array->next)
            return false;
        elements = array->next - used;
        memcpy(member, &elements, sizeof elements);
    }
    return true;
}

PK_INLINE void pk_array_add_pointer(pk_array *array, const void *element)
{
    memcpy(array->next, &element, sizeof element);
    array->next += sizeof element;
}

PK_INLINE void pk_array_add_bytes(pk_array *array, ProtobufCBinaryData element)
{
    memcpy(array->next, &element, sizeof element);
    array->next += sizeof element;
}

/* How many elements there are; `elements` is the message's pointer. */
PK_INLINE size_t pk_array_count(pk_array array, const void *elements, size_t element_size)
{
    return (size_t) (array.next - (const uint8_t *) elements) / element_size;
}

/*
 * Numbers of a repeated field, `elements` and `count` being its members: a packed record (`p`
 * behind the tag), or all records with `tag` that follow each other, the first one's tag read.
 * Returns where the next tag stands, NULL after a failure.
 */
PK_API uint8_t *pk_decode_packed(pk_decoder *decoder, uint8_t *p, uint8_t *end, pk_number kind,
                                 void *elements, size_t *count);
PK_API uint8_t *pk_decode_unpacked(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t tag,
                                   pk_number kind, void *elements, size_t *count);

/*
 * The same for a closed enum (proto2), whose unlisted values become unknown fields. Takes either
 * form: `tag` is the one that was read.
 */
PK_API uint8_t *pk_decode_closed_enums(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t tag,
                                       const ProtobufCEnumDescriptor *type,
                                       ProtobufCMessage *message, void *elements, size_t *count);

/* Whether a closed enum lists the value. */
PK_API bool pk_enum_lists(const ProtobufCEnumDescriptor *type, int32_t value);

/* Keeps a closed enum's unlisted value as an unknown field; the value starts at `p`. */
PK_API bool pk_decode_unlisted(pk_decoder *decoder, ProtobufCMessage *message, uint32_t number,
                               uint8_t *p);

/* A tag as it came, overlong or not; `next` NULL after a failure. */
PK_API pk_varint pk_decode_tag(pk_decoder *decoder, uint8_t *p, uint8_t *end);

/* The same, with tags of one and two bytes read in line. */
PK_INLINE bool pk_decode_next_tag(pk_decoder *decoder, uint8_t **place, uint8_t *end, uint32_t *tag)
{
    uint8_t *p = *place;
    uint32_t first = p[0];
    uint32_t second = p[1];
    if (PK_LIKELY(first - 8 < 0x78)) {
        *tag = first;
        *place = p + 1;
        return true;
    }
    /* At the end the second byte is 0. */
    if (PK_LIKELY(first >= 0x80 && second - 1 < 0x7f)) {
        *tag = first + (second << 7) - 0x80;
        *place = p + 2;
        return true;
    }
    pk_varint varint = pk_decode_tag(decoder, p, end);
    if (!varint.next)
        return false;
    *tag = (uint32_t) varint.value;
    *place = varint.next;
    return true;
}

/*
 * A record that the chain of fields did not take. A tag that was longer than it need be is written
 * again in its short form, and the place where it starts is returned: the chain will know it. Else
 * the record is kept as an unknown field. Returns where to go on, NULL after a failure.
 */
PK_API uint8_t *pk_decode_other(pk_decoder *decoder, ProtobufCMessage *message, uint8_t *p,
                                uint8_t *end);

/* Keeps the record behind a tag that has been read as an unknown field. */
PK_API uint8_t *pk_decode_unknown(pk_decoder *decoder, ProtobufCMessage *message, uint32_t tag,
                                  uint8_t *p, uint8_t *end);

/*
 * Where the group that starts at `p`, behind its tag, ends: the first byte of its end tag, and in
 * *ret_next what follows that. NULL after a failure.
 */
PK_API uint8_t *pk_decode_group_end(pk_decoder *decoder, uint8_t *p, uint8_t *end, uint32_t number,
                                    uint8_t **ret_next);

/*
 * Required fields. A piece that lacks some is noted and judged when the root is through, since
 * another piece of the same message may bring them. `seen` has one bit per required field.
 */
PK_API bool pk_decode_lacks(pk_decoder *decoder, void *message, unsigned word, uint64_t missing);

/* Another piece of a message that holds required fields follows. */
PK_API bool pk_decode_again(pk_decoder *decoder, void *message);

/* A member of a oneof was replaced: what it lacked is forgotten. */
PK_API bool pk_decode_replaced(pk_decoder *decoder, void *message);

/* PK_RESERVE_PRESCAN: counts the root's records and makes room for them. Hints only. */
PK_API void pk_decoder_prescan(pk_decoder *decoder, const pk_reserve_plan *plan, void *message,
                               uint8_t *p, uint8_t *end);

/* The slow path of pk_decoder_finish: it failed, or required fields were missing somewhere. */
PK_API int pk_decoder_judge(pk_decoder *decoder, bool decoded);

/* Ends a root's decode: judges what was noted. 0 or the decoder's error. */
PK_INLINE int pk_decoder_finish(pk_decoder *decoder, bool decoded)
{
    return PK_LIKELY(decoded && !decoder->required) ? 0 : pk_decoder_judge(decoder, decoded);
}

PK_END_DECLS

#endif
