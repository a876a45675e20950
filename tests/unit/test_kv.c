// SPDX-License-Identifier: MIT
/* tests/unit/test_kv.c - runtime/engine/kv_type.c, kv_turbo.c: codebooks are compared with their
 * definition and with published errors, the rotation must be orthonormal, each kind of factor must
 * have the property that its name promises, and sessions are compared with ones that have an f32
 * cache.
 */
#include <unistd.h>

#include "convert/convert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "runtime/engine/kv_type.h"
#include "runtime/engine/session.h"
#include "tests/check.h"

static struct kern kern;

/* Fills x by Box-Muller, since rng_normal has light tails. */
static void gauss(struct rng *r, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double u = 1 - rng_unit(r), v = rng_unit(r);
        x[i] = (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
}
static double dot(const float *a, const float *b, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return s;
}
static double density(double x) {
    return exp(-0.5 * x * x) / sqrt(6.283185307179586);
}

/* Checks Lloyd-Max: thresholds are midpoints (by construction of the encoder), every centroid is
 * the mean of its cell, and errors are those published for N(0, 1). */
static void test_codebooks(void) {
    static const double want[5] = {0, 0.363380, 0.117482, 0.034548, 0.009501};
    for (int bits = 1; bits <= 4; bits++) {
        const float *c = kv_turbo_codebook(bits);
        int n = 1 << bits;
        double mse = 0;
        for (int k = 0; k < n; k++) {
            CHECK_CLOSE((double)c[k], (double)-c[n - 1 - k], 0);
            double lo = k ? 0.5 * (double)(c[k - 1] + c[k]) : -9;
            double hi = k + 1 < n ? 0.5 * (double)(c[k] + c[k + 1]) : 9;
            double p = 0, m = 0, h = (hi - lo) / 20000;
            for (int i = 0; i < 20000; i++) { /* midpoint rule */
                double x = lo + (i + 0.5) * h, f = density(x) * h;
                p += f;
                m += x * f;
                mse += (x - (double)c[k]) * (x - (double)c[k]) * f;
            }
            CHECK_CLOSE(m / p, (double)c[k], 2e-6);
        }
        CHECK_CLOSE(mse, want[bits], 1e-6);
    }
}

static void test_rotation(void) {
    static const int64_t dims[] = {32, 48, 64, 128, 192, 256, 576};
    for (size_t t = 0; t < sizeof dims / sizeof *dims; t++) {
        int64_t n = dims[t];
        float *m = xcalloc((size_t)(n * n), sizeof *m);
        for (int64_t i = 0; i < n; i++) {
            m[i * n + i] = 1;
            kv_rotate(m + i * n, n);
        }
        double worst = 0, largest = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k <= i; k++)
                worst = fmax(worst, fabs(dot(m + i * n, m + k * n, n) - (i == k)));
        for (int64_t i = 0; i < n * n; i++) largest = fmax(largest, fabs((double)m[i]));
        CHECK(worst < 1e-6);                                    /* R R^T = I */
        CHECK_CLOSE(largest, 1 / sqrt((double)(n & -n)), 1e-6); /* spread evenly over a slice */
        for (int64_t i = 0; i < n; i++) kv_rotate_back(m + i * n, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < n; k++)
                if (fabs((double)m[i * n + k] - (i == k)) > 1e-6) CHECK_FAIL("not the inverse");
        free(m);
    }
}

/* Checks the rotation of blocks against the closed form of llama.cpp's matrices: entry (i, k) of a
 * slice of d values is (-1)^(number of ones in i & k) / sqrt(d); d is 64 for values, and for keys
 * the largest power of two that divides the head. */
