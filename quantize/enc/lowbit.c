// SPDX-License-Identifier: MIT
/* quantize/enc/lowbit.c - search for types with one f16 scale per block and at most four codes, all
 * integers lo..hi: Q1_0 (-1, 1), TQ1_0 and TQ2_0 (-1..1), Q2_0 (-1..2).
 *
 * Conventional: d = mean |x| for Q1_0; for the others, d = largest |x| with rounded codes. Fast and
 * best: alternate between choosing the codes and fitting d by least squares, from starts that put
 * the largest weight at 0.3 to 1.3 of either end. The start with the least decoded error wins if it
 * beats the conventional result. Q1_0 has a single optimum: d = sum w|x| / sum w. */
#include "quantize/enc/lowbit.h"

#include <math.h>
#include <string.h>

/* Sets codes l to the values nearest to x for scale d. */
static void round_codes(const struct low_spec *s, const float *x, float d, int8_t *l) {
    const float inv = d != 0 ? 1.0f / d : 0;
    for (int i = 0; i < s->n; i++) {
        if (s->binary)
            l[i] = x[i] * d < 0 ? -1 : 1;
        else
            l[i] = (int8_t)enc_rint(enc_clampf(x[i] * inv, (float)s->lo, (float)s->hi));
    }
}

/* Returns the weighted squared error of the codes. */
static double code_error(const struct low_spec *s, const float *x, const float *w, float d,
                         const int8_t *l) {
    double e = 0;
    for (int i = 0; i < s->n; i++) {
        double diff = (double)(d * (float)l[i]) - (double)x[i];
        e += (double)w[i] * diff * diff;
    }
    return e;
}

/* Returns the f16 scale that minimizes the weighted error of the codes; 0 if all codes are 0. */
static float least_squares(const struct low_spec *s, const float *x, const float *w,
                           const int8_t *l) {
    double a = 0, b = 0;
    for (int i = 0; i < s->n; i++) {
        a += (double)w[i] * (double)x[i] * l[i];
        b += (double)w[i] * l[i] * l[i];
    }
    return b > 0 ? enc_f16((float)(a / b)) : 0;
}

/* Returns the scale derived from the largest value or, for binary codes, from the mean
 * magnitude. */
static float conventional_scale(const struct low_spec *s, const float *x) {
    if (!s->binary) return enc_f16(fabsf(enc_absmax(x, s->n)));
    double sum = 0;
    for (int i = 0; i < s->n; i++) sum += (double)fabsf(x[i]);
    return enc_f16((float)(sum / s->n));
}

/* Searches scales for a lower weighted error. *best: initial result on entry, best one on
 * return. */
static void improve_block(const struct low_spec *s, const float *x, const float *w,
                          enum search search, struct low_block *best) {
    const float top = enc_absmax(x, s->n);
    const int n = s->binary ? 1 : search == SEARCH_BEST ? 41 : 11, ends = s->hi == -s->lo ? 1 : 2;
    double least = code_error(s, x, w, best->d, best->l);
    for (int t = 0; t < n * ends; t++) {
        struct low_block b;
        float reach = n == 1 ? 1 : 0.3f + (float)(t % n) / (float)(n - 1);
        b.d = enc_f16(top / (float)(t < n ? s->hi : s->lo) / reach);
        for (int r = 0; r < 8 && b.d != 0; r++) {
            round_codes(s, x, b.d, b.l);
            double e = code_error(s, x, w, b.d, b.l);
            if (e < least) {
                least = e;
                *best = b;
            }
            float d = least_squares(s, x, w, b.l);
            if (d == b.d) break;
            b.d = d;
        }
    }
}

void enc_low_row(const struct low_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct low_block *b)) {
    const struct wrule rule = enc_wrule(s->type, search);
    const int bytes = qtype_info(s->type)->block_bytes;
    float b[LOW_MAX], w[LOW_MAX];
    for (int64_t i = 0; i < n / s->n; i++) {
        struct low_block out;
        memset(&out, 0, sizeof out);
        if (enc_load(b, x + i * s->n, s->n, 65504.0f)) {
            enc_weights(w, b, imp ? imp + i * s->n : NULL, s->n, &rule, enc_mean2(b, s->n), s->n);
            out.d = conventional_scale(s, b);
            round_codes(s, b, out.d, out.l);
            if (search != SEARCH_CONVENTIONAL) improve_block(s, b, w, search, &out);
        }
        pack((uint8_t *)dst + i * bytes, &out);
    }
}
