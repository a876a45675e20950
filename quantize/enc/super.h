// SPDX-License-Identifier: MIT
/* quantize/enc/super.h - the three block families whose searches do not know bit layouts: each
 * type's file supplies a spec and packs the raw blocks (raw.h) that the search returns. */
#ifndef HONE_QUANTIZE_ENC_SUPER_H
#define HONE_QUANTIZE_ENC_SUPER_H

#include "quantize/enc/fb.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/raw.h"
#include "quantize/enc/search.h"

enum enc_family {
    ENC_AFF, /* 256 weights, x ~ d*sc[k]*q - dmin*mn[k]   (Q2_K, Q4_K, Q5_K) */
    ENC_SYM, /* 256 weights, x ~ d*sc[k]*l                (Q3_K, Q6_K, IQ4_XS) */
    ENC_B32  /* 32 weights, x ~ d*l + m                   (Q4_0 .. Q8_0, IQ4_NL; m: Q4_1, Q5_1) */
};
/* Codes iscale*(x - lo), with iscale = (rmin + rdelta*k + qmax)/(hi - lo) and k = 0..nstep. */
struct aff_grid {
    float rmin, rdelta;
    int nstep;
};
struct enc_spec {
    enum qtype type;
    enum enc_family family;
    int sub;          /* weights per scale: 16 or 32 */
    struct levels lv; /* levels of the codes; ENC_AFF: 0..largest */
    int sc_lo, sc_hi; /* range of sub-scales and sub-minima */
    bool affine;      /* ENC_B32: has a minimum */
    bool by_largest;  /* ENC_B32: conventional d puts the largest weight on the last level */
    /* ENC_AFF: conventional grids with and without importance, and whether the latter minimizes the
     * absolute error. */
    struct aff_grid imp, plain;
    bool plain_abs;
};
/* Returns the magnitude to which a type's search clamps weights: its largest code and sub-scale at
 * d = 65504; with a minimum, that at dmin = 65504. */
ENC_INLINE float enc_spec_limit(const struct enc_spec *s) {
    const float sub = s->family == ENC_B32 ? 1 : (float)s->sc_hi;
    return 65504.0f * sub * (s->family == ENC_AFF || s->affine ? 1.0f : (float)s->lv.hi);
}

/* How to search blocks. */
struct enc_how {
    const struct enc_spec *s;
    enum search search;
    struct wrule conv, rule; /* search weights: conventional search; current mode */
    float row_mean2;         /* mean of x^2 over the row, for rules of that scope */
};
/* Returns the search options of a type, with the rules set and row_mean2 0. */
struct enc_how enc_how_of(const struct enc_spec *s, enum search search);
/* Returns whether a rule needs the mean of the row when there is importance. */
bool enc_needs_row_mean2(const struct enc_how *h);

/* c[i][j] += the sum over p < k, in ascending order, of a[i][p] b[p][j], for i < m and j < n.
 * Rows are lda, ldb and ldc apart. turned: b[j][p] instead of b[p][j]. */
struct enc_product {
    float *c;
    const float *a, *b;
    int64_t ldc, lda, ldb, m, k, n;
    bool turned;
};

/* Eight trials of a sub-block's integers in error feedback (feedback_open.c), one per lane. */
struct enc_ints {
    int sub; /* weights, a multiple of 8 */
    struct levels lv;
    const float *s, *r; /* column scales; R of the sub-block, rows ldr apart */
    int64_t ldr;
    const float *x[8], *u[8], *g[8]; /* of each lane's row, starting at the sub-block */
    float step[8], base[8];          /* the trial's weights are step * l + base */
    /* Results: the changes of u, the codes, and the change of the error. If the step is 0, codes
     * are arbitrary. */
    float du[ENC_SUB][8];
    int8_t l[8][ENC_SUB];
    double e[8];
};

