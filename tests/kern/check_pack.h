// SPDX-License-Identifier: MIT
/* tests/kern/check_pack.h - packed rows: unpacking must restore the file's bytes, and products of
 * every ISA of this machine are compared with sums in double over decoded weights and stored
 * activations. */
#ifndef HONE_TESTS_KERN_CHECK_PACK_H
#define HONE_TESTS_KERN_CHECK_PACK_H

#include <math.h>

#include "base/mem.h"
#include "base/bytes.h"
#include "base/fp.h"
#include "kernels/bench.h"
#include "kernels/codebook.h"
#include "kernels/pack.h"
#include "tests/check.h"

struct packed_case {
    enum qtype t;
    const struct kern_ops *op;
    int64_t k, n_act, row_bytes;
    uint8_t *w, *packed;
    struct kern_act *act;
    float *dec, *x;
    void *scratch;
};

static void packed_make(struct packed_case *c, const struct kern *k, enum qtype t, int64_t n_k,
                        int64_t n_tok, struct rng *r) {
    const struct qtype_info *q = qtype_info(t);
    struct kern ref;
    kern_init(&ref, KERN_REF);
    *c = (struct packed_case){.t = t, .op = &k->op[t], .k = n_k, .n_act = kern_act_blocks(n_k)};
    const int rows = c->op->rows;
    c->row_bytes = n_k / q->block_elems * q->block_bytes;
    c->w = malloc((size_t)(rows * c->row_bytes));
    c->packed = malloc((size_t)(rows * c->row_bytes));
    uint8_t *back = malloc((size_t)(rows * c->row_bytes));
    kern_random_blocks(t, r, c->w, rows * n_k / q->block_elems);
    kern_pack(t, rows, c->w, (uint64_t)c->row_bytes, n_k / q->block_elems, c->packed);
    kern_unpack(t, rows, c->packed, n_k / q->block_elems, back, (uint64_t)c->row_bytes);
    CHECK(memcmp(back, c->w, (size_t)(rows * c->row_bytes)) == 0);
    CHECK(memcmp(c->packed, c->w, (size_t)(rows * c->row_bytes)) != 0);
    free(back);
    c->dec = malloc((size_t)(rows * n_k) * sizeof *c->dec);
    for (int i = 0; i < rows; i++) ref.op[t].decode(c->w + i * c->row_bytes, c->dec + i * n_k, n_k);
    c->x = malloc((size_t)(n_tok * n_k) * sizeof *c->x);
    c->act = malloc((size_t)(n_tok * c->n_act) * sizeof *c->act);
    for (int64_t i = 0; i < n_tok * n_k; i++) c->x[i] = rng_normal(r);
    for (int64_t i = 0; i < n_tok; i++) kern_act(k, t, c->x + i * n_k, n_k, c->act + i * c->n_act);
    struct err e = {0};
    CHECK_OK(mem_alloc(&c->scratch, (uint64_t)kern_gemm_scratch(rows, n_k), "scratch", &e));
}
static void packed_free(struct packed_case *c) {
    free(c->w);
    free(c->packed);
    free(c->dec);
    free(c->x);
    free(c->act);
    mem_free(c->scratch);
}

/* Computes the norm of out - want over that of want, where want uses first the stored, then the f32
 * activations.
 */
static void packed_errors(const struct packed_case *c, const float *out, int64_t ldo, int64_t n_tok,
                          double err[2]) {
    double num[2] = {0, 0}, den = 0;
    for (int64_t t = 0; t < n_tok; t++)
        for (int r = 0; r < c->op->rows; r++) {
            double stored = 0, exact = 0;
            for (int64_t i = 0; i < c->k; i++) {
                const struct kern_act *a = &c->act[t * c->n_act + i / QK];
                const double w = (double)c->dec[r * c->k + i];
                stored += w * (double)a->d[i % QK / 32] * a->qs[i % QK];
                exact += w * (double)c->x[t * c->k + i];
            }
            const double o = (double)out[t * ldo + r];
            num[0] += (o - stored) * (o - stored);
            num[1] += (o - exact) * (o - exact);
            den += exact * exact;
        }
    for (int i = 0; i < 2; i++) err[i] = sqrt(num[i] / den);
}

