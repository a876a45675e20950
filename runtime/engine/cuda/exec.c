// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/exec.c - queues the nodes of a graph on a device: one small function per
 * operation and one per fusion. Independent of architectures and tensor types. Waits for the device
 * only when an observer needs rows. */
#include "runtime/engine/cuda/exec.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

typedef int (*cuda_fn)(struct cuda *d, const struct gr_node *n, struct err *e);

/* Returns the values per token of register r. */
static int64_t width_of(const struct cuda *d, gr_reg r) {
    return d->s->g->reg_width[r];
}
/* Returns the number of values of register r in this pass. */
static int64_t n_values(const struct cuda *d, gr_reg r) {
    return d->s->n_tok * d->s->g->reg_width[r];
}
/* Returns the device copy of a vector; NULL for GR_NONE. */
static const float *vec_of(const struct cuda *d, gr_w w) {
    return w == GR_NONE ? NULL : d->w[w].vec;
}

/* ---- observers ---- */

int exec_cuda_fetch(struct cuda *d, const float *src, int64_t n, float **out, struct err *e) {
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)max_i64(n, 1) * sizeof **out, "rows for an observer", e));
    int rc = cu_download(d->q, p, src, (uint64_t)n * sizeof **out, e);
    if (!rc) rc = cu_sync(d->q, e);
    if (rc)
        mem_free(p);
    else
        *out = p;
    return rc;
}

int exec_cuda_show(struct cuda *d, gr_w w, const float *src, int64_t n_rows, int64_t ld,
                   struct err *e) {
    struct session *s = d->s;
    float *x = NULL;
    if (!s->probe.product) return 0;
    if (d->sums) return exec_cuda_sum(d, w, src, n_rows, ld, e);
    TRY(exec_cuda_fetch(d, src, n_rows * ld, &x, e));
    if (n_rows == s->n_tok)
        exec_show(s, w, x, ld);
    else /* only the last row, for the head */
        exec_show_head(s, x, n_rows);
    mem_free(x);
    return 0;
}

/* Passes the residual after `block` (-1: embeddings) to the observer if it wants that block. */
static int show_hidden(struct cuda *d, int block, struct err *e) {
    struct session *s = d->s;
    float *x = NULL;
    if (!exec_wants_hidden(s, block)) return 0;
    if (!s->probe.stays)
        TRY(exec_cuda_fetch(d, d->reg[s->g->residual], n_values(d, s->g->residual), &x, e));
    exec_show_hidden(s, block, x);
    mem_free(x);
    return 0;
}

/* ---- one node, one launch ---- */

int exec_cuda_refuse(struct cuda *d, const struct gr_node *n, struct err *e) {
    (void)d;
    return err_set(e, ERR_USAGE, "CUDA: %s of block %d is not supported: use --device cpu",
                   gr_op_name(n->op), n->layer);
}
/* Queues EMBED for the pass (models/ops.def): dst = the table rows of the tokens, or rows of
 * images. */
static int op_embed(struct cuda *d, const struct gr_node *n, struct err *e) {
    const struct cu_weight *w = &d->w[n->embed.table].w;
    TRY(cu_decode_rows(d->q, w->type, w->data, w->k, n->embed.position ? d->pos : d->ids,
                       d->s->n_tok, n->embed.scale != 0 ? n->embed.scale : 1, d->reg[n->dst],
                       width_of(d, n->dst), e));
    const bool images = !n->embed.position && n->dst == d->s->g->residual;
    return images ? exec_cuda_embed_images(d, n, e) : 0;
}

/* Queues a norm. The same kernel can first add, so the bits are the same whether or not the step
 * has a sum. */
static int op_rms(struct cuda *d, const struct gr_node *n, struct err *e) {
    const struct cu_norm o = {.a = d->reg[n->src[0]],
                              .w = vec_of(d, n->norm.weight),
                              .y = d->reg[n->dst],
                              .yq = exec_cuda_copy_of(d, n->dst),
                              .n = width_of(d, n->dst),
                              .eps = n->norm.eps};
    return cu_norm_rows(d->q, &o, d->s->n_tok, e);
}
/* Queues RMS_HEADS for the pass (models/ops.def): normalizes each head. */
static int op_rms_heads(struct cuda *d, const struct gr_node *n, struct err *e) {
    const int64_t *ne = n->norm.weight == GR_NONE ? NULL : d->s->g->weight[n->norm.weight].ne;
    return cu_rms(d->q, d->reg[n->src[0]], vec_of(d, n->norm.weight), d->reg[n->dst],
                  n_values(d, n->dst) / n->norm.head_dim, n->norm.head_dim,
                  ne ? ne[0] * ne[1] : n->norm.head_dim, n->norm.eps, e);
}
/* Queues GATED_RMS for the pass (models/ops.def): normalizes heads, times silu(src1). */
static int op_gated_rms(struct cuda *d, const struct gr_node *n, struct err *e) {
    return cu_gated_rms(d->q, d->reg[n->src[0]], vec_of(d, n->norm.weight), d->reg[n->src[1]],
                        d->reg[n->dst], n_values(d, n->dst) / n->norm.head_dim, n->norm.head_dim,
                        n->norm.eps, e);
}

