// SPDX-License-Identifier: MIT
/* tests/kern/cuda_weights.c - the CUDA kernels that read weights, compared with kernels/ref: `make
 * test` runs this under the CPU emulation, in several thread orders, `make check-cuda` on the
 * device.
 *
 * Decoded rows must have ref's bits. A product is compared with a sum in double over ref's weights;
 * its error is that of an f32 sum of n terms in unknown order: n + 8 roundings of 2^-24 of the sum
 * of magnitudes bound any order. (A gated unit and a weighted sum have bounds of their own, below.)
 * Outputs start as NaN and are followed by guards. */
#include "base/mem.h"
#include "base/fp.h"
#include "base/rng.h"
#include "kernels/bench.h"
#include "kernels/cuda/cuda.h"
#include "tests/check.h"
#include "tests/kern/cuda_dev.h"

static struct kern ref;
static struct rng rng;
static unsigned order;

/* A stack of random matrices, on both sides. */
struct mat {
    struct cu_weight w;
    uint8_t *host;
    float *dec;  /* [mats][rows][k], ref's weights */
    float *base; /* the same with all codes 0: only the minimum (0 if the type has none) */
};
static struct mat mat_new(struct dev *d, enum qtype t, int64_t k, int64_t rows, int64_t mats) {
    struct mat m = {.w = {t, k, rows, mats, qtype_row_bytes(t, k), 0, NULL, NULL}};
    const int64_t n_blocks = k / qtype_info(t)->block_elems * rows * mats;
    const size_t n = (size_t)(n_blocks * qtype_info(t)->block_bytes);
    m.w.mat_bytes = m.w.row_bytes * (uint64_t)rows;
    m.host = malloc(n);
    m.dec = malloc((size_t)(k * rows * mats) * sizeof *m.dec);
    kern_random_blocks(t, &rng, m.host, n_blocks);
    ref.op[t].decode(m.host, m.dec, k * rows * mats);
    m.base = calloc((size_t)(k * rows * mats), sizeof *m.base);
    const size_t codes = t == QT_Q4_1   ? offsetof(struct blk_Q4_1, qs)
                         : t == QT_Q5_1 ? offsetof(struct blk_Q5_1, qh)
                         : t == QT_Q2_K || t == QT_Q4_K || t == QT_Q5_K ? 16
                                                                        : 0;
    if (codes) { /* from there on */
        uint8_t *z = malloc(n);
        memcpy(z, m.host, n);
        const size_t size = (size_t)qtype_info(t)->block_bytes;
        for (size_t b = 0; b < n; b += size)
            memset(z + b + codes, 0,
                   t == QT_Q2_K ? sizeof(((struct blk_Q2_K *)0)->qs) : size - codes);
        ref.op[t].decode(z, m.base, k * rows * mats);
        free(z);
    }
    m.w.data = dev_put(d, m.host, n);
    return m;
}
static void mat_free(struct mat *m) {
    free(m->host);
    free(m->dec);
    free(m->base);
}
static float *normals(int64_t n) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = rng_normal(&rng);
    return x;
}
/* Quantizes activations as the fast path does: 8 bits per 32, nearest, ties to even. */
static void round8(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 32) {
        float top = 0;
        for (int64_t l = i; l < i + 32; l++) top = fmaxf(top, fabsf(x[l]));
        const float d = top / 127.0f, inv = d > 0 ? 1.0f / d : 0;
        for (int64_t l = i; l < i + 32; l++) x[l] = d * rintf(x[l] * inv);
    }
}
static void mat_pack(struct dev *d, struct mat *m) {
    struct err e;
    m->w.packed = dev_new(d, (size_t)cu_packed_bytes(&m->w));
    CHECK_OK(cu_pack_weight(d->s, &m->w, &e));
}
/* A path of the launchers: what it makes of weights and activations, which the test then does as
 * well, and its roundings, each at most 2^-24 of the sum of magnitudes.
 *   exact: nothing is rounded; one rounding per weight, and 8 for lanes.
 *   8 bits: activations; integers are exact within 32 weights, so one per 32, and 32 for scales,
 *     lanes, warps and ref's own; codes and minima are summed apart, so their magnitudes count
 * apart (dot64). bf16: weights and activations; products are exact; tensor cores may cut a sum
 * where others round: two per weight, and per part of a weight that is several bf16 values. */
