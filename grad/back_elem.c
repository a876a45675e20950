// SPDX-License-Identifier: MIT
/* grad/back_elem.c - derivatives of products and of element-wise operations. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "grad/grad_int.h"

struct job {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy, *w;
    int64_t width; /* width of dst */
};
static struct job job_of(struct grad *g, const struct gr_node *n, const struct kept *k) {
    return (struct job){.g = g, .n = n, .k = k, .width = grad_width(g, n->dst)};
}
/* Returns row t of the gradients of source i. */
static float *dsrc(const struct job *j, int i, int64_t t) {
    const gr_reg r = j->n->src[i];
    return j->g->reg[r] + t * grad_width(j->g, r);
}
/* Returns the kept values of input i for token t. */
static const float *src_row(const struct job *j, int i, int64_t t) {
    return j->k->src[i] + t * grad_width(j->g, j->n->src[i]);
}

float grad_silu(float x) {
    const float s = fp_sigmoidf(x);
    return s * (1 + x * (1 - s));
}
float grad_gelu(float x) {
    const float c = 0.7978845608f, in = c * (x + 0.044715f * x * x * x), th = fp_tanhf(in);
    return 0.5f * (1 + th) + 0.5f * x * (1 - th * th) * c * (1 + 3 * 0.044715f * x * x);
}
float gelu_of(float x) {
    return 0.5f * x * (1 + fp_tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

/* Passes the gradients of looked-up rows to the caller's callback; leaves them in place. */
void back_embed(struct grad *g, const struct gr_node *n, const struct kept *k) {
    (void)k;
    const float by = n->embed.scale != 0 ? n->embed.scale : 1;
    if (g->see_lookup && !n->embed.position)
        g->see_lookup(g->see_lookup_ud, &g->g->weight[n->embed.table], g->ids, by, g->reg[n->dst],
                      g->n);
}

/* Adds dy . W to the gradient of the input. Passes the input and dy to the caller's callback
 * g->see. */
void back_matmul(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const struct weight *w = model_weight(g->m, n->product.matrix);
    const float *dy = grad_take(g, n->dst, 0);
    if (g->see)
        g->see(g->see_ud, &g->g->weight[n->product.matrix], -1, k->src[0], w->ne[0], dy, w->ne[1],
               g->n);
    grad_product(g, w, dy, g->reg[n->src[0]], g->n);
}

/* Adds the gradients of a sum for tokens t0 to t1 - 1; a pool_fn. */
static void add_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int i = 0; i < 2; i++)
        for (int64_t t = t0; t < t1; t++) {
            float *d = dsrc(j, i, t);
            for (int64_t c = 0; c < j->width; c++) d[c] += j->dy[t * j->width + c];
        }
}
/* Adds dy to the gradients of both addends. */
void back_add(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = grad_take(g, n->dst, 0);
    grad_tokens(g, add_range, &j);
}

/* Copies the gradients of queries and gates back to where they were split from; a pool_fn. */
static void split_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t hd = j->n->heads.head_dim;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t at = 0; at < j->width; at += hd) {
            float *d = dsrc(j, 0, t) + 2 * at;
            for (int64_t i = 0; i < hd; i++) {
                d[i] += j->dy[t * j->width + at + i];
                d[hd + i] += j->w[t * j->width + at + i];
            }
        }
}
/* Adds the gradients of the two outputs to the halves of each head in the gradient of the input. */
void back_split_gate(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = grad_take(g, n->dst, 0);
    j.w = grad_take(g, n->dst2, 1);
    grad_tokens(g, split_range, &j);
}

/* Adds the gradients of x * sigmoid(gate) for tokens t0 to t1 - 1; a pool_fn. */
static void sigmoid_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t i = t0 * j->width; i < t1 * j->width; i++) {
        const float s = fp_sigmoidf(j->k->src[0][i]);
        j->g->reg[j->n->dst][i] += j->dy[i] * s;
        j->g->reg[j->n->src[0]][i] += j->dy[i] * j->k->dst[i] * s * (1 - s);
    }
}
/* Computes the backward pass of dst *= sigmoid(src0). */
void back_sigmoid_mul(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = grad_take(g, n->dst, 0);
    grad_tokens(g, sigmoid_range, &j);
}

