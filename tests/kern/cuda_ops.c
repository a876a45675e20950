// SPDX-License-Identifier: MIT
/* tests/kern/cuda_ops.c - the CUDA operators on activations, compared with kernels/ref or, where
 * the CPU has no single kernel for one, with plain double arithmetic. Outputs start as NaN, sizes
 * are odd, and every thread order must give the same bits. `make test`: emulated; `make
 * check-cuda`: on a device. */
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "kernels/kern.h"
#include "runtime/engine/kv_type.h"
#include "tests/kern/cuda_pages.h"
#include "tests/kern/cuda_vec.h"

static struct kern ref;

/* ---- rows and values ---- */

static void test_norms(struct dev *d) {
    static const struct {
        int64_t rows, n;
    } c[] = {{1, 1}, {3, 7}, {9, 128}, {17, 512}, {2, 513}, {3, 2048}, {1, 5001}};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        int64_t n = c[i].n, all = c[i].rows * n;
        float *x = randoms(all, 3), *w = randoms(n, 1), *z = randoms(all, 2), *b = randoms(all, 1);
        float *want = copy_of(x, all), *gated = copy_of(x, all), *sum = copy_of(x, all);
        float *bare = copy_of(x, all), *normed = copy_of(x, all);
        for (int64_t k = 0; k < all; k++) sum[k] += b[k];
        for (int64_t r = 0; r < all; r += n) {
            ref.rms_norm(x + r, w, want + r, n, 1e-5f);
            ref.rms_norm(x + r, NULL, bare + r, n, 1e-5f);
            ref.rms_norm(x + r, w, gated + r, n, 1e-6f);
            ref.silu_mul(gated + r, z + r, n);
            ref.rms_norm(sum + r, w, normed + r, n, 1e-6f);
        }
        void *dx = put(d, x, all), *dw = put(d, w, n), *dz = put(d, z, all), *db = put(d, b, all);
        void *dy = space(d, all), *dg = space(d, all), *dn = space(d, all), *dp = space(d, all);
        CHECK_OK(cu_rms(d->s, dx, dw, dy, c[i].rows, n, n, 1e-5f, &e));
        CHECK_OK(cu_rms(d->s, dx, NULL, dp, c[i].rows, n, n, 1e-5f, &e));
        CHECK_OK(cu_gated_rms(d->s, dx, dw, dz, dg, c[i].rows, n, 1e-6f, &e));
        CHECK_OK(
            cu_norm_rows(d->s,
                         &(struct cu_norm){
                             .a = dx, .res = db, .sum = dx, .w = dw, .y = dn, .n = n, .eps = 1e-6f},
                         c[i].rows, &e));
        compare(d, "rms", dy, want, all, F32_TOL);
        compare(d, "rms without weights", dp, bare, all, F32_TOL);
        compare(d, "gated rms", dg, gated, all, F32_TOL);
        compare(d, "sum", dx, sum, all, 0);
        compare(d, "rms of a sum", dn, normed, all, F32_TOL);
        float *all4[] = {x, w, z, b};
        for (int k = 0; k < 4; k++) free(all4[k]);
    }
}

static void test_values(struct dev *d) {
    static const int64_t sizes[] = {1, 255, 257, 1000};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        int64_t n = sizes[i], rows = 3, all = rows * n, ld = 2 * n + 5;
        float *x = randoms(all, 4), *y = randoms(all, 4), *wide = randoms(rows * ld, 2);
        float *pair = randoms(2 * all, 1);
        float *add = copy_of(x, all), *sig = copy_of(x, all), *swi = copy_of(x, all);
        float *gel = copy_of(x, all), *q = copy_of(x, all), *g = copy_of(x, all);
        float *sc = copy_of(x, all), *cap = copy_of(x, all), *bias = copy_of(x, all);
        ref.sigmoid_mul(sig, y, all);
        ref.swiglu(x, y, swi, all);
        for (int64_t k = 0; k < all; k++) {
            double v = (double)x[k], r = (double)wide[k / n * ld + 3 + k % n];
            add[k] = x[k] + y[k];
            gel[k] =
                (float)(v / 2 *
                        (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v))) *
                        r);
            sc[k] = x[k] * (0.3f * y[0]);
            cap[k] = (float)(5 * tanh(v / 5));
            bias[k] = x[k] + y[k % n];
            q[k] = pair[k / n * 2 * n + k % n];
            g[k] = pair[(k / n * 2 + 1) * n + k % n];
        }
        void *dx = put(d, x, all), *dy = put(d, y, all), *dw = put(d, wide, rows * ld);
        void *dp = put(d, pair, 2 * all), *o[9];
        for (int k = 0; k < 9; k++) o[k] = put(d, x, all);
        CHECK_OK(cu_add(d->s, dx, dy, o[0], all, &e));
        CHECK_OK(cu_sigmoid_mul(d->s, o[1], dy, all, &e));
        CHECK_OK(cu_swiglu(d->s, o[2], dy, o[2], all, &e));
        CHECK_OK(cu_geglu(d->s, dx, (float *)dw + 3, o[3], rows, n, ld, &e));
        CHECK_OK(cu_split_gate(d->s, dp, o[4], o[5], rows, n, &e));
        CHECK_OK(cu_scale(d->s, o[6], all, 0.3f, dy, 1, &e));
        CHECK_OK(cu_softcap(d->s, o[7], all, 5, &e));
        CHECK_OK(cu_add_bias(d->s, o[8], dy, all, n, &e));
        compare(d, "add", o[0], add, all, 0);
        compare(d, "bias", o[8], bias, all, 0);
        compare(d, "sigmoid_mul", o[1], sig, all, F32_TOL);
        compare(d, "swiglu", o[2], swi, all, F32_TOL);
        compare(d, "geglu", o[3], gel, all, F32_TOL);
        compare(d, "queries", o[4], q, all, 0);
        compare(d, "gates", o[5], g, all, 0);
        compare(d, "scale", o[6], sc, all, 0);
        compare(d, "softcap", o[7], cap, all, F32_TOL);
        float *own[] = {x, y, wide, pair};
        for (int k = 0; k < 4; k++) free(own[k]);
    }
}

