// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/exec.c - interpreter for a pass's program: one function per operation and one
 * per fusion. It is independent of architectures and tensor types. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "runtime/engine/exec.h"

const exec_fn exec_table[OP_COUNT] = {
#define OP(id, name, flags, state, ...) [OP_##id] = exec_##name,
#include "models/ops.def"
#undef OP
};

const exec_fused_fn exec_fused[FUSE_COUNT] = {
    [FUSE_ADD_RMS] = exec_fused_add_rms, [FUSE_GATE_ADD_RMS] = exec_fused_gate_add_rms};

struct target exec_target(enum batch batch) {
    struct target t = {.batch = batch};
    for (int f = 0; f < FUSE_COUNT; f++)
        if (exec_fused[f]) t.fusions |= UINT32_C(1) << f;
    return t;
}

void exec_par(struct session *s, int64_t n_items, int64_t chunk, double work, pool_fn fn,
              void *ctx) {
    if (work < 16384.0 || n_items <= chunk) {
        for (int64_t i = 0; i < n_items; i += chunk)
            fn(ctx, i, i + chunk < n_items ? i + chunk : n_items, 0);
        return;
    }
    pool_for(s->o.pool, n_items, chunk, fn, ctx);
}

/* Returns a weight as f32, decoded on first use and again after session_use replaces it. */
const float *exec_vec(struct session *s, gr_w w) {
    const struct weight *g = model_weight(s->m, w);
    struct vec_cache *c = &s->vec[w];
    if (c->v && c->data == g->data && c->type == g->type) return c->v;
    c->data = g->data;
    c->type = g->type;
    c->v = g->data;
    if (g->type == QT_F32) return c->v;
    int64_t rows = g->ne[1] * g->ne[2] * g->ne[3];
    if (!c->own) c->own = xcalloc((size_t)(g->ne[0] * rows), sizeof *c->own);
    for (int64_t r = 0; r < rows; r++)
        s->kern.op[g->type].decode((const uint8_t *)g->data + (uint64_t)r * g->row_bytes,
                                   c->own + r * g->ne[0], g->ne[0]);
    c->v = c->own;
    return c->v;
}

void exec_show_rows(const struct session *s, const struct session_shown *r) {
    if (s->probe.product) s->probe.product(s->probe.ud, r);
}

void exec_show_head(const struct session *s, const float *hidden, int64_t n) {
    const struct gr_weight *w = &s->g->weight[s->g->output];
    exec_show_rows(s, &(struct session_shown){NULL, hidden, n, w->ne[0], .w = w, .expert = -1});
}

void exec_show(const struct session *s, gr_w w, const float *x, int64_t ld) {
    for (int i = 0; i < s->n_segs; i++) {
        const struct seg *g = &s->seg[i];
        exec_show_rows(s, &(struct session_shown){g->seq, x + g->r0 * ld, g->n, ld,
                                                  .w = &s->g->weight[w], .expert = -1});
    }
}

void exec_show_heads(const struct session *s, gr_w w, const float *x, int64_t in) {
    const struct gr_weight *g = &s->g->weight[w];
    for (int i = 0; i < s->n_segs; i++) {
        const struct seg *seg = &s->seg[i];
        struct session_shown r = {seg->seq, NULL, seg->n, g->ne[2] * in, .w = g};
        for (; r.expert < g->ne[2]; r.expert++) {
            r.x = x + (seg->r0 * g->ne[2] + r.expert) * in;
            exec_show_rows(s, &r);
        }
    }
}

void exec_show_expert(const struct session *s, gr_w w, int64_t expert, const float *x, int64_t n,
                      int64_t ld, const int32_t *token, const float *gate) {
    for (int64_t r = 0, end; r < n; r = end) {
        const struct seq *q = s->row_seq[token[r]];
        for (end = r + 1; end < n && s->row_seq[token[end]] == q;) end++;
        exec_show_rows(s,
                       &(struct session_shown){q, x + r * ld, end - r, ld, .w = &s->g->weight[w],
                                               .expert = expert, .gate = gate ? gate + r : NULL});
    }
}

bool exec_wants_hidden(const struct session *s, int block) {
    return s->probe.residual && (!s->probe.blocks || s->probe.blocks[block + 1]);
}
void exec_show_hidden(const struct session *s, int block, const float *x) {
    const int64_t width = s->g->reg_width[s->g->residual];
    for (int i = 0; i < s->n_segs && exec_wants_hidden(s, block); i++) {
        const struct seg *g = &s->seg[i];
        s->probe.residual(s->probe.ud, &(struct session_shown){.seq = g->seq,
                                                               .x = x ? x + g->r0 * width : NULL,
                                                               .n_rows = g->n,
                                                               .ld = width,
                                                               .block = block,
                                                               .pos = g->seq->pos,
                                                               .row = g->r0});
    }
}

void exec_show_route(const struct session *s, const struct gr_node *n, const int32_t *expert) {
    for (int i = 0; i < s->n_segs && s->probe.route; i++) {
        const struct seg *g = &s->seg[i];
        s->probe.route(s->probe.ud,
                       &(struct session_shown){.seq = g->seq,
                                               .n_rows = g->n,
                                               .block = n->layer,
                                               .pos = g->seq->pos,
                                               .chosen = expert + g->r0 * n->moe.n_used,
                                               .n_used = n->moe.n_used});
    }
}

