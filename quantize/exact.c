// SPDX-License-Identifier: MIT
/* quantize/exact.c - detection and encoding of weights that a block type holds without loss.
 *
 * For integers, the largest weight of a block is q times the scale for an unknown q. Each q gives
 * an interval of scales: those whose product with q rounds to the weight. Every other weight,
 * smallest first, determines its own integer and narrows the interval. The f16 scales inside the
 * final interval are checked by decoding, and the one with the least error is taken. */
#include "quantize/exact.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
#include "kernels/codebook.h"
#include "kernels/kern.h"
#include "quantize/enc/enc.h"
#include "quantize/enc/fp4.h"
#include "quantize/enc/super.h"

enum { BLOCK = 32, LEVELS = 8 };

/* A float type: bits of its significand, and the exponent of its smallest step. */
struct form {
    int bits, least;
};
/* Sets *f for f32, f16 and bf16; returns false for other types. */
static bool form_of(enum qtype t, struct form *f) {
    static const struct form forms[] = {
        [QS_F32] = {24, -149}, [QS_F16] = {11, -24}, [QS_BF16] = {8, -133}};
    const enum qtype_scale_kind k = qtype_info(t)->scale.kind;
    if (k != QS_F32 && k != QS_F16 && k != QS_BF16) return false;
    *f = forms[k];
    return true;
}

/* Returns the exponent of the step between numbers of the form near x. */
static int step_at(struct form f, double x) {
    int e;
    frexp(x, &e);
    return e - f.bits > f.least ? e - f.bits : f.least;
}

/* Returns x rounded to the form. */
static double round_to(struct form f, double x) {
    const int k = step_at(f, x);
    return ldexp(nearbyint(ldexp(x, -k)), k);
}

struct range {
    double lo, hi;
};

/* Returns the numbers that round to x > 0; of f32 only x itself, because products are computed in
 * it. */
static struct range rounds_to(struct form f, double x) {
    int e;
    const int k = step_at(f, x);
    const double half = f.bits == 24 ? 0 : ldexp(0.5, k);
    return (struct range){x - (frexp(x, &e) == 0.5 && k > f.least ? half / 2 : half), x + half};
}

/* ---- integers -------------------------------------------------------------------------------- */

/* A block's weights in ascending order of size. */
struct sorted {
    float x[BLOCK]; /* absolute values */
    int n;          /* weights that are not zero */
};

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static void sort_block(const float *x, struct sorted *s) {
    s->n = 0;
    for (int i = 0; i < BLOCK; i++)
        if (x[i] != 0) s->x[s->n++] = fabsf(x[i]);
    qsort(s->x, (size_t)s->n, sizeof s->x[0], by_size);
}

/* Narrows the scales for which the largest weight is `top` times the scale to those that fit all
 * weights. */
static bool narrow(const struct sorted *s, struct form f, int top, struct range *r) {
    *r = rounds_to(f, (double)s->x[s->n - 1]);
    r->lo /= top, r->hi /= top;
    for (int i = 0; i < s->n; i++) {
        const double q = nearbyint((double)s->x[i] / ((r->lo + r->hi) / 2));
        if (q < 1 || q > top) return false;
        const struct range own = rounds_to(f, (double)s->x[i]);
        if (own.lo / q > r->lo) r->lo = own.lo / q;
        if (own.hi / q < r->hi) r->hi = own.hi / q;
        if (r->lo > r->hi) return false;
    }
    return true;
}

/* Sets l to the integers of x for scale d. Returns false if one is outside lv, or does not give the
 * weight back. */
static bool integers(const float *x, struct form f, float d, const struct levels *lv, int8_t *l) {
    for (int i = 0; i < BLOCK; i++) {
        const float v = nearbyintf(x[i] / d);
        if (!(v >= (float)lv->lo && v <= (float)lv->hi)) return false;
        l[i] = (int8_t)v;
        if (round_to(f, (double)(d * v)) != (double)x[i]) return false;
    }
    return true;
}

/* Returns the sum of the squared differences between decoded and stored weights. Products and
 * squares are exact in double. */
static double squared_error(const float *x, const struct enc_raw *o) {
    double sum = 0;
    for (int i = 0; i < BLOCK; i++) {
        const double d = (double)o->d * o->l[i] - (double)x[i];
        sum += d * d;
    }
    return sum;
}

/* The scale and integers with the least error so far. */
struct best {
    struct enc_raw o;
    double error; /* HUGE_VAL: none found */
};

/* Replaces *best by scale d and its integers if they fit and have a smaller error. */
static void try_scale(const float *x, struct form f, float d, struct best *best) {
    struct enc_raw o = best->o;
    o.d = d;
    if (!integers(x, f, d, &o.lv, o.l)) return;
    const double error = squared_error(x, &o);
    if (error < best->error) *best = (struct best){o, error};
}

