// SPDX-License-Identifier: MIT
/* calib/coverage.c - token counts per layer and expert, from an importance matrix or other
 * counts. */
#include "calib/coverage.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Returns the block of an entry for experts; -1 for other entries. */
static int64_t block_of(const struct imat_entry *en) {
    if (!imat_is_experts(en) || strncmp(en->name, "blk.", 4) != 0) return -1;
    return strtol(en->name + 4, NULL, 10);
}

/* Returns the layer of a block, created on first use; entries are sorted by name, so those of a
 * block are adjacent. Returns NULL if the number of experts differs from the block's first
 * entry. */
static struct cover_layer *layer_of(struct coverage *c, int64_t block, int64_t n) {
    if (c->n_layers && c->layer[c->n_layers - 1].block == block) {
        struct cover_layer *last = &c->layer[c->n_layers - 1];
        return last->n == n ? last : NULL;
    }
    c->layer = xreallocarray(c->layer, (size_t)c->n_layers + 1, sizeof *c->layer);
    struct cover_layer *l = &c->layer[c->n_layers++];
    *l = (struct cover_layer){.block = block, .n = n};
    l->expert = xcalloc((size_t)n, sizeof *l->expert);
    for (int64_t i = 0; i < n; i++) l->expert[i] = (struct cover_expert){i, -1};
    return l;
}

/* Orders experts by tokens, the fewest first, for qsort. */
static int by_tokens(const void *a, const void *b) {
    const struct cover_expert *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_block(const void *a, const void *b) {
    const struct cover_layer *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

/* Sorts the layer's experts by tokens and computes its figures. */
static void summarize_layer(struct cover_layer *l) {
    const struct cover_expert *x = l->expert;
    qsort(l->expert, (size_t)l->n, sizeof *l->expert, by_tokens);
    for (int64_t i = 0; i < l->n; i++) {
        l->total += x[i].tokens;
        l->n_unseen += x[i].tokens <= 0;
        l->n_rare += x[i].tokens > 0 && x[i].tokens < COVER_RARE;
        l->n_short += x[i].tokens > 0 && x[i].tokens < COVER_ENOUGH;
    }
    l->least = x[0].tokens;
    l->p1 = x[(l->n - 1) / 100].tokens;
    l->median = (x[(l->n - 1) / 2].tokens + x[l->n / 2].tokens) / 2;
    l->most = x[l->n - 1].tokens;
}

void coverage_make(const struct imat *m, struct coverage *out) {
    memset(out, 0, sizeof *out);
    for (int64_t i = 0; i < m->n_entries; i++) {
        const struct imat_entry *en = &m->entry[i];
        const int64_t block = block_of(en);
        struct cover_layer *l = block < 0 ? NULL : layer_of(out, block, en->n_mat);
        for (int64_t k = 0; l && k < l->n; k++) {
            double *t = &l->expert[k].tokens;
            if (*t < 0 || en->count[k] < *t) *t = en->count[k];
        }
    }
    if (out->n_layers) qsort(out->layer, (size_t)out->n_layers, sizeof *out->layer, by_block);
    for (int64_t i = 0; i < out->n_layers; i++) summarize_layer(&out->layer[i]);
}

void coverage_add(struct coverage *c, int64_t block, const double *tokens, int64_t n_experts) {
    struct cover_layer *l = layer_of(c, block, n_experts);
    for (int64_t k = 0; l && k < n_experts; k++) l->expert[k].tokens = tokens[k];
    if (l) summarize_layer(l);
}

void coverage_release(struct coverage *c) {
    for (int64_t i = 0; i < c->n_layers; i++) free(c->layer[i].expert);
    free(c->layer);
    memset(c, 0, sizeof *c);
}
