// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/attn.c - causal attention over the pages of the cache; the query heads that
 * share a KV head are computed together.
 *
 * A tile is a few consecutive tokens of one sequence. The query rows of a tile that share a KV head
 * form a matrix, which is multiplied with keys in blocks of KEY_BLOCK positions under a running
 * softmax (Milakov and Gimelshein 2018; Dao et al. 2022), so scratch does not grow with the
 * context.
 *
 * A row's result must not depend on other rows or on how a prompt is split into passes. The order
 * of a row's sums is therefore determined by its position alone: blocks and spans begin at
 * multiples of their length, counted from the start of the sequence; the softmax runs over the
 * blocks of one span, and the sums of the spans are merged in order. Spans get longer with the
 * position, so that no row has more than SPANS of them. Results are bit-identical whether one task
 * or several compute the spans of a tile.
 *
 * Keys and values of a rotated cache type (kv_type.h) stay rotated: queries are rotated like the
 * keys, and sums of values are rotated back once per head and query.
 *
 * If an indexer selected the keys of a query (index.c), its tile is that one token, and its keys
 * are numbered within the selection instead of by position.
 *
 * In latent attention all heads share one row of keys, whose second part is also the value. The two
 * parts are stored and rotated separately, and decoded next to each other once, for both uses. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

struct job {
    struct session *s;
    const struct gr_node *n;
    const struct kv_slot *kv;
    /* Attention sinks: one value per query head that enters its softmax like the score of an extra
     * key; NULL: none. */
    const float *sink;
    int64_t group; /* query heads per KV head */
    int64_t top;   /* keys selected per query; 0: all are visible */
    int n_tiles;
    bool split; /* true: a task is one span of a tile; false: all spans of a tile */
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

/* Returns the first position visible to a query at `pos`. */
static int64_t first_key(const struct gr_node *n, int64_t pos) {
    const int64_t w = n->attn.window;
    if (n->attn.chunked) return pos - pos % w;
    return w > 0 && pos >= w ? pos - w + 1 : 0;
}

/* ---- splitting the work ---- */

/* Returns the length of a span, in keys, for a query at `pos`. From position *until on, spans may
 * be longer. */
static int64_t span_keys(const struct gr_node *n, int64_t pos, int64_t *until) {
    int64_t blocks = pos / KEY_BLOCK + 1, per_span = 1;
    const int64_t most = n->attn.window > 0 ? n->attn.window / KEY_BLOCK + 2 : INT64_MAX;
    blocks = min_i64(blocks, most);
    while (blocks > SPANS * per_span) per_span *= 2;
    *until = most <= SPANS * per_span ? INT64_MAX : SPANS * per_span * KEY_BLOCK;
    return per_span * KEY_BLOCK;
}

/* Returns the position after the last key visible to row r of the pass, at position `pos`. */
static int64_t keys_end(const struct job *j, int64_t r, int64_t pos) {
    const struct session_image *im = j->n->attn.whole ? exec_image(j->s, r) : NULL;
    return im ? pos - j->s->images.at[r] + im->n : pos + 1;
}

/* Adds the tiles of a segment to the session's list; a tile has up to ATTN_ROWS query rows. */
static void add_tiles(struct job *j, const struct seg *g) {
    struct session *s = j->s;
    const int64_t step = j->top ? 1 : max_i64(1, ATTN_ROWS / j->group);
    for (int64_t t = 0; t < g->n;) {
        int64_t pos = g->seq->pos + t, until;
        struct att_tile *x = &s->att_tile[j->n_tiles++];
        *x = (struct att_tile){.seq = g->seq, .r0 = g->r0 + t, .pos = pos};
        if (j->top && pos >= j->top) {
            const int64_t block = j->n->attn.key_block;
            x->keys = s->reg[j->n->src[ATTN_KEYS]] + x->r0 * j->top * j->kv->n_heads;
            pos = block ? j->top - block + pos % block : j->top - 1;
            x->pos = pos;
        }
        x->span = span_keys(j->n, pos, &until);
        x->n = min_i64(min_i64(step, g->n - t), until - pos);
        x->span0 = first_key(j->n, pos) / x->span;
        for (int64_t i = 0; i < x->n; i++)
            x->end = max_i64(x->end, keys_end(j, x->r0 + i, pos + i));
        x->n_spans = (x->end - 1) / x->span + 1 - x->span0;
        t += x->n;
    }
}

/* Numbers the tasks of all tiles, and the rows of partial sums if each span is a task. */
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

/* Lists the tiles of all segments and numbers their tasks. */
static void split_work(struct job *j) {
    const struct session *s = j->s;
    for (int i = 0; i < s->n_segs; i++) add_tiles(j, &s->seg[i]);
    number_tasks(j, j->n_tiles * j->kv->n_heads < ATTN_TASKS);
}

/* Returns the tile of a task: the last whose first task is at or before it. */
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

/* ---- one tile and one KV head ---- */

struct work {
    const struct att_tile *x;
    /* KV head; query rows; width of a query; width of an output row. */
    int64_t head, rows, hd, vd;
    /* Queries [rows][hd], scores [rows][KEY_BLOCK], and decoded keys or values [KEY_BLOCK][hd]. */
    float *q, *score, *block;
};
/* Running sums over a range of keys: values weighted by exponentials, and the softmax state of each
 * row. */
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

/* Returns the sizes of tile x for one head, with pointers into the worker's scratch. */
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
/* Returns one of a worker's two private buffers for sums; `which` is 0 or 1. */
static struct sums own_sums(const struct job *j, const struct work *w, int worker, int which) {
    struct session *s = j->s;
    const int64_t rows = exec_attn_rows(j->n), at = ATTN_PARTS + (2 * worker + which) * rows;
    return which
               ? (struct sums){w->block + KEY_BLOCK * w->hd, s->att_row + at}
               : (struct sums){s->att_part + (ATTN_PARTS + worker * rows) * w->vd, s->att_row + at};
}
/* Returns the sums of span i of a tile, which the merging task also reads. */
static struct sums span_sums(const struct job *j, const struct work *w, int64_t i) {
    const int64_t row = w->x->part0 + (w->head * w->x->n_spans + i) * w->rows;
    return (struct sums){j->s->att_part + row * w->vd, j->s->att_row + row};
}

/* Copies the tile's queries to w->q, scaled and rotated as the cache's types require. */
static void load_queries(const struct job *j, const struct work *w) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *q = row_of(j, w, j->n->src[0], r, w->hd);
        float *to = w->q + r * w->hd;
        const int64_t k_dim = w->hd - j->n->attn.latent;
        for (int64_t i = 0; i < w->hd; i++) to[i] = q[i] * j->n->attn.scale;
        if (j->kv->kt->rotated) kv_turn(j->kv->kt, to, k_dim, false);
        if (j->n->attn.latent && j->kv->vt->rotated) kv_turn(j->kv->vt, to + k_dim, w->vd, true);
    }
}