static void test_gate_add(struct dev *d) {
    enum { ROWS = 3, N = 300, D = 77 };
    struct err e;
    float *x = randoms(ROWS * N, 1), *w = randoms(D, 1), *h = randoms(ROWS * D, 1);
    float *to = randoms(ROWS * N, 1), *want = copy_of(to, ROWS * N);
    for (int r = 0; r < ROWS; r++) {
        double g = 0;
        for (int i = 0; i < D; i++) g += (double)w[i] * (double)h[r * D + i];
        for (int i = 0; i < N; i++)
            want[r * N + i] = (float)((double)to[r * N + i] + (double)x[r * N + i] * sigmoid(g));
    }
    void *dt = put(d, to, ROWS * N);
    CHECK_OK(cu_gate_add(d->s, dt, put(d, x, ROWS * N), put(d, w, D), put(d, h, ROWS * D), ROWS, N,
                         D, &e));
    /* the same, with residual and norm in one kernel */
    float *res = randoms(ROWS * N, 1), *wn = randoms(N, 1), *normed = copy_of(res, ROWS * N);
    for (int i = 0; i < ROWS * N; i++) normed[i] += want[i];
    for (int r = 0; r < ROWS; r++) ref.rms_norm(normed + r * N, wn, normed + r * N, N, 1e-5f);
    struct cu_norm o = {.a = put(d, to, ROWS * N),
                        .x = put(d, x, ROWS * N),
                        .gate = put(d, w, D),
                        .h = put(d, h, ROWS * D),
                        .d = D,
                        .res = put(d, res, ROWS * N),
                        .sum = space(d, ROWS * N),
                        .w = put(d, wn, N),
                        .y = space(d, ROWS * N),
                        .n = N,
                        .eps = 1e-5f};
    CHECK_OK(cu_norm_rows(d->s, &o, ROWS, &e));
    compare(d, "gate, residual and norm", o.y, normed, ROWS * N, F32_TOL);
    free(res);
    free(wn);
    compare(d, "gate_add", dt, want, ROWS * N, F32_TOL);
    free(x);
    free(w);
    free(h);
    free(to);
}

static void test_rope(struct dev *d) {
    enum { TOK = 3, HEADS = 2, DIM = 10, ROT = 6, POS = 100000 };
    struct err e;
    double freq[ROT / 2];
    for (int i = 0; i < ROT / 2; i++) freq[i] = pow(1e6, -2.0 * i / ROT);
    const int32_t pos[TOK] = {POS, 7, POS + 2}; /* of any sequences */
    for (int adjacent = 0; adjacent < 2; adjacent++) {
        float *x = randoms(TOK * HEADS * DIM, 1), *want = copy_of(x, TOK * HEADS * DIM);
        for (int t = 0; t < TOK; t++)
            for (int h = 0; h < HEADS; h++)
                for (int i = 0; i < ROT / 2; i++) {
                    float *p = want + (t * HEADS + h) * DIM, *a = p + (adjacent ? 2 * i : i);
                    float *b = adjacent ? a + 1 : a + ROT / 2;
                    double an = pos[t] * freq[i], u = (double)*a, v = (double)*b;
                    *a = (float)(1.1 * (u * cos(an) - v * sin(an)));
                    *b = (float)(1.1 * (u * sin(an) + v * cos(an)));
                }
        void *dx = put(d, x, TOK * HEADS * DIM), *cs = space(d, TOK * ROT);
        CHECK_OK(cu_rope_table(d->s, dev_put(d, freq, sizeof freq), 1.1,
                               dev_put(d, pos, sizeof pos), (struct cu_sections){0}, TOK, ROT / 2,
                               cs, &e));
        CHECK_OK(cu_rope(d->s, dx, cs, TOK, HEADS, DIM, ROT, adjacent, &e));
        compare(d, "rope", dx, want, TOK * HEADS * DIM, F32_TOL);
        free(x);
    }
}

/* ---- attention ---- */

struct attn_case {
    enum qtype k, v;
    int64_t heads, kv_heads, dim, window, pos, n_tok, n_splits;
    bool gated, sink;
};

/* Rounds positions [0, pos + n_tok) as the cache does (runtime/engine/kv_type.c), then computes
 * plain attention in double, with a soft cap (0: none) and sinks (or NULL). */
static float *attend_of(const struct attn_case *c, const float *k, const float *v, const float *q,
                        const float *gate, float scale, double cap, const float *sinks) {
    int64_t total = c->pos + c->n_tok, hd = c->dim, group = c->heads / c->kv_heads;
    float *out = xcalloc((size_t)(c->n_tok * c->heads * hd), sizeof *out);
    float *ck = xcalloc((size_t)(total * c->kv_heads * hd), sizeof *ck);
    float *cv = xcalloc((size_t)(total * c->kv_heads * hd), sizeof *cv);
    const struct kv_type *kt = kv_type_of(c->k), *vt = kv_type_of(c->v);
    uint8_t row[4096];
    for (int64_t i = 0; i < total * c->kv_heads; i++) {
        kt->put(kt, &ref, k + i * hd, row, hd, false);
        ref.op[c->k].decode(row, ck + i * hd, hd);
        vt->put(vt, &ref, v + i * hd, row, hd, true);
        ref.op[c->v].decode(row, cv + i * hd, hd);
    }
    double *p = xcalloc((size_t)total, sizeof *p), *o = xcalloc((size_t)hd, sizeof *o);
    for (int64_t t = 0; t < c->n_tok; t++)
        for (int64_t h = 0; h < c->heads; h++) {
            int64_t seen = c->pos + t + 1;
            int64_t lo = c->window > 0 && seen > c->window ? seen - c->window : 0;
            double top = (double)-INFINITY, sum = 0;
            for (int64_t s = lo; s < seen; s++) {
                p[s] = 0;
                for (int64_t i = 0; i < hd; i++)
                    p[s] += (double)q[(t * c->heads + h) * hd + i] *
                            (double)ck[(s * c->kv_heads + h / group) * hd + i];
                p[s] *= (double)scale;
                if (cap > 0) p[s] = cap * tanh(p[s] / cap);
                top = fmax(top, p[s]);
            }
            memset(o, 0, (size_t)hd * sizeof *o);
            for (int64_t s = lo; s < seen; s++) {
                double w = exp(p[s] - top);
                sum += w;
                for (int64_t i = 0; i < hd; i++)
                    o[i] += w * (double)cv[(s * c->kv_heads + h / group) * hd + i];
            }
            if (sinks) sum += exp((double)sinks[h] - top);
            for (int64_t i = 0; i < hd; i++) {
                int64_t at = (t * c->heads + h) * hd + i;
                out[at] = (float)(o[i] / sum * (gate ? sigmoid((double)gate[at]) : 1));
            }
        }
    free(ck);
    free(cv);
    free(p);
    free(o);
    return out;
}

static float *attend(const struct attn_case *c, const float *k, const float *v, const float *q,
                     const float *gate, float scale) {
    return attend_of(c, k, v, q, gate, scale, 0, NULL);
}

