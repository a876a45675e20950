// SPDX-License-Identifier: MIT
/* Error feedback for many rows at once, in windows and with every instruction set, gives the same
 * bytes as plain loops over one row after another. So do the matrix products that it uses. */
#include "tests/check.h"

#include "base/rng.h"
#include "kernels/kern.h"
#include "quantize/enc/super.h"
#include "quantize/feedback_kind.h"

enum { MAX_N = 768, ROWS = 70, TOKENS = 300 };
static const enum qtype types[] = {QT_Q4_0,    QT_Q4_1,   QT_Q5_0,  QT_Q5_1,    QT_Q8_0,   QT_Q2_K,
                                   QT_Q3_K,    QT_Q4_K,   QT_Q5_K,  QT_IQ4_NL,  QT_IQ4_XS, QT_Q6_K,
                                   QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S, QT_IQ3_XXS, QT_IQ3_S,  QT_IQ1_S,
                                   QT_IQ1_M,   QT_MXFP4,  QT_NVFP4};
static float x[ROWS * MAX_N], y[ROWS * MAX_N];

static void fill(float *v, int64_t n, uint64_t seed, float scale) {
    struct rng r;
    rng_seed(&r, seed);
    for (int64_t i = 0; i < n; i++) v[i] = scale * rng_normal(&r);
}

/* Computes the factor of n correlated columns in blocks. */
static void make(struct factor *f, int64_t n, int64_t block) {
    const struct factor_opts o = {.halves = 3, .lambda = 0.01, .alpha = 0.1};
    const float count[] = {TOKENS};
    float *acts = calloc((size_t)(TOKENS * n), sizeof *acts),
          *sum = calloc((size_t)(n * block), sizeof *sum);
    struct err e;
    fill(acts, TOKENS * n, 5, 1);
    for (int t = 0; t < TOKENS; t++)
        for (int64_t i = n - 1; i > 0; i--) acts[t * n + i] += acts[t * n + i / 2] * 0.7f;
    for (int t = 0; t < TOKENS; t++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t b0 = i / block * block, j = b0; j < min_i64(n, b0 + block); j++)
                sum[i * block + j - b0] += acts[t * n + i] * acts[t * n + j];
    const struct gram_input in = {
        .n = n, .block = block, .n_mat = 1, .sum = {sum, sum}, .count = {count, count}};
    CHECK_OK(factor_init(f, n, block, &e));
    CHECK_OK(factor_make(f, &in, 0, &o, NULL, 0, NULL, &e));
    free(acts);
    free(sum);
}

/* Adds by * M[c][j], or by * R[c][j], to to[j] for columns j in [from, end), which are in the block
 * of c. */
static void add(const struct factor *f, const float *m, float *to, int64_t c, float by,
                int64_t from, int64_t end) {
    for (int64_t j = from; j < end; j++) to[j] += m[c * f->block + j % f->block] * by;
}

/* Checks v R v and v R u against sums in double. */
static void exact_sums(const struct factor *f, const float *u, const float *v, double vv,
                       double vu) {
    double want[2] = {0}, size[2] = {0};
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t j = i / f->block * f->block; j < min_i64(f->n, (i / f->block + 1) * f->block);
             j++) {
            const double r = (double)f->r[i * f->block + j % f->block],
                         term[2] = {(double)v[i] * r * (double)v[j],
                                    (double)v[i] * r * (double)u[j]};
            for (int k = 0; k < 2; k++) {
                want[k] += term[k];
                size[k] += fabs(term[k]);
            }
        }
    CHECK_CLOSE(vv, want[0], 1e-6 * size[0]);
    CHECK_CLOSE(vu, want[1], 1e-6 * size[1]);
}

