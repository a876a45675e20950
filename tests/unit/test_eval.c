// SPDX-License-Identifier: MIT
/* tests/unit/test_eval.c - runtime/measure/: statistics compared with numpy, mean negative
 * log-likelihood with transformers, windows and comparisons with plain loops over the logits.
 */
#include <stddef.h>
#include <unistd.h>

#include "convert/convert.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/rng.h"
#include "containers/safetensors.h"
#include "runtime/measure/flips.h"
#include "runtime/measure/internal.h"
#include "runtime/measure/job.h"
#include "tests/check.h"

enum { N_IDS = 80, N_VOCAB = 1024 };
static char dir[] = "/tmp/hone-test-eval-XXXXXX";
static struct model *model;
static struct ids ids; /* ids of the golden sequence */

static char *path_of(const char *name) {
    return xasprintf("%s/%s", dir, name);
}
static void setup(void) {
    struct err e = {0};
    char *path = path_of("m.gguf");
    struct convert_opts o = {.src = "tests/golden/models/qwen35moe", .out = path, .type = "f32"};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&model, path, &e));
    struct st *g = NULL;
    CHECK_OK(st_open(&g, "tests/golden/models/qwen35moe/golden.safetensors", &e));
    for (int64_t i = 0; g && i < st_n_tensors(g); i++)
        if (strcmp(st_tensor_at(g, i)->name, "ids") == 0)
            for (int64_t k = 0; k < N_IDS; k++) {
                float v;
                CHECK_OK(st_to_f32(st_tensor_at(g, i), k, 1, &v, &e));
                ids_add(&ids, (int32_t)v);
            }
    st_close(g);
    free(path);
}
static struct session *open_session(int64_t n_ctx, struct pool *p) {
    struct err e = {0};
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = n_ctx, .isa = kern_isa_best(), .pool = p};
    CHECK_OK(session_new(&s, model, &o, &e));
    return s;
}

/* Tests statistics of arrays filled by integer formulas. Expected values: numpy 2.x with the same
 * formulas (mean, corrcoef, percentile with linear interpolation, and the definitions of
 * docs/design/evaluation.md). */
static void test_statistics(void) {
    enum { N = 150 };
    static const struct {
        size_t off;
        double want;
    } expect[] = {
        {offsetof(struct eval_kld, ppl), 8.14225091250834},
        {offsetof(struct eval_kld, ppl_stderr), 0.776912367079836},
        {offsetof(struct eval_kld, ppl_base), 21.8214254879718},
        {offsetof(struct eval_kld, ppl_base_stderr), 2.22687525851393},
        {offsetof(struct eval_kld, correlation), 0.505207757364322},
        {offsetof(struct eval_kld, ln_ppl_ratio), -0.985825641025642},
        {offsetof(struct eval_kld, ppl_ratio), 0.373131027438901},
        {offsetof(struct eval_kld, ppl_ratio_stderr), 0.0367110704950088},
        {offsetof(struct eval_kld, mean_kld), 0.1366},
        {offsetof(struct eval_kld, mean_kld_stderr), 0.00705853125902801},
        {offsetof(struct eval_kld, median_kld), 0.14},
        {offsetof(struct eval_kld, kld_p90), 0.26},
        {offsetof(struct eval_kld, kld_p95), 0.2675},
        {offsetof(struct eval_kld, kld_p99), 0.276275},
        {offsetof(struct eval_kld, kld_p999), 0.2775},
        {offsetof(struct eval_kld, max_kld), 0.2775},
        {offsetof(struct eval_kld, min_kld), 0.0025},
        {offsetof(struct eval_kld, kld_p10), 0.022},
        {offsetof(struct eval_kld, kld_p05), 0.011125},
        {offsetof(struct eval_kld, kld_p01), 0.00495},
        {offsetof(struct eval_kld, mean_dp), 0.000933333333333333},
        {offsetof(struct eval_kld, mean_dp_stderr), 0.0042454730902316},
        {offsetof(struct eval_kld, rms_dp), 0.0518310074504956},
        {offsetof(struct eval_kld, rms_dp_stderr), 0.00189492902894759},
        {offsetof(struct eval_kld, same_top1), 0.86},
        {offsetof(struct eval_kld, same_top1_stderr), 0.0284262852176497},
    };
    struct err e = {0};
    struct kld_pos p;
    CHECK_OK(kld_pos_init(&p, N, &e));
    for (int i = 0; i < N; i++) {
        p.nll_q[i] = (i * 37 + 11) % 101 / 25.0 + 0.1;
        p.nll_p[i] = (i * 53 + 7) % 97 / 26.0 + 0.2 + p.nll_q[i] * 0.5;
        p.kld[i] = (i * i * 31 + 5) % 113 / 400.0;
        p.dp[i] = ((i * 71 + 3) % 89 - 44) / 500.0;
        p.same[i] = i % 7 != 3;
    }
    p.n = N;
    struct eval_kld k;
    kld_stats(&p, &k);
    for (size_t i = 0; i < sizeof expect / sizeof *expect; i++) {
        double v;
        memcpy(&v, (const char *)&k + expect[i].off, sizeof v);
        CHECK_CLOSE(v, expect[i].want, 1e-11 * (1 + fabs(expect[i].want)));
    }
    CHECK_EQ_I64(k.n_tokens, N);
    p.n = 5; /* too few for standard errors; all else is defined */
    kld_stats(&p, &k);
    CHECK(isnan(k.mean_kld_stderr) && isnan(k.ppl_stderr) && isnan(k.ppl_ratio_stderr));
    CHECK(k.mean_kld > 0 && k.correlation == 1);
    p.n = 0;
    kld_stats(&p, &k);
    CHECK(k.n_tokens == 0 && k.mean_kld == 0);
    kld_pos_release(&p);
}

