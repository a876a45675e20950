// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_eval.c - perplexity and divergence found on a device, where logits stay,
 * against the CPU's, which test_eval holds against numpy; sums for calibration against the rows
 * that an observer is shown. `make test`: the emulated device; `make check-cuda`: the real one. */
#include "kernels/cuda/cuda.h"
#include "quantize/quantize.h"
#include "runtime/eval.h"
#include "tests/unit/golden.h"

enum { CTX = 8 };
static struct model *base, *other;
static struct golden golden;

static struct session *open_on(const struct model *m, enum device_kind kind) {
    struct err e = {0};
    struct session *s = NULL;
    const struct session_opts o = {.n_ctx = 32, .n_ubatch = 16, .device = {.kind = kind}};
    CHECK_OK(session_new(&s, m, &o, &e));
    return s;
}

static void test_ppl(void) {
    struct err e;
    struct eval_ppl r[2];
    const struct ids ids = {.v = golden.ids, .n = 2 * CTX};
    for (int i = 0; i < 2; i++) {
        struct session *s = open_on(other, i ? DEVICE_CUDA : DEVICE_CPU);
        CHECK(session_can_score(s, NULL) == (i == 1));
        CHECK_OK(eval_ppl(s, &ids, CTX, 0, 1, NULL, &r[i], &e));
        session_free(s);
    }
    CHECK_EQ_I64(r[0].n_tokens, r[1].n_tokens);
    CHECK_CLOSE(r[1].mean_nll, r[0].mean_nll, 1e-5);
}

/* Candidates on the device, on the CPU, and both: the numbers of each position are the same. */
static void test_kld(void) {
    struct err e;
    struct eval_kld k[3][2];
    const struct ids ids = {.v = golden.ids, .n = 2 * CTX};
    static const enum device_kind on[3][3] = {{DEVICE_CPU, DEVICE_CPU, DEVICE_CPU},
                                              {DEVICE_CUDA, DEVICE_CUDA, DEVICE_CPU},
                                              {DEVICE_CUDA, DEVICE_CUDA, DEVICE_CUDA}};
    for (int i = 0; i < 3; i++) {
        struct session *b = open_on(base, on[i][0]);
        struct session *c[2] = {open_on(other, on[i][1]), open_on(base, on[i][2])};
        CHECK(session_can_score(c[0], b) == (i > 0));
        CHECK(session_can_score(c[1], b) == (i == 2));
        CHECK_OK(eval_kld(b, c, 2, &ids, CTX, 1, k[i], NULL, &e));
        session_free(b);
        for (int n = 0; n < 2; n++) session_free(c[n]);
    }
    CHECK(k[0][0].mean_kld > 1e-3); /* Q4_0 */
    for (int i = 1; i < 3; i++)
        for (int n = 0; n < 2; n++) {
            const struct eval_kld *a = &k[0][n], *b = &k[i][n];
            CHECK_EQ_I64(b->n_tokens, a->n_tokens);
            CHECK_CLOSE(b->mean_kld, a->mean_kld, 1e-5);
            CHECK_CLOSE(b->max_kld, a->max_kld, 1e-4);
            CHECK_CLOSE(b->ppl / a->ppl, 1, 1e-5);
            CHECK_CLOSE(b->ppl_base / a->ppl_base, 1, 1e-5);
            CHECK_CLOSE(b->same_top1, a->same_top1, 1e-12);
            CHECK_CLOSE(b->rms_dp, a->rms_dp, 1e-6);
        }
}

/* ---- sums for calibration -----------------------------------------------------------------------
 */

enum { MOST = 200 };
struct sums { /* of every product: columns and rows, experts one after the other */
    const char *name[MOST];
    double *sum[MOST], *count[MOST];
    int64_t n_mat[MOST];
    int n;
};
static int place_of(struct sums *t, const struct gr_weight *w, int64_t n_mat) {
    int i = 0;
    while (i < t->n && strcmp(t->name[i], w->name) != 0) i++;
    if (i < t->n) return i;
    t->name[t->n] = w->name;
    t->n_mat[t->n] = n_mat;
    t->sum[t->n] = xcalloc((size_t)(n_mat * w->ne[0]), sizeof(double));
    t->count[t->n] = xcalloc((size_t)n_mat, sizeof(double));
    return t->n++;
}
/* The definition: rows in their order. */
static void see(void *ud, const struct gr_weight *w, int64_t expert, const float *x, int64_t n_rows,
                int64_t ld) {
    struct sums *t = ud;
    const int64_t mat = expert < 0 ? 0 : expert, k = w->ne[0];
    const int i = place_of(t, w, expert < 0 ? 1 : w->ne[2]);
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t c = 0; c < k; c++)
            t->sum[i][mat * k + c] += (double)x[r * ld + c] * (double)x[r * ld + c];
    t->count[i][mat] += (double)n_rows;
}
static void take(void *ud, const struct gr_weight *w, int64_t n_mat, const double *sum2,
                 const double *count) {
    struct sums *t = ud;
    const int i = place_of(t, w, n_mat);
    CHECK_EQ_I64(t->n_mat[i], n_mat);
    if (!sum2) return;
    memcpy(t->sum[i], sum2, (size_t)(n_mat * w->ne[0]) * sizeof *sum2);
    memcpy(t->count[i], count, (size_t)n_mat * sizeof *count);
}