/* Loops over weights, compiled once per instruction set (lanes.c); all give the same bits. */
enum { FACTOR_COLUMNS = 64, FACTOR_ROWS = 12 };
struct enc_lanes {
    /* Searches n_blocks blocks of x and stores raw blocks in o; indexed by enum enc_family. */
    void (*open[3])(const struct enc_how *h, const float *x, const float *imp, int64_t n_blocks,
                    struct enc_raw *o);
    /* Encodes a super-block of a grid type. */
    void (*grid)(const struct grid_how *h, const float *x, const float *imp, struct grid_block *b);
    /* Implementations of enc_load, enc_weights and enc_mean2. */
    bool (*load)(float *dst, const float *x, int n, float limit);
    void (*weights)(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                    float mean2, int sub);
    float (*mean2)(const float *x, int64_t n);
    /* Adds the sum of imp*x*x to sums[0] and the sum of imp*x*x^ to sums[1]. imp NULL: 1. */
    void (*balance)(const struct enc_raw *o, const float *x, const float *imp, double sums[2]);
    void (*round_f16)(float v[8]); /* rounds each like enc_f16, but never to -0; for tests */
    /* Returns the position, in a list of GRID_AROUND entries with levels lev [per][GRID_AROUND], of
     * the entry whose levels L minimize the sum over i < per of L_i * (sum_{k<=i} q_ki L_k - p_i);
     * the first in a tie. q is [8][8]. */
    int (*around)(const int8_t *lev, int per, const float *q, const float *p);
    /* Solves FACTOR_ROWS rows against the lower triangle l, whose rows are ld apart: x[q]
     * becomes (x[q] - sum over k < q of x[k] l[q][k]) / l[q][q]. x is
     * [FACTOR_COLUMNS][FACTOR_ROWS]. */
    void (*panel)(double *x, const double *l, int64_t ld);
    /* Subtracts the inner products of FACTOR_ROWS rows, in the layout of `panel`, with each of two
     * rows from to[0] and to[1], which have FACTOR_ROWS elements. */
    void (*trail)(const double *x, const double *const row[2], double *const to[2]);
    void (*product)(const struct enc_product *o);
    /* Adds to y[cols] the sum over i < n of a[i] times row i of b, in ascending order, without rows
     * where a[i] is 0. n is at most FB_WINDOW. */
    void (*add_rows)(float *y, const float *b, int64_t ldb, const float *a, int n, int cols);
    /* Error feedback within one block (lanes_fb.h). fb_ints takes as many rows as
     * have their trials in eight lanes: one with minima, else four. */
    void (*fb_choose)(const struct fb_cols *f, struct fb_row *r, struct enc_raw *o, const float *y,
                      int64_t c0);
    void (*fb_ints)(const struct fb_cols *f, struct fb_row *row, int rows, struct enc_raw *o,
                    int64_t c0, struct enc_ints *trial);
    void (*fb_units)(const struct fb_cols *f, const struct enc_raw *o, float *a, float *b,
                     int64_t c0);
    void (*fb_scales)(const struct fb_cols *f, struct fb_row *r, struct enc_raw *o, float *a,
                      float *ra, const float *b, const float *rb, int64_t c0);
    void (*fb_codes)(const struct fb_cols *f, struct fb_row *r, struct enc_raw *o, int64_t c0);
    void (*fb_weigh)(const struct fb_row *r, enum fb_stage stage, double sums[2]);
    /* Chooses the nearest codes for each trial, then makes one descent sweep within the sub-block;
     * for tests. */
    void (*ints)(struct enc_ints *o);
    /* Returns the sum of a[i] b[i], n a multiple of 8, in double and in eight partial sums. */
    double (*dot)(const float *a, const float *b, int64_t n);
};
extern const struct enc_lanes enc_lanes_base, enc_lanes_avx2;
const struct enc_lanes *enc_lanes(void); /* selected by enc_use() */
extern const float enc_iq4_level[512];   /* level nearest to v, at trunc(256 - 2v) */

#endif
