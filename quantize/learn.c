// SPDX-License-Identifier: MIT
/* quantize/learn.c - learned scales and minima of blocks, for all types whose scales are f16
 * fields: what a field contributes to the weights follows from decoding. */
#include "quantize/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "base/mem.h"
#include "kernels/kern.h"
#include "quantize/learn_codes.h"

struct latent {          /* a scale that is learned */
    double change;       /* relative to `from` */
    double mean, square; /* averages of its gradients */
    float from;          /* value at the start */
};
struct learned {
    enum qtype id;
    const struct qtype_info *type;
    struct codes *codes; /* NULL: codes stay */
    void (*decode)(const void *restrict blk, float *restrict dst, int64_t n);
    struct latent *v; /* [n]: [blocks][type->scale.n] */
    int64_t n, n_blocks;
};

bool learn_can(enum qtype type) {
    const struct qtype_info *t = qtype_info(type);
    return t && (t->scale.kind == QS_HALF || (t->block_elems == 1 && t->scale.kind == QS_F32));
}
bool learn_is_vector(enum qtype type, const int64_t ne[4]) {
    return learn_can(type) && qtype_info(type)->block_elems == 1 && ne[1] * ne[2] * ne[3] == 1;
}
/* Returns the scales of a block. */
static int n_scales(const struct qtype_info *t) {
    return t->block_elems == 1 ? 1 : t->scale.n;
}
/* Returns a scale as it is stored. */
static float load(const struct qtype_info *t, const uint8_t *from) {
    return t->block_elems == 1 ? load_f32(from) : fp_f16_to_f32(load_u16(from));
}

int learn_new(struct learned **out, enum qtype type, const void *blocks, int64_t n_blocks,
              struct err *e) {
    void *p = NULL;
    *out = NULL;
    if (!learn_can(type))
        return err_set(e, ERR_USAGE, "blocks of %s cannot be learned", qtype_name(type));
    const struct qtype_info *t = qtype_info(type);
    const int per = n_scales(t);
    const int64_t n = n_blocks * n_scales(t);
    TRY(mem_alloc(&p, (uint64_t)n * sizeof(struct latent), "learned scales", e));
    struct learned *l = xcalloc(1, sizeof *l);
    struct kern ref;
    kern_init(&ref, KERN_REF);
    l->decode = ref.op[type].decode;
    l->id = type;
    l->type = t;
    l->v = p;
    l->n = n;
    l->n_blocks = n_blocks;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *b = (const uint8_t *)blocks + i / per * t->block_bytes;
        l->v[i] = (struct latent){.from = load(t, b + t->scale.off[i % per])};
    }
    *out = l;
    return 0;
}

void learn_free(struct learned *l) {
    if (!l) return;
    mem_free(l->v);
    codes_free(l->codes);
    free(l);
}

/* Returns the pace of a step. */
static struct learn_pace pace_of(struct learn_rate rate, int step) {
    double mean = 1, square = 1;
    for (int i = 0; i < step; i++) {
        mean *= KEEP_MEAN;
        square *= KEEP_SQUARE;
    }
    return (struct learn_pace){rate, 1 - mean, 1 - square};
}
/* Moves a latent against its gradient g, if that is finite. */
static void move(struct latent *v, double g, const struct learn_pace *p) {
    if (!isfinite(g)) return;
    v->mean = KEEP_MEAN * v->mean + (1 - KEEP_MEAN) * g;
    v->square = KEEP_SQUARE * v->square + (1 - KEEP_SQUARE) * g * g;
    const double size = sqrt(v->square / p->square);
    if (size > 0) v->change -= p->rate.scale * (v->mean / p->mean) / size;
    v->change = fmin(fmax(v->change, LEARN_LEAST), LEARN_MOST);
}
/* Writes the scale `from` after a relative change; as f16, unchanged if that is 0 or not finite. */
static void store(const struct qtype_info *t, float from, float change, uint8_t *to) {
    const float v = (float)((double)from * (1 + (double)change));
    if (t->block_elems == 1) {
        store_f32(to, isfinite(v) ? v : from);
        return;
    }
    const uint16_t h = fp_f32_to_f16(v);
    const float f = fp_f16_to_f32(h);
    store_u16(to, f != 0 && isfinite(f) ? h : fp_f32_to_f16(from));
}

/* Sets of[k] to the derivative of the loss with respect to the relative change of scale k, given
 * the gradient g of the block's weights. */
static void derive(const struct learned *l, const uint8_t *blk, const float *g, double of[2]) {
    uint8_t one[256];
    float w[QK];
    const struct qtype_info *t = l->type;
    if (t->block_elems == 1) {
        of[0] = (double)g[0] * (double)load_f32(blk);
        return;
    }
    for (int k = 0; k < t->scale.n; k++) {
        memcpy(one, blk, (size_t)t->block_bytes);
        if (t->scale.n > 1) store_u16(one + t->scale.off[1 - k], 0);
        l->decode(one, w, t->block_elems);
        of[k] = 0;
        for (int i = 0; i < t->block_elems; i++) of[k] += (double)g[i] * (double)w[i];
    }
}

int learn_codes(struct learned *l, struct err *e) {
    return codes_new(&l->codes, l->id, l->n_blocks, e);
}
void learn_codes_begin(struct learned *l, int64_t b0, int64_t b1, const float *x,
                       const void *blocks) {
    codes_begin(l->codes, b0, b1, x, blocks);
}

void learn_step(struct learned *l, int64_t b0, int64_t b1, const float *g, struct learn_rate rate,
                int step, void *blocks) {
    const struct qtype_info *t = l->type;
    const struct learn_pace p = pace_of(rate, step);
    const int per = n_scales(t);
    for (int64_t b = b0; b < b1; b++, g += t->block_elems) {
        uint8_t *blk = (uint8_t *)blocks + b * t->block_bytes;
        double of[2];
        derive(l, blk, g, of);
        if (l->codes) codes_move(l->codes, b, g, &p, blk);
        for (int k = 0; k < per; k++) {
            struct latent *v = &l->v[b * per + k];
            move(v, of[k], &p);
            store(t, v->from, (float)v->change, blk + t->scale.off[k]);
        }
    }
}