static void test_as_llama(void) {
    static const struct {
        int n, key, value; /* slices; 0: not rotated */
    } rows[] = {{64, 64, 64}, {128, 128, 64}, {192, 64, 64}, {256, 256, 64}, {96, 0, 0}};
    const struct kv_type *t = kv_type_find("q8_0");
    CHECK(t && t->rotated && t == kv_type_of(QT_Q8_0) && t == kv_type_find("q8_0-rot"));
    CHECK(!kv_type_find("q4_0-norot")->rotated && kv_type_find("q4_0")->rotated);
    CHECK(kv_type_norot(t) == kv_type_find("q8_0-norot"));
    CHECK(!kv_type_find("f16-rot") && !kv_type_find("q8_0-norot-rot") && !kv_type_find("tq4-rot"));
    CHECK(kv_type_norot(kv_type_find("tq4")) == kv_type_find("tq4"));
    for (size_t r = 0; t && r < sizeof rows / sizeof *rows; r++)
        for (int value = 0; value < 2; value++) {
            const int n = rows[r].n, d = value ? rows[r].value : rows[r].key;
            double worst = 0, back = 0;
            float *x = xmalloc((size_t)n * sizeof *x);
            for (int i = 0; i < n; i++) {
                memset(x, 0, (size_t)n * sizeof *x);
                x[i] = 1;
                kv_turn(t, x, n, value);
                for (int k = 0; k < n; k++) {
                    const bool same = d && i / d == k / d;
                    const int ones = same ? __builtin_popcount((unsigned)(i % d & k % d)) : 0;
                    const double want = !d ? i == k : same ? (ones & 1 ? -1 : 1) / sqrt(d) : 0;
                    worst = fmax(worst, fabs((double)x[k] - want));
                }
                kv_turn_back(t, x, n, value);
                for (int k = 0; k < n; k++) back = fmax(back, fabs((double)x[k] - (i == k)));
            }
            CHECK(worst < 1e-6 && back < 1e-5);
            free(x);
        }
}

/* Makes a round trip through type t and returns its input and output, which are rotated if the type
 * rotates. */
static void trip(const struct kv_type *t, const float *x, float *in, float *out, int64_t n,
                 bool is_value) {
    uint8_t *row = xmalloc((size_t)t->row_bytes(t, n) + 16);
    memset(row, 0xa5, (size_t)t->row_bytes(t, n) + 16);
    memcpy(in, x, (size_t)n * sizeof *x);
    if (t->rotated) kv_turn(t, in, n, is_value);
    t->put(t, &kern, in, row, n, is_value);
    t->get(t, &kern, row, out, n, is_value);
    for (int i = 0; i < 16; i++) CHECK(row[t->row_bytes(t, n) + (uint64_t)i] == 0xa5);
    free(row);
}

/* Tests the relative squared error over Gaussian rows. Floats: step^2 / 12 with log-uniform
 * mantissas, 2^-20 / 12 * 0.462 and 2^-14 / 12 * 0.462. Blocks: step^2 / 12 with the mean squares
 * of the largest magnitude (5.9) and of the range (17.6) of 32 Gaussians. tq: the codebook's; 3 %
 * less because a slice's own norm is used. */
static void test_errors(void) {
    static const struct {
        const char *name;
        double want, tol; /* relative */
    } rows[] = {{"f32", 0, 0},
                {"f16", 3.7e-8, 0.25},
                {"bf16", 2.35e-6, 0.25},
                {"q8_0", 5.9 / 127 / 127 / 12, 0.1},
                {"q5_1", 17.6 / 31 / 31 / 12, 0.1},
                {"q5_0", 5.9 / 256 / 12, 0.1},
                {"q4_1", 17.6 / 15 / 15 / 12, 0.1},
                {"q4_0", 5.9 / 64 / 12, 0.1},
                {"q4_0-norot", 5.9 / 64 / 12, 0.1},
                {"tq4-raw", 0.009501, 0.05},
                {"tq3-raw", 0.034548, 0.05},
                {"tq2-raw", 0.117482, 0.05},
                {"tq3-least", 0.034548, 0.05}};
    enum { N = 256, ROWS = 400 };
    float x[N], in[N], out[N];
    for (size_t t = 0; t < sizeof rows / sizeof *rows; t++) {
        const struct kv_type *ty = kv_type_find(rows[t].name);
        CHECK(ty != NULL);
        struct rng r;
        rng_seed(&r, 7);
        double err = 0, all = 0;
        for (int k = 0; k < ROWS; k++) {
            gauss(&r, x, N);
            trip(ty, x, in, out, N, k & 1);
            all += dot(in, in, N);
            for (int i = 0; i < N; i++) err += pow((double)out[i] - (double)in[i], 2);
        }
        if (fabs(err / all - rows[t].want) > rows[t].tol * rows[t].want)
            CHECK_FAIL("%s: relative squared error %.4g, expected %.4g", rows[t].name, err / all,
                       rows[t].want);
    }
}

