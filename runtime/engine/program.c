// SPDX-License-Identifier: MIT
/* runtime/engine/program.c - compiler from a graph to a list of steps, and a session's cache of
 * programs. */
#include "runtime/engine/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum batch batch_of(int64_t n_rows) {
    return n_rows == 1 ? BATCH_ONE : n_rows <= BATCH_FEW_ROWS ? BATCH_FEW : BATCH_MANY;
}

void program_release(struct program *p) {
    free(p->step);
    *p = (struct program){0};
}

enum step_part step_part_of(enum gr_role role) {
    return role == USE_EXP_DOWN ? PART_CONTRACT : gr_roles[role].expert ? PART_EXPAND : PART_CHOOSE;
}

/* Returns where node i runs; without a callback, on the executor itself. */
static enum node_way where_is(const struct target *t, int node) {
    return t->where ? t->where(t->ud, node) : NODE_HERE;
}

/* Returns the index of the device that runs a node; 0 without a device function. */
static int device_of(const struct target *t, int node) {
    return t->device ? t->device(t->ud, node) : 0;
}

static void add_step(struct program *p, const struct step *step) {
    p->step = xreallocarray(p->step, (size_t)p->n_steps + 1, sizeof *p->step);
    p->step[p->n_steps++] = *step;
}

/* Appends a move to the device of node i for each register that node i or a later node reads. */
static void add_moves(struct program *p, const struct graph *g, int i, int from, int to) {
    for (gr_reg r = 0; r < g->n_regs; r++)
        if (graph_live(g, i, r))
            add_step(p, &(struct step){.kind = STEP_MOVE,
                                       .first = i,
                                       .fusion = FUSE_NONE,
                                       .device = to,
                                       .from = from,
                                       .reg = r});
}

static bool has_role(const struct gr_node *n, enum gr_role role) {
    const struct gr_op_weight *w = gr_ops[n->op].w;
    for (int k = 0; k < GR_WEIGHTS && w[k].role; k++)
        if (w[k].role == role && gr_node_weight(n, k) != GR_NONE) return true;
    return false;
}

/* The steps, in order, that replace a node that is not NODE_HERE. Rows for weights that the node
 * does not have are skipped. */
static const struct instead {
    enum node_way way;
    enum step_kind kind;
    enum step_part part;
    enum gr_role role;
    int n_nodes;
} instead[] = {
    {.way = NODE_HOST, .kind = STEP_FETCH},
    {.way = NODE_HOST, .kind = STEP_HOST, .n_nodes = 1},
    {.way = NODE_HOST, .kind = STEP_SEND},
    {.way = NODE_BROUGHT, .kind = STEP_RUN, .part = PART_CHOOSE},
    {.way = NODE_BROUGHT, .kind = STEP_BRING, .role = USE_EXP_GATE},
    {.way = NODE_BROUGHT, .kind = STEP_BRING, .role = USE_EXP_UP},
    {.way = NODE_BROUGHT, .kind = STEP_RUN, .part = PART_EXPAND},
    {.way = NODE_BROUGHT, .kind = STEP_BRING, .role = USE_EXP_DOWN},
    {.way = NODE_BROUGHT, .kind = STEP_RUN, .part = PART_CONTRACT, .n_nodes = 1},
};
/* Adds the steps that replace node i where its device cannot run it. */
static void add_instead(struct program *p, const struct graph *g, int i, enum node_way way,
                        int device) {
    for (size_t k = 0; k < sizeof instead / sizeof instead[0]; k++) {
        const struct instead *o = &instead[k];
        if (o->way != way || (o->role && !has_role(&g->node[i], o->role))) continue;
        add_step(p, &(struct step){.kind = o->kind,
                                   .part = o->part,
                                   .first = i,
                                   .n_nodes = o->n_nodes,
                                   .fusion = FUSE_NONE,
                                   .device = device,
                                   .role = o->role});
    }
}

static bool skipped(const struct target *t, const struct graph *g, int node) {
    return t->all_keys && g->node[node].selects;
}

void program_compile(struct program *p, const struct graph *g, int first, const struct target *t) {
    struct step *old = p->step;
    *p = (struct program){.first = first, .target = *t};
    free(old);
    int at = first < g->n_nodes ? device_of(t, first) : 0;
    for (int i = first, end = first; i < g->n_nodes;) {
        const int device = device_of(t, i);
        if (device != at) add_moves(p, g, i, at, device);
        at = device;
        if (skipped(t, g, i)) {
            i++;
            continue;
        }
        if (end <= i) end = i + 1;
        while (end < g->n_nodes && !skipped(t, g, end) && device_of(t, end) == device) end++;
        const enum node_way way = where_is(t, i);
        if (way != NODE_HERE) {
            add_instead(p, g, i++, way, device);
            continue;
        }
        struct step s = {.kind = STEP_RUN, .first = i, .device = device};
        s.fusion = fuse_at(g, i, end, t, &s.nodes);
        s.n_nodes = s.nodes.n_nodes;
        i += s.n_nodes;
        add_step(p, &s);
    }
}

/* Returns whether programs for both targets would be equal. */
static bool same_target(const struct target *a, const struct target *b) {
    return a->fusions == b->fusions && a->batch == b->batch && a->exact == b->exact &&
           a->few == b->few && a->many == b->many && a->sees_routes == b->sees_routes &&
           a->sees_all == b->sees_all && a->all_keys == b->all_keys && a->brings == b->brings &&
           a->way == b->way && a->joins == b->joins && a->where == b->where &&
           a->device == b->device && a->ud == b->ud;
}

const struct program *programs_get(struct programs *p, const struct graph *g, int first,
                                   const struct target *t) {
    struct program *o = &p->of[t->batch];
    if (!o->step || o->first != first || !same_target(&o->target, t))
        program_compile(o, g, first, t);
    return o;
}

void programs_forget(struct programs *p) {
    for (int i = 0; i < BATCH_COUNT; i++) program_release(&p->of[i]);
}
