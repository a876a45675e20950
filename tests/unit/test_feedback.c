// SPDX-License-Identifier: MIT
/* Second moments and error feedback: collected sums compared with plain loops, the factor with the
 * matrix it came from, the quadratic error of rows with and without feedback, invariants (a
 * diagonal matrix, the number of threads), and invalid files. */
#include "tests/check.h"

#include "calib/moments.h"
#include "base/ctx.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/rng.h"
#include "kernels/kern.h"
#include "quantize/enc/super.h"
#include "quantize/feedback.h"
#include "tests/unit/tmpdir.h"

enum { N = 512, ROWS = 11, TOKENS = 900 };
static const enum qtype types[] = {QT_Q4_0,    QT_Q4_1,   QT_Q5_0,  QT_Q5_1,    QT_Q8_0,   QT_Q2_K,
                                   QT_Q3_K,    QT_Q4_K,   QT_Q5_K,  QT_IQ4_NL,  QT_IQ4_XS, QT_Q6_K,
                                   QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S, QT_IQ3_XXS, QT_IQ3_S,  QT_IQ1_S,
                                   QT_IQ1_M,   QT_MXFP4,  QT_NVFP4};
enum { N_OPEN = 12 }; /* number of types that can be opened (enc/open.h) */
static struct kern ref;
static float x[ROWS * N], imp[N];
static float *acts; /* [TOKENS][N], correlated */

static void fill(void) {
    struct rng r;
    rng_seed(&r, 3);
    float *mix = calloc(8 * N, sizeof *mix);
    acts = calloc(TOKENS * N, sizeof *acts);
    for (int i = 0; i < 8 * N; i++) mix[i] = rng_normal(&r);
    for (int t = 0; t < TOKENS; t++) {
        float z[8];
        for (int k = 0; k < 8; k++) z[k] = rng_normal(&r);
        for (int i = 0; i < N; i++) {
            float v = 0.7f * rng_normal(&r);
            for (int k = 0; k < 8; k++) v += 0.4f * z[k] * mix[k * N + i];
            acts[t * N + i] = v * (i % 37 == 5 ? 6.0f : 1.0f);
        }
    }
    for (int i = 0; i < ROWS * N; i++) x[i] = 0.02f * rng_normal(&r);
    free(mix);
}

/* Computes the moments of the synthetic activations for one half or both, in blocks of `block`. */
static void moments(struct gram_input *in, float *sum, float *count, int64_t block) {
    memset(sum, 0, sizeof *sum * 2 * N * (size_t)block);
    for (int t = 0; t < TOKENS; t++) {
        float *s = sum + (t % 2) * N * block;
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < block && i / block * block + j < N; j++)
                s[i * block + j] += acts[t * N + i] * acts[t * N + i / block * block + j];
    }
    count[0] = count[1] = TOKENS / 2;
    *in = (struct gram_input){.n = N, .block = block, .n_mat = 1};
    for (int h = 0; h < 2; h++) {
        in->sum[h] = sum + h * N * block;
        in->count[h] = count + h;
    }
}

/* Returns an inner product in the factor's order of summation: eight partial sums. */
static double plain_dot(const double *a, const double *b, int64_t n) {
    double acc[8] = {0}, s = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int l = 0; l < 8; l++) acc[l] += a[k + l] * b[k + l];
    for (; k < n; k++) s += a[k] * b[k];
    for (int l = 0; l < 8; l++) s += acc[l];
    return s;
}
/* Factors f's last block again, one inner product at a time, 64 columns at a time, and checks for
 * the same bits. */
static void same_bits(const struct factor *f) {
    const int64_t n = f->block, b0 = f->n - n;
    double *a = calloc((size_t)(n * n), sizeof *a);
    int64_t wrong = 0;
    for (int64_t p = 0; p < n; p++)
        for (int64_t q = 0; q <= p; q++)
            a[p * n + q] = (double)f->r[(b0 + n - 1 - p) * n + n - 1 - q];
    for (int64_t k0 = 0; k0 < n; k0 += 64)
        for (int64_t p = k0; p < n; p++)
            for (int64_t q = k0; q <= p; q++) {
                const int64_t k1 = k0 + 64, m = q < k1 ? q - k0 : 64;
                double *v = a + p * n + q;
                *v -= plain_dot(a + p * n + k0, a + q * n + k0, m);
                if (q < k1) *v = p == q ? sqrt(*v) : *v / a[q * n + q];
            }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            const int64_t p = n - 1 - i, q = n - 1 - j;
            const float want = (float)(a[p * n + q] / a[q * n + q]);
            wrong += memcmp(&want, f->m + (b0 + i) * n + j, sizeof want) != 0;
        }
    CHECK_EQ_I64(wrong, 0);
    free(a);
}

