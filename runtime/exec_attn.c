// SPDX-License-Identifier: MIT
/* runtime/exec_attn.c - causal attention over the cache, grouped query heads together.
 *
 * Several tokens: a task is (kv head, a few tokens): the query rows of its heads form one matrix,
 * scores of all visible keys are kept (bounded by ATTN_SCORES), softmax per row, then values block
 * by block as a second product. One token: three phases split over (kv head, block of keys), so
 * that long contexts use every thread; partial sums are added in block order.
 *
 * Keys and values of a rotated cache type (kv_type.h) stay rotated here: queries are rotated to
 * meet the keys, and sums of values are rotated back once per head and query. */
#include <string.h>

#include "core/num.h"
#include "runtime/exec.h"

struct job {
    struct session *s;
    const struct gr_node *n;
    const struct kv_slot *kv;
    int64_t group;      /* query heads per kv head */
    int64_t t_step;     /* tokens of a task */
    int64_t k0, n_keys; /* one-token form: first key, keys */
    int64_t n_blocks;
    const float *q; /* one-token form: [heads][head_dim], rotated if the keys are */
};

/* Tokens of a task such that rows and scores stay bounded. */
static int64_t step_for(int64_t group, int64_t n_ctx) {
    int64_t rows = min_i64(ATTN_MAX_ROWS, ATTN_SCORES / n_ctx);
    return max_i64(1, rows / group);
}
int64_t exec_attn_scratch(const struct gr_node *n, int64_t n_ctx) {
    int64_t group = n->n_heads / n->n_kv_heads, rows = step_for(group, n_ctx) * group;
    return rows * (n_ctx + 3 * n->head_dim) + 2 * KEY_BLOCK * n->head_dim;
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

/* dst [n_col][n_row] = src [n_row][n_col] transposed, in tiles that stay in L1. */
static void transpose(const float *restrict src, int64_t n_row, int64_t n_col,
                      float *restrict dst) {
    enum { TILE = 16 };
    for (int64_t r0 = 0; r0 < n_row; r0 += TILE)
        for (int64_t c0 = 0; c0 < n_col; c0 += TILE)
            for (int64_t c = c0; c < min_i64(c0 + TILE, n_col); c++)
                for (int64_t r = r0; r < min_i64(r0 + TILE, n_row); r++)
                    dst[c * n_row + r] = src[r * n_col + c];
}

struct tile {                     /* of one task, in the worker's scratch */
    int64_t rows, k0, n_keys, hd; /* keys [k0, k0 + n_keys) */
    float *q, *score, *block, *vt, *part, *out;
};

/* Queries of tokens [t0, t1) and the group's heads: row (t - t0) * group + h, already scaled. */
static void load_queries(const struct job *j, struct tile *x, int64_t head, int64_t t0) {
    const struct session *s = j->s;
    for (int64_t r = 0; r < x->rows; r++) {
        const float *q = s->reg[j->n->src[0]] +
                         (t0 + r / j->group) * s->g->reg_width[j->n->src[0]] +
                         (head * j->group + r % j->group) * x->hd;
        for (int64_t i = 0; i < x->hd; i++) x->q[r * x->hd + i] = q[i] * j->n->scale;
        if (j->kv->kt->rotated) kv_rotate(x->q + r * x->hd, x->hd);
    }
}

static void score_keys(const struct job *j, struct tile *x, int64_t head) {
    const struct session *s = j->s;
    for (int64_t k0 = 0; k0 < x->n_keys; k0 += KEY_BLOCK) {
        int64_t nk = min_i64(KEY_BLOCK, x->n_keys - k0);
        const float *k = keys(j, head, x->k0 + k0, nk, x->block);
        s->kern.gemm_f32(x->q, x->hd, k, x->hd, x->score + k0, x->n_keys, x->rows, nk, x->hd);
    }
}

static void sum_values(const struct job *j, struct tile *x, int64_t head) {
    const struct session *s = j->s;
    size_t n = (size_t)(x->rows * x->hd);
    for (int64_t k0 = 0; k0 < x->n_keys; k0 += KEY_BLOCK) {
        int64_t nk = min_i64(KEY_BLOCK, x->n_keys - k0);
        const float *v = values(j, head, x->k0 + k0, nk, x->block);
        transpose(v, nk, x->hd, x->vt);
        float *to = k0 ? x->part : x->out;
        s->kern.gemm_f32(x->score + k0, x->n_keys, x->vt, nk, to, x->hd, x->rows, x->hd, nk);
        for (size_t i = 0; k0 && i < n; i++) x->out[i] += to[i];
    }
}

/* Item = (kv head, step of tokens). */
static void tile_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    int64_t n_steps = div_up(s->n_tok, j->t_step);
    for (int64_t i = i0; i < i1; i++) {
        /* later tokens see more keys: hand them out first */
        int64_t head = i % j->kv->n_heads, t0 = (n_steps - 1 - i / j->kv->n_heads) * j->t_step;
        int64_t t1 = min_i64(t0 + j->t_step, s->n_tok);
        struct tile x = {.rows = (t1 - t0) * j->group, .hd = j->kv->k_dim};
        x.k0 = first_key(j->n, s->pos + t0 + 1);
        x.n_keys = s->pos + t1 - x.k0;
        x.q = s->scratch[worker];
        x.part = x.q + x.rows * x.hd;
        x.out = x.part + x.rows * x.hd;
        x.block = x.out + x.rows * x.hd;
        x.vt = x.block + KEY_BLOCK * x.hd;
        x.score = x.vt + KEY_BLOCK * x.hd;
        load_queries(j, &x, head, t0);
        score_keys(j, &x, head);
        for (int64_t r = 0; r < x.rows; r++) {
            int64_t seen = s->pos + t0 + r / j->group + 1, lo = first_key(j->n, seen) - x.k0;
            float *row = x.score + r * x.n_keys;
            seen -= x.k0;
            s->kern.softmax(row + lo, seen - lo);
            memset(row, 0, (size_t)lo * sizeof *row);
            memset(row + seen, 0, (size_t)(x.n_keys - seen) * sizeof *row);
        }
        sum_values(j, &x, head);
        for (int64_t r = 0; r < x.rows; r++) {
            if (j->kv->vt->rotated) kv_rotate_back(x.out + r * x.hd, x.hd);
            memcpy(s->reg[j->n->dst] + (t0 + r / j->group) * s->g->reg_width[j->n->dst] +
                       (head * j->group + r % j->group) * x.hd,
                   x.out + r * x.hd, (size_t)x.hd * sizeof(float));
        }
    }
}

