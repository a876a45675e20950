// SPDX-License-Identifier: MIT
/* quantize/learn.c - learned scales and minima of Q2_K and Q3_K blocks. */
#include "quantize/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "quantize/enc/super.h"

enum { SUBS = 16, SUB = QK / SUBS };
/* Averages of Adam's rule: of gradients, and of their squares. */
#define KEEP_MEAN 0.9
#define KEEP_SQUARE 0.99

struct latent { /* a value that is learned, and the averages of its gradients */
    double x, mean, square;
};
struct learned_block {
    float d0, m0;       /* at the start */
    struct latent d, m; /* relative changes */
};
struct learned {
    const struct enc_blocks *eb;
    uint64_t bytes; /* per block */
    struct learned_block *block;
};

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Unpacks a Q2_K block. */
static void open_q2(const struct blk_Q2_K *b, struct enc_raw *o) {
    o->d = fp_f16_to_f32(b->d);
    o->m = fp_f16_to_f32(b->dmin);
    for (int k = 0; k < SUBS; k++) {
        o->sc[k] = b->scales[k] & 15;
        o->mn[k] = b->scales[k] >> 4;
    }
    for (int i = 0; i < QK; i++)
        o->l[i] = (int8_t)(b->qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3);
}
/* Unpacks a Q3_K block. */
static void open_q3(const struct blk_Q3_K *b, struct enc_raw *o) {
    o->d = fp_f16_to_f32(b->d);
    for (int k = 0; k < SUBS; k++) {
        const int low = b->scales[k % 8] >> (k < 8 ? 0 : 4) & 15;
        o->sc[k] = (int16_t)((low | (b->scales[8 + k % 4] >> (k / 4 * 2) & 3) << 4) - 32);
    }
    for (int i = 0; i < QK; i++) {
        const int low = b->qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
        o->l[i] = (int8_t)(low - (b->hmask[i % 32] >> (i / 32) & 1 ? 0 : 4));
    }
}
/* Unpacks a block. */
static void open_block(const struct enc_spec *s, const void *blk, struct enc_raw *o) {
    *o = (struct enc_raw){.n = QK, .sub = SUB, .lv = s->lv, .sc_lo = s->sc_lo, .sc_hi = s->sc_hi};
    if (s->type == QT_Q2_K) {
        o->m_sign = -1;
        o->mn_hi = s->sc_hi;
        open_q2(blk, o);
    } else {
        open_q3(blk, o);
    }
}

bool learn_can(enum qtype type) {
    return type == QT_Q2_K || type == QT_Q3_K;
}

int learn_new(struct learned **out, enum qtype type, const void *blocks, int64_t n_blocks,
              struct err *e) {
    void *p = NULL;
    *out = NULL;
    if (!learn_can(type))
        return err_set(e, ERR_USAGE, "blocks of %s cannot be learned", qtype_name(type));
    TRY(mem_alloc(&p, (uint64_t)n_blocks * sizeof(struct learned_block), "learned scales", e));
    struct learned *l = xcalloc(1, sizeof *l);
    l->eb = enc_blocks_find(type);
    l->bytes = (uint64_t)qtype_info(type)->block_bytes;
    l->block = p;
    for (int64_t b = 0; b < n_blocks; b++) {
        struct learned_block *to = &l->block[b];
        struct enc_raw o;
        open_block(l->eb->spec, (const uint8_t *)blocks + (uint64_t)b * l->bytes, &o);
        *to = (struct learned_block){.d0 = o.d, .m0 = o.m};
    }
    *out = l;
    return 0;
}

void learn_free(struct learned *l) {
    if (!l) return;
    mem_free(l->block);
    free(l);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct pace { /* of one step: the rate, and what the averages lack because they begin at 0 */
    double rate, mean, square;
};
/* Moves a latent against its gradient g. */
static void move(struct latent *v, double g, const struct pace *p) {
    v->mean = KEEP_MEAN * v->mean + (1 - KEEP_MEAN) * g;
    v->square = KEEP_SQUARE * v->square + (1 - KEEP_SQUARE) * g * g;
    const double size = sqrt(v->square / p->square);
    if (size > 0) v->x -= p->rate * (v->mean / p->mean) / size;
    v->x = fmin(fmax(v->x, -0.5), 1);
}

/* Returns a scale after its latent's relative change, as f16; unchanged if that is 0 or not
 * finite. */
static float scaled(float from, double by) {
    const float f = enc_f16((float)((double)from * (1 + by)));
    return f == 0 || !isfinite(f) ? from : f;
}

/* Changes one block against the gradient g of its weights. */
static void step_block(struct learned_block *b, const float *g, const struct pace *p,
                       struct enc_raw *o) {
    double of_d = 0, of_m = 0;
    for (int k = 0; k < SUBS; k++) {
        double codes = 0, ones = 0;
        for (int i = k * SUB; i < (k + 1) * SUB; i++) {
            codes += (double)g[i] * o->l[i];
            ones += (double)g[i];
        }
        of_d += codes * o->sc[k];
        of_m -= ones * o->mn[k];
    }
    move(&b->d, of_d * (double)o->d, p);
    o->d = scaled(b->d0, b->d.x);
    if (!o->mn_hi) return;
    move(&b->m, of_m * (double)o->m, p);
    o->m = scaled(b->m0, b->m.x);
}

void learn_step(struct learned *l, int64_t b0, int64_t b1, const float *g, double rate, int step,
                void *blocks) {
    struct pace p = {rate, 1, 1};
    double mean = 1, square = 1;
    for (int i = 0; i < step; i++) {
        mean *= KEEP_MEAN;
        square *= KEEP_SQUARE;
    }
    p.mean -= mean;
    p.square -= square;
    for (int64_t b = b0; b < b1; b++) {
        struct enc_raw o;
        uint8_t *blk = (uint8_t *)blocks + (uint64_t)b * l->bytes;
        open_block(l->eb->spec, blk, &o);
        step_block(&l->block[b], g + (b - b0) * QK, &p, &o);
        l->eb->pack(&o, blk);
    }
}
