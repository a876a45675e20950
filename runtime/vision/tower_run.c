// SPDX-License-Identifier: MIT
/* runtime/vision/tower_run.c - runs a tower's steps: the segments between attentions in chunks of
 * rows, each chunk on one worker with its own memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/vision/tower_int.h"

struct run {
    const struct vision_tower *v;
    const float *planes; /* [3][h][w] */
    int w, h;
    struct tower_grid grid;
    int64_t n_rows; /* patches and class row */
    float *x;       /* residual stream [n_rows][width] */
    float *small;   /* shrunk stream */
    struct tower_heads heads;
    struct vision_rows *out;
    int deep; /* deepstack rows computed so far */
    const struct tower_segment *segment;
    int64_t *squares; /* first rows of squares of 4 */
    int64_t n, chunk; /* rows of the segment, and of a chunk */
    float *scratch;
    int64_t scratch_each;
    void *own[8];
    int n_own;
};
/* A worker's chunk: `n` rows of `width` values in t, which began as rows [at, at + rows). */
struct chunk {
    int64_t at, rows, n, width;
    float *t, *spare, *other, *panel;
};

/* Returns the number of patches that are merged into one row. */
static int64_t square_of(const struct vision_tower *v) {
    return v->merge * v->merge;
}

/* Exchanges the chunk's rows and its spare rows. */
static void swap(struct chunk *c) {
    float *t = c->t;
    c->t = c->spare;
    c->spare = t;
}

/* Copies the pixels of patches into the chunk. */
static void load_patches(const struct run *r, const struct tower_step *s, struct chunk *c) {
    const int64_t p = r->v->patch;
    for (int64_t i = 0; i < c->n; i++) {
        const struct tower_spot at = r->grid.at[c->at + i];
        for (int64_t ch = 0; ch < 3; ch++)
            for (int64_t y = 0; y < p; y++) {
                float *to = c->t + ((i * 3 + ch) * p + y) * p;
                memcpy(to, r->planes + (ch * r->h + at.y * p + y) * r->w + at.x * p,
                       (size_t)p * sizeof *to);
                for (int64_t x = 0; s->kind && x < p; x++) to[x] = 2 * to[x] - 1;
            }
    }
}

/* Replaces the chunk's rows by their product with m. */
static void product(const struct run *r, const struct tower_mat *m, struct chunk *c) {
    tower_product(r->v, m, c->t, c->n, c->spare, m->out, c->panel, c->other);
    swap(c);
}

/* ---- heads ---- */

/* Rotates the heads of a row's queries or keys. */
static void rotate(const struct run *r, int64_t at, float *x, int64_t n_heads) {
    const bool turns = r->grid.cs && at < r->grid.n;
    for (int64_t h = 0; turns && h < n_heads; h++)
        tower_rotate(r->v, &r->grid, at, x + h * r->v->head_dim);
}

/* Copies a row's query, key and value to their places among the rows of each head. */
static void place_row(const struct run *r, int64_t at, const float *q, const float *k,
                      const float *v) {
    const int64_t hd = r->v->head_dim, n = r->n_rows;
    const float scale = r->v->type->unscaled ? 1 : (float)(1 / sqrt((double)hd));
    for (int64_t h = 0; h < r->v->heads; h++)
        for (int64_t i = 0; i < hd; i++) r->heads.q[(h * n + at) * hd + i] = q[h * hd + i] * scale;
    for (int64_t h = 0; h < r->v->kv_heads; h++) {
        for (int64_t i = 0; i < hd; i++) r->heads.k[(h * hd + i) * n + at] = k[h * hd + i];
        memcpy(r->heads.v + (h * n + at) * hd, v + h * hd, (size_t)hd * sizeof *v);
    }
}

/* Normalizes and rotates queries and keys and places them with the values for attention. */
static void place_heads(const struct run *r, const struct tower_step *s, struct chunk *c) {
    const struct vision_tower *v = r->v;
    const int64_t hd = v->head_dim, n_q = v->heads * hd, n_kv = v->kv_heads * hd;
    for (int64_t i = 0; i < c->n; i++) {
        float *q = c->spare + i * (n_q + 2 * n_kv), *k = q + n_q, *val = k + n_kv;
        if (s->w) {
            tower_norm(v, NORM_RMS, q, n_q / s->n_w, s->n_w, s->w, NULL, v->eps);
            tower_norm(v, NORM_RMS, k, n_kv / s->n_w, s->n_w, s->b, NULL, v->eps);
        }
        if (s->kind) tower_norm(v, NORM_RMS, val, v->kv_heads, hd, NULL, NULL, v->eps);
        rotate(r, c->at + i, q, v->heads);
        rotate(r, c->at + i, k, v->kv_heads);
        place_row(r, c->at + i, q, k, val);
    }
}