/* A cache with pos + n_tok tokens, filled in two pieces, and queries for the last n_tok. */
struct attn_data {
    float *k, *v, *q, *gate;
    struct cu_attn a;
    char what[112];
};
static void attn_begin(struct dev *d, const struct attn_case *c, struct attn_data *x) {
    struct err e;
    int64_t total = c->pos + c->n_tok, hd = c->dim;
    int64_t nkv = total * c->kv_heads * hd, nq = c->n_tok * c->heads * hd;
    struct cu_seg seg = {.n = (int32_t)c->pos};
    x->k = randoms(nkv, 1);
    x->v = randoms(nkv, 1);
    x->q = randoms(nq, 2);
    x->gate = c->gated ? randoms(nq, 1) : NULL;
    if (c->sink) { /* all heads attend almost only to the first key, whose value is 0 */
        double square = 0;
        for (int64_t i = nq - hd; i < nq; i++) square += (double)x->q[i] * (double)x->q[i];
        for (int64_t i = 0; i < nq - hd; i++) x->q[i] = x->q[nq - hd + i % hd];
        for (int64_t i = 0; i < c->kv_heads * hd; i++) {
            x->k[i] = x->q[i % hd] * (float)(14 * sqrt((double)hd) / square);
            x->v[i] = 0;
        }
    }
    struct cu_attn a = {.k_type = c->k,
                        .v_type = c->v,
                        .n_heads = c->heads,
                        .n_kv_heads = c->kv_heads,
                        .head_dim = hd,
                        .window = c->window,
                        .scale = (float)(1 / sqrt((double)hd)),
                        .slot = PAGES_SLOT,
                        .n_slots = PAGES_SLOTS,
                        .n_splits = c->n_splits};
    seg.page = pages_new(d, pages_bytes(c->k, c->v, c->kv_heads, hd), total);
    rows_to(&a, rows_put(d, &seg, 1));
    float *dk = put(d, x->k, nkv), *dv = put(d, x->v, nkv);
    a.new_k = dk;
    a.new_v = dv;
    CHECK_OK(cu_kv_append(d->s, &a, &e));
    seg.pos = (int32_t)c->pos;
    seg.n = (int32_t)c->n_tok;
    rows_to(&a, rows_put(d, &seg, 1));
    a.rows = (struct cu_rows_of){a.all_segs, 1, c->n_tok};
    a.new_k = dk + c->pos * c->kv_heads * hd;
    a.new_v = dv + c->pos * c->kv_heads * hd;
    CHECK_OK(cu_kv_append(d->s, &a, &e));
    a.q = put(d, x->q, nq);
    if (x->gate) a.gate = put(d, x->gate, nq);
    a.part = space(d, c->n_tok * c->heads * c->n_splits * (hd + 2));
    x->a = a;
    snprintf(x->what, sizeof x->what,
             "attention %s/%s, %lld/%lld heads of %lld, %lld + %lld tokens, %lld parts",
             qtype_name(c->k), qtype_name(c->v), (long long)c->heads, (long long)c->kv_heads,
             (long long)hd, (long long)c->pos, (long long)c->n_tok, (long long)c->n_splits);
}
static void attn_check(struct dev *d, const struct attn_case *c, struct attn_data *x, double tol) {
    const int64_t nq = c->n_tok * c->heads * c->dim;
    compare(d, x->what, x->a.out, attend(c, x->k, x->v, x->q, x->gate, x->a.scale), nq, tol);
}
static void attn_end(struct attn_data *x) {
    float *own[] = {x->k, x->v, x->q, x->gate};
    for (size_t i = 0; i < COUNT_OF(own); i++) free(own[i]);
}

static void attn_case(struct dev *d, const struct attn_case *c) {
    struct err e;
    struct attn_data x;
    attn_begin(d, c, &x);
    x.a.out = space(d, c->n_tok * c->heads * c->dim);
    CHECK_OK(cu_attn_many(d->s, &x.a, &e));
    attn_check(d, c, &x, F32_TOL);
    x.a.fast = c->n_tok > 1; /* queries, keys, values, probabilities in f16: 2^-11 each */
    x.a.out = space(d, c->n_tok * c->heads * c->dim);
    CHECK_OK(cu_attn_many(d->s, &x.a, &e));
    attn_check(d, c, &x, 4 * 0x1p-11);
    CHECK_EQ_I64(cu_attn_few_rows(&x.a), 1);
    if (c->n_tok == 1) {
        x.a.out = space(d, c->heads * c->dim);
        CHECK_OK(cu_attn_few(d->s, &x.a, &e));
        attn_check(d, c, &x, F32_TOL);
    }
    /* scores are about 1: the cap bends them, sinks weigh as much as a few keys, one as much as all
     */
    const int64_t n = c->n_tok * c->heads * c->dim;
    float *sinks = randoms(c->heads, 3);
    sinks[0] = 12;
    x.a.sink = put(d, sinks, c->heads);
    for (int capped = 0; capped < 2; capped++) {
        x.a.softcap = capped ? 1.5f : 0;
        x.a.out = space(d, n);
        CHECK_OK(cu_attn_any(d->s, &x.a, &e));
        compare(d, x.what, x.a.out,
                attend_of(c, x.k, x.v, x.q, x.gate, x.a.scale, (double)x.a.softcap, sinks), n,
                2 * F32_TOL);
    }
    free(sinks);
    attn_end(&x);
}

static void test_attention(struct dev *d) {
    static const struct attn_case c[] = {
        {QT_F32, QT_F32, 1, 1, 8, 0, 0, 1, 1, false, false},
        {QT_F32, QT_F32, 16, 2, 32, 0, 70, 1, 3, true, false},
        {QT_F16, QT_F16, 6, 2, 24, 0, 0, 37, 1, true, false},
        {QT_F16, QT_F16, 18, 2, 64, 0, 199, 1, 2, false, false},
        {QT_Q8_0, QT_Q8_0, 8, 1, 256, 0, 300, 1, 4, true, false},
        {QT_Q8_0, QT_Q8_0, 4, 2, 64, 0, 5, 40, 1, false, false},
        {QT_Q4_0, QT_Q4_0, 4, 2, 32, 0, 130, 1, 8, false, false},
        {QT_Q8_0, QT_Q4_0, 4, 1, 96, 20, 250, 9, 1, false, false},
        {QT_F32, QT_Q4_0, 5, 1, 32, 0, 64, 1, 2, false, false},
        {QT_F16, QT_F16, 8, 2, 512, 0, 20, 3, 1, false, false},
        {QT_F16, QT_F16, 8, 2, 512, 33, 270, 1, 2, false, false},
        {QT_F32, QT_F32, 2, 2, 128, 16, 40, 25, 1, false, false},
        /* copied tiles: two pages, windows that begin within a tile, every head size */
        {QT_F16, QT_F16, 4, 2, 64, 0, 250, 37, 1, true, false},
        {QT_F16, QT_F16, 2, 1, 128, 40, 230, 70, 1, false, false},
        {QT_F16, QT_F16, 8, 1, 256, 0, 61, 9, 1, false, false},
        {QT_Q8_0, QT_Q8_0, 4, 1, 256, 70, 100, 20, 1, true, false},
        {QT_Q8_0, QT_Q8_0, 3, 1, 128, 0, 0, 65, 1, false, false},
        {QT_Q4_0, QT_Q4_0, 4, 2, 64, 20, 290, 50, 1, false, false},
        {QT_Q4_0, QT_Q4_0, 2, 1, 256, 0, 31, 2, 1, false, false},
        {QT_Q8_0, QT_Q4_0, 4, 1, 128, 0, 3, 33, 1, false, false},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) attn_case(d, &c[i]);
}

