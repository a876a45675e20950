// SPDX-License-Identifier: MIT
/* runtime/engine/state.c - layout of recurrent states (state.h). */
#include "runtime/engine/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

void rec_init(struct rec *r, const struct graph *g, bool ring) {
    int64_t at = 0;
    memset(r, 0, sizeof *r);
    r->n_slots = g->n_rec_slots;
    r->slot = xcalloc((size_t)r->n_slots + 1, sizeof *r->slot);
    for (int i = 0; i < r->n_slots; i++) {
        struct rec_slot *s = &r->slot[i];
        s->n_conv = g->facts.rec[i].n_conv;
        if (ring)
            s->n_conv = div_up(g->facts.rec[i].conv_width * g->facts.rec[i].n_channels, 4) * 4;
        s->n_delta = g->facts.rec[i].n_scan;
        s->at = at;
        at += s->n_conv + s->n_delta;
    }
    r->n_bytes = (uint64_t)at * sizeof(float);
}

void rec_release(struct rec *r) {
    free(r->slot);
    memset(r, 0, sizeof *r);
}
