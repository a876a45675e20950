// SPDX-License-Identifier: MIT
/* runtime/engine/fuse.h - which operations of a graph an executor does together. The patterns are
 * the rows of fusions.def; they are matched when a program is compiled (program.h), for one class
 * of batch and one executor, and never while a pass runs. */
#ifndef HONE_RUNTIME_ENGINE_FUSE_H
#define HONE_RUNTIME_ENGINE_FUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "models/graph.h"

enum batch { BATCH_ONE, BATCH_FEW, BATCH_MANY, BATCH_COUNT }; /* rows of a pass: 1, 2 to 8, more */
enum { BATCH_FEW_ROWS = 8, FUSE_PARTS = 10, FUSE_MAX_PRODUCTS = 6 };

enum fusion {
#define FUSION(id, name, what, classes, parts) FUSE_##id,
#include "runtime/engine/fusions.def"
#undef FUSION
    FUSE_COUNT,
    FUSE_NONE = -1
};
#define FUSE_BIT(id) (UINT32_C(1) << FUSE_##id)

/* What an executor can do with a weight when few rows meet it, as bits. */
enum { WAY_FLOATS = 1, WAY_BYTES = 2 }; /* in f32; with 8-bit activations */

/* Where a node is computed, seen from an executor: by itself; by the CPU for it; by itself, with
 * experts that lie in main memory and are brought for the pass. */
enum node_way { NODE_HERE, NODE_HOST, NODE_BROUGHT };

/* What an executor is like, as far as its programs depend on it. */
struct target {
    uint32_t fusions; /* bits of enum fusion that it has */
    enum batch batch;
    bool exact;       /* f32 activations */
    bool few;         /* has kernels for few rows of 8-bit activations, and the batch is one */
    bool many;        /* they take several products at once */
    bool brings;      /* the pass is long enough to bring experts from main memory */
    bool sees_routes; /* somebody observes which experts are chosen: no FUSE_MOE */
    bool sees_all;    /* ... or products and residuals: no fusion */
    unsigned (*way)(const void *ud, gr_w w);
    bool (*joins)(const void *ud, gr_w gate, gr_w up); /* gate and up can be one product */
    enum node_way (*where)(const void *ud, int node);  /* NULL: all NODE_HERE */
    int (*device)(const void *ud, int node); /* which of several computes it; NULL: there is one */
    const void *ud;
};

/* Nodes that meet a pattern, by the names of its parts; NULL: that part is not there. */
struct match {
    int n_nodes;
    union {
        const struct gr_node *part[FUSE_PARTS];
#define P(name, ops, how) const struct gr_node *name;
#define FUSION(id, name, what, classes, parts)                                                     \
    struct {                                                                                       \
        parts                                                                                      \
    } name;
#include "runtime/engine/fusions.def"
#undef FUSION
#undef P
    };
};

const char *fuse_name(enum fusion f);
/* Returns the fusion that begins at node `at` of the graph and takes none from `end` on, and its
 * nodes; FUSE_NONE: the node is on its own. */
enum fusion fuse_at(const struct graph *g, int at, int end, const struct target *t,
                    struct match *m);
/* Tells whether some pattern that the target has, for its class of batch, begins with this
 * operation. A node of it that stands alone might then be part of more. */
bool fuse_begins(enum gr_op op, const struct target *t);

#endif
