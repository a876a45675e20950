// SPDX-License-Identifier: MIT
/* quantize/enc/gridq.h - the family of the IQ1, IQ2 and IQ3 formats: 256 weights, magnitudes from a
 * grid of level vectors, signs apart. Searched without knowledge of bit layouts: the type's file
 * packs. x ~ d * unit * (2*sc + 1) * level * sign. IQ1 has no signs: its levels -8, 0, 8 are signed
 * and shifted by +-1; entries n.. are the first n shifted down. */
#ifndef HONE_QUANTIZE_ENC_GRIDQ_H
#define HONE_QUANTIZE_ENC_GRIDQ_H

#include "quantize/enc/search.h"

enum { GRID_MAX = 4096 /* entries */, GRID_SUBS = 16, GRID_ENTRIES = 64 };

struct grid_block;
enum grid_shift {
    SHIFT_NONE,
    SHIFT_SUB,  /* all entries of a sub-block are shifted the same way */
    SHIFT_ENTRY /* each its own way */
};
struct grid_spec {
    enum qtype type;
    int sub;     /* weights under one sub-scale: 16 or 32 */
    int per;     /* weights of a grid entry: 4 or 8 */
    int n;       /* grid entries; entry 0 has the lowest level everywhere. SHIFT: twice that */
    int n_level; /* 3 or 8 */
    bool parity; /* the number of minus signs in each group of 8 is even */
    enum grid_shift shift;
    int sc_max;      /* largest integer scale */
    float unit, top; /* top: largest level */
    /* conventional search: trials -t..t of `step`, neighbours within `shells` distances, d*fudge */
    void (*conventional)(const struct grid_spec *s, const float *x, const float *w,
                         struct grid_block *b);
    int t, shells;
    float step, fudge;
};
struct grid_block {
    float d; /* exact f16 value */
    uint8_t sc[GRID_SUBS];
    uint16_t index[GRID_ENTRIES]; /* of every `per` weights */
    uint8_t sign[32];             /* of every 8 weights; bit set: negative */
};
/* The table of specs; index is private to the search. */
const struct grid_spec *grid_spec_of(enum qtype t);
void enc_grid_row(enum qtype t, const float *x, const float *imp, int64_t n, void *dst,
                  enum search search, void (*pack)(void *blk, const struct grid_block *b));
/* Multiplies the d of a row's blocks, as encoded from x, so that the importance-weighted product of
 * the row with itself is kept: enc_row_balanced of these types. */
void enc_grid_balance(enum qtype t, const float *x, const float *imp, int64_t n, void *blocks);
/* Levels of entry g. */
const int8_t *grid_levels(const struct grid_spec *s, int g);
/* The field's usual search, one block. x, w: 256. */
void enc_grid_conventional(const struct grid_spec *s, const float *x, const float *w,
                           struct grid_block *b);
void enc_iq1_conventional(const struct grid_spec *s, const float *x, const float *w,
                          struct grid_block *b);

/* For the conventional searches: entries near vectors of level numbers that are none. */
struct near_table {
    const struct grid_spec *s;
    int32_t *start;            /* per code: >= 0 grid entry, else -1 - offset into list */
    uint16_t *list;            /* count, entries */
    uint8_t code[GRID_MAX][8]; /* level numbers of each entry */
};
/* Made at first use; never freed. A code has 2 (three levels) or 3 bits per weight. */
const struct near_table *enc_grid_near(enum qtype t);
/* Tests only: keeps to the code every machine runs (the result must not change). */
void enc_grid_plain(bool plain);

#endif