/* What the device sums is, to the bit, the sum of what it shows to an observer. */
static void test_sums(void) {
    static const int64_t pass[3] = {6, 3, 5}; /* the last two are one chunk */
    struct err e;
    static struct sums seen, part, made;
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("s.gguf"));
    struct session *a = open_on(m, DEVICE_CUDA), *b = open_on(m, DEVICE_CUDA);
    CHECK(session_can_sum(b));
    CHECK_OK(session_sum_begin(b, take, &made, &e));
    for (int i = 0, at = 0; i < 3; at += (int)pass[i++]) {
        session_observe(a, see, i < 1 ? &seen : &part);
        CHECK_OK(session_forward(a, golden.ids + at, pass[i], NULL, &e));
        CHECK_OK(session_forward(b, golden.ids + at, pass[i], NULL, &e));
        if (i != 1) CHECK_OK(session_sum_chunk(b, &e));
    }
    CHECK_OK(session_sum_end(b, take, &made, &e));
    CHECK(seen.n == made.n && seen.n > 20);
    for (int i = 0; i < made.n; i++) {
        const struct gr_weight *w = NULL;
        for (int k = 0; k < m->graph.n_weights; k++)
            if (strcmp(m->graph.weight[k].name, made.name[i]) == 0) w = &m->graph.weight[k];
        const int64_t n = made.n_mat[i] * w->ne[0];
        const int at = place_of(&seen, w, made.n_mat[i]), p = place_of(&part, w, made.n_mat[i]);
        CHECK_EQ_I64(at, i); /* the order of a pass */
        bool same = true;
        for (int64_t k = 0; k < n; k++)
            same = same && seen.sum[at][k] + part.sum[p][k] == made.sum[i][k];
        for (int64_t k = 0; k < made.n_mat[i]; k++)
            same = same && seen.count[at][k] + part.count[p][k] == made.count[i][k];
        if (!same) CHECK_FAIL("%s: other sums", made.name[i]);
    }
    CHECK_OK(session_forward(b, golden.ids, 2, NULL, &e)); /* and it goes on without */
    struct sums *all[] = {&seen, &part, &made};
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < all[t]->n; i++) {
            free(all[t]->sum[i]);
            free(all[t]->count[i]);
        }
    session_free(a);
    session_free(b);
    a = open_on(m, DEVICE_CPU);
    CHECK(!session_can_sum(a));
    session_free(a);
    /* room for the session, none for sums: the session goes on without */
    a = open_on(m, DEVICE_CUDA);
    const uint64_t most = session_bytes(a) + (32 << 10);
    session_free(a);
    const struct session_opts o = {
        .n_ctx = 32, .n_ubatch = 16, .device = {.kind = DEVICE_CUDA, .max_bytes = most}};
    CHECK_OK(session_new(&a, m, &o, &e));
    CHECK(session_can_sum(a));
    CHECK_ERR(session_sum_begin(a, take, &part, &e), ERR_SYS, "--max-vram");
    CHECK_OK(session_forward(a, golden.ids, 2, NULL, &e));
    session_free(a);
    model_close(m);
}

int main(void) {
    struct err e;
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    base = golden_open("tests/golden/models/qwen3moe", tmp_path("m.gguf"));
    struct quantize_report r;
    const struct quantize_opts o = {
        .in = tmp_path("m.gguf"), .out = tmp_path("q.gguf"), .recipe = "Q4_0"};
    if (!base || !golden_load(&golden, "tests/golden/models/qwen3moe")) return 1;
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_OK(model_open(&other, tmp_path("q.gguf"), &e));
    RUN(test_ppl);
    RUN(test_kld);
    RUN(test_sums);
    model_close(base);
    model_close(other);
    golden_release(&golden);
    tmp_remove();
    return check_done();
}
