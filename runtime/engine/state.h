// SPDX-License-Identifier: MIT
/* runtime/engine/state.h - shapes of recurrent states: the last width - 1 inputs of the convolution
 * and one matrix per value head. Their size does not depend on the number of tokens. The memory is
 * owned by a sequence (runtime/engine/cache.h) or a device. Internal to runtime/. */
#ifndef HONE_RUNTIME_ENGINE_STATE_H
#define HONE_RUNTIME_ENGINE_STATE_H

#include "models/graph.h"

struct rec_slot {
    /* Size of the convolution's tail, in floats: [width - 1][channels], oldest first. As a ring:
     * [width][channels], with the input of position p in slot p % width, rounded up to a multiple
     * of 4. */
    int64_t n_conv;
    int64_t n_delta; /* floats of the scan's matrices: [value heads][v_dim][k_dim] */
    int place;       /* device that holds it (runtime/engine/cache.h) ... */
    int64_t at;      /* ... and offset in floats in a sequence's states there */
};
struct rec {
    int n_slots;
    struct rec_slot *slot;
    uint64_t n_bytes; /* state of one sequence */
};
/* Derives the shapes from the graph. ring: the convolutions' tails are stored as rings. */
void rec_init(struct rec *r, const struct graph *g, bool ring);
void rec_release(struct rec *r);

#endif