enum mode { EXACT, BITS8, BF16 };
struct path {
    enum mode mode;
    double eps;
    bool plain; /* weights in the file's order */
};
static struct path path(enum mode mode, int64_t k) {
    const double n = mode == EXACT   ? (double)k + 8
                     : mode == BITS8 ? (double)k / 32 + 32
                                     : 2.0 * (double)k + 16;
    return (struct path){mode, n * 0x1p-24, false};
}
static bool is_float(enum qtype t) {
    return (qtype_info(t)->flags & QF_FLOAT) != 0;
}
static struct path path_plain(enum mode mode, enum qtype t, int64_t k) {
    struct path p = path(mode, t == QT_F32 ? 3 * k : t == QT_F16 ? 2 * k : k);
    p.plain = true;
    return p;
}
static void round16(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = fp_bf16_to_f32(fp_f32_to_bf16(x[i]));
}
static void round_act(struct path p, float *x, int64_t n) {
    if (p.mode == BITS8) round8(x, n);
    if (p.mode == BF16) round16(x, n);
}
/* Packs, leaving only the packed copy, if the path uses it and the type supports it. */
static void mat_for(struct dev *d, struct path p, struct mat *m) {
    if (p.mode == EXACT) return;
    if (!p.plain && cu_packed_bytes(&m->w)) {
        mat_pack(d, m);
        m->w.data = NULL;
    }
    if (p.mode == BF16 && !is_float(m->w.type)) round16(m->dec, m->w.k * m->w.rows * m->w.mats);
}
static double dot64(const struct mat *m, int64_t row, const float *x, double *mag) {
    const float *w = m->dec + row * m->w.k, *base = m->base + row * m->w.k;
    double s = 0;
    *mag = 0;
    for (int64_t i = 0; i < m->w.k; i++) {
        s += (double)w[i] * (double)x[i];
        *mag += (fabs((double)w[i]) + 2 * fabs((double)base[i])) * fabs((double)x[i]);
    }
    return s;
}
static void near_(const char *what, enum qtype t, int64_t i, double got, double want, double tol) {
    if (!(fabs(got - want) <= tol))
        CHECK_FAIL("%s %s value %" PRId64 ": %.9g, expected %.9g within %.3g", what, qtype_name(t),
                   i, got, want, tol);
}
static int64_t short_row(enum qtype t) { /* a few blocks; a multiple of 32 */
    const int64_t e = qtype_info(t)->block_elems;
    return e == 1 ? 75 : e < 256 ? 3 * e : 2 * e;
}
#define EACH_TYPE(t)                                                                               \
    for (int t##_ = 0; t##_ < QT_COUNT; t##_++)                                                    \
        for (enum qtype t = (enum qtype)t##_; t != QT_COUNT && kern_has(&ref, t); t = QT_COUNT)

/* Returns whether fast products use the type in file order: a third of these types per thread
 * order, or all on a device. The others are packed for any row length. */
static bool is_plain(enum qtype t) {
    return t != QT_Q2_K && t != QT_Q3_K && t != QT_Q4_K && t != QT_Q5_K && t != QT_Q6_K &&
           t != QT_IQ4_XS;
}
#define EACH_TURN(t)                                                                               \
    EACH_TYPE(t)                                                                                   \
    if (is_plain(t) && (!emu_shuffle || (unsigned)t % 3 == order))

static void test_types_are_refs(struct dev *d) {
    (void)d;
    for (int t = 0; t < QT_COUNT; t++)
        CHECK(cu_has_type((enum qtype)t) == kern_has(&ref, (enum qtype)t));
}

/* Tests random blocks, then blocks of extreme codes with halves of all magnitudes. */
static void test_decode(struct dev *d) {
    enum { ROWS = 7, PICK = 3 };
    const int32_t ids[PICK] = {5, 0, 6};
    int32_t *d_ids = dev_put(d, ids, sizeof ids);
    EACH_TYPE(t) {
        const int64_t k = short_row(t), size = qtype_info(t)->block_bytes;
        struct mat m = mat_new(d, t, k, ROWS, 1);
        const int halves = kern_n_halves(t);
        if (size >
            4) { /* rows 4.. : all bits set, or clear, with the largest and smallest scales */
            for (int64_t b = 4 * (int64_t)m.w.row_bytes; b < ROWS * (int64_t)m.w.row_bytes;
                 b += size) {
                const int how = (int)(rng_u64(&rng) % 3);
                memset(m.host + b, how ? 0xff : 0, (size_t)size);
                if (t == QT_MXFP4) m.host[b] = how == 1 ? 254 : (uint8_t)how;
                for (int f = 0; f < halves; f++) {
                    const uint16_t h = how == 0 ? 1 : how == 1 ? 0xfbff : 0x3555;
                    kern_set_half(t, m.host + b, f, h);
                }
            }
            ref.op[t].decode(m.host, m.dec, k * ROWS);
            struct err e;
            CHECK_OK(
                cu_upload(d->s, (void *)(uintptr_t)m.w.data, m.host, m.w.row_bytes * ROWS, &e));
        }
        float *out = dev_new(d, (size_t)(ROWS * k) * 4), *got = malloc((size_t)(ROWS * k) * 4);
        struct err e;
        CHECK_OK(cu_decode_rows(d->s, t, m.w.data, k, NULL, ROWS, 1, out, k, &e));
        dev_get(d, got, out, (size_t)(ROWS * k) * 4);
        if (memcmp(got, m.dec, (size_t)(ROWS * k) * 4) != 0)
            CHECK_FAIL("%s: decoded weights differ from ref", qtype_name(t));
        CHECK_OK(cu_decode_rows(d->s, t, m.w.data, k, d_ids, PICK, 0.5f, out, k, &e));
        dev_get(d, got, out, (size_t)(PICK * k) * 4);
        for (int64_t i = 0; i < PICK * k; i++)
            if (got[i] != 0.5f * m.dec[ids[i / k] * k + i % k]) {
                CHECK_FAIL("%s: gathered row %d differs from ref", qtype_name(t), ids[i / k]);
                break;
            }
        free(got);
        mat_free(&m);
    }
}

/* Checks that packed weights have the bits of ref after unpacking. */
static void check_pack(struct dev *d, enum qtype t, int64_t k, int64_t rows, int64_t mats) {
    struct mat m = mat_new(d, t, k, rows, mats);
    const size_t n = (size_t)(k * rows * mats);
    float *out = dev_new(d, n * 4), *got = malloc(n * 4);
    struct err e;
    m.w.packed = dev_new(d, (size_t)cu_packed_bytes(&m.w));
    CHECK_OK(cu_pack_weight(d->s, &m.w, &e));
    CHECK_OK(cu_unpack_weight(d->s, &m.w, out, &e));
    dev_get(d, got, out, n * 4);
    if (memcmp(got, m.dec, n * 4) != 0)
        CHECK_FAIL("%s: packed weights differ from ref", qtype_name(t));
    free(got);
    mat_free(&m);
}
static const enum qtype packed_types[] = {QT_Q4_K, QT_Q5_K,   QT_Q6_K, QT_Q3_K,
                                          QT_Q2_K, QT_IQ4_XS, QT_Q8_0};
static void test_pack(struct dev *d) {
    for (size_t i = 0; i < COUNT_OF(packed_types); i++) {
        check_pack(d, packed_types[i], 256, 16, 1);
        check_pack(d, packed_types[i], 768, 37, 3);
    }
    const struct cu_weight w = {.type = QT_Q4_0, .k = 256, .rows = 1, .mats = 1};
    CHECK_EQ_I64(cu_packed_bytes(&w), 0);
}

static void check_matmul(struct dev *d, enum qtype t, int64_t k, int64_t rows, int64_t n_tok,
                         struct path p_) {
    struct mat m = mat_new(d, t, k, rows, 1);
    const int64_t ldx = k + 4, ldy = rows + 3;
    float *x = normals(n_tok * ldx), *y = malloc((size_t)(n_tok * ldy) * 4);
    float *dx = dev_put(d, x, (size_t)(n_tok * ldx) * 4),
          *dy = dev_new(d, (size_t)(n_tok * ldy) * 4);
    struct err e;
    mat_for(d, p_, &m);
    for (int64_t i = 0; i < n_tok; i++) round_act(p_, x + i * ldx, k);
    CHECK_OK(cu_matmul(d->s, &m.w, dx, ldx, n_tok, dy, ldy, p_.mode == EXACT, &e));
    dev_get(d, y, dy, (size_t)(n_tok * ldy) * 4);
    for (int64_t i = 0; i < n_tok * ldy; i++) {
        const int64_t r = i % ldy;
        double mag = 0;
        if (r < rows) {
            const double want = dot64(&m, r, x + i / ldy * ldx, &mag);
            near_("matmul", t, i, (double)y[i], want, p_.eps * mag);
        } else
            CHECK(isnan(y[i]));
    }
    free(x);
    free(y);
    mat_free(&m);
}

static void test_matmul(struct dev *d) {
    static const int64_t tokens[] = {1, 2, 8, 19};
    EACH_TYPE(t)
    for (size_t i = 0; i < COUNT_OF(tokens); i++)
        check_matmul(d, t, short_row(t), 5, tokens[i], path(EXACT, short_row(t)));
    check_matmul(d, QT_Q4_K, 1280, 33, 3, path(EXACT, 1280));
    check_matmul(d, QT_F32, 2051, 9, 9, path(EXACT, 2051));
}

static void test_gemv(struct dev *d) {
    for (size_t i = 0; i < COUNT_OF(packed_types); i++) {
        check_matmul(d, packed_types[i], 256, 16, 1, path(BITS8, 256));
        check_matmul(d, packed_types[i], 1280, 35, 3, path(BITS8, 1280));
        check_matmul(d, packed_types[i], 2560, 17, 1, path(BITS8, 2560));
    }
}

/* Tests file order: four, two and one row per warp step, and short steps at the ends of rows. */
static void test_gemv_plain(struct dev *d) {
    EACH_TURN(t) {
        const bool super = qtype_info(t)->block_elems == 256;
        const int64_t k[] = {super ? 256 : 128, super ? 512 : 384, super ? 1280 : 1152};
        if (is_float(t)) continue; /* are exact */
        check_matmul(d, t, k[0], 6, 1, path_plain(BITS8, t, k[0]));
        check_matmul(d, t, k[1], 35, 2, path_plain(BITS8, t, k[1]));
        check_matmul(d, t, k[2], 9, 3, path_plain(BITS8, t, k[2]));
    }
    check_matmul(d, QT_IQ3_S, 8448, 3, 1, path_plain(BITS8, QT_IQ3_S, 8448)); /* around the ring */
}

/* Gives each token a single 1, so that the products are the weights themselves. They must equal
 * ref's, rounded to bf16, bit for bit (except for the sign of 0). */
static void check_operand(struct dev *d, enum qtype t, int k, struct path p_) {
    enum { MAX = 256, ROWS = 18 };
    struct mat m = mat_new(d, t, k, ROWS, 1);
    float *x = calloc(MAX * MAX, sizeof *x), *y = malloc(MAX * ROWS * sizeof *y);
    for (int i = 0; i < k; i++) x[i * k + i] = 1;
    float *dx = dev_put(d, x, (size_t)(k * k) * 4), *dy = dev_new(d, (size_t)(k * ROWS) * 4);
    struct err e;
    mat_for(d, p_, &m);
    CHECK_OK(cu_matmul(d->s, &m.w, dx, k, k, dy, ROWS, false, &e));
    dev_get(d, y, dy, (size_t)(k * ROWS) * 4);
    for (int i = 0; i < k * ROWS; i++)
        near_("operand", t, i, (double)y[i], (double)m.dec[i % ROWS * k + i / ROWS], 0);
    free(x);
    free(y);
    mat_free(&m);
}

/* Checks that two results have the same bits. */
static void same_bits(struct dev *d, const char *what, const void *got, const void *want,
                      int64_t n) {
    char *b = xcalloc(2, (size_t)n);
    dev_get(d, b, got, (size_t)n);
    dev_get(d, b + n, want, (size_t)n);
    if (memcmp(b, b + n, (size_t)n) != 0) CHECK_FAIL("%s: other bits", what);
    free(b);
}

/* Checks that the results of n tokens do not depend on the other ones of `many`. */
static void check_company(struct dev *d, enum qtype t, int64_t k, int64_t rows, int64_t n,
                          int64_t many, enum mode mode) {
    struct mat m = mat_new(d, t, k, rows, 1);
    const size_t size = (size_t)(n * rows) * 4;
    float *x = normals(many * k), *dx = dev_put(d, x, (size_t)(many * k) * 4);
    float *few = dev_new(d, size), *all = dev_new(d, (size_t)(many * rows) * 4);
    struct err e;
    mat_for(d, path(mode, k), &m);
    CHECK_OK(cu_matmul(d->s, &m.w, dx, k, n, few, rows, mode == EXACT, &e));
    CHECK_OK(cu_matmul(d->s, &m.w, dx, k, many, all, rows, mode == EXACT, &e));
    same_bits(d, qtype_name(t), all, few, (int64_t)size);
    if (mode == BITS8 && m.w.data) { /* the same weights as a router's */
        CHECK_OK(cu_router(d->s, &m.w, dx, n, few, true, &e));
        CHECK_OK(cu_router(d->s, &m.w, dx, many, all, true, &e));
        same_bits(d, "router", all, few, (int64_t)size);
    }
    free(x);
    mat_free(&m);
}
/* The same in the class of many tokens. */
static void check_alone(struct dev *d, enum qtype t, enum mode mode) {
    check_company(d, t, 256, 16, mode == EXACT ? 4 : CU_FEW + 1, 70, mode);
}
/* Tests the class of few tokens: enough rows to make a warp take more columns, weights that are
 * exact among rounded ones, experts without a gate. */
static void test_company(struct dev *d) {
    enum { K = 1280, ROWS = 2176, USED = 2 };
    int32_t ids[CU_FEW * USED] = {0};
    if (emu_shuffle && order) return; /* takes long; sums do not depend on the order of threads */
    check_company(d, QT_Q4_K, K, ROWS, 1, CU_FEW, BITS8);
    check_company(d, QT_Q8_0, 1024, 4096, 1, CU_FEW, BITS8);
    check_company(d, QT_Q8_0, 96, 40, 1, CU_FEW, BITS8);
    check_company(d, QT_BF16, 96, 40, 1, CU_FEW, BITS8);
    check_company(d, QT_BF16, 64, 600, 1, CU_FEW, BITS8);
    check_company(d, QT_F16, 256, 40, 1, 3, EXACT);
    struct mat m = mat_new(d, QT_Q4_K, K, ROWS, 1);
    float *x = normals(CU_FEW * K), *dx = dev_put(d, x, (size_t)(CU_FEW * K) * 4);
    int32_t *d_ids = dev_put(d, ids, sizeof ids);
    float *one = dev_new(d, USED * ROWS * 4), *all = dev_new(d, CU_FEW * USED * ROWS * 4);
    struct err e;
    mat_for(d, path(BITS8, K), &m);
    CHECK_OK(cu_moe_rows(d->s, &m.w, dx, K, 1, d_ids, USED, one, false, &e));
    CHECK_OK(cu_moe_rows(d->s, &m.w, dx, K, CU_FEW, d_ids, USED, all, false, &e));
    same_bits(d, "experts", all, one, USED * ROWS * 4);
    free(x);
    mat_free(&m);
}

static void test_gemm(struct dev *d) {
    check_alone(d, QT_Q5_K, BF16);
    /* only once: mma's operand uses the same code, its emulation is slow, and thread order does not
     * affect it */
    if (!emu_shuffle || (cu_uses_wgmma(d->s) && order == 0))
        for (size_t i = 0; i < COUNT_OF(packed_types); i++)
            check_operand(d, packed_types[i], 256, path(BF16, 256));
    for (size_t i = 0; i < COUNT_OF(packed_types); i++) {
        check_matmul(d, packed_types[i], 256, 16, 9, path(BF16, 256));
        check_matmul(d, packed_types[i], 512, i ? 21 : 131, i ? 11 : 67, path(BF16, 512));
    }
}

/* Returns a multiple of 32 that is not a multiple of 64, if the block size allows it. */
static int64_t odd_row(enum qtype t) {
    return qtype_info(t)->block_elems <= 32 ? 96 : qtype_info(t)->block_elems;
}
static void test_gemm_any(struct dev *d) {
    EACH_TURN(t) {
        const int64_t k = odd_row(t);
        const int block = qtype_info(t)->block_elems;
        check_operand(d, t, block > 64 ? block : 64, path_plain(BF16, t, k));
        check_matmul(d, t, k, 21, 11, path_plain(BF16, t, k));
    }
    check_matmul(d, QT_IQ2_XXS, 768, 141, 27, path_plain(BF16, QT_IQ2_XXS, 768));
    check_matmul(d, QT_BF16, 352, 16, 131, path_plain(BF16, QT_BF16, 352)); /* two tasks */
}

/* Returns one of n experts. With many tokens, the first expert gets none and the second gets
 * most. */
static int32_t expert_of(int64_t n_tok, int n) {
    return (int32_t)(n_tok <= CU_FEW ? rng_u64(&rng) % (unsigned)n : 1 + (rng_u64(&rng) % 8 == 0));
}

static double gate64(double v, bool gelu) {
    return gelu ? 0.5 * v * (1 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)))
                : v / (1 + exp(-v));
}