/* Queues MATMUL for the pass (models/ops.def): one matrix product. */
static int op_matmul(struct cuda *d, const struct gr_node *n, struct err *e) {
    int64_t ld = width_of(d, n->src[0]);
    if (exec_cuda_is_fast(d, n) && cu_part_can(&d->w[n->product.matrix].w, false))
        return exec_cuda_fast_products(d, &n, 1, e);
    TRY(exec_cuda_show(d, n->product.matrix, d->reg[n->src[0]], d->s->n_tok, ld, e));
    return cu_matmul(d->q, &d->w[n->product.matrix].w, d->reg[n->src[0]], ld, d->s->n_tok,
                     d->reg[n->dst], width_of(d, n->dst), d->exact, e);
}

/* Queues MATMUL_HEADS for the pass (models/ops.def): one product per head. */
static int op_matmul_heads(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct session *s = d->s;
    const struct cu_weight *w = &d->w[n->product.matrix].w;
    const float *x = d->reg[n->src[0]];
    const int64_t in = width_of(d, n->src[0]) / w->mats;
    if (s->probe.product) {
        float *host = NULL;
        TRY(exec_cuda_fetch(d, x, n_values(d, n->src[0]), &host, e));
        exec_show_heads(s, n->product.matrix, host, in);
        mem_free(host);
    }
    return cu_matmul_heads(d->q, w, x, in, s->n_tok, d->reg[n->dst], e);
}

