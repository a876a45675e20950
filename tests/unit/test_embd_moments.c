// SPDX-License-Identifier: MIT
/* Second moments of embeddings: the quadratic form equals its definition, matrix by matrix, the
 * router four times; matrices that have a different input or contain NaN are left out; the sums do
 * not depend on the number of threads. */
#include "tests/check.h"

#include <math.h>

#include "base/rng.h"
#include "quantize/embd_moments.h"
#include "tests/unit/tmpdir.h"

enum { N = 96, VOCAB = 5, MATRICES = 6 };
static const struct {
    const char *name;
    int64_t rows, experts;
    int norm; /* index of the norm that its input comes from */
    double counts;
} matrix[MATRICES] = {
    {"blk.0.attn_q.weight", 130, 1, 0, 1},     {"blk.0.attn_v.weight", 7, 1, 0, 1},
    {"blk.0.ffn_up_exps.weight", 13, 3, 1, 1}, {"blk.0.ffn_gate_inp.weight", 6, 1, 1, 4},
    {"blk.0.attn_k.weight", 9, 1, 0, 0}, /* not finite, see main() */
    {"blk.0.attn_output.weight", 11, 1, 0, 0}};
static const char *const norms[2] = {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"};
static float norm[2][N], w[MATRICES][130 * N], embd[VOCAB * N];

/* Writes a model with matrix `from`, all later ones, and the first n_norms norms, and opens it. */
static struct gguf *make(const char *file, int from, int n_norms) {
    struct err e;
    struct gguf *g = NULL;
    struct gguf_w *out = gguf_w_new();
    const int64_t n = N, ne[2] = {N, VOCAB};
    CHECK_OK(gguf_w_tensor(out, "token_embd.weight", QT_F32, 2, ne, &e));
    for (int k = 0; k < n_norms; k++) CHECK_OK(gguf_w_tensor(out, norms[k], QT_F32, 1, &n, &e));
    for (int k = from; k < MATRICES; k++) {
        const int64_t mk[3] = {N, matrix[k].rows, matrix[k].experts};
        CHECK_OK(gguf_w_tensor(out, matrix[k].name, QT_F32, 3, mk, &e));
    }
    CHECK_OK(gguf_w_begin(out, tmp_path(file), true, &e));
    CHECK_OK(gguf_w_data(out, embd, sizeof embd, &e));
    for (int k = 0; k < n_norms; k++) CHECK_OK(gguf_w_data(out, norm[k], sizeof norm[k], &e));
    for (int k = from; k < MATRICES; k++)
        CHECK_OK(gguf_w_data(out, w[k],
                             (size_t)(matrix[k].rows * matrix[k].experts) * N * sizeof(float), &e));
    CHECK_OK(gguf_w_commit(out, &e));
    gguf_w_free(out);
    CHECK_OK(gguf_open(&g, tmp_path(file), 0, &e));
    return g;
}

/* Returns the weight of column i in the norm before matrix k: a missing second norm is replaced by
 * the first; 1 without norms. */
static double norm_of(int k, int i, int n_norms) {
    return n_norms ? (double)norm[n_norms == 2 ? matrix[k].norm : 0][i] : 1;
}

/* Returns the error of the products: the sum over matrices of the relative squared error, plus 10 %
 * of the mean square of err for each. */
static double products(const float *err, int n_norms) {
    double sum = 0, size = 0;
    for (int i = 0; i < N; i++) size += (double)err[i] * (double)err[i];
    for (int k = 0; k < MATRICES; k++) {
        double of_err = 0, of_all = 0;
        if (matrix[k].counts == 0) continue;
        for (int64_t r = 0; r < matrix[k].rows * matrix[k].experts; r++) {
            double y = 0;
            for (int i = 0; i < N; i++) {
                const double v = (double)w[k][r * N + i] * norm_of(k, i, n_norms);
                y += v * (double)err[i];
                of_all += v * v;
            }
            of_err += y * y;
        }
        sum += matrix[k].counts * (of_err / of_all + 0.1 * size / N);
    }
    return sum;
}

static void test_form(void) {
    struct err e;
    struct rng r;
    struct pool *pool;
    CHECK_OK(pool_new(&pool, 3, &e));
    rng_seed(&r, 11);
    for (int n_norms = 0; n_norms < 3; n_norms++) {
        struct gguf *g = make("a.gguf", 0, n_norms);
        struct embd_moments one, three;
        CHECK_OK(embd_moments_make(&one, g, NULL, &e));
        CHECK_OK(embd_moments_make(&three, g, pool, &e));
        CHECK_EQ_I64(one.in.n, N);
        CHECK_EQ_I64(one.in.block, N);
        CHECK(memcmp(one.sum, three.sum, N * N * sizeof(float)) == 0);
        for (int t = 0; t < 5; t++) {
            float err[N];
            double form = 0;
            for (int i = 0; i < N; i++) err[i] = rng_normal(&r);
            for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++)
                    form += (double)err[i] * (double)one.in.sum[1][i * N + j] * (double)err[j];
            const double want = products(err, n_norms);
            CHECK_CLOSE(form / want, 1, 1e-5);
        }
        embd_moments_release(&one);
        embd_moments_release(&three);
        gguf_close(g);
    }
    pool_free(pool);
}

/* Checks that a file's own moments take precedence, and that other tensors, and models without
 * matrices, have none. */
static void test_find(void) {
    struct err e;
    struct gram gram;
    struct embd_moments m;
    struct gguf *g = make("b.gguf", 0, 2);
    gram_init(&gram);
    CHECK_OK(embd_moments_make(&m, g, NULL, &e));
    CHECK(embd_moments_find(&m, &gram, "token_embd.weight") == &m.in);
    CHECK(embd_moments_find(&m, &gram, "output.weight") == NULL);
    char name[] = "token_embd.weight";
    struct gram_input own = {.n = N, .block = N, .n_mat = 1};
    struct gram_weight weight = {name, 0};
    gram.input = &own;
    gram.weight = &weight;
    gram.n_inputs = gram.n_weights = 1;
    CHECK(embd_moments_find(&m, &gram, "token_embd.weight") == &own);
    embd_moments_release(&m);
    gguf_close(g);
    g = make("c.gguf", 4, 2); /* only matrices that are left out */
    gram_init(&gram);
    CHECK_OK(embd_moments_make(&m, g, NULL, &e));
    CHECK_EQ_I64(m.in.n, 0);
    CHECK(embd_moments_find(&m, &gram, "token_embd.weight") == NULL);
    embd_moments_release(&m);
    gguf_close(g);
}

int main(void) {
    struct rng r;
    tmp_make();
    rng_seed(&r, 5);
    for (int i = 0; i < 2 * N; i++) norm[i / N][i % N] = 0.2f + fabsf(rng_normal(&r));
    for (int k = 0; k < MATRICES; k++)
        for (int64_t i = 0; i < matrix[k].rows * matrix[k].experts * N; i++)
            w[k][i] = (k == 1 ? 30.0f : 0.02f) * rng_normal(&r);
    w[4][4 * N + 3] = NAN;
    for (int i = 0; i < VOCAB * N; i++) embd[i] = rng_normal(&r);
    RUN(test_form);
    RUN(test_find);
    tmp_remove();
    return check_done();
}