/* act(g) * u with |act'| <= 1.13: errors of g and u carried over, plus the function's own (expf,
 * tanhf: 2 ulp; cancellation in 1 + tanh is absolute) counted as 16 roundings of |act| + 1. */
static void check_glu_rows(struct dev *d, enum qtype t, enum qtype tu, int64_t k, int64_t f,
                           bool fused, bool gelu, int64_t n_used, int64_t tok, struct path p_) {
    enum { E = 3, MAX = 150, USED = 4, MAX_F = 80 };
    struct mat gate = mat_new(d, t, k, fused ? 2 * f : f, E), up = mat_new(d, tu, k, f, E);
    static int32_t ids[MAX * USED];
    static float h[MAX * USED * MAX_F];
    float *x = normals(tok * k);
    for (int i = 0; i < tok * n_used; i++) ids[i] = expert_of(tok, E);
    int32_t *di = n_used > 1 ? dev_put(d, ids, sizeof ids) : NULL;
    float *dx = dev_put(d, x, (size_t)(tok * k) * 4), *dh = dev_new(d, sizeof h);
    struct err e;
    mat_for(d, p_, &gate);
    if (!fused) mat_for(d, p_, &up);
    round_act(p_, x, tok * k);
    CHECK_OK(cu_glu(d->s, &gate.w, fused ? NULL : &up.w, dx, k, tok, di, n_used, gelu, dh,
                    p_.mode == EXACT, &e));
    dev_get(d, h, dh, (size_t)(tok * n_used * f) * 4);
    for (int64_t i = 0; i < tok * n_used * f; i++) {
        const int64_t pair = i / f, r = i % f, ex = di ? ids[pair] : 0;
        const float *xt = x + pair / n_used * k;
        double mg, mu;
        const double g = dot64(&gate, ex * gate.w.rows + r, xt, &mg);
        const double u =
            fused ? dot64(&gate, ex * 2 * f + f + r, xt, &mu) : dot64(&up, ex * f + r, xt, &mu);
        const double a = gate64(g, gelu), eps = p_.eps;
        near_("glu", t, i, (double)h[i], a * u,
              1.13 * eps * mg * (fabs(u) + eps * mu) + eps * mu * fabs(a) +
                  16 * 0x1p-24 * (fabs(a) + 1) * fabs(u));
    }
    free(x);
    mat_free(&gate);
    mat_free(&up);
}
static void check_glu(struct dev *d, enum qtype t, int64_t k, bool fused, bool gelu, int64_t n_used,
                      int64_t tok, struct path p_) {
    check_glu_rows(d, t, t, k, 32, fused, gelu, n_used, tok, p_);
}