/* Queues ADD for the pass (models/ops.def): dst = src0 + src1. */
static int op_add(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    return cu_add(d->q, r[n->src[0]], r[n->src[1]], r[n->dst], n_values(d, n->dst), e);
}
/* Queues BIAS for the pass (models/ops.def): adds the same vector to each token. */
static int op_bias(struct cuda *d, const struct gr_node *n, struct err *e) {
    return cu_add_bias(d->q, d->reg[n->dst], vec_of(d, n->bias.values), n_values(d, n->dst),
                       width_of(d, n->dst), e);
}
/* Queues SPLIT_GATE for the pass (models/ops.def): separates queries from gates. */
static int op_split_gate(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    return cu_split_gate(d->q, r[n->src[0]], r[n->dst], r[n->dst2],
                         n_values(d, n->dst) / n->heads.head_dim, n->heads.head_dim, e);
}
/* Queues SIGMOID_MUL for the pass (models/ops.def): dst *= sigmoid(src0). */
static int op_sigmoid_mul(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    return cu_sigmoid_mul(d->q, r[n->dst], r[n->src[0]], n_values(d, n->dst), e);
}
/* Queues MUL for the pass (models/ops.def): dst *= f(src0). */
static int op_mul(struct cuda *d, const struct gr_node *n, struct err *e) {
    static const int of[] = {[GR_VALUE] = CU_FACTOR_VALUE,
                             [GR_SIGMOID_OF] = CU_FACTOR_SIGMOID,
                             [GR_SOFTPLUS_OF] = CU_FACTOR_SOFTPLUS};
    float **r = d->reg;
    return cu_mul(d->q, r[n->dst], r[n->src[0]], n_values(d, n->dst),
                  width_of(d, n->dst) / width_of(d, n->src[0]), of[n->mul.f], e);
}
/* Queues CLAMP for the pass (models/ops.def): limits dst to [-by, by]. */
static int op_clamp(struct cuda *d, const struct gr_node *n, struct err *e) {
    return cu_clamp(d->q, d->reg[n->dst], n_values(d, n->dst), n->scale.by, e);
}
/* Queues FIT_HEADS for the pass (models/ops.def): cuts or zero-pads each head. */
static int op_fit_heads(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    return cu_fit_heads(d->q, r[n->src[0]], r[n->dst], n_values(d, n->dst), n->heads.from,
                        n->heads.head_dim, e);
}
/* Queues SWIGLU for the pass (models/ops.def): dst = silu(src0) * src1. */
static int op_swiglu(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    return cu_swiglu(d->q, r[n->src[0]], r[n->src[1]], r[n->dst], n_values(d, n->dst), e);
}
/* Queues GEGLU for the pass (models/ops.def): dst = gelu(src0) * src1. */
static int op_geglu(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    return cu_geglu(d->q, r[n->src[0]], r[n->src[1]] + n->pick.offset, r[n->dst], d->s->n_tok,
                    width_of(d, n->dst), width_of(d, n->src[1]), e);
}
/* Queues LAYER_NORM for the pass (models/ops.def): normalizes groups around their mean. */
static int op_layer_norm(struct cuda *d, const struct gr_node *n, struct err *e) {
    const int64_t group = n->norm.head_dim ? n->norm.head_dim : width_of(d, n->dst);
    const int64_t *ne = n->norm.weight == GR_NONE ? NULL : d->s->g->weight[n->norm.weight].ne;
    return cu_layer_norm(d->q, d->reg[n->src[0]], vec_of(d, n->norm.weight),
                         vec_of(d, n->norm.bias), d->reg[n->dst], n_values(d, n->dst) / group,
                         group, ne ? ne[0] * ne[1] : group, n->norm.eps, e);
}
/* Queues ACT for the pass (models/ops.def): activation, with an optional factor. */
static int op_act(struct cuda *d, const struct gr_node *n, struct err *e) {
    static const int of[] = {
        [GR_SILU] = CU_ACT_SILU,      [GR_GELU] = CU_ACT_GELU,   [GR_GELU_ERF] = CU_ACT_GELU_ERF,
        [GR_RELU2] = CU_ACT_RELU2,    [GR_XIELU] = CU_ACT_XIELU, [GR_TANH] = CU_ACT_TANH,
        [GR_CLAMPED] = CU_ACT_CLAMPED};
    const struct gr_xielu limits = {.p = GR_CLAMPED_ALPHA, .eps = GR_CLAMPED_LIMIT};
    const struct gr_xielu *a = n->pick.f == GR_CLAMPED ? &limits : &n->pick.xielu;
    float **r = d->reg;
    const bool two = n->src[1] != GR_NONE;
    return cu_act_rows(d->q, r[n->src[0]], width_of(d, n->src[0]),
                       two ? r[n->src[1]] + n->pick.offset : NULL, two ? width_of(d, n->src[1]) : 0,
                       r[n->dst], d->s->n_tok, width_of(d, n->dst), of[n->pick.f],
                       (struct cu_xielu){a->p, a->n, a->b, a->eps}, e);
}
/* Queues COLUMNS for the pass (models/ops.def): copies a range of columns. */
static int op_columns(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    return cu_copy_rows(d->q, r[n->src[0]] + n->pick.offset, width_of(d, n->src[0]), r[n->dst],
                        d->s->n_tok, width_of(d, n->dst), e);
}
/* Queues SCALE for the pass (models/ops.def): dst *= a number or a vector. */
static int op_scale(struct cuda *d, const struct gr_node *n, struct err *e) {
    return cu_scale(d->q, d->reg[n->dst], n_values(d, n->dst), n->scale.by != 0 ? n->scale.by : 1,
                    vec_of(d, n->scale.number),
                    n->scale.number == GR_NONE ? 1 : d->s->g->weight[n->scale.number].ne[0], e);
}
/* Queues MIX for the pass (models/ops.def): mixes residual streams. */
static int op_mix(struct cuda *d, const struct gr_node *n, struct err *e) {
    int k = 1;
    while ((int64_t)k * k < width_of(d, n->src[1])) k++;
    return cu_mix(d->q, d->reg[n->src[0]], d->reg[n->src[1]], d->reg[n->dst], d->s->n_tok,
                  width_of(d, n->dst), k, e);
}
/* Queues SPREAD for the pass (models/ops.def): adds src0 to several streams. */
static int op_spread(struct cuda *d, const struct gr_node *n, struct err *e) {
    const float *c = n->src[1] == GR_NONE ? NULL : d->reg[n->src[1]];
    return cu_spread(d->q, d->reg[n->src[0]], c, d->reg[n->dst], d->s->n_tok, width_of(d, n->dst),
                     width_of(d, n->src[0]), (int)n->pick.offset, e);
}
/* Queues LEVEL for the pass (models/ops.def): gives streams the mean square of src0. */
static int op_level(struct cuda *d, const struct gr_node *n, struct err *e) {
    return cu_level(d->q, d->reg[n->src[0]], d->reg[n->dst], d->s->n_tok, width_of(d, n->dst),
                    width_of(d, n->src[0]), e);
}
/* Queues PEAKS for the pass (models/ops.def): keeps only values far above the mean. */
static int op_peaks(struct cuda *d, const struct gr_node *n, struct err *e) {
    return cu_peaks(d->q, d->reg[n->src[0]], d->reg[n->dst], d->s->n_tok, width_of(d, n->dst),
                    n->scale.by, e);
}
/* Queues TEMPER for the pass (models/ops.def): scales by the logarithm of the position. */
static int op_temper(struct cuda *d, const struct gr_node *n, struct err *e) {
    const struct gr_temper *t = &n->temper;
    return cu_temper(d->q, d->reg[n->dst], d->s->n_tok, width_of(d, n->dst), d->pos, t->scale,
                     t->step, t->offset, e);
}
/* Queues CONCAT for the pass (models/ops.def): joins two rows. */
static int op_concat(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    for (int64_t t = 0, at = 0; t < d->s->n_tok; t++)
        for (int k = 0; k < 2; k++) {
            int64_t w = width_of(d, n->src[k]);
            TRY(cu_copy(d->q, r[n->dst] + at, r[n->src[k]] + t * w, (uint64_t)w * sizeof(float),
                        e));
            at += w;
        }
    return 0;
}
/* Queues MOE for the pass (models/ops.def): routed experts. */
static int op_moe(struct cuda *d, const struct gr_node *n, struct err *e) {
    return exec_cuda_moe(d, n, e);
}
/* Queues GATE_ADD for the pass (models/ops.def): adds src0, gated by one number per token. */
static int op_gate_add(struct cuda *d, const struct gr_node *n, struct err *e) {
    float **r = d->reg;
    const int64_t k = width_of(d, n->src[1]);
    TRY(exec_cuda_show(d, n->gate.row, r[n->src[1]], d->s->n_tok, k, e));
    return cu_gate_add(d->q, r[n->dst], r[n->src[0]], vec_of(d, n->gate.row), r[n->src[1]],
                       d->s->n_tok, width_of(d, n->dst), k, e);
}

