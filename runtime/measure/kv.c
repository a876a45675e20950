// SPDX-License-Identifier: MIT
/* runtime/measure/kv.c - error and speed of KV cache types on synthetic attention, without a model,
 * at any head size and depth. It measures the cache alone, not its effect on a model.
 *
 * Keys are Gaussian around a common mean (half as long as a key), with four channels four times as
 * large, like trained keys after rope. Every query has the given `cosine` to the individual part of
 * one earlier key and is random otherwise, scaled like a trained head's (standard deviation of the
 * scores against random keys: 1). Values are Gaussian around a mean of the same length. Measured
 * per query: the divergence of the attention weights with cached keys from those with exact keys,
 * and the output's error with cached keys and values. Memory: 8 * depth * head_dim bytes twice. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rng.h"
#include "runtime/measure/eval.h"
#include "runtime/engine/kv_type.h"

enum { N_QUERIES = 64, N_LOUD = 4 };

struct scene {
    struct kern kern;
    int64_t dim, n;
    float *k, *v;   /* [n][dim] exact */
    float *k2, *v2; /* [n][dim] read back from the cache */
    float *q;       /* [N_QUERIES][dim] queries, already scaled */
    float *p, *p2;  /* [n] attention weights of a query: exact, cached keys */
    float *out;     /* [N_QUERIES][dim] exact outputs */
    uint8_t *rows;
};

/* Allocates n floats; free with mem_free(). */
static int take_floats(float **out, int64_t n, struct err *e) {
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)n * sizeof(float), "synthetic attention", e));
    *out = p;
    return 0;
}

/* Fills in keys, values, and queries whose cosine with a key is about `cosine`. */
static void fill_scene(struct scene *s, double cosine) {
    struct rng r;
    int64_t d = s->dim;
    float mean_k[KV_MAX_DIM], mean_v[KV_MAX_DIM], loud[KV_MAX_DIM];
    rng_seed(&r, 20);
    for (int64_t i = 0; i < d; i++) {
        loud[i] = i * N_LOUD % d < N_LOUD ? 4 : 1;
        mean_k[i] = 0.5f * loud[i] * rng_normal(&r);
        mean_v[i] = rng_normal(&r);
    }
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t i = 0; i < d; i++) {
            s->k[j * d + i] = mean_k[i] + loud[i] * rng_normal(&r);
            s->v[j * d + i] = mean_v[i] + rng_normal(&r);
        }
    float rest = (float)sqrt(1 - cosine * cosine);
    /* Queries are small in the channels where keys are large. */
    for (int64_t t = 0; t < N_QUERIES; t++) {
        const float *k = s->k + (int64_t)(rng_unit(&r) * (double)s->n) * d;
        for (int64_t i = 0; i < d; i++)
            s->q[t * d + i] =
                ((float)cosine * (k[i] - mean_k[i]) / loud[i] + rest * rng_normal(&r)) / loud[i] /
                sqrtf((float)d);
    }
}