static void test_glu(struct dev *d) {
    EACH_TYPE(t) check_glu(d, t, short_row(t), false, false, 4, 2, path(EXACT, short_row(t)));
    check_glu(d, QT_Q8_0, 96, false, true, 1, 2, path(EXACT, 96));
    check_glu(d, QT_Q4_K, 256, true, true, 2, 2, path(EXACT, 256));
    check_glu(d, QT_BF16, 64, true, false, 1, 2, path(EXACT, 64));
    for (size_t i = 0; i < COUNT_OF(packed_types); i++)
        check_glu(d, packed_types[i], 512, i % 2, i % 3 == 0, i == 5 ? 1 : 4, 2, path(BITS8, 512));
    check_glu(d, QT_Q4_K, 256, true, false, 2, 68, path(BF16, 256));
    check_glu(d, QT_Q6_K, 256, false, true, 1, 9, path(BF16, 256));
    EACH_TURN(t) {
        const int64_t k = qtype_info(t)->block_elems < 256 ? 128 : 256;
        check_glu(d, t, odd_row(t), t % 2, t % 3 == 0, 2, 9, path_plain(BF16, t, odd_row(t)));
        if (!is_float(t))
            check_glu(d, t, k, t % 2, t % 3 == 0, t % 5 ? 3 : 1, 2, path_plain(BITS8, t, k));
    }
    /* two types, packed and not; fused, with a number of rows that is not a multiple of 16 */
    check_glu_rows(d, QT_Q4_K, QT_IQ3_S, 256, 32, false, false, 2, 24, path(BF16, 256));
    check_glu_rows(d, QT_BF16, QT_Q8_0, 256, 32, false, false, 1, 70, path(BF16, 256));
    check_glu_rows(d, QT_IQ2_S, QT_IQ2_S, 256, 21, true, false, 2, 24,
                   path_plain(BF16, QT_IQ2_S, 256));
}