/* Compares one position with numpy in float64; the fifth entry has log p = -33 and is left out,
 * although q is large there. */
static void test_one_position(void) {
    float logp[5] = {-1.38409174f, -4.38409185f, -2.88409162f, -0.384091705f, -33.3840904f};
    const float q[5] = {1.5f, -0.5f, 0.5f, 3.5f, 2.0f};
    struct err e = {0};
    struct kld_pos p;
    CHECK_OK(kld_pos_init(&p, 1, &e));
    kld_pos_row(&p, 0, logp, q, 5, 2);
    CHECK_CLOSE(p.kld[0], 0.24968400853970937, 1e-6);
    CHECK_CLOSE(p.dp[0], -0.021005657637137964, 1e-7);
    CHECK_CLOSE(p.nll_q[0], 3.355271665252738, 1e-6);
    CHECK_CLOSE(p.nll_p[0], 2.8840917012886935, 1e-6);
    CHECK(p.same[0]);
    logp[0] = 0; /* another argmax */
    kld_pos_row(&p, 0, logp, q, 5, 2);
    CHECK(!p.same[0]);
    kld_pos_release(&p);
    CHECK_CLOSE(eval_lse((const float[]){1000.0f, 1000.0f}, 2), 1000 + log(2), 1e-9);
    CHECK_EQ_I64(logits_argmax((const float[]){1, 3, 3}, 3), 1);
}

/* Sets nll[i] to the negative log-likelihood of token i + 1 in the window ids[begin .. begin +
 * n). */
static void plain_nll(int64_t begin, int64_t n, double *nll) {
    struct err e = {0};
    struct session *s = open_session(n, NULL);
    float *h = xcalloc((size_t)(n * model->hp.d[HD_EMBD]), sizeof *h);
    float *l = xcalloc((size_t)(n * N_VOCAB), sizeof *l);
    CHECK_OK(session_forward(s, ids.v + begin, n, h, &e));
    CHECK_OK(session_head(s, h, n, l, &e));
    for (int64_t i = 0; i + 1 < n; i++) {
        double sum = 0;
        for (int64_t v = 0; v < N_VOCAB; v++) sum += exp((double)l[i * N_VOCAB + v]);
        nll[i] = log(sum) - (double)l[i * N_VOCAB + ids.v[begin + i + 1]];
    }
    session_free(s);
    free(h);
    free(l);
}

static void test_nll_of_transformers(void) {
    double nll[N_IDS], mean = 0;
    plain_nll(0, N_IDS, nll);
    for (int i = 0; i + 1 < N_IDS; i++) mean += nll[i] / (N_IDS - 1);
    CHECK_CLOSE(mean, 7.439507498292864, 2e-5); /* golden.json mean_nll */
}

static void test_perplexity_windows(void) {
    struct err e = {0};
    struct eval_ppl r;
    struct session *s = open_session(60, NULL);
    double nll[N_IDS], want = 0;
    CHECK_OK(eval_ppl(s, &ids, 40, 0, 0, NULL, &r, &e));
    for (int c = 0; c < 2; c++) { /* rows 20..38 score tokens 21..39: 19 per window */
        plain_nll(c * 40, 40, nll);
        for (int i = 20; i < 39; i++) want += nll[i] / 38;
    }
    CHECK_EQ_I64(r.n_tokens, 38);
    CHECK_EQ_I64(r.n_chunks, 2);
    CHECK_CLOSE(r.mean_nll, want, 1e-5);
    CHECK_CLOSE(r.ppl, exp(want), 1e-5 * exp(want));
    CHECK(r.ppl_stderr > 0 && r.tok_per_s > 0);
    CHECK_OK(eval_ppl(s, &ids, 40, 0, 1, NULL, &r, &e));
    CHECK_EQ_I64(r.n_tokens, 19);
    CHECK_OK(eval_ppl(s, &ids, 39, 0, 0, NULL, &r, &e)); /* the tail of 2 is dropped */
    CHECK_EQ_I64(r.n_tokens, 2 * 19);
    /* windows of 40 + 10/2 = 45 every 10 tokens, the last 10 scored */
    CHECK_OK(eval_ppl(s, &ids, 40, 10, 0, NULL, &r, &e));
    CHECK_EQ_I64(r.n_chunks, 4);
    CHECK_EQ_I64(r.n_tokens, 40);
    want = 0;
    for (int c = 0; c < 4; c++) {
        plain_nll(c * 10, 45, nll);
        for (int i = 34; i < 44; i++) want += nll[i] / 40;
    }
    CHECK_CLOSE(r.mean_nll, want, 1e-5);
    session_free(s);
}

static void test_refusals(void) {
    struct err e = {0};
    struct eval_ppl r;
    struct session *s = open_session(60, NULL);
    CHECK_ERR(eval_ppl(s, &ids, 41, 0, 0, NULL, &r, &e), ERR_DATA,
              "has 80 tokens, a window of 41 needs at least 82");
    CHECK_ERR(eval_ppl(s, &ids, 61, 0, 0, NULL, &r, &e), ERR_USAGE, "does not fit");
    CHECK_ERR(eval_ppl(s, &ids, 3, 0, 0, NULL, &r, &e), ERR_USAGE, "too short");
    CHECK_ERR(eval_ppl(s, &ids, 20, 100, 0, NULL, &r, &e), ERR_USAGE, "does not fit");
    struct ids none = {0}, bad = {0};
    CHECK_ERR(eval_ppl(s, &none, 40, 0, 0, NULL, &r, &e), ERR_DATA, "has 0 tokens");
    for (int i = 0; i < 80; i++) ids_add(&bad, i == 70 ? N_VOCAB : i);
    CHECK_ERR(eval_ppl(s, &bad, 40, 0, 0, NULL, &r, &e), ERR_USAGE, "outside the vocabulary");
    ids_release(&bad);
    session_free(s);
}