/* Few tokens on tensor cores: queries, values and probabilities are rounded to f16, at most 2^-11
 * each, 2^-11 / sqrt(3) in the mean square; all three make 2^-11 where scores are of the order
 * of 1. An error of 2^-11 in a query is more where it is multiplied to 14. */
static void few_case(struct dev *d, const struct attn_case *c) {
    struct err e;
    struct attn_data x;
    const int64_t k = c->heads * c->dim;
    attn_begin(d, c, &x);
    x.a.fast_few = true;
    x.a.out = space(d, c->n_tok * k);
    uint8_t *made = dev_new(d, (size_t)(c->n_tok * CU_ACT_BYTES(k)));
    uint8_t *want = dev_new(d, (size_t)(c->n_tok * CU_ACT_BYTES(k)));
    x.a.out_q = made;
    CHECK_EQ_I64(cu_attn_few_rows(&x.a), CU_FEW);
    CHECK_OK(cu_attn_few(d->s, &x.a, &e));
    attn_check(d, c, &x, c->sink ? 3 * 0x1p-11 : 0x1p-11);
    CHECK_OK(cu_quantize(d->s, x.a.out, k, k, c->n_tok, want, &e));
    const size_t n = (size_t)(c->n_tok * CU_ACT_BYTES(k));
    uint8_t *host[2] = {xcalloc(n, 1), xcalloc(n, 1)};
    dev_get(d, host[0], made, n);
    dev_get(d, host[1], want, n);
    if (memcmp(host[0], host[1], n) != 0) CHECK_FAIL("%s: another quantized copy", x.what);
    for (int i = 0; i < 2; i++) free(host[i]);
    attn_end(&x);
}
static void test_few(struct dev *d) {
    static const struct attn_case c[] = {
        /* one tile and a bit; whole tiles; a group of six, of one, of nine */
        {QT_Q8_0, QT_Q8_0, 8, 1, 256, 0, 16, 1, 4, true, false},
        {QT_Q4_0, QT_Q4_0, 6, 1, 256, 0, 63, 1, 3, false, false},
        {QT_F16, QT_F16, 6, 1, 256, 0, 80, 1, 2, true, false},
        {QT_Q8_0, QT_Q4_0, 2, 1, 256, 0, 20, 1, 1, false, false},
        {QT_F16, QT_F16, 9, 1, 64, 0, 14, 1, 1, false, false},
        {QT_Q8_0, QT_Q8_0, 1, 1, 128, 0, 0, 1, 1, false, false},
        /* windows that begin in a tile and in the page before, a cache that is shorter than one */
        {QT_Q8_0, QT_Q8_0, 5, 1, 64, 33, 270, 1, 3, false, false},
        {QT_Q4_0, QT_Q4_0, 4, 1, 128, 100, 60, 1, 2, false, false},
        /* several tokens: causal within the pass, across parts, with windows */
        {QT_Q8_0, QT_Q8_0, 3, 1, 128, 0, 90, 5, 2, true, false},
        {QT_F16, QT_F16, 3, 1, 128, 0, 0, 8, 1, false, false},
        {QT_Q4_0, QT_Q4_0, 6, 2, 64, 20, 260, 3, 3, false, false},
        {QT_Q8_0, QT_Q4_0, 4, 2, 64, 0, 62, 3, 2, false, false},
        {QT_F16, QT_F16, 2, 1, 64, 16, 252, 8, 2, true, false},
        /* wide heads, fewer warps */
        {QT_F16, QT_F16, 4, 1, 512, 33, 70, 1, 1, false, false},
        {QT_Q8_0, QT_Q8_0, 8, 1, 512, 0, 17, 1, 1, true, false},
        {QT_Q4_0, QT_Q4_0, 4, 1, 512, 0, 2, 2, 1, false, false},
        /* several tiles per warp; more parts than the merge has warps */
        {QT_Q8_0, QT_Q8_0, 3, 1, 64, 0, 420, 1, 1, false, false},
        {QT_F16, QT_F16, 1, 1, 64, 0, 640, 1, 10, false, false},
        /* probabilities far below f16's smallest value */
        {QT_F16, QT_F16, 2, 1, 64, 0, 60, 1, 1, false, true},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) few_case(d, &c[i]);
    struct cu_attn a = {.k_type = QT_F16, .v_type = QT_F16, .head_dim = 128};
    CHECK_EQ_I64(cu_attn_few_rows(&a), 1);
    a.fast_few = true;
    CHECK_EQ_I64(cu_attn_few_rows(&a), CU_FEW);
    a.head_dim = 96;
    CHECK_EQ_I64(cu_attn_few_rows(&a), 1);
    a.head_dim = 64;
    a.k_type = a.v_type = QT_F32;
    CHECK_EQ_I64(cu_attn_few_rows(&a), 1);
}

/* Applies norm and RoPE to n rows of heads, each with its own position, in double. */
static void turn(float *x, int64_t n_tok, int64_t heads, int64_t dim, const float *w, float eps,
                 const double *freq, int64_t n_rot, bool adjacent) {
    for (int64_t r = 0; r < n_tok * heads; r++) {
        float *p = x + r * dim;
        double sum = 0;
        for (int64_t i = 0; i < dim; i++) sum += (double)p[i] * (double)p[i];
        double f = 1 / sqrt(sum / (double)dim + (double)eps);
        for (int64_t i = 0; w && i < dim; i++) p[i] = (float)((double)p[i] * f * (double)w[i]);
        for (int64_t i = 0; i < n_rot / 2; i++) {
            float *a = p + (adjacent ? 2 * i : i), *b = a + (adjacent ? 1 : n_rot / 2);
            double an = (double)(r / heads) * freq[i], u = (double)*a, v = (double)*b;
            *a = (float)(u * cos(an) - v * sin(an));
            *b = (float)(u * sin(an) + v * cos(an));
        }
    }
}

