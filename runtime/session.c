// SPDX-License-Identifier: MIT
/* runtime/session.c - one sequence through a model: memory of a session, forward in passes of at
 * most n_ubatch tokens, head, snapshots. All memory is allocated in session_new; a pass allocates
 * nothing.
 *
 * Bytes: registers n_ubatch * (sum of widths) * 4, KV n_ctx * row bytes * layers, recurrent states,
 * and per thread one decoded weight panel or one attention tile. */
#include "runtime/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"
#include "runtime/exec.h"

enum { DEFAULT_CTX = 4096, DEFAULT_UBATCH = 512 };

static int take(struct session *s, void *out_ptr, int64_t n, size_t size, const char *what,
                struct err *e) {
    void *p = NULL;
    uint64_t bytes;
    if (!mul_ok((uint64_t)(n > 0 ? n : 1), size, &bytes))
        return err_set(e, ERR_USAGE, "%s: too large", what);
    TRY(buf_alloc(&p, bytes, what, e));
    memcpy(out_ptr, &p, sizeof p);
    s->n_bytes += bytes;
    return 0;
}

static int alloc_regs(struct session *s, struct err *e) {
    int64_t sum = 0;
    for (int i = 0; i < s->g->n_regs; i++) sum += (s->g->reg_width[i] + 15) / 16 * 16;
    TRY(take(s, &s->reg_mem, sum * s->o.n_ubatch, sizeof(float), "activations", e));
    s->reg = xcalloc((size_t)s->g->n_regs + 1, sizeof *s->reg);
    float *at = s->reg_mem;
    for (int i = 0; i < s->g->n_regs; i++) {
        s->reg[i] = at;
        at += (s->g->reg_width[i] + 15) / 16 * 16 * s->o.n_ubatch;
    }
    return 0;
}

struct sizes { /* maxima over the nodes of the graph */
    int64_t panel, attn, v_heads, heads, head_dim;
    int64_t experts, used, moe_d, moe_f;
    uint64_t q_row;
};

static void size_weight(const struct session *s, struct sizes *z, gr_w w) {
    if (w == GR_NONE) return;
    int64_t k = s->g->weight[w].ne[0];
    z->panel = max_i64(z->panel, exec_panel_rows(k) * k);
    /* any type: model_set_weight may change it */
    for (int t = 0; t < QT_COUNT; t++) {
        if (!qtype_info(t)) continue;
        uint64_t b = qtype_row_bytes(kern_dot_partner((enum qtype)t), k);
        if (kern_dot_partner((enum qtype)t) != QT_F32 && b > z->q_row) z->q_row = b;
    }
}

static void size_node(const struct session *s, struct sizes *z, const struct gr_node *n) {
    if (n->op == OP_MATMUL || n->op == OP_MOE)
        for (int i = 0; i < 4; i++) size_weight(s, z, n->w[i]); /* w4 is a vector */
    if (n->op == OP_ATTN) {
        z->attn = max_i64(z->attn, exec_attn_scratch(n, s->o.n_ctx));
        z->heads = max_i64(z->heads, n->n_heads);
        z->head_dim = max_i64(z->head_dim, n->head_dim);
    }
    if (n->op == OP_DELTA) z->v_heads = max_i64(z->v_heads, n->n_heads);
    if (n->op == OP_MOE) {
        z->experts = max_i64(z->experts, s->g->weight[n->w[0]].ne[1]);
        z->used = max_i64(z->used, n->n_used);
        z->moe_d = max_i64(z->moe_d, s->g->weight[n->w[0]].ne[0]);
        z->moe_f = max_i64(z->moe_f, s->g->weight[n->w[1]].ne[1]);
    }
}

