// SPDX-License-Identifier: MIT
/* runtime/exec_attn.c - causal attention over the cache, grouped query heads together.
 *
 * A task is (kv head, a few tokens, a span of keys): the query rows of its heads form one matrix,
 * and keys are gone through in blocks of KEY_BLOCK with a running softmax (Milakov and Gimelshein
 * 2018; Dao et al. 2022), so scratch does not grow with the context. Where heads and tokens make
 * too few tasks for many threads, spans split the keys and their sums are merged in key order. The
 * split depends on the shape of the work alone, never on the number of threads.
 *
 * Keys and values of a rotated cache type (kv_type.h) stay rotated here: queries are rotated to
 * meet the keys, and sums of values are rotated back once per head and query. */
#include <math.h>
#include <string.h>

#include "core/fp.h"
#include "core/num.h"
#include "runtime/exec.h"

struct job {
    struct session *s;
    const struct gr_node *n;
    const struct kv_slot *kv;
    int64_t group;           /* query heads per kv head */
    int64_t t_step, n_steps; /* tokens of a task */
    int64_t span, n_spans;   /* keys of a task */
};

int64_t exec_attn_rows(const struct gr_node *n) {
    const int64_t group = n->n_heads / n->n_kv_heads;
    return max_i64(ATTN_ROWS / group, 1) * group;
}
int64_t exec_attn_scratch(const struct gr_node *n) {
    return exec_attn_rows(n) * (n->head_dim + KEY_BLOCK) + KEY_BLOCK * n->head_dim;
}

/* First key that a query with `seen` keys before and at its position sees. */
static int64_t first_key(const struct gr_node *n, int64_t seen) {
    return n->window > 0 && seen > n->window ? seen - n->window : 0;
}

static void append_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const struct session *s = j->s;
    const struct kv_slot *c = j->kv;
    for (int64_t t = t0; t < t1; t++) {
        const float *k = s->reg[j->n->src[1]] + t * s->g->reg_width[j->n->src[1]];
        const float *v = s->reg[j->n->src[2]] + t * s->g->reg_width[j->n->src[2]];
        for (int64_t h = 0; h < c->n_heads; h++) {
            uint64_t at = (uint64_t)(h * s->kv.n_ctx + s->pos + t);
            kv_put(&s->kern, c->kt, k + h * c->k_dim, c->k + at * c->k_row, c->k_dim, false);
            kv_put(&s->kern, c->vt, v + h * c->v_dim, c->v + at * c->v_row, c->v_dim, true);
        }
    }
}

/* Rows [pos, pos + n) of a head as f32. */
static const float *keys(const struct job *j, int64_t head, int64_t pos, int64_t n,
                         float *scratch) {
    const struct kv_slot *c = j->kv;
    return kv_rows(&j->s->kern, c->kt, c->k + (uint64_t)(head * j->s->kv.n_ctx + pos) * c->k_row,
                   c->k_row, n, c->k_dim, false, scratch);
}
static const float *values(const struct job *j, int64_t head, int64_t pos, int64_t n,
                           float *scratch) {
    const struct kv_slot *c = j->kv;
    return kv_rows(&j->s->kern, c->vt, c->v + (uint64_t)(head * j->s->kv.n_ctx + pos) * c->v_row,
                   c->v_row, n, c->v_dim, true, scratch);
}

struct tile {                 /* of one task */
    int64_t head, t0;         /* kv head, first token */
    int64_t rows, hd, k0, k1; /* keys [k0, k1) are visible to some of the rows */
    float *q, *score, *block; /* [rows][hd], [rows][KEY_BLOCK], [KEY_BLOCK][hd]: worker's scratch */
    float *out;               /* [rows][hd] */
    struct att_row *row;      /* [rows] */
};

/* Task i of (step of tokens, kv head, span of keys): later tokens, which see more keys, first. Its
 * sums stay in place i where they are merged with others, else they are the worker's. */
static struct tile tile_of(const struct job *j, int64_t i, int worker) {
    const struct session *s = j->s;
    const int64_t head = i / j->n_spans, n_rows = j->t_step * j->group;
    struct tile x = {.head = head % j->kv->n_heads, .hd = j->kv->k_dim, .q = s->scratch[worker]};
    x.t0 = (j->n_steps - 1 - head / j->kv->n_heads) * j->t_step;
    const int64_t t1 = min_i64(x.t0 + j->t_step, s->n_tok);
    x.rows = (t1 - x.t0) * j->group;
    x.k0 = first_key(j->n, s->pos + x.t0 + 1) + i % j->n_spans * j->span;
    x.k1 = min_i64(x.k0 + j->span, s->pos + t1);
    x.score = x.q + n_rows * x.hd;
    x.block = x.score + n_rows * KEY_BLOCK;
    const int64_t place = j->n_spans > 1 ? i : worker;
    x.out = s->att_part + place * n_rows * x.hd;
    x.row = s->att_row + place * n_rows;
    return x;
}

/* Row r is head r % group of token t0 + r / group. */
static float *row_of(const struct job *j, const struct tile *x, gr_reg reg, int64_t r) {
    const struct session *s = j->s;
    return s->reg[reg] + (x->t0 + r / j->group) * s->g->reg_width[reg] +
           (x->head * j->group + r % j->group) * x->hd;
}

static void load_queries(const struct job *j, const struct tile *x) {
    for (int64_t r = 0; r < x->rows; r++) {
        const float *q = row_of(j, x, j->n->src[0], r);
        for (int64_t i = 0; i < x->hd; i++) x->q[r * x->hd + i] = q[i] * j->n->scale;
        if (j->kv->kt->rotated) kv_rotate(x->q + r * x->hd, x->hd);
    }
}

