// SPDX-License-Identifier: MIT
/* quantize/feedback_open.c - error feedback for blocks with one code per weight (enc/raw.h). */
#include "quantize/enc/super.h"
#include "quantize/feedback_kind.h"

enum { TILE = 8 }; /* rows searched together */

/* Chooses the codes of one row's block, whose scales were fitted to the targets y. */
static void choose_codes(const struct feedback *fb, struct fb_row *r, struct enc_raw *o,
                         const float *y, int64_t c0, int n) {
    const struct factor *f = fb->f;
    for (int i = 0; i < n; i++) {
        int64_t c = c0 + i, b0 = c / f->block * f->block;
        int64_t stop = min_i64(c0 + n, min_i64(f->n, b0 + f->block));
        float t = fb_target(r->x[c], r->acc[c], fb->s[c]);
        if (t != y[i]) o->l[i] = enc_raw_nearest(o, i / o->sub, i, t);
        r->u[c] = fb->s[c] * (r->x[c] - enc_raw_value(o, i));
        axpy(r->acc + c + 1, f->m + c * f->block + (c + 1 - b0), r->u[c], stop - c - 1);
    }
}

/* Blocks of 32 are searched eight rows side by side, a lane each. */
static void pass(const struct feedback *fb, struct fb_row *row, int rows, void *blocks, int64_t c0,
                 int n) {
    struct enc_raw *o = blocks;
    float y[TILE * QK], d[TILE * QK];
    for (int k = 0; k < (int)min_i64(rows, TILE); k++)
        for (int i = 0; i < n; i++) d[k * n + i] = fb->imp[c0 + i] * fb->f->diag[c0 + i];
    for (int at = 0; at < rows; at += TILE) {
        const int m = (int)min_i64(rows - at, TILE);
        for (int k = 0; k < m; k++)
            for (int i = 0; i < n; i++) {
                const struct fb_row *r = &row[at + k];
                y[k * n + i] = fb_target(r->x[c0 + i], r->acc[c0 + i], fb->s[c0 + i]);
            }
        enc_raw_blocks(fb->enc->blocks, y, d, m, fb->search, 0, o + at);
        for (int k = 0; k < m; k++) choose_codes(fb, &row[at + k], &o[at + k], y + k * n, c0, n);
    }
}

static void descend_codes(const struct feedback *fb, struct fb_row *r, struct enc_raw *o,
                          int64_t c0) {
    for (int i = 0; i < o->n; i++) {
        int64_t c = c0 + i;
        float want = r->x[c] - (r->u[c] - r->g[c]) / fb->s[c];
        if (!(fabsf(want) < 1e30f)) continue;
        int8_t old = o->l[i];
        o->l[i] = enc_raw_nearest(o, i / o->sub, i, want);
        if (o->l[i] == old) continue;
        float u = fb->s[c] * (r->x[c] - enc_raw_value(o, i)), du = u - r->u[c];
        if (!(du * (du + 2 * r->g[c]) < 0)) {
            o->l[i] = old;
            continue;
        }
        r->u[c] = u;
        fb_moved(fb->f, r, c, du);
    }
}

/* Fits (d, m) by least squares to the current codes and integers, and keeps the result if it
 * lowers the error. */
static void refit(const struct feedback *fb, struct fb_row *r, struct enc_raw *o, int64_t c0) {
    float a[QK] = {0}, b[QK] = {0}, ra[QK], rb[QK] = {0};
    double aa = 0, ab = 0, bb = 0, ag = 0, bg = 0;
    for (int i = 0; i < o->n; i++) {
        int k = i / o->sub;
        a[i] = fb->s[c0 + i] * (float)o->sc[k] * (float)o->l[i];
        b[i] = fb->s[c0 + i] * o->m_sign * (float)o->mn[k];
    }
    fb_times_r(fb->f, ra, a, c0, o->n);
    if (o->m_sign != 0) fb_times_r(fb->f, rb, b, c0, o->n);
    for (int i = 0; i < o->n; i++) {
        aa += (double)a[i] * (double)ra[i];
        ab += (double)b[i] * (double)ra[i];
        bb += (double)b[i] * (double)rb[i];
        ag += (double)a[i] * (double)r->g[c0 + i];
        bg += (double)b[i] * (double)r->g[c0 + i];
    }
    double det = aa * bb - ab * ab, dd = 0, dm = 0;
    if (aa > 0 && bb > 0 && det > 1e-9 * aa * bb) {
        dd = (ag * bb - bg * ab) / det;
        dm = (bg * aa - ag * ab) / det;
    } else if (aa > 0) {
        dd = ag / aa;
    }
    struct enc_raw t = *o;
    t.d = enc_f16((float)((double)o->d + dd));
    t.m = enc_f16((float)((double)o->m + dm));
    if (t.d == 0 || (t.d == o->d && t.m == o->m)) return;
    /* From here on, a is the change of u. */
    for (int i = 0; i < o->n; i++)
        a[i] = fb->s[c0 + i] * (r->x[c0 + i] - enc_raw_value(&t, i)) - r->u[c0 + i];
    fb_times_r(fb->f, ra, a, c0, o->n);
    if (!(fb_change(r, a, ra, c0, o->n) < 0)) return;
    fb_accept(fb->f, r, a, c0, o->n);
    *o = t;
}

