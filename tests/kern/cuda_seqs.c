// SPDX-License-Identifier: MIT
/* tests/kern/cuda_seqs.c - launches over rows of several sequences: each sequence must get the same
 * bits as alone. cuda_ops.c tests that the result for a single sequence is right. */
#include "base/rng.h"
#include "tests/kern/cuda_pages.h"

static struct rng rng;

static float *randoms(struct dev *d, int64_t n, float scale) {
    float *x = xcalloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = scale * ((float)(rng_u64(&rng) >> 40) * 0x1p-23f - 1.0f);
    float *p = dev_put(d, x, (size_t)n * sizeof *x);
    free(x);
    return p;
}
static float *space(struct dev *d, int64_t n) {
    return dev_new(d, (size_t)n * sizeof(float));
}
static void same(struct dev *d, const char *what, const float *a, const float *b, int64_t n) {
    float *x = xcalloc((size_t)n, sizeof *x), *y = xcalloc((size_t)n, sizeof *y);
    dev_get(d, x, a, (size_t)n * sizeof *x);
    dev_get(d, y, b, (size_t)n * sizeof *y);
    if (memcmp(x, y, (size_t)n * sizeof *x) != 0)
        CHECK_FAIL("%s: bits differ from a sequence alone", what);
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] == x[i])) {
            CHECK_FAIL("%s: not a number", what);
            break;
        }
    free(x);
    free(y);
}

enum { SEQS = 4 };
struct attn_case {
    const char *name;
    enum qtype k, v;
    int64_t heads, kv_heads, dim, window;
    bool many, fast;
    int32_t n[SEQS], pos[SEQS]; /* rows of the pass, positions before it */
};

/* Appends keys and values of all sequences in one pass, then again with the rows of the second
 * pass. */
static void fill(struct dev *d, const struct attn_case *c, struct cu_attn *a, struct cu_seg *seg) {
    struct err e;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < SEQS; i++) {
            seg[i].pos = pass ? c->pos[i] : 0;
            seg[i].n = pass ? c->n[i] : c->pos[i];
        }
        rows_to(a, rows_put(d, seg, SEQS));
        a->new_k = randoms(d, a->n_tok * c->kv_heads * c->dim, 1);
        a->new_v = randoms(d, a->n_tok * c->kv_heads * c->dim, 1);
        CHECK_OK(cu_kv_append(d->s, a, &e));
    }
}

static void attn_case(struct dev *d, const struct attn_case *c) {
    struct err e;
    struct cu_seg seg[SEQS] = {{0}};
    struct cu_attn a = {.k_type = c->k,
                        .v_type = c->v,
                        .n_heads = c->heads,
                        .n_kv_heads = c->kv_heads,
                        .head_dim = c->dim,
                        .window = c->window,
                        .scale = (float)(1 / sqrt((double)c->dim)),
                        .slot = PAGES_SLOT,
                        .n_slots = PAGES_SLOTS,
                        .fast = c->fast,
                        .fast_few = c->fast,
                        .n_splits = 3};
    int64_t longest = 0;
    for (int i = 0; i < SEQS; i++) {
        longest = max_i64(longest, c->n[i]);
        seg[i].page =
            pages_new(d, pages_bytes(c->k, c->v, c->kv_heads, c->dim), c->pos[i] + c->n[i]);
    }
    fill(d, c, &a, seg);
    const int64_t row = c->heads * c->dim, n = a.n_tok * row;
    float *gate = randoms(d, n, 1);
    a.q = randoms(d, n, 2);
    a.gate = gate;
    a.part = space(d, SEQS * longest * c->heads * a.n_splits * (c->dim + 2));
    a.rows = (struct cu_rows_of){a.all_segs, SEQS, longest};
    float *all = a.out = space(d, n);
    CHECK_OK((c->many ? cu_attn_many : cu_attn_few)(d->s, &a, &e));
    for (int i = 0; i < SEQS; i++) {
        a.out = space(d, n);
        a.rows = (struct cu_rows_of){a.all_segs + i, 1, c->n[i]};
        CHECK_OK((c->many ? cu_attn_many : cu_attn_few)(d->s, &a, &e));
        same(d, c->name, all + seg[i].row * row, a.out + seg[i].row * row, c->n[i] * row);
    }
}