/* Queues ROPE for the pass (models/ops.def): rotates heads by position. */
static int op_rope(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct session *s = d->s;
    /* session_new made a table for every node. */
    int64_t tab = exec_rope_tab(s, n, false) - s->rope;
    return cu_rope(d->q, d->reg[n->dst], d->rope[tab].cs, s->n_tok,
                   width_of(d, n->dst) / n->rope.head_dim, n->rope.head_dim, n->rope.n_rot,
                   n->rope.adjacent, e);
}

/* Returns whether only the general attention kernel supports a. */
static bool is_unusual(const struct cu_attn *a) {
    return a->softcap > 0 || a->sink || a->chunked;
}
/* Returns the node's arguments for the attention kernels; without new keys, nothing is appended. */
static struct cu_attn attn_args(struct cuda *d, const struct gr_node *n) {
    struct session *s = d->s;
    const struct kv_slot *kv = &s->cache.kv.slot[n->slot];
    struct cu_attn a = {.k_type = kv->kt->type,
                        .v_type = kv->vt->type,
                        .n_heads = n->attn.n_heads,
                        .n_kv_heads = n->attn.n_kv_heads,
                        .head_dim = n->attn.head_dim,
                        .latent = n->attn.latent,
                        .window = n->attn.window,
                        .chunked = n->attn.chunked,
                        .scale = n->attn.scale,
                        .softcap = n->attn.softcap,
                        .sink = vec_of(d, n->attn.sinks),
                        .slot = n->slot,
                        .n_slots = s->cache.kv.n_slots,
                        .n_tok = s->n_tok,
                        .all_segs = d->seg,
                        .row_pos = d->pos,
                        .row_seg = d->of,
                        .fast = !d->exact && (d->fuse & CUDA_MMA_ATTN) != 0,
                        .fast_few = !d->exact && (d->fuse & CUDA_MMA_FEW) != 0,
                        .q = d->reg[n->src[0]],
                        .out = d->reg[n->dst],
                        .n_splits = d->n_splits,
                        .part = d->part};
    const bool all_few = exec_cuda_seg(d, s->n_segs - 1)->n <= cu_attn_few_rows(&a);
    if (!is_unusual(&a) && !a.latent && all_few && n->attn.head_dim % 32 == 0)
        a.out_q = exec_cuda_copy_of(d, n->dst);
    if (n->src[1] != GR_NONE) {
        a.new_k = d->reg[n->src[1]];
        a.new_v = d->reg[n->src[2]];
    }
    return a;
}
/* Queues attention: short segments first, as many per launch as fit into the partial sums, then
 * long ones. */
static int attend(struct cuda *d, struct cu_attn *a, struct err *e) {
    const int64_t few = cu_attn_few_rows(a);
    int at = 0;
    if (a->latent) return cu_attn_latent(d->q, a, e);
    if (is_unusual(a)) return cu_attn_any(d->q, a, e);
    while (a->rows = exec_cuda_next(d, &at, few, CU_FEW), a->rows.n_segs)
        TRY(cu_attn_few(d->q, a, e));
    a->rows = exec_cuda_next(d, &at, INT64_MAX, INT64_MAX);
    return cu_attn_many(d->q, a, e);
}
/* Queues ATTN for the pass (models/ops.def): appends keys and values, then attends. */
static int op_attn(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct cu_attn a = attn_args(d, n);
    if (a.new_k) TRY(cu_kv_append(d->q, &a, e));
    return attend(d, &a, e);
}

