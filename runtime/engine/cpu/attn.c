// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/attn.c - causal attention over the pages of the cache, grouped query heads
 * together.
 *
 * A tile is a few consecutive tokens of one sequence. The query rows of a tile that belong to one
 * kv head form a matrix, which meets keys in blocks of KEY_BLOCK positions with a running softmax
 * (Milakov and Gimelshein 2018; Dao et al. 2022), so scratch does not grow with the context.
 *
 * A row's result must not depend on the rows beside it, nor on how a prompt was cut into passes. So
 * everything that orders a row's sums follows from the row's own position: blocks and spans begin
 * at multiples of their length, counted from the start of the sequence; the softmax runs over the
 * blocks of one span, and the sums of spans are merged in order. The length of a span grows with
 * the position, so that no row has more than SPANS of them. Whether the spans of a tile are made by
 * one task or by several changes nothing in the bits.
 *
 * Keys and values of a rotated cache type (kv_type.h) stay rotated here: queries are rotated to
 * meet the keys, and sums of values are rotated back once per head and query.
 *
 * Latent attention has one row of keys for all heads, whose second part is the value: the parts are
 * stored, and rotated, apart, and decoded side by side, once for both. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

struct job {
    struct session *s;
    const struct gr_node *n;
    const struct kv_slot *kv;
    /* One value for each query head, which takes part in its softmax without a key; NULL where
     * the model has none. */
    const float *sink;
    int64_t group; /* How many query heads share one head of keys. */
    int n_tiles;
    bool split; /* True: a task is one span of a tile. False: a task does all spans of its tile. */
    int64_t n_tasks;
};

int64_t exec_attn_rows(const struct gr_node *n) {
    const int64_t group = n->attn.n_heads / n->attn.n_kv_heads;
    return max_i64(ATTN_ROWS / group, 1) * group;
}
int64_t exec_attn_scratch(const struct gr_node *n) {
    const int64_t rows = exec_attn_rows(n);
    return rows * (2 * n->attn.head_dim + KEY_BLOCK) + KEY_BLOCK * n->attn.head_dim;
}

/* Returns the first position whose key a query at `pos` sees. */
static int64_t first_key(const struct gr_node *n, int64_t pos) {
    const int64_t w = n->attn.window;
    if (n->attn.chunked) return pos - pos % w;
    return w > 0 && pos >= w ? pos - w + 1 : 0;
}

/* ---- cutting the work ---- */

/* Returns the length of a span, in keys, for a query at `pos`. Queries from position *until on may
 * have longer spans. */
static int64_t span_keys(const struct gr_node *n, int64_t pos, int64_t *until) {
    int64_t blocks = pos / KEY_BLOCK + 1, per_span = 1;
    const int64_t most = n->attn.window > 0 ? n->attn.window / KEY_BLOCK + 2 : INT64_MAX;
    blocks = min_i64(blocks, most);
    while (blocks > SPANS * per_span) per_span *= 2;
    *until = most <= SPANS * per_span ? INT64_MAX : SPANS * per_span * KEY_BLOCK;
    return per_span * KEY_BLOCK;
}

static void add_tiles(struct job *j, const struct seg *g) {
    struct session *s = j->s;
    const int64_t step = max_i64(1, ATTN_ROWS / j->group);
    for (int64_t t = 0; t < g->n;) {
        const int64_t pos = g->seq->pos + t;
        int64_t until;
        struct att_tile *x = &s->att_tile[j->n_tiles++];
        *x = (struct att_tile){.seq = g->seq, .r0 = g->r0 + t, .pos = pos};
        x->span = span_keys(j->n, pos, &until);
        x->n = min_i64(min_i64(step, g->n - t), until - pos);
        x->span0 = first_key(j->n, pos) / x->span;
        x->n_spans = (pos + x->n - 1) / x->span + 1 - x->span0;
        t += x->n;
    }
}

/* Numbers the tasks of all tiles, and the rows of partial sums where each span is a task of its
 * own. */
static void number_tasks(struct job *j, bool split) {
    int64_t task = 0, row = 0;
    for (int i = 0; i < j->n_tiles; i++) {
        struct att_tile *x = &j->s->att_tile[i];
        const int64_t n = j->kv->n_heads * (split ? x->n_spans : 1);
        x->task0 = task;
        x->part0 = row;
        task += n;
        row += n * x->n * j->group;
    }
    j->n_tasks = task;
    j->split = split && row <= ATTN_PARTS;
    if (split && !j->split) number_tasks(j, false);
}