/* Checks the property of each factor for every head size; the factor's f16 rounding is 2^-11. */
static void test_factors(void) {
    static const int64_t dims[] = {32, 64, 96, 128, 192, 256};
    struct rng r;
    rng_seed(&r, 3);
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (int bits = 2; bits <= 4; bits++) {
            int64_t n = dims[d];
            float x[256], in[256], out[256];
            double raw = 0, qjl = 0;
            enum { TRIALS = 300 };
            for (int k = 0; k < TRIALS; k++) {
                char name[16];
                gauss(&r, x, n);
                for (int64_t i = 0; i < n; i++) x[i] *= 3;
                snprintf(name, sizeof name, "tq%d", bits);
                trip(kv_type_find(name), x, in, out, n, k & 1);
                CHECK_CLOSE(dot(out, in, n) / dot(in, in, n), 1, 5e-4);
                snprintf(name, sizeof name, "tq%d-norm", bits);
                trip(kv_type_find(name), x, in, out, n, false);
                CHECK_CLOSE(dot(out, out, n) / dot(in, in, n), 1, 1e-3);
                snprintf(name, sizeof name, "tq%d-least", bits);
                trip(kv_type_find(name), x, in, out, n, false);
                CHECK_CLOSE(dot(out, in, n) / dot(out, out, n), 1, 5e-4);
                snprintf(name, sizeof name, "tq%d-raw", bits);
                trip(kv_type_find(name), x, in, out, n, false);
                raw += dot(out, in, n) / dot(in, in, n) / TRIALS;
                snprintf(name, sizeof name, "tq%d-qjl", bits);
                trip(kv_type_find(name), x, in, out, n, false);
                qjl += dot(out, in, n) / dot(in, in, n) / TRIALS;
            }
            /* raw shrinks by the code's error; the residual's signs compensate for the loss of b -
             * 1 bits */
            static const double mse[5] = {0, 0.3634, 0.1175, 0.0345, 0.0095};
            int64_t slice = n % 128 == 0  ? 128
                            : n % 64 == 0 ? 64
                                          : 32; /* short ones: not Gaussian */
            CHECK_CLOSE(raw, 1 - mse[bits], 0.01 + 0.5 / (double)slice);
            CHECK_CLOSE(qjl, 1, 0.012);
        }
}

/* Checks that over independent keys and queries at a fixed angle the QJL estimate of <q, k> is
 * unbiased, and that its error is larger than the unbiased factor's with the same number of bits
 * (the reason for tq3). */
