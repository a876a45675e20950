// SPDX-License-Identifier: MIT
/* tests/kern/check.c - checks every kernel of every ISA that this machine supports: weight formats
 * here, operators in check_ops.h. `check --bench` prints rates instead.
 *
 * Weights: random blocks with halves of all sizes, and blocks of extreme codes and scales, in
 * awkward numbers. Inputs are allocated to size, so the address sanitizer sees reads beyond them;
 * outputs have guards. Decode must equal ref bit for bit (see tests/unit/test_blocks.c for why it
 * can). A dot is compared with a sum in double over decoded weights. */
#include "base/bytes.h"
#include "base/fp.h"
#include "kernels/bench.h"
#include "tests/check.h"
#include "tests/kern/check_ops.h"
#include "tests/kern/check_pack.h"

static const int block_counts[] = {1, 2, 3, 7, 8, 9, 17, 33};
enum fill { FILL_SANE, FILL_ANY, FILL_MAX, FILL_MIN, FILL_COUNT };

static void fill_blocks(enum qtype t, struct rng *r, uint8_t *w, int64_t nb, enum fill how) {
    const int64_t size = qtype_info(t)->block_bytes;
    kern_random_blocks(t, r, w, nb);
    const int halves = kern_n_halves(t);
    if (how == FILL_SANE || size <= 4) return;
    for (int64_t b = 0; b < nb; b++, w += size) {
        uint8_t keep[4];
        memcpy(keep, w, 4);
        if (how == FILL_MAX) memset(w, 0xff, (size_t)size);
        if (how == FILL_MIN) memset(w, t == QT_Q8_0 || t == QT_Q6_K ? 0x80 : 0, (size_t)size);
        if (t == QT_MXFP4) w[0] = how == FILL_MIN ? (uint8_t)(b & 1) : (uint8_t)(keep[0] + 60);
        for (int f = 0; f < halves; f++) {
            uint16_t h = (uint16_t)rng_u64(r);
            if ((h >> 10 & 31) == 31) h ^= 0x4000;
            if (how == FILL_MAX) h = b & 1 ? 0xfbff : 0x7bff; /* -+65504 */
            if (how == FILL_MIN) h = 1;                       /* smallest subnormal */
            kern_set_half(t, w, f, h);
        }
    }
}

static void fill_act(const struct kern *ref, enum qtype t, struct rng *r, uint8_t *a, int64_t n,
                     int mode) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = mode == 0 ? rng_normal(r) : mode == 1 ? 1.0f : -1.0f;
    if (mode == 2) x[0] = 1.0f;
    ref->act_quant(t, x, a, n);
    free(x);
}

/* Bytes of the codes that have an offset or a minimum: zeroing them leaves only that term. */
static const struct {
    enum qtype t;
    int from, to;
} code_bytes[] = {{QT_Q4_0, 2, 18},   {QT_Q4_1, 4, 20},   {QT_Q5_0, 2, 22},
                  {QT_Q5_1, 4, 24},   {QT_Q2_K, 16, 80},  {QT_Q3_K, 0, 96},
                  {QT_Q4_K, 16, 144}, {QT_Q5_K, 16, 176}, {QT_Q6_K, 0, 192}};

static float *base_term(const struct kern *ref, enum qtype t, const uint8_t *w, int64_t nb) {
    const struct qtype_info *q = qtype_info(t);
    float *base = calloc((size_t)(nb * q->block_elems), sizeof *base);
    uint8_t *z = malloc((size_t)(nb * q->block_bytes));
    memcpy(z, w, (size_t)(nb * q->block_bytes));
    for (size_t i = 0; i < sizeof code_bytes / sizeof code_bytes[0]; i++)
        if (code_bytes[i].t == t) {
            for (int64_t b = 0; b < nb; b++)
                memset(z + b * q->block_bytes + code_bytes[i].from, 0,
                       (size_t)(code_bytes[i].to - code_bytes[i].from));
            ref->op[t].decode(z, base, nb * q->block_elems);
        }
    free(z);
    return base;
}

/* Activation i as stored, and (Q8_1) what its block's rounded sum adds to the exact one, per
 * element. */
static double act_value(enum qtype p, const uint8_t *a, int64_t i) {
    if (p == QT_F32) return (double)load_f32(a + 4 * i);
    if (p == QT_Q8_K) {
        const uint8_t *b = a + i / QK * 292;
        return (double)load_f32(b) * (int8_t)b[4 + i % QK];
    }
    const uint8_t *b = a + i / 32 * (p == QT_Q8_0 ? 34 : 36);
    return (double)fp_f16_to_f32(load_u16(b)) * (int8_t)b[(p == QT_Q8_0 ? 2 : 4) + i % 32];
}
static double sum_defect(const uint8_t *a, int64_t block) {
    const uint8_t *b = a + block * 36;
    double s = 0;
    for (int i = 0; i < 32; i++) s += act_value(QT_Q8_1, b, i);
    return (double)fp_f16_to_f32(load_u16(b + 2)) - s;
}