static void cut(struct job *j) {
    const struct session *s = j->s;
    for (int i = 0; i < s->n_segs; i++) add_tiles(j, &s->seg[i]);
    number_tasks(j, j->n_tiles * j->kv->n_heads < ATTN_TASKS);
}

/* Returns the tile of a task, which is the last one whose first task is not behind it. */
static const struct att_tile *tile_of(const struct job *j, int64_t task) {
    int lo = 0, hi = j->n_tiles;
    while (hi - lo > 1) {
        const int mid = (lo + hi) / 2;
        if (j->s->att_tile[mid].task0 <= task)
            lo = mid;
        else
            hi = mid;
    }
    return &j->s->att_tile[lo];
}

/* ---- one tile and one kv head ---- */

struct work {
    const struct att_tile *x;
    /* The head of keys; rows of queries; values of a query, and of what a query becomes. */
    int64_t head, rows, hd, vd;
    /* The queries [rows][hd], their scores [rows][KEY_BLOCK], and decoded keys or values
     * [KEY_BLOCK][hd]. */
    float *q, *score, *block;
};
/* The running sums over some keys: of values weighed by exponentials, and what the softmax needs
 * of each row. */
struct sums {
    float *out;          /* [rows][vd] */
    struct att_row *row; /* [rows] */
};

/* Returns row r of a tile in a register: head r % group of the tile's token r / group. */
static float *row_of(const struct job *j, const struct work *w, gr_reg reg, int64_t r,
                     int64_t width) {
    const struct session *s = j->s;
    return s->reg[reg] + (w->x->r0 + r / j->group) * s->g->reg_width[reg] +
           (w->head * j->group + r % j->group) * width;
}

static struct work work_of(const struct job *j, const struct att_tile *x, int64_t head,
                           int worker) {
    struct work w = {.x = x, .head = head, .rows = x->n * j->group};
    const int64_t rows = exec_attn_rows(j->n);
    w.hd = j->n->attn.head_dim;
    w.vd = gr_attn_values(&j->n->attn);
    w.q = j->s->scratch[worker];
    w.score = w.q + rows * w.hd;
    w.block = w.score + rows * KEY_BLOCK;
    return w;
}
/* Returns memory for sums that belongs to one worker alone. Each worker has two, told apart by
 * `which` (0 or 1). */
static struct sums own_sums(const struct job *j, const struct work *w, int worker, int which) {
    struct session *s = j->s;
    const int64_t rows = exec_attn_rows(j->n), at = ATTN_PARTS + (2 * worker + which) * rows;
    return which
               ? (struct sums){w->block + KEY_BLOCK * w->hd, s->att_row + at}
               : (struct sums){s->att_part + (ATTN_PARTS + worker * rows) * w->vd, s->att_row + at};
}
/* Returns the memory of the sums of span i of a tile, which the task that merges them reads too. */
static struct sums span_sums(const struct job *j, const struct work *w, int64_t i) {
    const int64_t row = w->x->part0 + (w->head * w->x->n_spans + i) * w->rows;
    return (struct sums){j->s->att_part + row * w->vd, j->s->att_row + row};
}

static void load_queries(const struct job *j, const struct work *w) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *q = row_of(j, w, j->n->src[0], r, w->hd);
        float *to = w->q + r * w->hd;
        const int64_t k_dim = w->hd - j->n->attn.latent;
        for (int64_t i = 0; i < w->hd; i++) to[i] = q[i] * j->n->attn.scale;
        if (j->kv->kt->rotated) kv_rotate(to, k_dim);
        if (j->n->attn.latent && j->kv->vt->rotated) kv_rotate(to + k_dim, w->vd);
    }
}

/* Replaces scores by cap * tanh(scores / cap), where tanh(x) is computed as 2 sigmoid(2x) - 1. */
static void cap_scores(const struct job *j, const struct work *w, int64_t nk) {
    const float cap = j->n->attn.softcap;
    float twice[KEY_BLOCK];
    for (int64_t r = 0; r < w->rows; r++) {
        float *p = w->score + r * KEY_BLOCK;
        for (int64_t i = 0; i < nk; i++) {
            twice[i] = p[i] * (2 / cap);
            p[i] = 2;
        }
        j->s->kern.sigmoid_mul(p, twice, nk);
        for (int64_t i = 0; i < nk; i++) p[i] = cap * (p[i] - 1);
    }
}

/* Replaces scores of keys [k0, k0 + nk) by exponentials, which are 0 where a row does not see the
 * key, and scales what was summed before to the new maximum. */