/* Allocates and fills synthetic keys, values and queries; cosine: their similarity. */
static int scene_init(struct scene *s, double cosine, struct err *e) {
    int64_t nd = s->n * s->dim;
    void *p = NULL;
    TRY(take_floats(&s->k, nd, e));
    TRY(take_floats(&s->v, nd, e));
    TRY(take_floats(&s->k2, nd, e));
    TRY(take_floats(&s->v2, nd, e));
    TRY(take_floats(&s->q, N_QUERIES * s->dim, e));
    TRY(take_floats(&s->out, N_QUERIES * s->dim, e));
    TRY(take_floats(&s->p, s->n * N_QUERIES, e));
    TRY(take_floats(&s->p2, s->n, e));
    TRY(mem_alloc(&p, (uint64_t)nd * sizeof(float), "synthetic attention", e));
    s->rows = p;
    fill_scene(s, cosine);
    return 0;
}
static void scene_release(struct scene *s) {
    void *all[] = {s->k, s->v, s->k2, s->v2, s->q, s->out, s->p, s->p2, s->rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
}

/* Computes attention of one query: weights p [n] and output [dim]. */
static void attend_query(const struct scene *s, const float *q, const float *k, const float *v,
                         float *p, float *out) {
    for (int64_t j = 0; j < s->n; j++) p[j] = s->kern.dot_f32(q, k + j * s->dim, s->dim);
    s->kern.softmax(p, s->n);
    memset(out, 0, (size_t)s->dim * sizeof *out);
    for (int64_t j = 0; j < s->n; j++) s->kern.axpy(out, v + j * s->dim, p[j], s->dim);
}

/* Writes x to a cache of type t and reads it back into y; *put_s and *get_s receive the seconds
 * that each takes. */
static void time_once(const struct scene *s, const struct kv_type *t, const float *x, float *y,
                      bool is_value, double *put_s, double *get_s) {
    uint64_t row = t->row_bytes(t, s->dim);
    float turned[KV_MAX_DIM];
    double t0 = progress_now_s();
    for (int64_t j = 0; j < s->n; j++) {
        memcpy(turned, x + j * s->dim, (size_t)s->dim * sizeof *turned);
        if (t->rotated) kv_turn(t, turned, s->dim, is_value);
        t->put(t, &s->kern, turned, s->rows + (uint64_t)j * row, s->dim, is_value);
    }
    double t1 = progress_now_s();
    for (int64_t j = 0; j < s->n; j++)
        t->get(t, &s->kern, s->rows + (uint64_t)j * row, y + j * s->dim, s->dim, is_value);
    *put_s = t1 - t0;
    *get_s = progress_now_s() - t1;
}
/* Runs time_once() three times and adds the shortest times, because other work can slow it down. */
static void add_best_time(const struct scene *s, const struct kv_type *t, const float *x, float *y,
                          bool is_value, double *put_s, double *get_s) {
    double best_put = 1e30, best_get = 1e30;
    for (int i = 0; i < 3; i++) {
        double put, get;
        time_once(s, t, x, y, is_value, &put, &get);
        best_put = fmin(best_put, put);
        best_get = fmin(best_get, get);
    }
    *put_s += best_put;
    *get_s += best_get;
}

/* Returns the divergence, in nats, of attention weights p2 from p. */
static double weight_kld(const float *p, const float *p2, int64_t n) {
    double kld = 0;
    for (int64_t j = 0; j < n; j++)
        if (p[j] > 0) {
            double q = p2[j] > 1e-37f ? (double)p2[j] : 1e-37;
            kld += (double)p[j] * (fp_log((double)p[j]) - fp_log(q));
        }
    return kld;
}

/* Measures error, size and speed of a cache with keys kt and values vt. */
static void measure_types(struct scene *s, const struct kv_type *kt, const struct kv_type *vt,
                          struct eval_kv *out) {
    double put = 0, get = 0, err = 0, all = 0;
    float q[KV_MAX_DIM], o[KV_MAX_DIM];
    add_best_time(s, kt, s->k, s->k2, false, &put, &get);
    add_best_time(s, vt, s->v, s->v2, true, &put, &get);
    out->kld = 0;
    for (int64_t t = 0; t < N_QUERIES; t++) {
        memcpy(q, s->q + t * s->dim, (size_t)s->dim * sizeof *q);
        if (kt->rotated) kv_turn(kt, q, s->dim, false);
        attend_query(s, q, s->k2, s->v2, s->p2, o);
        if (vt->rotated) kv_turn_back(vt, o, s->dim, true);
        out->kld += weight_kld(s->p + t * s->n, s->p2, s->n) / N_QUERIES;
        for (int64_t i = 0; i < s->dim; i++) {
            double want = (double)s->out[t * s->dim + i], d = (double)o[i] - want;
            err += d * d;
            all += want * want;
        }
    }
    double values = 2 * (double)(s->n * s->dim);
    out->output_error = sqrt(err / all);
    out->bits = 0.5 * (kv_type_bits(kt, s->dim) + kv_type_bits(vt, s->dim));
    out->put_ns = put / values * 1e9;
    out->get_ns = get / values * 1e9;
}

int eval_kv(int64_t head_dim, int64_t depth, double cosine, enum kern_isa isa,
            const struct kv_type *const *k, const struct kv_type *const *v, int n_types,
            struct eval_kv *out, struct err *e) {
    struct scene s = {.dim = head_dim, .n = depth};
    if (head_dim < 32 || head_dim > KV_MAX_DIM || head_dim % 32)
        return err_set(e, ERR_USAGE,
                       "--head-dims %" PRId64 ": blocks of 32 values do not fill such a head; give "
                       "multiples of 32 up to %d (a model with other heads has f32, f16 and bf16 "
                       "caches only)",
                       head_dim, KV_MAX_DIM);
    if (depth < 1 || depth > 1 << 22)
        return err_set(e, ERR_USAGE, "--depths %" PRId64 ": give 1 to 4194304", depth);
    if (!(cosine >= 0 && cosine <= 1))
        return err_set(e, ERR_USAGE, "--cosine %g: give 0 to 1", cosine);
    kern_init(&s.kern, isa);
    int rc = scene_init(&s, cosine, e);
    for (int64_t t = 0; t < N_QUERIES && !rc; t++)
        attend_query(&s, s.q + t * s.dim, s.k, s.v, s.p + t * s.n, s.out + t * s.dim);
    for (int i = 0; i < n_types && !rc; i++) {
        if (progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        if (!rc) measure_types(&s, k[i], v[i], &out[i]);
    }
    scene_release(&s);
    return rc;
}
