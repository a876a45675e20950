// SPDX-License-Identifier: MIT
/* runtime/engine/program.c - a graph to a list of steps, and which of them a session keeps. */
#include "runtime/engine/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

enum batch batch_of(int64_t n_rows) {
    return n_rows == 1 ? BATCH_ONE : n_rows <= BATCH_FEW_ROWS ? BATCH_FEW : BATCH_MANY;
}

void program_release(struct program *p) {
    free(p->step);
    *p = (struct program){0};
}

static bool is_host(const struct target *t, int node) {
    return t->on_host && t->on_host(t->ud, node);
}

static int device_of(const struct target *t, int node) {
    return t->device ? t->device(t->ud, node) : 0;
}

static void add(struct program *p, const struct step *step) {
    p->step = xreallocarray(p->step, (size_t)p->n_steps + 1, sizeof *p->step);
    p->step[p->n_steps++] = *step;
}

/* All that nodes from i on read, to where node i is. */
static void add_moves(struct program *p, const struct graph *g, int i, int from, int to) {
    for (gr_reg r = 0; r < g->n_regs; r++)
        if (graph_live(g, i, r))
            add(p, &(struct step){
                       .kind = STEP_MOVE, .first = i, .device = to, .from = from, .reg = r});
}

static void add_host(struct program *p, int i, int device) {
    static const struct {
        enum step_kind kind;
        int n_nodes;
    } steps[] = {{STEP_FETCH, 0}, {STEP_HOST, 1}, {STEP_SEND, 0}};
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++)
        add(p, &(struct step){.kind = steps[k].kind,
                              .first = i,
                              .n_nodes = steps[k].n_nodes,
                              .fusion = FUSE_NONE,
                              .device = device});
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
        while (end < g->n_nodes && (end <= i || device_of(t, end) == device)) end++;
        if (is_host(t, i)) {
            add_host(p, i++, device);
            continue;
        }
        struct step s = {.kind = STEP_RUN, .first = i, .device = device};
        s.fusion = fuse_at(g, i, end, t, &s.nodes);
        s.n_nodes = s.nodes.n_nodes;
        i += s.n_nodes;
        add(p, &s);
    }
}

static bool same_target(const struct target *a, const struct target *b) {
    return a->fusions == b->fusions && a->batch == b->batch && a->exact == b->exact &&
           a->few == b->few && a->many == b->many && a->tails == b->tails &&
           a->sees_routes == b->sees_routes && a->sees_all == b->sees_all &&
           a->copies == b->copies && a->way == b->way && a->joins == b->joins &&
           a->on_host == b->on_host && a->device == b->device && a->ud == b->ud;
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