/* Returns the node's arguments for the convolution kernel. */
static struct cu_delta conv_args(struct cuda *d, const struct gr_node *n) {
    int at = 0;
    return (struct cu_delta){.rows = exec_cuda_next(d, &at, INT64_MAX, INT64_MAX),
                             .u = d->reg[n->dst],
                             .conv = vec_of(d, n->conv.weight),
                             .conv_bias = vec_of(d, n->conv.bias),
                             .ring_at = d->s->cache.rec.slot[n->slot].at,
                             .taps = d->s->g->weight[n->conv.weight].ne[0]};
}
/* Adds the node's arguments for the delta-rule kernels to a. */
static void delta_args(struct cuda *d, const struct gr_node *n, struct cu_delta *a) {
    const struct rec_slot *rec = &d->s->cache.rec.slot[n->slot];
    a->n_v_heads = n->delta.n_v_heads;
    a->n_k_heads = n->delta.n_k_heads;
    a->k_dim = n->delta.k_dim;
    a->v_dim = n->delta.v_dim;
    a->eps = n->delta.eps;
    a->scale = n->delta.scale;
    a->u = d->reg[n->src[0]];
    a->beta = d->reg[n->src[1]];
    a->grouped = n->delta.grouped;
    if (!a->grouped) a->alpha = d->reg[n->src[2]];
    a->a = vec_of(d, n->delta.a);
    a->dt = vec_of(d, n->delta.dt);
    a->state_at = rec->at + rec->n_conv;
    a->out = d->reg[n->dst];
}
/* Queues CONV_SILU for the pass (models/ops.def): causal convolution, then SiLU. */
static int op_conv_silu(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct cu_delta a = conv_args(d, n);
    return cu_conv_silu(d->q, &a, width_of(d, n->dst), e);
}
/* Queues DELTA for the pass (models/ops.def): gated delta net. */
static int op_delta(struct cuda *d, const struct gr_node *n, struct err *e) {
    const bool chunks = !d->exact && (d->fuse & CUDA_CHUNKS) != 0;
    struct cu_delta a = {0};
    int at = 0;
    delta_args(d, n, &a);
    a.rows = exec_cuda_next(d, &at, chunks ? CU_CHUNK - 1 : INT64_MAX, INT64_MAX);
    TRY(cu_delta_rows(d->q, &a, e));
    a.chunked = chunks;
    a.rows = exec_cuda_next(d, &at, INT64_MAX, INT64_MAX);
    return cu_delta_rows(d->q, &a, e);
}

/* Queues SHORT_CONV for the pass (models/ops.def): gated causal convolution. */
static int op_short_conv(struct cuda *d, const struct gr_node *n, struct err *e) {
    int at = 0;
    const struct cu_short a = {.rows = exec_cuda_next(d, &at, INT64_MAX, INT64_MAX),
                               .u = d->reg[n->src[0]],
                               .w = vec_of(d, n->conv.weight),
                               .out = d->reg[n->dst],
                               .n_ch = width_of(d, n->dst),
                               .taps = d->s->g->weight[n->conv.weight].ne[0],
                               .ring_at = d->s->cache.rec.slot[n->slot].at};
    return cu_short_conv(d->q, &a, e);
}
/* Returns the arguments that the node's Mamba scans have in common. */
static struct cu_scan scan_args(struct cuda *d, const struct gr_node *n) {
    const struct rec_slot *rec = &d->s->cache.rec.slot[n->slot];
    float **r = d->reg;
    int at = 0;
    return (struct cu_scan){.rows = exec_cuda_next(d, &at, INT64_MAX, INT64_MAX),
                            .n_heads = n->delta.n_v_heads,
                            .k_dim = n->delta.k_dim,
                            .v_dim = n->delta.v_dim,
                            .x = r[n->src[0]],
                            .x_ld = width_of(d, n->src[0]),
                            .dt = r[n->src[1]] + n->delta.offset,
                            .dt_ld = width_of(d, n->src[1]),
                            .a = vec_of(d, n->delta.a),
                            .skip = vec_of(d, n->delta.skip),
                            .state_at = rec->at + rec->n_conv,
                            .out = r[n->dst]};
}
/* Queues MAMBA2 for the pass (models/ops.def): scan of Mamba 2. */
static int op_mamba2(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct cu_scan a = scan_args(d, n);
    a.n_groups = n->delta.n_k_heads;
    a.b = a.x + a.n_heads * a.v_dim; /* It follows x in the same rows. */
    a.bc_ld = a.x_ld;
    a.dt_bias = vec_of(d, n->delta.dt);
    return cu_scan_rows(d->q, &a, e);
}
/* Queues MAMBA1 for the pass (models/ops.def): scan of Mamba 1. */
static int op_mamba1(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct cu_scan a = scan_args(d, n);
    a.first = true;
    a.n_groups = 1;
    a.b = d->reg[n->src[2]];
    a.bc_ld = width_of(d, n->src[2]);
    return cu_scan_rows(d->q, &a, e);
}

