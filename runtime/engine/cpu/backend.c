// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/backend.c - CPU backend of a session: memory, passes and head. All memory is
 * allocated when the session is created; during a pass only the sequences grow.
 *
 * Bytes: registers n_ubatch * (sum of widths) * 4; per thread, one decoded weight panel or one
 * attention tile; and the sequences (runtime/engine/cache.h). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/engine/exec.h"

/* Allocates n elements, sets the pointer at out_ptr, and adds the bytes to the session's total. */
static int alloc_counted(struct session *s, void *out_ptr, int64_t n, size_t size, const char *what,
                         struct err *e) {
    void *p = NULL;
    uint64_t bytes;
    if (!mul_ok((uint64_t)(n > 0 ? n : 1), size, &bytes))
        return err_set(e, ERR_USAGE, "%s: too large", what);
    TRY(mem_alloc(&p, bytes, what, e));
    memcpy(out_ptr, &p, sizeof p);
    s->n_bytes += bytes;
    return 0;
}

/* Allocates the registers for a pass of n_ubatch tokens. */
static int alloc_regs(struct session *s, struct err *e) {
    int64_t sum = 0;
    for (int i = 0; i < s->g->n_regs; i++) sum += (s->g->reg_width[i] + 15) / 16 * 16;
    TRY(alloc_counted(s, &s->reg_mem, sum * s->o.n_ubatch, sizeof(float), "activations", e));
    s->reg = xcalloc((size_t)s->g->n_regs + 1, sizeof *s->reg);
    float *at = s->reg_mem;
    for (int i = 0; i < s->g->n_regs; i++) {
        s->reg[i] = at;
        at += (s->g->reg_width[i] + 15) / 16 * 16 * s->o.n_ubatch;
    }
    return 0;
}

/* Buffer sizes of a session: each is the largest needed by any node of its graph. */
struct sizes {
    int64_t panel, attn, index, scores, v_heads, att_rows, head_dim;
    int64_t experts, used, moe_d, moe_f;
    uint64_t q_row;
    /* Blocks of an activation row that enters a product of packed weights. */
    int64_t act_blocks;
};

/* Raises the sizes of the work buffers to those needed for products with w. */
static void size_weight(const struct session *s, struct sizes *z, gr_w w) {
    int64_t k = s->g->weight[w].ne[0];
    z->panel = max_i64(z->panel, exec_panel_rows(k) * k);
    if (exec_is_packed(s, model_weight(s->m, w)))
        z->act_blocks = max_i64(z->act_blocks, kern_act_blocks(k));
    /* session_use may later replace a weight by one of any type, so cover all types. */
    for (int t = 0; t < QT_COUNT; t++) {
        if (!qtype_info(t)) continue;
        uint64_t b = qtype_row_bytes(kern_dot_partner((enum qtype)t), k);
        if (kern_dot_partner((enum qtype)t) != QT_F32 && b > z->q_row) z->q_row = b;
    }
}

/* Raises the sizes of the work buffers to those needed for the graph's operations. */
static void size_nodes(const struct session *s, struct sizes *z) {
    const struct graph *g = s->g;
    for (int i = 0; i < g->facts.n_uses; i++) {
        const struct gr_role_info *r = &gr_roles[g->facts.use[i].role];
        if (r->matrix && r->observed) size_weight(s, z, g->facts.use[i].w);
    }
    for (int i = 0; i < graph_count(g, OP_ATTN); i++) {
        const struct gr_node *n = graph_nth(g, OP_ATTN, i);
        z->attn = max_i64(z->attn, exec_attn_scratch(n));
        z->att_rows = max_i64(z->att_rows, exec_attn_rows(n));
        z->head_dim = max_i64(z->head_dim, n->attn.head_dim);
    }
    for (int i = 0; i < graph_count(g, OP_INDEX) && !s->all_keys; i++) {
        const struct gr_node *n = graph_nth(g, OP_INDEX, i);
        z->index = max_i64(z->index, exec_index_scratch(n));
        z->scores = max_i64(z->scores, exec_index_width(n, s->o.n_ctx));
    }
    for (int i = 0; i < graph_count(g, OP_DELTA); i++)
        z->v_heads = max_i64(z->v_heads, graph_nth(g, OP_DELTA, i)->delta.n_v_heads);
    for (int i = 0; i < graph_count(g, OP_MAMBA2); i++)
        z->v_heads = max_i64(z->v_heads, graph_nth(g, OP_MAMBA2, i)->delta.n_v_heads);
    for (int i = 0; i < graph_count(g, OP_KDA); i++)
        z->v_heads = max_i64(z->v_heads, graph_nth(g, OP_KDA, i)->delta.n_v_heads);
    for (int i = 0; i < graph_count(g, OP_MOE); i++) {
        const struct gr_node *n = graph_nth(g, OP_MOE, i);
        z->experts = max_i64(z->experts, g->weight[n->moe.router].ne[1]);
        z->used = max_i64(z->used, n->moe.n_used);
        z->moe_d = max_i64(z->moe_d, g->weight[n->moe.gate].ne[0]);
        z->moe_f = max_i64(z->moe_f, g->weight[n->moe.gate].ne[1]);
    }
}