/* Replaces scores by cap * tanh(scores / cap), with tanh(x) = 2 sigmoid(2x) - 1. */
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

/* Replaces the scores of keys [k0, k0 + nk) by their exponentials (0 for invisible keys) and
 * rescales earlier sums to the new maximum. */
static void soften(const struct job *j, const struct work *w, const struct sums *to, int64_t k0,
                   int64_t nk) {
    const struct session *s = j->s;
    for (int64_t r = 0; r < w->rows; r++) {
        const int64_t pos = w->x->pos + r / j->group;
        const int64_t lo = min_i64(max_i64(first_key(j->n, pos) - k0, 0), nk);
        const int64_t end = keys_end(j, w->x->r0 + r / j->group, pos);
        const int64_t hi = max_i64(min_i64(end - k0, nk), lo);
        float *p = w->score + r * KEY_BLOCK, *out = to->out + r * w->vd;
        const float less = s->kern.softmax_more(p + lo, hi - lo, &to->row[r].max, &to->row[r].sum);
        memset(p, 0, (size_t)lo * sizeof *p);
        memset(p + hi, 0, (size_t)(nk - hi) * sizeof *p);
        for (int64_t i = 0; less < 1 && i < w->vd; i++) out[i] *= less;
    }
}

/* Returns the position of a tile's key number i. */
static int64_t key_pos(const struct job *j, const struct work *w, int64_t i) {
    return w->x->keys ? (int64_t)w->x->keys[w->head * j->top + i] : i;
}
/* Decodes nk keys, starting at key k0, and the latent rows into w->block, next to each other. */
static void load_latent(const struct job *j, const struct work *w, int64_t k0, int64_t nk) {
    const struct kv_slot *kv = j->kv;
    const struct kern *kern = &j->s->kern;
    for (int64_t i = 0; i < nk; i++) {
        const int64_t pos = key_pos(j, w, k0 + i);
        float *to = w->block + i * w->hd;
        kv->kt->get(kv->kt, kern, seq_key(w->x->seq, j->n->slot, 0, pos), to, kv->k_dim, false);
        kv->vt->get(kv->vt, kern, seq_value(w->x->seq, j->n->slot, 0, pos), to + kv->k_dim,
                    kv->v_dim, true);
    }
}
/* Returns the keys of nk positions, starting at k0, as f32 rows with stride hd. */
static const float *load_keys(const struct job *j, const struct work *w, int64_t k0, int64_t nk) {
    const struct kv_slot *kv = j->kv;
    if (j->n->attn.latent) {
        load_latent(j, w, k0, nk);
        return w->block;
    }
    if (w->x->keys) {
        for (int64_t i = 0; i < nk; i++)
            kv->kt->get(kv->kt, &j->s->kern,
                        seq_key(w->x->seq, j->n->slot, w->head, key_pos(j, w, k0 + i)),
                        w->block + i * w->hd, kv->k_dim, false);
        return w->block;
    }
    return kv_rows(&j->s->kern, kv->kt, seq_key(w->x->seq, j->n->slot, w->head, k0), kv->k_row, nk,
                   kv->k_dim, false, w->block);
}
/* Returns the values of the positions last passed to load_keys, and their stride in *ld. */
static const float *load_values(const struct job *j, const struct work *w, int64_t k0, int64_t nk,
                                int64_t *ld) {
    const struct kv_slot *kv = j->kv;
    *ld = w->hd;
    /* Loaded together with the keys. */
    if (j->n->attn.latent) return w->block + kv->k_dim;
    if (w->x->keys) {
        for (int64_t i = 0; i < nk; i++)
            kv->vt->get(kv->vt, &j->s->kern,
                        seq_value(w->x->seq, j->n->slot, w->head, key_pos(j, w, k0 + i)),
                        w->block + i * w->hd, kv->v_dim, true);
        return w->block;
    }
    return kv_rows(&j->s->kern, kv->vt, seq_value(w->x->seq, j->n->slot, w->head, k0), kv->v_row,
                   nk, kv->v_dim, true, w->block);
}