/* Computes queries, keys and values of the chunk. */
static void qkv(const struct run *r, const struct tower_step *s, struct chunk *c) {
    const struct tower_mat *part[] = {&s->mat, &s->second, &s->third};
    const int64_t ld = s->width;
    float *to = c->spare;
    for (int i = 0; i < 3 && part[i]->out; to += part[i]->out, i++)
        tower_product(r->v, part[i], c->t, c->n, to, ld, c->panel, c->other);
    place_heads(r, s, c);
}

/* ---- tokens ---- */

/* Puts the channels of a token's patches outermost. */
static void shuffle(struct chunk *c, int64_t m) {
    for (int64_t i = 0; i < c->n / m; i++)
        for (int64_t k = 0; k < m; k++)
            for (int64_t w = 0; w < c->width; w++)
                c->spare[(i * c->width + w) * m + k] = c->t[(i * m + k) * c->width + w];
    swap(c);
}

/* Replaces each m rows by their mean. */
static void pool_squares(struct chunk *c, int64_t m) {
    for (int64_t i = 0; i < c->n / m; i++)
        for (int64_t w = 0; w < c->width; w++) {
            float sum = 0;
            for (int64_t k = 0; k < m; k++) sum += c->t[(i * m + k) * c->width + w];
            c->spare[i * c->width + w] = sum / (float)m;
        }
    swap(c);
}

/* Adds the mean of the stream's squares to the chunk, which becomes the shrunk stream. */
static void shrink(const struct run *r, struct chunk *c, int64_t m) {
    const int64_t width = r->v->width;
    const float *x = r->x + c->at * width;
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t k = 0; k < m; k++)
            r->v->kern.axpy(c->t + i * width, x + (i * m + k) * width, 1 / (float)m, width);
    memcpy(r->small + c->at / m * width, c->t, (size_t)(c->n * width) * sizeof *x);
}

/* Stores embeddings in the order of the grid. */
static void store_tokens(const struct run *r, const struct chunk *c, float *to) {
    const int64_t m = square_of(r->v), side = r->v->merge, wide = r->grid.w / side;
    for (int64_t i = 0; i < c->n; i++) {
        const struct tower_spot at = r->grid.at[c->at * r->segment->shrunk + i * m];
        memcpy(to + (at.y / side * wide + at.x / side) * c->width, c->t + i * c->width,
               (size_t)c->width * sizeof *to);
    }
}

/* ---- steps ---- */

/* Applies an elementwise step to the chunk. */
static void act_rows(const struct run *r, const struct tower_step *s, struct chunk *c) {
    const struct vision_tower *v = r->v;
    const int64_t n = c->n * c->width;
    float *t = c->t;
    switch (s->row->op) {
    case TOP_NORM:
        tower_norm(v, s->kind, t, c->n, c->width, s->w, s->b,
                   s->row->eps > 0 ? s->row->eps : v->eps);
        break;
    case TOP_ACT:
        tower_act(v, s->kind, t, n);
        break;
    case TOP_POS:
        for (int64_t i = 0; i < c->n; i++) tower_add_pos(v, &r->grid, c->at + i, t + i * c->width);
        break;
    case TOP_COLUMNS:
        for (int64_t i = 0; i < n; i++) t[i] *= s->w[i % c->width];
        break;
    case TOP_WIDEN:
        for (int64_t i = 0; i < n; i++) t[i] *= (float)sqrt((double)c->width);
        break;
    case TOP_CENTRE:
        for (int64_t i = 0; i < n; i++) t[i] = (t[i] - s->w[i % c->width]) * s->b[i % c->width];
        break;
    default:
        break;
    }
}

/* Computes act(gate) * up of the chunk. */
static void gated(const struct run *r, const struct tower_step *s, struct chunk *c) {
    float *gate = c->spare, *up = c->other;
    /* A clipped product needs its own room for inputs; it follows the outputs. */
    float *room = up + r->v->wide;
    tower_product(r->v, &s->mat, c->t, c->n, gate, s->width, c->panel, room);
    tower_product(r->v, &s->second, c->t, c->n, up, s->width, c->panel, room);
    tower_act(r->v, s->kind, gate, c->n * s->width);
    for (int64_t i = 0; i < c->n * s->width; i++) gate[i] *= up[i];
    swap(c);
}

