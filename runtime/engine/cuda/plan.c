// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/plan.c - the device memory of a session, computed before allocation.
 *
 * Bytes: the model's tensors as stored in the file or packed (8-bit activations), vectors as f32,
 * registers n_ubatch * (sum of widths) * 4, cache, states, HEAD_ROWS rows of logits, scratch of
 * products. The sum, rounded up like device allocations, is compared with the free memory less
 * CU_KEEP_FREE (split.c) before anything is allocated. If it does not fit, experts of the last
 * blocks stay in main memory; the CPU's operators compute them or, for many tokens, they are copied
 * to the device (stream.c). */
#include <string.h>

#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

/* A buffer that is being divided up. p NULL: only counts the bytes. */
struct cut {
    uint8_t *p;
    uint64_t at;
};
/* Returns the next n elements of `size` bytes, aligned; NULL while only sizes are computed. */
static void *cut_piece(struct cut *c, int64_t n, uint64_t size) {
    uint8_t *p = c->p ? c->p + c->at : NULL;
    c->at += round_up((uint64_t)(n > 0 ? n : 1) * size, CUDA_ALIGN);
    return p;
}

/* Cuts the registers and, for passes of few rows, their 8-bit copies from the memory. */
static void cut_regs(struct cuda *d, struct cut *c) {
    struct session *s = d->s;
    for (int i = 0; i < s->g->n_regs; i++)
        d->reg[i] = cut_piece(c, s->g->reg_width[i] * s->o.n_ubatch, sizeof(float));
    /* Products of few tokens read registers in 8 bits. */
    for (int i = 0; i < s->g->n_regs && !d->exact; i++)
        if (s->g->reg_width[i] % 64 == 0)
            d->q8[i] = cut_piece(c, CU_FEW * CU_ACT_BYTES(s->g->reg_width[i]), 1);
}

/* Cuts the buffers for attention, experts, logits and rope tables from the memory. */
static void cut_work(struct cuda *d, struct cut *c) {
    struct session *s = d->s;
    const int64_t few = min_i64(CU_FEW, s->o.n_ubatch);
    int64_t n = s->o.n_ubatch, experts = 0, pairs = 0, hidden = 0, part = 0, hidden_q = 0;
    int64_t hidden_up = 0;
    for (int i = 0; i < graph_count(s->g, OP_ATTN); i++) {
        const struct gr_node *x = graph_nth(s->g, OP_ATTN, i);
        part = max_i64(part, few * x->attn.n_heads * d->n_splits * (x->attn.head_dim + 2));
    }
    for (int i = 0; i < graph_count(s->g, OP_MOE); i++) {
        const struct gr_node *x = graph_nth(s->g, OP_MOE, i);
        experts = max_i64(experts, s->g->weight[x->moe.router].ne[1]);
        pairs = max_i64(pairs, n * x->moe.n_used);
        int64_t f = s->g->weight[x->moe.down].ne[0];
        hidden = max_i64(hidden, n * x->moe.n_used * f);
        if (!exec_cuda_glu_is_whole(&x->moe) && !x->moe.relu2) hidden_up = hidden;
        if (f % 64 == 0 && !d->exact)
            hidden_q = max_i64(hidden_q, CU_FEW * x->moe.n_used * CU_ACT_BYTES(f));
    }
    d->rows = cut_piece(c, 1, exec_cuda_rows_bytes(n));
    d->arrived = cut_piece(c, CUDA_ARRIVED, sizeof(int32_t));
    d->router = cut_piece(c, n * experts, sizeof(float));
    d->expert = cut_piece(c, pairs, sizeof(int32_t));
    d->p = cut_piece(c, pairs, sizeof(float));
    d->hidden = cut_piece(c, hidden, sizeof(float));
    d->hidden_up = hidden_up ? cut_piece(c, hidden_up, sizeof(float)) : NULL;
    d->hidden_q = hidden_q ? cut_piece(c, hidden_q, 1) : NULL;
    d->part = cut_piece(c, part, sizeof(float));
    if (d->place == d->all->head) {
        d->head_x = cut_piece(c, HEAD_ROWS * s->m->hp.d[HD_EMBD], sizeof(float));
        d->logits = cut_piece(c, HEAD_ROWS * s->g->weight[s->g->output].ne[1], sizeof(float));
        d->target = cut_piece(c, HEAD_ROWS, sizeof *d->target);
        d->score = cut_piece(c, HEAD_ROWS, sizeof *d->score);
        d->best = cut_piece(c, HEAD_ROWS, sizeof *d->best);
        d->best_work = cut_piece(c, BEST_ROWS, CU_BEST_WORK);
    }
    for (int i = 0; i < s->n_ropes; i++) {
        d->rope[i].freq = cut_piece(c, s->rope[i].n_rot / 2, sizeof(double));
        d->rope[i].cs = cut_piece(c, n * s->rope[i].n_rot, sizeof(float));
    }
}