/* Returns the sum of a[i] b[i] in eight parts. */
static double dot_of(const float *a, const float *b, int64_t n) {
    double s[8] = {0};
    for (int64_t i = 0; i < n; i++) s[i % 8] += (double)a[i] * (double)b[i];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

/* Encodes one row in the order that feedback.c describes, without products. */
static void one_row(const struct feedback *fb, const float *row, uint8_t *dst) {
    const struct factor *f = fb->f;
    const int n = qtype_info(fb->type)->block_elems;
    const int64_t bytes = qtype_info(fb->type)->block_bytes;
    static float u[MAX_N], acc[MAX_N], g[MAX_N], v[MAX_N], p[MAX_N];
    unsigned char *blocks = calloc((size_t)(f->n / n), fb->kind->bytes);
    struct fb_row r = {.x = row, .u = u, .acc = acc, .g = g};
    double vv = 0, vu = 0;
    memset(acc, 0, sizeof acc);
    for (int64_t c = 0; c < f->n; c++) v[c] = fb->s[c] * row[c];
#define BLOCK(c0) (blocks + (size_t)((c0) / n) * fb->kind->bytes)
#define END(c) min_i64(f->n, ((c) / f->block + 1) * f->block)
    for (int64_t c0 = 0; c0 < f->n; c0 += n) {
        fb->kind->pass(fb, &r, 1, BLOCK(c0), c0, n);
        for (int64_t c = c0; c < c0 + n; c++) add(f, f->m, acc, c, u[c], c0 + n, END(c));
    }
    for (int t = 0; t < fb->rounds; t++)
        for (r.w0 = 0; r.w0 < f->n; r.w0 = r.w1) {
            const int64_t b0 = r.w0 / f->block * f->block;
            r.w1 = min_i64(END(r.w0), r.w0 + FB_WINDOW);
            memset(g, 0, sizeof g);
            memset(p, 0, sizeof p);
            for (int64_t c = b0; c < END(b0); c++) add(f, f->r, g, c, u[c], r.w0, r.w1);
            for (int64_t c = b0; c < r.w0; c++) add(f, f->r, p, c, v[c], r.w0, r.w1);
            const bool last = t + 1 == fb->rounds;
            const int64_t w = r.w0, width = r.w1 - w;
            if (last) vv += dot_of(v + w, p + w, width);
            for (int64_t c = w; c < r.w1; c++) add(f, f->r, p, c, v[c], w, r.w1);
            if (last) vv += dot_of(v + w, p + w, width);
            if (last) vu += dot_of(v + w, g + w, width) - dot_of(u + w, p + w, width);
            for (int64_t c0 = w; c0 < r.w1; c0 += n) fb->kind->descend(fb, &r, 1, BLOCK(c0), c0);
            if (last) vu += dot_of(u + w, p + w, width);
        }
    exact_sums(f, u, v, vv, vu);
    for (int64_t c0 = 0; c0 < f->n; c0 += n) {
        if (fb->kind->rescale) fb->kind->rescale(BLOCK(c0), enc_gain(vv, vv - vu));
        fb->kind->close(fb, BLOCK(c0), dst + c0 / n * bytes);
    }
    free(blocks);
}

/* Compares calls of several sizes with one_row, for the baseline and the best instruction set. */
static void compare(enum qtype type, enum search search, const struct factor *f, const float *w,
                    const float *s, const int *calls) {
    const int n_rows = calls[0] + calls[1] + calls[2];
    const uint64_t bytes = qtype_row_bytes(type, f->n);
    uint8_t *want = calloc(ROWS, bytes), *got = calloc(ROWS, bytes);
    struct feedback_work *work;
    struct feedback fb;
    struct err e;
    feedback_init(&fb, type, search);
    fb.f = f;
    fb.imp = w;
    fb.s = s;
    fb.steps = FEEDBACK_ALL;
    fb.rounds = 2;
    enc_use(KERN_REF);
    for (int r = 0; r < n_rows; r++) one_row(&fb, x + r * f->n, want + (uint64_t)r * bytes);
    for (int k = 0; k < 2; k++) {
        const enum kern_isa isa = k ? kern_isa_best() : KERN_REF;
        enc_use(isa);
        CHECK_OK(feedback_work_new(&work, type, f->n, &e));
        for (int c = 0, r = 0; c < 3; r += calls[c++])
            feedback_rows(&fb, work, x + r * f->n, calls[c], got + (uint64_t)r * bytes, bytes);
        feedback_work_free(work);
        for (int r = 0; r < n_rows; r++)
            if (memcmp(want + (uint64_t)r * bytes, got + (uint64_t)r * bytes, bytes) != 0)
                CHECK_FAIL("%s %s %s: row %d differs", qtype_name(type), search_name(search),
                           kern_isa_name(isa), r);
    }
    enc_use(kern_isa_best());
    free(want);
    free(got);
}

/* Tests a few rows of every type in one block of moments, and many rows of some types; short
 * blocks, odd numbers of columns. */
static void test_rows(void) {
    static const int64_t shape[][2] = {{512, 512}, {768, 512}, {416, 416}, {32, 32}};
    static const int few[] = {1, 3, 0}, many[] = {1, 6, 63};
    float w[MAX_N], s[MAX_N];
    for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) {
        struct factor f;
        make(&f, shape[k][0], shape[k][1]);
        feedback_weights(w, s, f.h, f.n, 0.01);
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const int block = qtype_info(types[t])->block_elems;
            const bool one_of = types[t] == QT_Q4_K || types[t] == QT_Q3_K || types[t] == QT_Q5_1;
            if (f.n % block || (k == 1 && block == QK && !one_of)) continue;
            compare(types[t], k == 0 || k == 2 ? SEARCH_BEST : SEARCH_FAST, &f, w, s,
                    one_of && k == 1 ? many : few);
        }
        factor_release(&f);
    }
}

