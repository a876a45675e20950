// SPDX-License-Identifier: MIT
/* grammar/schema_num.c - JSON Schema numbers. Each bound becomes an automaton over decimal digits;
 * several bounds are intersected. `multipleOf` becomes an automaton that tracks the remainder.
 * Numbers with such conditions have no exponent, and at most 18 digits before the decimal point and
 * 20 after it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/schema_int.h"

enum { INT_DIGITS = 18, FRAC_DIGITS = 20, FREE_DIGITS = 30, MULTIPLE_MAX = 1000 };

/* Returns the node for a digit from `from` to `to`; G_NONE if from > to. */
static gnode digit_range(struct grammar *g, int from, int to) {
    return from > to ? (gnode)G_NONE : gn_bytes(g, '0' + from, '0' + to);
}
/* Returns the language of lo to hi digits. */
static gnode any_digits(struct grammar *g, uint32_t lo, uint32_t hi) {
    return gn_rep(g, digit_range(g, 0, 9), lo, hi);
}

void sc_plain_numbers(struct sc *c) {
    struct grammar *g = c->g;
    const gnode minus = gn_opt(g, gn_str(g, "-"));
    const gnode whole = gn_alt(g, gn_str(g, "0"),
                               gn_cat(g, digit_range(g, 1, 9), any_digits(g, 0, FREE_DIGITS - 1)));
    const gnode frac = gn_opt(g, gn_cat(g, gn_str(g, "."), any_digits(g, 1, FREE_DIGITS)));
    struct gset e = {{0}}, sign = {{0}};
    e.w['e' / 64] |= (uint64_t)1 << 'e' % 64;
    e.w['E' / 64] |= (uint64_t)1 << 'E' % 64;
    sign.w[0] = (uint64_t)1 << '+' | (uint64_t)1 << '-';
    /* Two digits, because three could exceed the range of a double. */
    const gnode exp =
        gn_opt(g, gn_cat3(g, gn_set(g, &e), gn_opt(g, gn_set(g, &sign)), any_digits(g, 1, 2)));
    c->integer = gn_as_rule(g, gn_cat(g, minus, whole));
    c->number = gn_as_rule(g, gn_cat(g, gn_cat3(g, minus, whole, frac), exp));
}

/* ---- bounds ---- */

struct decimal { /* a number >= 0 */
    char whole[40], frac[40];
    size_t n_whole, n_frac;
};

/* Sets *d to the shortest decimal equal to x. Returns false if x is too large or has too many
 * digits. */
static bool decimal_of(double x, struct decimal *d) {
    char s[420];
    int digits_behind = 0;
    for (; digits_behind <= FRAC_DIGITS; digits_behind++) {
        snprintf(s, sizeof s, "%.*f", digits_behind, x);
        const double y = strtod(s, NULL);
        if (!(y < x) && !(y > x)) break;
    }
    const char *dot = strchr(s, '.');
    d->n_whole = dot ? (size_t)(dot - s) : strlen(s);
    d->n_frac = dot ? strlen(dot + 1) : 0;
    if (digits_behind > FRAC_DIGITS || d->n_whole > INT_DIGITS) return false;
    memcpy(d->whole, s, d->n_whole);
    if (dot) memcpy(d->frac, dot + 1, d->n_frac);
    return true;
}

enum side { LESS, MORE };

/* Returns the n-digit numbers less or greater than s[0..n), as `side` says, plus s itself followed
 * by `equal`. */
static gnode compare(struct grammar *g, const char *s, size_t n, enum side side, gnode equal) {
    gnode out = equal;
    for (size_t i = n; i-- > 0;) {
        const int d = s[i] - '0';
        const gnode off = side == MORE ? digit_range(g, d + 1, 9) : digit_range(g, 0, d - 1);
        const uint32_t rest = (uint32_t)(n - 1 - i);
        out = gn_alt(g, gn_cat(g, off, any_digits(g, rest, rest)),
                     gn_cat(g, digit_range(g, d, d), out));
    }
    return out;
}

/* Returns the integers, without leading zeros, on the given side of d's integer part, each followed
 * by `rest`, plus that integer part itself followed by `equal`. */
static gnode whole_side(struct grammar *g, const struct decimal *d, enum side side, gnode equal,
                        gnode rest) {
    const size_t n = d->n_whole;
    gnode same = G_NONE, other;
    /* Integers strictly on that side with the same number of digits. */
    gnode strict = compare(g, d->whole, n, side, G_NONE);
    if (n > 1)
        strict = gn_and(g, strict, gn_cat(g, digit_range(g, 1, 9), any_digits(g, 0, GRAM_INF)));
    if (side == MORE)
        other = gn_cat(g, digit_range(g, 1, 9), any_digits(g, (uint32_t)n, INT_DIGITS - 1));
    else
        other = n == 1 ? (gnode)G_NONE
                       : gn_alt(g, gn_str(g, "0"),
                                gn_cat(g, digit_range(g, 1, 9), any_digits(g, 0, (uint32_t)n - 2)));
    if (side == MORE && n >= INT_DIGITS) other = G_NONE;
    same = gn_cat(g, gn_text(g, d->whole, n), equal);
    return gn_alt(g, same, gn_cat(g, gn_alt(g, strict, other), rest));
}