static void soften(const struct job *j, const struct work *w, const struct sums *to, int64_t k0,
                   int64_t nk) {
    const struct session *s = j->s;
    for (int64_t r = 0; r < w->rows; r++) {
        const int64_t pos = w->x->pos + r / j->group;
        const int64_t lo = min_i64(max_i64(first_key(j->n, pos) - k0, 0), nk);
        const int64_t hi = max_i64(min_i64(pos + 1 - k0, nk), lo);
        float *p = w->score + r * KEY_BLOCK, *out = to->out + r * w->vd;
        const float less = s->kern.softmax_more(p + lo, hi - lo, &to->row[r].max, &to->row[r].sum);
        memset(p, 0, (size_t)lo * sizeof *p);
        memset(p + hi, 0, (size_t)(nk - hi) * sizeof *p);
        for (int64_t i = 0; less < 1 && i < w->vd; i++) out[i] *= less;
    }
}

/* Decodes the keys and latent rows of nk positions from k0 on into w->block, side by side. */
static void load_latent(const struct job *j, const struct work *w, int64_t k0, int64_t nk) {
    const struct kv_slot *kv = j->kv;
    const struct kern *kern = &j->s->kern;
    const uint8_t *k = seq_key(w->x->seq, j->n->slot, 0, k0);
    const uint8_t *v = seq_value(w->x->seq, j->n->slot, 0, k0);
    for (int64_t i = 0; i < nk; i++) {
        float *to = w->block + i * w->hd;
        kv->kt->get(kv->kt, kern, k + (uint64_t)i * kv->k_row, to, kv->k_dim, false);
        kv->vt->get(kv->vt, kern, v + (uint64_t)i * kv->v_row, to + kv->k_dim, kv->v_dim, true);
    }
}
/* Returns the keys of nk positions from k0 on as f32 rows, which lie hd values apart. */
static const float *load_keys(const struct job *j, const struct work *w, int64_t k0, int64_t nk) {
    const struct kv_slot *kv = j->kv;
    if (j->n->attn.latent) {
        load_latent(j, w, k0, nk);
        return w->block;
    }
    return kv_rows(&j->s->kern, kv->kt, seq_key(w->x->seq, j->n->slot, w->head, k0), kv->k_row, nk,
                   kv->k_dim, false, w->block);
}
/* Returns the values of the positions that load_keys was called for, and in *ld how many floats one
 * row of them lies behind the one before. */
static const float *load_values(const struct job *j, const struct work *w, int64_t k0, int64_t nk,
                                int64_t *ld) {
    const struct kv_slot *kv = j->kv;
    *ld = w->hd;
    /* They were loaded together with the keys. */
    if (j->n->attn.latent) return w->block + kv->k_dim;
    return kv_rows(&j->s->kern, kv->vt, seq_value(w->x->seq, j->n->slot, w->head, k0), kv->v_row,
                   nk, kv->v_dim, true, w->block);
}

/* Computes the sums over those keys of span i that the tile's rows see. */
static void run_span(const struct job *j, const struct work *w, int64_t i, const struct sums *to) {
    const struct session *s = j->s;
    const struct att_tile *x = w->x;
    const int64_t last = x->pos + x->n, begin = (x->span0 + i) * x->span;
    const int64_t first = max_i64(begin, first_key(j->n, x->pos) / KEY_BLOCK * KEY_BLOCK);
    memset(to->out, 0, (size_t)(w->rows * w->vd) * sizeof *to->out);
    for (int64_t r = 0; r < w->rows; r++) to->row[r] = (struct att_row){.max = -INFINITY};
    for (int64_t k0 = first; k0 < min_i64(begin + x->span, last); k0 += KEY_BLOCK) {
        const int64_t nk = min_i64(KEY_BLOCK, last - k0);
        const float *k = load_keys(j, w, k0, nk);
        s->kern.gemm_f32(w->q, w->hd, k, w->hd, w->score, KEY_BLOCK, w->rows, nk, w->hd);
        if (j->n->attn.softcap > 0) cap_scores(j, w, nk);
        soften(j, w, to, k0, nk);
        int64_t ld;
        const float *v = load_values(j, w, k0, nk, &ld);
        s->kern.gemm_nn(w->score, KEY_BLOCK, v, ld, to->out, w->vd, w->rows, w->vd, nk);
    }
}

/* Adds the sums of a later span to those of earlier ones. A row that sees nothing of the later span
 * keeps what it had. */
