// SPDX-License-Identifier: MIT
/* grad/grad.c - gradients of a text: one forward pass, then a backward pass over the blocks in
 * reverse.
 *
 * The first pass keeps the input of each block. Then the blocks are run again in pieces, last piece
 * first: forward with a watcher that keeps the inputs of the piece's nodes (the tape), then
 * backward over these nodes. So memory holds the tape of only one piece. A block that reads more
 * than the residual belongs to the same piece as the block before it. If such a piece has n blocks,
 * its tape holds about sqrt(n) of them at a time, and the blocks before these run forward again. No
 * sum depends on the number of threads. */
#include "grad/grad.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "grad/grad_int.h"
#include "kernels/blas.h"
#include "kernels/dev_product.h"

/* Most and fewest rows of W per OpenBLAS product. */
enum { BACK_PANEL = 512, BACK_LEAST = 128 };
/* Tokens of a task. */
enum { TOKEN_CHUNK = 16 };

/* ---- inputs of the derivatives --------------------------------------------------------------- */

const float *grad_take(struct grad *g, gr_reg r, int which) {
    const size_t bytes = (size_t)(g->n * grad_width(g, r)) * sizeof(float);
    memcpy(g->taken[which], g->reg[r], bytes);
    memset(g->reg[r], 0, bytes);
    return g->taken[which];
}

void grad_tokens(struct grad *g, pool_fn fn, void *ctx) {
    pool_for(g->pool, g->n, TOKEN_CHUNK, fn, ctx);
}

/* Decodes columns [c0, c0 + nc) of rows [r0, r0 + n); c0 is the start of a block. */
static void decode(const struct grad *g, const struct weight *w, const uint8_t *mat, int64_t r0,
                   int64_t n, int64_t c0, int64_t nc, float *to) {
    const struct qtype_info *q = qtype_info(w->type);
    const uint8_t *from = mat + (uint64_t)(c0 / q->block_elems * q->block_bytes);
    for (int64_t r = 0; r < n; r++)
        g->s->kern.op[w->type].decode(from + (uint64_t)(r0 + r) * w->row_bytes, to + r * nc, nc);
    const float by = weight_scale(w, mat);
    for (int64_t i = 0; w->scale && i < n * nc; i++) to[i] *= by;
}

/* Returns the number of rows of W that columns_back decodes at a time: more with OpenBLAS. */
static int64_t panel_rows(const struct grad *g, const struct weight *w, int64_t nc, int64_t m) {
    const int64_t room = GRAD_PANEL * w->ne[0] / nc;
    if (!blas_does(g->s->blas, BLAS_BACK) || m < BLAS_LEAST_ROWS || room < BACK_LEAST)
        return GRAD_PANEL;
    return min_i64(room, BACK_PANEL);
}

/* Implements grad_rows_back for columns [c0, c0 + nc) of W. */
static void columns_back(const struct grad *g, const struct weight *w, const uint8_t *mat,
                         int64_t r0, int64_t r1, int64_t c0, int64_t nc, const float *dy,
                         int64_t ld_y, float *dx, int64_t ld_x, int64_t m, float *scratch) {
    const int64_t panel = panel_rows(g, w, nc, m);
    for (int64_t r = r0, n; r < r1; r += n) {
        n = min_i64(panel, r1 - r);
        decode(g, w, mat, r, n, c0, nc, scratch);
        if (panel > GRAD_PANEL)
            blas_add(BLAS_BACK, dy + (r - r0), ld_y, scratch, nc, dx + c0, ld_x, m, nc, n);
        else
            g->s->kern.gemm_nn(dy + (r - r0), ld_y, scratch, nc, dx + c0, ld_x, m, nc, n);
    }
}
void grad_rows_back(const struct grad *g, const struct weight *w, const uint8_t *mat, int64_t r0,
                    int64_t r1, const float *dy, int64_t ld_y, float *dx, int64_t ld_x, int64_t m,
                    float *scratch) {
    columns_back(g, w, mat, r0, r1, 0, w->ne[0], dy, ld_y, dx, ld_x, m, scratch);
}

