// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/index.c - selection of the keys that a query sees: scores of all earlier
 * positions by an indexer, and the positions with the largest.
 *
 * The scores of a few rows are computed at a time, one block of keys per task, so that a single
 * token also uses all threads. A row's selection depends on its own sequence only. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "runtime/engine/exec.h"

enum { SCORE_FLOATS = 4 << 20 }; /* scores kept at a time, unless one row has more */

struct job {
    struct session *s;
    const struct gr_node *n;
    const struct kv_slot *kv;
    int64_t t0, n_rows; /* rows whose scores are kept */
    int64_t width;      /* scores of a row */
    int64_t n_blocks;   /* blocks of keys in the longest row */
};

int64_t exec_index_scratch(const struct gr_node *n) {
    const int64_t heads = n->index.n_heads, dim = n->index.head_dim;
    return heads * dim + heads * KEY_BLOCK + KEY_BLOCK * dim;
}
/* Returns how many blocks of keys the context has. */
static int64_t n_blocks_of(const struct gr_index *x, int64_t n_ctx) {
    return div_up(n_ctx, x->block);
}
int64_t exec_index_width(const struct gr_node *n, int64_t n_ctx) {
    return n->index.block ? n->index.n_heads * n_blocks_of(&n->index, n_ctx) : n_ctx;
}
int64_t exec_index_rows(int64_t width, int64_t n_ubatch) {
    return max_i64(1, min_i64(n_ubatch, SCORE_FLOATS / width));
}

static float *row_of(const struct session *s, gr_reg r, int64_t t) {
    return s->reg[r] + t * s->g->reg_width[r];
}
static float *scores_of(const struct job *j, int64_t t) {
    return j->s->index_score + (t - j->t0) * 2 * j->width;
}
/* Returns whether the row has more positions than are selected. */
static bool selects(const struct job *j, int64_t t) {
    return j->s->row_pos[t] >= j->n->index.top;
}

static void append_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        kv_put(&j->s->kern, j->kv->kt, row_of(j->s, j->n->src[1], t),
               seq_key(j->s->row_seq[t], j->n->slot, 0, j->s->row_pos[t]), j->kv->k_dim, false);
}

/* Sets out[nk] to the weighted sums over heads of the positive scores [heads][KEY_BLOCK]. */
static void weigh(const float *score, const float *weight, int64_t n_heads, int64_t nk,
                  float *out) {
    memset(out, 0, (size_t)nk * sizeof *out);
    for (int64_t h = 0; h < n_heads; h++)
        for (int64_t i = 0; i < nk; i++)
            out[i] += weight[h] * (score[h * KEY_BLOCK + i] > 0 ? score[h * KEY_BLOCK + i] : 0);
    for (int64_t i = 0; i < nk; i++)
        if (!(out[i] >= -FLT_MAX)) out[i] = -FLT_MAX; /* not a number */
}

/* Sets the scores of the blocks of keys [k0, k0 + nk) to the largest of their scores
 * [heads][KEY_BLOCK]. */
static void pool_blocks(const struct job *j, const float *score, int64_t k0, int64_t nk,
                        float *out) {
    const struct gr_index *x = &j->n->index;
    for (int64_t h = 0; h < x->n_heads; h++)
        for (int64_t i = 0; i < nk; i += x->block) {
            float most = -FLT_MAX;
            for (int64_t k = i; k < min_i64(i + x->block, nk); k++)
                most = fmaxf(most, score[h * KEY_BLOCK + k]);
            out[h * n_blocks_of(x, j->s->o.n_ctx) + (k0 + i) / x->block] = most;
        }
}

/* Computes the scores of items i0 to i1 - 1; item i is row i / n_blocks with one block of its keys.
 * A pool_fn. */
