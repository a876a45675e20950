// SPDX-License-Identifier: MIT
/* base/hash.c - hashes (xxHash from the library, SHA-256 as specified in FIPS 180-4) and a string
 * map.
 *
 * The map uses open addressing with linear probing and is at most half full. Its hash is seeded
 * randomly in every process, so a crafted file cannot degrade it; no output depends on the order of
 * its slots. */
#include "base/hash.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/mem.h"

uint64_t hash_u64(const void *p, size_t n) {
    return XXH64(n ? p : "", n, 0);
}

void hash_xxh128_hex(char out[33], const void *p, size_t n) {
    XXH128_hash_t h = XXH3_128bits(n ? p : "", n);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

struct xxh128 {
    XXH3_state_t *state;
};

struct xxh128 *xxh128_new(void) {
    struct xxh128 *x = xcalloc(1, sizeof *x);
    while (!(x->state = XXH3_createState()))
        free(xmalloc(4096)); /* ends the process, or frees part of the fund */
    xxh128_reset(x);
    return x;
}
void xxh128_add(struct xxh128 *x, const void *p, size_t n) {
    if (n) (void)XXH3_128bits_update(x->state, p, n);
}
void xxh128_hex(const struct xxh128 *x, char out[33]) {
    XXH128_hash_t h = XXH3_128bits_digest(x->state);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}
void xxh128_reset(struct xxh128 *x) {
    (void)XXH3_128bits_reset(x->state);
}
void xxh128_free(struct xxh128 *x) {
    if (!x) return;
    (void)XXH3_freeState(x->state);
    free(x);
}

// clang-format off
static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
// clang-format on

static inline uint32_t rotate_right(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static uint32_t load_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One round of SHA-256. The caller rotates the arguments instead of moving eight values. */
#define SHA_ROUND(a, b, c, d, e, f, g, h, i)                                                       \
    do {                                                                                           \
        uint32_t t = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +        \
                     (g ^ (e & (f ^ g))) + sha_k[i] + w[i];                                        \
        d += t;                                                                                    \
        h = t + (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +                 \
            ((a & b) | (c & (a | b)));                                                             \
    } while (0)

/* Mixes n_blocks blocks of 64 bytes into the state. */
static void sha_blocks(uint32_t state[8], const uint8_t *p, size_t n_blocks) {
    for (; n_blocks; n_blocks--, p += 64) {
        uint32_t w[64];
        for (int i = 0; i < 16; i++) w[i] = load_be32(p + 4 * i);
        for (int i = 16; i < 64; i++) {
            uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) + w[i - 7] +
                   (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i += 8) {
            SHA_ROUND(a, b, c, d, e, f, g, h, i);
            SHA_ROUND(h, a, b, c, d, e, f, g, i + 1);
            SHA_ROUND(g, h, a, b, c, d, e, f, i + 2);
            SHA_ROUND(f, g, h, a, b, c, d, e, i + 3);
            SHA_ROUND(e, f, g, h, a, b, c, d, i + 4);
            SHA_ROUND(d, e, f, g, h, a, b, c, i + 5);
            SHA_ROUND(c, d, e, f, g, h, a, b, i + 6);
            SHA_ROUND(b, c, d, e, f, g, h, a, i + 7);
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}
#undef SHA_ROUND

void sha256_init(struct sha256 *s) {
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->h, first, sizeof first);
    s->n_bytes = 0;
}

void sha256_add(struct sha256 *s, const void *p, size_t n) {
    const uint8_t *src = p;
    size_t have = (size_t)(s->n_bytes % 64);
    s->n_bytes += n;
    if (have && n) {
        size_t take = n < 64 - have ? n : 64 - have;
        memcpy(s->block + have, src, take);
        src += take, n -= take;
        if (have + take < 64) return;
        sha_blocks(s->h, s->block, 1);
    }
    sha_blocks(s->h, src, n / 64);
    if (n % 64) memcpy(s->block, src + n / 64 * 64, n % 64);
}

void sha256_hex(struct sha256 *s, char out[65]) {
    uint64_t n_bits = s->n_bytes * 8;
    uint8_t tail[72] = {0x80};
    /* Pad to 56 mod 64 bytes. */
    size_t pad = 1 + (size_t)(119 - s->n_bytes % 64) % 64;
    for (int i = 0; i < 8; i++) tail[pad + (size_t)i] = (uint8_t)(n_bits >> (56 - 8 * i));
    sha256_add(s, tail, pad + 8);
    for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", (unsigned)s->h[i]);
}

int sha256_file(const char *path, char out[65], struct err *e) {
    struct map m;
    TRY(map_open(&m, path, e));
    struct sha256 s;
    sha256_init(&s);
    const uint64_t piece = UINT64_C(64) << 20; /* bounds resident memory */
    for (uint64_t off = 0; off < m.size; off += piece) {
        uint64_t n = m.size - off < piece ? m.size - off : piece;
        sha256_add(&s, m.data + off, (size_t)n);
        map_drop(&m, off, n);
    }
    sha256_hex(&s, out);
    map_close(&m);
    return 0;
}

/* ---- string map ----------------------------------------------------------------------------- */

struct slot {
    const char *key; /* NULL: free slot */
    size_t len;
    uint64_t hash;
    int64_t value;
};
struct strmap {
    struct slot *slot;
    size_t n, cap; /* capacity: a power of two */
    uint64_t seed;
};

/* Returns the number of slots, a power of two, for the expected number of keys. */
static size_t slots_for(size_t expected) {
    size_t cap = 16;
    while (cap < expected && cap < SIZE_MAX / 4 / sizeof(struct slot)) cap *= 2;
    return 2 * cap;
}

/* Returns an empty map that owns the cap slots and has its own seed. */
static struct strmap *new_map(struct slot *slot, size_t cap) {
    struct strmap *m = xcalloc(1, sizeof *m);
    m->cap = cap;
    m->slot = slot;
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t where = (uint64_t)(uintptr_t)m->slot;
    m->seed = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ where << 17 ^ (uint64_t)t.tv_sec;
    return m;
}

struct strmap *strmap_new(size_t expected) {
    const size_t cap = slots_for(expected);
    return new_map(xcalloc(cap, sizeof(struct slot)), cap);
}

struct strmap *strmap_try_new(size_t expected, const char *what, struct err *e) {
    const size_t cap = slots_for(expected);
    struct slot *slot = try_calloc(cap, sizeof *slot, what, e);
    return slot ? new_map(slot, cap) : NULL;
}

void strmap_free(struct strmap *m) {
    if (!m) return;
    free(m->slot);
    free(m);
}

/* Returns the key's slot, or the free slot for it. */
static struct slot *find_slot(const struct strmap *m, const char *key, size_t len, uint64_t hash) {
    for (size_t i = (size_t)hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct slot *s = &m->slot[i];
        if (!s->key) return s;
        if (s->hash == hash && s->len == len && memcmp(s->key, key, len) == 0) return s;
    }
}

/* Doubles the number of slots and moves the keys over. */
static void grow_map(struct strmap *m) {
    struct strmap bigger = *m;
    bigger.cap *= 2;
    bigger.slot = xcalloc(bigger.cap, sizeof *bigger.slot);
    for (size_t i = 0; i < m->cap; i++) {
        const struct slot *s = &m->slot[i];
        if (s->key) *find_slot(&bigger, s->key, s->len, s->hash) = *s;
    }
    free(m->slot);
    *m = bigger;
}

int strmap_add(struct strmap *m, const char *key, size_t len, int64_t value) {
    if (!len) key = "";
    uint64_t hash = XXH3_64bits_withSeed(key, len, m->seed);
    struct slot *s = find_slot(m, key, len, hash);
    if (s->key) return false;
    *s = (struct slot){key, len, hash, value};
    if (++m->n > m->cap / 2) grow_map(m);
    return true;
}

int64_t strmap_get(const struct strmap *m, const char *key, size_t len) {
    if (!len) key = "";
    const struct slot *s = find_slot(m, key, len, XXH3_64bits_withSeed(key, len, m->seed));
    return s->key ? s->value : -1;
}
