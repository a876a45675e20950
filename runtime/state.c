// SPDX-License-Identifier: MIT
/* runtime/state.c - allocation of the recurrent layers' states (state.h). */
#include "runtime/state.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static int slot_alloc(struct rec *r, float **out, int64_t n, struct err *e) {
    void *p = NULL;
    uint64_t bytes = (uint64_t)n * sizeof **out;
    TRY(buf_alloc(&p, bytes ? bytes : 4, "recurrent state", e));
    *out = p;
    r->n_bytes += bytes;
    return 0;
}

int rec_init(struct rec *r, const struct graph *g, struct err *e) {
    memset(r, 0, sizeof *r);
    r->n_slots = g->n_rec_slots;
    r->slot = xcalloc((size_t)r->n_slots + 1, sizeof *r->slot);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct gr_node *n = &g->node[i];
        if (n->op == OP_CONV_SILU) {
            struct rec_slot *s = &r->slot[n->slot];
            const int64_t *ne = g->weight[n->w[0]].ne; /* {k, channels} */
            s->n_conv = (ne[0] - 1) * ne[1];
            TRY(slot_alloc(r, &s->conv, s->n_conv, e));
        } else if (n->op == OP_DELTA) {
            struct rec_slot *s = &r->slot[n->slot];
            s->n_delta = n->n_heads * n->v_dim * n->head_dim;
            TRY(slot_alloc(r, &s->delta, s->n_delta, e));
        }
    }
    return 0;
}

void rec_release(struct rec *r) {
    for (int i = 0; i < r->n_slots && r->slot; i++) {
        buf_free(r->slot[i].conv);
        buf_free(r->slot[i].delta);
    }
    free(r->slot);
    memset(r, 0, sizeof *r);
}

void rec_zero(struct rec *r) {
    for (int i = 0; i < r->n_slots; i++) {
        struct rec_slot *s = &r->slot[i];
        if (s->conv) memset(s->conv, 0, (size_t)s->n_conv * sizeof *s->conv);
        if (s->delta) memset(s->delta, 0, (size_t)s->n_delta * sizeof *s->delta);
    }
}