struct qkv_case {
    struct attn_case a;
    int64_t n_rot;
    bool normed, adjacent;
};
/* cu_qkv then attention, in passes of pos and n_tok tokens; a gated case has queries and gates side
 * by side, as OP_SPLIT_GATE finds them. */
static void qkv_case(struct dev *d, const struct qkv_case *q) {
    struct err e;
    const struct attn_case *c = &q->a;
    int64_t total = c->pos + c->n_tok, hd = c->dim, nk = total * c->kv_heads * hd;
    int64_t nq = total * c->heads * hd, side = c->gated ? 2 : 1, tail = c->n_tok * c->heads * hd;
    float *k = randoms(nk, 1), *v = randoms(nk, 1), *raw = randoms(side * nq, 2);
    float *x = xcalloc((size_t)nq, 4), *gate = xcalloc((size_t)nq, 4);
    float *wq = randoms(hd, 1), *wk = randoms(hd, 1), *turned = copy_of(k, nk);
    double freq[64];
    for (int64_t i = 0; i < q->n_rot / 2; i++) freq[i] = pow(1e4, -2.0 * (double)i / (double)hd);
    for (int64_t i = 0; i < nq; i++) {
        x[i] = raw[i / hd * side * hd + i % hd];
        if (c->gated) gate[i] = raw[(i / hd * 2 + 1) * hd + i % hd];
    }
    turn(x, total, c->heads, hd, q->normed ? wq : NULL, 1e-6f, freq, q->n_rot, q->adjacent);
    turn(turned, total, c->kv_heads, hd, q->normed ? wk : NULL, 1e-6f, freq, q->n_rot, q->adjacent);
    struct cu_attn a = {.k_type = c->k,
                        .v_type = c->v,
                        .n_heads = c->heads,
                        .n_kv_heads = c->kv_heads,
                        .head_dim = hd,
                        .scale = (float)(1 / sqrt((double)hd)),
                        .slot = PAGES_SLOT,
                        .n_slots = PAGES_SLOTS,
                        .raw_q_ld = side * hd,
                        .n_rot = q->n_rot,
                        .eps = 1e-6f,
                        .normed = q->normed,
                        .adjacent = q->adjacent,
                        .q_norm = put(d, wq, hd),
                        .k_norm = put(d, wk, hd)};
    struct cu_seg seg = {.page = pages_new(d, pages_bytes(c->k, c->v, c->kv_heads, hd), total)};
    void *df = dev_put(d, freq, sizeof freq);
    for (int pass = 0; pass < 2; pass++) {
        int64_t t0 = pass ? c->pos : 0;
        seg.pos = (int32_t)t0;
        seg.n = (int32_t)(pass ? c->n_tok : c->pos);
        if (!seg.n) continue;
        rows_to(&a, rows_put(d, &seg, 1));
        a.rows = (struct cu_rows_of){a.all_segs, 1, a.n_tok};
        float *cs = space(d, a.n_tok * q->n_rot);
        CHECK_OK(cu_rope_table(d->s, df, 1, a.row_pos, (struct cu_sections){0}, a.n_tok,
                               q->n_rot / 2, cs, &e));
        a.cs = cs;
        a.raw_q = put(d, raw + t0 * c->heads * side * hd, a.n_tok * c->heads * side * hd);
        a.new_k = put(d, k + t0 * c->kv_heads * hd, a.n_tok * c->kv_heads * hd);
        a.new_v = put(d, v + t0 * c->kv_heads * hd, a.n_tok * c->kv_heads * hd);
        a.q = a.q_out = space(d, a.n_tok * c->heads * hd);
        CHECK_OK(cu_qkv(d->s, &a, &e));
    }
    a.gate = c->gated ? a.raw_q + hd : NULL;
    a.gate_ld = side * hd;
    a.out = space(d, tail);
    CHECK_OK(cu_attn_many(d->s, &a, &e));
    compare(d, "prepared attention", a.out,
            attend(c, turned, v, x + c->pos * c->heads * hd,
                   c->gated ? gate + c->pos * c->heads * hd : NULL, a.scale),
            tail, F32_TOL);
    float *own[] = {k, v, raw, x, gate, wq, wk, turned};
    for (size_t i = 0; i < COUNT_OF(own); i++) free(own[i]);
}
static void test_prepare(struct dev *d) { /* f32 caches, because codes of other types may round
                                           * either way */
    static const struct qkv_case c[] = {
        {{QT_F32, QT_F32, 4, 2, 64, 0, 0, 1, 1, true, false}, 16, true, false},
        {{QT_F32, QT_F32, 3, 1, 40, 0, 6, 5, 1, false, false}, 40, false, true},
        {{QT_F32, QT_F32, 2, 2, 512, 0, 3, 2, 1, true, false}, 128, true, false},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) qkv_case(d, &c[i]);
}

static void test_attention_refuses(struct dev *d) {
    struct err e;
    struct cu_attn a = {.k_type = QT_Q5_1,
                        .v_type = QT_Q5_1,
                        .n_heads = 1,
                        .n_kv_heads = 1,
                        .head_dim = 32,
                        .n_tok = 1};
    CHECK_ERR(cu_kv_append(d->s, &a, &e), ERR_USAGE, "Q5_1");
    a.rows.longest = 2;
    CHECK_ERR(cu_attn_few(d->s, &a, &e), ERR_USAGE, "2 tokens in parts");
    a.rows.longest = 1;
    a.k_type = a.v_type = QT_F16;
    a.head_dim = 20;
    CHECK_ERR(cu_attn_few(d->s, &a, &e), ERR_USAGE, "multiple of 8");
    a.head_dim = 1024;
    CHECK_ERR(cu_attn_many(d->s, &a, &e), ERR_USAGE, "at most 512");
}

/* ---- recurrent layers ---- */

struct delta_case {
    int64_t hv, hk, dk, dv, taps;
    int64_t piece[4]; /* tokens of the passes, 0: no more */
    bool grouped;     /* value heads stored by key head, beta and alpha in one row; biases */
};

