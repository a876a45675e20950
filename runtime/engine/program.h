// SPDX-License-Identifier: MIT
/* runtime/engine/program.h - what an executor does for a pass, step by step: compiled once for a
 * graph, an executor and a class of batch, and used until one of them changes. */
#ifndef HONE_RUNTIME_ENGINE_PROGRAM_H
#define HONE_RUNTIME_ENGINE_PROGRAM_H

#include "runtime/engine/fuse.h"

/* Nodes are run by the executor itself; or the CPU does one for it: what the node reads is fetched,
 * the CPU runs it, what it wrote is sent back. Experts of a long pass may be brought instead:
 * matrix by matrix, and the node is run in parts, each as soon as what it reads is on its way.
 * Where layers are split over devices, registers that are read later move to the next device. */
enum step_kind { STEP_RUN, STEP_FETCH, STEP_HOST, STEP_SEND, STEP_MOVE, STEP_BRING };
/* Of a node with routed experts: all of it, or the router and its choice, the products with gate
 * and up, the product with down. */
enum step_part { PART_ALL, PART_CHOOSE, PART_EXPAND, PART_CONTRACT };
struct step {
    enum step_kind kind;
    enum step_part part; /* of a STEP_RUN */
    /* Of the graph: nodes [first, first + n_nodes); 0 of a copy, and of a part but the last: for
     * first. */
    int first, n_nodes;
    enum fusion fusion; /* FUSE_NONE: one node, by the function of its operation */
    struct match nodes; /* of the fusion */
    int device, from;   /* where it runs, or a register moves to; where it moves from */
    gr_reg reg;         /* that moves */
    enum gr_role role;  /* of the weight that is brought */
};
struct program {
    struct step *step; /* owned; in the order in which they run */
    int n_steps;
    int first;            /* node it begins with */
    struct target target; /* that it was compiled for */
};
/* A session's programs, one for each class of batch. All zero: none are there yet. */
struct programs {
    struct program of[BATCH_COUNT];
};

enum batch batch_of(int64_t n_rows);
/* Returns the part of a node that reads its weight of this role. */
enum step_part step_part_of(enum gr_role role);
/* Compiles nodes [first, n_nodes) of g. p: all zero, or a program that is replaced. */
void program_compile(struct program *p, const struct graph *g, int first, const struct target *t);
void program_release(struct program *p);

/* Returns the program for t from node `first` on, compiled now unless it is there. It is good until
 * the next call. */
const struct program *programs_get(struct programs *p, const struct graph *g, int first,
                                   const struct target *t);
/* Forgets all of them: weights changed, so the executor may do otherwise with them. */
void programs_forget(struct programs *p);

#endif
