// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/check.c - what a session requires of a device, checked before it is used:
 * cache types, all keys visible, weights without scales, and sizes for which kernels exist. Without
 * these checks `--device auto` would fail in the first pass instead of using the CPU. */
#include <inttypes.h>

#include "kernels/cuda/limits.h"
#include "runtime/engine/cuda/exec.h"

/* Returns whether caches of the type can be on a GPU. */
static bool has_kv_type(const struct kv_type *t) {
    return (t->flags & KV_ON_CUDA) != 0;
}

/* Returns an error unless GPUs support the cache's types. */
static int check_kv(const struct session *s, struct err *e) {
    for (int i = 0; i < s->cache.kv.n_slots; i++) {
        const struct kv_slot *c = &s->cache.kv.slot[i];
        if (!c->n_heads || (has_kv_type(c->kt) && has_kv_type(c->vt))) continue;
        return err_set(e, ERR_USAGE,
                       "a cache of type %s/%s does not exist on CUDA: use f32, f16, q8_0 or "
                       "q4_0, or --device cpu",
                       c->kt->name, c->vt->name);
    }
    return 0;
}

/* Fails if the context is long enough for attention to see selected keys only. */
static int check_keys(const struct session *s, struct err *e) {
    if (s->all_keys) return 0;
    return err_set(e, ERR_USAGE,
                   "sparse attention is not supported on CUDA: use --ctx %" PRId64
                   " or less, or --device cpu",
                   graph_top_keys(s->g));
}

/* Fails if the model has weights with scales of their own, which no kernel applies. */
static int check_scales(const struct session *s, struct err *e) {
    for (int i = 0; i < s->g->n_weights; i++)
        if (model_weight(s->m, i)->scale)
            return err_set(e, ERR_USAGE,
                           "%s has a scale of its own (NVFP4), which is not supported on CUDA: "
                           "use --device cpu, or convert with --type bf16",
                           s->g->weight[i].name);
    return 0;
}

/* ---- sizes, by operation ---- */

static int check_attn(const struct session *s, const struct gr_node *n, struct err *e) {
    const struct kv_slot *c = &s->cache.kv.slot[n->slot];
    TRY(cu_check(cu_head_limit(c->kt->type), n->attn.head_dim - n->attn.latent, e));
    return cu_check(cu_head_limit(c->vt->type), gr_attn_values(&n->attn), e);
}
static int check_head_matrix(const struct session *s, const struct gr_node *n, struct err *e) {
    const int64_t n_heads = s->g->weight[n->product.matrix].ne[2];
    return cu_check(CU_HEAD_MATRIX, s->g->reg_width[n->src[0]] / n_heads, e);
}
static int check_conv(const struct session *s, const struct gr_node *n, struct err *e) {
    return cu_check(CU_TAPS, s->g->weight[n->conv.weight].ne[0], e);
}
static int check_delta(const struct session *s, const struct gr_node *n, struct err *e) {
    (void)s;
    return cu_check(CU_DELTA_KEY, n->delta.k_dim, e);
}
static int check_scan(const struct session *s, const struct gr_node *n, struct err *e) {
    (void)s;
    return cu_check(CU_STATE, n->delta.k_dim, e);
}
static int check_experts(const struct session *s, const struct gr_node *n, struct err *e) {
    const int64_t groups = n->moe.choice.groups;
    TRY(cu_check(CU_EXPERTS, s->g->weight[n->moe.router].ne[1], e));
    return groups ? cu_check(CU_GROUPS, groups, e) : 0;
}

typedef int (*check_fn)(const struct session *s, const struct gr_node *n, struct err *e);
static const check_fn check_of[OP_COUNT] = {
    [OP_ATTN] = check_attn,      [OP_MATMUL_HEADS] = check_head_matrix,
    [OP_CONV_SILU] = check_conv, [OP_SHORT_CONV] = check_conv,
    [OP_DELTA] = check_delta,    [OP_KDA] = check_scan,
    [OP_MAMBA1] = check_scan,    [OP_MAMBA2] = check_scan,
    [OP_MOE] = check_experts};

int exec_cuda_check(const struct session *s, struct err *e) {
    TRY(check_kv(s, e));
    TRY(check_keys(s, e));
    TRY(check_scales(s, e));
    for (int op = 0; op < OP_COUNT; op++)
        for (int i = 0; check_of[op] && i < graph_count(s->g, (enum gr_op)op); i++)
            TRY(check_of[op](s, graph_nth(s->g, (enum gr_op)op, i), e));
    return 0;
}