static void check_down(struct dev *d, enum qtype t, int64_t f, int64_t tok, struct path p_) {
    enum { D = 19, E = 3, MAX = 50, USED = 4, LDY = D + 2 };
    struct mat m = mat_new(d, t, f, D, E);
    int32_t ids[MAX * USED];
    float *h = normals(tok * USED * f), *p = normals(tok * USED), y[MAX * LDY];
    for (int i = 0; i < tok * USED; i++) ids[i] = expert_of(tok, E);
    int32_t *di = dev_put(d, ids, sizeof ids);
    float *dh = dev_put(d, h, (size_t)(tok * USED * f) * 4),
          *dp = dev_put(d, p, (size_t)(tok * USED) * 4);
    float *dy = dev_new(d, sizeof y);
    struct err e;
    mat_for(d, p_, &m);
    round_act(p_, h, tok * USED * f);
    CHECK_OK(cu_moe_down(d->s, &m.w, dh, tok, di, dp, USED, dy, LDY, p_.mode == EXACT, &e));
    dev_get(d, y, dy, (size_t)(tok * LDY) * 4);
    for (int64_t i = 0; i < tok * LDY; i++) {
        const int64_t r = i % LDY, to = i / LDY;
        double want = 0, mag = 0;
        if (r >= D) {
            CHECK(isnan(y[i]));
            continue;
        }
        for (int u = 0; u < USED; u++) {
            const int64_t pair = to * USED + u;
            double mg;
            want += (double)p[pair] * dot64(&m, ids[pair] * D + r, h + pair * f, &mg);
            mag += fabs((double)p[pair]) * mg;
        }
        near_("down", t, i, (double)y[i], want, (p_.eps + 2 * USED * 0x1p-24) * mag);
    }
    free(h);
    free(p);
    mat_free(&m);
}
/* Tests exact products of many tokens, with more than one task, block of rows and period of raw
 * weights, and with unaligned rows of activations and float weights. */