/* The error of an f32 dot: each lane rounds once per block (or per 8 weights for float types) on a
 * partial sum of at most `mag`, then a handful of roundings: scales, conversions, decode's own
 * minimum, the sum of lanes. Each is at most 2^-24 relative. The magnitude counts offsets (codes -
 * 8 etc.) as separate terms, because integer lanes hold them apart. */
static void check_dot(const struct kern *ref, const struct kern *k, enum qtype t, const uint8_t *w,
                      const float *dec, int64_t nb, const uint8_t *a) {
    const struct qtype_info *q = qtype_info(t);
    const enum qtype p = kern_dot_partner(t);
    const int64_t n = nb * q->block_elems;
    float *base = base_term(ref, t, w, nb);
    double want = 0, mag = 0;
    for (int64_t i = 0; i < n; i++) {
        const double y = act_value(p, a, i);
        want += (double)dec[i] * y;
        mag += (fabs((double)dec[i]) + 2 * fabs((double)base[i])) * fabs(y);
    }
    if (p == QT_Q8_1)
        for (int64_t b = 0; b < nb; b++) {
            const double m = (double)fp_f16_to_f32(load_u16(w + b * q->block_bytes + 2));
            want += m * sum_defect(a, b);
            mag += fabs(m * sum_defect(a, b));
        }
    const double steps = q->block_elems > 1 ? (double)n / 32 + 16 : (double)n / 8 + 24;
    const double got = (double)k->op[t].dot(w, a, n), bound = steps * 0x1p-24 * mag + 1e-44;
    if (!(fabs(got - want) <= bound))
        CHECK_FAIL("%s %s dot of %" PRId64 ": %.9g, expected %.9g within %.3g", q->name,
                   kern_isa_name(k->isa), n, got, want, bound);
    free(base);
}

static void check_decode(const struct kern *k, enum qtype t, const uint8_t *w, const float *dec,
                         int64_t n) {
    enum { GUARD = 16 };
    float *out = malloc((size_t)(n + 2 * GUARD) * sizeof *out);
    for (int64_t i = 0; i < n + 2 * GUARD; i++) out[i] = 1234.5f;
    k->op[t].decode(w, out + GUARD, n);
    if (memcmp(out + GUARD, dec, (size_t)n * sizeof *out) != 0)
        CHECK_FAIL("%s %s decode of %" PRId64 " differs from ref", qtype_name(t),
                   kern_isa_name(k->isa), n);
    for (int64_t i = 0; i < GUARD; i++)
        if (out[i] != 1234.5f || out[n + GUARD + i] != 1234.5f) {
            CHECK_FAIL("%s %s decode writes outside", qtype_name(t), kern_isa_name(k->isa));
            break;
        }
    free(out);
}

/* Checks that many activation rows at once give the same bits as one at a time, whatever their
 * number, and that nothing is written between the results. */
static void check_dots(const struct kern *ref, const struct kern *k, enum qtype t, const uint8_t *w,
                       int64_t n, struct rng *r) {
    enum { MOST = 37, LDO = 3 };
    const uint64_t row = qtype_row_bytes(kern_dot_partner(t), n), stride = row + 12;
    if (!k->op[t].dots) return;
    uint8_t *a = calloc(MOST, (size_t)stride);
    for (int i = 0; i < MOST; i++)
        fill_act(ref, kern_dot_partner(t), r, a + (uint64_t)i * stride, n, i % 3);
    for (int m = 1; m <= MOST; m += m < 9 ? 1 : 14) {
        float out[MOST * LDO];
        for (int i = 0; i < MOST * LDO; i++) out[i] = 1234.5f;
        k->op[t].dots(w, a, stride, m, out, LDO, n);
        for (int i = 0; i < MOST * LDO; i++) {
            const bool result = i % LDO == 0 && i / LDO < m;
            const float want =
                result ? k->op[t].dot(w, a + (uint64_t)(i / LDO) * stride, n) : 1234.5f;
            if (memcmp(&out[i], &want, sizeof want) != 0)
                CHECK_FAIL("%s %s: %d rows of %" PRId64 " are not as one", qtype_name(t),
                           kern_isa_name(k->isa), m, n);
        }
    }
    free(a);
}