static void test_factor(void) {
    struct err e;
    struct gram_input in;
    float *sum = calloc(2 * N * N, sizeof *sum), count[2];
    struct pool *pool;
    CHECK_OK(pool_new(&pool, 3, &e));
    for (int64_t block = N; block >= 256; block -= 256) {
        struct factor f, g;
        struct factor_opts o = {.halves = 3, .lambda = 0.01, .alpha = 0.1};
        moments(&in, sum, count, block);
        CHECK_OK(factor_init(&f, N, block, &e));
        CHECK_OK(factor_init(&g, N, block, &e));
        CHECK_OK(factor_make(&f, &in, 0, &o, NULL, 0, NULL, &e));
        CHECK_OK(factor_make(&g, &in, 0, &o, NULL, 0, pool, &e));
        CHECK(memcmp(f.m, g.m, N * (size_t)block * sizeof *f.m) == 0);
        same_bits(&f);
        double worst = 0;
        for (int64_t i = 0; i < N; i += 7) /* R = (1 + M) diag (1 + M)^T within a block */
            for (int64_t j = 0; j < block; j += 5) {
                double s = 0;
                int64_t b0 = i / block * block;
                for (int64_t k = 0; k < block; k++) {
                    double a = k == i - b0 ? 1 : (double)f.m[i * block + k];
                    double b = k == j ? 1 : (double)f.m[(b0 + j) * block + k];
                    s += a * b * (double)f.diag[b0 + k];
                }
                worst = fmax(worst, fabs(s - (double)f.r[i * block + j]));
            }
        CHECK(worst < 1e-5);
        /* off the diagonal: 0.9 of the correlation */
        double hij = (double)(in.sum[0][1 * block + 9] + in.sum[1][1 * block + 9]) / TOKENS,
               mean = 0;
        for (int i = 0; i < N; i++) mean += (double)f.h[i] / N;
        double want =
            0.9 * hij / sqrt(((double)f.h[1] + 0.01 * mean) * ((double)f.h[9] + 0.01 * mean));
        CHECK_CLOSE(f.r[block + 9], want, 1e-5);
        int64_t other = 0;
        o.alpha = 1; /* no correlation is left */
        CHECK_OK(factor_make(&g, &in, 0, &o, NULL, 0, pool, &e));
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < block; j++)
                other += g.m[i * block + j] != 0 || g.diag[i] != 1 ||
                         g.r[i * block + j] != (j == i % block);
        CHECK_EQ_I64(other, 0);
        factor_release(&f);
        factor_release(&g);
    }
    pool_free(pool);
    free(sum);
}

static struct feedback feed(enum qtype t, const struct factor *f, const float *w, const float *s) {
    struct feedback fb;
    feedback_init(&fb, t, SEARCH_FAST);
    fb.f = f;
    fb.imp = w;
    fb.s = s;
    return fb;
}

static double error_of(const struct feedback *fb, uint8_t *enc) {
    static float y[ROWS * N];
    struct err e;
    struct feedback_work *w = NULL;
    uint64_t row = qtype_row_bytes(fb->type, N);
    CHECK_OK(feedback_work_new(&w, fb->type, N, &e));
    for (int r = 0; r < ROWS; r += FEEDBACK_ROWS) {
        int n = ROWS - r < FEEDBACK_ROWS ? ROWS - r : FEEDBACK_ROWS;
        feedback_rows(fb, w, x + r * N, n, enc + (uint64_t)r * row, row);
    }
    feedback_work_free(w);
    ref.op[fb->type].decode(enc, y, ROWS * N);
    return feedback_error(fb->f, fb->s, x, y, ROWS);
}