/* Queues KDA for the pass (models/ops.def): Kimi delta attention. */
static int op_kda(struct cuda *d, const struct gr_node *n, struct err *e) {
    const struct rec_slot *rec = &d->s->cache.rec.slot[n->slot];
    float **r = d->reg;
    int at = 0;
    const struct cu_kda a = {.bound = n->delta.bound,
                             .rows = exec_cuda_next(d, &at, INT64_MAX, INT64_MAX),
                             .n_tok = d->s->n_tok,
                             .n_heads = n->delta.n_v_heads,
                             .k_dim = n->delta.k_dim,
                             .v_dim = n->delta.v_dim,
                             .eps = n->delta.eps,
                             .scale = n->delta.scale,
                             .u = r[n->src[0]],
                             .beta = r[n->src[1]],
                             .f = r[n->src[2]],
                             .a = vec_of(d, n->delta.a),
                             .dt = vec_of(d, n->delta.dt),
                             .state_at = rec->at + rec->n_conv,
                             .out = r[n->dst]};
    return cu_kda_rows(d->q, &a, e);
}

static int op_index(struct cuda *d, const struct gr_node *n, struct err *e) {
    return exec_cuda_refuse(d, n, e); /* not reached: check_keys */
}

static const cuda_fn table[OP_COUNT] = {
#define OP(id, name, flags, state, ...) [OP_##id] = op_##name,
#include "models/ops.def"
#undef OP
};

bool exec_cuda_has(const struct gr_node *n) {
    if (n->selects) return true; /* never run: check_keys */
    if (n->op == OP_MOE) return exec_cuda_has_experts(&n->moe);
    return table[n->op] != exec_cuda_refuse;
}

/* ---- several nodes, one launch: the patterns of runtime/engine/fusions.def ---- */

/* Queues residual += x and the norm of the residual. */
int exec_cuda_fuse_add_rms(struct cuda *d, const struct match *m, struct err *e) {
    const struct gr_node *sum = m->add_rms.sum, *norm = m->add_rms.norm;
    float **r = d->reg;
    struct cu_norm o = {.a = r[sum->src[0]],
                        .res = r[sum->src[1]],
                        .sum = r[sum->dst],
                        .w = vec_of(d, norm->norm.weight),
                        .y = r[norm->dst],
                        .yq = exec_cuda_copy_of(d, norm->dst),
                        .n = width_of(d, sum->dst),
                        .eps = norm->norm.eps};
    return cu_norm_rows(d->q, &o, d->s->n_tok, e);
}

/* Queues the shared expert's gate, residual += x and the norm of the residual. */
int exec_cuda_fuse_gate_add_rms(struct cuda *d, const struct match *m, struct err *e) {
    const struct gr_node *gate = m->gate_add_rms.gate, *sum = m->gate_add_rms.sum,
                         *norm = m->gate_add_rms.norm;
    float **r = d->reg;
    struct cu_norm o = {.a = r[gate->dst],
                        .x = r[gate->src[0]],
                        .gate = vec_of(d, gate->gate.row),
                        .h = r[gate->src[1]],
                        .d = width_of(d, gate->src[1]),
                        .res = r[sum->dst],
                        .sum = r[sum->dst],
                        .w = vec_of(d, norm->norm.weight),
                        .y = r[norm->dst],
                        .yq = exec_cuda_copy_of(d, norm->dst),
                        .n = width_of(d, sum->dst),
                        .eps = norm->norm.eps};
    return cu_norm_rows(d->q, &o, d->s->n_tok, e);
}

/* Queues the gate and up products of a dense feed-forward and their activation. */
int exec_cuda_fuse_glu(struct cuda *d, const struct match *m, struct err *e) {
    const struct gr_node *gate = m->glu.gate, *act = m->glu.act;
    if (exec_cuda_is_fast_glu(d, gate)) return exec_cuda_fast_glu(d, gate, e);
    return cu_glu(d->q, &d->w[gate->product.matrix].w, &d->w[m->glu.up->product.matrix].w,
                  d->reg[gate->src[0]], width_of(d, gate->src[0]), d->s->n_tok, NULL, 1,
                  act->op == OP_GEGLU, d->reg[act->dst], d->exact, e);
}

/* Queues attention whose output is multiplied by the gate. */
int exec_cuda_fuse_attn_gate(struct cuda *d, const struct match *m, struct err *e) {
    struct cu_attn a = attn_args(d, m->attn_gate.attn);
    a.gate = d->reg[m->attn_gate.gate->src[0]];
    if (a.new_k) TRY(cu_kv_append(d->q, &a, e));
    return attend(d, &a, e);
}