/* Tries the f16 scales in a range; the largest weight may have the integer lo only if it is
 * negative or the scale is. */
static void try_scales(const float *x, struct form f, struct range r, struct best *best) {
    enum { MOST = 64 }; /* a range of bf16 products has 8 f16 numbers or fewer */
    uint16_t h = fp_f32_to_f16((float)r.lo);
    if ((double)fp_f16_to_f32(h) < r.lo) h++;
    for (int i = 0; i < MOST && best->error > 0; i++, h++) {
        const float d = fp_f16_to_f32(h);
        if (!((double)d <= r.hi && d > 0 && d <= 65504)) return;
        try_scale(x, f, d, best);
        if (best->o.lv.lo < -best->o.lv.hi) try_scale(x, f, -d, best);
    }
}

/* Finds the scale and integers that give the block with the least error. If a scale gives exactly
 * the stored weights, its error is 0; others only round to them. */
static void find_integers(const float *x, struct form f, struct best *best) {
    struct sorted s;
    struct range r;
    sort_block(x, &s);
    best->error = s.n ? HUGE_VAL : 0;
    for (int top = 1; top <= -best->o.lv.lo && best->error > 0; top++)
        if (narrow(&s, f, top, &r)) try_scales(x, f, r, best);
}

static bool integer_block(const struct enc *enc, struct form f, const float *x, uint8_t *dst,
                          bool *rounds) {
    struct best best = {.o = {.n = BLOCK, .sub = BLOCK, .lv = enc->blocks->spec->lv, .sc = {1}}};
    find_integers(x, f, &best);
    if (best.error == HUGE_VAL) return false;
    *rounds |= best.error > 0;
    enc->blocks->pack(&best.o, dst);
    return true;
}

/* ---- FP4 levels ------------------------------------------------------------------------------ */

static bool fp4_codes(const float *x, float unit, uint8_t *code) {
    for (int i = 0; i < BLOCK; i++) {
        int k = 0;
        while (k < LEVELS && (float)kern_fp4_level[k] * unit != fabsf(x[i])) k++;
        if (k == LEVELS) return false;
        code[i] = (uint8_t)(k | (x[i] < 0 ? LEVELS : 0));
    }
    return true;
}

/* Encodes a block of FP4 levels times a power of two, which are exact in every float type. */
static bool fp4_block(const struct enc *enc, const float *x, uint8_t *dst) {
    uint8_t code[BLOCK] = {0}, scale = 0;
    float most = 0;
    for (int i = 0; i < BLOCK; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    bool found = most == 0;
    for (int k = LEVELS - 1; k > 0 && !found; k--) {
        int e;
        const float unit = most / (float)kern_fp4_level[k];
        if (frexpf(unit, &e) != 0.5f || e + 127 < 0 || e + 127 > enc->fp4->scale_max) continue;
        scale = (uint8_t)(e + 127);
        found = enc->fp4->step(scale) == unit && fp4_codes(x, unit, code);
    }
    if (found) enc->fp4->pack(dst, &scale, code);
    return found;
}

/* ---- rows and tensors ------------------------------------------------------------------------ */

/* A target type and the form of the source. */
struct pair {
    const struct enc *enc;
    int bytes; /* of a block */
    struct form form;
};
static bool pair_of(struct pair *p, enum qtype to, enum qtype from) {
    const struct qtype_info *qi = qtype_info(to);
    p->enc = qi->flags & QF_EXACT ? enc_find(to) : NULL;
    p->bytes = qi->block_bytes;
    return p->enc && form_of(from, &p->form);
}

/* Encodes a row; dst NULL: only checks. Sets *rounds if a block is equal only after rounding. */
static bool do_row(const struct pair *p, const float *x, int64_t n, uint8_t *dst, bool *rounds) {
    uint8_t unused[2 * BLOCK + 8];
    for (int64_t i = 0; i < n; i += BLOCK, dst = dst ? dst + p->bytes : dst) {
        uint8_t *to = dst ? dst : unused;
        if (!(p->enc->fp4 ? fp4_block(p->enc, x + i, to)
                          : integer_block(p->enc, p->form, x + i, to, rounds)))
            return false;
    }
    return true;
}

bool exact_row(enum qtype to, enum qtype from, const float *x, int64_t n, uint8_t *dst) {
    struct pair p;
    bool ignored = false;
    return n % BLOCK == 0 && pair_of(&p, to, from) && do_row(&p, x, n, dst, &ignored);
}

struct scan {
    const struct gguf_tensor *t;
    struct pair pair;
    void (*decode)(const void *restrict, float *restrict, int64_t);
    uint64_t row_bytes;
    atomic_bool fails;   /* some row is not exact */
    atomic_bool nonzero; /* some weight is not zero */
    atomic_bool rounds;  /* some row is equal only after rounding */
};

static void scan_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    struct scan *s = ctx;
    const int64_t n = s->t->ne[0];
    struct err ignored;
    void *p;
    (void)worker;
    if (atomic_load_explicit(&s->fails, memory_order_relaxed)) return;
    if (mem_alloc(&p, (uint64_t)n * sizeof(float), "a row of weights", &ignored)) {
        atomic_store(&s->fails, true);
        return;
    }
    float *x = p;
    for (int64_t r = begin; r < end && !atomic_load_explicit(&s->fails, memory_order_relaxed);
         r++) {
        bool zero = true, rounds = false;
        s->decode(s->t->data + (uint64_t)r * s->row_bytes, x, n);
        if (!do_row(&s->pair, x, n, NULL, &rounds)) atomic_store(&s->fails, true);
        if (rounds) atomic_store(&s->rounds, true);
        for (int64_t i = 0; i < n && zero; i++) zero = x[i] == 0;
        if (!zero) atomic_store(&s->nonzero, true);
    }
    mem_free(p);
}