static void test_gemm_f32(struct dev *d) {
    check_alone(d, QT_Q5_K, EXACT);
    check_alone(d, QT_F16, EXACT);
    EACH_TYPE(t) {
        const int64_t k = short_row(t) * (qtype_info(t)->block_elems == 128 ? 1 : 3);
        if (emu_shuffle && (unsigned)t % 3 != order) continue;
        check_glu_rows(d, t, t, k, 32, t % 2, t % 5 == 0, t % 3 + 1, 21, path(EXACT, k));
        check_down(d, t, k, t % 3 ? 4 : 30, path(EXACT, k));
    }
    check_matmul(d, QT_Q4_K, 512, 141, 75, path(EXACT, 512));
    check_matmul(d, QT_Q6_K, 2304, 70, 33, path(EXACT, 2304));
    check_matmul(d, QT_Q8_0, 1376, 193, 5, path(EXACT, 1376));
    check_matmul(d, QT_BF16, 75, 515, 17, path(EXACT, 75));
    check_matmul(d, QT_F32, 70, 513, 66, path(EXACT, 70));
    check_glu_rows(d, QT_Q4_K, QT_IQ3_S, 256, 32, false, false, 2, 24, path(EXACT, 256));
}

static void test_down(struct dev *d) {
    EACH_TYPE(t) check_down(d, t, short_row(t), 2, path(EXACT, short_row(t)));
    for (size_t i = 0; i < COUNT_OF(packed_types); i++)
        check_down(d, packed_types[i], 512, 2, path(BITS8, 512));
    check_down(d, QT_Q5_K, 256, 25, path(BF16, 256));
    EACH_TURN(t) {
        const int64_t k = qtype_info(t)->block_elems < 256 ? 384 : 768;
        check_down(d, t, odd_row(t), 11, path_plain(BF16, t, odd_row(t)));
        if (!is_float(t)) check_down(d, t, k, 2, path_plain(BITS8, t, k));
    }
}