static void ref_delta(const struct delta_case *c, const struct cu_delta *a, float *u, float *conv,
                      float *state, const float *beta, const float *alpha, const float *wa,
                      const float *dt, const float *w, const float *bias, int64_t n, float *out) {
    int64_t ch = 2 * c->hk * c->dk + c->hv * c->dv;
    ref.conv_silu(u, ch, w, bias, conv, n, 0, ch, ch, c->taps);
    float *dec = xcalloc((size_t)(n * c->hv), sizeof *dec), *b = xcalloc((size_t)(n * c->hv), 4);
    for (int64_t t = 0; t < n; t++) {
        for (int64_t h = 0; h < 2 * c->hk; h++)
            ref.l2_norm(u + t * ch + h * c->dk, c->dk, a->eps, h < c->hk ? a->scale : 1.0f);
        for (int64_t h = 0; h < c->hv; h++) {
            double x = (double)alpha[t * c->hv + h] + (double)dt[h];
            b[t * c->hv + h] = (float)sigmoid((double)beta[t * c->hv + h]);
            dec[t * c->hv + h] = (float)exp((double)wa[h] * (x > 20 ? x : log1p(exp(x))));
        }
    }
    for (int64_t h = 0; h < c->hv; h++) {
        const int64_t k = c->grouped ? h / (c->hv / c->hk) : h % c->hk;
        ref.delta_rows(state + h * c->dv * c->dk, u + k * c->dk, u + (c->hk + k) * c->dk, ch,
                       u + 2 * c->hk * c->dk + h * c->dv, ch, out + h * c->dv, c->hv * c->dv,
                       dec + h, b + h, c->hv, n, c->dk, 0, c->dv);
    }
    free(dec);
    free(b);
}

/* Tests passes of several sizes with the state carried over; passes of one token also use the fused
 * kernel, on a second copy of the state. */
static void delta_case(struct dev *d, const struct delta_case *c) {
    struct err e;
    int64_t ch = 2 * c->hk * c->dk + c->hv * c->dv, ns = c->hv * c->dv * c->dk, no = c->hv * c->dv;
    float *w = randoms(ch * c->taps, 1), *dt = randoms(c->hv, 1), *norm = randoms(c->dv, 1);
    float *wa = randoms(c->hv, 1), *state = randoms(ns, 1), *conv = xcalloc((size_t)(ch * 8), 4);
    float *bias = c->grouped ? randoms(ch, 1) : NULL;
    for (int64_t h = 0; h < c->hv; h++) wa[h] = -fabsf(wa[h]);
    struct cu_seg seg[2] = {{0}, {0}};
    struct cu_delta a = {.n_v_heads = c->hv,
                         .n_k_heads = c->hk,
                         .k_dim = c->dk,
                         .v_dim = c->dv,
                         .eps = 1e-6f,
                         .norm_eps = 1e-5f,
                         .scale = (float)(1 / sqrt((double)c->dk)),
                         .taps = c->taps,
                         .state_at = 4,
                         .ring_at = 4 + ns,
                         .a = put(d, wa, c->hv),
                         .dt = put(d, dt, c->hv),
                         .conv = put(d, w, ch * c->taps),
                         .conv_bias = bias ? put(d, bias, ch) : NULL,
                         .grouped = c->grouped,
                         .norm = put(d, norm, c->dv),
                         .arrived = dev_new(d, (size_t)c->hv * 4)};
    CHECK_OK(cu_fill(d->s, a.arrived, 0, (uint64_t)c->hv * 4, &e));
    for (int i = 0; i < 2; i++) {
        seg[i].state = space(d, 4 + ns + ch * c->taps);
        CHECK_OK(cu_upload(d->s, seg[i].state + 4, state, (uint64_t)ns * 4, &e));
        CHECK_OK(cu_fill(d->s, seg[i].state + 4 + ns, 0, (uint64_t)(ch * c->taps) * 4, &e));
    }
    for (int p = 0; p < 4 && c->piece[p]; p++) {
        int64_t n = c->piece[p];
        float *u = randoms(n * ch, 1), *beta = randoms(n * c->hv, 2), *z = randoms(n * no, 1);
        float *alpha = randoms(n * c->hv, 2), *out = xcalloc((size_t)(n * no), 4);
        a.beta = put(d, beta, n * c->hv);
        a.alpha = put(d, alpha, n * c->hv);
        if (c->grouped) {
            const int64_t r = c->hv / c->hk;
            float *ba = xcalloc((size_t)(2 * n * c->hv), sizeof *ba);
            for (int64_t i = 0; i < n * c->hv; i++) {
                ba[i / r * 2 * r + i % r] = beta[i];
                ba[i / r * 2 * r + r + i % r] = alpha[i];
            }
            a.beta = put(d, ba, 2 * n * c->hv);
            a.alpha = NULL;
            free(ba);
        }
        a.z = put(d, z, n * no);
        for (int i = 0; i < 2; i++) {
            a.u = put(d, u, n * ch);
            a.out = space(d, n * no);
            seg[i].n = (int32_t)n;
            a.rows = (struct cu_rows_of){rows_put(d, &seg[i], 1).seg, 1, n};
            seg[i].pos += (int32_t)n;
            if (i && n == 1)
                CHECK_OK(cu_delta_token(d->s, &a, &e));
            else {
                CHECK_OK(cu_conv_silu(d->s, &a, ch, &e));
                CHECK_OK(cu_delta_rows(d->s, &a, &e));
            }
            if (i) break;
            float *own = copy_of(u, n * ch); /* changed in place */
            ref_delta(c, &a, own, conv, state, beta, alpha, wa, dt, w, bias, n, out);
            free(own);
            compare(d, "delta rule", a.out, copy_of(out, n * no), n * no, 2 * F32_TOL);
        }
        if (n == 1)
            for (int64_t h = 0; h < c->hv; h++) {
                ref.rms_norm(out + h * c->dv, norm, out + h * c->dv, c->dv, a.norm_eps);
                ref.silu_mul(out + h * c->dv, z + h * c->dv, c->dv);
            }
        compare(d, "delta rule of a token", a.out, out, n * no, 2 * F32_TOL);
        for (int i = 0; i < 2; i++)
            compare(d, "state", seg[i].state + 4, copy_of(state, ns), ns, 2 * F32_TOL);
        float *own[] = {u, beta, alpha, z};
        for (int i = 0; i < 4; i++) free(own[i]);
    }
    float *own[] = {w, dt, norm, wa, state, conv, bias};
    for (int i = 0; i < 7; i++) free(own[i]);
}

/* Twice the f32 bound: errors of the state add up over tokens, decays below 1 limit them. */
static void test_delta(struct dev *d) {
    static const struct delta_case c[] = {
        {2, 1, 16, 16, 4, {1, 1, 5, 1}, false},   {4, 2, 128, 128, 4, {9, 1, 1, 0}, false},
        {3, 3, 64, 40, 3, {1, 8, 17, 1}, false},  {2, 2, 100, 33, 2, {3, 1, 0, 0}, false},
        {2, 1, 256, 36, 8, {2, 1, 11, 1}, false}, {1, 1, 32, 32, 1, {1, 4, 0, 0}, false},
        {6, 2, 16, 24, 4, {5, 1, 1, 3}, true},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) delta_case(d, &c[i]);
}

/* 64 tokens at a time: operands in bf16 (2^-9 each), of which an output sees keys, queries, state
 * and differences, errors of the system and of the state carried on: eight of them. */
