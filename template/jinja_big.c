// SPDX-License-Identifier: MIT
/* template/jinja_big.c - integers beyond 64 bits: little-endian base-10^9 digits, schoolbook
 * arithmetic. They arise from JSON (and must print unchanged) or from overflow. Results that fit
 * become plain ints. */
#include "template/jinja_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BASE = 1000000000, MAX_LIMBS = 2000 };

struct jbig {
    bool neg;
    uint32_t n;
    uint32_t d[];
};

/* Returns 0 as a big integer with space for n limbs; fails beyond MAX_LIMBS. */
static struct jbig *new_big(struct jctx *c, uint32_t n) {
    if (n > MAX_LIMBS) jx_fail(c, "limit", "an integer has too many digits");
    struct jbig *b = jx_alloc(c, 1, sizeof *b + ((size_t)n + 1) * sizeof b->d[0]);
    b->n = n;
    return b;
}

/* Returns any integer value as a big integer. */
static const struct jbig *as_big(struct jctx *c, struct jval v) {
    if (v.tag == JT_BIG) return v.u.big;
    struct jbig *b = new_big(c, 3);
    uint64_t u = v.u.i < 0 ? 0 - (uint64_t)v.u.i : (uint64_t)v.u.i;
    b->neg = v.u.i < 0;
    for (uint32_t i = 0; i < 3; i++, u /= BASE) b->d[i] = (uint32_t)(u % BASE);
    while (b->n && !b->d[b->n - 1]) b->n--;
    return b;
}

/* Returns b as a value, which is a plain integer if it fits in 64 bits. */
static struct jval to_jval(struct jbig *b) {
    while (b->n && !b->d[b->n - 1]) b->n--;
    if (b->n < 3 || (b->n == 3 && b->d[2] <= 9)) {
        uint64_t u = 0;
        for (uint32_t i = b->n; i-- > 0;) u = u * BASE + b->d[i];
        if (u <= INT64_MAX) return jv_int(b->neg ? -(int64_t)u : (int64_t)u);
        if (b->neg && u == (uint64_t)INT64_MAX + 1) return jv_int(INT64_MIN);
    }
    struct jval v = jv_tag(JT_BIG);
    v.u.big = b;
    return v;
}

/* Compares absolute values; returns -1, 0 or 1. Neither may have leading zero limbs. */
static int cmp_mag(const struct jbig *a, const struct jbig *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i-- > 0;)
        if (a->d[i] != b->d[i]) return a->d[i] < b->d[i] ? -1 : 1;
    return 0;
}

int jbig_cmp(struct jctx *c, struct jval x, struct jval y) {
    const struct jbig *a = as_big(c, x), *b = as_big(c, y);
    jx_loop(c, a->n);
    if (a->neg != b->neg) return a->neg ? -1 : 1;
    return a->neg ? -cmp_mag(a, b) : cmp_mag(a, b);
}

/* Returns |a| + |b|; may have a leading zero limb. */
static struct jbig *add_mag(struct jctx *c, const struct jbig *a, const struct jbig *b) {
    uint32_t n = a->n > b->n ? a->n : b->n;
    struct jbig *r = new_big(c, n + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i <= n; i++) {
        uint64_t s = carry + (i < a->n ? a->d[i] : 0) + (i < b->n ? b->d[i] : 0);
        r->d[i] = (uint32_t)(s % BASE);
        carry = s / BASE;
    }
    return r;
}

/* Subtracts magnitudes; |a| >= |b|. */
static struct jbig *sub_mag(struct jctx *c, const struct jbig *a, const struct jbig *b) {
    struct jbig *r = new_big(c, a->n);
    int64_t borrow = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        int64_t s = (int64_t)a->d[i] - borrow - (i < b->n ? b->d[i] : 0);
        borrow = s < 0;
        r->d[i] = (uint32_t)(s < 0 ? s + BASE : s);
    }
    return r;
}

/* Returns a + b, where b_neg replaces the sign of b. */
static struct jbig *add_signed(struct jctx *c, const struct jbig *a, const struct jbig *b,
                               bool b_neg) {
    struct jbig *r;
    if (a->neg == b_neg) {
        r = add_mag(c, a, b);
        r->neg = a->neg;
    } else if (cmp_mag(a, b) >= 0) {
        r = sub_mag(c, a, b);
        r->neg = a->neg;
    } else {
        r = sub_mag(c, b, a);
        r->neg = b_neg;
    }
    return r;
}