static void test_kld(void) {
    struct err e = {0};
    struct pool *p = NULL;
    CHECK_OK(pool_new(&p, 3, &e));
    struct session *base = open_session(40, p), *same = open_session(40, p),
                   *one = open_session(40, NULL);
    struct session_opts o = {.n_ctx = 40, .isa = kern_isa_best(), .kv_type = QT_Q8_0, .pool = p};
    struct session *rough = NULL; /* differs only in its cache */
    CHECK_OK(session_new(&rough, model, &o, &e));
    struct session *const cand[2] = {same, rough};
    struct eval_kld k[2], k1;
    float *pos[2] = {0};
    CHECK_OK(eval_kld(base, cand, 2, &ids, 40, 0, k, pos, &e));
    CHECK_EQ_I64(k[0].n_tokens, 38);
    CHECK(k[0].max_kld < 1e-6 && k[0].min_kld > -1e-6 && k[0].same_top1 == 1 && k[0].rms_dp < 1e-7);
    CHECK_CLOSE(k[0].ppl, k[0].ppl_base, 1e-4);
    CHECK(k[1].mean_kld > 1e-8 && k[1].mean_kld < 1e-2 && k[1].max_kld > k[1].mean_kld);
    double mean = 0;
    for (int i = 0; i < 38; i++) mean += (double)pos[1][i] / 38;
    CHECK_CLOSE(mean, k[1].mean_kld, 1e-7);
    struct eval_ppl ppl; /* the same windows */
    CHECK_OK(eval_ppl(base, &ids, 40, 0, 0, NULL, &ppl, &e));
    CHECK_CLOSE(ppl.ppl, k[0].ppl_base, 1e-3);
    /* alone, and with another number of threads: the same bits */
    struct session *const alone[1] = {rough};
    CHECK_OK(eval_kld(one, alone, 1, &ids, 40, 0, &k1, NULL, &e));
    CHECK(memcmp(&k1.mean_kld, &k[1].mean_kld, sizeof k1.mean_kld) == 0);
    CHECK(memcmp(&k1.ppl_base, &k[1].ppl_base, sizeof k1.ppl_base) == 0);
    printf("divergence of a q8_0 cache: %.3g\n", k[1].mean_kld);

    char *path = path_of("base.kld");
    CHECK_OK(eval_kld_save(base, &ids, 40, 0, path, false, &e));
    CHECK_ERR(eval_kld_save(base, &ids, 40, 0, path, false, &e), ERR_USAGE, "-f");
    CHECK_OK(eval_kld_file(same, path, 0, &k1, &e));
    /* 16-bit codes of at most 16 nat: a step is 2.4e-4, an error at most half of it */
    printf("model against its own file: mean %.3g, max %.3g\n", k1.mean_kld, k1.max_kld);
    CHECK(k1.n_tokens == 38 && fabs(k1.mean_kld) < 1.3e-4 && k1.max_kld < 1.3e-4);
    CHECK_OK(eval_kld_file(rough, path, 1, &k1, &e));
    CHECK_EQ_I64(k1.n_tokens, 19);
    CHECK_ERR(eval_kld_file(same, "/nonexistent.kld", 0, &k1, &e), ERR_USAGE, "/nonexistent.kld");
    struct session *small = open_session(20, NULL);
    CHECK_ERR(eval_kld_file(small, path, 0, &k1, &e), ERR_USAGE, "does not fit");
    session_free(small);
    unlink(path);
    free(path);
    free(pos[0]);
    free(pos[1]);
    session_free(base);
    session_free(same);
    session_free(one);
    session_free(rough);
    pool_free(p);
}

static struct session *open_for_rows(int64_t n_rows, enum qtype kv) {
    struct err e = {0};
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = 8, .n_ubatch = n_rows, .isa = kern_isa_best(), .kv_type = kv};
    CHECK_OK(session_new(&s, model, &o, &e));
    return s;
}

/* Checks that windows that share passes have the same perplexity and divergence as alone, even if
 * one candidate runs fewer windows per pass than another. */
static void test_windows_together(void) {
    struct err e = {0};
    struct session *alone[2], *many[2];
    for (int i = 0; i < 2; i++) {
        alone[i] = open_for_rows(8, i ? QT_Q8_0 : QT_F32);
        many[i] = open_for_rows(i ? 24 : 40, i ? QT_Q8_0 : QT_F32); /* the base runs five */
    }
    CHECK(session_get_opts(many[0])->n_ubatch == 40);
    struct eval_ppl a, b;
    double *wa = NULL, *wb = NULL;
    CHECK_OK(eval_ppl_windows(alone[0], &ids, 8, 0, NULL, &a, &wa, &e));
    CHECK_OK(eval_ppl_windows(many[0], &ids, 8, 0, NULL, &b, &wb, &e));
    CHECK_EQ_I64(a.n_chunks, 10);
    CHECK(memcmp(wa, wb, 10 * sizeof *wa) == 0 && memcmp(&a.ppl, &b.ppl, sizeof a.ppl) == 0);
    struct eval_kld ka, kb;
    float *pa[1] = {0}, *pb[1] = {0};
    CHECK_OK(eval_kld(alone[0], &alone[1], 1, &ids, 8, 0, &ka, pa, &e));
    CHECK_OK(eval_kld(many[0], &many[1], 1, &ids, 8, 0, &kb, pb, &e));
    CHECK_EQ_I64(ka.n_tokens, kb.n_tokens);
    CHECK(memcmp(pa[0], pb[0], (size_t)ka.n_tokens * sizeof(float)) == 0);
    CHECK(memcmp(&ka.ppl, &kb.ppl, sizeof ka.ppl) == 0);
    free(pa[0]);
    free(pb[0]);
    free(wa);
    free(wb);
    for (int i = 0; i < 2; i++) {
        session_free(alone[i]);
        session_free(many[i]);
    }
}