static int alloc_moe(struct session *s, const struct sizes *z, struct err *e) {
    struct moe_bufs *b = &s->moe;
    int64_t n = s->o.n_ubatch, pairs = n * z->used;
    if (!z->experts) return 0;
    TRY(take(s, &b->logits, n * z->experts, sizeof(float), "router", e));
    TRY(take(s, &b->weight, pairs, sizeof(float), "router", e));
    TRY(take(s, &b->expert, pairs, sizeof(int32_t), "router", e));
    TRY(take(s, &b->place, pairs, sizeof(int32_t), "router", e));
    TRY(take(s, &b->first, z->experts + 1, sizeof(int32_t), "router", e));
    TRY(take(s, &b->active, z->experts, sizeof(int32_t), "router", e));
    TRY(take(s, &b->x, pairs * z->moe_d, sizeof(float), "expert rows", e));
    TRY(take(s, &b->h, pairs * z->moe_f, sizeof(float), "expert rows", e));
    return take(s, &b->y, pairs * z->moe_d, sizeof(float), "expert rows", e);
}

static int alloc_ropes(struct session *s, struct err *e) {
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->g->node[i].op == OP_ROPE && !exec_rope_tab(s, &s->g->node[i], true))
            return err_set(e, ERR_DATA, "the model has more than %d kinds of rope", ROPE_TABS);
    for (int i = 0; i < s->n_ropes; i++)
        TRY(take(s, &s->rope[i].cs, s->o.n_ubatch * s->rope[i].n_rot, sizeof(float), "rope table",
                 e));
    return 0;
}

static int alloc_work(struct session *s, struct err *e) {
    struct sizes z = {0};
    for (int i = 0; i < s->g->n_nodes; i++) size_node(s, &z, &s->g->node[i]);
    size_weight(s, &z, s->g->output);
    int64_t n = s->o.n_ubatch, blocks = div_up(s->o.n_ctx, KEY_BLOCK);
    TRY(alloc_ropes(s, e));
    TRY(take(s, &s->decay, n * z.v_heads, sizeof(float), "decay", e));
    TRY(take(s, &s->beta, n * z.v_heads, sizeof(float), "beta", e));
    TRY(take(s, &s->att_q, z.heads * z.head_dim, sizeof(float), "attention queries", e));
    TRY(take(s, &s->att_score, z.heads * s->o.n_ctx, sizeof(float), "attention scores", e));
    TRY(take(s, &s->att_out, z.heads * blocks * z.head_dim, sizeof(float), "attention sums", e));
    s->qbuf_row = z.q_row;
    for (int i = 0; i < 2; i++)
        TRY(take(s, &s->qbuf[i], FEW_TOKENS * max_i64(1, z.used), (size_t)z.q_row,
                 "8-bit activations", e));
    TRY(alloc_moe(s, &z, e));
    s->scratch_floats = max_i64(z.attn, z.panel + (z.experts ? n * PANEL_MAX_ROWS : 0));
    s->scratch = xcalloc((size_t)s->n_workers, sizeof *s->scratch);
    for (int i = 0; i < s->n_workers; i++)
        TRY(take(s, &s->scratch[i], s->scratch_floats, sizeof(float), "thread scratch", e));
    return 0;
}

static int defaults(struct session *s, const struct session_opts *o, struct err *e) {
    s->o = *o;
    int64_t trained = s->m->hp.d[HD_CTX];
    if (s->o.n_ctx < 0 || s->o.n_ubatch < 0 || s->o.n_ctx > INT32_MAX)
        return err_set(e, ERR_USAGE, "a context of %" PRId64 " tokens makes no sense", o->n_ctx);
    if (!s->o.n_ctx) s->o.n_ctx = trained > 0 ? min_i64(trained, DEFAULT_CTX) : DEFAULT_CTX;
    if (!s->o.n_ubatch) s->o.n_ubatch = DEFAULT_UBATCH;
    s->o.n_ubatch = min_i64(s->o.n_ubatch, s->o.n_ctx);
    return 0;
}

/* Types of the cache: named ones, or the plain row of kv_type; q8_0 at the edges. */
static int kv_choose(const struct session_opts *o, struct kv_plan *p, struct err *e) {
    const struct kv_type *plain = kv_type_of(o->kv_type), *q8 = kv_type_of(QT_Q8_0);
    if (!plain)
        return err_set(e, ERR_USAGE, "a KV cache of type %s is not supported: use f16 or q8_0",
                       qtype_name(o->kv_type));
    p->k = o->kv_k ? o->kv_k : plain;
    p->v = o->kv_v ? o->kv_v : plain;
    p->edge_k = o->kv_edge_k ? o->kv_edge_k : q8;
    p->edge_v = o->kv_edge_v ? o->kv_edge_v : q8;
    p->n_edge = o->kv_n_edge;
    return 0;
}

