// SPDX-License-Identifier: MIT
/* tests/unit/test_fp.c - every half, bf16 and fp8 code; rounding compared with nearest-even
 * computed from the two neighbours; exp compared with expl. */
#include <stdbool.h>

#include "base/fp.h"
#include "base/rng.h"
#include "tests/check.h"

/* Returns the value by definition, in double, which is exact for halves. */
static double half_value(unsigned h) {
    int exp = (int)(h >> 10 & 31), man = (int)(h & 1023);
    double v = exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24);
    return h & 0x8000 ? -v : v;
}

static void test_every_half(void) {
    for (unsigned h = 0; h < 65536; h++) {
        float f = fp_f16_to_f32((uint16_t)h);
        bool nan = (h & 0x7fff) > 0x7c00, inf = (h & 0x7fff) == 0x7c00;
        if (nan) {
            if (!isnan(f) || fp_f32_to_f16(f) != (h | 0x200)) CHECK_FAIL("NaN %04x", h);
            continue;
        }
        if (inf ? !isinf(f) : (double)f != half_value(h))
            CHECK_FAIL("value of %04x: %g", h, (double)f);
        if ((signbit(f) != 0) != (h >= 0x8000)) CHECK_FAIL("sign of %04x", h);
        if (fp_f32_to_f16(f) != h) CHECK_FAIL("%04x comes back as %04x", h, fp_f32_to_f16(f));
    }
}

/* Tests values below, at and above the midpoint of any two neighbours. */
static void test_half_rounding(void) {
    for (unsigned h = 0; h < 0x7c00; h++) {
        double lo = half_value(h), hi = h == 0x7bff ? 65536.0 : half_value(h + 1);
        float mid = (float)((lo + hi) / 2); /* exact: 12 bits suffice */
        unsigned even = h & 1 ? h + 1 : h;
        unsigned got[3] = {fp_f32_to_f16(nextafterf(mid, 0.0f)), fp_f32_to_f16(mid),
                           fp_f32_to_f16(nextafterf(mid, 1e6f))};
        if (got[0] != h || got[1] != even || got[2] != h + 1)
            CHECK_FAIL("around %04x + half: %04x %04x %04x", h, got[0], got[1], got[2]);
        if (fp_f32_to_f16(-mid) != (even | 0x8000)) CHECK_FAIL("negative %04x", h);
    }
    CHECK_EQ_I64(fp_f32_to_f16(1e30f), 0x7c00);
    CHECK_EQ_I64(fp_f32_to_f16(-65520.0f), 0xfc00);
    CHECK_EQ_I64(fp_f32_to_f16(65519.996f), 0x7bff);
    CHECK_EQ_I64(fp_f32_to_f16(0x1p-149f), 0);
    CHECK_EQ_I64(fp_f32_to_f16(-0x1p-149f), 0x8000);
}

static void test_bf16(void) {
    for (unsigned h = 0; h < 65536; h++) {
        float f = fp_bf16_to_f32((uint16_t)h);
        unsigned want = isnan(f) ? h | 64 : h;
        if (fp_f32_to_bf16(f) != want) CHECK_FAIL("%04x", h);
    }
    CHECK_EQ_I64(fp_f32_to_bf16(fp_from_bits(0x3f808000)), 0x3f80); /* tie: even is kept */
    CHECK_EQ_I64(fp_f32_to_bf16(fp_from_bits(0x3f818000)), 0x3f82); /* tie: odd rounds up */
    CHECK_EQ_I64(fp_f32_to_bf16(fp_from_bits(0x3f808001)), 0x3f81);
    CHECK_EQ_I64(fp_f32_to_bf16(fp_from_bits(0x7f7fffff)), 0x7f80);
    CHECK_EQ_I64(fp_f32_to_bf16(fp_from_bits(0x7f800001)), 0x7fc0); /* NaN, not infinity */
}

static void test_fp8_fp4_e8m0(void) {
    for (unsigned b = 0; b < 256; b++) {
        unsigned exp = b >> 3 & 15, man = b & 7;
        double want = exp ? ldexp(8 + man, (int)exp - 10) : ldexp(man, -9);
        float f = fp_f8e4m3_to_f32((uint8_t)b);
        if ((b & 127) == 127 ? !isnan(f) : (double)f != (b & 128 ? -want : want))
            CHECK_FAIL("e4m3 %02x: %g", b, (double)f);
        exp = b >> 2 & 31, man = b & 3;
        want = exp ? ldexp(4 + man, (int)exp - 17) : ldexp(man, -16);
        f = fp_f8e5m2_to_f32((uint8_t)b);
        if (exp == 31 ? (man ? !isnan(f) : !isinf(f)) : (double)f != (b & 128 ? -want : want))
            CHECK_FAIL("e5m2 %02x: %g", b, (double)f);
        f = fp_e8m0_to_f32((uint8_t)b);
        if (b == 255 ? !isnan(f) : (double)f != ldexp(1, (int)b - 127)) CHECK_FAIL("e8m0 %02x", b);
    }
    CHECK_EQ_I64(fp_f8e4m3_to_f32(0x7e), 448); /* the largest values of the formats */
    CHECK_EQ_I64(fp_f8e5m2_to_f32(0x7b), 57344);
    static const double e2m1[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    for (unsigned c = 0; c < 16; c++)
        CHECK((double)fp_e2m1_to_f32((uint8_t)c) == (c & 8 ? -e2m1[c & 7] : e2m1[c & 7]));
    CHECK(signbit(fp_e2m1_to_f32(8)));
}

static double exp_error(double x) { /* Returns the relative error or, for tiny values, the error
                                     * in units of the smallest subnormal. */
    long double want = expl((long double)x);
    long double d = (long double)fp_exp(x) - want;
    if (want < 0x1p-1022L) return (double)(d / 0x1p-1074L) * 1e-15; /* one step: 1e-15 */
    return (double)(d / want);
}

static void test_exp(void) {
    struct rng r;
    rng_seed(&r, 1);
    double worst = 0, at = 0;
    for (int i = 0; i < 400000; i++) {
        double span = i % 4 == 0 ? 1 : i % 4 == 1 ? 20 : i % 4 == 2 ? 709.7 : 744;
        double x = (rng_unit(&r) * 2 - 1) * span;
        if (x > 709.7) x = -x;
        double err = fabs(exp_error(x));
        if (!(err <= worst)) worst = err, at = x;
    }
    if (!(worst < 1e-15)) CHECK_FAIL("relative error %.3g at %.17g", worst, at);
    for (double x = 1; x > 1e-300; x /= 3)
        if (!(fabs(exp_error(x)) < 1e-15 && fabs(exp_error(-x)) < 1e-15)) CHECK_FAIL("at %g", x);
    CHECK(fp_exp(0.0) == 1.0 && fp_exp(-0.0) == 1.0);
    CHECK(isinf(fp_exp(710)) && isinf(fp_exp(1e300)) && isinf(fp_exp(HUGE_VAL)));
    CHECK(isinf(fp_exp(0x1.62e42fefa39f0p+9))); /* just above ln(DBL_MAX) */
    CHECK(isfinite(fp_exp(0x1.62e42fefa39efp+9)));
    CHECK(fp_exp(-746) == 0 && fp_exp(-HUGE_VAL) == 0 && fp_exp(-745) == 0x1p-1074);
    CHECK(isnan(fp_exp((double)fp_from_bits(0x7fc00000))));
}

int main(void) {
    RUN(test_every_half);
    RUN(test_half_rounding);
    RUN(test_bf16);
    RUN(test_fp8_fp4_e8m0);
    RUN(test_exp);
    return check_done();
}