/* Queues the products of a FUSE_QKV match, if it has any. */
static int qkv_products(struct cuda *d, const struct match *m, struct err *e) {
    const struct gr_node *mat[3];
    int n = 0;
    if (m->qkv.q) mat[n++] = m->qkv.q;
    if (m->qkv.k) mat[n++] = m->qkv.k;
    if (m->qkv.v) mat[n++] = m->qkv.v;
    bool fast = n > 0;
    for (int i = 0; i < n; i++)
        fast &= exec_cuda_is_fast(d, mat[i]) && mat[i]->src[0] == mat[0]->src[0];
    if (fast) return exec_cuda_fast_products(d, mat, n, e);
    for (int i = 0; i < n; i++) TRY(op_matmul(d, mat[i], e));
    return 0;
}

/* Queues norms and ropes of all heads in one launch, which also fills the cache; then attention. */
int exec_cuda_fuse_qkv(struct cuda *d, const struct match *m, struct err *e) {
    const struct gr_node *attn = m->qkv.attn, *split = m->qkv.split, *rope = m->qkv.q_rope;
    const struct rope_tab *tab = exec_rope_tab(d->s, rope, false);
    struct cu_attn a = attn_args(d, attn);
    a.raw_q = split ? d->reg[split->src[0]] : a.q;
    a.raw_q_ld = split ? 2 * attn->attn.head_dim : attn->attn.head_dim;
    a.q_out = d->reg[attn->src[0]];
    a.normed = m->qkv.q_norm != NULL;
    if (a.normed) {
        a.q_norm = vec_of(d, m->qkv.q_norm->norm.weight);
        a.k_norm = vec_of(d, m->qkv.k_norm->norm.weight);
        a.eps = m->qkv.q_norm->norm.eps;
    }
    a.cs = d->rope[tab - d->s->rope].cs;
    a.n_rot = tab->n_rot;
    a.adjacent = rope->rope.adjacent;
    /* If query heads are split from gate heads, the queries follow the tensor that they were split
     * from. */
    if (m->qkv.gate) {
        a.gate = split ? a.raw_q + attn->attn.head_dim : d->reg[m->qkv.gate->src[0]];
        a.gate_ld = a.raw_q_ld;
    }
    TRY(qkv_products(d, m, e));
    TRY(cu_qkv(d->q, &a, e));
    return attend(d, &a, e);
}

/* Queues convolution, delta rule and gated norm of one token. */
int exec_cuda_fuse_delta(struct cuda *d, const struct match *m, struct err *e) {
    const struct gr_node *norm = m->delta.norm;
    struct cu_delta a = conv_args(d, m->delta.conv);
    delta_args(d, m->delta.delta, &a);
    a.z = d->reg[norm->src[1]];
    a.norm = vec_of(d, norm->norm.weight);
    a.norm_eps = norm->norm.eps;
    a.arrived = d->arrived;
    if (a.v_dim % 32 == 0) a.yq = exec_cuda_copy_of(d, norm->dst);
    return cu_delta_token(d->q, &a, e);
}

typedef int (*fuse_fn)(struct cuda *d, const struct match *m, struct err *e);
static const fuse_fn fused[FUSE_COUNT] = {
#define FUSION(id, name, what, classes, parts) [FUSE_##id] = exec_cuda_fuse_##name,
#include "runtime/engine/fusions.def"
#undef FUSION
};

/* ---- a pass ---- */

/* Returns a part (device) that holds the weight w. */
static const struct cuda *part_with(const struct session *s, gr_w w) {
    const struct cuda_set *all = s->dev;
    int i = 0;
    while (i < all->n - 1 && !all->part[i]->w[w].w.data && !all->part[i]->w[w].w.packed) i++;
    return all->part[i];
}
/* Returns the kernels for few rows that weight w has, as WAY_... flags; 0: none. */
static unsigned way_of(const void *ud, gr_w w) {
    const struct cu_weight *c = &part_with(ud, w)->w[w].w;
    return (cu_part_can(c, true) ? WAY_FLOATS : 0U) | (cu_part_can(c, false) ? WAY_BYTES : 0U);
}
/* Returns whether gate and up are packed together; a callback of the compiler. */
static bool glu_joins(const void *ud, gr_w gate, gr_w up) {
    return exec_cuda_glu_packs(ud, gate, up);
}
/* Returns where a node runs: on the device, on the host, or with weights copied for the pass. */
static enum node_way way_of_node(const void *ud, int node) {
    const struct session *s = ud;
    if (!exec_cuda_all(s)->on_host[node]) return NODE_HERE;
    return exec_cuda_can_bring(s, &s->g->node[node]) ? NODE_BROUGHT : NODE_HOST;
}
/* Returns the part that runs the node; a callback of the compiler. */
static int device_of(const void *ud, int node) {
    return exec_cuda_part_of(exec_cuda_all(ud), node);
}
_Static_assert((int)BATCH_FEW_ROWS == (int)CU_FEW,
               "a batch of few rows uses the kernels for few rows");