static void test_qjl_estimator(void) {
    enum { N = 128, TRIALS = 4000 };
    struct rng r;
    rng_seed(&r, 5);
    double bias = 0, sq = 0, sq_plain = 0;
    for (int t = 0; t < TRIALS; t++) {
        float k[N], q[N], in[N], out[N];
        gauss(&r, k, N);
        gauss(&r, q, N);
        for (int i = 0; i < N; i++) q[i] = 0.7f * k[i] + 0.714143f * q[i];
        kv_rotate(q, N);
        trip(kv_type_find("tq3-qjl"), k, in, out, N, false);
        double scale = sqrt(dot(q, q, N) * dot(in, in, N) / N),
               err = dot(q, out, N) - dot(q, in, N);
        bias += err / scale / TRIALS;
        sq += err * err / scale / scale / TRIALS;
        trip(kv_type_find("tq3"), k, in, out, N, false);
        err = dot(q, out, N) - dot(q, in, N);
        sq_plain += err * err / scale / scale / TRIALS;
    }
    printf("3 bits at cosine .7: QJL bias %.4f rms %.3f, unbiased factor rms %.3f\n", bias,
           sqrt(sq), sqrt(sq_plain));
    CHECK(fabs(bias) < 4 * sqrt(sq / TRIALS));
    /* docs: .25 and .134 by an independent Monte Carlo */
    CHECK_CLOSE(sqrt(sq), 0.25, 0.02);
    CHECK_CLOSE(sqrt(sq_plain), 0.134, 0.01);
}

static void test_odd_rows(void) {
    enum { N = 64 };
    float x[N], in[N], out[N];
    for (int i = 0; kv_type_at(i); i++) {
        const struct kv_type *t = kv_type_at(i);
        CHECK(kv_type_find(t->name) == t);
        memset(x, 0, sizeof x);
        trip(t, x, in, out, N, false);
        if (!strstr(t->name, "qjl")) /* signs of a zero residual have no weight */
            for (int k = 0; k < N; k++) CHECK(out[k] == 0);
        for (int k = 0; k < N; k++) CHECK(fabs((double)out[k]) == 0);
        x[3] = NAN; /* any defined result is fine (sanitizers check) */
        trip(t, x, in, out, N, true);
        x[3] = INFINITY;
        trip(t, x, in, out, N, false);
        x[3] = 1e38f;
        trip(t, x, in, out, N, false);
        x[3] = 1e-42f;
        trip(t, x, in, out, N, true);
    }
    CHECK(kv_type_find("q4_K") == NULL && kv_type_of(QT_Q4_K) == NULL);
    CHECK_EQ_I64(kv_type_find("tq3")->row_bytes(kv_type_find("tq3"), 256), 2 * 50);
    CHECK_EQ_I64(kv_type_find("tq4")->row_bytes(kv_type_find("tq4"), 64), 34);
    CHECK_EQ_I64(kv_type_find("tq2")->row_bytes(kv_type_find("tq2"), 40), 0);
    CHECK_EQ_I64(kv_type_find("tq2")->row_bytes(kv_type_find("tq2"), 2048), 0);
    CHECK_CLOSE(kv_type_bits(kv_type_find("tq3"), 128), 3.125, 0);
    const struct kv_type *k, *v;
    struct err e = {0};
    CHECK_OK(kv_type_parse("q8_0/tq3", "--kv-type", &k, &v, &e));
    CHECK(k == kv_type_find("q8_0") && v == kv_type_find("tq3"));
    CHECK_ERR(kv_type_parse("tq3/", "--kv-type", &k, &v, &e), ERR_USAGE, "--kv-type: 'tq3/'");
    CHECK_ERR(kv_type_parse("/tq3", "--kv-type", &k, &v, &e), ERR_USAGE, "'/tq3'");
    CHECK_ERR(kv_type_parse("", "--kv-type", &k, &v, &e), ERR_USAGE, "tq2");
    CHECK_ERR(kv_type_parse("q8_0/f16/f16", "x", &k, &v, &e), ERR_USAGE, "x: ");
}

enum { N_IDS = 70, N_VOCAB = 1024 };
static float *run(const struct model *m, struct session_opts o, int64_t piece, uint64_t *bytes) {
    struct err e = {0};
    struct session *s = NULL;
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * 7919 + 13) % N_VOCAB;
    o.n_ctx = N_IDS;
    o.isa = kern_isa_best();
    CHECK_OK(session_new(&s, m, &o, &e));
    int64_t d = m->hp.d[HD_EMBD];
    float *h = xcalloc((size_t)(N_IDS * d), sizeof *h), *l = xcalloc(N_IDS * N_VOCAB, sizeof *l);
    for (int64_t i = 0; i < N_IDS; i += piece)
        CHECK_OK(session_forward(s, ids + i, i + piece < N_IDS ? piece : N_IDS - i, h + i * d, &e));
    CHECK_OK(session_head(s, h, N_IDS, l, &e));
    if (bytes) *bytes = session_bytes(s);
    free(h);
    session_free(s);
    return l;
}