/* Sums inside a block are exact integers, so only the few roundings per block are left: 1e-6. With
 * 8-bit activations 8e-3 (the spread of rounding: 1/254 of the block's largest value, uniform). */
static void check_packed(const struct kern *k, enum qtype t, int64_t n_k, struct rng *r) {
    static const int64_t tokens[] = {1,  2,  3,  4,  5,  6,  7,   8,   9,  15,
                                     16, 17, 40, 63, 64, 65, 257, 300, 512};
    enum { ALL = 512, EXTRA = 3 };
    struct packed_case c;
    packed_make(&c, k, t, n_k, ALL, r);
    const int64_t ldo = c.op->rows + EXTRA;
    float *first = malloc((size_t)(ALL * ldo) * sizeof *first),
          *out = malloc((size_t)(ALL * ldo) * sizeof *out);
    for (int64_t i = 0; i < ALL * ldo; i++) first[i] = NAN;
    c.op->gemm(c.packed, 1, c.act, c.n_act, ALL, first, ldo, n_k, c.scratch);
    double err[2];
    packed_errors(&c, first, ldo, 65, err);
    if (!(err[0] <= 1e-6) || !(err[1] <= 8e-3))
        CHECK_FAIL("%s %s packed, k %" PRId64 ": error %.3g of stored, %.3g of f32 activations",
                   qtype_name(t), kern_isa_name(k->isa), n_k, err[0], err[1]);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        const int64_t n = tokens[i];
        bool same = true;
        for (int64_t j = 0; j < ALL * ldo; j++) out[j] = NAN;
        c.op->gemm(c.packed, 1, c.act, c.n_act, n, out, ldo, n_k, c.scratch);
        for (int64_t j = 0; j < ALL * ldo;
             j++) /* a token's result does not depend on others; nothing else is written */
            same = same && (j / ldo < n && j % ldo < c.op->rows
                                ? memcmp(&out[j], &first[j], sizeof *out) == 0
                                : isnan(out[j]));
        if (!same)
            CHECK_FAIL("%s %s packed: %" PRId64 " tokens are not the first of %d", qtype_name(t),
                       kern_isa_name(k->isa), n, (int)ALL);
    }
    free(first);
    free(out);
    packed_free(&c);
}

/* Checks that nothing saturates or wraps if codes, scales and activations are at their extremes.
 * Allows a few roundings of 2^-24 per block, on terms up to three times the largest weight (codes
 * before their offset). */
static void check_packed_extremes(const struct kern *k, enum qtype t, struct rng *r) {
    enum { TOKENS = 40 };
    for (int fill = 0; fill < 2; fill++) {
        struct packed_case c;
        packed_make(&c, k, t, 256, TOKENS, r);
        const struct qtype_info *q = qtype_info(t);
        const int64_t nb = c.k / q->block_elems;
        const int halves = kern_n_halves(t);
        struct kern ref;
        kern_init(&ref, KERN_REF);
        for (int64_t b = 0; b < nb * c.op->rows; b++) {
            uint8_t *p = c.w + b * q->block_bytes;
            memset(p,
                   fill                           ? 0xff
                   : t == QT_Q8_0 || t == QT_Q6_K ? 0x80
                                                  : 0,
                   (size_t)q->block_bytes);
            if (t == QT_MXFP4) p[0] = 127;
            for (int f = 0; f < halves; f++) kern_set_half(t, p, f, 0x3c00); /* 1.0 */
        }
        kern_pack(t, c.op->rows, c.w, (uint64_t)c.row_bytes, nb, c.packed);
        for (int i = 0; i < c.op->rows; i++)
            ref.op[t].decode(c.w + i * c.row_bytes, c.dec + i * c.k, c.k);
        for (int i = 0; i < TOKENS; i++) {
            for (int j = 0; j < c.k; j++)
                c.x[j] = i % 5 == 0   ? 1
                         : i % 5 == 1 ? -1
                         : i % 5 == 2 ? (j & 1 ? -1.0f : 1.0f)
                                      : rng_f32(r, -1, 1);
            kern_act(k, t, c.x, c.k, c.act + i);
        }
        float out[TOKENS][16];
        c.op->gemm(c.packed, 1, c.act, c.n_act, TOKENS, out[0], 16, c.k, c.scratch);
        for (int i = 0; i < TOKENS; i++)
            for (int row = 0; row < c.op->rows; row++) {
                double want = 0, mag = 0, most = 0;
                for (int j = 0; j < c.k; j++) most = fmax(most, fabs((double)c.dec[row * c.k + j]));
                for (int j = 0; j < c.k; j++) {
                    const double a = (double)c.act[i].d[j / 32] * c.act[i].qs[j];
                    want += (double)c.dec[row * c.k + j] * a;
                    mag += 3 * most * fabs(a);
                }
                if (!(fabs((double)out[i][row] - want) <= 16 * 0x1p-24 * mag))
                    CHECK_FAIL("%s %s packed extremes %d token %d: %.9g, expected %.9g",
                               qtype_name(t), kern_isa_name(k->isa), fill, i, (double)out[i][row],
                               want);
            }
        packed_free(&c);
    }
}

