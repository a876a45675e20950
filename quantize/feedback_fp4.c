// SPDX-License-Identifier: MIT
/* quantize/feedback_fp4.c - error feedback for blocks of sixteen-level floats (enc/fp4.h). There
 * are few scale bytes, so scales change step by step and are never fitted. */
#include "quantize/enc/fp4.h"
#include "quantize/feedback_kind.h"

enum { FP4_MAX = 64, FP4_SUBS = 4 };

struct fp4_open {
    uint8_t scale[FP4_SUBS], code[FP4_MAX];
};

/* Returns the decoded value i of an open block. */
static float value_at(const struct enc_fp4 *l, const struct fp4_open *o, int i) {
    return l->step(o->scale[i / l->sub]) * (float)kern_fp4_level[o->code[i]];
}

/* Returns the code nearest to v, or the current code if the step is practically zero. */
static uint8_t nearest(const struct enc_fp4 *l, const struct fp4_open *o, int i, float v) {
    const float step = l->step(o->scale[i / l->sub]);
    return step > 0x1p-126f ? fp4_code(v / step) : o->code[i];
}

/* Encodes columns [c0, c0 + n) of one row; each code is chosen knowing the errors of all columns
 * before it. */
static void pass_row(const struct feedback *fb, struct fb_row *r, struct fp4_open *o, int64_t c0,
                     int n) {
    const struct enc_fp4 *l = fb->enc->fp4;
    const struct factor *f = fb->f;
    float y[FP4_MAX] = {0}, w[FP4_MAX] = {0};
    uint8_t blk[FP4_MAX];
    for (int i = 0; i < n; i++) {
        y[i] = fb_target(r->x[c0 + i], r->acc[c0 + i], fb->s[c0 + i]);
        w[i] = fb->imp[c0 + i] * f->diag[c0 + i];
    }
    fb->enc->row(y, w, n, blk, fb->search);
    l->unpack(blk, o->scale, o->code);
    for (int i = 0; i < n; i++) {
        const int64_t c = c0 + i, b0 = c / f->block * f->block,
                      stop = min_i64(c0 + n, min_i64(f->n, b0 + f->block));
        const float t = fb_target(r->x[c], r->acc[c], fb->s[c]);
        if (t != y[i]) o->code[i] = nearest(l, o, i, t);
        r->u[c] = fb->s[c] * (r->x[c] - value_at(l, o, i));
        axpy(r->acc + c + 1, f->m + c * f->block + (c + 1 - b0), r->u[c], stop - c - 1);
    }
}

/* Encodes one block of n columns, starting at c0, of each row, correcting for earlier columns. */
static void pass(const struct feedback *fb, struct fb_row *row, int rows, void *blocks, int64_t c0,
                 int n) {
    for (int k = 0; k < rows; k++) pass_row(fb, &row[k], (struct fp4_open *)blocks + k, c0, n);
}

/* Tries another scale byte for run k: takes the codes nearest to the current values, then makes a
 * descent sweep within the run. Returns the change of the error; stores the codes in t and the
 * changes of u in du. */
static double try_scale(const struct feedback *fb, const struct fb_row *r, struct fp4_open *t,
                        int64_t c0, int k, float *du) {
    const struct enc_fp4 *l = fb->enc->fp4;
    const int first = k * l->sub;
    const int64_t c = c0 + first;
    float rdu[FP4_MAX];
    for (int i = 0; i < l->sub; i++) {
        t->code[first + i] = nearest(l, t, first + i, r->x[c + i] - r->u[c + i] / fb->s[c + i]);
        du[i] = fb->s[c + i] * (r->x[c + i] - value_at(l, t, first + i)) - r->u[c + i];
    }
    fb_times_r(fb->f, rdu, du, c, l->sub);
    for (int i = 0; i < l->sub; i++) {
        const float now = r->u[c + i] + du[i],
                    want = r->x[c + i] - (now - r->g[c + i] - rdu[i]) / fb->s[c + i];
        if (!(fabsf(want) < 1e30f)) continue;
        t->code[first + i] = nearest(l, t, first + i, want);
        const float u = fb->s[c + i] * (r->x[c + i] - value_at(l, t, first + i));
        if (u == now) continue;
        axpy(rdu, fb_corr(fb->f, c, i), u - now, l->sub);
        du[i] = u - r->u[c + i];
    }
    return fb_change(r, du, rdu, c, l->sub);
}

/* Changes scales and codes of the block where that lowers the row's error. */
static void descend_row(const struct feedback *fb, struct fb_row *r, struct fp4_open *o,
                        int64_t c0) {
    const struct enc_fp4 *l = fb->enc->fp4;
    struct fp4_open best, t;
    const int reach = fb->steps & FEEDBACK_INTS ? 1 : 0;
    if (!(fb->steps & (FEEDBACK_CODES | FEEDBACK_INTS))) return;
    for (int k = 0; k < l->n / l->sub; k++) {
        float best_du[FP4_MAX], du[FP4_MAX];
        double best_e = 0;
        for (int d = -reach; d <= reach; d++) {
            const int scale = o->scale[k] + d;
            if (scale < 0 || scale > l->scale_max) continue;
            t = *o;
            t.scale[k] = (uint8_t)scale;
            const double e = try_scale(fb, r, &t, c0, k, du);
            if (!(e < best_e)) continue;
            best_e = e;
            best = t;
            memcpy(best_du, du, sizeof du);
        }
        if (!(best_e < 0)) continue;
        fb_accept(fb->f, r, best_du, c0 + (int64_t)k * l->sub, l->sub, c0);
        *o = best;
    }
}

/* Improves one finished block of each row, starting at column c0. */
static void descend(const struct feedback *fb, struct fb_row *row, int rows, void *blocks,
                    int64_t c0) {
    for (int k = 0; k < rows; k++) descend_row(fb, &row[k], (struct fp4_open *)blocks + k, c0);
}

/* Packs the block into its type's format. */
static void close_block(const struct feedback *fb, const void *block, void *dst) {
    const struct fp4_open *o = block;
    fb->enc->fp4->pack(dst, o->scale, o->code);
}

/* Scale bytes are too coarse to balance a row. */
const struct fb_kind fb_kind_fp4 = {sizeof(struct fp4_open), pass, descend, NULL, close_block};