void grad_rows(const struct grad *g, const struct weight *w, const uint8_t *mat, int64_t r0,
               int64_t r1, const float *x, int64_t ld_x, float *y, int64_t ld_y, int64_t m,
               float *scratch) {
    const int64_t k = w->ne[0];
    for (int64_t r = r0, n; r < r1; r += n) {
        n = min_i64(GRAD_PANEL, r1 - r);
        decode(g, w, mat, r, n, 0, k, scratch);
        blas_product(&g->s->kern, g->s->blas, x, ld_x, scratch, k, y + (r - r0), ld_y, m, n, k);
    }
}

/* Sizes of a task: LEAST_TOKENS to PRODUCT_TOKENS tokens, and PRODUCT_COLS columns, a multiple of
 * every type's block. */
enum { PRODUCT_COLS = 256, PRODUCT_TOKENS = 128, LEAST_TOKENS = 16 };
struct product {
    const struct grad *g;
    const struct weight *w;
    const float *dy;
    float *dx;
    int64_t m, n_tok, n_cols; /* tokens in total and per task; tasks per token range */
};
/* Adds the input gradients of blocks i0 to i1 - 1 of tokens and columns; a pool_fn. */
static void product_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct product *j = ctx;
    const int64_t k = j->w->ne[0], rows = j->w->ne[1];
    for (int64_t i = i0; i < i1; i++) {
        const int64_t t = i / j->n_cols * j->n_tok, c = i % j->n_cols * PRODUCT_COLS;
        columns_back(j->g, j->w, j->w->data, 0, rows, c, min_i64(PRODUCT_COLS, k - c),
                     j->dy + t * rows, rows, j->dx + t * k, k, min_i64(j->n_tok, j->m - t),
                     j->g->scratch[worker]);
    }
}
void grad_product(struct grad *g, const struct weight *w, const float *dy, float *dx, int64_t m) {
    const struct dev_matrix mat = {w->type, w->data, w->row_bytes, w->ne[1], w->ne[0]};
    if (!w->scale && dev_product_back(g->s->products, &mat, dy, dx, m)) return;
    struct product j = {g, w, dy, dx, m, PRODUCT_TOKENS, div_up(w->ne[0], PRODUCT_COLS)};
    /* Our sums are the same for tasks of any size; OpenBLAS's may not be. */
    const bool any_size = !blas_does(g->s->blas, BLAS_BACK);
    while (any_size && j.n_tok > LEAST_TOKENS &&
           div_up(m, j.n_tok) * j.n_cols < 4 * pool_size(g->pool))
        j.n_tok /= 2;
    pool_for(g->pool, div_up(m, j.n_tok) * j.n_cols, 1, product_range, &j);
}

/* ---- the tape -------------------------------------------------------------------------------- */

/* Copies the values to the tape and returns the copy. */
static void *tape_take(struct grad *g, const void *from, int64_t floats) {
    float *to = g->tape + g->tape_used;
    g->tape_used += floats;
    memcpy(to, from, (size_t)floats * sizeof *to);
    return to;
}
/* Returns a copy of the register's values on the tape; NULL for GR_NONE. */
static const float *keep_reg(struct grad *g, const struct session *s, gr_reg r) {
    return r == GR_NONE ? NULL : tape_take(g, s->reg[r], s->n_tok * grad_width(g, r));
}

/* Copies the scores of all experts, which the session stores among other values. */
static float *keep_scores(struct grad *g, const struct session *s, int64_t n_experts) {
    float *to = g->tape + g->tape_used;
    g->tape_used += s->n_tok * n_experts;
    for (int64_t t = 0; t < s->n_tok; t++)
        memcpy(to + t * n_experts, s->moe.logits + t * 2 * n_experts,
               (size_t)n_experts * sizeof *to);
    return to;
}

