// SPDX-License-Identifier: MIT
/* runtime/engine/kv_type.c - table of cache types, and the codecs of those without a codebook:
 * floats, and blocks of 32 values in the layouts of tensor types (decoded by kernels/). Blocks
 * first rotate rows (kv_turn), which spreads outliers over all values of a head, as llama.cpp does;
 * types whose names end in -norot do not. */
#include "runtime/engine/kv_type.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/buf.h"
#include "base/fp.h"
#include "base/num.h"
#include "models/sizes.h"

/* Returns the size of a row of n values in a block type; 0 if the row is too long to rotate. */
static uint64_t block_row_bytes(const struct kv_type *t, int64_t n) {
    return t->rotated && n > KV_MAX_DIM ? 0 : qtype_row_bytes(t->type, n);
}
/* Decodes n values of a row of quantized blocks. */
static void block_get(const struct kv_type *t, const struct kern *k, const uint8_t *row, float *dst,
                      int64_t n, bool is_value) {
    (void)is_value;
    k->op[t->type].decode(row, dst, n);
}

/* Writes n values to a cache row unchanged. */
static void put_f32(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                    int64_t n, bool is_value) {
    (void)t;
    (void)k;
    (void)is_value;
    memcpy(row, x, (size_t)n * sizeof *x);
}
/* Writes n values to a cache row as f16. */
static void put_f16(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                    int64_t n, bool is_value) {
    (void)t;
    (void)k;
    (void)is_value;
    for (int64_t i = 0; i < n; i++) store_u16(row + 2 * i, fp_f32_to_f16(x[i]));
}
/* Writes n values to a cache row as bf16. */
static void put_bf16(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                     int64_t n, bool is_value) {
    (void)t;
    (void)k;
    (void)is_value;
    for (int64_t i = 0; i < n; i++) store_u16(row + 2 * i, fp_f32_to_bf16(x[i]));
}
/* Encodes n values as q8_0 blocks. */
static void put_q8_0(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                     int64_t n, bool is_value) {
    (void)is_value;
    k->act_quant(t->type, x, row, n);
}

static unsigned level(float v, int top) { /* NaN becomes 0 */
    return v > 0 ? (unsigned)(v < (float)top ? v + 0.5f : (float)top) : 0;
}

/* Encodes blocks of 32 values as a minimum and 15 steps above it that span the range. */
static void put_q4_1(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                     int64_t n, bool is_value) {
    (void)t;
    (void)k;
    (void)is_value;
    for (int64_t b = 0; b < n; b += 32, x += 32) {
        struct blk_Q4_1 q;
        float lo = x[0], hi = x[0];
        for (int i = 1; i < 32; i++) {
            if (x[i] < lo) lo = x[i];
            if (x[i] > hi) hi = x[i];
        }
        q.d = fp_f32_to_f16((hi - lo) / 15);
        q.m = fp_f32_to_f16(lo);
        float d = fp_f16_to_f32(q.d), m = fp_f16_to_f32(q.m), inv = d > 0 ? 1 / d : 0;
        for (int i = 0; i < 16; i++)
            q.qs[i] =
                (uint8_t)(level((x[i] - m) * inv, 15) | level((x[i + 16] - m) * inv, 15) << 4);
        memcpy(row + b / 32 * (int64_t)sizeof q, &q, sizeof q);
    }
}
/* Encodes blocks of 32 values with the scale d that maps the value of largest magnitude to exactly
 * -16. */
static void put_q5_0(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                     int64_t n, bool is_value) {
    (void)t;
    (void)k;
    (void)is_value;
    for (int64_t b = 0; b < n; b += 32, x += 32) {
        struct blk_Q5_0 q;
        float far = 0;
        uint32_t high = 0;
        for (int i = 0; i < 32; i++)
            if (fabsf(x[i]) > fabsf(far)) far = x[i];
        q.d = fp_f32_to_f16(far / -16);
        float d = fp_f16_to_f32(q.d), inv = d == 0 ? 0 : 1 / d;
        for (int i = 0; i < 16; i++) {
            unsigned a = level(x[i] * inv + 16, 31), c = level(x[i + 16] * inv + 16, 31);
            q.qs[i] = (uint8_t)((a & 15) | (c & 15) << 4);
            high |= (a >> 4) << i | (c >> 4) << (i + 16);
        }
        store_u32(q.qh, high);
        memcpy(row + b / 32 * (int64_t)sizeof q, &q, sizeof q);
    }
}
/* Encodes blocks of 32 values with the scale d that maps the value of largest magnitude to exactly
 * -8. */
