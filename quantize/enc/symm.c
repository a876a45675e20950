// SPDX-License-Identifier: MIT
/* quantize/enc/symm.c - super-blocks x ~ d*sc*l with signed sub-scales (Q3_K, Q6_K, IQ4_XS).
 *
 * Conventional: per sub-block a grid of scales with the largest weight at the long (negative) end,
 * then the scales are quantized by themselves and codes are rounded once. Fast: also fits every
 * sub-block in the other orientation, then alternates (a) per sub-block the integer scale, near the
 * present one or near the other orientation's fit, with the least true error, (b) the least squares
 * of d over 256 weights, rounded to f16. Best: more starts per sub-block and of d. The conventional
 * result stays unless the decoded error falls. Blocks below f16's reach become zeros; weights are
 * clamped to what d = 65504 can hold. */
#include "quantize/enc/super.h"

#include <math.h>
#include <string.h>

struct job {
    const struct sym_spec *s;
    float x[QK], w[QK];
    float scale[ENC_NSUB];              /* conventional real-valued fit per sub-block */
    float neg[ENC_NSUB], pos[ENC_NSUB]; /* fits with the largest weight at the low / the high end */
};

static void round_sub(const struct job *j, struct sym_block *b, int k) {
    int sub = j->s->sub;
    float d = b->d * (float)b->sc[k], inv = d != 0 ? 1.0f / d : 0;
    for (int i = k * sub; i < (k + 1) * sub; i++)
        b->l[i] = (int8_t)enc_level(&j->s->lv, j->x[i] * inv);
}

static double block_error(const struct job *j, const struct sym_block *b) {
    double e = 0;
    for (int k = 0; k < j->s->n_sub; k++) {
        float d = b->d * (float)b->sc[k];
        for (int i = k * j->s->sub; i < (k + 1) * j->s->sub; i++) {
            double diff = (double)(d * (float)b->l[i]) - (double)j->x[i];
            e += (double)j->w[i] * diff * diff;
        }
    }
    return e;
}

static int16_t clamp_sc(const struct sym_spec *s, float v) {
    return (int16_t)enc_rint(enc_clampf(v, (float)s->sc_lo, (float)s->sc_hi));
}

static void fit_subs(struct job *j) {
    int sub = j->s->sub;
    for (int k = 0; k < j->s->n_sub; k++)
        j->scale[k] = enc_sym_conventional(&j->s->lv, sub, j->x + k * sub, j->w + k * sub).d;
}

/* Q3_K quantizes its 16 scales like a block of its own; the others send the largest to the low end.
 */
static void conventional(struct job *j, struct sym_block *b) {
    const struct sym_spec *s = j->s;
    float d;
    fit_subs(j);
    if (s->type == QT_Q3_K) {
        const struct levels lv = {s->sc_lo, s->sc_hi, NULL};
        float sw[ENC_NSUB];
        for (int k = 0; k < s->n_sub; k++) {
            sw[k] = 0;
            for (int i = k * s->sub; i < (k + 1) * s->sub; i++) sw[k] += j->w[i];
        }
        d = enc_sym_conventional(&lv, s->n_sub, j->scale, sw).d;
    } else {
        d = enc_absmax(j->scale, s->n_sub) / (float)s->sc_lo;
    }
    b->d = enc_f16(d);
    for (int k = 0; k < s->n_sub; k++) {
        b->sc[k] = b->d != 0 ? clamp_sc(s, j->scale[k] / b->d) : 0;
        round_sub(j, b, k);
    }
}

/* Per sub-block the integer scale with the least error among: the present one and `near` to each
 * side, and the same around both orientations' fits. Returns the block's error. */
static float choose_ints(const struct job *j, struct sym_block *b, int near) {
    const struct sym_spec *s = j->s;
    float d[32], err[32], total = 0, inv = b->d != 0 ? 1.0f / b->d : 0;
    int16_t sc[32];
    for (int k = 0; k < s->n_sub; k++) {
        const int16_t from[3] = {b->sc[k], clamp_sc(s, j->neg[k] * inv),
                                 clamp_sc(s, j->pos[k] * inv)};
        int n = 0;
        for (int f = 0; f < 3; f++) {
            bool seen = false;
            for (int p = 0; p < f; p++) seen |= from[p] == from[f];
            if (seen) continue;
            for (int t = -near; t <= near; t++) {
                int v = from[f] + t;
                sc[n] = (int16_t)(v < s->sc_lo ? s->sc_lo : v > s->sc_hi ? s->sc_hi : v);
                d[n] = b->d * (float)sc[n];
                n++;
            }
        }
        enc_sym_errors(&s->lv, s->sub, j->x + k * s->sub, j->w + k * s->sub, d, n, err);
        int best = near; /* the present scale comes first among equals */
        for (int t = 0; t < n; t++)
            if (err[t] < err[best]) best = t;
        b->sc[k] = sc[best];
        total += err[best];
    }
    return total;
}

/* Least squares of d for the present scales and codes; false when it does not move. */
static bool refit(const struct job *j, struct sym_block *b) {
    double num = 0, den = 0;
    for (int k = 0; k < j->s->n_sub; k++) {
        float sxl = 0, sll = 0;
        round_sub(j, b, k);
        for (int i = k * j->s->sub; i < (k + 1) * j->s->sub; i++) {
            float t = j->w[i] * (float)b->l[i];
            sxl += t * j->x[i];
            sll += t * (float)b->l[i];
        }
        double sc = b->sc[k];
        num += sc * (double)sxl;
        den += sc * sc * (double)sll;
    }
    if (!(den > 0)) return false;
    float d = enc_f16((float)(num / den));
    if (d == b->d || d == 0) return false;
    b->d = d;
    return true;
}