/* Allocates the buffers of routed experts; nothing for models without experts. */
static int alloc_moe(struct session *s, const struct sizes *z, struct err *e) {
    struct moe_bufs *b = &s->moe;
    int64_t n = s->o.n_ubatch, pairs = n * z->used;
    if (!z->experts) return 0;
    TRY(alloc_counted(s, &b->logits, n * 2 * z->experts, sizeof(float), "router", e));
    TRY(alloc_counted(s, &b->weight, pairs, sizeof(float), "router", e));
    TRY(alloc_counted(s, &b->expert, pairs, sizeof(int32_t), "router", e));
    TRY(alloc_counted(s, &b->place, pairs, sizeof(int32_t), "router", e));
    TRY(alloc_counted(s, &b->token, pairs, sizeof(int32_t), "router", e));
    TRY(alloc_counted(s, &b->first, z->experts + 1, sizeof(int32_t), "router", e));
    TRY(alloc_counted(s, &b->active, z->experts, sizeof(int32_t), "router", e));
    TRY(alloc_counted(s, &b->x, pairs * z->moe_d, sizeof(float), "expert rows", e));
    TRY(alloc_counted(s, &b->h, pairs * z->moe_f, sizeof(float), "expert rows", e));
    return alloc_counted(s, &b->y, pairs * z->moe_d, sizeof(float), "expert rows", e);
}

static int alloc_ropes(struct session *s, struct err *e) {
    for (int i = 0; i < s->n_ropes; i++) {
        TRY(alloc_counted(s, &s->rope[i].cs, s->o.n_ubatch * s->rope[i].n_rot, sizeof(float),
                          "rope table", e));
        TRY(alloc_counted(s, &s->rope[i].freq, s->rope[i].n_rot / 2, sizeof(double), "rope table",
                          e));
    }
    return 0;
}

static int alloc_work(struct session *s, struct err *e) {
    struct sizes z = {0};
    size_nodes(s, &z);
    size_weight(s, &z, s->g->output);
    const int64_t n = s->o.n_ubatch, workers = s->n_workers;
    const bool dots = s->o.act == ACT_Q8;
    TRY(alloc_ropes(s, e));
    TRY(alloc_counted(s, &s->decay, n * z.v_heads, sizeof(float), "decay", e));
    TRY(alloc_counted(s, &s->beta, n * z.v_heads, sizeof(float), "beta", e));
    TRY(alloc_counted(s, &s->att_tile, n, sizeof *s->att_tile, "attention", e));
    TRY(alloc_counted(s, &s->att_part, (ATTN_PARTS + workers * z.att_rows) * z.head_dim,
                      sizeof(float), "attention sums", e));
    TRY(alloc_counted(s, &s->att_row, ATTN_PARTS + 2 * workers * z.att_rows, sizeof *s->att_row,
                      "attention sums", e));
    s->index_rows = z.index ? exec_index_rows(z.scores, n) : 0;
    TRY(alloc_counted(s, &s->index_score, 2 * s->index_rows * z.scores, sizeof(float),
                      "scores of keys", e));
    s->qbuf_row = z.q_row;
    for (int i = 0; i < 2 && dots; i++)
        TRY(alloc_counted(s, &s->qbuf[i], n * max_i64(1, z.used), (size_t)z.q_row,
                          "8-bit activations", e));
    TRY(alloc_moe(s, &z, e));
    for (int i = 0; i < ACT_BUFS && z.act_blocks; i++)
        TRY(alloc_counted(s, &s->act_buf[i].act, n * z.act_blocks * (i < ACT_EXPERT ? 1 : z.used),
                          sizeof(struct kern_act), "8-bit activations", e));
    const int64_t up = exec_task_floats(n);
    s->scratch_floats = max_i64(max_i64(z.attn, z.index), z.panel + (z.experts ? up : 0));
    s->scratch = xcalloc((size_t)s->n_workers, sizeof *s->scratch);
    for (int i = 0; i < s->n_workers; i++)
        TRY(alloc_counted(s, &s->scratch[i], s->scratch_floats, sizeof(float), "thread scratch",
                          e));
    return 0;
}