/* Checks that several groups at once equal single groups, bit for bit, and that nothing is written
 * next to them. */
static void check_packed_groups(const struct kern *k, enum qtype t, struct rng *r) {
    enum { K = 512, GROUPS = 5, TOKENS = 270 };
    static const int tokens[] = {1, 2, 3, 4, 5, 16, 21, 33, TOKENS};
    struct packed_case c[GROUPS];
    for (int g = 0; g < GROUPS; g++) packed_make(&c[g], k, t, K, TOKENS, r);
    const int64_t rows = c[0].op->rows, ldo = GROUPS * rows + 3;
    const uint64_t bytes = (uint64_t)(rows * c[0].row_bytes);
    uint8_t *w = malloc(GROUPS * bytes);
    float *want = malloc((size_t)(TOKENS * ldo) * sizeof *want),
          *out = malloc((size_t)(TOKENS * ldo) * sizeof *out);
    for (int g = 0; g < GROUPS; g++) memcpy(w + (uint64_t)g * bytes, c[g].packed, bytes);
    for (int n_groups = 1; n_groups <= GROUPS; n_groups++)
        for (size_t j = 0; j < sizeof tokens / sizeof tokens[0]; j++) {
            const int n = tokens[j];
            for (int64_t i = 0; i < TOKENS * ldo; i++) want[i] = out[i] = NAN;
            for (int g = 0; g < n_groups; g++)
                c[0].op->gemm(c[g].packed, 1, c[0].act, c[0].n_act, n, want + g * rows, ldo, K,
                              c[0].scratch);
            c[0].op->gemm(w, n_groups, c[0].act, c[0].n_act, n, out, ldo, K, c[0].scratch);
            if (memcmp(want, out, (size_t)(TOKENS * ldo) * sizeof *out) != 0)
                CHECK_FAIL("%s %s packed: %d groups with %d tokens are not the groups one by one",
                           qtype_name(t), kern_isa_name(k->isa), n_groups, n);
        }
    free(w);
    free(want);
    free(out);
    for (int g = 0; g < GROUPS; g++) packed_free(&c[g]);
}

/* Compares with the definition of the types whose weights are d * u times an integer, with u a
 * power of 2: the products of a block are summed exactly, then multiplied by d * u * dx in one step
 * per block. The integers come from decoding with d = 1. */
static void check_packed_bits(const struct kern *k, enum qtype t, float u, struct rng *r) {
    enum { K = 768, TOKENS = 19 };
    struct packed_case c;
    struct kern ref;
    packed_make(&c, k, t, K, TOKENS, r);
    kern_init(&ref, KERN_REF);
    const int64_t block = qtype_info(t)->block_bytes, rows = c.op->rows;
    float *out = malloc((size_t)(TOKENS * rows) * sizeof *out), one[K], d[K / QK];
    c.op->gemm(c.packed, 1, c.act, c.n_act, TOKENS, out, rows, K, c.scratch);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t b = 0; b < K / QK; b++) {
            uint8_t *p = c.w + row * c.row_bytes + b * block;
            d[b] = fp_f16_to_f32(t == QT_IQ1_M ? kern_iq1_m_d((const void *)p)
                                               : load_u16(p + qtype_info(t)->scale.off[0]));
            kern_set_half(t, p, 0, 0x3c00);
        }
        ref.op[t].decode(c.w + row * c.row_bytes, one, K);
        for (int i = 0; i < TOKENS; i++) {
            float want = 0;
            for (int64_t b = 0; b < K / QK; b++) {
                const struct kern_act *a = &c.act[i * c.n_act + b];
                int sum = 0;
                for (int j = 0; j < QK; j++) sum += (int)(one[b * QK + j] / u) * a->qs[j];
                want = fmaf(d[b] * u * a->d[0], (float)sum, want);
            }
            if (memcmp(&out[i * rows + row], &want, sizeof want) != 0)
                CHECK_FAIL("%s %s packed, row %" PRId64 " token %d: %.9g, by definition %.9g",
                           qtype_name(t), kern_isa_name(k->isa), row, i,
                           (double)out[i * rows + row], (double)want);
        }
    }
    free(out);
    packed_free(&c);
}