/* Computes the factor f of OP_MUL and its derivative. */
static float factor(enum gr_factor f, float x, float *slope) {
    const float s = fp_sigmoidf(x);
    if (f == GR_VALUE) {
        *slope = 1;
        return x;
    }
    *slope = f == GR_SIGMOID_OF ? s * (1 - s) : s;
    return f == GR_SIGMOID_OF ? s : fp_softplusf(x);
}
/* Adds the gradients of a product for tokens t0 to t1 - 1; a pool_fn. */
static void mul_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t from = grad_width(j->g, j->n->src[0]), times = j->width / from;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t c = 0; c < from; c++) {
            float slope;
            const float by = factor(j->n->mul.f, src_row(j, 0, t)[c], &slope);
            double sum = 0;
            for (int64_t i = c * times; i < (c + 1) * times; i++) {
                const int64_t at = t * j->width + i;
                j->g->reg[j->n->dst][at] += j->dy[at] * by;
                sum += (double)j->dy[at] * (double)j->k->dst[at];
            }
            dsrc(j, 0, t)[c] += (float)sum * slope;
        }
}
/* Computes the backward pass of dst *= factor(src0); a factor may apply to several columns. */
void back_mul(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = grad_take(g, n->dst, 0);
    grad_tokens(g, mul_range, &j);
}

/* Clears the gradients of values outside the limits. */
void back_clamp(struct grad *g, const struct gr_node *n, const struct kept *k) {
    float *d = g->reg[n->dst];
    for (int64_t i = 0; i < g->n * grad_width(g, n->dst); i++)
        if (!(fabsf(k->dst[i]) <= n->scale.by)) d[i] = 0;
}

/* Adds dy to the gradients of the columns of each head that the operation copied; drops the
 * padding. */
void back_fit_heads(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const int64_t from = n->heads.from, to = n->heads.head_dim, both = min_i64(from, to);
    const int64_t heads = g->n * grad_width(g, n->dst) / to;
    const float *dy = grad_take(g, n->dst, 0);
    (void)k;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < both; i++) g->reg[n->src[0]][h * from + i] += dy[h * to + i];
}

/* Adds the gradients of SwiGLU for tokens t0 to t1 - 1; a pool_fn. */
static void swiglu_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t i = t0 * j->width; i < t1 * j->width; i++) {
        const float a = j->k->src[0][i], b = j->k->src[1][i];
        j->g->reg[j->n->src[0]][i] += j->dy[i] * b * grad_silu(a);
        j->g->reg[j->n->src[1]][i] += j->dy[i] * a * fp_sigmoidf(a);
    }
}
/* Computes the backward pass of dst = silu(src0) * src1. */
void back_swiglu(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = grad_take(g, n->dst, 0);
    grad_tokens(g, swiglu_range, &j);
}

/* Computes an activation and its derivative. */
static float act(const struct gr_pick *p, float x, float *slope) {
    const struct gr_xielu *l = &p->xielu;
    const float s = fp_sigmoidf(x), e = 0.5f * (1 + fp_erff(x * 0.7071067812f)), th = fp_tanhf(x);
    if (p->f == GR_SILU) {
        *slope = grad_silu(x);
        return x * s;
    } else if (p->f == GR_GELU) {
        *slope = grad_gelu(x);
        return gelu_of(x);
    } else if (p->f == GR_GELU_ERF) {
        *slope = e + x * 0.3989422804f * fp_expf(-0.5f * x * x);
        return x * e;
    } else if (p->f == GR_RELU2) {
        *slope = x > 0 ? 2 * x : 0;
        return x > 0 ? x * x : 0;
    } else if (p->f == GR_TANH) {
        *slope = 1 - th * th;
        return th;
    }
    const float low = fminf(x, l->eps);
    *slope = x > 0 ? l->b + 2 * l->p * x : l->b + l->n * ((x < l->eps ? fp_expf(low) : 0) - 1);
    return x > 0 ? l->b * x + l->p * x * x : l->b * x + l->n * (fp_expf(low) - 1 - x);
}
/* Adds the gradients of the clamped activation of a gate and an up value. */
static void clamped_back(float gate, float up, float dy, float *dgate, float *dup) {
    const float top = GR_CLAMPED_LIMIT, alpha = GR_CLAMPED_ALPHA;
    const float g = fminf(gate, top), u = fmaxf(-top, fminf(up, top)), s = fp_sigmoidf(alpha * g);
    *dgate += gate < top ? dy * (u + 1) * (s + alpha * g * s * (1 - s)) : 0;
    *dup += fabsf(up) < top ? dy * g * s : 0;
}
/* Adds the gradients of an activation, possibly times a factor; a pool_fn. */
static void act_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const bool two = j->n->src[1] != GR_NONE;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = src_row(j, 0, t), *dy = j->dy + t * j->width;
        const float *by = two ? src_row(j, 1, t) + j->n->pick.offset : NULL;
        float *dx = dsrc(j, 0, t), *dby = two ? dsrc(j, 1, t) + j->n->pick.offset : NULL;
        for (int64_t i = 0; i < j->width; i++) {
            float slope;
            if (j->n->pick.f == GR_CLAMPED) {
                clamped_back(x[i], by[i], dy[i], &dx[i], &dby[i]);
                continue;
            }
            const float f = act(&j->n->pick, x[i], &slope);
            dx[i] += dy[i] * slope * (two ? by[i] : 1);
            if (two) dby[i] += dy[i] * f;
        }
    }
}
/* Computes the backward pass of dst = act(src0), times src1 if there is one. */
void back_act(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = grad_take(g, n->dst, 0);
    grad_tokens(g, act_range, &j);
}
/* Computes the backward pass of dst = gelu(src0) * src1. */
void back_geglu(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct gr_node as = *n;
    as.pick.f = GR_GELU;
    back_act(g, &as, k);
}