static void check_case(const struct kern *ref, enum qtype t, int64_t nb, enum fill how,
                       struct rng *r) {
    const struct qtype_info *q = qtype_info(t);
    const int64_t n = nb * q->block_elems;
    uint8_t *w = malloc((size_t)(nb * q->block_bytes));
    float *dec = malloc((size_t)n * sizeof *dec);
    fill_blocks(t, r, w, nb, how);
    ref->op[t].decode(w, dec, n);
    for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
        struct kern k;
        kern_init(&k, (enum kern_isa)isa);
        check_decode(&k, t, w, dec, n);
        if (!k.op[t].dot || n % qtype_info(kern_dot_partner(t))->block_elems) continue;
        for (int mode = 0; mode < 3; mode++) {
            uint8_t *a = malloc((size_t)qtype_row_bytes(kern_dot_partner(t), n));
            fill_act(ref, kern_dot_partner(t), r, a, n, mode);
            check_dot(ref, &k, t, w, dec, nb, a);
            free(a);
        }
        check_dots(ref, &k, t, w, n, r);
    }
    free(w);
    free(dec);
}

static void test_types(void) {
    struct kern ref;
    kern_init(&ref, KERN_REF);
    struct rng r;
    rng_seed(&r, 7);
    for (int t = 0; t < QT_COUNT; t++) {
        if (!kern_has(&ref, (enum qtype)t)) continue;
        for (size_t c = 0; c < sizeof block_counts / sizeof block_counts[0]; c++)
            for (int how = 0; how < FILL_COUNT; how++)
                check_case(&ref, (enum qtype)t, block_counts[c], (enum fill)how, &r);
    }
}

/* Compares activation blocks: those of ref with the rule, and those of the other ISAs with ref,
 * byte for byte. */
static void check_q8(const uint8_t *a, const float *x, int64_t n, enum qtype t) {
    for (int64_t b = 0; b < n / 32 && t != QT_Q8_K; b++) {
        const uint8_t *p = a + b * qtype_info(t)->block_bytes;
        float top = 0;
        int sum = 0;
        for (int i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[32 * b + i]));
        const float d = top / 127.0f;
        CHECK_EQ_I64(load_u16(p), fp_f32_to_f16(d));
        for (int i = 0; i < 32; i++) {
            const int8_t q = (int8_t)p[(t == QT_Q8_0 ? 2 : 4) + i];
            sum += q;
            /* within half a step plus one rounding of the quotient */
            if (d > 0)
                CHECK_CLOSE((double)x[32 * b + i] / (double)d, q, 0.5 + 127 * 0x1p-22);
            else
                CHECK_EQ_I64(q, 0);
        }
        if (t == QT_Q8_1) CHECK_EQ_I64(load_u16(p + 2), fp_f32_to_f16((float)sum * d));
    }
    for (int64_t b = 0; b < n / QK && t == QT_Q8_K; b++) {
        const uint8_t *p = a + b * 292;
        float max = 0;
        for (int i = 0; i < QK; i++)
            if (fabsf(x[QK * b + i]) > fabsf(max)) max = x[QK * b + i];
        CHECK_CLOSE(load_f32(p), -(double)max / 127, fabs((double)max) * 0x1p-22);
        for (int i = 0; i < QK; i++) {
            const int8_t q = (int8_t)p[4 + i];
            if (fabsf(x[QK * b + i]) == fabsf(max) && max != 0)
                CHECK_EQ_I64(q, x[QK * b + i] == max ? -127 : 127);
            if (max != 0)
                CHECK_CLOSE(-127.0 * (double)x[QK * b + i] / (double)max, q, 0.5 + 127 * 0x1p-22);
        }
        for (int g = 0; g < 16; g++) {
            int sum = 0;
            for (int i = 0; i < 16; i++) sum += (int8_t)p[4 + 16 * g + i];
            CHECK_EQ_I64(load_i16(p + 260 + 2 * g), sum);
        }
    }
}

