// SPDX-License-Identifier: MIT
/* quantize/feedback_open.c - error feedback for blocks with one code per weight (enc/raw.h). */
#include "quantize/enc/super.h"
#include "quantize/feedback_kind.h"

enum { TILE = 8 }; /* rows searched together */

/* Returns the moments of the rows' columns in the form of the lanes. */
static struct fb_cols cols_of(const struct feedback *fb) {
    const struct factor *f = fb->f;
    return (struct fb_cols){f->n, f->block, f->r, f->m, f->diag, fb->imp, fb->s};
}

/* Searches eight rows together, so that blocks of 32 fill all lanes. */
static void pass(const struct feedback *fb, struct fb_row *row, int rows, void *blocks, int64_t c0,
                 int n) {
    const struct fb_cols f = cols_of(fb);
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
        for (int k = 0; k < m; k++)
            enc_lanes()->fb_choose(&f, &row[at + k], &o[at + k], y + k * n, c0);
    }
}

/* Fits (d, m) of the blocks of up to FB_REFIT rows to the current codes and integers by least
 * squares, and keeps the result where it lowers the error. */
static void refit(const struct feedback *fb, const struct fb_cols *f, struct fb_row *row, int rows,
                  struct enc_raw *o, int64_t c0) {
    const struct enc_lanes *lanes = enc_lanes();
    float a[FB_REFIT][QK], ra[FB_REFIT][QK], b[FB_REFIT][QK], rb[FB_REFIT][QK];
    for (int k = 0; k < rows; k++) lanes->fb_units(f, &o[k], a[k], b[k], c0);
    fb_times_rows(fb->f, ra, a, rows, c0, o->n);
    if (o->m_sign != 0) fb_times_rows(fb->f, rb, b, rows, c0, o->n);
    for (int k = 0; k < rows; k++)
        lanes->fb_scales(f, &row[k], &o[k], a[k], ra[k], b[k], rb[k], c0);
}

/* Tries neighbors of the integers of each sub-block. */
static void descend_ints(const struct fb_cols *f, struct fb_row *row, int rows, struct enc_raw *o,
                         int64_t c0) {
    const int together = o->mn_hi ? 1 : 4;
    struct enc_ints trial;
    if (o->sc_lo == o->sc_hi) return;
    for (int r = 0; r < rows; r += together)
        enc_lanes()->fb_ints(f, row + r, (int)min_i64(together, rows - r), o + r, c0, &trial);
}

/* Changes integers, scales and codes of the rows' blocks where that lowers their errors. */
static void descend(const struct feedback *fb, struct fb_row *row, int rows, void *blocks,
                    int64_t c0) {
    const struct fb_cols f = cols_of(fb);
    struct enc_raw *o = blocks;
    if (fb->steps & FEEDBACK_INTS) descend_ints(&f, row, rows, o, c0);
    for (int k = 0; k < rows && fb->steps & FEEDBACK_SCALES; k += FB_REFIT)
        refit(fb, &f, row + k, (int)min_i64(rows - k, FB_REFIT), o + k, c0);
    for (int k = 0; k < rows && fb->steps & FEEDBACK_CODES; k++)
        enc_lanes()->fb_codes(&f, &row[k], &o[k], c0);
}
static void rescale(void *block, double gain) {
    enc_rescale_block(block, gain);
}
/* Packs the finished block into dst in its type's format. */
static void close_block(const struct feedback *fb, const void *block, void *dst) {
    fb->enc->blocks->pack(block, dst);
}

const struct fb_kind fb_kind_open = {sizeof(struct enc_raw), pass, descend, rescale, close_block};
