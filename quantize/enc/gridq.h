// SPDX-License-Identifier: MIT
/* quantize/enc/gridq.h - the IQ1, IQ2 and IQ3 family: 256 weights, with magnitudes from a grid of
 * level vectors and separate signs.
 *
 * The search does not know bit layouts; each type's file packs. x ~ d * unit * (2*sc + 1) * level *
 * sign. IQ1 has no separate signs: its levels -8, 0, 8 are signed and shifted by +-1, and the
 * entries after the first n are the same ones shifted down. */
#ifndef HONE_QUANTIZE_ENC_GRIDQ_H
#define HONE_QUANTIZE_ENC_GRIDQ_H

#include "quantize/enc/search.h"

enum { GRID_MAX = 4096 /* entries */, GRID_SUBS = 16, GRID_ENTRIES = 64 };

enum grid_shift {
    SHIFT_NONE,
    SHIFT_SUB,  /* one shift for all entries of a sub-block */
    SHIFT_ENTRY /* one shift per entry */
};
struct grid_spec {
    enum qtype type;
    int sub;     /* weights per sub-scale: 16 or 32 */
    int per;     /* weights per grid entry: 4 or 8 */
    int n;       /* grid entries (2 * n with shifts); entry 0 has the lowest levels */
    int n_level; /* 3 or 8 */
    bool parity; /* each group of 8 has an even number of minus signs */
    enum grid_shift shift;
    int sc_max;      /* largest integer scale */
    float unit, top; /* top: largest level */
    /* Conventional search: tries scales -t..t of `step` and neighbors within `shells` distances,
     * then multiplies d by `fudge`. */
    int t, shells;
    float step, fudge;
};
struct grid_block {
    float d; /* exact f16 value */
    uint8_t sc[GRID_SUBS];
    uint16_t index[GRID_ENTRIES]; /* one per `per` weights */
    uint8_t sign[32];             /* one per 8 weights; bit set: negative */
};
ENC_INLINE int grid_n(const struct grid_spec *s) { /* including shifted ones */
    return s->shift == SHIFT_NONE ? s->n : 2 * s->n;
}
/* Returns the number of variants of a sub-block; their entries are s->n apart. */
ENC_INLINE int grid_ways(const struct grid_spec *s) {
    return s->shift == SHIFT_SUB ? 2 : 1;
}
/* Returns the magnitude to which the search clamps weights: its largest value at d = 65504. */
ENC_INLINE float grid_limit(const struct grid_spec *s) {
    return 65504.0f * s->unit * (float)(2 * s->sc_max + 1) * s->top;
}
ENC_INLINE bool odd_bits(unsigned v) { /* of 8 bits */
    v ^= v >> 4;
    v ^= v >> 2;
    return (v ^ v >> 1) & 1;
}

/* How to search blocks. */
struct near_table;
struct grid_how {
    const struct grid_spec *s;
    enum search search;
    struct wrule conv, rule;       /* search weights: conventional search; current mode */
    const float *lev;              /* levels, [element][GRID_MAX] */
    int low;                       /* entry with the smallest magnitudes */
    const struct near_table *near; /* NULL: the current mode runs no conventional search */
};
/* A super-block's weights in natural order. */
struct grid_data {
    float x[QK], w[QK];   /* weights and search weights */
    float wa[QK];         /* w * |x|, or w * x if levels have signs */
    float top[GRID_SUBS]; /* largest magnitude per sub-block */
    uint8_t sign[QK / 8]; /* per 8 weights, as given */
};

/* Returns the type's row in the table of specs; its index is private to the search. NULL: the type
 * is not a grid type. */
const struct grid_spec *grid_spec_of(enum qtype t);
/* Returns the search options of a type. lev and near point to host tables, built on first use and
 * never freed. */
struct grid_how grid_how_of(enum qtype t, enum search search);
/* Writes the tables that a device needs to `to`: the levels, then, if how->near is not NULL, start,
 * list and code. Returns their size in bytes. `to` NULL: returns only the size. */
uint64_t enc_grid_tables(const struct grid_how *how, void *to);
/* Encodes n values, whole blocks. pack: writes the block found in the type's format. imp may be
 * NULL. */
void enc_grid_row(enum qtype t, const float *x, const float *imp, int64_t n, void *dst,
                  enum search search, void (*pack)(void *blk, const struct grid_block *b));
/* Multiplies d in a row's blocks, encoded from x, so that the importance-weighted product of the
 * row with itself is preserved, as enc_row_balanced does for other types. */
void enc_grid_balance(enum qtype t, const float *x, const float *imp, int64_t n, void *blocks);
/* Returns the levels of entry g. */
const int8_t *grid_levels(const struct grid_spec *s, int g);

/* For conventional searches: grid entries near vectors of level numbers that are not on the
 * grid. */
struct near_table {
    const int32_t *start; /* per code: the grid entry if >= 0, else -1 - offset in `list` */
    const uint16_t *list; /* count, entries */
    uint8_t (*code)[8];   /* level numbers per entry */
    int32_t n_start, n_list, n_code;
};
ENC_INLINE int grid_bits(const struct grid_spec *s) {
    return s->n_level == 3 ? 2 : 3;
}
/* Returns the table, which is built on first use and never freed. A code has grid_bits bits per
 * weight. */
const struct near_table *enc_grid_near(enum qtype t);

/* For descent in error feedback: the GRID_AROUND entries with the least distance from each entry,
 * itself included, in ascending order. Entries that may not replace it (other shifts of a
 * sub-block) are not listed. */
enum { GRID_AROUND = 128 };
struct grid_around {
    uint16_t (*entry)[GRID_AROUND]; /* [grid_n] */
    int8_t *lev;                    /* their levels, [grid_n][per][GRID_AROUND] */
};
/* Returns the lists of a type, which are built on first use and never freed. */
const struct grid_around *enc_grid_around(enum qtype t);

#endif
