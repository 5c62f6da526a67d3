/*
 * Wire primitives that generated packers and decoders inline: unaligned little-endian loads and
 * stores, varints, zigzag, text that is plainly ASCII.
 *
 * Each shortcut (eight bytes at once, SSE2) has a plain path beside it for 32-bit and big-endian
 * machines. Programs do not call these functions themselves; they may change with PK_GENERATED_ABI.
 * Source of all formats: https://protobuf.dev/programming-guides/encoding/.
 */
#ifndef PEKOE_GENERATED_WIRE_H
#define PEKOE_GENERATED_WIRE_H

#include <pekoe/base.h>

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

PK_BEGIN_DECLS

#define PK_OUT_OF_LINE static __attribute__((noinline, unused))

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PK_LITTLE_ENDIAN 1
#else
#define PK_LITTLE_ENDIAN 0
#endif

/* Eight bytes in one register pay off; without it the byte loops are used. */
#if PK_LITTLE_ENDIAN && UINTPTR_MAX > 0xffffffffu && !defined(PK_WIRE_PLAIN)
#define PK_WIDE 1
#else
#define PK_WIDE 0
#endif

#if defined(__SSE2__) && !defined(PK_WIRE_PLAIN)
#define PK_SSE2 1
#else
#define PK_SSE2 0
#endif

enum {
    PK_WIRE_VARINT = 0,
    PK_WIRE_64 = 1,
    PK_WIRE_LENGTH = 2,
    PK_WIRE_GROUP = 3,
    PK_WIRE_GROUP_END = 4,
    PK_WIRE_32 = 5,
};

#define PK_VARINT_MAX 10u         /* bytes of the longest varint */
#define PK_LENGTH_MAX 0x7fffffffu /* bytes of the longest length-delimited value */
#define PK_TAG_BYTES_MAX 5        /* bytes of the longest varint that may be a tag */
#define PK_LENGTH_BYTES_MAX 5     /* bytes of the longest varint that may say a length */
#define PK_FIELD_NUMBER_MAX 0x1fffffffu

/* ---- Loads and stores --------------------------------------------------------------------- */

PK_INLINE uint32_t pk_load16(const uint8_t *p)
{
    return (uint32_t) p[0] | (uint32_t) p[1] << 8;
}

PK_INLINE uint32_t pk_load32(const uint8_t *p)
{
#if PK_LITTLE_ENDIAN
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
#else
    return pk_load16(p) | pk_load16(p + 2) << 16;
#endif
}

PK_INLINE uint64_t pk_load64(const uint8_t *p)
{
#if PK_LITTLE_ENDIAN
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
#else
    return (uint64_t) pk_load32(p) | (uint64_t) pk_load32(p + 4) << 32;
#endif
}

PK_INLINE void pk_store32(uint8_t *p, uint32_t value)
{
#if PK_LITTLE_ENDIAN
    memcpy(p, &value, sizeof value);
#else
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t) (value >> (8 * i));
#endif
}

PK_INLINE void pk_store64(uint8_t *p, uint64_t value)
{
#if PK_LITTLE_ENDIAN
    memcpy(p, &value, sizeof value);
#else
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t) (value >> (8 * i));
#endif
}

