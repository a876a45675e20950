// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/host.c - program steps that run no kernel.
 *
 * For a node computed by the CPU, they fetch its inputs, run the CPU operator, and send its output
 * back. Other steps move registers between devices and copy experts. Graph capture stops before
 * such a step and resumes after it. */
#include <stdlib.h>

#include "base/mem.h"
#include "runtime/engine/cuda/exec.h"

/* Prepares the CPU to compute the experts in main memory: packs their weights and allocates its
 * operators' buffers. Packed rows take as much memory as the experts, so this is done by the first
 * pass that computes experts on the CPU; a session whose passes copy all experts never does it. */
int exec_cuda_open_host(struct session *s, struct err *e) {
    struct cuda_set *all = s->dev;
    if (all->host_open) return 0;
    bool *here = xcalloc((size_t)s->g->n_weights, sizeof *here);
    /* is_host is the same in all parts */
    for (int i = 0; i < s->g->n_weights; i++) here[i] = all->part[0]->w[i].is_host;
    int rc = exec_pack(s, here, e);
    free(here);
    if (!rc) rc = exec_alloc(s, e);
    if (rc) exec_free(s); /* the next pass tries again */
    all->host_open = !rc;
    return rc;
}

/* Returns the bytes of register r for the pass's tokens. */
static uint64_t reg_bytes(const struct session *s, gr_reg r) {
    return (uint64_t)(s->n_tok * s->g->reg_width[r]) * sizeof(float);
}

/* Returns the step's first node. */
static const struct gr_node *node_of(const struct session *s, const struct step *p) {
    return &s->g->node[p->first];
}
/* Copies the inputs of a step's node to main memory. */
static int fetch_inputs(struct cuda *d, const struct step *p, struct err *e) {
    struct session *s = d->s;
    const struct gr_node *n = node_of(s, p);
    TRY(exec_cuda_open_host(s, e));
    for (int k = 0; k < GR_SOURCES; k++) {
        const gr_reg r = n->src[k];
        if (r == GR_NONE || (k && r == n->src[0])) continue;
        TRY(cu_download(d->q, s->reg[r], d->reg[r], reg_bytes(s, r), e));
    }
    return cu_sync(d->q, e);
}
/* Computes the node of step p with the CPU's operators, which also call observers. */
static int compute(struct cuda *d, const struct step *p, struct err *e) {
    struct session *s = d->s;
    (void)e;
    exec_acts_stale(s, NULL);
    exec_table[node_of(s, p)->op](s, node_of(s, p));
    return 0;
}
/* Copies the output of a step's node from main memory to the device. */
static int send_output(struct cuda *d, const struct step *p, struct err *e) {
    struct session *s = d->s;
    const gr_reg r = node_of(s, p)->dst;
    return cu_upload(d->q, d->reg[r], s->reg[r], reg_bytes(s, r), e);
}
/* Copies the step's register from another device to d. */
static int move_reg(struct cuda *d, const struct step *p, struct err *e) {
    const struct cuda *from = d->all->part[p->from];
    return cu_move(d->q, d->reg[p->reg], from->q, from->reg[p->reg], reg_bytes(d->s, p->reg), e);
}

int exec_cuda_copy_step(struct cuda *d, const struct step *p, struct err *e) {
    static int (*const of[])(struct cuda *, const struct step *,
                             struct err *) = {[STEP_FETCH] = fetch_inputs,
                                              [STEP_HOST] = compute,
                                              [STEP_SEND] = send_output,
                                              [STEP_MOVE] = move_reg,
                                              [STEP_BRING] = exec_cuda_bring};
    return of[p->kind](d, p, e);
}

int exec_cuda_begin(struct cuda *d, struct err *e) {
    struct session *s = d->s;
    const int64_t *n = s->g->section;
    const struct cu_sections sections = {.n = {(int)n[0], (int)n[1], (int)n[2]},
                                         .mixed = s->g->mixed_sections,
                                         .any = n[1] + n[2] > 0};
    if (d->all->recording && !d->all->capturing) {
        TRY(cu_graph_begin(d->q, e));
        d->all->capturing = d;
    }
    for (int i = 0; i < s->n_ropes && !d->begun; i++)
        TRY(cu_rope_table(d->q, d->rope[i].freq, d->rope[i].m, sections.any ? d->turn_pos : d->pos,
                          sections, s->n_tok, s->rope[i].n_rot / 2, d->rope[i].cs, e));
    d->begun = true;
    return 0;
}

int exec_cuda_end_piece(struct cuda_set *all, struct err *e) {
    const struct cuda *d = all->capturing;
    struct cu_graph *g = NULL;
    if (!d) return 0;
    all->capturing = NULL;
    TRY(cu_graph_end(d->q, &g, e));
    all->step = xreallocarray(all->step, (size_t)all->n_steps + 1, sizeof(void *));
    all->step[all->n_steps++] = g;
    return cu_graph_run(d->q, g, e);
}
