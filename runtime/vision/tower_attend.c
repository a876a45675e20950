// SPDX-License-Identifier: MIT
/* runtime/vision/tower_attend.c - attention between all rows of a range, in tiles of queries:
 * scores of a block of keys at a time under a running softmax (Milakov and Gimelshein 2018), so
 * that memory does not grow with the square of the number of rows. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/vision/tower_int.h"

enum { QUERIES = 96, KEYS = 256 };

struct tile {
    int64_t at, n;     /* queries */
    int64_t key, keys; /* the range */
};
struct job {
    const struct vision_tower *v;
    const struct tower_heads *h;
    struct tile *tile;
    int64_t n_tiles;
    float *scratch; /* [workers][scratch_of()] */
};

/* Returns the number of floats that a worker needs for the scores and sums of a tile. */
static int64_t scratch_of(const struct vision_tower *v) {
    return QUERIES * (KEYS + v->head_dim);
}

/* Computes attention of one tile of queries for one head. */
static void attend(const struct job *j, const struct tile *t, int64_t head, float *scratch) {
    const struct kern *kern = &j->v->kern;
    const int64_t hd = j->v->head_dim, n = j->h->n, kv = head / (j->v->heads / j->v->kv_heads);
    const float *q = j->h->q + (head * n + t->at) * hd;
    const float *k = j->h->k + kv * hd * n, *v = j->h->v + kv * n * hd;
    float *score = scratch, *sum = scratch + QUERIES * KEYS, most[QUERIES];
    double total[QUERIES];
    memset(sum, 0, (size_t)(t->n * hd) * sizeof *sum);
    for (int64_t r = 0; r < t->n; r++) most[r] = -INFINITY, total[r] = 0;
    for (int64_t b = t->key; b < t->key + t->keys; b += KEYS) {
        const int64_t nk = min_i64(KEYS, t->key + t->keys - b);
        memset(score, 0, (size_t)(t->n * KEYS) * sizeof *score);
        kern->gemm_nn(q, hd, k + b, n, score, KEYS, t->n, nk, hd);
        for (int64_t r = 0; r < t->n; r++) {
            const float less = kern->softmax_more(score + r * KEYS, nk, &most[r], &total[r]);
            for (int64_t i = 0; less < 1 && i < hd; i++) sum[r * hd + i] *= less;
        }
        kern->gemm_nn(score, KEYS, v + b * hd, hd, sum, hd, t->n, hd, nk);
    }
    for (int64_t r = 0; r < t->n; r++) {
        float *out = j->h->out + ((t->at + r) * j->v->heads + head) * hd;
        const float scale = (float)(1 / total[r]);
        for (int64_t i = 0; i < hd; i++) out[i] = sum[r * hd + i] * scale;
    }
}

/* Computes attention for tasks i0 to i1 - 1, each one tile and head; a pool_fn. */
static void attend_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    float *scratch = j->scratch + worker * scratch_of(j->v);
    for (int64_t i = i0; i < i1; i++) attend(j, &j->tile[i % j->n_tiles], i / j->n_tiles, scratch);
}

int tower_attend(const struct vision_tower *v, const struct tower_heads *h, const int64_t *start,
                 int64_t n_ranges, struct err *e) {
    struct job j = {.v = v, .h = h};
    void *tiles = NULL, *scratch = NULL;
    const uint64_t floats = (uint64_t)(pool_size(v->pool) * scratch_of(v));
    int rc = mem_alloc(&tiles, (uint64_t)(h->n / QUERIES + n_ranges) * sizeof *j.tile,
                       "tiles of an image", e);
    if (!rc) rc = mem_alloc(&scratch, floats * sizeof(float), "scores of an image", e);
    j.tile = tiles;
    j.scratch = scratch;
    for (int64_t i = 0; !rc && i < n_ranges; i++)
        for (int64_t at = start[i]; at < start[i + 1]; at += QUERIES)
            j.tile[j.n_tiles++] = (struct tile){at, min_i64(QUERIES, start[i + 1] - at), start[i],
                                                start[i + 1] - start[i]};
    if (!rc) pool_for(v->pool, j.n_tiles * v->heads, 1, attend_range, &j);
    mem_free(tiles);
    mem_free(scratch);
    return rc;
}