static void merge(const struct work *w, const struct sums *to, const struct sums *more) {
    for (int64_t r = 0; r < w->rows; r++) {
        struct att_row *a = &to->row[r];
        const struct att_row *b = &more->row[r];
        float *out = to->out + r * w->vd;
        const float *add = more->out + r * w->vd;
        if (b->max == -INFINITY) continue;
        if (a->max == -INFINITY) {
            memcpy(out, add, (size_t)w->vd * sizeof *out);
            *a = *b;
            continue;
        }
        const float max = fmaxf(a->max, b->max);
        const double fa = fp_exp((double)(a->max - max)), fb = fp_exp((double)(b->max - max));
        for (int64_t i = 0; i < w->vd; i++) out[i] = out[i] * (float)fa + add[i] * (float)fb;
        *a = (struct att_row){a->sum * fa + b->sum * fb, max};
    }
}

static void write_rows(const struct job *j, const struct work *w, const struct sums *from) {
    for (int64_t r = 0; r < w->rows; r++) {
        double sum = from->row[r].sum;
        if (j->sink) {
            const float sink = j->sink[w->head * j->group + r % j->group];
            sum += fp_exp((double)(sink - from->row[r].max));
        }
        const float inv = (float)(1 / sum);
        float *dst = row_of(j, w, j->n->dst, r, w->vd);
        for (int64_t i = 0; i < w->vd; i++) dst[i] = from->out[r * w->vd + i] * inv;
        if (j->kv->vt->rotated) kv_rotate_back(dst, w->vd);
    }
}

/* ---- tasks ---- */

static void tile_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    for (int64_t i = i0; i < i1; i++) {
        /* Later tokens see more keys, so their tasks are begun first. */
        const int64_t task = j->n_tasks - 1 - i;
        const struct att_tile *x = tile_of(j, task);
        const int64_t k = task - x->task0;
        const struct work w = work_of(j, x, j->split ? k / x->n_spans : k, worker);
        load_queries(j, &w);
        if (j->split) {
            const struct sums to = span_sums(j, &w, k % x->n_spans);
            run_span(j, &w, k % x->n_spans, &to);
            continue;
        }
        const struct sums all = own_sums(j, &w, worker, 0), one = own_sums(j, &w, worker, 1);
        run_span(j, &w, 0, &all);
        for (int64_t span = 1; span < x->n_spans; span++) {
            run_span(j, &w, span, &one);
            merge(&w, &all, &one);
        }
        write_rows(j, &w, &all);
    }
}

/* Merges the sums that tasks made of the spans of items [i0, i1). An item is a head of keys of a
 * tile. */
static void merge_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    for (int64_t i = i0; i < i1; i++) {
        const struct work w =
            work_of(j, &j->s->att_tile[i / j->kv->n_heads], i % j->kv->n_heads, worker);
        const struct sums all = span_sums(j, &w, 0);
        for (int64_t span = 1; span < w.x->n_spans; span++) {
            const struct sums one = span_sums(j, &w, span);
            merge(&w, &all, &one);
        }
        write_rows(j, &w, &all);
    }
}

static void append_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const struct session *s = j->s;
    const struct kv_slot *c = j->kv;
    const int slot = j->n->slot;
    for (int64_t t = t0; t < t1; t++) {
        const float *k = s->reg[j->n->src[1]] + t * s->g->reg_width[j->n->src[1]];
        const float *v = s->reg[j->n->src[2]] + t * s->g->reg_width[j->n->src[2]];
        for (int64_t h = 0; h < c->n_heads; h++) {
            kv_put(&s->kern, c->kt, k + h * c->k_dim,
                   seq_key(s->row_seq[t], slot, h, s->row_pos[t]), c->k_dim, false);
            kv_put(&s->kern, c->vt, v + h * c->v_dim,
                   seq_value(s->row_seq[t], slot, h, s->row_pos[t]), c->v_dim, true);
        }
    }
}

void exec_attn(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s,
                    .n = n,
                    .kv = &s->cache.kv.slot[n->slot],
                    .group = n->attn.n_heads / n->attn.n_kv_heads};
    double keys = 0;
    if (n->attn.sinks != GR_NONE) j.sink = exec_vec(s, n->attn.sinks);
    cut(&j);
    for (int i = 0; i < s->n_segs; i++)
        keys += (double)s->seg[i].n * (double)(s->seg[i].seq->pos + s->seg[i].n);
    if (n->src[1] != GR_NONE)
        exec_par(s, s->n_tok, 16, 8.0 * (double)(s->n_tok * n->attn.n_kv_heads * n->attn.head_dim),
                 append_range, &j);
    exec_par(s, j.n_tasks, 1, keys * (double)(n->attn.n_heads * n->attn.head_dim), tile_range, &j);
    if (j.split)
        exec_par(s, j.n_tiles * j.kv->n_heads, 1,
                 (double)(j.n_tasks * n->attn.n_heads * n->attn.head_dim), merge_range, &j);
}
