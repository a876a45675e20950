// SPDX-License-Identifier: MIT
/* kernels/bench.c - timing of individual kernels: wall time of one thread. The fastest repetition
 * counts, because disturbances can only slow a kernel down. */
#include "kernels/bench.h"

#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/progress.h"
#include "kernels/codebook.h"
#include "kernels/pack.h"

/* Returns where the type's blocks store their scales. */
static const struct qtype_scale *scale_of(enum qtype t) {
    return &qtype_info(t)->scale;
}

int kern_n_halves(enum qtype t) {
    const enum qtype_scale_kind kind = scale_of(t)->kind;
    return kind == QS_HALF || kind == QS_NIBBLES ? scale_of(t)->n : 0;
}

void kern_set_half(enum qtype t, void *blk, int field, uint16_t bits) {
    if (scale_of(t)->kind == QS_NIBBLES)
        kern_iq1_m_set_d(blk, bits);
    else
        store_u16((uint8_t *)blk + scale_of(t)->off[field], bits);
}

void kern_random_floats(enum qtype t, struct rng *r, void *dst, int64_t n) {
    const enum qtype_scale_kind kind = scale_of(t)->kind;
    uint8_t *p = dst;
    for (int64_t i = 0; i < n; i++) {
        const float v = 0.02f * rng_normal(r);
        if (kind == QS_F32)
            store_f32(p + 4 * i, v);
        else
            store_u16(p + 2 * i, kind == QS_F16 ? fp_f32_to_f16(v) : fp_f32_to_bf16(v));
    }
}

void kern_random_blocks(enum qtype t, struct rng *r, void *dst, int64_t n_blocks) {
    const struct qtype_info *q = qtype_info(t);
    const int64_t size = q->block_bytes;
    uint8_t *p = dst;
    const struct qtype_scale *s = &q->scale;
    if (q->flags & QF_FLOAT) {
        kern_random_floats(t, r, p, n_blocks);
        return;
    }
    for (int64_t b = 0; b < n_blocks; b++, p += size) {
        for (int64_t i = 0; i < size; i++) p[i] = (uint8_t)(rng_u64(r) >> 56);
        for (int f = 0; f < kern_n_halves(t); f++)
            kern_set_half(t, p, f,
                          fp_f32_to_f16(q->typical.scale * (f ? q->typical.offset : 1) *
                                        rng_f32(r, 0.5f, 2)));
        for (int i = 0; i < s->n && s->kind == QS_E8M0; i++)
            p[s->off[0] + i] = (uint8_t)(118 + (rng_u64(r) >> 62));
        for (int i = 0; i < s->n && s->kind == QS_E4M3; i++)
            p[s->off[0] + i] = (uint8_t)(rng_u64(r) >> 60);
    }
}

enum { ROW = 2048, ROWS = 64, TOKENS = 64 };

/* Calls run(ctx) for `seconds`, at least twice. Returns the shortest time of a call. */
static double shortest(void (*run)(void *), void *ctx, double seconds) {
    double best = 1e30;
    const double end = progress_now_s() + seconds;
    for (int i = 0; i < 2 || progress_now_s() < end; i++) {
        const double t0 = progress_now_s();
        run(ctx);
        const double t = progress_now_s() - t0;
        if (t < best) best = t;
    }
    return best > 1e-9 ? best : 1e-9;
}

struct job {
    const struct kern *k;
    enum qtype t;
    uint8_t *w, *act;
    struct kern_act *rounded; /* TOKENS rows of activations */
    void *scratch;
    int64_t n_tok;
    float *x;
    int64_t row_bytes, m, n, kk;
    float sink;
};

static void run_decode(void *ctx) {
    struct job *j = ctx;
    for (int64_t i = 0; i < ROWS; i++) j->k->op[j->t].decode(j->w + i * j->row_bytes, j->x, ROW);
}

/* Computes the product of each row with the activations once. */
static void run_dot(void *ctx) {
    struct job *j = ctx;
    for (int64_t i = 0; i < ROWS; i++)
        j->sink += j->k->op[j->t].dot(j->w + i * j->row_bytes, j->act, ROW);
}

/* Computes the product of packed rows once. */
static void run_packed(void *ctx) {
    struct job *j = ctx;
    const struct kern_ops *op = &j->k->op[j->t];
    op->gemm(j->w, ROWS / op->rows, j->rounded, kern_act_blocks(ROW), j->n_tok, j->x, ROWS, ROW,
             j->scratch);
}