static void test_error(void) {
    struct factor f;
    float w[MAX_N], s[MAX_N];
    make(&f, 768, 512);
    feedback_weights(w, s, f.h, f.n, 0.01);
    for (int64_t rows = 1; rows < ROWS; rows += 18) {
        double want = 0;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < f.n; i++) {
                const float *xr = x + r * f.n, *yr = y + r * f.n;
                float g = 0;
                for (int64_t j = i / 512 * 512; j < min_i64(f.n, i / 512 * 512 + 512); j++)
                    g += f.r[i * 512 + j % 512] * (s[j] * (xr[j] - yr[j]));
                want += (double)(s[i] * (xr[i] - yr[i])) * (double)g;
            }
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
            enc_use((enum kern_isa)isa);
            const double got = feedback_error(&f, s, x, y, rows);
            CHECK(memcmp(&want, &got, sizeof want) == 0);
        }
    }
    enc_use(kern_isa_best());
    factor_release(&f);
}

/* Tests products of all sizes around those of tiles and panels. */
static void test_products(void) {
    static const int64_t size[] = {1, 3, 4, 5, 8, 23, 24, 25, 63, 64, 65, 256, 300};
    enum { LD = 301, N = sizeof size / sizeof *size };
    static float a[LD * LD], b[LD * LD], c[LD * LD], want[LD * LD], got[LD * LD];
    fill(a, LD * LD, 1, 1);
    fill(b, LD * LD, 2, 1);
    fill(c, LD * LD, 3, 1);
    for (int trial = 0; trial < 200; trial++) {
        const int64_t m = size[trial % 9], k = size[trial * 5 % N], n = size[trial * 7 % N];
        const bool turned = trial % 2;
        memcpy(want, c, sizeof c);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t p = 0; p < k; p++)
                    want[i * LD + j] += a[i * LD + p] * (turned ? b[j * LD + p] : b[p * LD + j]);
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
            const struct enc_product o = {.c = got,
                                          .a = a,
                                          .b = b,
                                          .ldc = LD,
                                          .lda = LD,
                                          .ldb = LD,
                                          .m = m,
                                          .k = k,
                                          .n = n,
                                          .turned = turned};
            memcpy(got, c, sizeof c);
            enc_use((enum kern_isa)isa);
            enc_lanes()->product(&o);
            if (memcmp(got, want, sizeof want) != 0)
                CHECK_FAIL("%s: %lld x %lld x %lld", kern_isa_name((enum kern_isa)isa),
                           (long long)m, (long long)k, (long long)n);
        }
    }
    enc_use(kern_isa_best());
}

