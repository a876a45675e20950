// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/elem.c - per-token operations: embedding, norms, residuals and gates. All are
 * thin loops over kernels, split by token. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "runtime/engine/exec.h"

enum { TOKEN_CHUNK = 16 };

struct job {
    struct session *s;
    const struct gr_node *n;
    const float *w; /* weight vector as f32 */
    int64_t width;  /* columns of a row of dst */
};

/* Runs fn over the tokens of a pass; w: the node's weight vector, or NULL. */
static void run_tokens(struct session *s, const struct gr_node *n, const float *w, int64_t width,
                       pool_fn fn) {
    struct job j = {s, n, w, width};
    exec_par(s, s->n_tok, TOKEN_CHUNK, 4.0 * (double)s->n_tok * (double)width, fn, &j);
}

/* Returns row t of register r. */
static float *row_of(const struct session *s, gr_reg r, int64_t t) {
    return s->reg[r] + t * s->g->reg_width[r];
}

/* Copies row r of the pass from its image. */
static void embed_image(const struct job *j, const struct session_image *im, int64_t r) {
    float *d = row_of(j->s, j->n->dst, r), f = j->n->embed.scale;
    memcpy(d, im->rows + j->s->images.at[r] * j->width, (size_t)j->width * sizeof *d);
    for (int64_t i = 0; f != 0 && j->n->embed.scales_images && i < j->width; i++) d[i] *= f;
}
/* Computes EMBED for tokens t0 to t1 - 1; a pool_fn. */
static void embed_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const struct weight *w = model_weight(j->s->m, j->n->embed.table);
    for (int64_t t = t0; t < t1; t++) {
        float *d = row_of(j->s, j->n->dst, t), f = j->n->embed.scale;
        const struct session_image *im = j->n->embed.position ? NULL : exec_image(j->s, t);
        if (im && j->n->dst == j->s->g->residual) {
            embed_image(j, im, t);
            continue;
        }
        const int64_t at = j->n->embed.position ? j->s->row_pos[t] : im ? 0 : j->s->ids[t];
        j->s->kern.op[w->type].decode((const uint8_t *)w->data + (uint64_t)at * w->row_bytes, d,
                                      w->ne[0]);
        for (int64_t i = 0; f != 0 && i < w->ne[0]; i++) d[i] *= f;
    }
}
/* Runs EMBED for the pass (models/ops.def): dst = the table rows of the tokens. */
void exec_embed(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, NULL, s->g->reg_width[n->dst], embed_range);
}

/* Returns the weights of a norm; NULL: all are 1. */
static const float *norm_vec(struct session *s, const struct gr_node *n) {
    return n->norm.weight == GR_NONE ? NULL : exec_vec(s, n->norm.weight);
}

/* Computes RMS for tokens t0 to t1 - 1; a pool_fn. */
static void rms_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        j->s->kern.rms_norm(row_of(j->s, j->n->src[0], t), j->w, row_of(j->s, j->n->dst, t),
                            j->width, j->n->norm.eps);
}
/* Runs RMS for the pass (models/ops.def): normalizes rows. */
void exec_rms(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, norm_vec(s, n), s->g->reg_width[n->dst], rms_range);
}

/* Computes RMS_HEADS for tokens t0 to t1 - 1; a pool_fn. */
static void rms_heads_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t n = j->n->norm.head_dim;
    (void)worker;
    const int64_t *ne = j->w ? model_weight(j->s->m, j->n->norm.weight)->ne : NULL;
    const bool own = ne && ne[0] * ne[1] > n; /* weights differ by head */
    for (int64_t t = t0; t < t1; t++)
        for (int64_t at = 0; at < j->width; at += n)
            j->s->kern.rms_norm(row_of(j->s, j->n->src[0], t) + at, own ? j->w + at : j->w,
                                row_of(j->s, j->n->dst, t) + at, n, j->n->norm.eps);
}
/* Runs RMS_HEADS for the pass (models/ops.def): normalizes each head. */
void exec_rms_heads(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, norm_vec(s, n), s->g->reg_width[n->dst], rms_heads_range);
}

/* Computes GATED_RMS for tokens t0 to t1 - 1; a pool_fn. */
static void gated_rms_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    rms_heads_range(ctx, t0, t1, worker);
    for (int64_t t = t0; t < t1; t++)
        j->s->kern.silu_mul(row_of(j->s, j->n->dst, t), row_of(j->s, j->n->src[1], t), j->width);
}
/* Runs GATED_RMS for the pass (models/ops.def): normalizes heads, times silu(src1). */
void exec_gated_rms(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, exec_vec(s, n->norm.weight), s->g->reg_width[n->dst], gated_rms_range);
}

/* Computes ADD for tokens t0 to t1 - 1; a pool_fn. */
static void add_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const float *a = row_of(j->s, j->n->src[0], t0), *b = row_of(j->s, j->n->src[1], t0);
    float *d = row_of(j->s, j->n->dst, t0);
    for (int64_t i = 0; i < (t1 - t0) * j->width; i++) d[i] = a[i] + b[i];
}
/* Runs ADD for the pass (models/ops.def): dst = src0 + src1. */
void exec_add(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, NULL, s->g->reg_width[n->dst], add_range);
}

/* Computes BIAS for tokens t0 to t1 - 1; a pool_fn. */
static void bias_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        float *d = row_of(j->s, j->n->dst, t);
        for (int64_t i = 0; i < j->width; i++) d[i] += j->w[i];
    }
}
/* Runs BIAS for the pass (models/ops.def): adds the same vector to each token. */
void exec_bias(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, exec_vec(s, n->bias.values), s->g->reg_width[n->dst], bias_range);
}

