// SPDX-License-Identifier: MIT
/* runtime/state.h - what recurrent (delta-net) layers remember: the last k-1 raw inputs of the
 * convolution and one matrix per value head. Size does not depend on the context. Internal. */
#ifndef HONE_RUNTIME_STATE_H
#define HONE_RUNTIME_STATE_H

#include "core/err.h"
#include "models/graph.h"

struct rec_slot {
    int64_t n_conv, n_delta; /* floats */
    float *conv;             /* [k-1][channels], oldest first */
    float *delta;            /* [v heads][v_dim][k_dim] */
};
struct rec {
    int n_slots;
    struct rec_slot *slot;
    uint64_t n_bytes;
};
void rec_init(struct rec *r, const struct graph *g); /* sizes */
int rec_alloc(struct rec *r, struct err *e);         /* memory, zero */
void rec_release(struct rec *r);
void rec_zero(struct rec *r); /* what was allocated */

#endif