/* How many times wider than the percentiles of resamples an interval of 12 or 11 windows is:
 * t / 1.96 * sqrt(n / (n - 1)), t from scipy. */
static const double WIDER_12 = 2.200985160082949 / 1.959963984540054 * 1.0444659357341870,
                    WIDER_11 = 2.228138851964939 / 1.959963984540054 * 1.0488088481701516;

/* Tests the quantile of Student's t. Expected values: scipy. */
static void test_student(void) {
    static const struct {
        int64_t df;
        double t;
    } known[] = {{1, 12.706204736174694}, {2, 4.302652729749462},   {6, 2.4469118511449786},
                 {7, 2.364624251592784},  {15, 2.131449545559776},  {19, 2.0930240544083087},
                 {43, 2.016692199227824}, {87, 1.9876082815890708}, {1000000000, 1.959963987}};
    for (size_t i = 0; i < COUNT_OF(known); i++)
        CHECK_CLOSE(eval_student(known[i].df), known[i].t, 2e-4);
    CHECK(isinf(eval_student(0)));
}

/* Tests clustered errors and resamples of whole windows. Expected values: numpy and integer
 * arithmetic in Python with the same splitmix64; those of intervals are percentiles. */
static void test_windows_as_clusters(void) {
    enum { N = 12 };
    double sum[N];
    int64_t equal[N], uneven[N];
    struct cluster c;
    for (int i = 0; i < N; i++) {
        sum[i] = (i * i * 37 + 11) % 101 / 7.0;
        equal[i] = 20;
        uneven[i] = i == 4 ? 0 : 10 + i * 5 % 7; /* 0: a window of a different domain */
    }
    eval_cluster(sum, equal, N, &c);
    CHECK_CLOSE(c.mean, 0.3410714285714286, 1e-14);
    CHECK_CLOSE(c.stderr_, 0.05669552313760434, 1e-14); /* std(means, ddof=1) / sqrt(12) */
    CHECK_CLOSE((c.lo - c.mean) / WIDER_12, 0.2356696428571428 - c.mean, 1e-5);
    CHECK_CLOSE((c.hi - c.mean) / WIDER_12, 0.4398958333333334 - c.mean, 1e-5);
    eval_cluster(sum, uneven, N, &c);
    CHECK_CLOSE(c.mean, 0.48469387755102045, 1e-14);
    CHECK_CLOSE(c.stderr_, 0.07433743289544753, 1e-14);
    CHECK_CLOSE((c.lo - c.mean) / WIDER_11, 0.3346639937243964 - c.mean, 1e-5);
    CHECK_CLOSE((c.hi - c.mean) / WIDER_11, 0.6273602484472051 - c.mean, 1e-5);
    eval_cluster(sum, equal, 1, &c);
    CHECK(c.stderr_ == 0 && c.lo == c.mean && c.hi == c.mean);
    eval_cluster(sum, equal, 0, &c);
    CHECK(c.mean == 0 && c.stderr_ == 0);
    c = (struct cluster){.mean = 0.1, .lo = -0.1, .hi = 1.1};
    eval_cluster_bound(&c, 0, 1);
    CHECK(c.lo == 0 && c.hi == 1);
    c = (struct cluster){.mean = -1e-9, .lo = -1, .hi = 2e-9}; /* rounding */
    eval_cluster_bound(&c, 0, (double)INFINITY);
    CHECK(c.lo == -1e-9 && c.hi == 2e-9);
}

/* Returns a window mean around 1: normal (12 uniform numbers), or the mean of 16 exponential ones
 * (skewness 0.5). */
static double window_mean(struct rng *rng, bool skewed) {
    double x = 0;
    if (!skewed) {
        for (int i = 0; i < 12; i++) x += rng_unit(rng);
        return 1 + 0.25 * (x - 6);
    }
    for (int i = 0; i < 16; i++) x -= fp_log(1 - rng_unit(rng)) / 16;
    return x;
}

/* Simulates comparisons and returns in how many of 100 the interval holds the true mean, or, of
 * windows that share a factor, the true ratio of two means. */
static double coverage(int64_t n, bool skewed, bool ratio) {
    enum { RUNS = 2000, MOST = 44 };
    double a[MOST], b[MOST];
    int64_t one[MOST], held = 0;
    struct rng rng;
    struct cluster c;
    rng_seed(&rng, 20);
    for (int64_t i = 0; i < n; i++) one[i] = 1;
    for (int run = 0; run < RUNS; run++) {
        for (int64_t i = 0; i < n; i++) {
            b[i] = ratio ? window_mean(&rng, skewed) : 1;
            a[i] = b[i] * window_mean(&rng, skewed);
        }
        if (ratio)
            eval_cluster_ratio(a, b, n, &c);
        else
            eval_cluster(a, one, n, &c);
        held += c.lo <= 1 && 1 <= c.hi;
    }
    return 100.0 * (double)held / RUNS;
}

/* Tests that about 95 of 100 intervals hold the true value. Percentiles alone: 88 to 90 of 8
 * windows, 92 to 93 of 20, 93 to 94 of 44. Of 2000 runs, the standard error is 0.5. */