/* Returns how a tensor of type `from` is equal. */
static enum exact_how how_of(bool rounds, enum qtype from) {
    return !rounds ? EXACT_SAME : qtype_info(from)->scale.kind == QS_F16 ? EXACT_F16 : EXACT_BF16;
}

/* Scans the first, middle and last rows and, if they are exact, with `all` the others. Returns
 * whether the rows are exact, and sets *how if it is not NULL. A tensor whose three rows are zero
 * is not scanned: it holds no weights (a file of zeros, to measure sizes). */
static bool scan(const struct gguf_tensor *t, enum qtype to, bool all, struct pool *pool,
                 enum exact_how *how) {
    const int64_t rows = t->ne[1] * t->ne[2] * t->ne[3], at[] = {0, rows / 2, rows - 1};
    struct scan s = {.t = t, .row_bytes = qtype_row_bytes(t->type, t->ne[0])};
    if (!pair_of(&s.pair, to, t->type) || t->ne[0] % BLOCK) return false;
    struct kern *ref = xcalloc(1, sizeof *ref);
    kern_init(ref, KERN_REF);
    s.decode = ref->op[t->type].decode;
    free(ref);
    atomic_init(&s.fails, false);
    atomic_init(&s.nonzero, false);
    atomic_init(&s.rounds, false);
    for (size_t i = 0; i < COUNT_OF(at); i++) scan_rows(&s, at[i], at[i] + 1, 0);
    if (all && !atomic_load(&s.nonzero)) return false;
    if (all) pool_for(pool, rows, max_i64(1, 65536 / t->ne[0]), scan_rows, &s);
    if (how) *how = how_of(atomic_load(&s.rounds), t->type);
    return !atomic_load(&s.fails);
}

bool exact_seems(const struct gguf_tensor *t, enum qtype to) {
    return scan(t, to, false, NULL, NULL);
}

bool exact_offers(const struct gguf_tensor *t, enum qtype to) {
    const int64_t rows = t->ne[1] * t->ne[2] * t->ne[3], at[] = {0, rows / 2, rows - 1};
    const uint64_t bytes = qtype_row_bytes(t->type, t->ne[0]);
    bool zero = true;
    for (size_t i = 0; i < COUNT_OF(at) && zero; i++)
        for (uint64_t k = 0; k < bytes && zero; k++)
            zero = t->data[(uint64_t)at[i] * bytes + k] == 0;
    return !zero && scan(t, to, false, NULL, NULL);
}

/* Returns whether the decoded values y, rounded to the form, equal x; sets *rounds if one must be
 * rounded. */
static bool equal(struct form f, const float *x, const float *y, int64_t n, bool *rounds) {
    for (int64_t i = 0; i < n; i++) {
        if (round_to(f, (double)y[i]) != (double)x[i]) return false;
        *rounds |= y[i] != x[i];
    }
    return true;
}

bool exact_equal(enum qtype from, const float *x, const float *y, int64_t n) {
    struct form f;
    bool ignored = false;
    return form_of(from, &f) && equal(f, x, y, n, &ignored);
}

/* Returns whether a row of `t` decodes to the row of `base`, rounded to base's type; sets *rounds
 * if it must be rounded. x: two rows. */