static void test_attention(struct dev *d) {
    static const struct attn_case c[] = {
        {"few, cores", QT_F32, QT_F32, 4, 2, 32, 0, false, false, {1, 1, 1, 1}, {0, 300, 5, 255}},
        {"few, windows",
         QT_Q8_0,
         QT_F16,
         18,
         2,
         64,
         33,
         false,
         false,
         {1, 1, 1, 1},
         {270, 2, 9, 256}},
        {"few, tensor cores",
         QT_Q8_0,
         QT_Q8_0,
         6,
         2,
         64,
         0,
         false,
         true,
         {1, 1, 5, 8},
         {300, 0, 70, 250}},
        {"few, f16, windows",
         QT_F16,
         QT_F16,
         4,
         1,
         128,
         20,
         false,
         true,
         {1, 2, 2, 3},
         {260, 9, 30, 0}},
        {"many, cores", QT_F16, QT_F16, 6, 2, 24, 0, true, false, {1, 2, 20, 40}, {200, 0, 250, 7}},
        {"many, windows",
         QT_F32,
         QT_Q4_0,
         2,
         1,
         32,
         16,
         true,
         false,
         {3, 1, 35, 4},
         {250, 0, 230, 90}},
        {"many, tensor cores",
         QT_F16,
         QT_F16,
         4,
         2,
         64,
         0,
         true,
         true,
         {40, 1, 9, 2},
         {0, 280, 250, 3}},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) attn_case(d, &c[i]);
}

/* Tests convolution and delta rule with contiguous states and rings. */
static void delta_case(struct dev *d, const int32_t n[SEQS], int64_t dk, int64_t dv, bool chunked) {
    enum { HV = 4, HK = 2, TAPS = 4 };
    struct err e;
    const int64_t ch = 2 * HK * dk + HV * dv, ns = HV * dv * dk, no = HV * dv,
                  size = ns + TAPS * ch;
    struct cu_seg seg[SEQS] = {{0}}, alone[SEQS];
    struct cu_delta a = {.n_v_heads = HV,
                         .n_k_heads = HK,
                         .k_dim = dk,
                         .v_dim = dv,
                         .eps = 1e-6f,
                         .scale = 0.1f,
                         .taps = TAPS,
                         .ring_at = ns,
                         .a = randoms(d, HV, -1),
                         .dt = randoms(d, HV, 1),
                         .conv = randoms(d, ch * TAPS, 1),
                         .chunked = chunked};
    int64_t longest = 0, rows = 0;
    for (int i = 0; i < SEQS; i++) {
        seg[i] = (struct cu_seg){.state = randoms(d, size, 1), .pos = 3 * i, .n = n[i]};
        alone[i] = seg[i];
        alone[i].state = space(d, size);
        CHECK_OK(cu_copy(d->s, alone[i].state, seg[i].state, (uint64_t)size * 4, &e));
        longest = max_i64(longest, n[i]);
        rows += n[i];
    }
    float *u = randoms(d, rows * ch, 1), *u2 = space(d, rows * ch);
    CHECK_OK(cu_copy(d->s, u2, u, (uint64_t)(rows * ch) * 4, &e));
    a.beta = randoms(d, rows * HV, 2);
    a.alpha = randoms(d, rows * HV, 2);
    a.rows = (struct cu_rows_of){rows_put(d, seg, SEQS).seg, SEQS, longest};
    a.u = u;
    float *all = a.out = space(d, rows * no);
    CHECK_OK(cu_conv_silu(d->s, &a, ch, &e));
    CHECK_OK(cu_delta_rows(d->s, &a, &e));
    const struct cu_seg *one = rows_put(d, alone, SEQS).seg;
    a.u = u2;
    a.out = space(d, rows * no);
    for (int i = 0; i < SEQS; i++) {
        a.rows = (struct cu_rows_of){one + i, 1, n[i]};
        CHECK_OK(cu_conv_silu(d->s, &a, ch, &e));
        CHECK_OK(cu_delta_rows(d->s, &a, &e));
        same(d, "state", seg[i].state, alone[i].state, size);
    }
    same(d, "convolution", u, u2, rows * ch);
    same(d, "delta rule", all, a.out, rows * no);
}
static void test_delta(struct dev *d) {
    delta_case(d, (const int32_t[SEQS]){1, 5, 1, 12}, 16, 40, false);
    delta_case(d, (const int32_t[SEQS]){64, 70, 64, 65}, 128, 32, true);
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(o) {
        rng_seed(&rng, 11);
        RUN_DEV(test_attention, &d);
        RUN_DEV(test_delta, &d);
        if (o == 1) break; /* two orders of threads are enough here */
    }
    dev_close(&d);
    return check_done();
}
