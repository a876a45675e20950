// SPDX-License-Identifier: MIT
/* Encoders: the blocks that they write, decoded by the scalar kernels, are compared with the input.
 *
 * Error levels: relative weighted RMSE of Gaussian rows as published for the field's quantizer (32
 * rows x 2048, importance log-normal sigma 1 with 0.3 % of columns x50; IQ1: as llama-cpp-python
 * 0.3.36 quantized such rows, .41610 and .36806); ours, with the same search, must be within 4 %
 * (the random rows differ). The best search is never worse than conventional in any block, the fast
 * one never in total (for grids and small formats: not in any block either). */
#include "tests/check.h"

#include "base/fp.h"
#include "base/rng.h"
#include "kernels/codebook.h"
#include "kernels/grid.h"
#include "kernels/kern.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/super.h"

enum { N = 2048, ROWS = 64 };
static struct kern ref;
static const enum qtype all[] = {QT_F32,  QT_F16,  QT_BF16, QT_Q8_0,   QT_Q4_0,
                                 QT_Q4_1, QT_Q5_0, QT_Q5_1, QT_Q2_K,   QT_Q3_K,
                                 QT_Q4_K, QT_Q5_K, QT_Q6_K, QT_IQ4_NL, QT_IQ4_XS};
/* Formats without a zero, with power-of-two scales, or of one to two bits, which are too coarse for
 * the checks of `all`. */
static const enum qtype coarse[] = {QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S, QT_IQ3_XXS, QT_IQ3_S,
                                    QT_IQ1_S,   QT_IQ1_M,  QT_MXFP4, QT_NVFP4,   QT_Q1_0,
                                    QT_Q2_0,    QT_TQ1_0,  QT_TQ2_0};
enum { N_SIGNED = 5, N_GRID = 7 }; /* grids of magnitudes with signs; all grids */
enum { N_COARSE = sizeof coarse / sizeof coarse[0] };
static const enum search modes[] = {SEARCH_CONVENTIONAL, SEARCH_FAST, SEARCH_BEST};
enum { N_ALL = sizeof all / sizeof all[0] };