/* Runs one step on the chunk. */
static void step(const struct run *r, const struct tower_step *s, struct chunk *c) {
    float *x = r->x + c->at * r->v->width;
    const int64_t stream = c->rows * r->v->width;
    switch (s->row->op) {
    case TOP_PATCH:
        load_patches(r, s, c);
        product(r, &s->mat, c);
        break;
    case TOP_PIXELS:
        load_patches(r, s, c);
        break;
    case TOP_LOAD:
        memcpy(c->t, x, (size_t)stream * sizeof *x);
        break;
    case TOP_STORE:
        memcpy(x, c->t, (size_t)stream * sizeof *x);
        break;
    case TOP_ADD:
        r->v->kern.axpy(x, c->t, 1, stream);
        break;
    case TOP_ATTEND:
        memcpy(c->t, r->heads.out + c->at * s->width, (size_t)(c->rows * s->width) * sizeof *x);
        break;
    case TOP_LINEAR:
        product(r, &s->mat, c);
        break;
    case TOP_GATED:
        gated(r, s, c);
        break;
    case TOP_QKV:
        qkv(r, s, c);
        break;
    case TOP_SHUFFLE:
        shuffle(c, s->square);
        break;
    case TOP_POOL:
        pool_squares(c, s->square);
        break;
    case TOP_SHRINK:
        shrink(r, c, s->square);
        break;
    case TOP_OUT:
        store_tokens(r, c, r->out->data);
        break;
    case TOP_DEEP:
        store_tokens(r, c, r->out->deep + (int64_t)r->deep * r->out->n * c->width);
        break;
    default:
        act_rows(r, s, c);
    }
    c->width = s->width;
    c->n = c->rows / s->square;
}

/* Runs the segment's steps on chunks i0 to i1 - 1; a pool_fn. */
static void chunk_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct run *r = ctx;
    const struct vision_tower *v = r->v;
    for (int64_t i = i0; i < i1; i++) {
        struct chunk c = {.at = i * r->chunk, .panel = r->scratch + worker * r->scratch_each};
        c.rows = c.n = min_i64(r->chunk, r->n - c.at);
        c.t = c.panel + v->panel;
        c.spare = c.t + v->wide;
        c.other = c.spare + v->wide;
        for (int k = 0; k < r->segment->n; k++) step(r, &v->step[r->segment->first + k], &c);
    }
}

/* Returns the number of rows per chunk: fewer if there would not be two chunks for each thread. */
static int64_t chunk_rows(const struct vision_tower *v, int64_t n) {
    const int64_t square = square_of(v), least = max_i64(n / (2 * pool_size(v->pool)), 24);
    return min_i64(div_up(least, square) * square, v->chunk);
}

/* Adds the class row; the chunks of its segment hold only patches. */
static void add_class(const struct run *r) {
    const struct vision_tower *v = r->v;
    float *x = r->x + r->grid.n * v->width;
    memcpy(x, v->cls, (size_t)v->width * sizeof *x);
    v->kern.axpy(x, v->pos, 1, v->width);
}

/* Computes the attention with which a segment begins, if it does. */
static int attend(struct run *r, const struct tower_step *s, struct err *e) {
    const struct vision_tower *v = r->v;
    const int64_t whole[] = {0, r->n_rows};
    if (s->row->op != TOP_ATTEND) return 0;
    if (s->kind == RANGE_SQUARE) return tower_attend(v, &r->heads, r->squares, r->n_rows / 4, e);
    if (s->kind == RANGE_WINDOW && v->window && (s->block + 1) % v->every != 0)
        return tower_attend(v, &r->heads, r->grid.window, r->grid.n_windows, e);
    return tower_attend(v, &r->heads, whole, 1, e);
}

/* Continues with the shrunk stream. */
static void use_shrunk(struct run *r, int64_t square) {
    float *x = r->x;
    r->x = r->small;
    r->small = x;
    r->n_rows = r->heads.n = r->n_rows / square;
}

/* Runs the segments in order, with attention between them. */
static int run_segments(struct run *r, struct err *e) {
    const struct vision_tower *v = r->v;
    for (int i = 0; i < v->n_segments; i++) {
        r->segment = &v->segment[i];
        const struct tower_step *first = &v->step[r->segment->first];
        const struct tower_step *last = first + r->segment->n - 1;
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        TRY(attend(r, first, e));
        r->n = r->segment->patches ? r->grid.n / r->segment->shrunk : r->n_rows;
        pool_for(v->pool, div_up(r->n, r->chunk), 1, chunk_range, r);
        if (i == 0 && v->cls) add_class(r);
        r->deep += last->row->op == TOP_DEEP;
        if (last->row->op == TOP_SHRINK) use_shrunk(r, last->square);
    }
    return 0;
}