static void test_chunks(struct dev *d) {
    static const int64_t pieces[] = {64, 70};
    const struct delta_case c = {4, 2, 128, 32, 1, {0}, false};
    enum { CH = 2 * 2 * 128 + 4 * 32, NO = 4 * 32, NS = NO * 128 };
    struct err e;
    float wa[4], dt[4], w[CH], *state = randoms(NS, 1), *conv = xcalloc(CH, 4);
    for (int h = 0; h < 4; h++) { /* heads that decay fast and slowly */
        wa[h] = h % 2 ? -8.0f : -0.01f;
        dt[h] = 0.5f * (float)h - 1;
    }
    for (int i = 0; i < CH; i++) w[i] = 1;
    struct cu_delta a = {.n_v_heads = 4,
                         .n_k_heads = 2,
                         .k_dim = 128,
                         .v_dim = 32,
                         .eps = 1e-6f,
                         .scale = 0.0883883476f,
                         .a = put(d, wa, 4),
                         .dt = put(d, dt, 4),
                         .chunked = true};
    struct cu_seg seg = {.state = put(d, state, NS)};
    for (size_t p = 0; p < COUNT_OF(pieces); p++) {
        int64_t n = pieces[p];
        float *u = randoms(n * CH, 1), *beta = randoms(n * 4, 2), *alpha = randoms(n * 4, 2);
        float *out = xcalloc((size_t)(n * NO), 4);
        seg.n = (int32_t)n;
        a.rows = (struct cu_rows_of){rows_put(d, &seg, 1).seg, 1, n};
        a.beta = put(d, beta, n * 4);
        a.alpha = put(d, alpha, n * 4);
        a.out = space(d, n * NO);
        ref_delta(&c, &a, u, conv, state, beta, alpha, wa, dt, w, NULL, n, out);
        /* ref has convolved and normed in place; norming again makes no significant difference */
        a.u = put(d, u, n * CH);
        CHECK_OK(cu_delta_rows(d->s, &a, &e));
        compare(d, "delta rule in chunks", a.out, out, n * NO, 8 * 0x1p-9);
        compare(d, "state after chunks", seg.state, copy_of(state, NS), NS, 8 * 0x1p-9);
        free(u);
        free(beta);
        free(alpha);
    }
    free(state);
    free(conv);
}

/* ---- routing, sampling ---- */

static void route_case(struct dev *d, int64_t n_tok, int n_experts, int n_used, bool ties) {
    struct err e;
    int64_t pairs = n_tok * n_used;
    float *x = randoms(n_tok * n_experts, 3), *factor = randoms(n_experts, 1);
    for (int64_t i = 0; ties && i < n_tok * n_experts; i++) x[i] = rintf(x[i]);
    int32_t *expert = xcalloc((size_t)pairs, 4), *got = xcalloc((size_t)pairs, 4);
    int32_t *place = xcalloc((size_t)pairs, 4), *order = xcalloc((size_t)pairs, 4);
    int32_t *first = xcalloc((size_t)n_experts + 1, 4);
    float *weight = xcalloc((size_t)pairs, 4);
    for (int64_t t = 0; t < n_tok; t++) { /* by logits: softmax keeps their order */
        double sum = 0, top = (double)-INFINITY;
        for (int k = 0; k < n_experts; k++) top = fmax(top, (double)x[t * n_experts + k]);
        for (int u = 0; u < n_used; u++) {
            int best = -1;
            for (int k = 0; k < n_experts; k++) {
                bool taken = false;
                for (int w = 0; w < u; w++) taken |= expert[t * n_used + w] == k;
                if (!taken && (best < 0 || x[t * n_experts + k] > x[t * n_experts + best]))
                    best = k;
            }
            expert[t * n_used + u] = best;
            sum += exp((double)x[t * n_experts + best] - top);
        }
        for (int u = 0; u < n_used; u++) {
            int k = expert[t * n_used + u];
            weight[t * n_used + u] =
                (float)(exp((double)x[t * n_experts + k] - top) / sum * (double)factor[k]);
        }
    }
    int32_t *de = dev_new(d, (size_t)pairs * 4), *dc = dev_new(d, (size_t)(n_experts + 1) * 4);
    int32_t *df = dev_new(d, (size_t)(n_experts + 1) * 4), *dp = dev_new(d, (size_t)pairs * 4);
    int32_t *dord = dev_new(d, (size_t)pairs * 4);
    float *dw = space(d, pairs);
    const struct cu_choice choice = {.logits = put(d, x, n_tok * n_experts),
                                     .factor = put(d, factor, n_experts),
                                     .n_experts = n_experts,
                                     .n_used = n_used,
                                     .expert = de,
                                     .weight = dw};
    CHECK_OK(cu_route(d->s, &choice, n_tok, &e));
    dev_get(d, got, de, (size_t)pairs * 4);
    CHECK(memcmp(got, expert, (size_t)pairs * 4) == 0);
    compare(d, "expert weights", dw, weight, pairs, F32_TOL);
    CHECK_OK(cu_sort_pairs(d->s, de, pairs, n_experts, dc, df, dp, dord, &e));
    dev_get(d, first, df, (size_t)(n_experts + 1) * 4);
    dev_get(d, place, dp, (size_t)pairs * 4);
    dev_get(d, order, dord, (size_t)pairs * 4);
    int64_t at = 0;
    for (int k = 0; k < n_experts; k++) {
        CHECK_EQ_I64(first[k], at);
        for (int64_t i = 0; i < pairs; i++)
            if (expert[i] == k) {
                CHECK(place[i] == at && order[at] == i);
                at++;
            }
    }
    CHECK_EQ_I64(first[n_experts], pairs);
    void *own[] = {x, factor, expert, got, place, order, first};
    for (size_t i = 0; i < COUNT_OF(own); i++) free(own[i]);
}
static void test_route(struct dev *d) {
    route_case(d, 1, 1, 1, false);
    route_case(d, 9, 8, 2, true);
    route_case(d, 3, 256, 8, false);
    route_case(d, 70, 40, 5, true);
    route_case(d, 2, 1000, 40, true);
}

static int by_logit(const void *a, const void *b) {
    const float *x = *(const float *const *)a, *y = *(const float *const *)b;
    if (*x > *y) return -1;
    if (*x < *y) return 1;
    return (x > y) - (x < y); /* the lower id */
}
/* Compared with a sort of all logits; rows of one call: ordinary, ties, infinities and NaN, few
 * finite values, too many ties. */
