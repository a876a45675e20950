// SPDX-License-Identifier: MIT
/* runtime/engine/program.h - compiled execution plan of a pass: the steps for one graph, executor
 * and batch class, reused until one of these changes. */
#ifndef HONE_RUNTIME_ENGINE_PROGRAM_H
#define HONE_RUNTIME_ENGINE_PROGRAM_H

#include "runtime/engine/fuse.h"

/* STEP_RUN runs nodes on the executor. A node that the CPU computes for a device takes three steps:
 * fetch its inputs, run it on the host, send its outputs. STEP_BRING copies one matrix of the
 * experts to the device for a long pass; the node is then run in parts, each of which waits only
 * for its own matrix. STEP_MOVE moves a register that is read later to the next device, where
 * layers are split over devices. */
enum step_kind { STEP_RUN, STEP_FETCH, STEP_HOST, STEP_SEND, STEP_MOVE, STEP_BRING };
/* Parts of a node with routed experts: all of it; the router and its choice; the gate and up
 * products; the down product. */
enum step_part { PART_ALL, PART_CHOOSE, PART_EXPAND, PART_CONTRACT };
struct step {
    enum step_kind kind;
    enum step_part part; /* for STEP_RUN */
    /* Graph nodes [first, first + n_nodes). n_nodes is 0 for a copy made for node `first`, and for
     * all parts of a node except the last. */
    int first, n_nodes;
    enum fusion fusion; /* FUSE_NONE: a single node */
    struct match nodes; /* nodes of the fusion */
    int device, from;   /* device it runs on or a register moves to; device it moves from */
    gr_reg reg;         /* register that moves */
    enum gr_role role;  /* weight that is copied */
};
struct program {
    struct step *step; /* owned; in execution order */
    int n_steps;
    int first;            /* node it starts with */
    struct target target; /* compiled for this target */
};
/* A session's programs, one per batch class. Zero-initialized: none compiled. */
struct programs {
    struct program of[BATCH_COUNT];
};

/* Returns the batch class for n_rows tokens per pass. */
enum batch batch_of(int64_t n_rows);
/* Returns the part of a node that reads its weight of this role. */
enum step_part step_part_of(enum gr_role role);
/* Compiles nodes [first, n_nodes) of g. p: zero-initialized, or a program to replace. */
void program_compile(struct program *p, const struct graph *g, int first, const struct target *t);
void program_release(struct program *p);

/* Returns the program for t that starts at node `first`, compiling it if needed. It is valid until
 * the next call. */
const struct program *programs_get(struct programs *p, const struct graph *g, int first,
                                   const struct target *t);
/* Discards all programs after a change of weights, since the executor may treat the new ones
 * differently. */
void programs_forget(struct programs *p);

#endif