/* Keeps the keys and values of a layer that lends them. */
static void keep_lent(struct grad *g, const struct session *s, const struct gr_node *n) {
    const struct grad_lent *l = &g->lent[n->slot];
    if (!l->key || n->src[1] == GR_NONE) return;
    const int64_t wk = grad_width(g, n->src[1]), wv = grad_width(g, n->src[2]);
    memcpy(l->key, s->reg[n->src[1]], (size_t)(s->n_tok * wk) * sizeof *l->key);
    memcpy(l->value, s->reg[n->src[2]], (size_t)(s->n_tok * wv) * sizeof *l->value);
}

/* Keeps the values that the node's gradient needs; called before and after the node runs. */
static void keep_for_back(void *ud, struct session *s, const struct gr_node *n, bool after) {
    struct grad *g = ud;
    struct kept *k = &g->kept[n - g->g->node];
    const unsigned keep = back_table[n->op].keep;
    if (!after && n->op == OP_ATTN) keep_lent(g, s, n);
    if (n - g->g->node < g->tape_from) return;
    if (!after) {
        *k = (struct kept){0};
        for (int i = 0; i < GR_SOURCES; i++)
            if (keep >> i & 1) k->src[i] = keep_reg(g, s, n->src[i]);
        if (keep & KEEP_DST) k->dst = keep_reg(g, s, n->dst);
    } else if (keep & KEEP_CHOICE) {
        const int64_t pairs = s->n_tok * n->moe.n_used;
        k->expert = tape_take(g, s->moe.expert, pairs);
        k->weight = tape_take(g, s->moe.weight, pairs);
        k->score = keep_scores(g, s, g->g->weight[n->moe.router].ne[1]);
    }
}