/* Computes the sums over the visible keys of span i. */
static void run_span(const struct job *j, const struct work *w, int64_t i, const struct sums *to) {
    const struct session *s = j->s;
    const struct att_tile *x = w->x;
    const int64_t last = x->end, begin = (x->span0 + i) * x->span;
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

/* Merges the sums of a later span into those of earlier ones. A row without visible keys in the
 * later span is unchanged. */
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

/* Writes the tile's outputs to dst: weighted sums divided by the softmax's sum. */
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
        if (j->kv->vt->rotated) kv_turn_back(j->kv->vt, dst, w->vd, true);
    }
}

/* ---- tasks ---- */

/* Computes attention tiles i0 to i1 - 1; a pool_fn. */
static void tile_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    for (int64_t i = i0; i < i1; i++) {
        /* Later tokens see more keys, so their tasks start first. */
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

/* Merges the span sums of items [i0, i1). An item is one KV head of a tile. */
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

/* Stores the new keys and values in the cache; a pool_fn. */
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

/* Runs ATTN for the pass (models/ops.def): appends keys and values, then attends. */
void exec_attn(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s,
                    .n = n,
                    .kv = &s->cache.kv.slot[n->slot],
                    .group = n->attn.n_heads / n->attn.n_kv_heads};
    double keys = 0;
    if (n->attn.sinks != GR_NONE) j.sink = exec_vec(s, n->attn.sinks);
    if (n->src[ATTN_KEYS] != GR_NONE && !s->all_keys)
        j.top = s->g->reg_width[n->src[ATTN_KEYS]] / n->attn.n_kv_heads;
    split_work(&j);
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