enum { BEST_KINDS = 5 };
static void best_case(const float *x, int64_t n, int kind, const struct cu_best *got) {
    const float **at = xcalloc((size_t)n, sizeof *at);
    int64_t finite = 0;
    bool broken = false;
    for (int64_t k = 0; k < n; k++) {
        if (isfinite(x[k])) at[finite++] = x + k;
        broken = broken || isnan(x[k]) || x[k] == INFINITY;
    }
    qsort(at, (size_t)finite, sizeof *at, by_logit);
    if (kind == 3 && n == 4000) CHECK(got->n < 0);
    if (got->n < 0)
        CHECK(n == 4000 && (kind == 1 || kind == 3));
    else
        CHECK_EQ_I64(got->n, finite < CU_BEST ? finite : CU_BEST);
    CHECK((got->broken != 0) == broken);
    for (int32_t k = 0; k < got->n; k++)
        if (got->id[k] != at[k] - x || got->logit[k] != *at[k]) {
            CHECK_FAIL("%d logits, kind %d: place %d is %d", (int)n, kind, k, got->id[k]);
            break;
        }
    free(at);
}
static void test_best(struct dev *d) {
    static const int64_t sizes[] = {1, 100, 513, 4000};
    struct err e;
    void *work = dev_new(d, BEST_KINDS * CU_BEST_WORK);
    struct cu_best *out = dev_new(d, BEST_KINDS * sizeof *out), got[BEST_KINDS];
    CHECK_OK(cu_fill(d->s, work, 0, BEST_KINDS * CU_BEST_WORK, &e));
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const int64_t n = sizes[i];
        float *all = randoms(BEST_KINDS * n, 6);
        for (int64_t k = 0; k < n; k++) {
            float *x[BEST_KINDS];
            for (int r = 0; r < BEST_KINDS; r++) x[r] = all + r * n + k;
            *x[1] = rintf(*x[1]);
            if (k % 50) *x[2] = k % 3 ? -INFINITY : k % 2 ? INFINITY : NAN;
            *x[3] = 1;
            if (k % 7) *x[4] = -INFINITY; /* values that a model may produce */
        }
        const float *x = put(d, all, BEST_KINDS * n);
        for (int64_t k = 1; k <= BEST_KINDS; k += BEST_KINDS - 1) { /* one row, all */
            CHECK_OK(cu_best_logits(d->s, x, n, k, work, out, &e));
            dev_get(d, got, out, sizeof got);
            for (int r = 0; r < k; r++) best_case(all + r * n, n, r, &got[r]);
        }
        free(all);
    }
}

/* Compares rows with the definitions in double. Terms are f32: an exponent of up to 16 is off by
 * 2^-20 in the end, a difference of logits of up to 40 by 2^-18; sums are f64. */
static void test_score(struct dev *d) {
    static const int64_t sizes[] = {1, 31, 513, 3000};
    enum { ROWS = 3 };
    struct err e;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const int64_t n = sizes[i];
        float *q = randoms(ROWS * n, 4), *p = randoms(ROWS * n, 4);
        int32_t target[ROWS];
        struct cu_score_row got[ROWS];
        for (int64_t k = 0; k < ROWS * n; k++) p[k] = q[k] + 0.5f * p[k];
        for (int64_t k = 0; k < n; k++) {
            p[n + k] = rintf(p[n + k]);         /* ties */
            if (k % 3 == 1) q[2 * n + k] = -30; /* below what counts */
            if (k % 3 == 1) p[2 * n + k] = -INFINITY;
        }
        for (int r = 0; r < ROWS; r++) target[r] = (int32_t)(n * (r + 1) / (ROWS + 1));
        struct cu_score a = {.q = put(d, q, ROWS * n),
                             .p = put(d, p, ROWS * n),
                             .target = dev_put(d, target, sizeof target),
                             .n = ROWS,
                             .n_vocab = n,
                             .row = dev_new(d, sizeof got)};
        CHECK_OK(cu_score_rows(d->s, &a, &e));
        dev_get(d, got, a.row, sizeof got);
        for (int r = 0; r < ROWS; r++) {
            const float *x = q + r * n, *y = p + r * n;
            double sq = 0, sp = 0, kld = 0;
            int64_t tq = 0, tp = 0;
            for (int64_t k = 0; k < n; k++) {
                sq += exp((double)x[k]);
                sp += exp((double)y[k]);
                if (x[k] > x[tq]) tq = k;
                if (y[k] > y[tp]) tp = k;
            }
            for (int64_t k = 0; k < n; k++) {
                const double lp = (double)y[k] - log(sp), lq = (double)x[k] - log(sq);
                if (lp > -16) kld += exp(lp) * (lp - lq);
            }
            CHECK_CLOSE(got[r].nll_q, log(sq) - (double)x[target[r]], 0x1p-18);
            CHECK_CLOSE(got[r].nll_p, log(sp) - (double)y[target[r]], 0x1p-18);
            CHECK_CLOSE(got[r].kld, kld, 0x1p-18 + 0x1p-19 * kld);
            CHECK_EQ_I64(got[r].top_q, tq);
            CHECK_EQ_I64(got[r].top_p, tp);
            CHECK_CLOSE((double)got[r].prob_q, exp((double)x[tq]) / sq, 0x1p-20);
            CHECK_CLOSE((double)got[r].prob_p, exp((double)y[tp]) / sp, 0x1p-20);
        }
        a.p = NULL;
        CHECK_OK(cu_score_rows(d->s, &a, &e));
        dev_get(d, got, a.row, sizeof got);
        CHECK(got[0].kld == 0 && got[0].top_p == 0 && got[0].nll_q > -1);
        free(q);
        free(p);
    }
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    kern_init(&ref, KERN_REF);
    EACH_ORDER(o) {
        order_now = o;
        rng_seed(&rng, 7);
        RUN_DEV(test_norms, &d);
        RUN_DEV(test_values, &d);
        RUN_DEV(test_gate_add, &d);
        RUN_DEV(test_rope, &d);
        RUN_DEV(test_attention, &d);
        RUN_DEV(test_few, &d);
        RUN_DEV(test_attention_refuses, &d);
        RUN_DEV(test_prepare, &d);
        RUN_DEV(test_delta, &d);
        RUN_DEV(test_chunks, &d);
        RUN_DEV(test_route, &d);
        RUN_DEV(test_best, &d);
        RUN_DEV(test_score, &d);
        if (sums[o] != sums[0]) {
            fprintf(stderr, "order %u of threads gives other bits\n", o);
            check_n_failed++;
        }
    }
    if (emu_card) { /* fewer warps, so the sums differ */
        dev_small(&d, true);
        order_now = COUNT_OF(sums) - 1;
        RUN_DEV(test_attention, &d);
        RUN_DEV(test_few, &d);
        RUN_DEV(test_chunks, &d);
    }
    dev_close(&d);
    return check_done();
}
