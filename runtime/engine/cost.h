// SPDX-License-Identifier: MIT
/* runtime/engine/cost.h - bytes moved and operations performed by each step of a program,
 * calculated, not measured. */
#ifndef HONE_RUNTIME_ENGINE_COST_H
#define HONE_RUNTIME_ENGINE_COST_H

#include "models/sizes.h"
#include "runtime/engine/program.h"

struct cost {
    uint64_t n_read, n_written; /* bytes of weights, cache, states and registers */
    double flop;                /* additions and multiplications */
};
/* The pass whose cost is computed: n_rows rows of one sequence, each of which sees n_keys keys
 * unless its layer has a window. */
struct cost_of {
    const struct graph *g;
    const uint64_t *w_bytes; /* [n_weights] */
    const struct kv_rows *kv;
    int64_t n_rows, n_keys;
};
/* Returns how many of the n_keys keys before a row the attention or indexer node n reads for it. */
int64_t cost_keys(const struct graph *g, const struct gr_node *n, int64_t n_keys);
/* Returns the cost of a step. Bytes:
 *     weights: read once; of routed experts, the most the rows can choose; of embeddings, the rows
 *     cache: visible keys and values, read once; new rows, written
 *     states: read and written once
 *     registers: whole ones that enter the step or that it leaves for later steps
 *
 * FLOP: a product 2 per weight and row, attention 2 per element of each key and value, a scan 7 per
 * element of its state (decay 1; read, update and query 2 each), other operations 1 per result.
 *
 * A step may also be a copy of a node's registers, or of one matrix of all experts. It may be part
 * of a node: it then has the weights that this part uses; the node's inputs count for its first
 * part and its outputs for its last. */
struct cost cost_of_step(const struct cost_of *c, const struct step *s);
/* Returns the cost of the head per row. */
struct cost cost_of_head(const struct cost_of *c);

#endif