static void test_error_falls(void) {
    struct err e;
    struct gram_input in;
    struct factor f;
    float *sum = calloc(2 * N * N, sizeof *sum), count[2], w[N], s[N];
    uint8_t *plain = calloc(ROWS, N * 4), *enc = calloc(ROWS, N * 4);
    struct factor_opts o = {.halves = 3, .lambda = 0.01, .alpha = 0.05};
    moments(&in, sum, count, N);
    CHECK_OK(factor_init(&f, N, N, &e));
    CHECK_OK(factor_make(&f, &in, 0, &o, NULL, 0, NULL, &e));
    feedback_weights(w, s, f.h, N, 0.01);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        static float y[ROWS * N];
        struct feedback fb = feed(types[t], &f, w, s);
        uint64_t row = qtype_row_bytes(types[t], N);
        for (int r = 0; r < ROWS; r++)
            enc_find(types[t])->row(x + r * N, w, N, plain + (uint64_t)r * row, SEARCH_FAST);
        ref.op[types[t]].decode(plain, y, ROWS * N);
        double e_plain = feedback_error(&f, s, x, y, ROWS), e_pass = error_of(&fb, enc);
        fb.rounds = 2;
        fb.steps = FEEDBACK_CODES;
        double e_codes = error_of(&fb, enc);
        fb.steps = FEEDBACK_CODES | FEEDBACK_SCALES | FEEDBACK_INTS;
        double e_all = error_of(&fb, enc);
        if (!(e_pass < 0.8 * e_plain && e_codes < e_pass && e_all < e_pass))
            CHECK_FAIL("%s: plain %g, feedback %g, codes %g, all %g", qtype_name(types[t]), e_plain,
                       e_pass, e_codes, e_all);
    }
    factor_release(&f);
    free(sum);
    free(plain);
    free(enc);
}

/* Checks that without correlations the bytes are the plain encoder's (Q4_0 to Q5_1 may differ,
 * because there the plain encoder's weights depend on the whole row). */
static void test_diagonal_is_plain(void) {
    struct err e;
    struct gram_input in;
    struct factor f;
    float *sum = calloc(2 * N * N, sizeof *sum), count[2], w[N], s[N];
    uint8_t *plain = calloc(ROWS, N * 4), *enc = calloc(ROWS, N * 4);
    moments(&in, sum, count, N);
    for (int64_t i = 0; i < 2 * N * N; i++)
        if (i % (N * N) / N != i % N) sum[i] = 0;
    struct factor_opts o = {.halves = 3, .alpha = 0.3};
    CHECK_OK(factor_init(&f, N, N, &e));
    CHECK_OK(factor_make(&f, &in, 0, &o, NULL, 0, NULL, &e));
    feedback_weights(w, s, f.h, N, 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct feedback fb = feed(types[t], &f, w, s);
        uint64_t row = qtype_row_bytes(types[t], N);
        if (t < 4 || t >= N_OPEN) continue;
        for (int r = 0; r < ROWS; r++)
            enc_find(types[t])->row(x + r * N, f.h, N, plain + (uint64_t)r * row, SEARCH_FAST);
        error_of(&fb, enc);
        if (memcmp(plain, enc, ROWS * row) != 0)
            CHECK_FAIL("%s: a diagonal matrix changed the bytes", qtype_name(types[t]));
    }
    factor_release(&f);
    free(sum);
    free(plain);
    free(enc);
}

/* Checks that, if inputs have drifted from z to x = z - d with d depending on x, rows aimed at x +
 * x Delta H^-1 approximate the products with z better than the rows themselves. */
static void test_moved_inputs(void) {
    struct err e;
    struct gram_input in;
    struct factor f;
    float *sum = calloc(2 * N * N, sizeof *sum), *cross = calloc(2 * N * N, sizeof *cross),
          count[2], w[N], s[N];
    float *d = calloc(TOKENS * N, sizeof *d), *aim = malloc(sizeof x),
          *room = calloc(2 * N, sizeof *room);
    const struct factor_opts o = {.halves = 3, .lambda = 0.01, .alpha = 0.03};
    struct rng r;
    double before = 0, after = 0, half = 0;
    rng_seed(&r, 5);
    moments(&in, sum, count, N);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < N; i++)
            d[t * N + i] = 0.3f * acts[t * N + (i + 7) % N] + 0.05f * rng_normal(&r);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                cross[((t % 2) * N + i) * N + j] += d[t * N + i] * acts[t * N + j];
    const float *half_of[GRAM_HALVES] = {cross, cross + N * N};
    CHECK_OK(factor_init(&f, N, N, &e));
    CHECK_OK(factor_make(&f, &in, 0, &o, NULL, 0, NULL, &e));
    feedback_weights(w, s, f.h, N, 0.01);
    for (int k = 0; k < 2; k++) {
        memcpy(aim, x, sizeof x);
        factor_aim(&f, s, half_of, k ? 1 : 0.5, aim, ROWS, room);
        for (int t = 0; t < TOKENS; t += 3)
            for (int row = 0; row < ROWS; row++) {
                double want = 0, plain = 0, aimed = 0;
                for (int i = 0; i < N; i++) {
                    const double in_now = (double)acts[t * N + i], wi = (double)x[row * N + i];
                    want += wi * (in_now + (double)d[t * N + i]);
                    plain += wi * in_now;
                    aimed += (double)aim[row * N + i] * in_now;
                }
                before += k ? (want - plain) * (want - plain) : 0;
                *(k ? &after : &half) += (want - aimed) * (want - aimed);
            }
    }
    CHECK(after < 0.2 * before);
    CHECK(half < 0.5 * before && after < half);
    factor_release(&f);
    free(sum);
    free(cross);
    free(d);
    free(aim);
    free(room);
}