/* Returns a * b; may have leading zero limbs. */
static struct jbig *mul_big(struct jctx *c, const struct jbig *a, const struct jbig *b) {
    struct jbig *r = new_big(c, a->n + b->n);
    r->neg = a->neg != b->neg;
    for (uint32_t i = 0; i < a->n; i++) {
        jx_loop(c, b->n);
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->n || carry; j++) {
            uint64_t s = r->d[i + j] + carry + (j < b->n ? (uint64_t)a->d[i] * b->d[j] : 0);
            r->d[i + j] = (uint32_t)(s % BASE);
            carry = s / BASE;
        }
    }
    return r;
}

/* Divides magnitudes: returns a / b and sets *rem to a % b. Each digit is found by bisection. */
static struct jbig *div_mag(struct jctx *c, const struct jbig *a, const struct jbig *b,
                            struct jbig **rem) {
    struct jbig *q = new_big(c, a->n), *r = new_big(c, b->n + 1), *t = new_big(c, b->n + 1);
    r->n = 0;
    for (uint32_t i = a->n; i-- > 0;) {
        memmove(r->d + 1, r->d, r->n * sizeof r->d[0]);
        r->d[0] = a->d[i];
        r->n++;
        while (r->n && !r->d[r->n - 1]) r->n--;
        uint32_t lo = 0, hi = BASE - 1;
        jx_loop(c, 32 * ((size_t)b->n + 1));
        while (lo < hi) { /* Find the largest x with b * x <= r. */
            uint32_t mid = lo + (hi - lo + 1) / 2;
            uint64_t carry = 0;
            t->n = b->n + 1;
            for (uint32_t k = 0; k < t->n; k++) {
                uint64_t s = carry + (k < b->n ? (uint64_t)b->d[k] * mid : 0);
                t->d[k] = (uint32_t)(s % BASE);
                carry = s / BASE;
            }
            while (t->n && !t->d[t->n - 1]) t->n--;
            if (cmp_mag(t, r) <= 0) {
                lo = mid;
            } else {
                hi = mid - 1;
            }
        }
        q->d[i] = lo;
        int64_t borrow = 0, carry = 0;
        for (uint32_t k = 0; k < r->n; k++) {
            int64_t p = carry + (k < b->n ? (int64_t)b->d[k] * lo : 0);
            carry = p / BASE;
            int64_t s = (int64_t)r->d[k] - p % BASE - borrow;
            borrow = s < 0;
            r->d[k] = (uint32_t)(s < 0 ? s + BASE : s);
        }
        while (r->n && !r->d[r->n - 1]) r->n--;
    }
    *rem = r;
    return q;
}

/* Returns a // b or, with want_mod, a % b, with the signs that Python uses. b must not be 0. */
static struct jval floor_div(struct jctx *c, const struct jbig *a, const struct jbig *b,
                             bool want_mod) {
    struct jbig *r, *q = div_mag(c, a, b, &r);
    while (q->n && !q->d[q->n - 1]) q->n--;
    q->neg = a->neg != b->neg;
    r->neg = a->neg;
    if (r->n && a->neg != b->neg) { /* The remainder has the divisor's sign, as in Python. */
        const struct jbig *one = as_big(c, jv_int(1));
        q = add_signed(c, q, one, true);
        r = add_signed(c, r, b, b->neg);
    }
    return to_jval(want_mod ? r : q);
}

struct jval jbig_bin(struct jctx *c, enum jop op, struct jval x, struct jval y) {
    const struct jbig *a = as_big(c, x), *b = as_big(c, y);
    if (op == JO_ADD) return to_jval(add_signed(c, a, b, b->neg));
    if (op == JO_SUB) return to_jval(add_signed(c, a, b, !b->neg));
    if (op == JO_MUL) return to_jval(mul_big(c, a, b));
    return floor_div(c, a, b, op == JO_MOD);
}

