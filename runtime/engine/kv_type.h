// SPDX-License-Identifier: MIT
/* runtime/engine/kv_type.h - how a row of the KV cache is stored: one table row per type. A row is
 * the key or the value of one head at one position. Files of sequences (seq_file.c) hold rows as
 * they are here, under the name of their type. docs/design/kv-cache.md has formulas and
 * measurements. */
#ifndef HONE_RUNTIME_ENGINE_KV_TYPE_H
#define HONE_RUNTIME_ENGINE_KV_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kern.h"

enum { KV_MAX_DIM = 1024 }; /* of a row that is rotated */

struct tq_code {                                                /* a rotated code: kv_turbo.c */
    int bits;                                                   /* of its codebook */
    float (*scale)(double yy, double yc, double cc, int64_t d); /* from y.y, y.c, c.c of d values */
    bool qjl;                                                   /* a sign more per value */
};
/* Defaults: the type that most programs use, the one without an error of its own, and the one of
 * layers that are spared. */
#define KV_USUAL "f16"
#define KV_SMALL "q8_0" /* half of that without a noticeable loss */
#define KV_EXACT "f32"
#define KV_EDGE "q8_0"
enum kv_flag {
    KV_ON_CUDA = 1, /* the CUDA kernels have it */
    KV_SHOWN = 2    /* in tables of memory; the types that other programs have, Ollama no others */
};
struct kv_type {
    const char *name;
    enum qtype type; /* of its blocks; QT_COUNT: a layout of the cache only */
    bool rotated;    /* stored as kv_rotate(row): queries are rotated too, outputs rotated back */
    int32_t block;   /* a row is a multiple of so many values */
    unsigned flags;  /* of enum kv_flag */
    uint64_t (*row_bytes)(const struct kv_type *t, int64_t n);
    /* Encodes x [n], which is rotated already if the type is, to a row. `get` does the reverse. */
    void (*put)(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                int64_t n, bool is_value);
    void (*get)(const struct kv_type *t, const struct kern *k, const uint8_t *row, float *dst,
                int64_t n, bool is_value);
    const struct tq_code *key, *value; /* rotated codes: codebook, choice of the scale */
};

const struct kv_type *kv_type_at(int i);              /* NULL past the end */
const struct kv_type *kv_type_find(const char *name); /* NULL: none */
const struct kv_type *kv_type_of(enum qtype t);       /* the plain row of a tensor type, or NULL */
/* Reads "T" or "K/V" as the types of keys and values. ERR_USAGE, which names `what` and the
 * types there are. */
int kv_type_parse(const char *text, const char *what, const struct kv_type **k,
                  const struct kv_type **v, struct err *e);
/* Writes the name of a cache: "q8_0", or "q8_0/q4_0" where keys and values differ. */
void kv_type_text(char out[40], const struct kv_type *k, const struct kv_type *v);
/* For models/sizes.h, which callers include. */
struct kv_rows;
struct kv_rows kv_type_rows(const struct kv_type *k, const struct kv_type *v);
double kv_type_bits(const struct kv_type *t, int64_t n); /* per value of rows of n */

/* Replaces x by H diag(s) x / sqrt(d) for every slice of d values, where d is the largest power
 * of two that divides n and s are fixed signs. This is orthonormal, and kv_rotate_back is its
 * inverse. */
void kv_rotate(float *x, int64_t n);
void kv_rotate_back(float *x, int64_t n);

/* Returns the bytes of a row of n values in rotated Lloyd-Max codes. This and the two that
 * follow are the functions of their table rows. */
uint64_t kv_turbo_bytes(const struct kv_type *t, int64_t n);
void kv_turbo_put(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                  int64_t n, bool is_value);
void kv_turbo_get(const struct kv_type *t, const struct kern *k, const uint8_t *row, float *dst,
                  int64_t n, bool is_value);
extern const struct tq_code tq_raw[5], tq_norm[5], tq_unbiased[5], tq_least[5],
    tq_qjl[5]; /* [bits] */
/* Centroids of unit variance, ascending; 2^bits of them. For tests. */
const float *kv_turbo_codebook(int bits);

#endif