/* Returns the number of values per token that are kept for a node. */
static int64_t tape_width(const struct graph *g, const struct gr_node *n) {
    const unsigned keep = back_table[n->op].keep;
    int64_t w = 0;
    for (int i = 0; i < GR_SOURCES; i++)
        if ((keep >> i & 1) && n->src[i] != GR_NONE) w += g->reg_width[n->src[i]];
    if (keep & KEEP_DST) w += g->reg_width[n->dst];
    if (keep & KEEP_CHOICE) w += 2 * n->moe.n_used + g->weight[n->moe.router].ne[1];
    return w;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static int64_t n_blocks(const struct grad *g) {
    return g->m->hp.d[HD_LAYERS];
}
/* Returns the first block of the piece that ends before block `end`. */
static int piece_begin(const struct grad *g, int end) {
    int b = end - 1;
    while (b > 0 && !session_can_begin(g->s, b)) b--;
    return b;
}
/* Returns the first block whose values are on the tape together with those before block `end`, in
 * the piece that begins at b and ends before `last`. */
static int part_begin(int b, int end, int last) {
    int n = 1;
    while (n * n < last - b) n++;
    return last - b > 3 && end - n > b ? end - n : b;
}
/* Returns the first node of a block; the index after the last block means the nodes after all
 * blocks. */
static int first_node(const struct grad *g, int block) {
    return block ? g->g->hidden_nodes[block - 1] + 1 : 0;
}
/* Returns the node at which a block ends; for a block past the last one, the end of the graph. */
static int end_node(const struct grad *g, int block) {
    return block > n_blocks(g) ? g->g->n_nodes : first_node(g, block);
}
/* Returns the kept residual before the block, n_ctx rows. */
static float *residual_of(const struct grad *g, int block) {
    return g->residual + (int64_t)block * g->n_ctx * grad_width(g, g->g->residual);
}

/* Keeps the residual after a block; a session observer. */
static void keep_residual(void *ud, const struct session_shown *r) {
    const struct grad *g = ud;
    const int64_t width = grad_width(g, g->g->residual);
    if (r->block + 1 <= n_blocks(g) && r->block >= 0)
        memcpy(residual_of(g, r->block + 1) + r->pos * width, r->x,
               (size_t)(r->n_rows * width) * sizeof *r->x);
}

/* Clears the gradients that a piece's backward pass adds to, except those from later pieces. */
static void clear_piece(struct grad *g, int end) {
    for (int r = 0; r < g->g->n_regs; r++)
        if (r != g->g->residual && !(end > n_blocks(g) && r == g->g->hidden_out))
            memset(g->reg[r], 0, (size_t)(g->n * grad_width(g, r)) * sizeof(float));
    for (int i = 0; i < g->g->n_attn_slots; i++) {
        const struct gr_node *n = &g->g->node[g->g->facts.kv[i].node];
        if (!g->lent[i].key) continue;
        memset(g->lent[i].dkey, 0, (size_t)(g->n * grad_width(g, n->src[1])) * sizeof(float));
        memset(g->lent[i].dvalue, 0, (size_t)(g->n * grad_width(g, n->src[2])) * sizeof(float));
    }
}
/* Runs blocks [b, end) forward under the watcher, which keeps values from block `from` on. */
static int run_forward(struct grad *g, const int32_t *ids, int b, int from, int end,
                       struct err *e) {
    g->tape_used = 0;
    g->tape_from = first_node(g, from);
    session_reset(g->s);
    session_observe(
        g->s, &(struct session_probe){.ud = g, .residual = keep_residual, .node = keep_for_back});
    struct session_pass p = {.ids = ids, .n = g->n, .begin = b, .residual = residual_of(g, b)};
    if (end <= n_blocks(g))
        p.end = end; /* without hidden rows: g->hidden stays that of the text */
    else
        p.hidden = g->hidden;
    const int rc = session_pass(g->s, &p, e);
    session_observe(g->s, NULL);
    return rc;
}
/* Runs the nodes of blocks [from, to) backward. */
static void run_back(struct grad *g, int from, int to) {
    for (int i = end_node(g, to) - 1; i >= first_node(g, from); i--) {
        const struct gr_node *n = &g->g->node[i];
        if (!n->selects) back_table[n->op].fn(g, n, &g->kept[i]);
    }
}
/* Runs the piece of blocks [b, end) forward and backward, in parts that fit the tape. */
static int run_piece(struct grad *g, const int32_t *ids, int b, int end, struct err *e) {
    clear_piece(g, end);
    for (int to = end, from; to > b; to = from) {
        from = part_begin(b, to, end);
        TRY(run_forward(g, ids, b, from, to, e));
        run_back(g, from, to);
    }
    if (g->see_residual) g->see_residual(g->see_residual_ud, b, g->reg[g->g->residual], g->n);
    return 0;
}

/* ---- texts and blocks ------------------------------------------------------------------------ */

/* Reports a text that is empty or too long. */
static int no_room(const struct grad *g, int64_t n, struct err *e) {
    return err_set(e, ERR_USAGE, "%lld tokens do not fit the gradient buffers of %lld",
                   (long long)n, (long long)g->n_ctx);
}
/* Shows the rows that enter a product; a session observer. */
static void show_input(void *ud, const struct session_shown *r) {
    const struct grad *g = ud;
    g->see_input(g->see_input_ud, r);
}
/* Runs a text forward and computes its loss. */
static int run_text(struct grad *g, const int32_t *ids, const int32_t *answer, int64_t n,
                    uint64_t seed, double *loss, struct err *e) {
    double unused;
    if (n < 1 || n > g->n_ctx) return no_room(g, n, e);
    g->n = n;
    g->ids = ids;
    session_reset(g->s);
    session_observe(g->s, &(struct session_probe){.ud = g,
                                                  .residual = keep_residual,
                                                  .product = g->see_input ? show_input : NULL});
    TRY(session_forward(g->s, ids, n, g->hidden, e));
    return grad_head(g, answer, seed, loss ? loss : &unused, e);
}

int grad_loss(struct grad *g, const int32_t *ids, const int32_t *answer, int64_t n, uint64_t seed,
              double *loss, struct err *e) {
    const grad_see_fn see = g->see;
    g->see = NULL;
    const int rc = run_text(g, ids, answer, n, seed, loss, e);
    g->see = see;
    return rc;
}

int grad_text(struct grad *g, const int32_t *ids, const int32_t *answer, int64_t n, uint64_t seed,
              double *loss, struct err *e) {
    TRY(run_text(g, ids, answer, n, seed, loss, e));
    memset(g->reg[g->g->residual], 0,
           g->g->residual == g->g->hidden_out
               ? 0
               : (size_t)(n * grad_width(g, g->g->residual)) * sizeof(float));
    for (int end = (int)n_blocks(g) + 1, b; end > 0; end = b) {
        b = piece_begin(g, end);
        TRY(run_piece(g, ids, b, end, e));
    }
    return 0;
}

/* Replaces the residual's gradient by that of half the squared distance of a block's output y from
 * `target`. Returns the squared distance. */
static double aim_at(struct grad *g, const float *y, const float *target) {
    const int64_t n = g->n * grad_width(g, g->g->residual);
    float *d = g->reg[g->g->residual];
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        d[i] = y[i] - target[i];
        sum += (double)d[i] * (double)d[i];
    }
    return sum;
}

