// SPDX-License-Identifier: MIT
/* quantize/factors.c - a small store of factors, searched in order. If the store exceeds its limit,
 * a factor is freed as soon as its holder releases it, so a pass over more matrices than fit keeps
 * the first ones. */
#include "quantize/factors.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"

enum { POOL = -1 }; /* mat of the sum over all matrices */

struct kept {
    struct factor f; /* first: callers hold its address */
    struct kept *next;
    const struct gram_input *in;
    int64_t mat;
    struct factor_opts o;
    uint64_t bytes;
    int64_t tensor; /* last tensor that used it */
    int holders;
};
struct factors {
    struct kept *first;
    uint64_t bytes, limit;
    int64_t tensor, made;
};

struct factors *factors_new(void) {
    struct factors *c = xcalloc(1, sizeof *c);
    c->limit = UINT64_C(1) << 30;
    const uint64_t free_bytes = buf_available();
    if (free_bytes && free_bytes / 8 < c->limit) c->limit = free_bytes / 8;
    return c;
}

/* Removes and frees the factor at *at, a link of the list. */
static void drop_factor(struct factors *c, struct kept **at) {
    struct kept *k = *at;
    *at = k->next;
    c->bytes -= k->bytes;
    factor_release(&k->f);
    free(k);
}

/* Frees factors that no caller holds, until `bytes` more fit: those of earlier tensors or, with
 * `all`, any of them. */
static void make_room(struct factors *c, uint64_t bytes, bool all) {
    for (struct kept **at = &c->first; *at && c->bytes + bytes > c->limit;) {
        if ((*at)->holders == 0 && (all || (*at)->tensor < c->tensor))
            drop_factor(c, at);
        else
            at = &(*at)->next;
    }
}

void factors_free(struct factors *c) {
    while (c && c->first) drop_factor(c, &c->first);
    free(c);
}

void factors_next(struct factors *c) {
    c->tensor++;
}

int64_t factors_made(const struct factors *c) {
    return c->made;
}

void factors_put(struct factors *c, const struct factor **held) {
    for (struct kept **at = &c->first; *held && *at; at = &(*at)->next) {
        if (&(*at)->f != *held) continue;
        if (--(*at)->holders == 0 && c->bytes > c->limit) drop_factor(c, at);
        break;
    }
    *held = NULL;
}

/* Returns whether factors computed with options a and b are equal. */
static bool same_opts(const struct factor_opts *a, const struct factor_opts *b) {
    return a->halves == b->halves && a->lambda == b->lambda && a->alpha == b->alpha &&
           a->tau == b->tau;
}

/* Returns a new entry without contents; NULL: out of memory. */
static struct kept *add_factor(struct factors *c, const struct gram_input *in, int64_t mat,
                               const struct factor_opts *o, struct err *e) {
    const uint64_t square = (uint64_t)in->n * (uint64_t)in->block * sizeof(float);
    struct kept *k = xcalloc(1, sizeof *k);
    k->in = in;
    k->mat = mat;
    k->o = *o;
    k->bytes = mat != POOL && o->alpha > 0 ? 2 * square : square;
    make_room(c, k->bytes, false);
    int rc = mat == POOL ? 0 : factor_init(&k->f, in->n, in->block, e);
    if (rc) { /* the stored factors may be what fills the memory */
        factor_release(&k->f);
        make_room(c, UINT64_MAX / 2, true);
        rc = factor_init(&k->f, in->n, in->block, e);
    }
    if (rc) {
        factor_release(&k->f);
        free(k);
        return NULL;
    }
    k->next = c->first;
    c->first = k;
    c->bytes += k->bytes;
    return k;
}

/* Finds or creates the entry for a key and stores it in *held. *fresh: the entry is new and still
 * empty. */
static int hold_factor(struct factors *c, const struct gram_input *in, int64_t mat,
                       const struct factor_opts *o, const struct factor **held, bool *fresh,
                       struct err *e) {
    struct kept *k = c->first;
    while (k && !(k->in == in && k->mat == mat && same_opts(&k->o, o))) k = k->next;
    *fresh = !k;
    if (k) k->holders++; /* before *held is released, which may be the same entry */
    factors_put(c, held);
    if (!k) {
        k = add_factor(c, in, mat, o, e);
        if (!k) return (int)e->code;
        k->holders = 1;
        c->made++;
    }
    k->tensor = c->tensor;
    *held = &k->f;
    return 0;
}

/* Removes the entry of *held, whose contents could not be computed. */
static void forget_factor(struct factors *c, const struct factor **held) {
    for (struct kept **at = &c->first; *at; at = &(*at)->next)
        if (&(*at)->f == *held) {
            drop_factor(c, at);
            break;
        }
    *held = NULL;
}

int factors_get(struct factors *c, const struct gram_input *in, int64_t mat,
                const struct factor_opts *o, const struct factor *pooled, struct pool *pool,
                const struct factor **held, struct err *e) {
    bool fresh;
    if (in->n_mat == 1) mat = 0;
    TRY(hold_factor(c, in, mat, o, held, &fresh, e));
    if (!fresh) return 0;
    struct factor *f = &c->first->f;
    int rc =
        factor_make(f, in, mat, o, pooled ? pooled->r : NULL, pooled ? pooled->total : 0, pool, e);
    factor_trim(f, o->alpha > 0);
    if (rc) forget_factor(c, held);
    return rc;
}

int factors_pool(struct factors *c, const struct gram_input *in, unsigned halves,
                 const struct factor **held, struct err *e) {
    const struct factor_opts o = {.halves = halves};
    bool fresh;
    TRY(hold_factor(c, in, POOL, &o, held, &fresh, e));
    if (!fresh) return 0;
    struct factor *f = &c->first->f;
    const int rc = factor_pool(in, halves, &f->r, &f->total, e);
    if (rc) forget_factor(c, held);
    return rc;
}
