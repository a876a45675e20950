// SPDX-License-Identifier: MIT
/* quantize/learn_codes.c - latents of codes, for types of up to five bits with one code per weight
 * and for grid types with separate signs. */
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
    float at;           /* latent */
    float mean, square; /* averages of its gradients */
};
struct codes {
    enum qtype type;
    struct code *v; /* [n_blocks][n] */
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
    free(c);
}

/* Moves a latent, whose level is `level` wide, against the gradient by. */
static void move(struct code *c, float by, float level, const struct learn_pace *p) {
    c->mean = (float)KEEP_MEAN * c->mean + (float)(1 - KEEP_MEAN) * by;
    c->square = (float)KEEP_SQUARE * c->square + (float)(1 - KEEP_SQUARE) * by * by;
    const float size = sqrtf(c->square / (float)p->square);
    if (size > 0) c->at -= (float)p->rate.code * level * (c->mean / (float)p->mean) / size;
}
/* Returns v, at least lo and at most hi. */
static float limit(float v, float lo, float hi) {
    return v < lo ? lo : v > hi ? hi : v;
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
    const int to = enc_level_index((float)l) + way;
    return !lv->tab ? 1 : to < 0 || to > 15 ? TABLE_GAP : fabsf((float)(lv->tab[to] - l));
}
static void open_begin(struct code *c, const float *x, const struct enc_raw *o) {
    for (int i = 0; i < o->n; i++) {
        const float step = enc_raw_step(o, i / o->sub), base = enc_raw_base(o, i / o->sub);
        const float code = (float)o->l[i], at = step != 0 ? (x[i] - base) / step : code;
        c[i] = (struct code){.at = limit(at, code - EDGE * gap(&o->lv, o->l[i], -1),
                                         code + EDGE * gap(&o->lv, o->l[i], 1))};
    }
}
static void open_move(struct code *c, const float *g, const struct learn_pace *p,
                      struct enc_raw *o) {
    const float level = o->lv.tab ? TABLE_GAP : 1, past = EDGE * level;
    for (int i = 0; i < o->n; i++) {
        move(&c[i], g[i] * enc_raw_step(o, i / o->sub), level, p);
        c[i].at = limit(c[i].at, (float)o->lv.lo - past, (float)o->lv.hi + past);
        o->l[i] = (int8_t)level_near(&o->lv, c[i].at);
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
/* Sets the signs and entries of the octet at weight i to those nearest to the latents c[8]. */
static void nearest(const struct codes *all, const struct code *c, int i, struct grid_block *o) {
    static const float unit[OCTET][OCTET] = {{1},
                                             {0, 1},
                                             {0, 0, 1},
                                             {0, 0, 0, 1},
                                             {0, 0, 0, 0, 1},
                                             {0, 0, 0, 0, 0, 1},
                                             {0, 0, 0, 0, 0, 0, 1},
                                             {0, 0, 0, 0, 0, 0, 0, 1}};
    const int per = all->grid.s->per;
    const uint8_t sign = o->sign[i / OCTET] = signs_of(all->grid.s, c);
    for (int first = 0; first < OCTET; first += per) {
        uint16_t *entry = &o->index[(i + first) / per];
        float p[OCTET];
        for (int k = 0; k < per; k++)
            p[k] = 2 * (sign >> (first + k) & 1 ? -c[first + k].at : c[first + k].at);
        const int8_t *lev = all->around->lev + (int64_t)*entry * per * GRID_AROUND;
        *entry = all->around->entry[*entry][enc_lanes()->around(lev, per, unit[0], p)];
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
static void octet_move(const struct codes *all, struct code *c, const float *g,
                       const struct learn_pace *p, struct grid_block *o, int i) {
    const struct grid_spec *s = all->grid.s;
    const float level = level_of(s), most = s->top + EDGE * level;
    for (int k = 0; k < OCTET; k++) {
        move(&c[k], g[k] * grid_step(all, o, i + k), level, p);
        c[k].at = limit(c[k].at, -most, most);
    }
    nearest(all, c, i, o);
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
    struct code *v = c->v + b * c->n;
    if (c->around) {
        struct grid_block o;
        enc_unpack_grid(c->type, blk, &o);
        for (int i = 0; i < c->n; i += OCTET) octet_move(c, v + i, g + i, p, &o, i);
        enc_pack_grid(c->type, &o, blk);
    } else {
        struct enc_raw o;
        enc_unpack(c->type, blk, &o);
        open_move(v, g, p, &o);
        enc_blocks_find(c->type)->pack(&o, blk);
    }
}