static bool same_row(const struct gguf_tensor *base, const struct gguf_tensor *t,
                     const struct kern *ref, struct form f, int64_t row, float *x, bool *rounds) {
    const int64_t n = t->ne[0];
    ref->op[base->type].decode(base->data + (uint64_t)row * qtype_row_bytes(base->type, n), x, n);
    ref->op[t->type].decode(t->data + (uint64_t)row * qtype_row_bytes(t->type, n), x + n, n);
    return equal(f, x, x + n, n, rounds);
}

/* Returns whether t, of a quantized type, holds base's weights, and sets *how. */
static bool holds(const struct gguf_tensor *base, const struct gguf_tensor *t,
                  const struct kern *ref, enum exact_how *how) {
    const int64_t n = t->ne[0], rows = t->ne[1] * t->ne[2] * t->ne[3],
                  some[] = {0, rows / 2, rows - 1};
    struct form f;
    bool rounds = false;
    bool same = base->ne[0] == n && base->ne[1] == t->ne[1] && base->ne[2] == t->ne[2] &&
                base->ne[3] == t->ne[3];
    *how = EXACT_SAME;
    if (!same || (base->type == t->type && base->n_bytes != t->n_bytes)) return false;
    if (base->type == t->type) return memcmp(base->data, t->data, t->n_bytes) == 0;
    if (!form_of(base->type, &f) || !ref->op[t->type].decode) return false;
    float *x = xcalloc((size_t)n, 2 * sizeof *x);
    for (size_t i = 0; i < COUNT_OF(some) && same; i++)
        same = same_row(base, t, ref, f, some[i], x, &rounds);
    for (int64_t i = 0; i < rows && same; i++) same = same_row(base, t, ref, f, i, x, &rounds);
    free(x);
    *how = how_of(rounds, base->type);
    return same;
}

void exact_count(const struct gguf *base, const struct gguf *file, struct exact_tally *tally) {
    struct kern *ref = xcalloc(1, sizeof *ref);
    kern_init(ref, KERN_REF);
    memset(tally, 0, sizeof *tally);
    for (int64_t i = 0; i < gguf_n_tensors(file); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(file, i), *b = gguf_find_tensor(base, t->name);
        const unsigned flags = qtype_info(t->type)->flags;
        enum exact_how how;
        if (!b || !(flags & (QF_EXACT | QF_RELEASED))) continue;
        if (holds(b, t, ref, &how)) tally->n[how][t->type]++;
        gguf_drop(base, b);
        gguf_drop(file, t);
    }
    free(ref);
}

const char *exact_source(enum exact_how how) {
    const enum qtype_scale_kind kind = how == EXACT_F16 ? QS_F16 : QS_BF16;
    if (how == EXACT_SAME) return NULL;
    int t = 0;
    while (!qtype_info(t) || qtype_info(t)->scale.kind != kind) t++;
    return qtype_name((enum qtype)t);
}

void exact_words(const struct exact_tally *tally, struct buf *out) {
    bool any = false;
    for (int k = 0; k < EXACT_HOW_COUNT * QT_COUNT; k++) {
        const enum exact_how how = (enum exact_how)(k / QT_COUNT);
        const enum qtype t = (enum qtype)(k % QT_COUNT);
        const int64_t n = tally->n[how][t];
        if (!n) continue;
        const char *what = any ? "" : n == 1 ? " tensor" : " tensors";
        buf_fmt(out, "%s%lld%s in %s", any ? ", " : "", (long long)n, what, qtype_name(t));
        if (how != EXACT_SAME) buf_fmt(out, " after rounding to %s", exact_source(how));
        any = true;
    }
}

bool exact_in(const struct gguf_tensor *t, enum qtype to, struct pool *pool) {
    return scan(t, to, true, pool, NULL);
}

/* Returns the type with QF_EXACT that follows `t` by size; QT_COUNT: none. t QT_COUNT: the first.
 */
static enum qtype next_type(enum qtype t) {
    int next = QT_COUNT;
    const double from = t == QT_COUNT ? 0 : qtype_bpw(t);
    for (int k = 0; k < QT_COUNT; k++) {
        const struct qtype_info *qi = qtype_info(k);
        if (qi && (qi->flags & QF_EXACT) && qtype_bpw((enum qtype)k) > from &&
            (next == QT_COUNT || qtype_bpw((enum qtype)k) < qtype_bpw((enum qtype)next)))
            next = k;
    }
    return (enum qtype)next;
}

enum qtype exact_type(const struct gguf_tensor *t, struct pool *pool, enum exact_how *how) {
    for (enum qtype k = next_type(QT_COUNT); k != QT_COUNT; k = next_type(k))
        if (scan(t, k, true, pool, how)) return k;
    return QT_COUNT;
}