/* Tests sums of rows against plain loops; a zero must not read its row. */
static void test_add_rows(void) {
    enum { N = 301 };
    static float b[FB_WINDOW * N], a[FB_WINDOW], start[N], want[N], got[N];
    fill(b, FB_WINDOW * N, 5, 1);
    fill(start, N, 7, 1);
    for (int trial = 0; trial < 24; trial++) {
        const int n = trial % 3 ? 16 * trial % (FB_WINDOW + 1) : FB_WINDOW, cols = N - 13 * trial;
        fill(a, n, (uint64_t)trial, 1);
        for (int i = 0; i < n; i++)
            if (i % (trial + 1) == 1) a[i] = 0;
        if (trial > 1 && n > 1) b[N] = INFINITY;
        memcpy(want, start, sizeof want);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < cols && a[i] != 0; j++) want[j] += a[i] * b[i * N + j];
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
            memcpy(got, start, sizeof got);
            enc_use((enum kern_isa)isa);
            enc_lanes()->add_rows(got, b, N, a, n, cols);
            CHECK(memcmp(got, want, sizeof want) == 0);
        }
    }
    enc_use(kern_isa_best());
}

/* Returns the level nearest to v; a midpoint belongs to the lower level of a table. */
static int8_t nearest_level(const struct levels *lv, float v) {
    const float lo = (float)lv->lo, hi = (float)lv->hi;
    int best = 0;
    v = v < lo ? lo : v > hi ? hi : v;
    if (!lv->tab) return (int8_t)nearbyintf(v);
    for (int i = 1; i < 16; i++)
        if (fabsf(v - (float)lv->tab[i]) < fabsf(v - (float)lv->tab[best])) best = i;
    return lv->tab[best];
}

/* Computes one trial of integers, lane k of *o, with plain loops, as described in lanes_ints.h. */
static void one_trial(struct enc_ints *o, int k) {
    const float *xr = o->x[k], *u = o->u[k], *g = o->g[k], step = o->step[k], base = o->base[k];
    float du[ENC_SUB], rdu[ENC_SUB] = {0};
    int8_t *l = o->l[k];
    double e = 0;
    for (int i = 0; i < o->sub; i++) {
        l[i] = nearest_level(&o->lv, (xr[i] - u[i] / o->s[i] - base) / step);
        du[i] = o->s[i] * (xr[i] - (step * (float)l[i] + base)) - u[i];
    }
    for (int i = 0; i < o->sub; i++)
        for (int j = 0; j < o->sub; j++) rdu[j] += o->r[i * o->ldr + j] * du[i];
    for (int i = 0; i < o->sub; i++) {
        const float now = u[i] + du[i], want = xr[i] - (now - (g[i] + rdu[i])) / o->s[i];
        const int8_t to = nearest_level(&o->lv, (want - base) / step);
        if (!(fabsf(want) < 1e30f) || to == l[i]) continue;
        l[i] = to;
        const float after = o->s[i] * (xr[i] - (step * (float)to + base));
        for (int j = 0; j < o->sub; j++) rdu[j] += o->r[i * o->ldr + j] * (after - now);
        du[i] = after - u[i];
    }
    for (int i = 0; i < o->sub; i++) {
        e += (double)du[i] * ((double)rdu[i] + 2 * (double)g[i]);
        o->du[i][k] = du[i];
    }
    o->e[k] = e;
}

static void test_ints(void) {
    static const enum qtype kinds[] = {QT_Q4_K, QT_Q2_K, QT_Q3_K, QT_Q6_K, QT_IQ4_XS};
    static float u[8 * QK], g[8 * QK], s[QK];
    struct factor f;
    make(&f, QK, QK);
    fill(u, 8 * QK, 21, 0.005f);
    fill(g, 8 * QK, 22, 0.005f);
    for (int i = 0; i < QK; i++) s[i] = 0.5f + (float)(i % 7) / 5;
    for (size_t t = 0; t < sizeof kinds / sizeof *kinds; t++) {
        const struct enc_spec *spec = enc_find(kinds[t])->blocks->spec;
        for (int at = 0; at < QK; at += spec->sub)
            for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
                static struct enc_ints want, got;
                memset(&want, 0, sizeof want);
                want.sub = spec->sub;
                want.lv = spec->lv;
                want.s = s + at;
                want.r = f.r + at * QK + at;
                want.ldr = QK;
                for (int k = 0; k < 8; k++) {
                    const int row = at % 64 ? k / 2 : 0;
                    want.x[k] = x + row * QK + at;
                    want.u[k] = u + row * QK + at;
                    want.g[k] = g + row * QK + at;
                    want.step[k] = 0.05f / (float)spec->lv.hi * (float)(1 + k % 3);
                    want.base[k] = spec->lv.lo ? 0 : -0.02f - 0.001f * (float)k;
                }
                got = want;
                for (int k = 0; k < 8; k++) one_trial(&want, k);
                if (at == 32) got.step[5] = 0; /* must not disturb the other lanes */
                enc_use((enum kern_isa)isa);
                enc_lanes()->ints(&got);
                for (int k = 0; k < 8; k++) {
                    bool same = want.e[k] == got.e[k] &&
                                memcmp(want.l[k], got.l[k], (size_t)spec->sub) == 0;
                    for (int i = 0; i < spec->sub; i++)
                        same = same && want.du[i][k] == got.du[i][k];
                    if (!same && (at != 32 || k != 5))
                        CHECK_FAIL("%s %s: trial %d differs", qtype_name(kinds[t]),
                                   kern_isa_name((enum kern_isa)isa), k);
                }
            }
    }
    enc_use(kern_isa_best());
    factor_release(&f);
}

