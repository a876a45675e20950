// SPDX-License-Identifier: MIT
/* grad/back_attn.c - derivatives of attention and of rotary embeddings.
 *
 * With p the softmax of a query's scores, dp_j = dy . v_j and ds_j = p_j (dp_j - sum p dp), times
 * the slope of the soft cap: dq = scale sum ds_j k_j, dk_j = scale sum ds_j q, dv_j = sum p_j dy.
 * Each text starts with an empty cache, so its keys and values are all its own. A layer without
 * keys uses those of an earlier layer, and their gradients go to that layer. The query heads of a
 * key head are processed one after the other, GRAD_QUERIES queries at a time: first one task per
 * query, then one task per range of keys, which sums over the queries in order.
 */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "grad/grad_int.h"

int64_t grad_attn_shared(const struct gr_node *n, int64_t n_ctx) {
    return n->attn.n_kv_heads * GRAD_QUERIES * 2 * n_ctx;
}

enum { KEYS = 16 }; /* keys per task */
struct job {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy, *sink, *key, *value;
    float *dkey, *dvalue;
    int64_t wq, wk, wv, wo;   /* register widths */
    int64_t of_group, t0, nt; /* head within its group; the current queries */
};

static int64_t first_key(const struct gr_attn *a, int64_t pos) {
    if (a->chunked) return pos - pos % a->window;
    return a->window > 0 && pos >= a->window ? pos - a->window + 1 : 0;
}

/* Returns the values that a current query keeps for its keys: n_ctx probabilities p, then the n_ctx
 * factors of q in dk. */
static float *kept_of(const struct job *j, int64_t kv, int64_t t) {
    return j->g->shared + (kv * GRAD_QUERIES + t - j->t0) * 2 * j->g->n_ctx;
}
/* Returns the query head that is being processed for key/value head kv. */
static int64_t head_of(const struct job *j, int64_t kv) {
    return kv * (j->n->attn.n_heads / j->n->attn.n_kv_heads) + j->of_group;
}

/* Computes dq of a query and the values that its keys' gradients need. The first `own` values of a
 * key are in K; a latent key continues with the values in V. */
static void one_query(const struct job *j, int64_t kv, int64_t t) {
    const struct gr_attn *a = &j->n->attn;
    const struct kern *kern = &j->g->s->kern;
    const int64_t d = a->head_dim, own = d - a->latent, vd = gr_attn_values(a);
    const int64_t j0 = first_key(a, t), n = t + 1 - j0, h = head_of(j, kv);
    const float *q = j->k->src[0] + t * j->wq + h * d, *dy = j->dy + t * j->wo + h * vd;
    const float *key = j->key + j0 * j->wk + kv * own;
    const float *val = j->value + j0 * j->wv + kv * vd;
    float *dq = j->g->reg[j->n->src[0]] + t * j->wq + h * d;
    float *p = kept_of(j, kv, t) + j0, *ds = p + j->g->n_ctx;
    double top = j->sink ? (double)j->sink[h] : (double)-INFINITY, sum = 0, mean = 0;
    for (int64_t i = 0; i < n; i++) {
        p[i] = kern->dot_f32(q, key + i * j->wk, own);
        if (a->latent) p[i] += kern->dot_f32(q + own, val + i * j->wv, vd);
        p[i] *= a->scale;
        ds[i] = 1;
        if (a->softcap > 0) {
            const float th = fp_tanhf(p[i] / a->softcap);
            p[i] = a->softcap * th;
            ds[i] = 1 - th * th;
        }
        top = fmax(top, (double)p[i]);
    }
    if (j->sink) sum = fp_exp((double)j->sink[h] - top);
    for (int64_t i = 0; i < n; i++) {
        p[i] = fp_expf((float)((double)p[i] - top));
        sum += (double)p[i];
    }
    for (int64_t i = 0; i < n; i++) {
        p[i] = (float)((double)p[i] / sum);
        const float dp = kern->dot_f32(dy, val + i * j->wv, vd);
        mean += (double)p[i] * (double)dp;
        ds[i] *= p[i];
    }
    for (int64_t i = 0; i < n; i++) {
        const float dp = kern->dot_f32(dy, val + i * j->wv, vd);
        ds[i] = (float)(((double)dp - mean) * (double)ds[i] * (double)a->scale);
        kern->axpy(dq, key + i * j->wk, ds[i], own);
        if (a->latent) kern->axpy(dq + own, val + i * j->wv, ds[i], vd);
    }
}
/* Computes the gradients of queries i0 to i1 - 1; a pool_fn. */
static void queries_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t i = i0; i < i1; i++) one_query(j, i / j->nt, j->t0 + i % j->nt);
}

/* Adds the current queries' contributions to the gradients of keys and values [k0, k1). */
static void some_keys(const struct job *j, int64_t kv, int64_t k0, int64_t k1) {
    const struct gr_attn *a = &j->n->attn;
    const struct kern *kern = &j->g->s->kern;
    const int64_t d = a->head_dim, own = d - a->latent, vd = gr_attn_values(a), h = head_of(j, kv);
    float *dk = j->dkey + kv * own, *dv = j->dvalue + kv * vd;
    for (int64_t t = max_i64(j->t0, k0); t < j->t0 + j->nt; t++) {
        const float *q = j->k->src[0] + t * j->wq + h * d, *dy = j->dy + t * j->wo + h * vd;
        const float *p = kept_of(j, kv, t), *by = p + j->g->n_ctx;
        for (int64_t i = max_i64(k0, first_key(a, t)); i < k1 && i <= t; i++) {
            kern->axpy(dv + i * j->wv, dy, p[i], vd);
            kern->axpy(dk + i * j->wk, q, by[i], own);
            if (a->latent) kern->axpy(dv + i * j->wv, q + own, by[i], vd);
        }
    }
}
/* Computes the gradients of blocks i0 to i1 - 1 of keys and values; a pool_fn. */
static void keys_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const int64_t end = j->t0 + j->nt, blocks = div_up(end, KEYS);
    (void)worker;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t k0 = i % blocks * KEYS;
        some_keys(j, i / blocks, k0, min_i64(k0 + KEYS, end));
    }
}

