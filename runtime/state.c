// SPDX-License-Identifier: MIT
/* runtime/state.c - allocation of the recurrent layers' states (state.h). */
#include "runtime/state.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

void rec_init(struct rec *r, const struct graph *g) {
    memset(r, 0, sizeof *r);
    r->n_slots = g->n_rec_slots;
    r->slot = xcalloc((size_t)r->n_slots + 1, sizeof *r->slot);
    for (int i = 0; i < r->n_slots; i++) {
        r->slot[i].n_conv = g->facts.rec[i].n_conv;
        r->slot[i].n_delta = g->facts.rec[i].n_scan;
        r->n_bytes += (uint64_t)(r->slot[i].n_conv + r->slot[i].n_delta) * sizeof(float);
    }
}

static int floats(float **out, int64_t n, struct err *e) {
    void *p = NULL;
    TRY(buf_alloc(&p, (uint64_t)(n ? n : 1) * sizeof **out, "recurrent state", e));
    *out = p;
    return 0;
}

int rec_alloc(struct rec *r, struct err *e) {
    for (int i = 0; i < r->n_slots; i++) {
        TRY(floats(&r->slot[i].conv, r->slot[i].n_conv, e));
        TRY(floats(&r->slot[i].delta, r->slot[i].n_delta, e));
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
