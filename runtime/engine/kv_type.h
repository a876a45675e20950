// SPDX-License-Identifier: MIT
/* runtime/engine/kv_type.h - table of the storage types of KV cache rows. A row is the key or value
 * of one head at one position. Sequence files (seq_file.c) store rows in the same encoding, under
 * the type's name. docs/design/kv-cache.md has formulas and measurements. */
#ifndef HONE_RUNTIME_ENGINE_KV_TYPE_H
#define HONE_RUNTIME_ENGINE_KV_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kern.h"

enum { KV_MAX_DIM = 1024 }; /* longest rotated row */

struct tq_code {                                                /* rotated code (kv_turbo.c) */
    int bits;                                                   /* per value in its codebook */
    float (*scale)(double yy, double yc, double cc, int64_t d); /* from y.y, y.c, c.c of d values */
    bool qjl;                                                   /* one more sign bit per value */
};
/* The default type, a smaller one, the exact one, and the default of edge layers. */
#define KV_USUAL "f16"
#define KV_SMALL "q8_0" /* half the size of f16 without a noticeable loss */
#define KV_EXACT "f32"
#define KV_EDGE "q8_0"
enum kv_flag {
    KV_ON_CUDA = 1, /* supported by the CUDA kernels */
    KV_SHOWN = 2    /* listed in memory tables; also the types that Ollama supports */
};
struct kv_type {
    const char *name;
    enum qtype type; /* block type; QT_COUNT: only a cache layout */
    bool rotated;    /* rows are stored as kv_turn(row): queries are also rotated, outputs are
                        rotated back */
    int32_t block;   /* row lengths are multiples of this */
    unsigned flags;  /* bits of enum kv_flag */
    uint64_t (*row_bytes)(const struct kv_type *t, int64_t n);
    /* Encode x [n], already rotated if the type is rotated, into a row. `get` decodes. */
    void (*put)(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                int64_t n, bool is_value);
    void (*get)(const struct kv_type *t, const struct kern *k, const uint8_t *row, float *dst,
                int64_t n, bool is_value);
    const struct tq_code *key, *value; /* rotated codes: codebook and scale */
};

const struct kv_type *kv_type_at(int i);              /* NULL past the end */
const struct kv_type *kv_type_find(const char *name); /* NULL: none */
const struct kv_type *kv_type_of(enum qtype t);       /* rows of a tensor type, or NULL */
/* Returns whether rows are blocks of a tensor type, as in llama.cpp's quantized caches. */
bool kv_type_is_blocks(const struct kv_type *t);
/* Returns the type with the same blocks without rotation; t itself if it has no blocks. */
const struct kv_type *kv_type_norot(const struct kv_type *t);
/* Parses "T" or "K/V" as the types of keys and values. ERR_USAGE: unknown type; the message names
 * `what` and lists the types. */
int kv_type_parse(const char *text, const char *what, const struct kv_type **k,
                  const struct kv_type **v, struct err *e);
/* Formats a cache's types: "q8_0", or "q8_0/q4_0" if keys and values differ. */
void kv_type_text(char out[40], const struct kv_type *k, const struct kv_type *v);
/* Defined in models/sizes.h, which callers include. */
struct kv_rows;
/* Returns how to size rows of keys and values of these types. */
struct kv_rows kv_type_rows(const struct kv_type *k, const struct kv_type *v);
double kv_type_bits(const struct kv_type *t, int64_t n); /* per value, in rows of n */

/* Replaces x by H diag(s) x / sqrt(d) for every slice of d values, where d is the largest power of
 * two that divides n and s are fixed signs. The transform is orthonormal; kv_rotate_back is its
 * inverse. */
void kv_rotate(float *x, int64_t n);
/* Undoes kv_rotate() on n values in place. */
void kv_rotate_back(float *x, int64_t n);

/* Rotates a key or value of n values as rows of a rotated type are: tq codes by kv_rotate, blocks
 * as llama.cpp rotates quantized caches (its PR 21038): x becomes H x / sqrt(d) for every slice of
 * d values, where d is the largest power of two that divides n for keys and 64 for values; rows
 * that are not a multiple of 64 stay as they are. */
void kv_turn(const struct kv_type *t, float *x, int64_t n, bool is_value);
/* Undoes kv_turn() on n values in place. */
void kv_turn_back(const struct kv_type *t, float *x, int64_t n, bool is_value);

/* Returns the size of a row of n values in rotated Lloyd-Max codes. kv_turbo_put and kv_turbo_get
 * are the codec of the table rows. */
uint64_t kv_turbo_bytes(const struct kv_type *t, int64_t n);
/* Encodes n values as a cache row, with the code for keys or for values. */
void kv_turbo_put(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                  int64_t n, bool is_value);
/* Decodes n values of a cache row. */
void kv_turbo_get(const struct kv_type *t, const struct kern *k, const uint8_t *row, float *dst,
                  int64_t n, bool is_value);
extern const struct tq_code tq_raw[5], tq_norm[5], tq_unbiased[5], tq_least[5],
    tq_qjl[5]; /* [bits] */
/* Returns the 2^bits centroids of unit variance, ascending. For tests. */
const float *kv_turbo_codebook(int bits);

#endif
