// SPDX-License-Identifier: MIT
/* tests/unit/test_exact.c - weights of low-bit training: blocks are built from known scales and
 * codes, encoded, and decoded with the definition of the formats. Products that the source's type
 * holds must come back bit for bit; of rounded products, the scale must be no worse than the one
 * that made them. */
#include "tests/check.h"

#include "base/fp.h"
#include "base/rng.h"
#include "quantize/exact.h"

enum { BLOCK = 32, ROWS = 400 };

/* Decodes a half, from its definition. */
static double half(const uint8_t *b) {
    const int bits = b[0] | b[1] << 8, exp = bits >> 10 & 31, man = bits & 1023;
    const double v = exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24);
    return bits & 0x8000 ? -v : v;
}

/* Decodes a block of `type`, from its definition. */
static void decode(enum qtype type, const uint8_t *b, double *y) {
    static const double level[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    for (int i = 0; i < BLOCK; i++) {
        const uint8_t *codes = b + (type == QT_MXFP4 ? 1 : 2);
        const int nibble = i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
        if (type == QT_Q8_0) y[i] = half(b) * (codes[i] < 128 ? codes[i] : codes[i] - 256);
        if (type == QT_Q4_0) y[i] = half(b) * (nibble - 8);
        if (type == QT_MXFP4)
            y[i] = ldexp(nibble & 8 ? -level[nibble & 7] : level[nibble & 7], b[0] - 127);
    }
}

static int between(struct rng *r, int lo, int hi) {
    return lo + (int)(rng_unit(r) * (hi - lo + 1));
}

/* Fills x with codes lo..hi times d, rounded to bf16 if `round`. Returns the squared error of
 * rounding. */
static double fill(struct rng *r, float d, int lo, int hi, bool round, float *x) {
    double sum = 0;
    for (int i = 0; i < BLOCK; i++) {
        const float v = d * (float)between(r, lo, hi); /* exact */
        x[i] = round ? fp_bf16_to_f32(fp_f32_to_bf16(v)) : v;
        const double e = (double)v - (double)x[i];
        sum += e * e;
    }
    return sum;
}

static void same(enum qtype type, enum qtype from, const float *x) {
    uint8_t b[34];
    double y[BLOCK];
    CHECK(exact_row(type, from, x, BLOCK, b));
    decode(type, b, y);
    for (int i = 0; i < BLOCK && !check_failed_here; i++) {
        CHECK(y[i] == (double)x[i]);
        CHECK(fp_bits((float)y[i] + 0.0f) == fp_bits(x[i] + 0.0f)); /* -0 is 0 */
    }
}

/* Checks scales and codes with so few bits that bf16 and f16 hold the products. */
static void test_products_that_are_held(void) {
    static const enum qtype from[] = {QT_BF16, QT_F16, QT_F32};
    struct rng r;
    float x[BLOCK];
    rng_seed(&r, 5);
    for (int k = 0; k < ROWS && !check_failed_here; k++) {
        const float d = ldexpf((float)between(&r, 8, 15), -10);
        const enum qtype t = from[k % 3];
        fill(&r, k & 1 ? -d : d, -8, 7, false, x);
        same(QT_Q4_0, t, x);
        fill(&r, d, -15, 15, false, x);
        same(QT_Q8_0, t, x);
        fill(&r, ldexpf(1, between(&r, 0, 2) - 10), -127, 127, false, x);
        same(QT_Q8_0, t, x);
        for (int i = 0; i < BLOCK; i++) {
            static const int twice[] = {0, 1, 2, 3, 4, 6, 8, 12};
            x[i] = ldexpf((float)(twice[between(&r, 0, 7)] * (i & 1 ? -1 : 1)), -6 - k % 5);
        }
        same(QT_MXFP4, t, x);
    }
}

/* Checks products that bf16 rounds: they round to the source, with an error that is no larger than
 * the true scale's. */
static void test_products_that_are_rounded(void) {
    struct rng r;
    float x[BLOCK];
    uint8_t b[34];
    double y[BLOCK];
    rng_seed(&r, 6);
    for (int k = 0; k < ROWS && !check_failed_here; k++) {
        const enum qtype t = k & 1 ? QT_Q8_0 : QT_Q4_0;
        const float d = ldexpf((float)between(&r, 1024, 2047), -17);
        const double most = fill(&r, d, t == QT_Q8_0 ? -127 : -8, t == QT_Q8_0 ? 127 : 7, true, x);
        double sum = 0;
        CHECK(exact_row(t, QT_BF16, x, BLOCK, b));
        decode(t, b, y);
        for (int i = 0; i < BLOCK; i++) {
            CHECK(fp_bf16_to_f32(fp_f32_to_bf16((float)y[i])) == x[i]);
            sum += (y[i] - (double)x[i]) * (y[i] - (double)x[i]);
        }
        CHECK(sum <= most);
    }
}

static void test_words(void) {
    struct exact_tally n = {0};
    struct buf b = {0};
    n.n[EXACT_SAME][QT_Q4_0] = 2;
    n.n[EXACT_BF16][QT_Q8_0] = 1;
    exact_words(&n, &b);
    CHECK_EQ_STR(b.data, "2 tensors in Q4_0, 1 in Q8_0 after rounding to BF16");
    buf_release(&b);
}

int main(void) {
    RUN(test_products_that_are_held);
    RUN(test_products_that_are_rounded);
    RUN(test_words);
    return check_done();
}