/* Returns what may follow d's integer part: fractions ".ddd" on the given side of d's fraction;
 * or_equal: also that fraction itself. */
static gnode frac_side(struct grammar *g, const struct decimal *d, enum side side, bool or_equal) {
    const gnode some = any_digits(g, 0, FRAC_DIGITS),
                zeros = gn_rep(g, digit_range(g, 0, 0), 0, FRAC_DIGITS);
    const gnode not_zero = gn_cat3(g, zeros, digit_range(g, 1, 9), some);
    gnode out;
    if (side == MORE)
        out = or_equal ? some : not_zero;
    else
        out = or_equal ? zeros : G_NONE;
    for (size_t i = d->n_frac; i-- > 0;) {
        const int x = d->frac[i] - '0';
        const gnode off = side == MORE ? digit_range(g, x + 1, 9) : digit_range(g, 0, x - 1);
        out = gn_alt(g, gn_cat(g, off, some), gn_cat(g, digit_range(g, x, x), out));
        if (side == LESS) out = gn_alt(g, G_EPS, out); /* ends early: less */
    }
    const bool whole = side == MORE ? d->n_frac == 0 && or_equal : d->n_frac > 0 || or_equal;
    const gnode dotted = gn_cat(g, gn_str(g, "."), gn_and(g, out, any_digits(g, 1, FRAC_DIGITS)));
    return whole ? gn_opt(g, dotted) : dotted;
}

/* Returns the unsigned numbers on the given side of d; or_equal: also d itself; integer: integers
 * only. */
static gnode abs_side(struct grammar *g, const struct decimal *d, enum side side, bool or_equal,
                      bool integer) {
    const gnode frac = gn_opt(g, gn_cat(g, gn_str(g, "."), any_digits(g, 1, FRAC_DIGITS)));
    if (!integer) return whole_side(g, d, side, frac_side(g, d, side, or_equal), frac);
    const bool same = d->n_frac ? side == LESS : or_equal;
    return whole_side(g, d, side, same ? G_EPS : G_NONE, G_EPS);
}

/* Returns the numbers on the given side of x. If the bound cannot be expressed, reports it with the
 * path of `at` and returns the language of any text. */
static gnode bound(struct sc *c, const struct json *at, double x, enum side side, bool or_equal,
                   bool integer) {
    struct grammar *g = c->g;
    struct decimal d;
    if (!or_equal && !integer && fabs(x) > 0) { /* excludes texts that readers would round to x */
        x = nextafter(x, side == MORE ? HUGE_VAL : -HUGE_VAL);
        or_equal = true;
    }
    const gnode minus = gn_str(g, "-");
    const struct decimal zero = {.whole = "0", .n_whole = 1};
    const gnode above_zero = abs_side(g, &zero, MORE, false, integer),
                from_zero = abs_side(g, &zero, MORE, true, integer);
    if (!decimal_of(fabs(x), &d)) {
        sc_relax(c, at, "bounds with more than 18 digits, or 20 decimal places, are not supported");
        return g->any;
    }
    const bool below = x < 0;
    /* 0 is written without a sign. */
    const bool at_zero = !(x < 0) && !(x > 0);
    if (side == MORE)
        return below
                   ? gn_alt(g, from_zero,
                            gn_cat(g, minus,
                                   gn_and(g, above_zero, abs_side(g, &d, LESS, or_equal, integer))))
                   : abs_side(g, &d, MORE, or_equal, integer);
    if (below) return gn_cat(g, minus, abs_side(g, &d, MORE, or_equal, integer));
    const gnode low = gn_cat(g, minus, above_zero);
    if (at_zero && !or_equal) return low;
    return gn_alt(g, low, abs_side(g, &d, LESS, or_equal, integer));
}

/* ---- multiples ---- */

/* Returns the language of multiples of the number `at`. *integer: all of them are integers. */
static gnode multiple_node(struct sc *c, const struct json *at, bool *integer) {
    struct grammar *g = c->g;
    const double x = json_num(at, 0);
    int64_t n;
    if (json_type(at) != JSON_NUM || !(x > 0)) return sc_fail(c, at, "is not a positive number");
    if (json_i64(at, &n) && n <= MULTIPLE_MAX) {
        *integer = true;
        return gn_cat(g, gn_opt(g, gn_str(g, "-")), gn_mod(g, (uint32_t)n, 0));
    }
    for (int places = 1; places <= 9; places++) {
        char power[16];
        snprintf(power, sizeof power, "1e-%d", places);
        const double y = strtod(power, NULL);
        if (x < y || x > y) continue;
        /* Numbers with at most `places` decimal places. */
        return gn_cat3(g, gn_opt(g, gn_str(g, "-")), any_digits(g, 1, INT_DIGITS),
                       gn_opt(g, gn_cat(g, gn_str(g, "."), any_digits(g, 1, (uint32_t)places))));
    }
    sc_relax(c, at,
             "multipleOf is supported for integers up to 1000 and negative powers of ten only");
    return g->any;
}