/* Adds the gradients of a gated sum for tokens t0 to t1 - 1; a pool_fn. */
static void gate_add_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t d = grad_width(j->g, j->n->src[1]);
    const struct kern *kern = &j->g->s->kern;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *dy = j->dy + t * j->width;
        const float s = fp_sigmoidf(kern->dot_f32(j->w, src_row(j, 1, t), d));
        const float by = kern->dot_f32(dy, src_row(j, 0, t), j->width) * s * (1 - s);
        kern->axpy(dsrc(j, 0, t), dy, s, j->width);
        kern->axpy(dsrc(j, 1, t), j->w, by, d);
    }
}
/* Computes the backward pass of dst += sigmoid(w . src1) * src0. */
void back_gate_add(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = g->reg[n->dst]; /* also the gradient of dst's previous value */
    j.w = exec_vec(g->s, n->gate.row);
    grad_tokens(g, gate_add_range, &j);
}

/* Multiplies the gradient by the constant factor and by the weight, either one number or one per
 * column. */
void back_scale(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const float *number = n->scale.number == GR_NONE ? NULL : exec_vec(g->s, n->scale.number);
    const bool each = number && g->g->weight[n->scale.number].ne[0] > 1;
    const int64_t width = grad_width(g, n->dst);
    (void)k;
    for (int64_t i = 0; i < g->n * width; i++) {
        const float by = n->scale.by != 0 ? n->scale.by : 1;
        g->reg[n->dst][i] *= by * (number ? number[each ? i % width : 0] : 1);
    }
}

/* Multiplies the gradient of each token by the factor of its position. */
void back_temper(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const int64_t width = grad_width(g, n->dst);
    (void)k;
    for (int64_t t = 0; t < g->n; t++) {
        const double steps = (double)((t + n->temper.offset) / n->temper.step);
        const float by = (float)(1 + (double)n->temper.scale * fp_log(steps + 1));
        for (int64_t i = 0; i < width; i++) g->reg[n->dst][t * width + i] *= by;
    }
}

/* Splits dy between the two sources. */
void back_concat(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    const int64_t a = grad_width(g, n->src[0]), b = grad_width(g, n->src[1]);
    j.dy = grad_take(g, n->dst, 0);
    for (int64_t t = 0; t < g->n; t++)
        for (int64_t i = 0; i < a + b; i++)
            *(i < a ? dsrc(&j, 0, t) + i : dsrc(&j, 1, t) + i - a) += j.dy[t * (a + b) + i];
}

/* Adds dy to the columns of the source that were selected. */
void back_columns(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k);
    j.dy = grad_take(g, n->dst, 0);
    for (int64_t t = 0; t < g->n; t++)
        for (int64_t i = 0; i < j.width; i++)
            dsrc(&j, 0, t)[n->pick.offset + i] += j.dy[t * j.width + i];
}