/* Compares with the definition of the types of 4-bit floats, whose weights are a scale times an
 * integer: the products that share a scale are summed exactly, then multiplied by scale * dx in one
 * step. Every byte is the scale of some NVFP4 block, every byte up to 159 that of some MXFP4 block.
 * MXFP4's scales below 2^-126 count as 0; the first rows have only such scales, and the smallest
 * that do not. */
static void check_packed_fp4(const struct kern *k, enum qtype t, struct rng *r) {
    enum { K = 768, TOKENS = 19 };
    struct packed_case c;
    struct kern ref;
    packed_make(&c, k, t, K, TOKENS, r);
    kern_init(&ref, KERN_REF);
    const struct qtype_info *q = qtype_info(t);
    const int64_t rows = c.op->rows, nb = K / q->block_elems;
    const int run = t == QT_NVFP4 ? 16 : 32;
    float *out = malloc((size_t)(TOKENS * rows) * sizeof *out);
    for (int64_t i = 0; t == QT_NVFP4 && i < 4 * nb * rows; i++)
        c.w[i / 4 * q->block_bytes + i % 4] = (uint8_t)i;
    for (int64_t i = 0; t == QT_MXFP4 && i < nb * rows; i++)
        c.w[i * q->block_bytes] = (uint8_t)(i < nb ? i % 2 : i < 2 * nb ? 2 : i % 160);
    kern_pack(t, (int)rows, c.w, (uint64_t)c.row_bytes, nb, c.packed);
    c.op->gemm(c.packed, 1, c.act, c.n_act, TOKENS, out, rows, K, c.scratch);
    for (int64_t row = 0; row < rows; row++) {
        const uint8_t *w = c.w + row * c.row_bytes;
        ref.op[t].decode(w, c.dec, K);
        for (int i = 0; i < TOKENS; i++) {
            float want = 0;
            for (int at = 0; at < K; at += run) {
                const uint8_t byte =
                    w[at / q->block_elems * q->block_bytes + at % q->block_elems / run];
                const float d = run == 16  ? kern_ue4m3_half(byte)
                                : byte < 2 ? 0
                                           : kern_e8m0_half(byte);
                const struct kern_act *a = &c.act[i * c.n_act + at / QK];
                int sum = 0;
                for (int j = at; j < at + run && d > 0; j++)
                    sum += (int)(c.dec[j] / d) * a->qs[j % QK];
                want = fmaf(d * a->d[at % QK / 32], (float)sum, want);
            }
            if (memcmp(&out[i * rows + row], &want, sizeof want) != 0)
                CHECK_FAIL("%s %s packed, row %" PRId64 " token %d: %.9g, by definition %.9g",
                           qtype_name(t), kern_isa_name(k->isa), row, i,
                           (double)out[i * rows + row], (double)want);
        }
    }
    free(out);
    packed_free(&c);
}