/* Tries sub-block k with the integers in *t: takes the codes nearest to the current values, then
 * makes one descent sweep within the sub-block. Stores codes in t, changes of u in du. Returns
 * the change of the error. */
static double try_ints(const struct feedback *fb, const struct fb_row *r, struct enc_raw *t, int k,
                       int64_t c0, float *du) {
    int first = k * t->sub;
    int64_t c = c0 + first;
    float rdu[ENC_SUB] = {0};
    for (int i = 0; i < t->sub; i++) {
        float now = r->x[c + i] - r->u[c + i] / fb->s[c + i];
        t->l[first + i] = enc_raw_nearest(t, k, first + i, now);
        du[i] = fb->s[c + i] * (r->x[c + i] - enc_raw_value(t, first + i)) - r->u[c + i];
    }
    fb_times_r(fb->f, rdu, du, c, t->sub);
    for (int i = 0; i < t->sub; i++) {
        float nu = r->u[c + i] + du[i], g = r->g[c + i] + rdu[i];
        float want = r->x[c + i] - (nu - g) / fb->s[c + i];
        if (!(fabsf(want) < 1e30f)) continue;
        int8_t old = t->l[first + i];
        t->l[first + i] = enc_raw_nearest(t, k, first + i, want);
        if (t->l[first + i] == old) continue;
        float u = fb->s[c + i] * (r->x[c + i] - enc_raw_value(t, first + i));
        axpy(rdu, fb_corr(fb->f, c, i), u - nu, t->sub);
        du[i] = u - r->u[c + i];
    }
    return fb_change(r, du, rdu, c, t->sub);
}

static void descend_ints(const struct feedback *fb, struct fb_row *r, struct enc_raw *o,
                         int64_t c0) {
    static const int8_t move[8][2] = {{1, 0}, {-1, 0},  {0, 1},  {0, -1},
                                      {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    if (o->sc_lo == o->sc_hi || o->d == 0) return;
    int n_moves = o->mn_hi ? 8 : 2;
    struct enc_raw t = *o; /* differs from *o in one sub-block at a time */
    for (int k = 0; k < o->n / o->sub; k++) {
        float best_du[ENC_SUB] = {0}, du[ENC_SUB] = {0};
        int8_t best_l[ENC_SUB] = {0}, *l = t.l + k * o->sub;
        size_t sub = (size_t)o->sub;
        int best = -1;
        double best_e = 0;
        for (int m = 0; m < n_moves; m++) {
            int sc = o->sc[k] + move[m][0], mn = o->mn[k] + move[m][1];
            if (sc < o->sc_lo || sc > o->sc_hi || mn < 0 || (o->mn_hi && mn > o->mn_hi)) continue;
            t.sc[k] = (int16_t)sc;
            t.mn[k] = (int16_t)mn;
            double e = try_ints(fb, r, &t, k, c0, du);
            if (!(e < best_e)) continue;
            best_e = e;
            best = m;
            memcpy(best_du, du, sizeof du);
            memcpy(best_l, l, sub);
        }
        if (best >= 0) {
            fb_accept(fb->f, r, best_du, c0 + (int64_t)k * o->sub, o->sub);
            memcpy(o->l + k * o->sub, best_l, sub);
            o->sc[k] = (int16_t)(o->sc[k] + move[best][0]);
            o->mn[k] = (int16_t)(o->mn[k] + move[best][1]);
        }
        t.sc[k] = o->sc[k];
        t.mn[k] = o->mn[k];
        memcpy(l, o->l + k * o->sub, sub);
    }
}

/* Changes integers, scales and codes of the block where that lowers the row's error. */
static void descend(const struct feedback *fb, struct fb_row *r, void *block, int64_t c0,
                    int round) {
    struct enc_raw *o = block;
    (void)round;
    if (fb->steps & FEEDBACK_INTS) descend_ints(fb, r, o, c0);
    if (fb->steps & FEEDBACK_SCALES) refit(fb, r, o, c0);
    if (fb->steps & FEEDBACK_CODES) descend_codes(fb, r, o, c0);
}
static void rescale(void *block, double gain) {
    enc_rescale_block(block, gain);
}
static void close_block(const struct feedback *fb, const void *block, void *dst) {
    fb->enc->blocks->pack(block, dst);
}

const struct fb_kind fb_kind_open = {sizeof(struct enc_raw), pass, descend, rescale, close_block};