static double gauss(struct rng *r) {
    double u = rng_unit(r) + 1e-300, v = rng_unit(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* kind 0 Gaussian, 1 Student t5, 2 log-normal scale mixture */
static void fill(struct rng *r, float *x, int n, int kind) {
    for (int i = 0; i < n; i++) {
        double g = gauss(r), s = 0;
        for (int k = 0; k < 5 && kind == 1; k++) {
            double z = gauss(r);
            s += z * z;
        }
        if (kind == 1) g /= sqrt(s / 5);
        if (kind == 2) g *= exp(0.5 * gauss(r));
        x[i] = (float)(0.02 * g);
    }
}

static void fill_importance(struct rng *r, float *imp, int n) {
    for (int i = 0; i < n; i++) {
        imp[i] = (float)exp(gauss(r));
        if (rng_unit(r) < 0.003) imp[i] *= 50;
    }
}

static void code(enum qtype t, const float *x, const float *imp, int n, enum search s, float *out) {
    static uint8_t blk[N * 4];
    enc_find(t)->row(x, imp, n, blk, s);
    ref.op[t].decode(blk, out, n);
}

static void test_error_levels(void) {
    static const struct {
        enum qtype type;
        double rel;
    } want[] = {{QT_Q2_K, .224},   {QT_Q3_K, .129},  {QT_Q4_0, .075},    {QT_IQ4_XS, .068},
                {QT_IQ4_NL, .067}, {QT_Q4_K, .061},  {QT_Q5_K, .031},    {QT_Q6_K, .0153},
                {QT_Q8_0, .0053},  {QT_IQ3_S, .115}, {QT_IQ3_XXS, .145}, {QT_IQ1_S, .416},
                {QT_IQ1_M, .368}};
    static float x[N], imp[N], y[N];
    for (size_t t = 0; t < sizeof want / sizeof want[0]; t++) {
        struct rng r;
        double e = 0, s = 0;
        rng_seed(&r, 1);
        for (int row = 0; row < ROWS; row++) {
            fill_importance(&r, imp, N);
            fill(&r, x, N, 0);
            code(want[t].type, x, imp, N, SEARCH_CONVENTIONAL, y);
            for (int i = 0; i < N; i++) {
                double d = (double)y[i] - (double)x[i];
                e += (double)imp[i] * d * d;
                s += (double)imp[i] * (double)x[i] * (double)x[i];
            }
        }
        CHECK_CLOSE(sqrt(e / s), want[t].rel, 0.04 * want[t].rel);
    }
}

/* Weighted error of one block under the type's own rule. */
static double block_error(const struct wrule *rule, const float *x, const float *y,
                          const float *imp, int n, float mean2, int sub) {
    float w[QK];
    double e = 0;
    enc_weights(w, x, imp, n, rule, mean2, sub);
    for (int i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i];
        e += (double)w[i] * d * d;
    }
    return e;
}

/* Returns the run length for the rule "rms + |x|". */
static int sub_of(enum qtype t) {
    static const struct {
        enum qtype type;
        int sub;
    } row[] = {{QT_Q2_K, 16},  {QT_Q3_K, 16},   {QT_Q6_K, 16},  {QT_IQ2_XS, 16},
               {QT_IQ2_S, 16}, {QT_IQ1_M, 16},  {QT_NVFP4, 16}, {QT_Q1_0, 128},
               {QT_Q2_0, 64},  {QT_TQ1_0, 256}, {QT_TQ2_0, 256}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (row[i].type == t) return row[i].sub;
    return 32;
}

/* Compares the searches of a row. For search `first` and all later ones, the bound holds for every
 * block. */
static void compare_row(enum qtype t, const float *x, const float *imp, int first,
                        double total[3]) {
    static float y[3][N];
    int block = qtype_info(t)->block_elems;
    struct wrule rule = enc_wrule(t, SEARCH_FAST);
    for (int m = 0; m < 3; m++) code(t, x, imp, N, modes[m], y[m]);
    for (int b = 0; b < N; b += block) {
        float mean2 = rule.scope == 0 ? enc_mean2(x, N) : enc_mean2(x + b, block);
        double e[3];
        for (int m = 0; m < 3; m++) {
            e[m] =
                block_error(&rule, x + b, y[m] + b, imp ? imp + b : NULL, block, mean2, sub_of(t));
            total[m] += e[m];
        }
        for (int m = first; m < 3; m++)
            if (e[m] > e[0] * (1 + 1e-6) + 1e-30)
                CHECK_FAIL("%s block %d: search %d has error %.9g, conventional %.9g",
                           qtype_name(t), b, m, e[m], e[0]);
    }
}

/* Checks that values that a format represents exactly are unchanged. */
static void test_exact_values(void) {
    float x[QK], y[QK];
    for (int m = 0; m < 3; m++) {
        for (int i = 0; i < QK; i++) x[i] = (float)((i * 7) % 255 - 127) * 0x1p-7f;
        x[0] = 127 * 0x1p-7f;
        for (int i = 0; i < QK; i += 32) x[i] = 127 * 0x1p-7f;
        code(QT_Q8_0, x, NULL, QK, modes[m], y);
        CHECK(memcmp(x, y, sizeof x) == 0);
        for (int i = 0; i < QK; i++) x[i] = (float)(i % 16 - 8) * 0.25f;
        code(QT_Q4_0, x, NULL, QK, modes[m], y);
        CHECK(memcmp(x, y, sizeof x) == 0);
        for (int i = 0; i < QK; i++) x[i] = (float)(i % 16) * 0.5f + 3.0f;
        code(QT_Q4_1, x, NULL, QK, modes[m], y);
        CHECK(memcmp(x, y, sizeof x) == 0);
    }
    for (int i = 0; i < QK; i++) x[i] = (float)i * 0.125f;
    code(QT_F16, x, NULL, QK, SEARCH_FAST, y);
    CHECK(memcmp(x, y, sizeof x) == 0);
    code(QT_F32, x, NULL, QK, SEARCH_FAST, y);
    CHECK(memcmp(x, y, sizeof x) == 0);
}

static bool all_finite(const float *y, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(y[i])) return false;
    return true;
}

static void never_worse(const enum qtype *types, int n_types, int from, int first) {
    static float x[N], imp[N];
    for (int t = from; t < n_types; t++)
        for (int kind = 0; kind < 3; kind++) {
            struct rng r;
            double with[3] = {0}, without[3] = {0};
            rng_seed(&r, 7 + (uint64_t)kind);
            fill_importance(&r, imp, N);
            fill(&r, x, N, kind);
            compare_row(types[t], x, imp, first, with);
            compare_row(types[t], x, NULL, first, without);
            if (!(with[2] <= with[1] && with[1] <= with[0]))
                CHECK_FAIL("%s: conventional %g, fast %g, best %g", qtype_name(types[t]), with[0],
                           with[1], with[2]);
            CHECK(without[2] <= without[1] && without[1] <= without[0]);
        }
}

static void test_never_worse_than_conventional(void) {
    never_worse(all, N_ALL, 3, 2);
    never_worse(coarse, N_COARSE, 0, 1);
}

/* Tests grid, power-of-two and low-bit formats. */
static void test_coarse_blocks(void) {
    float x[QK], y[QK], imp[QK];
    for (int t = 0; t < N_COARSE; t++)
        for (int m = 0; m < 3; m++) {
            struct rng r;
            double e = 0, s = 0;
            rng_seed(&r, 11);
            memset(x, 0, sizeof x);
            code(coarse[t], x, NULL, QK, modes[m], y);
            for (int i = 0; i < QK; i++) CHECK(y[i] == 0);
            for (int i = 0; i < QK; i++) x[i] = (i & 1 ? -1e-42f : 1e-39f);
            code(coarse[t], x, NULL, QK, modes[m], y);
            for (int i = 0; i < QK; i++) CHECK(fabsf(y[i]) <= 0x1p-25f);
            for (int i = 0; i < QK; i++) x[i] = (float)(i - 128) * 1e-9f; /* f16 subnormals */
            code(coarse[t], x, NULL, QK, modes[m], y);
            for (int i = 0; i < QK; i++) CHECK(fabsf(y[i] - x[i]) <= 1e-6f);
            for (int k = 0; k < 3; k++) {
                static const float size[3] = {7e4f, 1e9f, 3.4e38f};
                for (int i = 0; i < QK; i++)
                    x[i] = (float)(i % 3 - 1) * size[k] * ((float)(i % 7) / 7.0f);
                code(coarse[t], x, NULL, QK, modes[m], y);
                CHECK(all_finite(y, QK));
            }
            fill(&r, x, QK, 0);
            memset(imp, 0, sizeof imp); /* all importance is zero */
            code(coarse[t], x, imp, QK, modes[m], y);
            for (int i = 0; i < QK; i++) {
                double d = (double)y[i] - (double)x[i];
                e += d * d;
                s += (double)x[i] * (double)x[i];
            }
            CHECK(e < s);
            for (int i = 0; i < QK; i++)
                imp[i] = i == 77 ? 3e38f : 0; /* one column has all the importance */
            code(coarse[t], x, imp, QK, modes[m], y);
            CHECK(all_finite(y, QK));
            if (modes[m] != SEARCH_CONVENTIONAL && fabsf(y[77] - x[77]) > 0.35f * fabsf(x[77]))
                CHECK_FAIL("%s search %d: %g became %g", qtype_name(coarse[t]), m, (double)x[77],
                           (double)y[77]);
        }
}

/* Checks that decoded blocks encode to nearly the same values. */
static void test_round_trip(void) {
    static float x[N], y[N], z[N];
    for (int t = 0; t < N_COARSE; t++)
        for (int kind = 0; kind < 3; kind++) {
            struct rng r;
            double e = 0, s = 0;
            rng_seed(&r, 5 + (uint64_t)kind);
            fill(&r, x, N, kind);
            code(coarse[t], x, NULL, N, SEARCH_BEST, y);
            code(coarse[t], y, NULL, N, SEARCH_BEST, z);
            for (int i = 0; i < N; i++) {
                double d = (double)z[i] - (double)y[i];
                e += d * d;
                s += (double)y[i] * (double)y[i];
            }
            if (!(e <= 1e-3 * s)) /* two scales may fit a sub-block */
                CHECK_FAIL("%s: relative error %g of its own values", qtype_name(coarse[t]), e / s);
        }
}

/* Checks the choice of grid entries by brute force: for one sub-block of weights, no other entries
 * and signs are better at the scale found. */
static void test_grid_choice_is_exact(void) {
    static float x[QK], y[QK], imp[QK];
    for (int t = 0; t < N_SIGNED; t++) {
        const struct grid_spec *g = grid_spec_of(coarse[t]);
        struct rng r;
        rng_seed(&r, 21);
        for (int i = 0; i < QK; i++) imp[i] = (float)exp(gauss(&r));
        fill(&r, x, QK, 0);
        code(coarse[t], x, imp, QK, SEARCH_BEST, y);
        for (int k = 0; k < QK / g->sub; k++) {
            float low =
                INFINITY; /* the scale: smallest decoded magnitude divided by its smallest level */
            for (int i = k * g->sub; i < (k + 1) * g->sub; i++)
                if (fabsf(y[i]) < low) low = fabsf(y[i]);
            float c = low / (float)grid_levels(g, 0)[0];
            for (int o = k * g->sub; o < (k + 1) * g->sub; o += 8) {
                double got = 0, best = 0;
                double least[2][2]; /* half, number of flips odd */
                unsigned negative = 0;
                for (int i = o; i < o + 8; i++) {
                    got += (double)imp[i] * ((double)y[i] - (double)x[i]) *
                           ((double)y[i] - (double)x[i]);
                    negative ^= x[i] < 0;
                }
                for (int h = 0; h < 8 / g->per; h++) {
                    least[h][0] = least[h][1] = (double)INFINITY;
                    for (int e = 0; e < g->n; e++) {
                        double err = 0, flip = (double)INFINITY;
                        for (int i = 0; i < g->per; i++) {
                            double a = fabs((double)x[o + h * g->per + i]),
                                   w = (double)imp[o + h * g->per + i];
                            double l = (double)c * grid_levels(g, e)[i];
                            err += w * (a - l) * (a - l);
                            flip = fmin(flip, 4 * w * a * l);
                        }
                        least[h][0] = fmin(least[h][0], err);
                        least[h][1] = fmin(least[h][1], err + flip);
                    }
                }
                bool odd = g->parity && negative;
                if (g->per == 8)
                    best = least[0][odd];
                else
                    best = odd ? fmin(least[0][1] + least[1][0], least[0][0] + least[1][1])
                               : least[0][0] + least[1][0];
                if (!(got <= best * (1 + 1e-4)))
                    CHECK_FAIL("%s group %d: error %.9g, least %.9g", qtype_name(coarse[t]), o / 8,
                               got, best);
            }
        }
    }
}

/* Checks the same for IQ1, at the block's scales: no other entry and shift is better for a
 * sub-block (IQ1_S) or group of 8 (IQ1_M). */
static void test_iq1_choice_is_exact(void) {
    float x[QK], y[QK], imp[QK];
    for (int t = N_SIGNED; t < N_GRID; t++)
        for (int seed = 21; seed < 24; seed++) {
            union {
                struct blk_IQ1_S s;
                struct blk_IQ1_M m;
            } b;
            struct rng r;
            rng_seed(&r, (uint64_t)seed);
            for (int i = 0; i < QK; i++) imp[i] = (float)exp(gauss(&r));
            fill(&r, x, QK, 0);
            enc_find(coarse[t])->row(x, imp, QK, &b, SEARCH_BEST);
            ref.op[coarse[t]].decode(&b, y, QK);
            const bool is_m = coarse[t] == QT_IQ1_M;
            const struct kern_grid *g = kern_grid_get();
            const int run = is_m ? 8 : 32;
            for (int o = 0; o < QK; o += run) {
                const int word = is_m ? b.m.scales[o / 64 * 2] | b.m.scales[o / 64 * 2 + 1] << 8
                                      : b.s.qh[o / 32] >> 12;
                const int sc = is_m ? word >> (o / 16 % 4 * 3) & 7 : word & 7;
                const double d = (double)fp_f16_to_f32(is_m ? kern_iq1_m_d(&b.m) : b.s.d),
                             c = d * (2 * sc + 1) / 8;
                double got = 0, best = (double)INFINITY;
                for (int i = o; i < o + run; i++)
                    got += (double)imp[i] * pow((double)y[i] - (double)x[i], 2);
                for (int shift = 0; shift < 2; shift++) {
                    double sum = 0;
                    for (int h = o; h < o + run; h += 8) {
                        double least = (double)INFINITY;
                        for (int e = 0; e < KERN_IQ1; e++) {
                            double err = 0;
                            for (int i = 0; i < 8; i++)
                                err +=
                                    (double)imp[h + i] *
                                    pow(c * g->iq1[shift * KERN_IQ1 + e][i] - (double)x[h + i], 2);
                            least = fmin(least, err);
                        }
                        sum += least;
                    }
                    best = fmin(best, sum);
                }
                if (!(got <= best * (1 + 1e-4)))
                    CHECK_FAIL("%s weights %d: error %.9g, least %.9g", qtype_name(coarse[t]), o,
                               got, best);
            }
        }
}

/* Checks that balanced rows keep their product with themselves, up to rounding of d to f16
 * (2^-11). */
static void test_grid_balance(void) {
    static float x[N], y[N], imp[N];
    static uint8_t blk[N];
    for (int t = 0; t < N_GRID; t++)
        for (int with = 0; with < 2; with++) {
            struct rng r;
            double share[2];
            rng_seed(&r, 51);
            fill_importance(&r, imp, N);
            fill(&r, x, N, 0);
            enc_find(coarse[t])->row(x, with ? imp : NULL, N, blk, SEARCH_FAST);
            for (int pass = 0; pass < 2; pass++) {
                double xx = 0, xy = 0;
                ref.op[coarse[t]].decode(blk, y, N);
                for (int i = 0; i < N; i++) {
                    double w = with ? (double)imp[i] : 1;
                    xx += w * (double)x[i] * (double)x[i];
                    xy += w * (double)x[i] * (double)y[i];
                }
                share[pass] = xy / xx;
                enc_grid_balance(coarse[t], x, with ? imp : NULL, N, blk);
            }
            if (!(share[0] < 0.995 && fabs(share[1] - 1) < 5e-4))
                CHECK_FAIL("%s: %g, balanced %g", qtype_name(coarse[t]), share[0], share[1]);
        }
    memset(x, 0, sizeof x); /* all zeros: nothing to preserve */
    enc_find(QT_IQ1_M)->row(x, NULL, N, blk, SEARCH_FAST);
    enc_grid_balance(QT_IQ1_M, x, NULL, N, blk);
    ref.op[QT_IQ1_M].decode(blk, y, N);
    for (int i = 0; i < N; i++) CHECK(y[i] == 0);
}

/* Checks that wider vectors give the same bytes. */
static void test_same_bytes_without_vectors(void) {
    static float x[N], imp[N];
    static uint8_t a[N], b[N];
    for (int t = 0; t < N_GRID; t++)
        for (int m = 1; m < 3; m++)
            for (int kind = 0; kind < 3; kind++) {
                struct rng r;
                rng_seed(&r, 31 + (uint64_t)kind);
                fill_importance(&r, imp, N);
                fill(&r, x, N, kind);
                enc_find(coarse[t])->row(x, imp, N, a, modes[m]);
                enc_use(KERN_REF);
                enc_find(coarse[t])->row(x, imp, N, b, modes[m]);
                enc_use(kern_isa_best());
                CHECK(memcmp(a, b, (size_t)qtype_row_bytes(coarse[t], N)) == 0);
            }
}

/* Checks that every instruction set of this machine gives the same bytes for every type and search,
 * with and without importance, including constant and zero sub-blocks and small weights. */
static void test_same_bytes_with_every_instruction_set(void) {
    enum { M = 1024 };
    static float x[M], imp[M];
    static uint8_t want[M * 4], got[M * 4];
    struct rng r;
    rng_seed(&r, 41);
    for (int t = 0; t < QT_COUNT; t++) {
        const struct enc *enc = enc_find((enum qtype)t);
        if (!enc) continue;
        fill(&r, x, M, t % 3);
        fill_importance(&r, imp, M);
        for (int i = 256; i < 288; i++) x[i] = 0.01f;
        for (int i = 288; i < 320; i++) x[i] = 0;
        for (int i = 768; i < M; i++) x[i] *= 0x1p-14f;
        size_t bytes = (size_t)qtype_row_bytes((enum qtype)t, M);
        for (int k = 0; k < 6; k++) {
            enc_use(KERN_REF);
            enc->row(x, k % 2 ? imp : NULL, M, want, modes[k / 2]);
            for (int isa = KERN_REF + 1; isa <= (int)kern_isa_best(); isa++) {
                enc_use((enum kern_isa)isa);
                enc->row(x, k % 2 ? imp : NULL, M, got, modes[k / 2]);
                if (memcmp(want, got, bytes) != 0)
                    fprintf(stderr, "%s %s search %d\n", qtype_name((enum qtype)t),
                            kern_isa_name((enum kern_isa)isa), k);
                CHECK(memcmp(want, got, bytes) == 0);
            }
        }
    }
    enc_use(kern_isa_best());
}

/* Checks that rounding the scales of eight blocks at once equals base/fp.c's rounding of each, with
 * zeros without a sign. */
static void test_scales_are_rounded_to_f16(void) {
    const int best = (int)kern_isa_best();
    for (int isa = KERN_REF; isa <= best; isa++) {
        enc_use((enum kern_isa)isa);
        for (uint32_t u = 0; u < 0x7f800000u - 8 * 0x1003u; u += 0x1003u * 8) {
            float v[8], got[8];
            for (uint32_t k = 0; k < 8; k++) v[k] = fp_from_bits((u + k * 0x1003u) | k << 31);
            memcpy(got, v, sizeof got);
            enc_lanes()->round_f16(got);
            for (int k = 0; k < 8; k++) {
                const float want = enc_f16(v[k]) + 0.0f;
                if (memcmp(&got[k], &want, sizeof want) != 0)
                    CHECK_FAIL("%.9g became %.9g", (double)v[k], (double)got[k]);
            }
        }
    }
    enc_use((enum kern_isa)best);
}

static void test_zeros_and_tiny(void) {
    float x[QK], y[QK], imp[QK];
    for (int i = 0; i < QK; i++) imp[i] = (float)i;
    for (int t = 0; t < N_ALL; t++)
        for (int m = 0; m < 3; m++) {
            memset(x, 0, sizeof x);
            code(all[t], x, imp, QK, modes[m], y);
            for (int i = 0; i < QK; i++) CHECK(y[i] == 0);
            for (int i = 0; i < QK; i++) x[i] = (i & 1 ? -1e-42f : 1e-39f);
            code(all[t], x, imp, QK, modes[m], y);
            for (int i = 0; i < QK; i++) CHECK(fabsf(y[i] - x[i]) <= 0x1p-25f);
            for (int i = 0; i < QK; i++) x[i] = (float)(i - 128) * 1e-9f; /* f16 subnormals */
            code(all[t], x, imp, QK, modes[m], y);
            CHECK(all_finite(y, QK));
            for (int i = 0; i < QK; i++) CHECK(fabsf(y[i] - x[i]) <= 2.6e-7f);
        }
}

/* Returns the relative error of Gaussian rows multiplied by 2^-less. */
static double error_at(enum qtype t, enum search search, int less) {
    static float x[N], y[N];
    double e = 0, s = 0;
    struct rng r;
    rng_seed(&r, 13);
    fill(&r, x, N, 0);
    for (int i = 0; i < N; i++) x[i] = ldexpf(x[i], -less);
    code(t, x, NULL, N, search, y);
    for (int i = 0; i < N; i++) {
        double d = (double)y[i] - (double)x[i];
        e += d * d;
        s += (double)x[i] * (double)x[i];
    }
    return sqrt(e / s);
}

/* Checks weights whose scale, divided by the largest integer, rounds to zero in f16. With d = 2^-24
 * their scales are 3 or more times d, so they are off by at most a sixth; that raises the error by
 * less than a half. */
static void test_small_scales(void) {
    static const struct {
        enum qtype type;
        int less;
    } row[] = {{QT_Q2_K, 17},   {QT_Q3_K, 15},    {QT_Q4_K, 13},   {QT_Q5_K, 13},  {QT_Q6_K, 10},
               {QT_IQ4_XS, 10}, {QT_IQ2_XXS, 14}, {QT_IQ2_XS, 14}, {QT_IQ2_S, 14}, {QT_IQ3_XXS, 13},
               {QT_IQ3_S, 13},  {QT_IQ1_S, 17},   {QT_IQ1_M, 17}};
    for (size_t t = 0; t < sizeof row / sizeof row[0]; t++)
        for (int m = 1; m < 3; m++) {
            const double plain = error_at(row[t].type, modes[m], 0),
                         small = error_at(row[t].type, modes[m], row[t].less);
            if (!(small < 1.5 * plain))
                CHECK_FAIL("%s search %d: error %g, of larger weights %g", qtype_name(row[t].type),
                           m, small, plain);
        }
}

/* Checks that blocks of 32 hold multiples of 2^-25 up to half a step of d = 2^-24, and MXFP4, whose
 * scales reach 2^-127, smaller ones. MXFP4's top levels are 4 and 6, and the conventional exponent
 * places the largest weight below 8. */
static void test_small_blocks(void) {
    static const enum qtype types[] = {QT_Q4_0, QT_Q4_1, QT_Q5_0, QT_Q5_1, QT_Q8_0};
    float x[32], y[32];
    for (int m = 0; m < 3; m++) {
        for (int i = 0; i < 32; i++) x[i] = (float)(i % 15 - 7) * 0x1p-25f;
        for (size_t t = 0; t < sizeof types / sizeof types[0] && m > 0; t++) {
            code(types[t], x, NULL, 32, modes[m], y);
            for (int i = 0; i < 32; i++) CHECK(fabsf(y[i] - x[i]) <= 0x1p-25f);
        }
        for (int k = 0; k < 2; k++) {
            const float unit = k ? 1e-35f : 1e-9f;
            for (int i = 0; i < 32; i++) x[i] = (float)(i - 16) * unit;
            code(QT_MXFP4, x, NULL, 32, modes[m], y);
            for (int i = 0; i < 32; i++) CHECK(fabsf(y[i] - x[i]) <= 4 * unit);
        }
    }
}

static void test_huge(void) {
    float x[QK], y[QK];
    for (int t = 1; t < N_ALL; t++)
        for (int m = 0; m < 3; m++)
            for (int k = 0; k < 3; k++) {
                static const float size[3] = {7e4f, 1e9f, 3.4e38f};
                for (int i = 0; i < QK; i++)
                    x[i] = (float)(i % 3 - 1) * size[k] * ((float)(i % 7) / 7.0f);
                code(all[t], x, NULL, QK, modes[m], y);
                CHECK(all_finite(y, QK));
                for (int i = 0; i < QK; i++)
                    CHECK(x[i] * y[i] >= 0 || fabsf(y[i]) < 0.5f * size[k]);
            }
}

/* Checks that blocks are valid even if products of weights and importance overflow f32. */
static void test_huge_importance(void) {
    float x[QK], y[QK], imp[QK];
    for (int i = 0; i < QK; i++) imp[i] = i % 5 ? 3e38f : 1e-38f;
    for (int t = 1; t < N_ALL + N_COARSE; t++)
        for (int m = 0; m < 3; m++)
            for (int k = 0; k < 3; k++) {
                static const float size[3] = {1, 7e4f, 3.4e38f};
                enum qtype type = t < N_ALL ? all[t] : coarse[t - N_ALL];
                for (int i = 0; i < QK; i++)
                    x[i] = (float)(i % 3 - 1) * size[k] * ((float)(i % 7) / 7.0f);
                code(type, x, imp, QK, modes[m], y);
                CHECK(all_finite(y, QK));
            }
}

static void test_odd_importance(void) {
    float x[QK], y[QK], z[QK], imp[QK];
    struct rng r;
    rng_seed(&r, 3);
    fill(&r, x, QK, 0);
    for (int t = 3; t < N_ALL; t++)
        for (int m = 0; m < 3; m++) {
            double e = 0, s = 0;
            memset(imp, 0, sizeof imp); /* no importance at all: the block must still be sane */
            code(all[t], x, imp, QK, modes[m], y);
            for (int i = 0; i < QK; i++) {
                double d = (double)y[i] - (double)x[i];
                e += d * d;
                s += (double)x[i] * (double)x[i];
            }
            CHECK(e < 0.1 * s);
            for (int i = 0; i < QK; i++) imp[i] = 1e-30f * (float)(1 + i % 5);
            code(all[t], x, imp, QK, modes[m], y);
            for (int i = 0; i < QK; i++) imp[i] *= 0x1p100f; /* a power of two changes nothing */
            code(all[t], x, imp, QK, modes[m], z);
            CHECK(memcmp(y, z, sizeof y) == 0);
            for (int i = 0; i < QK; i++)
                imp[i] = i == 77 ? 3e38f : 0; /* one column has all the importance */
            code(all[t], x, imp, QK, modes[m], y);
            CHECK(all_finite(y, QK));
            if (!(fabsf(y[77] - x[77]) < 0.02f * fabsf(x[77])) && modes[m] != SEARCH_CONVENTIONAL)
                CHECK_FAIL("%s search %d: %g became %g", qtype_name(all[t]), m, (double)x[77],
                           (double)y[77]);
        }
}

/* Tests constant blocks, blocks with one outlier, and blocks of one sign. */
static void test_shapes_of_blocks(void) {
    float x[QK], y[QK];
    for (int t = 3; t < N_ALL; t++)
        for (int m = 0; m < 3; m++) {
            for (int i = 0; i < QK; i++) x[i] = 0.75f;
            code(all[t], x, NULL, QK, modes[m], y);
            for (int i = 0; i < QK; i++) CHECK_CLOSE(y[i], 0.75, 0.012);
            for (int i = 0; i < QK; i++) x[i] = -0.75f;
            code(all[t], x, NULL, QK, modes[m], y);
            for (int i = 0; i < QK; i++) CHECK_CLOSE(y[i], -0.75, 0.012);
            memset(x, 0, sizeof x);
            x[200] = -3;
            code(all[t], x, NULL, QK, modes[m], y);
            CHECK_CLOSE(y[200], -3, 0.05);
            CHECK(y[0] == 0);
        }
}

static void test_table(void) {
    for (int t = 0; t < N_ALL; t++) CHECK(enc_find(all[t]) && enc_find(all[t])->type == all[t]);
    for (int t = 0; t < N_COARSE; t++)
        CHECK(enc_find(coarse[t]) && enc_find(coarse[t])->type == coarse[t]);
    CHECK(enc_find(QT_Q8_K) == NULL);
    CHECK(enc_find((enum qtype)999) == NULL);
}

int main(void) {
    kern_init(&ref, KERN_REF);
    RUN(test_table);
    RUN(test_error_levels);
    RUN(test_never_worse_than_conventional);
    RUN(test_exact_values);
    RUN(test_scales_are_rounded_to_f16);
    RUN(test_zeros_and_tiny);
    RUN(test_small_scales);
    RUN(test_small_blocks);
    RUN(test_huge);
    RUN(test_huge_importance);
    RUN(test_odd_importance);
    RUN(test_shapes_of_blocks);
    RUN(test_coarse_blocks);
    RUN(test_round_trip);
    RUN(test_grid_choice_is_exact);
    RUN(test_iq1_choice_is_exact);
    RUN(test_grid_balance);
    RUN(test_same_bytes_without_vectors);
    RUN(test_same_bytes_with_every_instruction_set);
    return check_done();
}