static void test_activations(void) {
    static const enum qtype types[] = {QT_Q8_0, QT_Q8_1, QT_Q8_K};
    enum { N = 9 * QK };
    struct kern ref, k;
    kern_init(&ref, KERN_REF);
    struct rng r;
    rng_seed(&r, 3);
    float *x = malloc(N * sizeof *x);
    for (int i = 0; i < N; i++) x[i] = rng_normal(&r);
    memset(x, 0, QK * sizeof *x);                                  /* all zero */
    for (int i = QK; i < 2 * QK; i++) x[i] = i & 1 ? 2.5f : -2.5f; /* ties for the largest value */
    for (int i = 2 * QK; i < 3 * QK; i++)
        x[i] = (float)(i % 255 - 127) + 0.5f; /* ties in rounding */
    for (int i = 4 * QK; i < 5 * QK; i++) x[i] *= 1e4f;
    for (size_t c = 0; c < 3; c++) {
        const size_t size = (size_t)qtype_row_bytes(types[c], N);
        uint8_t *want = malloc(size), *got = malloc(size);
        ref.act_quant(types[c], x, want, N);
        check_q8(want, x, N, types[c]);
        float tiny[QK] = {0};
        tiny[5] = 1e-41f; /* no finite inverse: decodes to zeros */
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
            kern_init(&k, (enum kern_isa)isa);
            memset(got, 0xaa, size);
            k.act_quant(types[c], x, got, N);
            CHECK(memcmp(got, want, size) == 0);
            k.act_quant(types[c], tiny, got, QK);
            for (int i = 0; i < QK; i++) CHECK(act_value(types[c], got, i) == 0);
        }
        free(want);
        free(got);
    }
    free(x);
}

static void test_isa_names(void) {
    enum kern_isa isa;
    CHECK(kern_isa_parse("auto", &isa) && isa == kern_isa_best());
    CHECK(kern_isa_parse("ref", &isa) && isa == KERN_REF);
    CHECK(kern_isa_parse("AVX2", &isa) && isa == KERN_AVX2);
    CHECK(kern_isa_parse("avxvnni", &isa) && isa == KERN_AVXVNNI);
    CHECK(!kern_isa_parse("sse9", &isa));
    CHECK_EQ_STR(kern_isa_name(KERN_AVX512), "avx512");
    CHECK(kern_dot_partner(QT_Q4_K) == QT_Q8_K && kern_dot_partner(QT_Q5_1) == QT_Q8_1);
    CHECK(kern_dot_partner(QT_BF16) == QT_F32 && kern_dot_partner(QT_IQ4_NL) == QT_Q8_0);
    struct kern k;
    kern_init(&k, KERN_REF);
    CHECK(kern_has(&k, QT_Q4_K) && !kern_has(&k, QT_I32) && k.isa == KERN_REF);
    CHECK(kern_isa_has(KERN_REF) && kern_isa_has(kern_isa_best()));
    for (int i = KERN_REF; i < KERN_ISA_COUNT; i++) { /* an ISA that is missing becomes one that
                                                       * it contains */
        kern_init(&k, (enum kern_isa)i);
        CHECK(kern_isa_has((enum kern_isa)i) ? (int)k.isa == i : (int)k.isa < i);
        CHECK(k.isa <= KERN_AVX2 || k.isa >= KERN_NEON || kern_isa_has(KERN_AVX2));
    }
}

static int bench(void) {
    printf("%-8s %-7s %12s %12s %12s\n", "type", "isa", "decode GB/s", "Gweights/s", "dot GB/s");
    for (int t = 0; t < QT_COUNT; t++)
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
            struct kern k;
            struct kern_rate rate;
            kern_init(&k, (enum kern_isa)isa);
            if (!kern_has(&k, (enum qtype)t)) continue;
            kern_bench_type(&k, (enum qtype)t, 0.02, &rate);
            printf("%-8s %-7s %12.2f %12.2f %12.2f\n", qtype_name((enum qtype)t),
                   kern_isa_name(k.isa), rate.decode_gbs, rate.decode_gws, rate.dot_gbs);
        }
    static const int64_t tokens[] = {1, 2, 3, 4, 8, 16, 64, 512};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        for (int isa = KERN_AVX2; isa <= (int)kern_isa_best(); isa++) {
            struct kern k;
            kern_init(&k, (enum kern_isa)isa);
            printf("gemm %-7s m %4" PRId64 " n 32 k 2048: %7.1f GFLOP/s\n", kern_isa_name(k.isa),
                   tokens[i], kern_bench_gemm(&k, tokens[i], 32, 2048, 0.05));
        }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench();
    RUN(test_isa_names);
    RUN(test_types);
    RUN(test_packed);
    RUN(test_packed_same);
    RUN(test_packed_timed);
    RUN(test_activations);
    RUN(test_norms);
    RUN(test_elementwise);
    RUN(test_softmax);
    RUN(test_softmax_more);
    RUN(test_rope);
    RUN(test_conv);
    RUN(test_short_conv);
    RUN(test_mamba);
    RUN(test_kda);
    RUN(test_delta);
    RUN(test_delta_back);
    RUN(test_gemm);
    RUN(test_gemm_nn);
    return check_done();
}
