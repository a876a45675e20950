// SPDX-License-Identifier: MIT
/* base/fp_math.c - log, pow, sin, cos, tanh and erf with the same bits on every
 * machine.
 *
 * C libraries differ in the last bits of these functions. Here each uses only sums,
 * products and quotients of doubles in a fixed order (the build sets -ffp-contract=off), and floor
 * and fmod, which are exact. Errors are given in units of the last place (ulp) of a double. */
#include <math.h>

#include "base/attr.h"
#include "base/fp.h"

/* A number as the unevaluated sum of two doubles. */
struct two {
    double hi, lo;
};
/* Returns a + b exactly, for |a| >= |b|. */
static struct two sum(double a, double b) {
    const double s = a + b;
    return (struct two){s, b - (s - a)};
}
/* Returns a * b exactly: both are split into halves of 26 bits (Dekker). */
static struct two product(double a, double b) {
    const double split = 0x1p27 + 1, p = a * b;
    double c = split * a, ah = c - (c - a), al = a - ah;
    c = split * b;
    const double bh = c - (c - b), bl = b - bh;
    return (struct two){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}
/* Returns the polynomial of x with n coefficients, highest power first. */
static double polynomial(const double *coef, size_t n, double x) {
    double y = coef[0];
    for (size_t i = 1; i < n; i++) y = y * x + coef[i];
    return y;
}

/* Returns ln x for finite x > 0, with a relative error of about 2^-57. x = 2^k m with sqrt(1/2) <=
 * m < sqrt(2), and ln m = 2 artanh(s) with s = (m - 1) / (m + 1), so |s| < 0.172: the series ends
 * with s^21, and its first term 2 s is kept as two doubles. */
static struct two log_of(double x) {
    static const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    static const double coef[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                  1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
    int k = 0;
    if (x < 0x1p-1022) { /* subnormal */
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits;
    memcpy(&bits, &x, 8);
    k += (int)(bits >> 52) - 1022;
    bits = (bits & (UINT64_MAX >> 12)) | UINT64_C(1022) << 52;
    double m;
    memcpy(&m, &bits, 8);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        k--;
    }
    const double f = m - 1; /* exact */
    const struct two d = m < 1 ? sum(1, m) : sum(m, 1);
    const double s = f / d.hi;
    const struct two p = product(s, d.hi);
    const double s_lo = ((f - p.hi) - p.lo - s * d.lo) / d.hi, z = s * s;
    const double tail = polynomial(coef, COUNT_OF(coef), z);
    /* k ln2_hi is exact, and either 0 or larger than ln m */
    const struct two m_log = sum(2 * s, 2 * s_lo + 2 * s * z * tail);
    const struct two all = sum(k * ln2_hi, m_log.hi);
    return sum(all.hi, all.lo + (m_log.lo + k * ln2_lo));
}
double fp_log(double x) {
    if (!(x > 0)) return x == 0 ? -HUGE_VAL : (double)NAN;
    if (x > 0x1.fffffffffffffp+1023) return x;
    return log_of(x).hi;
}
float fp_softplusf(float x) {
    if (x > 20.0f) return x;
    const double e = fp_exp((double)x);
    return (float)(e < 1e-5 ? e - e * e * 0.5 : fp_log(1 + e));
}
double fp_log1p(double x) {
    const double u = 1 + x;
    if (u == 1) return x; /* also keeps the sign of zero */
    if (!(u > 0) || u > 0x1.fffffffffffffp+1023) return fp_log(u);
    return fp_log(u) * (x / (u - 1)); /* compensates the rounding of 1 + x */
}

/* Computes x^y = e^(y ln x); the rounding error of the product is multiplied in at the end. */
double fp_pow(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (!(x > 0) || x > 0x1.fffffffffffffp+1023) {
        if (x == 0 || x > 0) return (x > 0) == (y > 0) ? HUGE_VAL : 0;
        return (double)NAN;
    }
    const struct two l = log_of(x);
    const double rough = y * l.hi;
    if (!(fabs(rough) < 800)) return fp_exp(rough);
    const struct two p = product(y, l.hi);
    const double e = fp_exp(p.hi);
    return e + e * (p.lo + y * l.lo);
}

/* Reduces x to |r| <= pi/4 (a little more after rounding) with x = k pi/2 + r; returns k modulo 4.
 * pi/2 is split into parts of 26 bits, whose products with k are exact for |x| < 2e8; a larger x is
 * first reduced modulo the double nearest to 2 pi. */
static int quadrant(double x, double *r) {
    static const double part[] = {0x1.921fb5p+0, 0x1.110b46p-26, 0x1.1a6263p-54,
                                  0x1.8a2e03707344ap-81};
    if (fabs(x) > 2e8) x = fmod(x, 0x1.921fb54442d18p+2);
    const double k = floor(x * 0x1.45f306dc9c883p-1 + 0.5);
    double hi = x - k * part[0], lo = 0; /* exact */
    for (int i = 1; i < 4; i++) {
        const double t = k * part[i], next = hi - t, back = next - hi;
        lo += (hi - (next - back)) - (t + back);
        hi = next;
    }
    *r = hi + lo;
    return (int)(k - 4 * floor(k / 4));
}
/* Return the Taylor series for |r| < 0.79. */
static double sin_of(double r) {
    static const double coef[] = {
        1 / 355687428096000.0, -1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0,
        1 / 362880.0,          -1 / 5040.0,          1 / 120.0,        -1 / 6.0};
    const double z = r * r;
    return r + r * (z * polynomial(coef, COUNT_OF(coef), z));
}
static double cos_of(double r) {
    static const double coef[] = {
        1 / 20922789888000.0, -1 / 87178291200.0, 1 / 479001600.0, -1 / 3628800.0,
        1 / 40320.0,          -1 / 720.0,         1 / 24.0,        -1 / 2.0};
    const double z = r * r;
    return 1 + z * polynomial(coef, COUNT_OF(coef), z);
}
double fp_sin(double x) {
    double r;
    if (!(fabs(x) < HUGE_VAL)) return (double)NAN;
    const int k = quadrant(x, &r);
    const double y = k & 1 ? cos_of(r) : sin_of(r);
    return k & 2 ? -y : y;
}
double fp_cos(double x) {
    double r;
    if (!(fabs(x) < HUGE_VAL)) return (double)NAN;
    const int k = quadrant(x, &r);
    const double y = k & 1 ? sin_of(r) : cos_of(r);
    return k == 1 || k == 2 ? -y : y;
}

double fp_tanh(double x) {
    if (fabs(x) < 0x1p-12) return x - x * x * x / 3; /* the next term is 2^-51 of x at most */
    const double e = fp_exp(-2 * fabs(x)), y = (1 - e) / (1 + e);
    return x < 0 ? -y : y;
}

/* Uses the Taylor series up to 1, then polynomials of x - c, for c = 1.5, 2.5 ..., that interpolate
 * erf at Chebyshev points of [c - 0.5, c + 0.5]. */
double fp_erf(double x) {
    static const double taylor[] = {
        -0x1.a2007af3447f6p-54, 0x1.d70b3537f4765p-50,  -0x1.f56f071a885cfp-46,
        0x1.f683ae4a97007p-42,  -0x1.d8453cb0c46eap-38, 0x1.9e6ad5e55a730p-34,
        -0x1.51d7181c5d36dp-30, 0x1.fcc5720624c1cp-27,  -0x1.5f742ec43e71ap-23,
        0x1.b9e6c9dc651a3p-20,  -0x1.f4d25c3e0c2ebp-17, 0x1.f9a326f9b89b7p-14,
        -0x1.c02db40040b86p-11, 0x1.565bcd0e6a53fp-8,   -0x1.b82ce31288b51p-6,
        0x1.ce2f21a042be2p-4,   -0x1.812746b0379e7p-2,  0x1.20dd750429b6dp+0};
    static const double pieces[5][15] = {
        {-0x1.aa7ad19c475dbp-17, 0x1.33d18cb6fdf40p-16, 0x1.43b58e78f948ap-14,
         -0x1.0af1263cafbeep-12, -0x1.854dad90b9591p-14, 0x1.c0398f5c57c39p-10,
         -0x1.35aea33e8b25dp-9, -0x1.36d743d8bf133p-8, 0x1.3ca3d7bad185dp-6, -0x1.e723722d9d842p-7,
         -0x1.6d5a95d2478f7p-5, 0x1.1c2a02bea0196p-3, -0x1.6d5a95d0a1033p-3, 0x1.e723726b82977p-4,
         0x1.eea5557137ae0p-1},
        {0x1.6a007e8cf4d8dp-22, 0x1.1329cd34ff320p-18, -0x1.da5b65bc5137ep-17,
         0x1.6783801fa8777p-18, 0x1.4a8fcf49dbfabp-14, -0x1.067cb9746d206p-12,
         0x1.1154d308febc5p-12, 0x1.1c619ed98bfaep-11, -0x1.6ecdbeea74fe7p-9, 0x1.90e8118d2e2b4p-8,
         -0x1.1a89b97da4031p-7, 0x1.119da0c747a0bp-7, -0x1.64e3dcd3acd13p-8, 0x1.1d83170fabdd7p-9,
         0x1.ffcaa8f4c9beap-1},
        {0x1.69bd312f4343dp-24, -0x1.477004e4292d7p-22, 0x1.dfcce85fed3f9p-22,
         0x1.de8b6074b820ap-22, -0x1.377e3a8b3538ap-18, 0x1.013472c4e7294p-16,
         -0x1.1f62e387be727p-15, 0x1.e8280368d09f2p-15, -0x1.4615409a02cc7p-14,
         0x1.586baf93f8efap-14, -0x1.1c077215944cbp-14, 0x1.62ccea6634dedp-15,
         -0x1.3d0e43d697c5ap-16, 0x1.6a59721988900p-18, 0x1.ffffe710d565ep-1},
        {-0x1.2fc19cb202f34p-29, 0x1.0026f2d427296p-27, -0x1.2cf36c42c442cp-26,
         0x1.33a927297fabdp-25, -0x1.0c38acf72d4c3p-24, 0x1.8d4d143a5cba0p-24,
         -0x1.f5f34775e5d5fp-24, 0x1.0d66007cae779p-23, -0x1.e650e0e0bea36p-24,
         0x1.6b1bd90006eedp-24, -0x1.b598cb62f3216p-25, 0x1.99b8627b3a9b7p-26,
         -0x1.180fde408da57p-27, 0x1.f1e352a4e4f05p-30, 0x1.fffffffe4fa30p-1},
        {-0x1.0f9b0610c3f52p-37, 0x1.ebcd6a3bf0597p-37, -0x1.133ae27a985d9p-36,
         0x1.6ea05ffa8fd6fp-36, -0x1.da751857b96d5p-36, 0x1.feeef2c355f52p-36,
         -0x1.dc0438f2ec5cdp-36, 0x1.842f3935000dep-36, -0x1.0f714e68764c3p-36,
         0x1.3e568a871845bp-37, -0x1.3100dcd496e28p-38, 0x1.cb10948ce0b3ap-40,
         -0x1.fd398c7cbe329p-42, 0x1.7258a0606ecafp-44, 0x1.fffffffffffbep-1}};
    const double a = fabs(x);
    if (x != x) return x;
    if (a < 1) return x * polynomial(taylor, COUNT_OF(taylor), x * x);
    if (a >= 6) return x < 0 ? -1 : 1;
    const int i = (int)a;
    const double y = polynomial(pieces[i - 1], COUNT_OF(pieces[0]), a - (i + 0.5));
    return x < 0 ? -y : y;
}