int session_new(struct session **out, const struct model *m, const struct session_opts *o,
                struct err *e) {
    struct session *s = xcalloc(1, sizeof *s);
    s->m = m;
    s->g = &m->graph;
    s->n_workers = pool_size(o->pool);
    struct kv_plan plan;
    int rc;
    TRY_GOTO(fail, rc, defaults(s, o, e));
    TRY_GOTO(fail, rc, kv_choose(&s->o, &plan, e));
    kern_init(&s->kern, s->o.isa);
    s->vec = xcalloc((size_t)s->g->n_weights + 1, sizeof *s->vec);
    TRY_GOTO(fail, rc, alloc_regs(s, e));
    TRY_GOTO(fail, rc, kv_init(&s->kv, s->g, s->o.n_ctx, &plan, e));
    TRY_GOTO(fail, rc, rec_init(&s->rec, s->g, e));
    TRY_GOTO(fail, rc, alloc_work(s, e));
    *out = s;
    return 0;
fail:
    session_free(s);
    return rc;
}

void session_free(struct session *s) {
    if (!s) return;
    for (int i = 0; i < s->n_ropes; i++) buf_free(s->rope[i].cs);
    void *bufs[] = {s->reg_mem,    s->decay,     s->beta,      s->att_q,      s->att_score,
                    s->att_out,    s->qbuf[0],   s->qbuf[1],   s->moe.logits, s->moe.weight,
                    s->moe.expert, s->moe.place, s->moe.first, s->moe.active, s->moe.x,
                    s->moe.h,      s->moe.y};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) buf_free(bufs[i]);
    for (int i = 0; i < s->n_workers && s->scratch; i++) buf_free(s->scratch[i]);
    for (int i = 0; i < s->g->n_weights && s->vec; i++) free(s->vec[i].own);
    kv_release(&s->kv);
    rec_release(&s->rec);
    free(s->scratch);
    free(s->vec);
    free(s->reg);
    free(s);
}

void session_reset(struct session *s) {
    s->pos = 0;
    rec_zero(&s->rec);
}
int64_t session_pos(const struct session *s) {
    return s->pos;
}
uint64_t session_bytes(const struct session *s) {
    return s->n_bytes + s->kv.n_bytes + s->rec.n_bytes;
}
void session_observe(struct session *s, session_see_fn fn, void *ud) {
    s->see = fn;
    s->see_ud = ud;
}
void session_observe_hidden(struct session *s, session_hidden_fn fn, void *ud) {
    s->see_hidden = fn;
    s->see_hidden_ud = ud;
}
void session_observe_route(struct session *s, session_route_fn fn, void *ud) {
    s->see_route = fn;
    s->see_route_ud = ud;
}
const struct model *session_model(const struct session *s) {
    return s->m;
}
const struct session_opts *session_get_opts(const struct session *s) {
    return &s->o;
}

static int check_ids(const struct session *s, const int32_t *ids, int64_t n, struct err *e) {
    int64_t n_vocab = s->m->hp.d[HD_VOCAB];
    if (n < 0 || n > s->o.n_ctx - s->pos)
        return err_set(e, ERR_USAGE,
                       "the context of %" PRId64 " tokens is full: %" PRId64
                       " are used and %" PRId64 " more were given; use a larger --ctx",
                       s->o.n_ctx, s->pos, n);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_vocab)
            return err_set(e, ERR_USAGE,
                           "token id %" PRId32 " at position %" PRId64
                           " is outside the vocabulary of %" PRId64 " entries",
                           ids[i], i, n_vocab);
    return 0;
}