void exec_cuda_lay_out(struct cuda *d, void *regs, void *work) {
    cut_regs(d, &(struct cut){regs, 0});
    cut_work(d, &(struct cut){work, 0});
}

/* Returns the largest scratch, in bytes, of products of weight w with many tokens. */
static uint64_t scratch_of(const struct cuda *d, gr_w w, int64_t n_in, int64_t x_div,
                           int64_t n_sum) {
    if (w == GR_NONE) return 0;
    const struct cu_weight shape = exec_cuda_shape(model_weight(d->s->m, w));
    return cu_scratch_bytes(&shape, n_in, x_div, n_sum, d->exact);
}
/* Returns the size in bytes of the largest scratch that a product on this device needs. */
static uint64_t scratch_bytes(const struct cuda *d) {
    const struct session *s = d->s;
    const int64_t n = s->o.n_ubatch;
    const bool head = d->place == d->all->head;
    uint64_t most = head ? scratch_of(d, s->g->output, HEAD_ROWS, 1, 1) : 0;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        if (!gr_roles[u->role].product || !exec_cuda_here(d, u->node)) continue;
        const int64_t used = gr_roles[u->role].expert ? s->g->node[u->node].moe.n_used : 0;
        most = max_u64(most, !gr_roles[u->role].expert ? scratch_of(d, u->w, n, 1, 1)
                             : u->role == USE_EXP_DOWN ? scratch_of(d, u->w, n * used, 1, used)
                                                       : scratch_of(d, u->w, n * used, used, 1));
    }
    return most;
}

/* Returns the device memory that a plan's buffers take beyond their size, in bytes. */
static uint64_t rounding(const struct cuda *d, const struct cuda_plan *p) {
    const struct session *s = d->s;
    const uint64_t n[] = {p->regs, p->work, p->stage, p->stream, p->scratch};
    uint64_t sum = cache_first_rounding(&s->cache, d->place, s->o.n_ctx, cu_alloc_bytes);
    for (size_t i = 0; i < COUNT_OF(n); i++) sum += n[i] ? cu_alloc_bytes(n[i]) - n[i] : 0;
    sum *= 1 + (uint64_t)s->o.n_followers;
    for (int i = 0; i < s->g->n_weights; i++) {
        const uint64_t w = exec_cuda_upload_bytes(d, i);
        sum += w ? cu_alloc_bytes(w) - w : 0;
    }
    /* the driver's last allocation for small buffers is partly empty */
    return sum + cu_alloc_bytes(UINT64_C(2) << 20);
}

void exec_cuda_plan(struct cuda *d, struct cuda_plan *p) {
    struct session *s = d->s;
    struct cut regs = {0}, work = {0};
    memset(p, 0, sizeof *p);
    for (int i = 0; i < s->g->n_weights; i++) p->weights += exec_cuda_upload_bytes(d, i);
    p->stage = exec_cuda_stage_bytes(d);
    p->stream = exec_cuda_stream_plan(d);
    p->scratch = scratch_bytes(d);
    cut_regs(d, &regs);
    cut_work(d, &work);
    p->regs = regs.at;
    p->work = work.at;
    s->cache.pass_tok = s->o.n_ubatch;
    p->kv = cache_first_bytes(&s->cache, d->place, s->o.n_ctx, &p->rec);
    p->others = (uint64_t)s->o.n_followers * (p->regs + p->work + p->kv + p->rec + p->stage +
                                              p->scratch + exec_cuda_replaced_bytes(s));
    p->needed = p->weights + p->stage + p->stream + p->regs + p->kv + p->rec + p->work +
                p->scratch + p->others;
    p->rounding = rounding(d, p);
}