PK_INLINE float pk_load_float(const uint8_t *p)
{
    uint32_t bits = pk_load32(p);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PK_INLINE double pk_load_double(const uint8_t *p)
{
    uint64_t bits = pk_load64(p);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PK_INLINE uint32_t pk_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

PK_INLINE uint64_t pk_double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- Integers ----------------------------------------------------------------------------- */

PK_INLINE int32_t pk_unzigzag32(uint32_t value)
{
    return (int32_t) ((value >> 1) ^ (0u - (value & 1)));
}

PK_INLINE int64_t pk_unzigzag64(uint64_t value)
{
    return (int64_t) ((value >> 1) ^ (UINT64_C(0) - (value & 1)));
}

PK_INLINE uint32_t pk_zigzag32(int32_t value)
{
    return ((uint32_t) value << 1) ^ (value < 0 ? UINT32_MAX : 0);
}

PK_INLINE uint64_t pk_zigzag64(int64_t value)
{
    return ((uint64_t) value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

/* Bytes of a varint, 1 to 10. */
PK_INLINE unsigned pk_varint_size(uint64_t value)
{
    unsigned bits = 64u - (unsigned) __builtin_clzll(value | 1);
    return (bits * 9 + 64) / 64;
}

/* What a reader of a varint returns: the value, and where the next byte stands. */
typedef struct pk_varint {
    uint64_t value;
    uint8_t *next; /* NULL: no end within 10 bytes */
} pk_varint;

#if PK_WIDE
/* The varint in the eight bytes of `word`, `stops` having the top bit of each byte that is a last. */
PK_INLINE uint64_t pk_varint_of_word(uint64_t word, uint64_t stops)
{
    /* Keep the bytes up to the first one without a continuation bit, then close the gaps. */
    word &= stops ^ (stops - 1);
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (uint32_t) word | (word >> 32) << 28;
}
#endif

/*
 * A varint of any length. Reads up to 10 bytes from `p` whatever its length is, so padding must
 * follow. Bits above 64 are cut, as protobuf's own parsers do.
 */
PK_OUT_OF_LINE pk_varint pk_read_varint_long(uint8_t *p)
{
    pk_varint result = {0, NULL};
#if PK_WIDE
    uint64_t word = pk_load64(p);
    uint64_t stops = ~word & UINT64_C(0x8080808080808080);
    if (PK_LIKELY(stops != 0)) {
        result.value = pk_varint_of_word(word, stops);
        result.next = p + ((unsigned) __builtin_ctzll(stops) / 8 + 1);
        return result;
    }
#endif
    uint64_t value = 0;
    for (unsigned i = 0; i < PK_VARINT_MAX; i++) {
        value |= (uint64_t) (p[i] & 0x7f) << (7 * i);
        if (p[i] < 0x80) {
            result.value = value;
            result.next = p + i + 1;
            return result;
        }
    }
    return result;
}

/* The same with one and two bytes read in line; where `next` is NULL the value is undefined. */
PK_INLINE pk_varint pk_read_varint(uint8_t *p)
{
    pk_varint result;
    result.value = p[0];
    result.next = p + 1;
    if (PK_LIKELY(result.value < 0x80))
        return result;
    uint64_t second = p[1];
    if (second < 0x80) {
        result.value += (second << 7) - 0x80;
        result.next = p + 2;
        return result;
    }
    return pk_read_varint_long(p);
}

/* Writes a varint so that it ends just before `at`; returns its first byte. */
PK_INLINE uint8_t *pk_write_varint_before(uint8_t *at, uint64_t value)
{
    if (PK_LIKELY(value < 0x80)) {
        *--at = (uint8_t) value;
        return at;
    }
    if (PK_LIKELY(value < 0x4000)) {
        at[-1] = (uint8_t) (value >> 7);
        at[-2] = (uint8_t) (value | 0x80);
        return at - 2;
    }
    uint8_t *start = at - pk_varint_size(value);
    uint8_t *p = start;
    do {
        *p++ = (uint8_t) (value | 0x80);
        value >>= 7;
    } while (value >= 0x80);
    *p = (uint8_t) value;
    return start;
}

/* ---- Text --------------------------------------------------------------------------------- */

#if PK_SSE2
/* How many of the 16 bytes, from the first one on, are between 1 and 127 (are not 0). */
PK_INLINE size_t pk_count_plain16(const uint8_t *text)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *) (const void *) text);
    __m128i good = _mm_cmpgt_epi8(bytes, _mm_setzero_si128());
    /* movemask sets 16 bits, so a 1 is always found. */
    return (size_t) __builtin_ctz(~(unsigned) _mm_movemask_epi8(good));
}

PK_INLINE size_t pk_count_not_nul16(const uint8_t *text)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *) (const void *) text);
    __m128i nul = _mm_cmpeq_epi8(bytes, _mm_setzero_si128());
    return (size_t) __builtin_ctz((unsigned) _mm_movemask_epi8(nul) | 0x10000);
}
#endif

/*
 * Whether the first `length` bytes are all between 1 and 127. False says nothing about them: it is
 * also the answer for what is too long to be looked at here. Reads up to 32 bytes whatever the
 * length is.
 */
PK_INLINE bool pk_text_is_plain(const uint8_t *text, size_t length)
{
#if PK_SSE2
    if (PK_LIKELY(pk_count_plain16(text) >= length))
        return true;
    return length - 16 <= 16 && pk_count_plain16(text) == 16 &&
           pk_count_plain16(text + 16) >= length - 16;
#else
    if (length > 32)
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((uint8_t) (text[i] - 1) >= 0x7f)
            return false;
    }
    return true;
#endif
}

/* The same for bytes that may be anything but 0. */
PK_INLINE bool pk_text_has_no_nul(const uint8_t *text, size_t length)
{
#if PK_SSE2
    if (PK_LIKELY(pk_count_not_nul16(text) >= length))
        return true;
    return length - 16 <= 16 && pk_count_not_nul16(text) == 16 &&
           pk_count_not_nul16(text + 16) >= length - 16;
#else
    if (length > 32)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == 0)
            return false;
    }
    return true;
#endif
}

PK_END_DECLS

#endif