static void put_q4_0(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                     int64_t n, bool is_value) {
    (void)t;
    (void)k;
    (void)is_value;
    for (int64_t b = 0; b < n; b += 32, x += 32) {
        struct blk_Q4_0 q;
        float far = 0;
        for (int i = 0; i < 32; i++)
            if (fabsf(x[i]) > fabsf(far)) far = x[i];
        q.d = fp_f32_to_f16(far / -8);
        float d = fp_f16_to_f32(q.d), inv = d == 0 ? 0 : 1 / d;
        for (int i = 0; i < 16; i++)
            q.qs[i] = (uint8_t)(level(x[i] * inv + 8, 15) | level(x[i + 16] * inv + 8, 15) << 4);
        memcpy(row + b / 32 * (int64_t)sizeof q, &q, sizeof q);
    }
}
/* Encodes blocks of 32 values as a minimum and 31 steps above it that span the range. */
static void put_q5_1(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                     int64_t n, bool is_value) {
    (void)t;
    (void)k;
    (void)is_value;
    for (int64_t b = 0; b < n; b += 32, x += 32) {
        struct blk_Q5_1 q;
        float lo = x[0], hi = x[0];
        uint32_t high = 0;
        for (int i = 1; i < 32; i++) {
            if (x[i] < lo) lo = x[i];
            if (x[i] > hi) hi = x[i];
        }
        q.d = fp_f32_to_f16((hi - lo) / 31);
        q.m = fp_f32_to_f16(lo);
        float d = fp_f16_to_f32(q.d), m = fp_f16_to_f32(q.m), inv = d > 0 ? 1 / d : 0;
        for (int i = 0; i < 16; i++) {
            unsigned a = level((x[i] - m) * inv, 31), c = level((x[i + 16] - m) * inv, 31);
            q.qs[i] = (uint8_t)((a & 15) | (c & 15) << 4);
            high |= (a >> 4) << i | (c >> 4) << (i + 16);
        }
        store_u32(q.qh, high);
        memcpy(row + b / 32 * (int64_t)sizeof q, &q, sizeof q);
    }
}

// clang-format off
#define BLOCK(name, type, rot, n, flags, put) {name, type, rot, n, flags, block_row_bytes, put, block_get, NULL, NULL}
#define TURBO(name, key, value) {name, QT_COUNT, true, 32, 0, kv_turbo_bytes, kv_turbo_put, kv_turbo_get, key, value}
/* Cache types. tqN uses the unbiased factor; its variants exist for comparison. qjl is as
 * published: keys have residual signs, values use the raw factor. */
static const struct kv_type types[] = {
    BLOCK("f32", QT_F32, false, 1, KV_ON_CUDA, put_f32),
    BLOCK("f16", QT_F16, false, 1, KV_ON_CUDA | KV_SHOWN, put_f16),
    BLOCK("bf16", QT_BF16, false, 1, 0, put_bf16),
    BLOCK("q8_0", QT_Q8_0, true, 32, KV_ON_CUDA | KV_SHOWN, put_q8_0),
    BLOCK("q5_1", QT_Q5_1, true, 32, 0, put_q5_1),
    BLOCK("q5_0", QT_Q5_0, true, 32, 0, put_q5_0),
    BLOCK("q4_1", QT_Q4_1, true, 32, 0, put_q4_1),
    BLOCK("q4_0", QT_Q4_0, true, 32, KV_ON_CUDA | KV_SHOWN, put_q4_0),
    BLOCK("q8_0-norot", QT_Q8_0, false, 32, KV_ON_CUDA, put_q8_0),
    BLOCK("q5_1-norot", QT_Q5_1, false, 32, 0, put_q5_1),
    BLOCK("q5_0-norot", QT_Q5_0, false, 32, 0, put_q5_0),
    BLOCK("q4_1-norot", QT_Q4_1, false, 32, 0, put_q4_1),
    BLOCK("q4_0-norot", QT_Q4_0, false, 32, KV_ON_CUDA, put_q4_0),
    TURBO("tq4", &tq_unbiased[4], &tq_unbiased[4]),
    TURBO("tq3", &tq_unbiased[3], &tq_unbiased[3]),
    TURBO("tq2", &tq_unbiased[2], &tq_unbiased[2]),
    TURBO("tq4-raw", &tq_raw[4], &tq_raw[4]),
    TURBO("tq3-raw", &tq_raw[3], &tq_raw[3]),
    TURBO("tq2-raw", &tq_raw[2], &tq_raw[2]),
    TURBO("tq4-norm", &tq_norm[4], &tq_norm[4]),
    TURBO("tq3-norm", &tq_norm[3], &tq_norm[3]),
    TURBO("tq2-norm", &tq_norm[2], &tq_norm[2]),
    TURBO("tq4-least", &tq_least[4], &tq_least[4]),
    TURBO("tq3-least", &tq_least[3], &tq_least[3]),
    TURBO("tq2-least", &tq_least[2], &tq_least[2]),
    TURBO("tq4-qjl", &tq_qjl[4], &tq_raw[4]),
    TURBO("tq3-qjl", &tq_qjl[3], &tq_raw[3]),
    TURBO("tq2-qjl", &tq_qjl[2], &tq_raw[2]),
};
// clang-format on