static void take(const struct sym_block *b, float e, struct sym_block *best, float *best_err) {
    if (!(e < *best_err)) return;
    *best_err = e;
    *best = *b;
}

static void alternate(const struct job *j, struct sym_block *b, int near, int rounds,
                      struct sym_block *best, float *best_err) {
    for (int r = 0; r < rounds; r++) {
        take(b, choose_ints(j, b, near), best, best_err);
        if (!refit(j, b)) return;
    }
    take(b, choose_ints(j, b, 0), best, best_err);
}

/* Starts of d: the largest fit at either end of the sub-scale range, and a little larger. */
static void search_best(struct job *j, struct sym_block *best, float *best_err) {
    static const float f[6] = {1.0f, 0.97f, 1.03f, 1.08f, 1.15f, 1.25f};
    float top = 0;
    for (int k = 0; k < j->s->n_sub; k++) {
        float a = j->neg[k], c = j->pos[k];
        if (fabsf(a) > fabsf(top)) top = a;
        if (fabsf(c) > fabsf(top)) top = c;
    }
    for (int t = 0; t < 12; t++) {
        struct sym_block b = *best;
        float end = t < 6 ? (float)j->s->sc_lo : (float)j->s->sc_hi;
        b.d = enc_f16(top / end * f[t % 6]);
        if (b.d == 0) continue;
        for (int k = 0; k < j->s->n_sub; k++) b.sc[k] = clamp_sc(j->s, j->neg[k] / b.d);
        alternate(j, &b, 2, 4, best, best_err);
    }
}

/* A few more steps of d around the one found. */
static void search_fast(const struct job *j, struct sym_block *best, float *best_err) {
    static const float f[3] = {1.03f, 1.08f, 1.15f};
    float d = best->d;
    for (int t = 0; t < 3; t++) {
        struct sym_block b = *best;
        b.d = enc_f16(d * f[t]);
        if (b.d == 0) return;
        for (int k = 0; k < j->s->n_sub; k++) b.sc[k] = clamp_sc(j->s, j->neg[k] / b.d);
        alternate(j, &b, 1, 1, best, best_err);
    }
}

static void improve(struct job *j, const struct sym_block *conv, enum search search,
                    struct sym_block *out) {
    const struct sym_spec *s = j->s;
    struct sym_block b = *conv, best = *conv;
    bool slow = search == SEARCH_BEST;
    float err = INFINITY;
    for (int k = 0; k < s->n_sub; k++) {
        const float *x = j->x + k * s->sub, *w = j->w + k * s->sub;
        j->neg[k] = enc_sym_wide(&s->lv, s->sub, x, w, slow ? 40 : 16, slow ? 4 : 1, true).d;
        j->pos[k] = enc_sym_wide(&s->lv, s->sub, x, w, slow ? 40 : 16, slow ? 4 : 1, false).d;
    }
    if (b.d != 0) alternate(j, &b, 1, slow ? 4 : 2, &best, &err);
    if (slow)
        search_best(j, &best, &err);
    else
        search_fast(j, &best, &err);
    for (int k = 0; k < s->n_sub; k++) round_sub(j, &best, k);
    *out = block_error(j, &best) < block_error(j, conv) ? best : *conv;
}

/* One super-block. */
static void search_block(const struct sym_spec *s, const float *x, const float *imp,
                         enum search search, struct sym_block *b) {
    struct job j = {.s = s};
    memset(b, 0, sizeof *b);
    if (!enc_load(j.x, x, QK, 65504.0f * (float)s->sc_hi * (float)s->lv.hi)) {
        for (int k = 0; k < QK; k++) b->l[k] = (int8_t)enc_level(&s->lv, 0);
        return;
    }
    const struct wrule conv = enc_wrule(s->type, SEARCH_CONVENTIONAL);
    float mean2 = enc_mean2(j.x, QK);
    enc_weights(j.w, j.x, imp, QK, &conv, mean2, s->sub);
    conventional(&j, b);
    if (search == SEARCH_CONVENTIONAL) return;
    const struct wrule rule = enc_wrule(s->type, search);
    struct sym_block c = *b;
    enc_weights(j.w, j.x, imp, QK, &rule, mean2, s->sub);
    improve(&j, &c, search, b);
}

void enc_sym_row(const struct sym_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct sym_block *b)) {
    const int bytes = qtype_info(s->type)->block_bytes;
    for (int64_t i = 0; i < n / QK; i++) {
        struct sym_block b;
        search_block(s, x + i * QK, imp ? imp + i * QK : NULL, search, &b);
        pack((uint8_t *)dst + i * bytes, &b);
    }
}

void enc_sym_open(const struct sym_spec *s, const float *x, const float *imp, enum search search,
                  struct enc_open *o) {
    struct sym_block b;
    search_block(s, x, imp, search, &b);
    *o = (struct enc_open){
        .n = QK, .sub = s->sub, .lv = s->lv, .d = b.d, .sc_lo = s->sc_lo, .sc_hi = s->sc_hi};
    memcpy(o->sc, b.sc, sizeof o->sc);
    memcpy(o->l, b.l, sizeof o->l);
}

void enc_sym_close(const struct enc_open *o, struct sym_block *b) {
    b->d = o->d;
    memcpy(b->sc, o->sc, sizeof b->sc);
    memcpy(b->l, o->l, sizeof b->l);
}