static void test_balance(void) {
    static float y[N];
    uint8_t enc[N * 4];
    struct enc_raw *o = calloc(N / 32, sizeof *o);
    for (int i = 0; i < N; i++) imp[i] = acts[i] * acts[i] + 0.1f;
    for (size_t t = 0; t < N_OPEN; t++)
        for (int balanced = 0; balanced < 2; balanced++) {
            double num = 0, den = 0;
            if (balanced)
                enc_row_balanced(enc_blocks_find(types[t]), x, imp, N, enc, SEARCH_FAST, o);
            else
                enc_find(types[t])->row(x, imp, N, enc, SEARCH_FAST);
            ref.op[types[t]].decode(enc, y, N);
            for (int i = 0; i < N; i++) {
                num += (double)imp[i] * (double)x[i] * (double)x[i];
                den += (double)imp[i] * (double)x[i] * (double)y[i];
            }
            if (balanced) CHECK_CLOSE(den / num, 1, 3e-3);
            if (!balanced && types[t] == QT_Q2_K) CHECK(den / num < 0.99);
        }
    free(o);
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* Checks that the halves consist of whole texts if each has at least a quarter of the chunks and
 * there are no experts.
 */
static void test_texts(struct pool *pool) {
    static const int64_t fair[] = {3, 9}, unfair[] = {8, 9};
    const struct gr_weight q = {.name = "blk.0.attn_q.weight", .ne = {N, 4, 1}};
    const struct gr_weight ex = {.name = "blk.0.ffn_up_exps.weight", .ne = {N, 4, 2}};
    for (int k = 0; k < 3; k++) {
        struct err e;
        struct gram_col *c = NULL;
        struct gram g;
        CHECK_OK(gram_col_new(&c, 0, KERN_REF, pool, &e));
        gram_col_see(c, &q, -1, acts, NULL, 10, N);
        if (k == 2) gram_col_see(c, &ex, 0, acts + N, NULL, 10, N);
        CHECK_OK(gram_col_settle(c, 64, &e));
        gram_col_texts(c, k == 1 ? unfair : fair, 2);
        for (int chunk = 0; chunk < 9; chunk++) {
            gram_col_chunk(c, chunk);
            gram_col_see(c, &q, -1, acts, NULL, 10, N);
        }
        gram_init(&g);
        CHECK_OK(gram_col_finish(c, &g, &e));
        CHECK_CLOSE(g.input[0].count[0][0], k ? 80 : 30, 0);
        CHECK_CLOSE(g.input[0].count[1][0], k ? 10 : 60, 0);
        gram_release(&g);
        gram_col_free(c);
    }
}

/* Checks the turns of the halves: both get tokens of two chunks or more, and 16 chunks or more, or
 * an unknown number, give turns of eight. A warning is given of a single chunk. */
static void test_turns(struct pool *pool) {
    static const struct {
        int64_t chunks;
        float first, second;
    } cases[] = {{1, 1, 0}, {2, 1, 1},  {3, 2, 1},  {8, 4, 4},
                 {9, 5, 4}, {15, 8, 7}, {16, 8, 8}, {19, 11, 8}};
    const struct gr_weight q = {.name = "blk.0.attn_q.weight", .ne = {N, 4, 1}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        struct err e;
        struct gram_col *c = NULL;
        struct gram g;
        CHECK_OK(gram_col_new(&c, 0, KERN_REF, pool, &e));
        gram_col_chunks(c, cases[k].chunks);
        gram_col_see(c, &q, -1, acts, NULL, 1, N);
        CHECK_OK(gram_col_settle(c, 64, &e));
        for (int64_t chunk = 0; chunk < cases[k].chunks; chunk++) {
            gram_col_chunk(c, chunk);
            gram_col_see(c, &q, -1, acts, NULL, 1, N);
        }
        gram_init(&g);
        CHECK_OK(gram_col_finish(c, &g, &e));
        CHECK_CLOSE(g.input[0].count[0][0], cases[k].first, 0);
        CHECK_CLOSE(g.input[0].count[1][0], cases[k].second, 0);
        gram_release(&g);
        gram_col_free(c);
    }
}

/* Checks that sums of 8 chunks continue those of 9, whose halves take the same turns, but not those
 * of 16. */
static void test_turns_resume(struct pool *pool) {
    static const int64_t chunks[] = {8, 9, 16};
    const struct gr_weight q = {.name = "blk.0.attn_q.weight", .ne = {N, 4, 1}};
    const char *path = tmp_path("turns");
    for (int k = 0; k < 3; k++) {
        struct err e;
        struct gram_col *c = NULL;
        struct checkpoint_w *w;
        struct checkpoint_r r;
        CHECK_OK(gram_col_new(&c, 0, KERN_REF, pool, &e));
        gram_col_chunks(c, chunks[k]);
        gram_col_see(c, &q, -1, acts, NULL, 1, N);
        CHECK_OK(gram_col_settle(c, 64, &e));
        if (k) {
            CHECK(checkpoint_open(&r, path, "turns") == SNAP_SAME);
            CHECK(gram_col_load(c, &r) == (chunks[k] < 16));
            checkpoint_close(&r);
        } else {
            CHECK_OK(checkpoint_begin(&w, path, "turns", &e));
            CHECK_OK(gram_col_save(c, w, &e));
            CHECK_OK(checkpoint_commit(w, &e));
            checkpoint_end(w);
        }
        gram_col_free(c);
    }
}

/* Gives a collector too little memory. Moments of gradients must be left out if only they do not
 * fit; if the others do not fit either, it must fail. */
static void test_short(struct pool *pool) {
    const struct gr_weight q = {.name = "blk.0.attn_q.weight", .ne = {N, 300, 1}};
    const struct gr_weight out = {.name = GRAM_OUT "blk.0.attn_q.weight", .ne = {300, 1, 1}};
    const uint64_t inputs = 8 * N * N, gradients = 8 * 300 * 300, rest = 1 << 19;
    const uint64_t limit[] = {inputs - 1, inputs + rest, inputs + gradients + rest};
    for (int k = 0; k < 3; k++) {
        struct err e;
        struct ctx own;
        struct gram g;
        struct gram_col *c = NULL;
        ctx_init(&own);
        struct ctx *mine = ctx_enter(&own);
        log_set_level(LOG_ERROR);
        mem_limit(limit[k]);
        CHECK_OK(gram_col_new(&c, 0, KERN_REF, pool, &e));
        for (int pass = 0; pass < 2; pass++) {
            gram_col_see(c, &q, -1, acts, NULL, 10, N);
            gram_col_see(c, &out, -1, acts + N, NULL, 10, N);
            if (pass) continue;
            if (k)
                CHECK_OK(gram_col_settle(c, 64, &e));
            else
                CHECK_ERR(gram_col_settle(c, 64, &e), ERR_SYS, "lower --gram-block");
            if (!k) break;
            gram_col_chunk(c, 0);
        }
        gram_init(&g);
        if (k) {
            CHECK_OK(gram_col_finish(c, &g, &e));
            CHECK_EQ_I64(g.n_inputs, k);
            CHECK(gram_find(&g, q.name) && !gram_find(&g, out.name) == (k == 1));
            CHECK_CLOSE(gram_find(&g, q.name)->count[0][0], 10, 0);
        }
        gram_release(&g);
        gram_col_free(c);
        ctx_release(&own);
        ctx_enter(mine);
    }
}

static void test_collector(void) {
    struct err e;
    struct gram_col *c = NULL;
    struct gram g;
    struct pool *pool;
    struct gr_weight q = {.name = "blk.0.attn_q.weight", .ne = {N, 4, 1}};
    struct gr_weight k = {.name = "blk.0.attn_k.weight", .ne = {N, 2, 1}};
    struct gr_weight ex = {.name = "blk.0.ffn_up_exps.weight", .ne = {N, 4, 2}};
    float gate[60];
    for (int r = 0; r < 60; r++) gate[r] = (float)(r % 7) / 3;
    CHECK_OK(pool_new(&pool, 2, &e));
    CHECK_ERR(gram_col_new(&c, 100, KERN_REF, NULL, &e), ERR_USAGE, "multiple of 256");
    CHECK_OK(gram_col_new(&c, 0, KERN_REF, pool, &e));
    for (int pass = 0; pass < 2; pass++) {
        for (int chunk = 0; chunk < (pass ? 9 : 1); chunk++) {
            const float *a = acts + chunk * 100 * N;
            if (pass) gram_col_chunk(c, chunk);
            gram_col_see(c, &q, -1, a, NULL, 100, N);
            gram_col_see(c, &k, -1, a, NULL, 100, N);
            gram_col_see(c, &ex, chunk % 2, a, chunk == 3 ? gate : NULL, 60, N);
        }
        if (!pass) CHECK_OK(gram_col_settle(c, 64, &e));
    }
    gram_init(&g);
    CHECK_OK(gram_col_finish(c, &g, &e));
    CHECK_EQ_I64(g.n_inputs, 2);
    const struct gram_input *in = gram_find(&g, "blk.0.attn_q.weight");
    const struct gram_input *ei = gram_find(&g, "blk.0.ffn_up_exps.weight");
    CHECK(in == gram_find(&g, "blk.0.attn_k.weight") && in != ei && !gram_find(&g, "blk.1.x"));
    CHECK_EQ_STR(in->name, "blk.0.attn_k.weight");
    CHECK_EQ_I64(in->block, N);
    CHECK_EQ_I64(ei->block, 256);
    CHECK_EQ_I64(ei->n_mat, 2);
    CHECK_CLOSE(in->count[0][0], 800, 0); /* 8 chunks, then the other half */
    CHECK_CLOSE(in->count[1][0], 100, 0);
    CHECK_CLOSE(ei->count[0][1], 240, 0);
    for (int i = 3; i < N; i += 101)
        for (int j = 0; j < N; j += 53) {
            double s = 0, se = 0;
            for (int t = 0; t < 800; t++) s += (double)acts[t * N + i] * (double)acts[t * N + j];
            for (int ch = 1; ch < 8; ch += 2)
                for (int t = ch * 100; t < ch * 100 + 60; t++) {
                    const double by = ch == 3 ? (double)gate[t - ch * 100] : 1;
                    se += by * by * (double)acts[t * N + i] * (double)acts[t * N + j];
                }
            CHECK_CLOSE(in->sum[0][i * N + j], s, 1e-2);
            if (i / 256 == j / 256) CHECK_CLOSE(ei->sum[0][N * 256 + i * 256 + j % 256], se, 1e-2);
        }
    g.chunk_size = 100;
    CHECK_OK(gram_write(&g, tmp_path("g.gguf"), false, &e));
    struct gram back;
    CHECK_OK(gram_read(&back, tmp_path("g.gguf"), &e));
    CHECK_EQ_I64(back.n_inputs, 2);
    CHECK_EQ_I64(back.n_weights, 3);
    const struct gram_input *bi = gram_find(&back, "blk.0.attn_q.weight");
    CHECK(bi && memcmp(bi->sum[1], in->sum[1], N * N * sizeof(float)) == 0);
    gram_release(&back);
    gram_release(&g);
    gram_col_free(c);
    test_texts(pool);
    test_turns(pool);
    test_turns_resume(pool);
    test_short(pool);
    pool_free(pool);
}

#define SOURCE "0123456789abcdef0123456789abcdef"
/* Tests that learned tensors are written and read, and that lists that cannot be right are refused.
 * g: moments with cross sums. */
static void learned_tensors(struct gram *g) {
    static uint8_t q[2 * 84 * 3];
    static float v[5] = {1, 2, 3, 4, 5};
    const struct gram_learned l[] = {
        {"blk.1.attn_q.weight", QT_Q2_K, {512, 3, 1, 1}, q, sizeof q, SOURCE},
        {"blk.1.attn_norm.weight", QT_F32, {5, 1, 1, 1}, v, sizeof v, SOURCE}};
    const char *path = tmp_path("learned.gguf");
    struct gram back;
    struct err e;
    for (size_t i = 0; i < sizeof q; i++) q[i] = (uint8_t)(i * 7);
    g->learned = (struct gram_learned *)(uintptr_t)l;
    g->n_learned = 2;
    CHECK_OK(gram_write(g, path, true, &e));
    CHECK_OK(gram_read(&back, path, &e));
    CHECK(back.crossed && back.n_weights == g->n_weights && back.n_learned == 2);
    for (int i = 0; i < 2; i++) {
        const struct gram_learned *got = gram_find_learned(&back, l[i].name);
        CHECK(got && got->type == l[i].type && got->n_bytes == l[i].n_bytes);
        CHECK(memcmp(got->ne, l[i].ne, sizeof got->ne) == 0);
        CHECK(memcmp(got->data, l[i].data, (size_t)l[i].n_bytes) == 0);
        CHECK(strcmp(got->source, SOURCE) == 0);
    }
    CHECK(!gram_find_learned(&back, "blk.1.y.weight"));
    gram_release(&back);
    struct gram_learned bad = l[0];
    bad.source[7] = 0; /* a short hash */
    g->learned = &bad;
    g->n_learned = 1;
    CHECK_OK(gram_write(g, path, true, &e));
    CHECK_ERR(gram_read(&back, path, &e), ERR_DATA, "learned tensor of \"blk.1.attn_q.weight\"");
    g->learned = NULL;
    g->n_learned = 0;
}

/* Tests pairing of two models' rows for the same tokens: dense rows, experts whose router decided
 * differently, and a file of the differences. */
static void test_pair(void) {
    struct err e;
    struct gram_col *c = NULL;
    struct gram g, back;
    struct pair *p = pair_new();
    const struct gr_weight q = {.name = "blk.1.attn_q.weight", .ne = {N, 4, 1}};
    const struct gr_weight up = {.name = "blk.1.ffn_up_exps.weight", .ne = {N, 4, 2}};
    const struct gr_weight down = {.name = "blk.1.ffn_down_exps.weight", .ne = {N, 4, 2}};
    const int32_t base_route[] = {0, 1, 1, 0},
                  route[] = {0, 0, 1, 0}; /* the second of four tokens moved to expert 0 */
    static float other[4 * N], d[4 * N], got[3 * N];
    for (int i = 0; i < 4 * N; i++) other[i] = acts[i] - 0.25f * acts[4 * N + i];
    for (int r = 0; r < 3; r++)
        memcpy(got + r * N, other + (r == 2 ? 3 : r) * N, N * sizeof *got); /* tokens 0, 1, 3 */
    CHECK_OK(gram_col_new(&c, 0, KERN_REF, NULL, &e));
    gram_col_pair(c, p);
    for (int pass = 0; pass < 2; pass++) {
        static float two[2 * N];
        pair_begin(p);
        pair_route(p, PAIR_BASE, 1, base_route, 1, 4);
        pair_route(p, PAIR_OTHER, 1, route, 1, 4);
        pair_keep(p, &q, -1, acts, 4, N);
        memcpy(two, acts, N * sizeof *two);
        memcpy(two + N, acts + 3 * N, N * sizeof *two);
        pair_keep(p, &up, 0, two, 2, N);
        pair_keep(p, &up, 1, acts + N, 2, N);
        pair_keep(p, &down, 0, two, 2, N);
        pair_keep(p, &down, 1, acts + N, 2, N);
        gram_col_chunk(c, 0);
        gram_col_see(c, &q, -1, other, NULL, 4, N);
        gram_col_see(c, &up, 0, got, NULL, 3, N);
        gram_col_see(c, &up, 1, other + 2 * N, NULL, 1, N);
        gram_col_see(c, &down, 0, got, NULL, 3, N);
        gram_col_see(c, &down, 1, other + 2 * N, NULL, 1, N);
        if (!pass) CHECK_OK(gram_col_settle(c, 4, &e));
    }
    CHECK_EQ_I64(pair_differences(p, &q, -1, other, 4, N, d), 4);
    for (int i = 0; i < 4 * N; i += 31) CHECK_CLOSE(d[i], 0.25f * acts[4 * N + i], 1e-5);
    CHECK_EQ_I64(pair_differences(p, &up, 0, got, 3, N, d),
                 3); /* the input of gate and up belongs to the token */
    CHECK_CLOSE(d[N + 5], 0.25f * acts[5 * N + 5], 1e-5);
    CHECK_EQ_I64(pair_differences(p, &down, 0, got, 3, N, d),
                 2); /* the input of down belongs to the expert */
    CHECK(d[N + 5] == 0);
    CHECK_CLOSE(d[2 * N + 5], 0.25f * acts[7 * N + 5], 1e-5);
    gram_init(&g);
    CHECK_OK(gram_col_finish(c, &g, &e));
    const struct gram_input *in = gram_find(&g, q.name);
    for (int i = 2; i < N; i += 97)
        for (int j = 1; j < N; j += 89) {
            double want = 0;
            for (int t = 0; t < 4; t++)
                want += 0.25 * (double)acts[(4 + t) * N + i] * (double)other[t * N + j];
            CHECK_CLOSE(in->cross[0][i * N + j], want, 1e-3);
        }
    g.chunk_size = 4;
    CHECK_OK(gram_write(&g, tmp_path("crossed.gguf"), false, &e));
    CHECK_OK(gram_read(&back, tmp_path("crossed.gguf"), &e));
    CHECK(back.crossed &&
          memcmp(gram_find(&back, q.name)->cross[0], in->cross[0], N * N * sizeof(float)) == 0);
    gram_release(&back);
    learned_tensors(&g);
    gram_release(&g);
    gram_col_free(c);
    pair_free(p);
}

/* ---- hostile files --------------------------------------------------------------------------- */

struct fake {
    const char *type, *weight;
    int64_t block, n, n_mat, n_counts;
    uint32_t version;
    float value, count;
};
static void write_fake(const char *path, const struct fake *k) {
    struct err e;
    struct gguf_w *w = gguf_w_new();
    const char *name = k->weight, *input = "a";
    const int64_t ne[3] = {k->block, k->n, k->n_mat}, nc[2] = {k->n_counts, 2};
    gguf_w_str(w, "general.type", k->type);
    gguf_w_u32(w, "gram.version", k->version);
    gguf_w_u32(w, "gram.chunk_count", 1);
    gguf_w_u32(w, "gram.chunk_size", 512);
    gguf_w_arr_str(w, "gram.weights", &name, 1);
    gguf_w_arr_str(w, "gram.inputs", &input, 1);
    CHECK_OK(gguf_w_tensor(w, "a.sum.0", QT_F32, 3, ne, &e));
    CHECK_OK(gguf_w_tensor(w, "a.sum.1", QT_F32, 3, ne, &e));
    CHECK_OK(gguf_w_tensor(w, "a.counts", QT_F32, 2, nc, &e));
    CHECK_OK(gguf_w_begin(w, path, true, &e));
    for (int64_t i = 0; i < 2 * k->block * k->n * k->n_mat; i++)
        CHECK_OK(gguf_w_data(w, &k->value, sizeof k->value, &e));
    for (int64_t i = 0; i < 2 * k->n_counts; i++)
        CHECK_OK(gguf_w_data(w, &k->count, sizeof k->count, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

static void test_hostile_files(void) {
    static const struct {
        struct fake f;
        const char *text;
    } cases[] = {
        {{"imatrix", "a", 32, 32, 1, 1, 1, 1, 1}, "general.type"},
        {{"gram", "a", 32, 32, 1, 1, 4, 1, 1}, "version 4"},
        {{"gram", "a", 32, 32, 1, 1, 3, 1, 1}, "gram.learned"},
        {{"gram", "a", 32, 32, 1, 1, 2, 1, 1}, "cross.0"},
        {{"gram", "", 32, 32, 1, 1, 1, 1, 1}, "name"},
        {{"gram", "a", 64, 32, 1, 1, 1, 1, 1}, "dimensions"},
        {{"gram", "a", 32, 64, 1, 1, 1, 1, 1}, "neither all 64 nor a multiple of 256"},
        {{"gram", "a", 300, 600, 1, 1, 1, 1, 1}, "\"a\" has blocks of 300"},
        {{"gram", "a", 32, 32, 2, 1, 1, 1, 1}, "counts"},
        {{"gram", "a", 32, 32, 1, 1, 1, 1, -1}, "token count"},
    };
    struct err e;
    struct gram g;
    const char *path = tmp_path("bad.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_fake(path, &cases[i].f);
        CHECK_ERR(gram_read(&g, path, &e), ERR_DATA, cases[i].text);
    }
    /* one block of any width, or blocks of 256 columns, the last one narrower */
    for (int n = 300; n < 900; n += 596)
        for (int block = 256; block <= n; block += n - 256) {
            write_fake(path, &(struct fake){"gram", "a", block, n, 1, 1, 1, 1, 1});
            CHECK_OK(gram_read(&g, path, &e));
            gram_release(&g);
        }
    const float values[] = {NAN, INFINITY, -1.0f};
    for (int i = 0; i < 3; i++) {
        struct factor f;
        struct factor_opts o = {.halves = 3, .alpha = 0.1};
        write_fake(path, &(struct fake){"gram", "a", 32, 32, 1, 1, 1, values[i], 9});
        CHECK_OK(gram_read(&g, path, &e));
        CHECK_OK(factor_init(&f, 32, 32, &e));
        CHECK_ERR(factor_make(&f, &g.input[0], 0, &o, NULL, 0, NULL, &e), ERR_DATA, "not finite");
        factor_release(&f);
        gram_release(&g);
    }
}

int main(void) {
    tmp_make();
    kern_init(&ref, KERN_REF);
    fill();
    RUN(test_factor);
    RUN(test_error_falls);
    RUN(test_diagonal_is_plain);
    RUN(test_moved_inputs);
    RUN(test_balance);
    RUN(test_collector);
    RUN(test_pair);
    RUN(test_hostile_files);
    free(acts);
    tmp_remove();
    return check_done();
}