/* Returns the root mean square of n values. */
static double rms(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

/* Packs the rows at j->w into `dst`. Unpacked rows would give wrong times: the packed product would
 * read codes as exponents of MXFP4, and each resulting subnormal number costs some processors a
 * hundred cycles. */
static void pack_rows(const struct job *j, uint8_t *dst) {
    const int rows = j->k->op[j->t].rows;
    for (int64_t i = 0; i < ROWS; i += rows)
        kern_pack(j->t, rows, j->w + i * j->row_bytes, (uint64_t)j->row_bytes,
                  ROW / qtype_info(j->t)->block_elems, dst + i * j->row_bytes);
}

/* Measures products of packed rows. */
static void bench_packed(struct job *j, const float *x, double bytes, double seconds,
                         struct kern_rate *out) {
    const int rows = j->k->op[j->t].rows;
    const int64_t w_bytes = (ROWS * j->row_bytes + 63) / 64 * 64;
    void *mem = NULL;
    struct err e = {0};
    const int64_t act_bytes = TOKENS * kern_act_blocks(ROW) * (int64_t)sizeof *j->rounded;
    if (mem_alloc(&mem, (uint64_t)(w_bytes + act_bytes + kern_gemm_scratch(rows, ROW)), "rows", &e))
        return;
    pack_rows(j, mem);
    j->w = mem;
    j->rounded = (void *)(j->w + w_bytes);
    j->scratch = j->w + w_bytes + act_bytes;
    for (int64_t i = 0; i < TOKENS; i++)
        kern_act(j->k, j->t, x, ROW, j->rounded + i * kern_act_blocks(ROW));
    j->n_tok = 1;
    out->packed_gbs = bytes / shortest(run_packed, j, seconds);
    j->n_tok = 4;
    out->packed4_gbs = bytes / shortest(run_packed, j, seconds);
    j->n_tok = TOKENS;
    out->packed_gmacs = 1e-9 * ROWS * ROW * TOKENS / shortest(run_packed, j, seconds);
    out->packed_rms = rms(j->x, ROWS * TOKENS);
    mem_free(mem);
}

void kern_bench_type(const struct kern *k, enum qtype t, double seconds, struct kern_rate *out) {
    *out = (struct kern_rate){0};
    if (!kern_has(k, t)) return;
    struct rng r;
    rng_seed(&r, 1);
    struct job j = {.k = k, .t = t, .row_bytes = (int64_t)qtype_row_bytes(t, ROW)};
    /* Align the rows: for F32 and F16, malloc's placement affects the speed by a third. */
    const int64_t w_bytes = (ROWS * j.row_bytes + 63) / 64 * 64;
    void *mem = NULL;
    struct err e = {0};
    if (mem_alloc(&mem, (uint64_t)w_bytes + (2 * ROW + ROWS * TOKENS) * sizeof *j.x, "rows", &e))
        return;
    j.w = mem;
    j.act = j.w + w_bytes;
    j.x = (float *)mem + w_bytes / 4 + ROW;
    kern_random_blocks(t, &r, j.w, (int64_t)ROWS * ROW / qtype_info(t)->block_elems);
    for (int i = 0; i < ROW; i++) j.x[i] = rng_normal(&r);
    k->act_quant(kern_dot_partner(t), j.x, j.act, ROW);
    const double bytes = 1e-9 * (double)(ROWS * j.row_bytes);
    if (k->op[t].dot) out->dot_gbs = bytes / shortest(run_dot, &j, seconds);
    const double s = shortest(run_decode, &j, seconds);
    out->decode_gbs = bytes / s;
    out->decode_gws = 1e-9 * ROWS * ROW / s;
    if (k->op[t].gemm) {
        float *x = xmalloc(ROW * sizeof *x);
        for (int i = 0; i < ROW; i++) x[i] = rng_normal(&r);
        bench_packed(&j, x, bytes, seconds, out);
        free(x);
    }
    mem_free(mem);
}

/* Computes the job's float product once. */
static void run_gemm(void *ctx) {
    struct job *j = ctx;
    const float *a = j->x, *b = a + j->m * j->kk;
    float *c = j->x + (j->m + j->n) * j->kk;
    j->k->gemm_f32(a, j->kk, b, j->kk, c, j->n, j->m, j->n, j->kk);
}

double kern_bench_gemm(const struct kern *k, int64_t m, int64_t n, int64_t kk, double seconds) {
    struct rng r;
    rng_seed(&r, 1);
    struct job j = {.k = k, .m = m, .n = n, .kk = kk};
    j.x = xmalloc((size_t)((m + n) * kk + m * n) * sizeof *j.x);
    for (int64_t i = 0; i < (m + n) * kk; i++) j.x[i] = rng_f32(&r, -1, 1);
    const double s = shortest(run_gemm, &j, seconds);
    free(j.x);
    return 2e-9 * (double)m * (double)n * (double)kk / s;
}