static void test_coverage(void) {
    static const int64_t n[] = {8, 20, 44};
    for (size_t i = 0; i < COUNT_OF(n); i++)
        for (int kind = 0; kind < 3; kind++) { /* a mean, a skewed one, a ratio of such */
            const double x = coverage(n[i], kind > 0, kind == 2);
            if (x < 93 || x > 97)
                CHECK_FAIL("%d windows, kind %d: %.1f of 100", (int)n[i], kind, x);
        }
}

/* Tests ratios of two sums over the same resamples, and shares of cases. Expected values: numpy. */
static void test_ratio_and_share(void) {
    enum { N = 12 };
    double a[N], b[N];
    struct cluster c;
    for (int i = 0; i < N; i++) {
        a[i] = (i * i * 37 + 11) % 101 / 7.0;
        b[i] = a[i] + (i * 13 + 5) % 17 / 5.0;
    }
    eval_cluster_ratio(a, b, N, &c);
    CHECK_CLOSE(c.mean, 0.8005029337803856, 1e-14);
    CHECK_CLOSE(c.lo, c.mean * pow(0.718913484154725 / c.mean, WIDER_12), 1e-5);
    CHECK_CLOSE(c.hi, c.mean * pow(0.8653895864106352 / c.mean, WIDER_12), 1e-5);
    struct cluster inverse;
    eval_cluster_ratio(b, a, N, &inverse);
    CHECK_CLOSE(inverse.lo * c.hi, 1, 1e-3); /* interpolated percentiles of inverses differ */
    eval_cluster_ratio(a, b, 1, &c);
    CHECK(c.lo == c.mean && c.hi == c.mean);
    memset(b, 0, sizeof b);
    eval_cluster_ratio(a, b, N, &c);
    CHECK(isnan(c.mean));
    struct eval_share s = eval_share_of(5, 40);
    CHECK_CLOSE(s.per_100, 12.5, 1e-12);
    CHECK_CLOSE(s.lo, 5.459500250945402, 1e-12);
    CHECK_CLOSE(s.hi, 26.112119838851097, 1e-12);
    s = eval_share_of(0, 16);
    CHECK(s.per_100 == 0 && s.lo == 0);
    CHECK_CLOSE(s.hi, 19.36076805344365, 1e-12);
    s = eval_share_of(16, 16);
    CHECK(s.hi == 100);
    CHECK_CLOSE(s.lo, 100 - 19.36076805344365, 1e-12);
    CHECK(isnan(eval_share_of(0, 0).per_100));
}

/* Tests breakdowns with known values: at window c, row r, the KL of candidate 0 is r + 100 c, that
 * of candidate 1 is 2. */
static void test_breakdowns(void) {
    enum { CTX = 8, CHUNKS = 3, PER = CTX - 1 };
    int32_t tokens[CHUNKS * CTX], domain[CHUNKS] = {0, 1, 0};
    struct err e = {0};
    struct kld_pos pos[3];
    struct eval_kld_run r = {.n_cand = 2,
                             .ctx = CTX,
                             .per_chunk = PER,
                             .n_chunks = CHUNKS,
                             .tokens = tokens,
                             .chunk_domain = domain,
                             .pos = pos};
    for (int i = 0; i < CHUNKS * CTX; i++) tokens[i] = 1000 + i;
    for (int k = 0; k < 2; k++) {
        CHECK_OK(kld_pos_init(&pos[k], CHUNKS * PER, &e));
        for (int i = 0; i < CHUNKS * PER; i++) {
            pos[k].kld[i] = k ? 2 : i % PER + 100 * (i / PER);
            pos[k].top_p[i] = i;
            pos[k].nll_p[i] = log(4);
        }
        pos[k].n = CHUNKS * PER;
    }
    CHECK_OK(kld_pos_init(&pos[2], CHUNKS * PER, &e));
    struct eval_kld all;
    eval_kld_total(&r, 0, &all); /* rows 4, 5, 6 */
    CHECK_EQ_I64(all.n_tokens, 9);
    CHECK_CLOSE(all.mean_kld, 105, 1e-12);
    CHECK_CLOSE(all.mean_kld_stderr_windows, 100 / sqrt(3), 1e-9);        /* means 5, 105, 205 */
    CHECK(isnan(all.mean_kld_ci95_low) && isnan(all.mean_kld_ci95_high)); /* needs 8 windows */
    r.pos[0].n = PER;
    eval_kld_total(&r, 0, &all); /* one window */
    CHECK(isnan(all.mean_kld_stderr_windows));
    r.pos[0].n = CHUNKS * PER;
    struct eval_group g;
    eval_kld_group(&r, 0, 0, 1, 3, &g); /* domain 0: windows 0 and 2, rows 1 and 2 */
    CHECK_EQ_I64(g.n_tokens, 4);
    CHECK_EQ_I64(g.n_chunks, 2);
    CHECK_CLOSE(g.mean_kld, 101.5, 1e-12);
    CHECK_CLOSE(g.mean_kld_stderr, 100, 1e-12); /* window means 1.5 and 201.5 */
    /* resamples reach from 1.5 to 201.5; not below 0 */
    const double wider = 12.706204736174694 / 1.959963984540054 * sqrt(2);
    CHECK(g.mean_kld_lo == 0);
    CHECK_CLOSE(g.mean_kld_hi, 101.5 + 100 * wider, 1e-3);
    eval_kld_group(&r, 0, 7, 0, 8, &g); /* no such domain */
    CHECK(g.n_tokens == 0 && g.mean_kld == 0);
    eval_kld_group(&r, 0, -1, 7, 900, &g); /* no such rows */
    CHECK_EQ_I64(g.n_tokens, 0);
    struct eval_pair d;
    eval_kld_pair(&r, 0, 1, &d); /* window means 5, 105, 205 minus 2 */
    CHECK_CLOSE(d.diff, 103, 1e-12);
    CHECK_CLOSE(d.stderr_, 100 / sqrt(3), 1e-9);
    CHECK_CLOSE(d.a_worse, 1, 0);
    CHECK(d.lo < d.diff && d.hi > d.diff);
    CHECK_EQ_I64(d.n_chunks, 3);
    eval_kld_pair_group(&r, 0, 1, 0, 1, 3, &d); /* window means 1.5 and 201.5 minus 2 */
    CHECK_EQ_I64(d.n_chunks, 2);
    CHECK_CLOSE(d.diff, 99.5, 1e-12);
    CHECK_CLOSE(d.stderr_, 100, 1e-12);
    CHECK_CLOSE(d.a_worse, 0.5, 0);
    CHECK_CLOSE(d.ratio, 50.75, 1e-12);
    CHECK_CLOSE(d.ratio_lo, 50.75 * pow(0.75 / 50.75, wider), 1e-6);
    CHECK_CLOSE(d.ratio_hi, 50.75 * pow(100.75 / 50.75, wider), 0.1);
    eval_kld_pair_group(&r, 0, 1, 7, 0, 8, &d); /* no such domain */
    CHECK(d.n_chunks == 0 && isnan(d.ratio));
    eval_kld_pair_group(&r, 0, 1, -1, 7, 900, &d); /* no such rows */
    CHECK(d.n_chunks == 0 && isnan(d.ratio));
    struct eval_token w[12];
    CHECK_EQ_I64(eval_kld_worst(&r, 0, 12, w), 9);
    CHECK_EQ_I64(eval_kld_worst(&r, 0, 2, w), 2);
    CHECK(w[0].kld == 206 && w[0].chunk == 2 && w[0].row == 6 && w[0].token == 1000 + 2 * CTX + 7);
    CHECK(w[1].kld == 205 && w[1].top_base == 2 * PER + 5);
    CHECK_CLOSE(w[1].p_base, 0.25, 1e-12);
    CHECK_EQ_I64(eval_kld_worst(&r, 1, 1, w), 1); /* ties: the first */
    CHECK(w[0].chunk == 0 && w[0].row == 4);
    CHECK_EQ_I64(eval_kld_worst(&r, 0, 0, w), 0);
    for (int k = 0; k < 3; k++) kld_pos_release(&pos[k]);
}