/* Marks cached 8-bit copies of the node's outputs as stale. */
static void mark_written(struct session *s, const struct gr_node *n) {
    if (n->dst != GR_NONE) exec_acts_stale(s, s->reg[n->dst]);
    if (n->dst2 != GR_NONE) exec_acts_stale(s, s->reg[n->dst2]);
}

/* Compacts the kept rows of the pass in every register that node `at` or a later node reads. */
static void drop_rows(struct session *s, int at) {
    for (gr_reg r = 0; r < s->g->n_regs; r++) {
        const int64_t width = s->g->reg_width[r];
        if (!graph_live(s->g, at, r)) continue;
        for (int64_t k = 0; k < s->n_kept; k++)
            if (s->kept[k] != k)
                memcpy(s->reg[r] + k * width, s->reg[r] + s->kept[k] * width,
                       (size_t)width * sizeof(float));
    }
    for (int64_t k = 0; k < s->n_kept; k++) s->row_out[s->kept[k]] = (int32_t)k;
    s->n_tok = s->n_kept;
    exec_acts_stale(s, NULL);
}

/* Adds the images' rows for a block to the residual (session_image.deep). */
static void add_deep(struct session *s, int block) {
    const int64_t d = s->g->reg_width[s->g->residual];
    for (int64_t r = 0; r < s->n_tok; r++) {
        const struct session_image *im = exec_image(s, r);
        if (!im || block >= im->n_deep) continue;
        s->kern.axpy(s->reg[s->g->residual] + r * d,
                     im->deep + (block * im->n + s->images.at[r]) * d, 1, d);
    }
    exec_acts_stale(s, s->reg[s->g->residual]);
}

/* Copies the residual at the end of a pass to where it is wanted. */
static void leave_residual(const struct session *s) {
    const int64_t width = s->g->reg_width[s->g->residual];
    if (s->now.residual_out)
        memcpy(s->now.residual_out, s->reg[s->g->residual],
               (size_t)(s->n_tok * width) * sizeof(float));
}

/* Runs the steps of a pass in order. A block's residual is complete after node hidden_nodes[block],
 * where it is shown to the probe. */
bool exec_pass(struct session *s) {
    int block = s->now.begin, first = block ? s->g->hidden_nodes[block - 1] + 1 : 0;
    if (block)
        memcpy(s->reg[s->g->residual], s->now.residual,
               (size_t)(s->n_tok * s->g->reg_width[s->g->residual]) * sizeof(float));
    if (s->now.hidden_in)
        memcpy(s->reg[s->g->hidden_in], s->now.hidden_in,
               (size_t)(s->n_tok * s->g->reg_width[s->g->hidden_in]) * sizeof(float));
    exec_acts_stale(s, NULL);
    for (int i = 0; i < s->n_ropes; i++) s->rope[i].ready = false;
    struct target t = exec_target(batch_of(s->n_tok));
    t.all_keys = s->all_keys;
    const int64_t n_deep = s->images.n_deep;
    const bool watched =
        s->probe.product || s->probe.residual || s->probe.node || s->now.residual_out;
    t.sees_all = watched || n_deep;
    const struct program *p = programs_get(&s->programs, s->g, first, &t);
    const bool seen = watched || s->probe.route;
    const int deep_node = n_deep ? s->g->hidden_nodes[n_deep - 1] : -1;
    const int64_t n_tok = s->n_tok;
    const bool stops = !s->o.whole && n_tok > FEW_TOKENS;
    bool done = true;
    for (int k = 0; k < p->n_steps; k++) {
        const struct step *step = &p->step[k];
        const struct gr_node *n = &s->g->node[step->first];
        const bool apart = step->first >= s->g->facts.apart && step->first > deep_node;
        if (apart && !seen && s->n_kept < s->n_tok) drop_rows(s, step->first);
        if (!s->n_tok) break;
        done = !stops || !progress_interrupted();
        if (!done) break;
        if (s->probe.node) s->probe.node(s->probe.ud, s, n, false);
        if (step->fusion == FUSE_NONE)
            exec_table[n->op](s, n);
        else
            exec_fused[step->fusion](s, &step->nodes);
        for (int i = 0; i < step->n_nodes; i++) mark_written(s, n + i);
        if (s->taps.n) taps_take(s, step->first, step->n_nodes, s->n_tok < n_tok);
        if (s->probe.node) s->probe.node(s->probe.ud, s, n, true);
        if (block < n_deep && s->g->hidden_nodes[block] == step->first) add_deep(s, block);
        /* With a probe of residuals, deep rows or an end nothing is fused: a step is one node. */
        if (!s->probe.residual && !n_deep && !s->now.residual_out) continue;
        if (n->op == OP_EMBED && n->dst == s->g->residual)
            exec_show_hidden(s, -1, s->reg[s->g->residual]);
        if (block < s->m->hp.d[HD_LAYERS] && s->g->hidden_nodes[block] == step->first)
            exec_show_hidden(s, block++, s->reg[s->g->residual]);
        if (!s->now.end || block < s->now.end) continue;
        leave_residual(s);
        break;
    }
    s->n_tok = n_tok;
    return done;
}
