// SPDX-License-Identifier: MIT
/* quantize/learn_codes.c - latents of codes, for the types that enc/unpack.h can unpack. */
#include "quantize/learn_codes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "quantize/enc/super.h"
#include "quantize/enc/unpack.h"

/* Weights that share their signs' parity; attempts to begin at the original weights. */
enum { OCTET = 8, ATTEMPTS = 6 };
/* Largest distance of a latent from its code at the beginning, and past the outer levels; in
 * levels. */
#define EDGE 0.49f
/* Mean distance between the levels of the IQ4 table. */
#define TABLE_GAP 16.0f

struct code {
    float at;   /* latent */
    float mean; /* average of its gradients */
};
struct codes {
    enum qtype type;
    struct code *v; /* [n_blocks][n] */
    float *square;  /* [n_blocks] average of a block's mean squared gradient */
    int n;          /* weights of a block */
    struct grid_how grid;
    const struct grid_around *around; /* NULL: one code per weight */
};

bool learn_can_codes(enum qtype type) {
    return enc_can_unpack(type) || enc_can_unpack_grid(type);
}

int codes_new(struct codes **out, enum qtype type, int64_t n_blocks, struct err *e) {
    void *p = NULL;
    const int n = qtype_info(type)->block_elems;
    TRY(mem_alloc(&p, (uint64_t)(n_blocks * n) * sizeof(struct code), "learned codes", e));
    struct codes *c = xcalloc(1, sizeof *c);
    c->type = type;
    c->v = p;
    c->n = n;
    c->square = xcalloc((size_t)n_blocks, sizeof *c->square);
    if (enc_can_unpack_grid(type)) {
        c->grid = grid_how_of(type, SEARCH_FAST);
        c->around = enc_grid_around(type);
    }
    *out = c;
    return 0;
}

void codes_free(struct codes *c) {
    if (!c) return;
    mem_free(c->v);
    free(c->square);
    free(c);
}

/* Moves a block's latents, whose levels are `level` wide, against their gradients by [n]. Gradients
 * that are not finite are ignored. */
static void move(struct codes *c, int64_t b, const float *by, float level,
                 const struct learn_pace *p) {
    struct code *v = c->v + b * c->n;
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += (double)by[i] * (double)by[i];
    if (!isfinite((float)sum)) return;
    for (int i = 0; i < c->n; i++)
        v[i].mean = (float)KEEP_MEAN * v[i].mean + (float)(1 - KEEP_MEAN) * by[i];
    c->square[b] = (float)(KEEP_SQUARE * (double)c->square[b] + (1 - KEEP_SQUARE) * sum / c->n);
    const double size = sqrt((double)c->square[b] / p->square) * p->mean;
    if (!(size > 0)) return;
    const double rate = p->rate.code * (double)level / size;
    for (int i = 0; i < c->n; i++) v[i].at -= (float)(rate * (double)v[i].mean);
}
/* Returns v, at least lo and at most hi; lo for NaN. */
static float limit(float v, float lo, float hi) {
    return !(v > lo) ? lo : v > hi ? hi : v;
}

/* ---- one code per weight --------------------------------------------------------------------- */

/* Returns the level nearest to v. */
static int level_near(const struct levels *lv, float v) {
    const float in = limit(v, (float)lv->lo, (float)lv->hi);
    return lv->tab ? (int)enc_iq4_level[(int)(256.0F - 2.0F * in)] : (int)lrintf(in);
}
/* Returns the distance from level l to the next lower (-1) or higher (1) one; past the outer
 * levels, the mean distance. */
static float gap(const struct levels *lv, int l, int way) {
    if (!lv->tab) return 1;
    const int to = enc_level_index((float)l) + way;
    return to < 0 || to > 15 ? TABLE_GAP : fabsf((float)(lv->tab[to] - l));
}
static void open_begin(struct code *c, const float *x, const struct enc_raw *o) {
    for (int i = 0; i < o->n; i++) {
        const float step = enc_raw_step(o, i / o->sub), base = enc_raw_base(o, i / o->sub);
        const float code = (float)o->l[i], at = step != 0 ? (x[i] - base) / step : code;
        c[i] = (struct code){.at = limit(at, code - EDGE * gap(&o->lv, o->l[i], -1),
                                         code + EDGE * gap(&o->lv, o->l[i], 1))};
    }
}
static void open_move(struct codes *c, int64_t b, const float *g, const struct learn_pace *p,
                      struct enc_raw *o) {
    const float level = o->lv.tab ? TABLE_GAP : 1, past = EDGE * level;
    struct code *v = c->v + b * c->n;
    float by[QK] = {0};
    for (int i = 0; i < o->n; i++) by[i] = g[i] * enc_raw_step(o, i / o->sub);
    move(c, b, by, level, p);
    for (int i = 0; i < o->n; i++) {
        v[i].at = limit(v[i].at, (float)o->lv.lo - past, (float)o->lv.hi + past);
        o->l[i] = (int8_t)level_near(&o->lv, v[i].at);
    }
}

/* ---- grid types ------------------------------------------------------------------------------ */

