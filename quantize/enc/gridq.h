// SPDX-License-Identifier: MIT
/* quantize/enc/gridq.h - the family of the IQ1, IQ2 and IQ3 formats: 256 weights, magnitudes from a
 * grid of level vectors, signs apart. Searched without knowledge of bit layouts: the type's file
 * packs. x ~ d * unit * (2*sc + 1) * level * sign. IQ1 has no signs: its levels -8, 0, 8 are signed
 * and shifted by +-1; entries n.. are the first n shifted down. */
#ifndef HONE_QUANTIZE_ENC_GRIDQ_H
#define HONE_QUANTIZE_ENC_GRIDQ_H

#include "quantize/enc/search.h"

enum { GRID_MAX = 4096 /* entries */, GRID_SUBS = 16, GRID_ENTRIES = 64 };

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
    /* The conventional search tries scales -t..t of `step`, neighbours within `shells`
     * distances, and multiplies d by `fudge`. */
    int t, shells;
    float step, fudge;
};
struct grid_block {
    float d; /* exact f16 value */
    uint8_t sc[GRID_SUBS];
    uint16_t index[GRID_ENTRIES]; /* of every `per` weights */
    uint8_t sign[32];             /* of every 8 weights; bit set: negative */
};
ENC_INLINE int grid_n(const struct grid_spec *s) { /* entries, shifted ones too */
    return s->shift == SHIFT_NONE ? s->n : 2 * s->n;
}
/* Ways to do a sub-block: a choice of entries each, s->n apart. */
ENC_INLINE int grid_ways(const struct grid_spec *s) {
    return s->shift == SHIFT_SUB ? 2 : 1;
}
ENC_INLINE bool odd_bits(unsigned v) { /* of 8 */
    v ^= v >> 4;
    v ^= v >> 2;
    return (v ^ v >> 1) & 1;
}

/* How blocks are searched. */
struct near_table;
struct grid_how {
    const struct grid_spec *s;
    enum search search;
    struct wrule conv, rule;       /* weights of the conventional search, and of the mode */
    const float *lev;              /* levels, [element][GRID_MAX] */
    int low;                       /* entry of least magnitudes */
    const struct near_table *near; /* NULL where the mode has no conventional search */
};
/* A super-block in natural order. */
struct grid_data {
    float x[QK], w[QK];   /* weights and search weights */
    float wa[QK];         /* w * what levels are fitted to: |x|, or x where levels have signs */
    float top[GRID_SUBS]; /* largest magnitude of each sub-block */
    uint8_t sign[QK / 8]; /* of every 8 weights, as they are */
};

/* Returns the row of the table of specs. Its index is private to the search. */
const struct grid_spec *grid_spec_of(enum qtype t);
/* Returns how a type is searched, with all filled in. lev and near are the host's, made at first
 * use and never freed. */
struct grid_how grid_how_of(enum qtype t, enum search search);
/* Puts what a device needs of the tables into one piece: the levels, then, where how->near is
 * not NULL, start, list and code. Returns its bytes. `to` is where they go; NULL: they are only
 * counted. */
uint64_t enc_grid_tables(const struct grid_how *how, void *to);
void enc_grid_row(enum qtype t, const float *x, const float *imp, int64_t n, void *dst,
                  enum search search, void (*pack)(void *blk, const struct grid_block *b));
/* Multiplies the d of a row's blocks, as encoded from x, so that the importance-weighted product of
 * the row with itself is kept: enc_row_balanced of these types. */
void enc_grid_balance(enum qtype t, const float *x, const float *imp, int64_t n, void *blocks);
/* Levels of entry g. */
const int8_t *grid_levels(const struct grid_spec *s, int g);

/* For the conventional searches: entries near vectors of level numbers that are none. */
struct near_table {
    const int32_t *start; /* per code: >= 0 grid entry, else -1 - offset into list */
    const uint16_t *list; /* count, entries */
    uint8_t (*code)[8];   /* level numbers of each entry */
    int32_t n_start, n_list, n_code;
};
ENC_INLINE int grid_bits(const struct grid_spec *s) {
    return s->n_level == 3 ? 2 : 3;
}
/* Returns the table, which is made at first use and never freed. A code has grid_bits bits per
 * weight. */
const struct near_table *enc_grid_near(enum qtype t);

#endif