struct jval jbig_parse(struct jctx *c, const char *s, size_t n, int base, bool neg) {
    while (n > 1 && *s == '0') {
        s++;
        n--;
    }
    if (n <= 18 && base == 10) {
        int64_t v = 0;
        for (size_t i = 0; i < n; i++) v = v * 10 + (s[i] - '0');
        return jv_int(neg ? -v : v);
    }
    if (n > 4300) jx_fail(c, "ValueError", "an integer literal has more than 4300 digits");
    struct jval v = jv_int(0);
    for (size_t i = 0; i < n; i++) {
        int d = s[i] <= '9' ? s[i] - '0' : (s[i] | 32) - 'a' + 10;
        v = jop_bin(c, JO_ADD, jop_bin(c, JO_MUL, v, jv_int(base)), jv_int(d));
    }
    return neg ? jop_bin(c, JO_SUB, jv_int(0), v) : v;
}

void jbig_print(struct jctx *c, struct jval v) {
    const struct jbig *b = v.u.big;
    char text[16];
    if (b->n > 478) /* Python's limit of 4300 digits */
        jx_fail(c, "ValueError", "Exceeds the limit (4300 digits) for integer string conversion");
    if (b->neg) jx_add(c, "-", 1);
    for (uint32_t i = b->n; i-- > 0;) {
        int n = snprintf(text, sizeof text, i + 1 == b->n ? "%u" : "%09u", (unsigned)b->d[i]);
        jx_add(c, text, (size_t)n);
    }
}

double jbig_double(struct jval v) {
    if (v.tag != JT_BIG) return (double)v.u.i;
    const struct jbig *b = v.u.big;
    /* 45 digits and an exponent; correctly rounded except for ties, which are resolved below. */
    char text[64];
    size_t n = 0;
    uint32_t used = 0;
    if (b->neg) text[n++] = '-';
    for (uint32_t i = b->n; i-- > 0 && used < 5; used++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%09u", (unsigned)b->d[i]);
    snprintf(text + n, sizeof text - n, "e%u", (unsigned)((b->n - used) * 9));
    return strtod(text, NULL);
}

struct jval jbig_from_double(struct jctx *c, double d) {
    if (fabs(d) < 9e18) return jv_int((int64_t)d);
    char text[400];
    int n = snprintf(text, sizeof text, "%.0f", fabs(d));
    return jbig_parse(c, text, (size_t)n, 10, d < 0);
}

/* Returns the digits of |v| in the given base, most significant first. */
struct jval jbig_radix(struct jctx *c, struct jval v, int base, bool upper) {
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    size_t cap = (size_t)v.u.big->n * 30 + 2, n = cap;
    char *text = jx_alloc(c, cap, 1);
    if (v.u.big->neg) v = jbig_bin(c, JO_SUB, jv_int(0), v);
    for (struct jval b = jv_int(base); v.tag == JT_BIG || v.u.i != 0;) {
        jx_step(c);
        text[--n] = digits[jbig_bin(c, JO_MOD, v, b).u.i];
        v = jbig_bin(c, JO_FLOORDIV, v, b);
    }
    return jv_strn(text + n, cap - n);
}

/* Returns a / b, correctly rounded: strtod gets 40 digits of the quotient and one more that is
 * nonzero if there is a remainder. */
double jbig_divide(struct jctx *c, struct jval x, struct jval y) {
    const struct jbig *a = as_big(c, x), *b = as_big(c, y);
    int64_t e = 45 - ((int64_t)a->n - (int64_t)b->n) * 9;
    struct jval num = jv_int(0), den, q, r;
    if (!a->n) return 0;
    num = a->neg ? jbig_bin(c, JO_SUB, jv_int(0), x) : x;
    den = b->neg ? jbig_bin(c, JO_SUB, jv_int(0), y) : y;
    if (e > 0) num = jop_bin(c, JO_MUL, num, jop_bin(c, JO_POW, jv_int(10), jv_int(e)));
    if (e < 0) e = 0;
    q = jop_bin(c, JO_FLOORDIV, num, den);
    r = jop_bin(c, JO_MOD, num, den);
    size_t m = jx_mark(c);
    char tail[32];
    if (a->neg != b->neg) jx_add(c, "-", 1);
    jv_print(c, q);
    snprintf(tail, sizeof tail, "%de%lld", jv_truth(c, r), (long long)(-e - 1));
    jx_add(c, tail, strlen(tail));
    double d = strtod(jv_cstr(c, jx_take(c, m)), NULL);
    if (isinf(d)) jx_fail(c, "OverflowError", "integer division result too large for a float");
    return d;
}