/* Computes SPLIT_GATE for tokens t0 to t1 - 1; a pool_fn. */
static void split_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    int64_t hd = j->n->heads.head_dim;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = row_of(j->s, j->n->src[0], t);
        float *q = row_of(j->s, j->n->dst, t), *g = row_of(j->s, j->n->dst2, t);
        for (int64_t at = 0; at < j->width; at += hd) {
            memcpy(q + at, x + 2 * at, (size_t)hd * sizeof *q);
            memcpy(g + at, x + 2 * at + hd, (size_t)hd * sizeof *g);
        }
    }
}
/* Runs SPLIT_GATE for the pass (models/ops.def): separates queries from gates. */
void exec_split_gate(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, NULL, s->g->reg_width[n->dst], split_range);
}

/* Computes SIGMOID_MUL for tokens t0 to t1 - 1; a pool_fn. */
static void sigmoid_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    j->s->kern.sigmoid_mul(row_of(j->s, j->n->dst, t0), row_of(j->s, j->n->src[0], t0),
                           (t1 - t0) * j->width);
}
/* Runs SIGMOID_MUL for the pass (models/ops.def): dst *= sigmoid(src0). */
void exec_sigmoid_mul(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, NULL, s->g->reg_width[n->dst], sigmoid_range);
}

/* Computes SWIGLU for tokens t0 to t1 - 1; a pool_fn. */
static void swiglu_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    j->s->kern.swiglu(row_of(j->s, j->n->src[0], t0), row_of(j->s, j->n->src[1], t0),
                      row_of(j->s, j->n->dst, t0), (t1 - t0) * j->width);
}
/* Runs SWIGLU for the pass (models/ops.def): dst = silu(src0) * src1. */
void exec_swiglu(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, NULL, s->g->reg_width[n->dst], swiglu_range);
}

/* Computes GATE_ADD for tokens t0 to t1 - 1; a pool_fn. */
static void gate_add_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    int64_t d = j->s->g->reg_width[j->n->src[1]];
    for (int64_t t = t0; t < t1; t++) {
        float g = j->s->kern.dot_f32(j->w, row_of(j->s, j->n->src[1], t), d);
        j->s->kern.axpy(row_of(j->s, j->n->dst, t), row_of(j->s, j->n->src[0], t), fp_sigmoidf(g),
                        j->width);
    }
}
/* Runs GATE_ADD for the pass (models/ops.def): adds src0, gated by one number per token. */
void exec_gate_add(struct session *s, const struct gr_node *n) {
    const float *w = exec_vec(s, n->gate.row);
    exec_show(s, n->gate.row, s->reg[n->src[1]], s->g->reg_width[n->src[1]]);
    run_tokens(s, n, w, s->g->reg_width[n->dst], gate_add_range);
}

/* Computes CONCAT for tokens t0 to t1 - 1; a pool_fn. */
static void concat_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    int64_t a = j->s->g->reg_width[j->n->src[0]], b = j->s->g->reg_width[j->n->src[1]];
    for (int64_t t = t0; t < t1; t++) {
        float *d = row_of(j->s, j->n->dst, t);
        memcpy(d, row_of(j->s, j->n->src[0], t), (size_t)a * sizeof *d);
        memcpy(d + a, row_of(j->s, j->n->src[1], t), (size_t)b * sizeof *d);
    }
}
/* Runs CONCAT for the pass (models/ops.def): joins two rows. */
void exec_concat(struct session *s, const struct gr_node *n) {
    run_tokens(s, n, NULL, s->g->reg_width[n->dst], concat_range);
}

/* ---- several operations per token, so that results are still in the cache when the next one reads
 * them ---- */

struct in_turn {
    struct job job[3];
    pool_fn fn[3];
    int n;
};
/* Runs all operations of a fusion on one token after the other. */
static void in_turn_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    struct in_turn *j = ctx;
    for (int64_t t = t0; t < t1; t++)
        for (int k = 0; k < j->n; k++) j->fn[k](&j->job[k], t, t + 1, worker);
}
/* Appends a node to those that one task runs one after another on its tokens. */
static void add_in_turn(struct in_turn *j, struct session *s, const struct gr_node *n,
                        const float *w, pool_fn fn) {
    j->job[j->n] = (struct job){s, n, w, s->g->reg_width[n->dst]};
    j->fn[j->n++] = fn;
}
static void run_in_turn(struct session *s, struct in_turn *j) {
    const double work = 4.0 * (double)j->n * (double)s->n_tok * (double)j->job[0].width;
    exec_par(s, s->n_tok, TOKEN_CHUNK, work, in_turn_range, j);
}

void exec_fused_add_rms(struct session *s, const struct match *m) {
    struct in_turn j = {.n = 0};
    add_in_turn(&j, s, m->add_rms.sum, NULL, add_range);
    add_in_turn(&j, s, m->add_rms.norm, norm_vec(s, m->add_rms.norm), rms_range);
    run_in_turn(s, &j);
}
void exec_fused_gate_add_rms(struct session *s, const struct match *m) {
    const struct gr_node *gate = m->gate_add_rms.gate, *norm = m->gate_add_rms.norm;
    struct in_turn j = {.n = 0};
    add_in_turn(&j, s, gate, exec_vec(s, gate->gate.row), gate_add_range);
    add_in_turn(&j, s, m->gate_add_rms.sum, NULL, add_range);
    add_in_turn(&j, s, norm, norm_vec(s, norm), rms_range);
    run_in_turn(s, &j);
}