/* Returns the target for compiling the session's next pass. */
static struct target target_of(const struct session *s) {
    const struct cuda *d = exec_cuda_head(s); /* the answer is the same for every part */
    return (struct target){.fusions = FUSE_BIT(COUNT) - 1,
                           .batch = batch_of(s->n_tok),
                           .exact = d->exact,
                           .few = exec_cuda_few(d),
                           .many = exec_cuda_fuses(d, CUDA_FUSE_MANY),
                           .brings = d->in.from && s->n_tok >= d->in.from,
                           .sees_routes = s->probe.route != NULL,
                           .sees_all = s->probe.product || s->probe.residual || s->images.n_deep,
                           .all_keys = s->all_keys,
                           .way = way_of,
                           .joins = glu_joins,
                           .where = way_of_node,
                           .device = device_of,
                           .ud = s};
}

/* Runs the kernels of a step: its fusion, its only node, or the part of a node that it names. */
static int run_nodes(struct cuda *d, const struct step *p, struct err *e) {
    const struct gr_node *n = &d->s->g->node[p->first];
    if (p->fusion != FUSE_NONE) return fused[p->fusion](d, &p->nodes, e);
    if (p->part == PART_ALL) return table[n->op](d, n, e);
    TRY(exec_cuda_moe_part(d, n, p->part, e));
    return exec_cuda_brought(d, p, e);
}

/* Queues one step, then records the registers that it wrote. */
static int run_step(struct cuda *d, const struct step *p, struct err *e) {
    const struct gr_node *n = &d->s->g->node[p->first];
    d->turn++;
    TRY(p->kind == STEP_RUN ? run_nodes(d, p, e) : exec_cuda_copy_step(d, p, e));
    if (p->kind == STEP_MOVE) d->q8_at[p->reg] = 0;
    for (int k = 0; k < p->n_nodes; k++) exec_cuda_written(d, n + k);
    return 0;
}

const struct program *exec_cuda_program(struct session *s, int first) {
    const struct target t = target_of(s);
    return programs_get(&s->programs, s->g, first, &t);
}

/* Copies the input of a pass that does not begin with tokens to the device of its first node. */
static int give(struct cuda *d, gr_reg r, const float *x, struct err *e) {
    return x ? cu_upload(d->q, d->reg[r], x, (uint64_t)n_values(d, r) * sizeof *x, e) : 0;
}

/* Queues the steps of a program and shows the hidden values after each block. */
static int run_steps(struct session *s, const struct program *p, struct err *e) {
    int block = s->now.begin;
    for (int k = 0; k < p->n_steps; k++) {
        const struct step *step = &p->step[k];
        const int i = step->first; /* with an observer, a step is a single node */
        const struct gr_node *n = &s->g->node[i];
        struct cuda *d = exec_cuda_all(s)->part[step->device];
        if (step->kind != STEP_RUN) TRY(exec_cuda_end_piece(d->all, e));
        if (step->kind == STEP_RUN) TRY(exec_cuda_begin(d, e));
        TRY(run_step(d, step, e));
        if (block < s->images.n_deep && step->n_nodes && s->g->hidden_nodes[block] == i)
            TRY(exec_cuda_add_deep(d, block, e));
        if ((!s->probe.residual && !s->images.n_deep) || !step->n_nodes) continue;
        if (n->op == OP_EMBED && n->dst == s->g->residual) TRY(show_hidden(d, -1, e));
        if (block < s->m->hp.d[HD_LAYERS] && s->g->hidden_nodes[block] == i)
            TRY(show_hidden(d, block++, e));
    }
    return 0;
}

int exec_cuda_nodes(struct session *s, struct err *e) {
    const int first = s->now.begin ? s->g->hidden_nodes[s->now.begin - 1] + 1 : 0;
    const struct cuda_set *all = s->dev;
    for (int i = 0; i < all->n; i++) {
        struct cuda *d = all->part[i];
        /* The previous pass's 8-bit copies of registers are stale. */
        memset(d->q8_at, 0, (size_t)s->g->n_regs * sizeof *d->q8_at);
        d->begun = false;
    }
    const struct program *p = exec_cuda_program(s, first);
    struct cuda *d = all->part[p->n_steps ? p->step[0].device : all->head];
    TRY(give(d, s->g->residual, s->now.begin ? s->now.residual : NULL, e));
    TRY(give(d, s->g->hidden_in, s->now.hidden_in, e));
    return run_steps(s, p, e);
}