static void score_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    const int64_t heads = j->n->index.n_heads, dim = j->n->index.head_dim;
    float *q = s->scratch[worker], *score = q + heads * dim, *block = score + heads * KEY_BLOCK;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t t = j->t0 + i / j->n_blocks, k0 = i % j->n_blocks * KEY_BLOCK;
        const int64_t nk = min_i64(KEY_BLOCK, s->row_pos[t] + 1 - k0);
        if (nk < 1 || !selects(j, t)) continue;
        memcpy(q, row_of(s, j->n->src[0], t), (size_t)(heads * dim) * sizeof *q);
        for (int64_t h = 0; h < heads && j->kv->kt->rotated; h++) kv_rotate(q + h * dim, dim);
        const float *k = kv_rows(&s->kern, j->kv->kt, seq_key(s->row_seq[t], j->n->slot, 0, k0),
                                 j->kv->k_row, nk, dim, false, block);
        s->kern.gemm_f32(q, dim, k, dim, score, KEY_BLOCK, heads, nk, dim);
        if (j->n->index.block)
            pool_blocks(j, score, k0, nk, scores_of(j, t));
        else
            weigh(score, row_of(s, j->n->src[2], t), heads, nk, scores_of(j, t) + k0);
    }
}

static void swap(float *a, float *b) {
    const float c = *a;
    *a = *b;
    *b = c;
}
/* Returns the k-th largest of v[n], counted from 0. Reorders v. */
static float kth_largest(float *v, int64_t n, int64_t k) {
    int64_t lo = 0, hi = n - 1;
    while (lo < hi) {
        const float pivot = v[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;
        while (i <= j) {
            while (v[i] > pivot) i++;
            while (v[j] < pivot) j--;
            if (i <= j) swap(&v[i++], &v[j--]);
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            break;
    }
    return v[k];
}

/* Writes the indices of the `top` largest of n scores to `to`, in ascending order; ties to the
 * lower index. `sorted` is scratch of n values. */
static void select_top(const float *score, float *sorted, int64_t n, int64_t top, float *to) {
    memcpy(sorted, score, (size_t)n * sizeof *sorted);
    const float least = kth_largest(sorted, n, top - 1);
    int64_t ties = top, at = 0;
    for (int64_t i = 0; i < n; i++) ties -= score[i] > least;
    for (int64_t i = 0; i < n; i++)
        if (score[i] > least || (score[i] >= least && ties-- > 0)) to[at++] = (float)i;
}

/* Writes the positions of the selected blocks of each head to `to` [heads][top]. */
static void select_blocks(const struct job *j, float *score, float *sorted, int64_t pos,
                          float *to) {
    const struct gr_index *x = &j->n->index;
    const int64_t n = pos / x->block + 1, top = x->top / x->block;
    for (int64_t h = 0; h < x->n_heads; h++, to += x->top) {
        float *mine = score + h * n_blocks_of(x, j->s->o.n_ctx);
        for (int64_t l = 0; l < x->local; l++) mine[n - 1 - l] = INFINITY;
        select_top(mine, sorted, n, top, to);
        for (int64_t b = top - 1; b >= 0; b--) /* from the last, since they get longer */
            for (int64_t i = x->block - 1; i >= 0; i--)
                to[b * x->block + i] = to[b] * (float)x->block + (float)i;
    }
}

static void select_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = j->t0 + i0; t < j->t0 + i1; t++) {
        float *score = scores_of(j, t), *sorted = score + j->width;
        float *to = row_of(j->s, j->n->dst, t);
        if (!selects(j, t)) continue;
        if (j->n->index.block)
            select_blocks(j, score, sorted, j->s->row_pos[t], to);
        else
            select_top(score, sorted, j->s->row_pos[t] + 1, j->n->index.top, to);
    }
}

void exec_index(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s, .n = n, .kv = &s->cache.kv.slot[n->slot]};
    j.width = exec_index_width(n, s->o.n_ctx);
    const int64_t heads = n->index.n_heads, dim = n->index.head_dim;
    exec_par(s, s->n_tok, 16, 8.0 * (double)(s->n_tok * dim), append_range, &j);
    for (; j.t0 < s->n_tok; j.t0 += j.n_rows) {
        int64_t last = 0;
        j.n_rows = min_i64(s->index_rows, s->n_tok - j.t0);
        for (int64_t t = j.t0; t < j.t0 + j.n_rows; t++) last = max_i64(last, s->row_pos[t]);
        if (last < n->index.top) continue;
        j.n_blocks = last / KEY_BLOCK + 1;
        exec_par(s, j.n_rows * j.n_blocks, 1, (double)(j.n_rows * last * heads * dim), score_range,
                 &j);
        exec_par(s, j.n_rows, 1, 8.0 * (double)(j.n_rows * last), select_range, &j);
    }
}