/* Tests Hopper's products of many tokens with the same bounds: every width of the product, more
 * than one task, a part of a warpgroup, several blocks of rows, and rows of k that wrap the
 * rings. */
static void test_wgmma(struct dev *d) {
    static const int64_t tokens[] = {16, 17, 33, 65, 97, 129, 300};
    struct err e;
    dev_small(d, false);
    CHECK_OK(cu_use_wgmma(d->s, true, &e));
    CHECK(cu_uses_wgmma(d->s) || !emu_shuffle);
    if (cu_uses_wgmma(d->s)) {
        test_gemm(d);
        for (size_t i = 0; i < COUNT_OF(tokens); i++)
            check_matmul(d, packed_types[i % COUNT_OF(packed_types)], 256, 7, tokens[i],
                         path(BF16, 256));
        check_matmul(d, QT_Q8_0, 256, 100, 260, path(BF16, 256)); /* 2 warpgroups */
        for (size_t i = 0; i < COUNT_OF(packed_types); i++) {
            check_glu(d, packed_types[i], 256, i % 2, i % 3 == 0, 2, i ? 24 : 150, path(BF16, 256));
            check_down(d, packed_types[i], 512, i ? 11 : 50, path(BF16, 512));
        }
        check_glu_rows(d, QT_Q6_K, QT_Q6_K, 256, 80, false, true, 1, 9, path(BF16, 256));
        /* 4 warpgroups, in orders in which products are late and copies are not */
        if (order == 1 || !emu_shuffle) {
            check_matmul(d, QT_Q6_K, 1280, 769, 9, path(BF16, 1280));
            check_glu_rows(d, QT_Q3_K, QT_Q3_K, 1024, 80, true, false, 4, 33, path(BF16, 1024));
        }
    } else
        printf("wgmma: not on this device, or not in this build\n");
    CHECK_OK(cu_use_wgmma(d->s, false, &e));
    CHECK(!cu_uses_wgmma(d->s));
}

/* Checks that products of all kinds in one launch, with a choice of experts at its end, have the
 * same bits as in separate launches, which the tests above compare with ref. */