/* Compares domains, whole windows and routing with plain runs. */
static void test_domains_and_routing(void) {
    struct err e = {0};
    struct session *base = open_session(20, NULL), *same = open_session(20, NULL);
    struct session_opts o = {.n_ctx = 20, .isa = kern_isa_best(), .kv_type = QT_Q8_0};
    struct session *rough = NULL;
    CHECK_OK(session_new(&rough, model, &o, &e));
    struct session *const cand[2] = {same, rough};
    const struct eval_domain dom[3] = {{.name = "a", .ids = ids.v, .n_ids = 45},
                                       {.name = "short", .ids = ids.v, .n_ids = 19},
                                       {.name = "b", .ids = ids.v + 40, .n_ids = 40}};
    struct eval_kld_job job = {.base = base,
                               .cand = cand,
                               .n_cand = 2,
                               .domain = dom,
                               .n_domains = 3,
                               .ctx = 20,
                               .routing = true};
    struct eval_kld_run r;
    CHECK_OK(eval_kld_open(&job, &r, &e));
    CHECK_EQ_I64(r.n_chunks, 4);
    CHECK_EQ_I64(r.per_chunk, 19);
    CHECK(r.chunk_domain[0] == 0 && r.chunk_domain[1] == 0 && r.chunk_domain[2] == 2);
    CHECK(memcmp(r.tokens + 40, ids.v + 40, 40 * sizeof *r.tokens) == 0);
    double nll[20];
    plain_nll(40, 20, nll); /* every position of the third window */
    for (int i = 0; i < 19; i++) CHECK_CLOSE(r.pos[0].nll_p[2 * 19 + i], nll[i], 2e-5);
    CHECK(r.n_routes > 0);
    int64_t differ = 0;
    for (int i = 0; i < r.n_routes; i++) {
        CHECK_EQ_I64(r.route[i].n_tokens, 80);
        CHECK_EQ_I64(r.route[i].n_same, 80); /* the same model */
        CHECK_EQ_I64(r.route[i].n_common, r.route[i].n_chosen);
        const struct eval_route *q = &r.route[r.n_routes + i];
        CHECK(q->n_common <= q->n_chosen && q->n_same <= q->n_tokens);
        differ += q->n_chosen - q->n_common;
    }
    printf("q8_0 cache: %d of the experts chosen differ\n", (int)differ);
    eval_kld_close(&r);
    job.from = -1;
    job.max_chunks = 3; /* in turn: a, b, a */
    CHECK_OK(eval_kld_open(&job, &r, &e));
    CHECK(r.n_chunks == 3 && r.per_chunk == 9 && r.chunk_domain[1] == 0 && r.chunk_domain[2] == 2);
    eval_kld_close(&r);
    job.domain = dom + 1;
    job.n_domains = 1;
    CHECK_ERR(eval_kld_open(&job, &r, &e), ERR_DATA, "has 19 tokens");
    const struct eval_domain shorts[3] = {dom[1], dom[1], dom[1]};
    job.domain = shorts;
    job.n_domains = 3;
    CHECK_ERR(eval_kld_open(&job, &r, &e), ERR_DATA, "none of the 3 domains");
    job.from = 11;
    CHECK_ERR(eval_kld_open(&job, &r, &e), ERR_USAGE, "first half");
    session_free(base);
    session_free(same);
    session_free(rough);
}

