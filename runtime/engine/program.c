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

void program_compile(struct program *p, const struct graph *g, int first, const struct target *t) {
    int n_host = 0;
    for (int i = first; i < g->n_nodes; i++) n_host += is_host(t, i);
    const size_t most = (size_t)(g->n_nodes - first + 2 * n_host) + 1;
    struct step *step = xreallocarray(p->step, most, sizeof *step);
    *p = (struct program){.step = step, .first = first, .target = *t};
    for (int i = first; i < g->n_nodes;) {
        if (is_host(t, i)) {
            step[p->n_steps++] = (struct step){STEP_FETCH, i, 0, FUSE_NONE, {0}};
            step[p->n_steps++] = (struct step){STEP_HOST, i, 1, FUSE_NONE, {0}};
            step[p->n_steps++] = (struct step){STEP_SEND, i++, 0, FUSE_NONE, {0}};
            continue;
        }
        struct step *s = &step[p->n_steps++];
        *s = (struct step){.kind = STEP_RUN, .first = i};
        s->fusion = fuse_at(g, i, t, &s->nodes);
        s->n_nodes = s->nodes.n_nodes;
        i += s->n_nodes;
    }
}

static bool same_target(const struct target *a, const struct target *b) {
    return a->fusions == b->fusions && a->batch == b->batch && a->exact == b->exact &&
           a->few == b->few && a->many == b->many && a->tails == b->tails &&
           a->sees_routes == b->sees_routes && a->sees_all == b->sees_all &&
           a->copies == b->copies && a->way == b->way && a->joins == b->joins &&
           a->on_host == b->on_host && a->ud == b->ud;
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