int grad_block(struct grad *g, int block, const int32_t *ids, const float *x, const float *target,
               int64_t n, bool back, double *loss, struct err *e) {
    const int end = block + 1;
    if (n < 1 || n > g->n_ctx) return no_room(g, n, e);
    if (piece_begin(g, end) != block || (end < n_blocks(g) && !session_can_begin(g->s, end)))
        return err_set(e, ERR_USAGE, "block %d shares more than the residual with others", block);
    g->n = n;
    g->ids = ids;
    memcpy(residual_of(g, block), x, (size_t)(n * grad_width(g, g->g->residual)) * sizeof(float));
    TRY(run_forward(g, ids, block, block, end, e));
    *loss = aim_at(g, residual_of(g, end), target);
    if (!back) return 0;
    clear_piece(g, end);
    run_back(g, block, end);
    return 0;
}

/* ---- construction ---------------------------------------------------------------------------- */

bool grad_can(const struct model *m, const char **missing) {
    return grad_can_graph(&m->graph, missing);
}

bool grad_can_graph(const struct graph *g, const char **missing) {
    for (int op = 0; op < OP_COUNT; op++)
        for (int i = 0; i < graph_count(g, (enum gr_op)op); i++) {
            const struct back *b = &back_table[op];
            const struct gr_node *n = graph_nth(g, (enum gr_op)op, i);
            if (n->selects || (b->fn && (!b->can || b->can(g, n)))) continue;
            if (missing) *missing = gr_op_name((enum gr_op)op);
            return false;
        }
    return g->hidden_in == GR_NONE;
}

static int alloc_floats(float **out, int64_t n, struct err *e) {
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)max_i64(n, 1) * sizeof(float), "gradients", e));
    *out = p;
    return 0;
}

/* Allocates the buffers that the largest expert layer needs. */
static int alloc_moe(struct grad *g, struct err *e) {
    int64_t pairs = 0, d = 0, f = 0, experts = 0;
    bool joined = false;
    for (int i = 0; i < graph_count(g->g, OP_MOE); i++) {
        const struct gr_node *n = graph_nth(g->g, OP_MOE, i);
        const int64_t *down = g->g->weight[n->moe.down].ne;
        pairs = max_i64(pairs, g->n_ctx * n->moe.n_used);
        joined |= n->moe.joined;
        d = max_i64(d, down[1]);
        f = max_i64(f, down[0]);
        experts = max_i64(experts, g->g->weight[n->moe.router].ne[1]);
    }
    struct grad_moe *b = &g->moe;
    float **wide[] = {&b->x, &b->dx, &b->y, &b->dy},
          **narrow[] = {&b->gate, &b->up, &b->h, &b->dgate, &b->dup};
    if (!pairs) return 0;
    for (size_t i = 0; i < COUNT_OF(wide); i++) TRY(alloc_floats(wide[i], pairs * d, e));
    for (size_t i = 0; i < COUNT_OF(narrow); i++) TRY(alloc_floats(narrow[i], pairs * f, e));
    if (joined) TRY(alloc_floats(&b->both, pairs * 2 * f, e));
    TRY(alloc_floats(&b->score, g->n_ctx * experts, e));
    b->weight = xcalloc((size_t)pairs, sizeof *b->weight);
    b->dweight = xcalloc((size_t)pairs, sizeof *b->dweight);
    b->place = xcalloc((size_t)pairs, sizeof *b->place);
    b->token = xcalloc((size_t)pairs, sizeof *b->token);
    b->first = xcalloc((size_t)experts + 2, sizeof *b->first);
    return 0;
}

