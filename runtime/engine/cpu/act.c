// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/act.c - activation functions other than SwiGLU and GEGLU, scaling, clamping,
 * and copies of columns and heads. SiLU and GELU use the sigmoid kernel. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

enum { TOKEN_CHUNK = 16, PIECE = 256 };

struct job {
    struct session *s;
    const struct gr_node *n;
    int64_t width, ld[2]; /* columns of a row of dst, and of a row of each source */
};

/* Returns the activation xIELU of x with the learned parameters a. */
static float xielu_of(const struct gr_xielu *a, float x) {
    if (x > 0) return a->p * x * x + a->b * x;
    const double grow = fp_exp((double)fminf(x, a->eps)) - 1 - (double)x;
    return (float)grow * a->n + a->b * x;
}

static float clamped(float gate, float up) {
    const float most = GR_CLAMPED_LIMIT;
    return fminf(gate, most) * (fmaxf(-most, fminf(up, most)) + 1);
}

/* Computes dst = f(x) * by for at most PIECE values, where f is the node's activation. by NULL: 1.
 * dst may alias x. */
static void activate(const struct job *j, const float *x, const float *by, float *dst, int64_t n) {
    const float a = 1.59576912160573f /* 2 sqrt(2/pi) */, b = 0.044715f, half = 0.70710678118655f;
    const enum gr_act act = j->n->pick.f;
    /* Arguments of the sigmoid, or factors of x and `by`. */
    float u[PIECE];
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i];
        switch (act) {
        case GR_SILU:
            u[i] = v;
            break;
        case GR_GELU:
            u[i] = a * (v + b * (v * v * v));
            break;
        case GR_GELU_ERF:
            u[i] = 0.5f * (1 + fp_erff(half * v));
            break;
        case GR_RELU2:
            u[i] = fmaxf(0, v);
            break;
        case GR_XIELU:
            u[i] = xielu_of(&j->n->pick.xielu, v);
            break;
        case GR_CLAMPED:
            u[i] = GR_CLAMPED_ALPHA * fminf(v, GR_CLAMPED_LIMIT);
            break;
        case GR_TANH:
            u[i] = (float)(1 - 2 / (fp_exp(2 * (double)v) + 1));
            break;
        }
    }
    /* For these activations u is already f(x), so x is not a factor. */
    const bool alone = act == GR_XIELU || act == GR_TANH;
    for (int64_t i = 0; i < n; i++)
        dst[i] = act == GR_CLAMPED ? clamped(x[i], by[i]) : (alone ? 1 : x[i]) * (by ? by[i] : 1);
    if (act == GR_SILU || act == GR_GELU || act == GR_CLAMPED)
        j->s->kern.sigmoid_mul(dst, u, n);
    else
        for (int64_t i = 0; i < n; i++) dst[i] *= u[i];
}

/* Computes ACT for tokens t0 to t1 - 1; a pool_fn. */
static void act_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const struct session *s = j->s;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = s->reg[j->n->src[0]] + t * j->ld[0], *by = NULL;
        float *dst = s->reg[j->n->dst] + t * j->width;
        if (j->n->src[1] != GR_NONE) by = s->reg[j->n->src[1]] + t * j->ld[1] + j->n->pick.offset;
        for (int64_t at = 0; at < j->width; at += PIECE)
            activate(j, x + at, by ? by + at : NULL, dst + at, min_i64(PIECE, j->width - at));
    }
}

/* Computes COLUMNS for tokens t0 to t1 - 1; a pool_fn. */
static void columns_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        memcpy(j->s->reg[j->n->dst] + t * j->width,
               j->s->reg[j->n->src[0]] + t * j->ld[0] + j->n->pick.offset,
               (size_t)j->width * sizeof(float));
}

/* Returns the factor of OP_MUL for x: x itself, softplus(x) or sigmoid(x). */
static float factor_of(enum gr_factor f, float x) {
    if (f == GR_VALUE) return x;
    const double e = fp_exp(-fabs((double)x));
    if (f == GR_SOFTPLUS_OF) return (float)(fmax((double)x, 0) + fp_log1p(e));
    return (float)((x < 0 ? e : 1) / (1 + e));
}
/* Computes MUL for tokens t0 to t1 - 1; a pool_fn. */
static void mul_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t each = j->width / j->ld[0];
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = j->s->reg[j->n->src[0]] + t * j->ld[0];
        float *dst = j->s->reg[j->n->dst] + t * j->width;
        for (int64_t h = 0; h < j->ld[0]; h++) {
            const float by = factor_of(j->n->mul.f, x[h]);
            for (int64_t i = 0; i < each; i++) dst[h * each + i] *= by;
        }
    }
}

/* Computes CLAMP for tokens t0 to t1 - 1; a pool_fn. */
static void clamp_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const float by = j->n->scale.by;
    (void)worker;
    float *x = j->s->reg[j->n->dst];
    for (int64_t i = t0 * j->width; i < t1 * j->width; i++) x[i] = fmaxf(-by, fminf(x[i], by));
}

/* Copies the heads of tokens t0 to t1 - 1 into heads of a different width, truncated or padded with
 * zeros. */
static void fit_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t to = j->n->heads.head_dim, from = j->n->heads.from, both = min_i64(to, from);
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = j->s->reg[j->n->src[0]] + t * j->ld[0];
        float *dst = j->s->reg[j->n->dst] + t * j->width, *end = dst + j->width;
        for (; dst < end; dst += to, x += from) {
            memcpy(dst, x, (size_t)both * sizeof *dst);
            memset(dst + both, 0, (size_t)(to - both) * sizeof *dst);
        }
    }
}

/* Runs fn over the tokens of a pass; per_value: estimated work per value of dst. */
static void run_rows(struct session *s, const struct gr_node *n, double per_value, pool_fn fn) {
    struct job j = {.s = s, .n = n, .width = s->g->reg_width[n->dst]};
    for (int i = 0; i < 2; i++)
        if (n->src[i] != GR_NONE) j.ld[i] = s->g->reg_width[n->src[i]];
    exec_par(s, s->n_tok, TOKEN_CHUNK, per_value * (double)(s->n_tok * j.width), fn, &j);
}
/* Runs ACT for the pass (models/ops.def): activation, with an optional factor. */
void exec_act(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 8, act_range);
}
/* Runs COLUMNS for the pass (models/ops.def): copies a range of columns. */
void exec_columns(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 1, columns_range);
}
/* Runs MUL for the pass (models/ops.def): dst *= f(src0). */
void exec_mul(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 2, mul_range);
}
/* Runs CLAMP for the pass (models/ops.def): limits dst to [-by, by]. */
void exec_clamp(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 1, clamp_range);
}
/* Runs FIT_HEADS for the pass (models/ops.def): cuts or zero-pads each head. */
void exec_fit_heads(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 1, fit_range);
}