/* ---- memory ---- */

/* Allocates n floats that the run frees at its end. */
static int take(struct run *r, float **out, int64_t n, struct err *e) {
    void *mem = NULL;
    TRY(mem_alloc(&mem, (uint64_t)n * sizeof **out, "an image's rows", e));
    r->own[r->n_own++] = mem;
    *out = mem;
    return 0;
}

static int allocate(struct run *r, struct err *e) {
    const struct vision_tower *v = r->v;
    const int64_t kv = v->kv_heads * v->head_dim, q = v->heads * v->head_dim;
    r->scratch_each = v->panel + 4 * v->wide;
    if (v->middle >= 0) {
        void *mem = NULL;
        TRY(mem_alloc(&mem, (uint64_t)(r->n_rows / 4 + 1) * sizeof *r->squares,
                      "an image's squares", e));
        r->own[r->n_own++] = mem;
        r->squares = mem;
        for (int64_t i = 0; i <= r->n_rows / 4; i++) r->squares[i] = 4 * i;
        TRY(take(r, &r->small, r->n_rows / 4 * v->width, e));
    }
    TRY(take(r, &r->x, r->n_rows * v->width, e));
    TRY(take(r, &r->heads.q, r->n_rows * q, e));
    TRY(take(r, &r->heads.k, r->n_rows * kv, e));
    TRY(take(r, &r->heads.v, r->n_rows * kv, e));
    TRY(take(r, &r->heads.out, r->n_rows * q, e));
    return take(r, &r->scratch, pool_size(v->pool) * r->scratch_each, e);
}

/* Returns ERR_DATA unless the view's sides are multiples of the merged patch and few enough. */
static int check_size(const struct vision_tower *v, int w, int h, struct err *e) {
    enum { MOST = 1 << 18 };
    const int64_t side = v->patch * v->merge;
    if (w < 1 || h < 1 || w % side || h % side)
        return err_set(e, ERR_DATA, "an image of %d x %d pixels: sides must be multiples of %lld",
                       w, h, (long long)side);
    const int64_t n = w / v->patch * (h / v->patch);
    if (n <= MOST) return 0;
    return err_set(e, ERR_DATA, "an image of %d x %d pixels has %lld patches, more than %d", w, h,
                   (long long)n, MOST);
}

/* Returns ERR_DATA unless all n embeddings are finite. */
static int check_finite(const struct vision_tower *v, const float *x, int64_t n, struct err *e) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return err_set(e, ERR_DATA,
                           "%s: the embeddings of an image are not finite, so this projector file "
                           "cannot be used: convert it again from an intact folder",
                           gguf_path(v->file));
    return 0;
}

int vision_encode(const struct vision_tower *v, const float *planes, int w, int h,
                  struct vision_rows *out, struct err *e) {
    const int64_t p = v->patch;
    struct run r = {.v = v, .planes = planes, .w = w, .h = h, .out = out};
    void *data = NULL;
    memset(out, 0, sizeof *out);
    TRY(check_size(v, w, h, e));
    *out = (struct vision_rows){.width = v->text,
                                .w = (int)(w / p / v->merge),
                                .h = (int)(h / p / v->merge),
                                .n_deep = v->n_deep};
    out->n = (int64_t)out->w * out->h;
    int rc = tower_grid_make(&r.grid, v, w / p, h / p, e);
    r.chunk = chunk_rows(v, r.grid.n);
    r.n_rows = r.heads.n = r.grid.n + (v->cls != NULL);
    if (!rc)
        rc = mem_alloc(&data, (uint64_t)(out->n * v->text * (1 + v->n_deep)) * sizeof(float),
                       "an image's embeddings", e);
    out->data = data;
    if (data) out->deep = out->data + out->n * v->text;
    if (!rc) rc = allocate(&r, e);
    if (!rc) rc = run_segments(&r, e);
    if (!rc) rc = check_finite(v, out->data, out->n * v->text * (1 + v->n_deep), e);
    for (int i = 0; i < r.n_own; i++) mem_free(r.own[i]);
    tower_grid_release(&r.grid);
    if (rc) vision_rows_release(out);
    return rc;
}

void vision_rows_release(struct vision_rows *r) {
    mem_free(r->data);
    memset(r, 0, sizeof *r);
}