/* Sets the keys and values that a layer reads, and where their gradients go. */
static void find_keys(struct job *j) {
    struct grad *g = j->g;
    const struct gr_node *n = j->n, *from = &g->g->node[g->g->facts.kv[n->slot].node];
    const struct grad_lent *lent = &g->lent[n->slot];
    const bool own = n->src[1] != GR_NONE;
    j->wk = grad_width(g, from->src[1]);
    j->wv = grad_width(g, from->src[2]);
    j->key = own ? j->k->src[1] : lent->key;
    j->value = own ? j->k->src[2] : lent->value;
    j->dkey = own ? g->reg[n->src[1]] : lent->dkey;
    j->dvalue = own ? g->reg[n->src[2]] : lent->dvalue;
    if (!own || !lent->key) return;
    g->s->kern.axpy(j->dkey, lent->dkey, 1, g->n * j->wk);
    g->s->kern.axpy(j->dvalue, lent->dvalue, 1, g->n * j->wv);
}

/* Adds the gradients of queries, keys and values. Recomputes the attention weights for GRAD_QUERIES
 * tokens at a time. */
void back_attn(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = {.g = g, .n = n, .k = k};
    j.wq = grad_width(g, n->src[0]);
    j.wo = grad_width(g, n->dst);
    find_keys(&j);
    j.sink = n->attn.sinks == GR_NONE ? NULL : exec_vec(g->s, n->attn.sinks);
    j.dy = grad_take(g, n->dst, 0);
    const int64_t n_kv = n->attn.n_kv_heads;
    for (j.of_group = 0; j.of_group < n->attn.n_heads / n_kv; j.of_group++)
        for (j.t0 = 0; j.t0 < g->n; j.t0 += j.nt) {
            j.nt = min_i64(GRAD_QUERIES, g->n - j.t0);
            pool_for(g->pool, n_kv * j.nt, 4, queries_range, &j);
            pool_for(g->pool, n_kv * div_up(j.t0 + j.nt, KEYS), 1, keys_range, &j);
        }
}

/* ---- products of heads ---- */

struct heads {
    struct grad *g;
    const struct weight *w;
    const float *dy;
    float *dx;
    int64_t in, width; /* values per head in src0 and in dst */
};
/* Adds the input gradients of heads h0 to h1 - 1; a pool_fn. */
static void product_range(void *ctx, int64_t h0, int64_t h1, int worker) {
    const struct heads *j = ctx;
    const int64_t k = j->w->ne[0], tail = j->in - k, heads = j->w->ne[2];
    for (int64_t h = h0; h < h1; h++) {
        const float *dy = j->dy + h * j->width;
        float *dx = j->dx + h * j->in;
        for (int64_t t = 0; t < j->g->n; t++)
            for (int64_t i = 0; i < tail; i++)
                dx[t * heads * j->in + k + i] += dy[t * heads * j->width + i];
        grad_rows_back(j->g, j->w, (const uint8_t *)j->w->data + (uint64_t)h * j->w->mat_bytes, 0,
                       j->w->ne[1], dy + tail, heads * j->width, dx, heads * j->in, j->g->n,
                       j->g->scratch[worker]);
    }
}
/* Adds the gradient of the input of a product with one matrix per head. Values beyond a head's
 * matrix were copied, so their gradients are copied too. */
void back_matmul_heads(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const struct weight *w = model_weight(g->m, n->product.matrix);
    const int64_t heads = w->ne[2];
    struct heads j = {.g = g, .w = w, .dx = g->reg[n->src[0]]};
    j.in = grad_width(g, n->src[0]) / heads;
    j.width = grad_width(g, n->dst) / heads;
    j.dy = grad_take(g, n->dst, 0);
    for (int64_t h = 0; h < heads && g->see; h++)
        g->see(g->see_ud, &g->g->weight[n->product.matrix], h, k->src[0] + h * j.in, heads * j.in,
               j.dy + h * j.width + j.in - w->ne[0], heads * j.width, g->n);
    pool_for(g->pool, heads, 1, product_range, &j);
}

/* Rotates gradients back by the angles of their tokens. */
static void rope_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const struct gr_rope *r = &j->n->rope;
    const int64_t half = r->n_rot / 2, step = r->adjacent ? 2 : 1, other = r->adjacent ? 1 : half;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t at = 0; at < j->wo; at += r->head_dim) {
            float *d = j->g->reg[j->n->dst] + t * j->wo + at;
            const float *cs = j->dy + t * r->n_rot;
            for (int64_t i = 0; i < half; i++) {
                const float a = d[i * step], b = d[i * step + other], c = cs[2 * i],
                            s = cs[2 * i + 1];
                d[i * step] = a * c + b * s;
                d[i * step + other] = b * c - a * s;
            }
        }
}
/* Rotates the gradient back in place. */
void back_rope(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = {.g = g, .n = n, .k = k, .wo = grad_width(g, n->dst)};
    j.dy = exec_rope_tab(g->s, n, false)->cs; /* of the last pass, which ran these tokens */
    grad_tokens(g, rope_range, &j);
}