static void check_packed_type(const struct kern *k, enum qtype t) {
    struct rng r;
    rng_seed(&r, 11 + (uint64_t)t);
    CHECK(kern_packs(t) && k->op[t].rows > 0 && k->op[t].rows <= 16);
    check_packed(k, t, 256, &r);
    check_packed(k, t, 768, &r);
    if (qtype_info(t)->block_elems == 32) check_packed(k, t, 288, &r);
    check_packed_extremes(k, t, &r);
    check_packed_groups(k, t, &r);
    static const struct {
        enum qtype t;
        float unit;
    } whole[] = {{QT_Q3_K, 1},        {QT_Q6_K, 1},       {QT_IQ4_XS, 1},      {QT_IQ2_XXS, 0.125f},
                 {QT_IQ2_XS, 0.125f}, {QT_IQ2_S, 0.125f}, {QT_IQ3_XXS, 0.25f}, {QT_IQ3_S, 1},
                 {QT_IQ1_S, 0.125f},  {QT_IQ1_M, 0.125f}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (whole[i].t == t) check_packed_bits(k, t, whole[i].unit, &r);
    if (t == QT_MXFP4 || t == QT_NVFP4) check_packed_fp4(k, t, &r);
}

static void test_packed(void) {
    int n_packed = 0;
    for (int isa = KERN_AVX2; isa <= (int)kern_isa_best(); isa++) {
        struct kern k;
        kern_init(&k, (enum kern_isa)isa);
        for (int t = 0; t < QT_COUNT && (int)k.isa == isa; t++)
            if (k.op[t].gemm) check_packed_type(&k, (enum qtype)t), n_packed++;
    }
    CHECK(n_packed > 0 || kern_isa_best() == KERN_REF);
}

/* Times products with the sizes of models' matrices, and checks that no codes are read as
 * scales. */
static inline void test_packed_timed(void) {
    struct kern k;
    struct kern_rate rate;
    kern_init(&k, kern_isa_best());
    for (int t = 0; t < QT_COUNT; t++) {
        if (!k.op[t].gemm) continue;
        kern_bench_type(&k, (enum qtype)t, 1e-6, &rate);
        if (!(rate.packed_rms > 0.05 && rate.packed_rms < 20))
            CHECK_FAIL("%s: products of about %g", qtype_name((enum qtype)t), rate.packed_rms);
    }
}

/* Checks that products of the same rows are the same bits in every ISA: sums inside a block are
 * integers, and the few float steps are the same in the same order. */
static void test_packed_same(void) {
    enum { ROWS = 16, K = 3 * QK, TOKENS = 21 };
    struct rng r;
    rng_seed(&r, 12);
    struct kern_act *act = malloc(TOKENS * K / QK * sizeof *act);
    float x[K];
    for (int t = 0; t < QT_COUNT; t++) {
        if (!kern_packs((enum qtype)t)) continue;
        const struct qtype_info *q = qtype_info((enum qtype)t);
        const uint64_t row = (uint64_t)qtype_row_bytes((enum qtype)t, K);
        uint8_t *w = malloc(ROWS * row), *packed = malloc(ROWS * row);
        kern_random_blocks((enum qtype)t, &r, w, ROWS * K / q->block_elems);
        float first[TOKENS * ROWS], out[TOKENS * ROWS];
        enum kern_isa first_isa = KERN_REF;
        for (int isa = KERN_AVX2; isa <= (int)kern_isa_best(); isa++) {
            struct kern k;
            kern_init(&k, (enum kern_isa)isa);
            const struct kern_ops *op = &k.op[t];
            if (!op->gemm) continue;
            for (int i = 0; i < TOKENS && first_isa == KERN_REF; i++) {
                for (int j = 0; j < K; j++) x[j] = rng_normal(&r);
                kern_act(&k, (enum qtype)t, x, K, act + i * (K / QK));
            }
            for (uint64_t g = 0; g < ROWS / (uint64_t)op->rows; g++)
                kern_pack((enum qtype)t, op->rows, w + g * (uint64_t)op->rows * row, row,
                          K / q->block_elems, packed + g * (uint64_t)op->rows * row);
            void *scratch = NULL;
            struct err e = {0};
            CHECK_OK(mem_alloc(&scratch, (uint64_t)kern_gemm_scratch(ROWS, K), "scratch", &e));
            op->gemm(packed, ROWS / op->rows, act, K / QK, TOKENS, out, ROWS, K, scratch);
            mem_free(scratch);
            if (first_isa == KERN_REF) {
                first_isa = k.isa;
                memcpy(first, out, sizeof out);
            } else if (memcmp(first, out, sizeof out) != 0) {
                CHECK_FAIL("%s packed: %s and %s differ", q->name, kern_isa_name(first_isa),
                           kern_isa_name(k.isa));
            }
        }
        free(w);
        free(packed);
    }
    free(act);
}

#endif