static void test_products(struct dev *d) {
    enum { K = 512, F = 64, EXPERTS = 40, ROWS = 37 };
    struct err e;
    struct mat m[] = {mat_new(d, QT_Q4_K, K, ROWS, 1),   mat_new(d, QT_Q6_K, K, 130, 1),
                      mat_new(d, QT_Q5_K, K, F, 1),      mat_new(d, QT_Q5_K, K, F, 1),
                      mat_new(d, QT_F32, K, EXPERTS, 1), mat_new(d, QT_BF16, K, 3, 1)};
    for (int i = 0; i < 4; i++) mat_for(d, path(BITS8, K), &m[i]);
    float *x = normals(K), *dx = dev_put(d, x, K * 4);
    void *xq = dev_new(d, CU_ACT_BYTES(K)), *hq = dev_new(d, CU_ACT_BYTES(F)), *want_q;
    float *y[6], *want[6];
    want_q = dev_new(d, CU_ACT_BYTES(F));
    for (int i = 0; i < 6; i++) {
        y[i] = dev_new(d, (size_t)m[i].w.rows * 4);
        want[i] = dev_new(d, (size_t)m[i].w.rows * 4);
    }
    CHECK_OK(cu_quantize(d->s, dx, K, K, 1, xq, &e));
    struct cu_products p = {.n = 5};
    for (int i = 0, at = 0; i < 6; i++) {
        if (i == 3) continue; /* the second half of a gated unit */
        p.part[at++] = (struct cu_term){.w = &m[i].w,
                                        .up = i == 2 ? &m[3].w : NULL,
                                        .gated = i == 2,
                                        .exact = i > 3,
                                        .x = i > 3 ? (void *)dx : xq,
                                        .n_in = 1,
                                        .x_div = 1,
                                        .n_sum = 1,
                                        .y = y[i],
                                        .ldy = m[i].w.rows,
                                        .yq = i == 2 ? hq : NULL};
    }
    CHECK_OK(cu_products(d->s, &p, &e));
    for (int i = 0; i < 6; i++) {
        if (i == 3) continue;
        if (i == 2)
            CHECK_OK(cu_glu(d->s, &m[2].w, &m[3].w, dx, K, 1, NULL, 1, false, want[2], false, &e));
        else
            CHECK_OK(cu_matmul(d->s, &m[i].w, dx, K, 1, want[i], m[i].w.rows, i > 3, &e));
        same_bits(d, qtype_name(m[i].w.type), y[i], want[i], m[i].w.rows * 4);
    }
    CHECK_OK(cu_quantize(d->s, want[2], F, F, 1, want_q, &e));
    same_bits(d, "quantized output", hq, want_q, CU_ACT_BYTES(F));

    /* the quantized copy written by a norm */
    enum { N = 256 };
    float *in = normals(N), *din = dev_put(d, in, N * 4), *normed = dev_new(d, N * 4);
    void *q[2] = {dev_new(d, CU_ACT_BYTES(N)), dev_new(d, CU_ACT_BYTES(N))};
    const struct cu_norm n = {.a = din, .y = normed, .yq = q[0], .n = N, .eps = 1e-6f};
    CHECK_OK(cu_norm_rows(d->s, &n, 1, &e));
    CHECK_OK(cu_quantize(d->s, normed, N, N, 1, q[1], &e));
    same_bits(d, "the copy of a norm", q[0], q[1], CU_ACT_BYTES(N));
    for (int i = 0; i < 6; i++) mat_free(&m[i]);
    free(in);
    free(x);
}

static void test_graph(struct dev *d) {
    enum { K = 64 };
    float x[K] = {0}, y[K];
    void *dx = dev_put(d, x, sizeof x), *dy = dev_new(d, sizeof y);
    struct cu_graph *g = NULL;
    struct err e;
    CHECK_OK(cu_graph_begin(d->s, &e));
    CHECK_OK(cu_decode_rows(d->s, QT_F32, dx, K, NULL, 1, 2, dy, K, &e));
    CHECK_OK(cu_graph_end(d->s, &g, &e));
    for (int round = 1; round < 3; round++) {
        x[7] = (float)round;
        CHECK_OK(cu_upload(d->s, dx, x, sizeof x, &e));
        CHECK_OK(cu_graph_run(d->s, g, &e));
        dev_get(d, y, dy, sizeof y);
        CHECK(y[7] == 2.0f * (float)round && y[0] == 0);
    }
    cu_graph_free(g);
}

static void test_refusals(struct dev *d) {
    struct cu_ctx *c = NULL;
    struct cu_buf *b = NULL;
    struct err e;
    CHECK_ERR(cu_open(&c, 99, &e), ERR_SYS, "no CUDA device 99");
    CHECK_ERR(cu_buf_new(&b, d->c, UINT64_C(1) << 50, "expert weights", &e), ERR_SYS,
              "expert weights: 1073741824.0 MiB of device memory needed");
    float *x = dev_new(d, 4);
    CHECK_ERR(cu_decode_rows(d->s, QT_I32, x, 1, NULL, 1, 1, x, 1, &e), ERR_USAGE, "I32");
    const struct cu_weight w = {QT_Q8_K, 256, 1, 1, 292, 292, x, NULL};
    CHECK_ERR(cu_matmul(d->s, &w, x, 256, 1, x, 1, true, &e), ERR_USAGE, "Q8_K");
}

int main(void) {
    struct dev d;
    kern_init(&ref, KERN_REF);
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(o) {
        dev_small(&d, o == 1);
        rng_seed(&rng, 5);
        order = o;
        RUN_DEV(test_types_are_refs, &d);
        RUN_DEV(test_decode, &d);
        RUN_DEV(test_pack, &d);
        RUN_DEV(test_matmul, &d);
        RUN_DEV(test_gemv, &d);
        RUN_DEV(test_gemv_plain, &d);
        RUN_DEV(test_company, &d);
        RUN_DEV(test_gemm, &d);
        RUN_DEV(test_gemm_any, &d);
        RUN_DEV(test_gemm_f32, &d);
        RUN_DEV(test_glu, &d);
        RUN_DEV(test_down, &d);
        RUN_DEV(test_wgmma, &d);
        RUN_DEV(test_products, &d);
        RUN_DEV(test_graph, &d);
        RUN_DEV(test_refusals, &d);
    }
    dev_close(&d);
    return check_done();
}