/* Checks with heads of 64 that logits are close to those of an f32 cache, in one batch and token by
 * token (a different attention path); a missing rotation anywhere would give completely different
 * logits. */
static void test_sessions(void) {
    static const struct {
        const char *name;
        double tol;
    } rows[] = {{"bf16", 0.05},    {"q8_0-norot", 0.1}, {"q8_0", 0.1}, {"q5_1-norot", 0.4},
                {"q5_1", 0.4},     {"q4_0", 1.5},       {"tq4", 2},    {"tq3", 3},
                {"q8_0/tq4", 1.5}, {"tq4/q8_0", 1.5}};
    char path[] = "/tmp/hone-test-kv-XXXXXX";
    int fd = mkstemp(path);
    struct err e = {0};
    struct model *m = NULL;
    struct convert_opts c = {
        .src = "tests/golden/models/qwen35", .out = path, .type = "f32", .overwrite = true};
    struct convert_report report;
    CHECK_OK(convert_run(&c, &report, &e));
    CHECK_OK(model_open(&m, path, &e));
    if (!m) return;
    uint64_t full, small;
    float *want = run(m, (struct session_opts){0}, N_IDS, &full);
    double rms_f32 = 0;
    for (int i = 0; i < N_IDS * N_VOCAB; i++)
        rms_f32 += pow((double)want[i], 2) / (N_IDS * N_VOCAB);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int64_t piece = N_IDS; piece; piece = piece == N_IDS ? 1 : 0) {
            struct session_opts o = {0};
            CHECK_OK(kv_type_parse(rows[i].name, "", &o.kv_k, &o.kv_v, &e));
            float *l = run(m, o, piece, &small);
            double d = 0;
            for (int k = 0; k < N_IDS * N_VOCAB; k++)
                d = fmax(d, fabs((double)l[k] - (double)want[k]));
            printf("%s, %d at a time: logits differ by %.3g (rms of logits %.3g)\n", rows[i].name,
                   (int)piece, d, sqrt(rms_f32));
            CHECK(d > 0 && d < rows[i].tol);
            CHECK(small < full);
            free(l);
        }
    /* threads do not change bits; kept edges are all of this model's attention layers */
    struct session_opts o = {.kv_k = kv_type_find("tq3"), .kv_v = kv_type_find("tq3")};
    float *one = run(m, o, N_IDS, NULL);
    struct pool *p = NULL;
    CHECK_OK(pool_new(&p, 3, &e));
    o.pool = p;
    float *three = run(m, o, N_IDS, NULL);
    CHECK(memcmp(one, three, N_IDS * N_VOCAB * sizeof *one) == 0);
    o.pool = NULL;
    o.kv_n_edge = 1000;
    o.kv_edge_k = o.kv_edge_v = kv_type_find("f32");
    float *edge = run(m, o, N_IDS, NULL);
    CHECK(memcmp(want, edge, N_IDS * N_VOCAB * sizeof *one) == 0);
    free(one);
    free(three);
    free(edge);
    free(want);
    pool_free(p);
    model_close(m);
    close(fd);
    unlink(path);
}

int main(void) {
    kern_init(&kern, kern_isa_best());
    RUN(test_codebooks);
    RUN(test_rotation);
    RUN(test_as_llama);
    RUN(test_errors);
    RUN(test_factors);
    RUN(test_qjl_estimator);
    RUN(test_odd_rows);
    RUN(test_sessions);
    return check_done();
}
