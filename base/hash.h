// SPDX-License-Identifier: MIT
/* base/hash.h - hash functions: xxh64 (tables, content keys), XXH3-128 (manifests) and SHA-256
 * (checksums, goldens); and a map from strings to integers. */
#ifndef HONE_BASE_HASH_H
#define HONE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

uint64_t hash_u64(const void *p, size_t n);
/* Writes the XXH3-128 hash as 32 hex digits and a NUL. */
void hash_xxh128_hex(char out[33], const void *p, size_t n);
/* Incremental XXH3-128. */
struct xxh128;
/* Returns a running 128-bit hash; release it with xxh128_free(). */
struct xxh128 *xxh128_new(void);
void xxh128_add(struct xxh128 *x, const void *p, size_t n);
void xxh128_hex(const struct xxh128 *x, char out[33]); /* hash of the data so far */
/* Starts the hash from the beginning. */
void xxh128_reset(struct xxh128 *x);
void xxh128_free(struct xxh128 *x);

struct sha256 {
    uint32_t h[8];
    uint64_t n_bytes;
    uint8_t block[64];
};
void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_hex(struct sha256 *s, char out[65]); /* finishes; 64 hex digits and a NUL */
/* Writes the file's hash as 64 hex digits and a NUL to out. */
int sha256_file(const char *path, char out[65], struct err *e);

/* Open-addressing map from byte strings to int64 (>= 0). Keys are borrowed, not copied. */
struct strmap;
/* Returns an empty map with room for `expected` keys; it grows beyond. */
struct strmap *strmap_new(size_t expected);
/* Creates a map whose size depends on an input file. Returns NULL and sets *e to ERR_SYS, with
 * `what` in the message, if memory runs out. */
struct strmap *strmap_try_new(size_t expected, const char *what, struct err *e);
void strmap_free(struct strmap *m);
/* Adds a key. Returns false and keeps the old value if the key exists. */
int strmap_add(struct strmap *m, const char *key, size_t len, int64_t value);
int64_t strmap_get(const struct strmap *m, const char *key, size_t len); /* -1: absent */

#endif
