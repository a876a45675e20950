// SPDX-License-Identifier: MIT
/* runtime/engine/cost.h - what a step of a program moves and computes, by arithmetic. */
#ifndef HONE_RUNTIME_ENGINE_COST_H
#define HONE_RUNTIME_ENGINE_COST_H

#include "models/sizes.h"
#include "runtime/engine/program.h"

struct cost {
    uint64_t n_read, n_written; /* bytes of weights, cache, states and registers */
    double flop;                /* additions and multiplications */
};
/* The pass that costs are asked for: n_rows rows of one sequence, each of which sees n_keys keys
 * where there is no window. */
struct cost_of {
    const struct graph *g;
    const uint64_t *w_bytes; /* [n_weights] */
    const struct kv_rows *kv;
    int64_t n_rows, n_keys;
};
/* Returns what a step takes.
 *   weights   once, of routed experts as many as the rows can choose; of embeddings the rows
 *   cache     the keys and values that a row sees, once; what is appended
 *   states    read and written once
 *   registers whole ones that enter the step, and those that it leaves for later
 * A product counts 2 FLOP for each weight and row, attention 2 for each value of a key and of a
 * value, a scan 7 for each number of its state (decay 1; read, update and query 2 each), other
 * operations 1 for each value they make. A step may be a copy of what a node reads or writes, or of
 * all experts of a matrix. It may also be a part of a node: then it has the weights that the part
 * computes with; what enters the node counts for its first part, what leaves it for the last. */
struct cost cost_of_step(const struct cost_of *c, const struct step *s);
/* Returns the cost of the head for one row. */
struct cost cost_of_head(const struct cost_of *c);

#endif