const struct kv_type *kv_type_at(int i) {
    return i >= 0 && i < (int)COUNT_OF(types) ? &types[i] : NULL;
}

bool kv_type_is_blocks(const struct kv_type *t) {
    return t->type != QT_COUNT && t->block > 1;
}

/* Returns the type with this name [len], ignoring case; NULL: unknown. Earlier versions called
 * rotated blocks q8_0-rot, q5_1-rot and q4_0-rot. */
static const struct kv_type *find_type(const char *name, size_t len) {
    const bool rot = len > 4 && strncasecmp(name + len - 4, "-rot", 4) == 0;
    if (rot) len -= 4;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strlen(types[i].name) == len && strncasecmp(types[i].name, name, len) == 0)
            return rot && !(types[i].rotated && kv_type_is_blocks(&types[i])) ? NULL : &types[i];
    return NULL;
}
const struct kv_type *kv_type_find(const char *name) {
    return find_type(name, strlen(name));
}
const struct kv_type *kv_type_of(enum qtype t) {
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (types[i].type == t) return &types[i];
    return NULL;
}
const struct kv_type *kv_type_norot(const struct kv_type *t) {
    for (size_t i = 0; i < COUNT_OF(types) && kv_type_is_blocks(t); i++)
        if (types[i].type == t->type && !types[i].rotated) return &types[i];
    return t;
}

int kv_type_parse(const char *text, const char *what, const struct kv_type **k,
                  const struct kv_type **v, struct err *e) {
    const char *slash = strchr(text, '/');
    *k = slash ? find_type(text, (size_t)(slash - text)) : kv_type_find(text);
    *v = slash ? kv_type_find(slash + 1) : *k;
    if (*k && *v) return 0;
    struct buf known = {0};
    /* This and the following tq variants are not documented for users. */
    for (int i = 0; kv_type_at(i) && kv_type_at(i)->key != &tq_raw[4]; i++)
        buf_fmt(&known, "%s%s", i ? ", " : "", kv_type_at(i)->name);
    err_set(e, ERR_USAGE, "%s: '%s' must be one of %s, or two of them as K/V", what, text,
            known.data);
    buf_release(&known);
    return ERR_USAGE;
}

/* Returns the size of n values of a struct kv_type; 0 if n is not a multiple of its block. */
static uint64_t row_bytes_of(const void *type, int64_t n) {
    const struct kv_type *t = type;
    return n % t->block ? 0 : t->row_bytes(t, n);
}
void kv_type_text(char out[40], const struct kv_type *k, const struct kv_type *v) {
    snprintf(out, 40, "%s%s%s", k->name, k == v ? "" : "/", k == v ? "" : v->name);
}

struct kv_rows kv_type_rows(const struct kv_type *k, const struct kv_type *v) {
    return (struct kv_rows){row_bytes_of, k, v};
}

double kv_type_bits(const struct kv_type *t, int64_t n) {
    return 8.0 * (double)t->row_bytes(t, n) / (double)n;
}