/* hidden: all rows, or NULL; last: the last row, or NULL. */
static int forward(struct session *s, const int32_t *ids, int64_t n, float *hidden, float *last,
                   struct err *e) {
    TRY(check_ids(s, ids, n, e));
    int64_t d = s->g->reg_width[s->g->hidden_out];
    const float *out = s->reg[s->g->hidden_out];
    for (int64_t i = 0; i < n; i += s->n_tok) {
        if (prog_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        s->ids = ids + i;
        s->n_tok = min_i64(s->o.n_ubatch, n - i);
        exec_pass(s);
        s->pos += s->n_tok;
        if (hidden) memcpy(hidden + i * d, out, (size_t)(s->n_tok * d) * sizeof *out);
        if (last && i + s->n_tok == n)
            memcpy(last, out + (s->n_tok - 1) * d, (size_t)d * sizeof *out);
    }
    return 0;
}

int session_forward(struct session *s, const int32_t *ids, int64_t n, float *hidden,
                    struct err *e) {
    return forward(s, ids, n, hidden, NULL, e);
}

int session_head(struct session *s, const float *hidden, int64_t n, float *logits, struct err *e) {
    (void)e;
    const struct weight *w = &s->m->weight[s->g->output];
    if (s->see) s->see(s->see_ud, &s->g->weight[s->g->output], -1, hidden, n, w->ne[0]);
    if (n > 0) exec_product(s, w, hidden, w->ne[0], n, logits, w->ne[1], false);
    if (s->g->softcap > 0) exec_softcap(s, logits, n * w->ne[1], s->g->softcap);
    return 0;
}

int session_step(struct session *s, const int32_t *ids, int64_t n, float *logits, struct err *e) {
    if (n < 1) return err_set(e, ERR_USAGE, "no tokens were given");
    float *last = xmalloc((size_t)s->g->reg_width[s->g->hidden_out] * sizeof *last);
    int rc = forward(s, ids, n, NULL, last, e);
    if (!rc) rc = session_head(s, last, 1, logits, e);
    free(last);
    return rc;
}

struct session_snapshot {
    int64_t pos;
    uint8_t *data;
};

/* Calls fn for every range of memory that belongs to the sequence, in a fixed order. */
typedef void (*range_fn)(uint8_t **at, uint8_t *p, uint64_t n);
static void walk_state(const struct session *s, int64_t pos, uint8_t **at, range_fn fn) {
    for (int i = 0; i < s->kv.n_slots; i++) {
        struct kv_slot *c = &s->kv.slot[i];
        for (int64_t h = 0; h < c->n_heads; h++) {
            uint64_t row = (uint64_t)(h * s->kv.n_ctx);
            fn(at, c->k + row * c->k_row, (uint64_t)pos * c->k_row);
            fn(at, c->v + row * c->v_row, (uint64_t)pos * c->v_row);
        }
    }
    for (int i = 0; i < s->rec.n_slots; i++) {
        struct rec_slot *r = &s->rec.slot[i];
        fn(at, (uint8_t *)(void *)r->conv, (uint64_t)r->n_conv * sizeof(float));
        fn(at, (uint8_t *)(void *)r->delta, (uint64_t)r->n_delta * sizeof(float));
    }
}
static void range_save(uint8_t **at, uint8_t *p, uint64_t n) {
    if (n) memcpy(*at, p, n);
    *at += n;
}
static void range_load(uint8_t **at, uint8_t *p, uint64_t n) {
    if (n) memcpy(p, *at, n);
    *at += n;
}

static uint64_t state_bytes(const struct session *s) {
    uint64_t n = s->rec.n_bytes;
    for (int i = 0; i < s->kv.n_slots; i++)
        n += (uint64_t)(s->kv.slot[i].n_heads * s->pos) *
             (s->kv.slot[i].k_row + s->kv.slot[i].v_row);
    return n;
}

int session_save(const struct session *s, struct session_snapshot **out, struct err *e) {
    void *p = NULL;
    TRY(buf_alloc(&p, state_bytes(s) + 1, "snapshot of a session", e));
    struct session_snapshot *snap = xcalloc(1, sizeof *snap);
    snap->pos = s->pos;
    snap->data = p;
    uint8_t *at = p;
    walk_state(s, s->pos, &at, range_save);
    *out = snap;
    return 0;
}
void session_restore(struct session *s, const struct session_snapshot *snap) {
    uint8_t *at = snap->data;
    s->pos = snap->pos;
    walk_state(s, s->pos, &at, range_load);
}
void session_snapshot_free(struct session_snapshot *snap) {
    if (!snap) return;
    buf_free(snap->data);
    free(snap);
}