/* What a look saw, and which candidate it stops. */
struct looks {
    int n, stop;
    int64_t seen[4];
};
static void note_look(void *ud, const struct eval_kld_run *r, bool *stop) {
    struct looks *l = ud;
    for (int i = 0; i < r->n_cand; i++) {
        struct eval_kld k;
        eval_kld_total(r, i, &k);
        CHECK(k.n_tokens == eval_kld_windows(r, i) * 9 && k.mean_kld >= 0);
    }
    l->seen[l->n++] = eval_kld_windows(r, !l->stop);
    stop[l->stop] = true;
}

/* Candidate i's divergences of one run equal those of another, on its first n windows. */
static bool same_windows(const struct eval_kld_run *a, const struct eval_kld_run *b, int i,
                         int64_t n) {
    return memcmp(a->pos[i].kld, b->pos[i].kld, (size_t)(n * 9) * sizeof(double)) == 0;
}

/* A candidate that a look stops keeps the results of its windows; the others are not affected. A
 * job that finds the base's rows in a store does not run its base: another base changes nothing. */
static void test_looks_and_store(void) {
    struct err e = {0};
    struct session *base = open_session(20, NULL), *same = open_session(20, NULL);
    struct session_opts o = {.n_ctx = 20, .isa = kern_isa_best(), .kv_type = QT_Q8_0};
    struct session *rough = NULL;
    CHECK_OK(session_new(&rough, model, &o, &e));
    struct session *const cand[2] = {same, rough};
    const struct eval_domain dom = {.name = "", .ids = ids.v, .n_ids = N_IDS};
    static const int64_t at[] = {1, 2, 3, 90};
    struct eval_kld_job job = {.base = base,
                               .cand = cand,
                               .n_cand = 2,
                               .domain = &dom,
                               .n_domains = 1,
                               .ctx = 20,
                               .from = -1};
    struct eval_kld_run all, r;
    struct looks l = {0};
    CHECK_OK(eval_kld_open(&job, &all, &e));
    CHECK(all.n_chunks == 4 && eval_kld_windows(&all, 1) == 4);
    job.look = note_look;
    job.ud = &l;
    job.looks = at + 1;
    job.n_looks = 3;
    for (l.stop = 0; l.stop < 2; l.stop++) {
        l.n = 0;
        CHECK_OK(eval_kld_open(&job, &r, &e));
        CHECK(l.n == 2 && l.seen[0] == 2 && l.seen[1] == 3);
        CHECK_EQ_I64(eval_kld_windows(&r, l.stop), 2);
        CHECK_EQ_I64(eval_kld_windows(&r, !l.stop), 4);
        CHECK(same_windows(&r, &all, l.stop, 2) && same_windows(&r, &all, !l.stop, 4));
        struct eval_pair d;
        struct eval_group g;
        eval_kld_pair(&r, 0, 1, &d); /* on the two windows that both have */
        eval_kld_group(&r, 1, -1, 10, 20, &g);
        CHECK_EQ_I64(g.n_tokens, l.stop ? 18 : 36);
        double mean = 0;
        for (int i = 0; i < 18; i++) mean += (all.pos[0].kld[i] - all.pos[1].kld[i]) / 18;
        CHECK_CLOSE(d.diff, mean, 1e-15);
        eval_kld_close(&r);
    }
    job.look = NULL;
    job.rows = eval_rows_new();
    CHECK_OK(eval_kld_open(&job, &r, &e));
    CHECK(same_windows(&r, &all, 0, 4) && same_windows(&r, &all, 1, 4));
    eval_kld_close(&r);
    job.base = rough;
    CHECK_OK(eval_kld_open(&job, &r, &e));
    CHECK(same_windows(&r, &all, 0, 4) && same_windows(&r, &all, 1, 4));
    CHECK(memcmp(r.pos[0].nll_p, all.pos[0].nll_p, 36 * sizeof(double)) == 0);
    eval_kld_close(&r);
    eval_rows_free(job.rows);
    job.rows = NULL;
    CHECK_OK(eval_kld_open(&job, &r, &e));
    CHECK(!same_windows(&r, &all, 0, 4));
    eval_kld_close(&r);
    eval_kld_close(&all);
    session_free(base);
    session_free(same);
    session_free(rough);
}

/* Windows are permuted as a whole, always in the same way; the rest of the text stays. */
static void test_shuffle(void) {
    struct ids a = {0}, b = {0};
    int64_t seen = 0, moved = 0;
    for (int i = 0; i < 105; i++) {
        ids_add(&a, i);
        ids_add(&b, i);
    }
    eval_shuffle_chunks(&a, 10);
    eval_shuffle_chunks(&b, 10);
    CHECK(memcmp(a.v, b.v, 105 * sizeof *a.v) == 0);
    for (int i = 0; i < 105; i++) CHECK(a.v[i] % 10 == i % 10);
    for (int i = 0; i < 10; i++) {
        seen += (int64_t)1 << (a.v[10 * i] / 10);
        moved += a.v[10 * i] != 10 * i;
    }
    CHECK(seen == 1023 && moved > 5 && a.v[104] == 104);
    ids_release(&a);
    ids_release(&b);
}

/* Checks that a window longer than a piece gives, starting with its first row, the same results as
 * in a single piece. */