/* Allocates the work memory of derivatives: per worker, at least a panel of the widest weight. */
static int alloc_work(struct grad *g, struct err *e) {
    int64_t scratch = 0, shared = 0;
    for (int w = 0; w < g->g->n_weights; w++)
        scratch = max_i64(scratch, GRAD_PANEL * g->g->weight[w].ne[0]);
    for (int op = 0; op < OP_COUNT; op++)
        for (int i = 0; i < graph_count(g->g, (enum gr_op)op); i++) {
            const struct gr_node *n = graph_nth(g->g, (enum gr_op)op, i);
            const struct back *b = &back_table[op];
            if (b->scratch) scratch = max_i64(scratch, b->scratch(n, g->n_ctx));
            if (b->shared) shared = max_i64(shared, b->shared(n, g->n_ctx));
        }
    g->scratch = xcalloc((size_t)pool_size(g->pool), sizeof *g->scratch);
    for (int k = 0; k < pool_size(g->pool); k++) TRY(alloc_floats(&g->scratch[k], scratch, e));
    return alloc_floats(&g->shared, shared, e);
}

/* Returns the values per token on the tape: those of the largest part of a piece. */
static int64_t tape_floats(const struct grad *g) {
    int64_t most = 0;
    for (int end = (int)n_blocks(g) + 1, b; end > 0; end = b) {
        b = piece_begin(g, end);
        for (int to = end, from; to > b; to = from) {
            int64_t width = 0;
            from = part_begin(b, to, end);
            for (int i = first_node(g, from); i < end_node(g, to); i++)
                width += tape_width(g->g, &g->g->node[i]);
            most = max_i64(most, width);
        }
    }
    return most;
}

/* Allocates the keys and values that layers read from earlier ones. */
static int alloc_lent(struct grad *g, struct err *e) {
    g->lent = xcalloc((size_t)g->g->n_attn_slots + 1, sizeof *g->lent);
    for (int i = 0; i < graph_count(g->g, OP_ATTN); i++) {
        const struct gr_node *n = graph_nth(g->g, OP_ATTN, i);
        const struct gr_node *from = &g->g->node[g->g->facts.kv[n->slot].node];
        struct grad_lent *l = &g->lent[n->slot];
        if (n->src[1] != GR_NONE || l->key) continue;
        const int64_t key = g->n_ctx * grad_width(g, from->src[1]);
        const int64_t value = g->n_ctx * grad_width(g, from->src[2]);
        TRY(alloc_floats(&l->key, key, e));
        TRY(alloc_floats(&l->dkey, key, e));
        TRY(alloc_floats(&l->value, value, e));
        TRY(alloc_floats(&l->dvalue, value, e));
    }
    return 0;
}

/* Allocates all buffers; on error grad_free() releases those already allocated. */
static int alloc_grad(struct grad *g, struct err *e) {
    const struct graph *gr = g->g;
    int64_t widest = 0;
    for (int r = 0; r < gr->n_regs; r++) widest = max_i64(widest, gr->reg_width[r]);
    g->reg = xcalloc((size_t)gr->n_regs, sizeof *g->reg);
    for (int r = 0; r < gr->n_regs; r++)
        TRY(alloc_floats(&g->reg[r], g->n_ctx * gr->reg_width[r], e));
    for (int k = 0; k < 2; k++) TRY(alloc_floats(&g->taken[k], g->n_ctx * widest, e));
    TRY(alloc_floats(&g->tape, g->n_ctx * tape_floats(g), e));
    TRY(alloc_lent(g, e));
    const int64_t d = grad_width(g, gr->residual);
    TRY(alloc_floats(&g->residual, (n_blocks(g) + 1) * g->n_ctx * d, e));
    TRY(alloc_floats(&g->hidden, g->n_ctx * grad_width(g, gr->hidden_out), e));
    g->kept = xcalloc((size_t)gr->n_nodes, sizeof *g->kept);
    TRY(alloc_work(g, e));
    return alloc_moe(g, e);
}