/* Returns the mean distance between levels. */
static float level_of(const struct grid_spec *s) {
    return s->top / ((float)s->n_level - 0.5f);
}
static float grid_step(const struct codes *c, const struct grid_block *o, int i) {
    const struct grid_spec *s = c->grid.s;
    return o->d * s->unit * (float)(2 * o->sc[i / s->sub] + 1);
}
/* Returns the level of weight i with its sign. */
static float grid_level(const struct codes *c, const struct grid_block *o, int i) {
    const int per = c->grid.s->per;
    const float v = c->grid.lev[i % per * GRID_MAX + o->index[i / per]];
    return o->sign[i / OCTET] >> i % OCTET & 1 ? -v : v;
}
/* Returns the signs of eight latents; with parity, the smallest latent's may be the other one. */
static uint8_t signs_of(const struct grid_spec *s, const struct code *c) {
    unsigned sign = 0;
    int least = 0;
    for (int i = 0; i < OCTET; i++) {
        sign |= (unsigned)(c[i].at < 0) << i;
        if (fabsf(c[i].at) < fabsf(c[least].at)) least = i;
    }
    return (uint8_t)(s->parity && odd_bits(sign) ? sign ^ 1U << least : sign);
}
/* The unit matrix [OCTET][OCTET]. */
static const float unit[OCTET * OCTET] = {
    [0] = 1, [9] = 1, [18] = 1, [27] = 1, [36] = 1, [45] = 1, [54] = 1, [63] = 1};
/* Sets the signs and entries of the octet at weight i to those nearest to the latents c[8]. */
static void nearest(const struct codes *all, const struct code *c, int i, struct grid_block *o) {
    const int per = all->grid.s->per;
    const uint8_t sign = o->sign[i / OCTET] = signs_of(all->grid.s, c);
    for (int first = 0; first < OCTET; first += per) {
        uint16_t *entry = &o->index[(i + first) / per];
        float p[OCTET];
        for (int k = 0; k < per; k++)
            p[k] = 2 * (sign >> (first + k) & 1 ? -c[first + k].at : c[first + k].at);
        const int8_t *lev = all->around->lev + (int64_t)*entry * per * GRID_AROUND;
        *entry = all->around->entry[*entry][enc_lanes()->around(lev, per, unit, p)];
    }
}

/* Returns whether the octet at weight i is the same in two blocks. */
static bool same(const struct codes *c, const struct grid_block *a, const struct grid_block *b,
                 int i) {
    const int per = c->grid.s->per;
    bool is = a->sign[i / OCTET] == b->sign[i / OCTET];
    for (int k = i / per; k < (i + OCTET) / per; k++) is &= a->index[k] == b->index[k];
    return is;
}
/* Lets the octet at weight i begin as close to the original weights as its codes allow. */
static void octet_begin(const struct codes *all, struct code *c, const float *x,
                        const struct grid_block *o, int i) {
    const float edge = EDGE * level_of(all->grid.s);
    float level[OCTET];
    for (int k = 0; k < OCTET; k++) {
        const float step = grid_step(all, o, i + k);
        level[k] = grid_level(all, o, i + k);
        const float at = step != 0 ? x[k] / step : level[k];
        c[k] = (struct code){.at = limit(at, level[k] - edge, level[k] + edge)};
    }
    for (int n = 0; n < ATTEMPTS; n++) {
        struct grid_block trial = *o;
        nearest(all, c, i, &trial);
        if (same(all, &trial, o, i)) return;
        for (int k = 0; k < OCTET; k++)
            c[k].at = n < ATTEMPTS - 1 ? (c[k].at + level[k]) / 2 : level[k];
    }
}
static void grid_move(struct codes *c, int64_t b, const float *g, const struct learn_pace *p,
                      struct grid_block *o) {
    const struct grid_spec *s = c->grid.s;
    const float level = level_of(s), most = s->top + EDGE * level;
    struct code *v = c->v + b * c->n;
    float by[QK] = {0};
    for (int i = 0; i < c->n; i++) by[i] = g[i] * grid_step(c, o, i);
    move(c, b, by, level, p);
    for (int i = 0; i < c->n; i++) v[i].at = limit(v[i].at, -most, most);
    for (int i = 0; i < c->n; i += OCTET) nearest(c, v + i, i, o);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void codes_begin(struct codes *c, int64_t b0, int64_t b1, const float *x, const void *blocks) {
    const uint8_t *blk = (const uint8_t *)blocks + b0 * qtype_info(c->type)->block_bytes;
    for (int64_t b = b0; b < b1; b++, x += c->n, blk += qtype_info(c->type)->block_bytes) {
        struct code *v = c->v + b * c->n;
        if (c->around) {
            struct grid_block o;
            enc_unpack_grid(c->type, blk, &o);
            for (int i = 0; i < c->n; i += OCTET) octet_begin(c, v + i, x + i, &o, i);
        } else {
            struct enc_raw o;
            enc_unpack(c->type, blk, &o);
            open_begin(v, x, &o);
        }
    }
}

void codes_move(struct codes *c, int64_t b, const float *g, const struct learn_pace *p,
                uint8_t *blk) {
    if (c->around) {
        struct grid_block o;
        enc_unpack_grid(c->type, blk, &o);
        grid_move(c, b, g, p, &o);
        enc_pack_grid(c->type, &o, blk);
    } else {
        struct enc_raw o;
        enc_unpack(c->type, blk, &o);
        open_move(c, b, g, p, &o);
        enc_blocks_find(c->type)->pack(&o, blk);
    }
}