/* Tests the sum in eight parts against a plain loop. */
static void test_dot(void) {
    for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
        enc_use((enum kern_isa)isa);
        for (int64_t n = 8; n <= 768; n += 152) {
            const double want = dot_of(x, y, n), got = enc_lanes()->dot(x, y, n);
            CHECK(memcmp(&want, &got, sizeof want) == 0);
        }
    }
    enc_use(kern_isa_best());
}

static int64_t distance2(const int8_t *a, const int8_t *b, int n) {
    int64_t sum = 0;
    for (int j = 0; j < n; j++) sum += (int64_t)(a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* Tests that no entry outside a list is nearer than one inside, and the choice among a list. */
static void test_around(void) {
    static const enum qtype grids[] = {QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S, QT_IQ3_XXS,
                                       QT_IQ3_S,   QT_IQ1_S,  QT_IQ1_M};
    for (size_t t = 0; t < sizeof grids / sizeof *grids; t++) {
        const struct grid_spec *s = grid_spec_of(grids[t]);
        const struct grid_around *o = enc_grid_around(grids[t]);
        const int way = grid_n(s) / grid_ways(s);
        for (int g = 0; g < grid_n(s); g += 37) {
            bool in[GRID_MAX] = {false}, ascending = true;
            int64_t far_in = 0, near_out = INT64_MAX;
            for (int k = 0; k < GRID_AROUND; k++) {
                in[o->entry[g][k]] = true;
                ascending = ascending && (k == 0 || o->entry[g][k] > o->entry[g][k - 1]);
                far_in = max_i64(
                    far_in, distance2(grid_levels(s, g), grid_levels(s, o->entry[g][k]), s->per));
            }
            for (int h = g / way * way; h < g / way * way + way; h++)
                if (!in[h])
                    near_out =
                        min_i64(near_out, distance2(grid_levels(s, g), grid_levels(s, h), s->per));
            CHECK(in[g] && ascending && far_in <= near_out);
            /* the least value of the quadratic form, with the first row of x and y for q and p */
            int best = 0;
            float least = INFINITY;
            for (int k = 0; k < GRID_AROUND; k++) {
                const int8_t *l = grid_levels(s, o->entry[g][k]);
                float sum = 0;
                for (int i = 0; i < s->per; i++) {
                    float v = -y[i];
                    for (int j = 0; j <= i; j++) v += fabsf(x[8 * j + i]) * (float)l[j];
                    sum += v * (float)l[i];
                }
                if (sum < least) best = k;
                least = fminf(least, sum);
            }
            float q[64];
            for (int i = 0; i < 64; i++) q[i] = fabsf(x[i]);
            for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
                enc_use((enum kern_isa)isa);
                CHECK_EQ_I64(
                    enc_lanes()->around(o->lev + (int64_t)g * s->per * GRID_AROUND, s->per, q, y),
                    best);
            }
        }
    }
    enc_use(kern_isa_best());
}

int main(void) {
    fill(x, ROWS * MAX_N, 8, 0.02f);
    fill(y, ROWS * MAX_N, 9, 0.02f);
    RUN(test_products);
    RUN(test_add_rows);
    RUN(test_error);
    RUN(test_ints);
    RUN(test_dot);
    RUN(test_around);
    RUN(test_rows);
    return check_done();
}
