// SPDX-License-Identifier: MIT
/* tests/kern/cuda_latent.c - latent attention on a device: per-head products with weights of every
 * type, and attention over pages of every type, compared with double arithmetic on weights decoded
 * by kernels/ref and rows rounded by runtime/engine/kv_type.c. Otherwise like cuda_ops.c. */
#include "kernels/bench.h"
#include "runtime/engine/kv_type.h"
#include "tests/kern/cuda_pages.h"
#include "tests/kern/cuda_vec.h"

static struct kern ref;

/* Tests heads with and without a tail, and numbers of rows and tokens that end within a block of
 * threads. */
static void heads_case(struct dev *d, enum qtype t, int64_t k, int64_t rows, int64_t tail,
                       int64_t n_tok) {
    enum { HEADS = 3 };
    struct err e;
    const int64_t in = k + tail, width = tail + rows, n = rows * HEADS;
    const size_t bytes = (size_t)qtype_row_bytes(t, k) * (size_t)n;
    uint8_t *host = xmalloc(bytes);
    float *w = xcalloc((size_t)(n * k), sizeof *w), *x = randoms(n_tok * HEADS * in, 1);
    float *want = xcalloc((size_t)(n_tok * HEADS * width), sizeof *want);
    kern_random_blocks(t, &rng, host, k / qtype_info(t)->block_elems * n);
    ref.op[t].decode(host, w, n * k);
    for (int64_t i = 0; i < n_tok * HEADS; i++) {
        const float *from = x + i * in, *mat = w + i % HEADS * rows * k;
        float *to = want + i * width;
        memcpy(to, from + k, (size_t)tail * sizeof *to);
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0;
            for (int64_t c = 0; c < k; c++) sum += (double)mat[r * k + c] * (double)from[c];
            to[tail + r] = (float)sum;
        }
    }
    const struct cu_weight cw = {.type = t,
                                 .k = k,
                                 .rows = rows,
                                 .mats = HEADS,
                                 .row_bytes = qtype_row_bytes(t, k),
                                 .mat_bytes = qtype_row_bytes(t, k) * (uint64_t)rows,
                                 .data = dev_put(d, host, bytes)};
    float *y = space(d, n_tok * HEADS * width);
    CHECK_OK(cu_matmul_heads(d->s, &cw, put(d, x, n_tok * HEADS * in), in, n_tok, y, &e));
    compare(d, qtype_name(t), y, want, n_tok * HEADS * width, F32_TOL);
    free(host);
    free(w);
    free(x);
}
static void test_heads(struct dev *d) {
    for (int t = 0; t < QT_COUNT; t++) {
        if (!qtype_info(t) || !cu_has_type((enum qtype)t)) continue;
        const int64_t block = qtype_info(t)->block_elems;
        heads_case(d, (enum qtype)t, block > 64 ? block : 64, 33, 16, 5);
    }
    heads_case(d, QT_F16, 24, 130, 0, 4); /* not a multiple of 32 */
    heads_case(d, QT_BF16, 8, 2, 8, 1);
}

struct latent_case {
    enum qtype k, v;
    int64_t heads, turned, rank, pos, n_tok;
};
/* Returns the rows as read back from the cache. */
static float *rounded(enum qtype type, const float *x, int64_t rows, int64_t n, bool is_value) {
    const struct kv_type *t = kv_type_of(type);
    float *out = xcalloc((size_t)(rows * n), sizeof *out);
    uint8_t row[4096];
    for (int64_t i = 0; i < rows; i++) {
        t->put(t, &ref, x + i * n, row, n, is_value);
        ref.op[type].decode(row, out + i * n, n);
    }
    return out;
}
static float *attend(const struct latent_case *c, const float *k, const float *v, const float *q,
                     float scale) {
    const int64_t dim = c->turned + c->rank, total = c->pos + c->n_tok;
    float *ck = rounded(c->k, k, total, c->turned, false),
          *cv = rounded(c->v, v, total, c->rank, true);
    float *out = xcalloc((size_t)(c->n_tok * c->heads * c->rank), sizeof *out);
    double *p = xcalloc((size_t)total, sizeof *p);
    for (int64_t i = 0; i < c->n_tok * c->heads; i++) {
        const int64_t seen = c->pos + i / c->heads + 1;
        double top = (double)-INFINITY, sum = 0;
        for (int64_t s = 0; s < seen; s++) {
            p[s] = 0;
            for (int64_t l = 0; l < dim; l++)
                p[s] += (double)q[i * dim + l] * (double)(l < c->turned
                                                              ? ck[s * c->turned + l]
                                                              : cv[s * c->rank + l - c->turned]);
            p[s] *= (double)scale;
            top = fmax(top, p[s]);
        }
        for (int64_t s = 0; s < seen; s++) sum += p[s] = exp(p[s] - top);
        for (int64_t l = 0; l < c->rank; l++) {
            double o = 0;
            for (int64_t s = 0; s < seen; s++) o += p[s] * (double)cv[s * c->rank + l];
            out[i * c->rank + l] = (float)(o / sum);
        }
    }
    free(ck);
    free(cv);
    free(p);
    return out;
}

