/*
 * Requests and replies as bytes, made and taken apart without the code that is measured: for what
 * benchmarks are fed with, and for their checks.
 */
#ifndef PEKOE_BENCH_WIRE_BYTES_H
#define PEKOE_BENCH_WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each writes at most `room` bytes to `out` and returns how many; 0 where they do not fit. */
size_t pk_bench_gzip(const uint8_t *bytes, size_t length, uint8_t *out, size_t room);
size_t pk_bench_gunzip(const uint8_t *bytes, size_t length, uint8_t *out, size_t room);

/* 4 characters for 3 bytes, with padding; `out` has room for them. Returns the length. */
size_t pk_bench_encode_base64(const uint8_t *bytes, size_t length, uint8_t *out);
/* The same back; values may follow each other. */
size_t pk_bench_decode_base64(const uint8_t *text, size_t length, uint8_t *out);

/* A message behind its prefix, compressed where it shall be. Returns the length. */
size_t pk_bench_frame(const uint8_t *message, size_t length, bool compressed, uint8_t *out,
                      size_t room);

#endif
