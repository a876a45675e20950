// SPDX-License-Identifier: MIT
/* runtime/engine/fuse.h - operator fusion: patterns of graph nodes that an executor runs together.
 * The patterns are the rows of fusions.def. They are matched when a program is compiled (program.h)
 * for one batch class and one executor, never during a pass. */
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

/* How an executor can multiply few rows with a weight, as bits. */
enum { WAY_FLOATS = 1, WAY_BYTES = 2 }; /* in f32; with 8-bit activations */

/* Where a node runs: on the executor; on the CPU in its place; on the executor, with experts copied
 * from main memory for the pass. */
enum node_way { NODE_HERE, NODE_HOST, NODE_BROUGHT };

/* Properties of an executor that its programs depend on. */
struct target {
    uint32_t fusions; /* bits of enum fusion that are available */
    enum batch batch;
    bool exact;       /* f32 activations */
    bool few;         /* batch of few rows, with kernels for 8-bit activations */
    bool many;        /* the kernels for `few` compute several products at a time */
    bool brings;      /* the pass is long enough to copy experts from main memory */
    bool sees_routes; /* a probe observes routing: no FUSE_MOE */
    bool all_keys;    /* nodes of indexers are skipped (gr_node.selects) */
    bool sees_all;    /* a probe observes products or residuals: no fusion at all */
    unsigned (*way)(const void *ud, gr_w w);
    bool (*joins)(const void *ud, gr_w gate, gr_w up); /* gate and up can be one product */
    enum node_way (*where)(const void *ud, int node);  /* NULL: all NODE_HERE */
    int (*device)(const void *ud, int node);           /* which device runs it; NULL: only one */
    const void *ud;
};

/* Nodes that match a pattern, named after its parts; NULL: the part is absent. */
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

/* Returns the name of a fusion; "" for FUSE_NONE and values out of range. */
const char *fuse_name(enum fusion f);
/* Returns the fusion that starts at node `at` and ends before `end`, with its nodes in m;
 * FUSE_NONE: the node runs alone. */
enum fusion fuse_at(const struct graph *g, int at, int end, const struct target *t,
                    struct match *m);
/* Returns whether any pattern available to the target and its batch class starts with this
 * operation, so that a single such node might belong to a larger fusion. */
bool fuse_begins(enum gr_op op, const struct target *t);

#endif