int exec_alloc(struct session *s, struct err *e) {
    TRY(alloc_regs(s, e));
    return alloc_work(s, e);
}

static int cpu_open(struct session *s, struct err *e) {
    return exec_alloc(s, e);
}

void exec_free(struct session *s) {
    for (int i = 0; i < s->n_ropes; i++) {
        mem_free(s->rope[i].cs);
        mem_free(s->rope[i].freq);
        s->rope[i].cs = NULL;
        s->rope[i].freq = NULL;
    }
    struct moe_bufs *m = &s->moe;
    void *bufs[] = {s->reg_mem, s->decay,       s->beta,    s->att_tile, s->att_part,
                    s->att_row, s->index_score, s->qbuf[0], s->qbuf[1],  m->logits,
                    m->weight,  m->expert,      m->place,   m->token,    m->first,
                    m->active,  m->x,           m->h,       m->y};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) mem_free(bufs[i]);
    for (int i = 0; i < ACT_BUFS; i++) mem_free(s->act_buf[i].act);
    for (int i = 0; i < s->n_workers && s->scratch; i++) mem_free(s->scratch[i]);
    free(s->scratch);
    free(s->reg);
    s->reg_mem = s->decay = s->beta = s->att_part = s->index_score = NULL;
    s->att_row = NULL;
    s->att_tile = NULL;
    s->scratch = s->reg = NULL;
    memset(s->qbuf, 0, sizeof s->qbuf);
    memset(m, 0, sizeof *m);
    memset(s->act_buf, 0, sizeof s->act_buf);
}

/* Computes the logits of n rows of hidden values. */
static int cpu_head(struct session *s, const float *hidden, int64_t n, float *logits,
                    struct err *e) {
    (void)e;
    const struct weight *w = model_weight(s->m, s->g->output);
    exec_show_head(s, hidden, n);
    exec_acts_stale(s, hidden);
    if (n > 0) exec_product(s, w, hidden, w->ne[0], n, logits, w->ne[1], false);
    const float *bias = s->g->head_bias == GR_NONE ? NULL : exec_vec(s, s->g->head_bias);
    for (int64_t i = 0; bias && i < n * w->ne[1]; i++) logits[i] += bias[i % w->ne[1]];
    if (s->g->softcap > 0) exec_softcap(s, logits, n * w->ne[1], s->g->softcap);
    return 0;
}

/* Runs the pass; hidden and logits may be NULL. */
static int cpu_pass(struct session *s, float *hidden, float *logits, struct err *e) {
    int64_t d = s->g->reg_width[s->g->hidden_out];
    const float *out = s->reg[s->g->hidden_out];
    const double start = progress_now_s();
    for (int i = 0; i < s->n_segs; i++) TRY(seq_grow(s->seg[i].seq, s->seg[i].n, e));
    if (s->n_tok <= FEW_TOKENS) pool_use(s->o.pool, thread_tune_threads(&s->tune));
    int rc = exec_pass(s) ? 0 : err_set(e, ERR_INTR, "interrupted");
    if (hidden && !rc) memcpy(hidden, out, (size_t)(s->n_tok * d) * sizeof *out);
    if (!rc) rc = logits ? cpu_head(s, out + s->row_out[s->n_tok - 1] * d, 1, logits, e) : 0;
    if (s->n_tok == 1 && logits) thread_tune_took(&s->tune, progress_now_s() - start);
    pool_use(s->o.pool, s->n_workers);
    return rc;
}

/* Copies n rows of the last pass's hidden values, starting at output row `first`. */
static int cpu_rows(struct session *s, int64_t first, int64_t n, float *hidden, struct err *e) {
    const int64_t d = s->g->reg_width[s->g->hidden_out];
    (void)e;
    for (int64_t i = 0; i < n; i++)
        memcpy(hidden + i * d, s->reg[s->g->hidden_out] + s->row_out[first + i] * d,
               (size_t)d * sizeof *hidden);
    return 0;
}

const struct backend backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = exec_free,
    .pass = cpu_pass,
    .rows = cpu_rows,
    .head = cpu_head,
};