/* ---- a number ---- */

enum { CONDS_MAX = 64 };
struct conds {
    gnode v[CONDS_MAX];
    size_t n;
};
/* Adds a condition on the number; sets an error at the limit. */
static void add_condition(struct sc *c, struct conds *s, const struct json *at, gnode n) {
    if (s->n == CONDS_MAX)
        sc_fail(c, at, "more than 64 conditions on one number");
    else
        s->v[s->n++] = n;
}

/* Returns v's number; sets an error if v is not a number. */
static double number_at(struct sc *c, const struct json *v) {
    if (json_type(v) != JSON_NUM) sc_fail(c, v, "is not a number");
    return json_num(v, 0);
}

/* Adds the conditions of minimum, maximum and their exclusive forms. */
static void add_bounds(struct sc *c, struct conds *s, const struct json *schema, bool integer) {
    static const struct {
        const char *key, *old; /* old: draft 4's keyword next to it, `exclusive...: true` */
        enum side side;
        bool or_equal;
    } all[] = {{"minimum", "exclusiveMinimum", MORE, true},
               {"maximum", "exclusiveMaximum", LESS, true},
               {"exclusiveMinimum", NULL, MORE, false},
               {"exclusiveMaximum", NULL, LESS, false}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const struct json *v = json_get(schema, all[i].key);
        if (!v || (!all[i].old && json_type(v) == JSON_BOOL)) continue;
        const bool strict = all[i].old && json_bool(json_get(schema, all[i].old), false);
        add_condition(
            c, s, v,
            bound(c, v, number_at(c, v), all[i].side, all[i].or_equal && !strict, integer));
    }
}

/* Returns the numbers with a non-zero fraction that is short enough for no reader to round it
 * away. */
static gnode broken(struct grammar *g) {
    const gnode any = gn_rep(g, gn_bytes(g, 0, 0xff), 0, GRAM_INF);
    const gnode few = gn_rep(g, gn_bytes(g, 0, 0xff), 0, 16);
    return gn_and(
        g, few,
        gn_cat(g, any, gn_cat3(g, gn_str(g, "."), any, gn_cat(g, digit_range(g, 1, 9), any))));
}

/* Adds the condition that an integer is not `value`, however it is spelled. */
static void exclude(struct sc *c, struct conds *s, const struct json *value) {
    const double x = json_num(value, 0);
    char text[32];
    int64_t n;
    if (!json_i64(value, &n)) {
        if (x > floor(x) || x < floor(x)) return;
        sc_relax(c, value, "`not` with a number of more than 15 digits is not supported");
        return;
    }
    snprintf(text, sizeof text, "%" PRId64, n);
    const gnode as = gn_str(c->g, text), minus = n ? G_NONE : gn_str(c->g, "-0");
    add_condition(c, s, value, gn_not(c->g, gn_alt(c->g, as, minus)));
}

gnode sc_number(struct sc *c, const struct sc_set *set, uint32_t types) {
    struct grammar *g = c->g;
    struct conds s = {.n = 0};
    bool integer = !(types & SC_NUM);
    if (!(types & SC_INT)) add_condition(c, &s, set->n ? set->v[0].s : c->root, broken(g));
    for (uint32_t i = 0; i < set->n && !c->rc; i++) {
        const struct json *m = json_get(set->v[i].s, "multipleOf");
        if (m) add_condition(c, &s, m, multiple_node(c, m, &integer));
    }
    for (uint32_t i = 0; i < set->n && !c->rc; i++) add_bounds(c, &s, set->v[i].s, integer);
    for (uint32_t i = 0; i < set->n; i++) {
        const struct json *no = json_get(set->v[i].s, "not"), *k = json_get(no, "const");
        for (const struct json *x = k ? k : json_first(json_get(no, "enum")); x;
             x = k ? NULL : json_next(x)) {
            if (json_type(x) != JSON_NUM) continue;
            if (integer)
                exclude(c, &s, x);
            else
                sc_relax(c, x, "`not` with a number is supported for integers only");
        }
    }
    if (s.n == 0) return integer ? c->integer : c->number;
    /* Without an exponent, so that the digits alone determine the value. */
    const gnode whole = gn_alt(g, gn_str(g, "0"),
                               gn_cat(g, digit_range(g, 1, 9), any_digits(g, 0, INT_DIGITS - 1)));
    const gnode frac = gn_cat(g, gn_str(g, "."), any_digits(g, 1, FRAC_DIGITS));
    const gnode form =
        gn_cat3(g, gn_opt(g, gn_str(g, "-")), whole, integer ? G_EPS : gn_opt(g, frac));
    add_condition(c, &s, set->v[0].s, form);
    return c->rc ? (gnode)G_NONE : gn_as_rule(g, gn_ands(g, s.v, s.n));
}
