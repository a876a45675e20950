// SPDX-License-Identifier: MIT
/* runtime/engine/exec_cuda_host.c - nodes that the CPU computes for a device: the steps of a
 * program that fetch what such a node reads, run it with the CPU's operators, and send back what it
 * wrote. What is captured of a token ends before them and goes on behind them. */
#include <stdlib.h>

#include "core/mem.h"
#include "runtime/engine/exec_cuda.h"

/* Packed rows are as large as the experts: a session whose passes all copy them does without. */
int exec_cuda_open_host(struct session *s, struct err *e) {
    struct cuda *d = s->dev;
    if (d->host_open) return 0;
    bool *here = xcalloc((size_t)s->g->n_weights, sizeof *here);
    for (int i = 0; i < s->g->n_weights; i++) here[i] = d->w[i].is_host;
    int rc = exec_pack(s, here, e);
    free(here);
    if (!rc) rc = exec_alloc(s, e);
    if (rc) exec_free(s); /* the next pass tries again */
    d->host_open = !rc;
    return rc;
}

static uint64_t reg_bytes(const struct session *s, gr_reg r) {
    return (uint64_t)(s->n_tok * s->g->reg_width[r]) * sizeof(float);
}

static int fetch(struct session *s, const struct gr_node *n, struct err *e) {
    struct cuda *d = s->dev;
    TRY(exec_cuda_open_host(s, e));
    for (int k = 0; k < GR_SOURCES; k++) {
        const gr_reg r = n->src[k];
        if (r == GR_NONE || (k && r == n->src[0])) continue;
        TRY(cu_download(d->q, s->reg[r], d->reg[r], reg_bytes(s, r), e));
    }
    return cu_sync(d->q, e);
}
/* Observers are served here. */
static int compute(struct session *s, const struct gr_node *n, struct err *e) {
    (void)e;
    exec_acts_stale(s, NULL);
    exec_table[n->op](s, n);
    return 0;
}
static int send(struct session *s, const struct gr_node *n, struct err *e) {
    struct cuda *d = s->dev;
    return cu_upload(d->q, d->reg[n->dst], s->reg[n->dst], reg_bytes(s, n->dst), e);
}

int exec_cuda_host_step(struct session *s, const struct step *p, struct err *e) {
    static int (*const of[])(struct session *, const struct gr_node *, struct err *) = {
        [STEP_FETCH] = fetch, [STEP_HOST] = compute, [STEP_SEND] = send};
    return of[p->kind](s, &s->g->node[p->first], e);
}

int exec_cuda_host_record(struct session *s, const struct step *p, struct err *e) {
    struct cuda *d = s->dev;
    if (p->kind == STEP_FETCH) {
        TRY(cu_graph_end(d->q, &d->step[d->n_steps], e));
        TRY(cu_graph_run(d->q, d->step[d->n_steps++], e));
    }
    TRY(exec_cuda_host_step(s, p, e));
    return p->kind == STEP_SEND ? cu_graph_begin(d->q, e) : 0;
}