/* Tests two sequences in a pass; the second has one token at position 0. */
static void latent_case(struct dev *d, const struct latent_case *c) {
    struct err e;
    const int64_t dim = c->turned + c->rank, total = c->pos + c->n_tok,
                  n_q = (c->n_tok + 1) * c->heads;
    const struct latent_case one = {c->k, c->v, c->heads, c->turned, c->rank, 0, 1};
    float *k = randoms((total + 1) * c->turned, 1), *v = randoms((total + 1) * c->rank, 1);
    float *q = randoms(n_q * dim, 2);
    const uint64_t page =
        (uint64_t)CU_PAGE * (qtype_row_bytes(c->k, c->turned) + qtype_row_bytes(c->v, c->rank));
    struct cu_seg seg[2] = {{.page = pages_new(d, page, total), .n = (int32_t)c->pos},
                            {.page = pages_new(d, page, 1), .n = 1}};
    struct cu_attn a = {.k_type = c->k,
                        .v_type = c->v,
                        .n_heads = c->heads,
                        .n_kv_heads = 1,
                        .head_dim = dim,
                        .latent = c->rank,
                        .scale = (float)(1 / sqrt((double)dim)),
                        .slot = PAGES_SLOT,
                        .n_slots = PAGES_SLOTS};
    float *dk = put(d, k, (total + 1) * c->turned), *dv = put(d, v, (total + 1) * c->rank);
    rows_to(&a, rows_put(d, seg, 1));
    a.new_k = dk;
    a.new_v = dv;
    CHECK_OK(cu_kv_append(d->s, &a, &e));
    seg[0].pos = (int32_t)c->pos;
    seg[0].n = (int32_t)c->n_tok;
    rows_to(&a, rows_put(d, seg, 2));
    a.new_k = dk + c->pos * c->turned;
    a.new_v = dv + c->pos * c->rank;
    CHECK_OK(cu_kv_append(d->s, &a, &e));
    a.q = put(d, q, n_q * dim);
    a.out = space(d, n_q * c->rank);
    CHECK_OK(cu_attn_latent(d->s, &a, &e));
    compare(d, "latent attention", a.out, attend(c, k, v, q, a.scale),
            c->n_tok * c->heads * c->rank, F32_TOL);
    compare(d, "latent attention of another sequence", a.out + c->n_tok * c->heads * c->rank,
            attend(&one, k + total * c->turned, v + total * c->rank, q + c->n_tok * c->heads * dim,
                   a.scale),
            c->heads * c->rank, F32_TOL);
    free(k);
    free(v);
    free(q);
}
static void test_latent(struct dev *d) {
    static const struct latent_case c[] = {
        {QT_F32, QT_F32, 1, 8, 8, 0, 1},        {QT_F16, QT_F16, 9, 64, 512, 3, 2},
        {QT_Q8_0, QT_Q8_0, 16, 32, 64, 250, 9}, {QT_Q4_0, QT_Q4_0, 5, 64, 96, 15, 3},
        {QT_F16, QT_Q8_0, 4, 24, 32, 270, 1},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) latent_case(d, &c[i]);
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    kern_init(&ref, KERN_REF);
    EACH_ORDER(o) {
        order_now = o;
        rng_seed(&rng, 11);
        RUN_DEV(test_heads, &d);
        RUN_DEV(test_latent, &d);
        if (sums[o] != sums[0]) {
            fprintf(stderr, "order %u of threads gives other bits\n", o);
            check_n_failed++;
        }
    }
    dev_close(&d);
    return check_done();
}