/* Scores of keys [k0, k0 + nk) become exponentials, 0 where a row does not see the key; what was
 * summed before shrinks to the new maximum. */
static void soften(const struct job *j, const struct tile *x, int64_t k0, int64_t nk) {
    const struct session *s = j->s;
    for (int64_t r = 0; r < x->rows; r++) {
        const int64_t seen = s->pos + x->t0 + r / j->group + 1;
        const int64_t lo = min_i64(max_i64(first_key(j->n, seen) - k0, 0), nk);
        const int64_t hi = max_i64(min_i64(seen - k0, nk), lo);
        float *p = x->score + r * KEY_BLOCK, *out = x->out + r * x->hd;
        const float less = s->kern.softmax_more(p + lo, hi - lo, &x->row[r].max, &x->row[r].sum);
        memset(p, 0, (size_t)lo * sizeof *p);
        memset(p + hi, 0, (size_t)(nk - hi) * sizeof *p);
        for (int64_t i = 0; less < 1 && i < x->hd; i++) out[i] *= less;
    }
}

static void run_tile(const struct job *j, const struct tile *x) {
    const struct kern *kern = &j->s->kern;
    memset(x->out, 0, (size_t)(x->rows * x->hd) * sizeof *x->out);
    for (int64_t r = 0; r < x->rows; r++) x->row[r] = (struct att_row){.max = -INFINITY};
    load_queries(j, x);
    for (int64_t k0 = x->k0; k0 < x->k1; k0 += KEY_BLOCK) {
        const int64_t nk = min_i64(KEY_BLOCK, x->k1 - k0);
        const float *k = keys(j, x->head, k0, nk, x->block);
        kern->gemm_f32(x->q, x->hd, k, x->hd, x->score, KEY_BLOCK, x->rows, nk, x->hd);
        soften(j, x, k0, nk);
        const float *v = values(j, x->head, k0, nk, x->block);
        kern->gemm_nn(x->score, KEY_BLOCK, v, x->hd, x->out, x->hd, x->rows, x->hd, nk);
    }
}

/* Sums over exponentials -> the node's result. */
static void write_rows(const struct job *j, const struct tile *x) {
    for (int64_t r = 0; r < x->rows; r++) {
        const float inv = (float)(1 / x->row[r].sum);
        float *dst = row_of(j, x, j->n->dst, r);
        for (int64_t i = 0; i < x->hd; i++) dst[i] = x->out[r * x->hd + i] * inv;
        if (j->kv->vt->rotated) kv_rotate_back(dst, x->hd);
    }
}

/* Adds the sums of y, which are of other keys, to those of x. */
static void merge(const struct tile *x, const struct tile *y) {
    for (int64_t r = 0; r < x->rows; r++) {
        struct att_row *a = &x->row[r];
        const struct att_row *b = &y->row[r];
        const float max = fmaxf(a->max, b->max);
        if (max == -INFINITY) continue;
        const double fa = fp_exp((double)(a->max - max)), fb = fp_exp((double)(b->max - max));
        float *out = x->out + r * x->hd;
        const float *more = y->out + r * x->hd;
        for (int64_t i = 0; i < x->hd; i++) out[i] = out[i] * (float)fa + more[i] * (float)fb;
        *a = (struct att_row){a->sum * fa + b->sum * fb, max};
    }
}

static void tile_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    for (int64_t i = i0; i < i1; i++) {
        const struct tile x = tile_of(j, i, worker);
        run_tile(j, &x);
        if (j->n_spans == 1) write_rows(j, &x);
    }
}

static void merge_range(void *ctx, int64_t h0, int64_t h1, int worker) {
    const struct job *j = ctx;
    for (int64_t h = h0; h < h1; h++) {
        const struct tile x = tile_of(j, h * j->n_spans, worker);
        for (int64_t i = 1; i < j->n_spans; i++) {
            const struct tile y = tile_of(j, h * j->n_spans + i, worker);
            merge(&x, &y);
        }
        write_rows(j, &x);
    }
}

/* How keys are split: nothing here may depend on the number of threads. */
static void split(struct job *j) {
    const struct session *s = j->s;
    j->t_step = max_i64(1, ATTN_ROWS / j->group);
    j->n_steps = div_up(s->n_tok, j->t_step);
    int64_t n_keys = s->pos + s->n_tok;
    if (j->n->window > 0) n_keys = min_i64(n_keys, j->n->window + j->t_step);
    const int64_t blocks = div_up(n_keys, KEY_BLOCK);
    const int64_t wanted = max_i64(1, ATTN_TASKS / (j->n_steps * j->kv->n_heads));
    j->span = div_up(blocks, wanted) * KEY_BLOCK;
    j->n_spans = div_up(n_keys, j->span);
}

void exec_attn(struct session *s, const struct gr_node *n) {
    struct job j = {
        .s = s, .n = n, .kv = &s->kv.slot[n->slot], .group = n->n_heads / n->n_kv_heads};
    split(&j);
    if (n->src[1] != GR_NONE)
        exec_par(s, s->n_tok, 16, 8.0 * (double)(s->n_tok * n->n_kv_heads * n->head_dim),
                 append_range, &j);
    const int64_t n_heads = j.n_steps * j.kv->n_heads;
    const double work = (double)(s->n_tok * n->n_heads * n->head_dim) * (double)(s->pos + s->n_tok);
    exec_par(s, n_heads * j.n_spans, 1, work, tile_range, &j);
    if (j.n_spans > 1)
        exec_par(s, n_heads, 1, (double)(s->n_tok * n->n_heads * n->head_dim * j.n_spans),
                 merge_range, &j);
}