int grad_new(struct grad **out, const struct model *m, int64_t n_ctx, enum kern_isa isa,
             struct pool *pool, struct err *e) {
    const struct session_opts so = {.n_ctx = n_ctx,
                                    .n_ubatch = n_ctx,
                                    .isa = isa,
                                    .act = ACT_F32,
                                    .pool = pool,
                                    .whole = true}; /* observers must see texts as a whole */
    const char *missing = "";
    if (!grad_can(m, &missing))
        return err_set(e, ERR_DATA, "the operation %s has no derivative", missing);
    struct grad *g = xcalloc(1, sizeof *g);
    int rc;
    g->m = m;
    g->g = &m->graph;
    g->pool = pool;
    g->n_ctx = n_ctx;
    TRY_GOTO(fail, rc, session_new(&g->s, m, &so, e));
    if (!g->s->all_keys)
        TRY_GOTO(fail, rc,
                 err_set(e, ERR_USAGE,
                         "attention to selected keys has no derivative: use at most %lld tokens",
                         (long long)graph_top_keys(g->g)));
    TRY_GOTO(fail, rc, alloc_grad(g, e));
    *out = g;
    return 0;
fail:
    grad_free(g);
    return rc;
}

static void free_moe(struct grad_moe *b) {
    float *big[] = {b->x, b->dx,    b->y,   b->dy,   b->gate, b->up,
                    b->h, b->dgate, b->dup, b->both, b->score};
    for (size_t i = 0; i < COUNT_OF(big); i++) mem_free(big[i]);
    free(b->weight);
    free(b->dweight);
    free(b->place);
    free(b->token);
    free(b->first);
}

void grad_free(struct grad *g) {
    if (!g) return;
    for (int r = 0; g->reg && r < g->g->n_regs; r++) mem_free(g->reg[r]);
    for (int k = 0; g->scratch && k < pool_size(g->pool); k++) mem_free(g->scratch[k]);
    for (int k = 0; k < 2; k++) mem_free(g->taken[k]);
    free(g->reg);
    free(g->scratch);
    free(g->kept);
    for (int i = 0; g->lent && i < g->g->n_attn_slots; i++) {
        float *one[] = {g->lent[i].key, g->lent[i].dkey, g->lent[i].value, g->lent[i].dvalue};
        for (size_t k = 0; k < COUNT_OF(one); k++) mem_free(one[k]);
    }
    free(g->lent);
    mem_free(g->tape);
    mem_free(g->residual);
    mem_free(g->hidden);
    mem_free(g->shared);
    free_moe(&g->moe);
    session_free(g->s);
    free(g);
}

void grad_blas(struct grad *g, unsigned uses) {
    g->s->blas = blas_let(uses);
}
void grad_device(struct grad *g, struct dev_product *d) {
    session_products(g->s, d);
}
void grad_observe(struct grad *g, grad_see_fn see, void *ud) {
    g->see = see;
    g->see_ud = ud;
}
void grad_aim(struct grad *g, grad_aim_fn aim, void *ud) {
    g->aim = aim;
    g->aim_ud = ud;
}
const int32_t *grad_seen_tokens(const struct grad *g) {
    return g->seen_tokens;
}
void grad_observe_vectors(struct grad *g, grad_vector_fn see, void *ud) {
    g->see_vector = see;
    g->see_vector_ud = ud;
}
void grad_observe_lookups(struct grad *g, grad_lookup_fn see, void *ud) {
    g->see_lookup = see;
    g->see_lookup_ud = ud;
}
void grad_observe_inputs(struct grad *g, session_show_fn see, void *ud) {
    g->see_input = see;
    g->see_input_ud = ud;
}
const float *grad_hidden(const struct grad *g) {
    return g->hidden;
}
void grad_observe_residual(struct grad *g, grad_residual_fn see, void *ud) {
    g->see_residual = see;
    g->see_residual_ud = ud;
}
