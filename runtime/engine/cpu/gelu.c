// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/gelu.c - GELU gating (tanh form), scaling of a register, and soft capping of
 * logits.
 *
 * 0.5 (1 + tanh(u)) equals sigmoid(2u), so GELU uses the sigmoid kernel; no table, no half
 * precision. */
#include <math.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

enum { TOKEN_CHUNK = 16, PIECE = 256, CAP_CHUNK = 4096 };

void exec_gelu_mul(const struct session *s, const float *gate, const float *up, float *dst,
                   int64_t n) {
    const float a = 1.59576912160573f /* 2 sqrt(2/pi) */, b = 0.044715f;
    float u[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t k = min_i64(PIECE, n - at);
        for (int64_t i = 0; i < k; i++) {
            float x = gate[at + i];
            u[i] = a * (x + b * (x * x * x));
            dst[at + i] = x * up[at + i];
        }
        s->kern.sigmoid_mul(dst + at, u, k);
    }
}

struct job {
    struct session *s;
    const struct gr_node *n;
    float scale;
    const float *by; /* one factor per column; NULL: 1 */
};

/* Computes GEGLU for tokens t0 to t1 - 1; a pool_fn. */
static void geglu_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const struct session *s = j->s;
    int64_t width = s->g->reg_width[j->n->dst], up_width = s->g->reg_width[j->n->src[1]];
    for (int64_t t = t0; t < t1; t++)
        exec_gelu_mul(s, s->reg[j->n->src[0]] + t * width,
                      s->reg[j->n->src[1]] + t * up_width + j->n->pick.offset,
                      s->reg[j->n->dst] + t * width, width);
}
/* Runs GEGLU for the pass (models/ops.def): dst = gelu(src0) * src1. */
void exec_geglu(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s, .n = n};
    double work = 8.0 * (double)s->n_tok * (double)s->g->reg_width[n->dst];
    exec_par(s, s->n_tok, TOKEN_CHUNK, work, geglu_range, &j);
}

/* Computes SCALE for tokens t0 to t1 - 1; a pool_fn. */
static void scale_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    int64_t width = j->s->g->reg_width[j->n->dst];
    float *x = j->s->reg[j->n->dst];
    for (int64_t i = t0 * width; i < t1 * width; i++)
        x[i] *= j->by ? j->scale * j->by[i % width] : j->scale;
}
/* Runs SCALE for the pass (models/ops.def): dst *= a number or a vector. */
void exec_scale(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s, .n = n, .scale = n->scale.by != 0 ? n->scale.by : 1.0f};
    const float *number = n->scale.number == GR_NONE ? NULL : exec_vec(s, n->scale.number);
    if (number && s->g->weight[n->scale.number].ne[0] > 1)
        j.by = number;
    else if (number)
        j.scale *= number[0];
    double work = (double)s->n_tok * (double)s->g->reg_width[n->dst];
    exec_par(s, s->n_tok, TOKEN_CHUNK, work, scale_range, &j);
}

struct cap_job {
    float *x;
    int64_t n;
    float cap;
};
/* Applies the cap to chunks c0 to c1 - 1; a pool_fn. */
static void cap_range(void *ctx, int64_t c0, int64_t c1, int worker) {
    const struct cap_job *j = ctx;
    (void)worker;
    for (int64_t i = c0 * CAP_CHUNK; i < min_i64(c1 * CAP_CHUNK, j->n); i++)
        j->x[i] = j->cap * fp_tanhf(j->x[i] / j->cap);
}
void exec_softcap(struct session *s, float *logits, int64_t n, double cap) {
    struct cap_job j = {logits, n, (float)cap};
    exec_par(s, div_up(n, CAP_CHUNK), 1, 8.0 * (double)n, cap_range, &j);
}
