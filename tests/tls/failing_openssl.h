/*
 * Refuses OpenSSL memory: it asks the C library, not the loop. For programs of one file, which get it
 * by including this. Nothing is refused before a test says so.
 */
#ifndef PEKOE_TESTS_FAILING_OPENSSL_H
#define PEKOE_TESTS_FAILING_OPENSSL_H

#include <openssl/crypto.h>

#include <stdbool.h>
#include <stdlib.h>

static bool openssl_counts;     /* only then requests are counted, and refused */
static size_t openssl_requests; /* so far */
static size_t openssl_fail_at;  /* the request that is refused, 1-based; 0: none */
static int openssl_taken;       /* whether OpenSSL asks here */

static bool openssl_refuses(void)
{
    return openssl_counts && ++openssl_requests == openssl_fail_at;
}

static void *openssl_malloc(size_t size, const char *file, int line)
{
    return openssl_refuses() ? NULL : malloc(size);
}

static void *openssl_realloc(void *block, size_t size, const char *file, int line)
{
    return openssl_refuses() ? NULL : realloc(block, size);
}

static void openssl_free(void *block, const char *file, int line)
{
    free(block);
}

/* OpenSSL must not have asked before; libraries of the test runner do, when they are loaded. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void openssl_take(void)
{
    openssl_taken = CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const openssl_first)(void) = openssl_take;

#endif