static void test_long_window(void) {
    enum { CTX = WINDOWS_PIECE + 60 };
    struct err e = {0};
    struct ids many = {0}, keep = ids;
    double *nll = xcalloc(CTX, sizeof *nll);
    for (int i = 0; i < 2 * CTX; i++) ids_add(&many, keep.v[(i * 7 + i / 80) % N_IDS]);
    struct session *base = open_session(CTX, NULL), *same = open_session(CTX, NULL);
    struct session *const cand[1] = {same};
    const struct eval_domain dom = {.name = "", .ids = many.v, .n_ids = many.n};
    const struct eval_kld_job job = {.base = base,
                                     .cand = cand,
                                     .n_cand = 1,
                                     .domain = &dom,
                                     .n_domains = 1,
                                     .ctx = CTX,
                                     .max_chunks = 1,
                                     .routing = true};
    struct eval_kld_run r;
    CHECK_OK(eval_kld_open(&job, &r, &e));
    ids = many;
    plain_nll(0, CTX, nll);
    ids = keep;
    double worst = 0;
    for (int i = 0; i + 1 < CTX; i++) worst = fmax(worst, fabs(r.pos[0].nll_p[i] - nll[i]));
    CHECK(worst < 1e-4);
    CHECK_EQ_I64(r.pos[0].n, CTX - 1);
    CHECK_EQ_I64(r.route[0].n_tokens, CTX);
    CHECK_EQ_I64(r.route[0].n_same, CTX);
    eval_kld_close(&r);
    struct eval_ppl ppl;
    double want = 0;
    CHECK_OK(eval_ppl(base, &many, CTX, 0, 1, NULL, &ppl, &e));
    for (int i = CTX / 2; i + 1 < CTX; i++) want += nll[i] / (CTX - 1 - CTX / 2);
    CHECK_CLOSE(ppl.mean_nll, want, 1e-5);
    ids_release(&many);
    session_free(base);
    session_free(same);
    free(nll);
}

static void test_speed(void) {
    struct err e = {0};
    struct pool *p = NULL;
    CHECK_OK(pool_new(&p, 2, &e));
    struct session *s = open_session(64, p);
    struct eval_speed r[4];
    int n = 0;
    const int64_t depths[2] = {0, 40};
    CHECK_OK(eval_speed(s, 16, 4, depths, 2, 2, 10.0, NULL, r, &n, &e));
    CHECK_EQ_I64(n, 4);
    CHECK_EQ_STR(r[0].test, "pp16");
    CHECK_EQ_STR(r[3].test, "tg4");
    CHECK_EQ_I64(r[3].depth, 40);
    for (int i = 0; i < n; i++) CHECK(r[i].tok_per_s > 0);
    CHECK_CLOSE(r[1].gb_per_s, r[1].tok_per_s * r[1].bytes_per_token * 1e-9, 1e-9);
    CHECK_CLOSE(r[1].share_of_bandwidth, r[1].gb_per_s / 10.0, 1e-9);
    /* one attention layer (2 heads of 64, keys and values, 4 bytes) with 40 more tokens */
    CHECK_CLOSE(r[3].bytes_per_token - r[1].bytes_per_token, 40 * 2 * 2 * 64 * 4.0, 1);
    CHECK(eval_bandwidth(p) > 0.1);
    CHECK_ERR(eval_speed(s, 16, 4, depths, 2, 0, 10.0, NULL, r, &n, &e), ERR_USAGE, "--reps");
    CHECK_ERR(eval_speed(s, 30, 4, depths, 2, 1, 10.0, NULL, r, &n, &e), ERR_USAGE, "do not fit");
    session_free(s);
    pool_free(p);
}

/* Layers with a window read at most that many keys. */
static void test_speed_window(void) {
    struct err e = {0};
    char *path = path_of("window.gguf");
    struct convert_opts o = {.src = "tests/golden/models/gemma4moe", .out = path, .type = "f32"};
    struct convert_report report;
    struct model *m = NULL;
    struct session *s = NULL;
    struct pool *p = NULL;
    CHECK_OK(convert_run(&o, &report, &e));
    CHECK_OK(model_open(&m, path, &e));
    if (!m) return;
    CHECK_OK(pool_new(&p, 2, &e));
    struct session_opts so = {.n_ctx = 64, .isa = kern_isa_best(), .pool = p};
    CHECK_OK(session_new(&s, m, &so, &e));
    struct eval_speed r[2];
    int n = 0;
    const int64_t depths[2] = {0, 40};
    CHECK_OK(eval_speed(s, 0, 4, depths, 2, 1, 10.0, NULL, r, &n, &e));
    /* Keys and values of 4 bytes, after 2 and 42 tokens: four layers with 2 heads of 32 and a
     * window of 16, two with 1 head of 64. */
    CHECK_CLOSE(r[1].bytes_per_token - r[0].bytes_per_token,
                2 * 4.0 * (4 * 2 * 32 * (16 - 2) + 2 * 64 * (42 - 2)), 1);
    session_free(s);
    model_close(m);
    pool_free(p);
    unlink(path);
    free(path);
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    RUN(setup);
    if (!model) return check_done();
    RUN(test_statistics);
    RUN(test_one_position);
    RUN(test_nll_of_transformers);
    RUN(test_perplexity_windows);
    RUN(test_refusals);
    RUN(test_kld);
    RUN(test_windows_together);
    RUN(test_student);
    RUN(test_windows_as_clusters);
    RUN(test_coverage);
    RUN(test_ratio_and_share);
    RUN(test_breakdowns);
    RUN(test_domains_and_routing);
    RUN(test_looks_and_store);
    RUN(test_shuffle);
    RUN(test_long_window);
    RUN(test_speed);
    RUN(test_speed_window);
    model_close(model);
    ids_release(&ids);
    char *path = path_of("m.gguf");
    unlink(path);
    free(path);
    rmdir(dir);
    return check_done();
}