/* One token: item = (kv head, block of keys). */
static void one_scores(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    int64_t hd = j->kv->k_dim;
    for (int64_t i = i0; i < i1; i++) {
        int64_t head = i % j->kv->n_heads, k0 = i / j->kv->n_heads * KEY_BLOCK;
        int64_t nk = min_i64(KEY_BLOCK, j->n_keys - k0);
        const float *k = keys(j, head, j->k0 + k0, nk, s->scratch[worker]);
        for (int64_t g = head * j->group; g < (head + 1) * j->group; g++)
            for (int64_t r = 0; r < nk; r++)
                s->att_score[g * s->kv.n_ctx + k0 + r] =
                    j->n->scale * s->kern.dot_f32(j->q + g * hd, k + r * hd, hd);
    }
}
static void one_softmax(void *ctx, int64_t g0, int64_t g1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t g = g0; g < g1; g++)
        j->s->kern.softmax(j->s->att_score + g * j->s->kv.n_ctx, j->n_keys);
}
static void one_values(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    int64_t hd = j->kv->v_dim;
    for (int64_t i = i0; i < i1; i++) {
        int64_t head = i % j->kv->n_heads, b = i / j->kv->n_heads, k0 = b * KEY_BLOCK;
        int64_t nk = min_i64(KEY_BLOCK, j->n_keys - k0);
        const float *v = values(j, head, j->k0 + k0, nk, s->scratch[worker]);
        for (int64_t g = head * j->group; g < (head + 1) * j->group; g++) {
            float *out = s->att_out + (g * j->n_blocks + b) * hd;
            memset(out, 0, (size_t)hd * sizeof *out);
            for (int64_t r = 0; r < nk; r++)
                s->kern.axpy(out, v + r * hd, s->att_score[g * s->kv.n_ctx + k0 + r], hd);
        }
    }
}
static void one_token(struct session *s, struct job *j) {
    int64_t hd = j->kv->v_dim, n_heads = j->n->n_heads;
    double work = (double)(n_heads * j->n_keys * hd);
    j->q = s->reg[j->n->src[0]];
    if (j->kv->kt->rotated) {
        memcpy(s->att_q, j->q, (size_t)(n_heads * hd) * sizeof *j->q);
        for (int64_t g = 0; g < n_heads; g++) kv_rotate(s->att_q + g * hd, hd);
        j->q = s->att_q;
    }
    exec_par(s, j->kv->n_heads * j->n_blocks, 1, work, one_scores, j);
    exec_par(s, n_heads, 1, (double)(n_heads * j->n_keys * 8), one_softmax, j);
    exec_par(s, j->kv->n_heads * j->n_blocks, 1, work, one_values, j);
    for (int64_t g = 0; g < n_heads; g++) {
        float *dst = s->reg[j->n->dst] + g * hd;
        memcpy(dst, s->att_out + g * j->n_blocks * hd, (size_t)hd * sizeof *dst);
        for (int64_t b = 1; b < j->n_blocks; b++)
            for (int64_t i = 0; i < hd; i++) dst[i] += s->att_out[(g * j->n_blocks + b) * hd + i];
        if (j->kv->vt->rotated) kv_rotate_back(dst, hd);
    }
}

void exec_attn(struct session *s, const struct gr_node *n) {
    struct job j = {
        .s = s, .n = n, .kv = &s->kv.slot[n->slot], .group = n->n_heads / n->n_kv_heads};
    j.t_step = step_for(j.group, s->kv.n_ctx);
    if (s->n_tok == 1) j.k0 = first_key(n, s->pos + 1);
    j.n_keys = s->pos + s->n_tok - j.k0;
    j.n_blocks = div_up(j.n_keys, KEY_BLOCK);
    if (n->src[1] != GR_NONE)
        exec_par(s, s->n_tok, 16, 8.0 * (double)(s->n_tok * n->n_kv_heads * n->head_dim),
                 append_range, &j);
    if (s->n_tok == 1) {
        one_token(s, &j);
        return;
    }
    double work = (double)(s->n_tok * n->n_heads * n->head_dim) * (double)j.n_keys;
    exec_par(s, j.kv->n_heads * div_up(s->n_tok, j.t_step), 1, work, tile_range, &j);
}
