// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_fb.h - error feedback within one block of one row, for blocks with one code
 * per weight (raw.h): the parts that the CPU (../feedback_open.c) and a device (cuda/feedback.cu)
 * share. Matrix products over rows are separate.
 *
 * All lanes work on one row: lane k has columns k, k + 8 and so on of a vector over columns. A sum
 * over columns has eight parts, one per lane. */
#ifndef HONE_QUANTIZE_ENC_LANES_FB_H
#define HONE_QUANTIZE_ENC_LANES_FB_H

#include "quantize/enc/fb.h"
#include "quantize/enc/lanes_ints.h"

INLINE float fb_value(const struct enc_raw *o, int k, int8_t code) {
    return enc_raw_step(o, k) * (float)code + enc_raw_base(o, k);
}
/* Returns the code nearest to x in sub-block k, or `code` if the step is zero. */
INLINE int8_t fb_nearest(const struct enc_raw *o, int k, int8_t code, float x) {
    const float step = enc_raw_step(o, k);
    if (step == 0) return code;
    const float v = enc_clampf((x - enc_raw_base(o, k)) / step, (float)o->lv.lo, (float)o->lv.hi);
    return (int8_t)(o->lv.tab ? enc_iq4_level[(int)(256.0f - 2.0f * v)] : enc_rint(v));
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Chooses the codes of the block at column c0, whose scales have been fitted to the targets y. */
LANE_FN void fb_choose(const struct fb_cols *f, struct fb_row *r, struct enc_raw *o, const float *y,
                       int64_t c0) {
    for (int i = 0; i < o->n; i++) {
        const int64_t c = c0 + i;
        const int k = i / o->sub;
        const float t = fb_target(r->x[c], r->acc[c], f->s[c]);
        int8_t code = o->l[i];
        if (t != y[i]) code = fb_nearest(o, k, code, t);
        const float u = f->s[c] * (r->x[c] - fb_value(o, k, code));
        lanes_sync();
        if (lane_one()) {
            o->l[i] = code;
            r->u[c] = u;
        }
        /* M is 0 on and below the diagonal, so whole vectors may start before c. */
        const int from = i / LANES * LANES;
        axpyv(r->acc + c0 + from, f->m + c * f->block + c0 % f->block + from, u, o->n - from);
        lanes_sync();
    }
}

/* ---- descent --------------------------------------------------------------------------------- */

/* Returns the sum of a[i] b[i]; n is a multiple of 8. */
LANE_FN double fb_dot(const float *a, const float *b, int64_t n) {
    vd s = to_double(splat(0));
    for (int64_t i = 0; i < n; i += LANES) s += to_double(loadv(a + i)) * to_double(loadv(b + i));
    return total(s);
}

/* Adds du[n] to u, starting at column c of the block at column c0, and R du to g, from the block
 * on. */
INLINE void fb_add(const struct fb_cols *f, struct fb_row *r, const float *du, int64_t c, int n,
                   int64_t c0) {
    lanes_sync();
    for (int i = 0; i < n; i += LANES) storev(r->u + c + i, loadv(r->u + c + i) + loadv(du + i));
    add_rows(r->g + c0, f->r + c * f->block + c0 % f->block, f->block, du, n, (int)(r->w1 - c0));
    lanes_sync();
}

/* Changes single codes of the block as long as that lowers the row's error. This is the last step
 * of a block, so g is kept up to date from the current column on only, in whole vectors. */
LANE_FN void fb_codes(const struct fb_cols *f, struct fb_row *r, struct enc_raw *o, int64_t c0) {
    for (int i = 0; i < o->n; i++) {
        const int64_t c = c0 + i;
        const int k = i / o->sub;
        const float want = r->x[c] - (r->u[c] - r->g[c]) / f->s[c];
        if (!(fabsf(want) < 1e30f)) continue;
        const int8_t code = fb_nearest(o, k, o->l[i], want);
        if (code == o->l[i]) continue;
        const float u = f->s[c] * (r->x[c] - fb_value(o, k, code)), du = u - r->u[c];
        if (!(du * (du + 2 * r->g[c]) < 0)) continue;
        lanes_sync();
        if (lane_one()) {
            o->l[i] = code;
            r->u[c] = u;
        }
        const int64_t from = c0 + i / LANES * LANES;
        axpyv(r->g + from, f->r + c * f->block + from % f->block, du, (int)(r->w1 - from));
        lanes_sync();
    }
}

/* Computes the change of u per unit of d (a) and per unit of m (b) for the block's columns. */
LANE_FN void fb_units(const struct fb_cols *f, const struct enc_raw *o, float *a, float *b,
                      int64_t c0) {
    for (int i = 0; i < o->n; i += LANES) {
        const int k = i / o->sub;
        const vf s = loadv(f->s + c0 + i);
        storev(a + i, s * splat((float)o->sc[k]) * from_bytes(o->l + i));
        storev(b + i, s * splat(o->m_sign) * splat((float)o->mn[k]));
    }
}

/* Fits d and m to the block's codes and integers by least squares, and changes them if that lowers
 * the row's error. a and b are from fb_units; ra and rb are R a and R b. Overwrites a and ra. */
LANE_FN void fb_scales(const struct fb_cols *f, struct fb_row *r, struct enc_raw *o, float *a,
                       float *ra, const float *b, const float *rb, int64_t c0) {
    const int n = o->n;
    const bool two = o->m_sign != 0;
    const double aa = fb_dot(a, ra, n), ag = fb_dot(a, r->g + c0, n),
                 ab = two ? fb_dot(b, ra, n) : 0, bb = two ? fb_dot(b, rb, n) : 0,
                 bg = two ? fb_dot(b, r->g + c0, n) : 0, det = aa * bb - ab * ab;
    double dd = 0, dm = 0;
    if (aa > 0 && bb > 0 && det > 1e-9 * aa * bb) {
        dd = (ag * bb - bg * ab) / det;
        dm = (bg * aa - ag * ab) / det;
    } else if (aa > 0) {
        dd = ag / aa;
    }
    const float d = enc_f16((float)((double)o->d + dd)), m = enc_f16((float)((double)o->m + dm));
    if (d == 0 || (d == o->d && m == o->m)) return;
    /* Now a becomes the change of u, and ra R times that. */
    const vf by_a = splat(o->d - d), by_b = splat(o->m - m);
    lanes_sync();
    for (int i = 0; i < n; i += LANES) {
        const int k = i / o->sub;
        const vf step = splat(d * (float)o->sc[k]), base = splat(o->m_sign * (m * (float)o->mn[k]));
        storev(a + i, loadv(f->s + c0 + i) *
                              (loadv(r->x + c0 + i) - (step * from_bytes(o->l + i) + base)) -
                          loadv(r->u + c0 + i));
        storev(ra + i, by_a * loadv(ra + i) + (two ? by_b * loadv(rb + i) : splat(0)));
    }
    lanes_sync();
    if (!(fb_dot(a, ra, n) + 2 * fb_dot(a, r->g + c0, n) < 0)) return;
    fb_add(f, r, a, c0, n, c0);
    if (!lane_one()) return;
    o->d = d;
    o->m = m;
}

/* Adds one stage of the window's shares of v R v and v R u, v = s x, to the sums of the balance.
 * p is v R over the columns before the window (FB_BEFORE), then over those up to its end. As R is
 * symmetric, both products with v together are the share of v R v. For v R u, g is from before
 * descent in this window. p times the window's change of u adds what the change does to v R u in
 * the columns up to the window's end. */
LANE_FN void fb_weigh(const struct fb_row *r, enum fb_stage stage, double sums[2]) {
    const int64_t w0 = r->w0, n = r->w1 - w0;
    if (stage != FB_AFTER) sums[0] += fb_dot(r->v + w0, r->p, n);
    if (stage == FB_WITHIN) sums[1] += fb_dot(r->v + w0, r->g + w0, n) - fb_dot(r->u + w0, r->p, n);
    if (stage == FB_AFTER) sums[1] += fb_dot(r->u + w0, r->p, n);
}

/* ---- integers -------------------------------------------------------------------------------- */

/* Changes of a sub-block's scale and minimum. Types without minima use the first two. */
enum { FB_MOVES = 8 };
LANE_TABLE(int8_t, fb_move, [FB_MOVES][2]) = {{1, 0}, {-1, 0},  {0, 1},  {0, -1},
                                              {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};

/* Computes the integers of sub-block k after move m. Returns false, with the block's own integers,
 * if the result is outside the type's range. */
INLINE bool fb_moved_to(const struct enc_raw *o, int k, int m, int16_t to[2]) {
    const int sc = o->sc[k] + fb_move[m][0], mn = o->mn[k] + fb_move[m][1];
    const bool ok = !(sc < o->sc_lo || sc > o->sc_hi || mn < 0 || (o->mn_hi && mn > o->mn_hi));
    to[0] = ok ? (int16_t)sc : o->sc[k];
    to[1] = ok ? (int16_t)mn : o->mn[k];
    return ok;
}

/* Applies the move that lowers the error of a row's sub-block k most, given the trials from lane
 * `first` on. */
LANE_FN void fb_take_ints(const struct fb_cols *f, struct fb_row *r, struct enc_raw *o, int k,
                          int64_t c0, const struct enc_ints *trial, int first, int n_moves) {
    const int sub = o->sub;
    float du[ENC_SUB];
    double best_e = 0;
    int16_t to[2];
    /* If the step is 0, any codes will do: keep those of the previous trial (-1: the block's). */
    int best = -1, codes = -1, best_codes = -1;
    for (int m = 0; m < n_moves; m++) {
        if (!fb_moved_to(o, k, m, to)) continue;
        if (trial->step[first + m] != 0) codes = first + m;
        if (!(trial->e[first + m] < best_e)) continue;
        best_e = trial->e[first + m];
        best = m;
        best_codes = codes;
    }
    if (best < 0) return;
    for (int i = 0; i < sub; i++) du[i] = trial->du[i][first + best];
    fb_moved_to(o, k, best, to);
    fb_add(f, r, du, c0 + (int64_t)k * sub, sub, c0);
    if (!lane_one()) return;
    if (best_codes >= 0) memcpy(o->l + k * sub, trial->l[best_codes], (size_t)sub);
    o->sc[k] = to[0];
    o->mn[k] = to[1];
}

/* Returns the number of moves that the block's type has. */
INLINE int fb_moves_of(const struct enc_raw *o) {
    return o->mn_hi ? FB_MOVES : 2;
}

/* Tries neighbors of the integers of each sub-block: eight trials at once, of one row if it has
 * minima, else of up to four rows. */
LANE_FN void fb_ints(const struct fb_cols *f, struct fb_row *row, int rows, struct enc_raw *o,
                     int64_t c0, struct enc_ints *trial) {
    const int n_moves = fb_moves_of(o), sub = o->sub;
    for (int k = 0; k < o->n / sub; k++) {
        const int64_t c = c0 + (int64_t)k * sub;
        lanes_sync();
        LANE_EACH(lane) {
            const int at = lane / n_moves < rows ? lane / n_moves : rows - 1;
            const struct enc_raw *b = &o[at];
            int16_t to[2];
            fb_moved_to(b, k, lane % n_moves, to);
            trial->x[lane] = row[at].x + c;
            trial->u[lane] = row[at].u + c;
            trial->g[lane] = row[at].g + c;
            trial->step[lane] = b->d * (float)to[0];
            trial->base[lane] = b->m_sign * (b->m * (float)to[1]);
        }
        if (lane_one()) {
            trial->sub = sub;
            trial->lv = o->lv;
            trial->s = f->s + c;
            trial->r = fb_corr_of(f, c, 0);
            trial->ldr = f->block;
        }
        lanes_sync();
        ints(trial);
        lanes_sync();
        for (int i = 0; i < rows; i++)
            if (o[i].d != 0) fb_take_ints(f, &row[i], &o[i], k, c0, trial, i * n_moves, n_moves);
    }
}

#endif
