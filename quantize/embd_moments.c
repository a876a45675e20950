// SPDX-License-Identifier: MIT
/* quantize/embd_moments.c - second moments for embeddings, computed from the matrices of the first
 * block.
 *
 * Decodes TILE rows of a matrix at a time, scales them by the norm's weights and by the size of the
 * matrix, and adds them to G in row order; threads share out the columns. A matrix with n columns
 * and r rows takes n * n * r multiply-adds (with blocks of BLOCK columns if n > FULL, as in
 * calib/moments.c), so only a sample of EXPERTS experts is used. */
#include "quantize/embd_moments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "kernels/kern.h"
#include "quantize/axpy.h"

enum { TILE = 64, FULL = 4096, BLOCK = 2048, EXPERTS = 32 };
static const char embd[] = "token_embd.weight";
/* Fraction of G's mean that is added to its diagonal, to represent the inputs of later blocks. */
#define LATER 0.1
/* Weight of the router; other matrices have 1. An error that replaces an expert changes the answer
 * by more than the router's output shows (docs/notebook/quality.md, "Tails"). */
#define ROUTER 4.0
static const char router[] = "ffn_gate_inp";

/* Matrices that read the output of a block's norms. */
static const char *const of_attention[] = {
    "attn_q",   "attn_k",    "attn_v", "attn_qkv", "attn_gate", "attn_q_a",         "attn_kv_a_mqa",
    "ssm_beta", "ssm_alpha", "ssm_ba", "ssm_in",   "ssm_f_a",   "shortconv.in_proj"};
static const char *const of_ffn[] = {router,           "ffn_gate",    "ffn_up",
                                     "ffn_gate_exps",  "ffn_up_exps", "ffn_gate_up_exps",
                                     "ffn_gate_shexp", "ffn_up_shexp"};

struct tile {
    struct embd_moments *m;
    const float *row; /* [rows][n] */
    int64_t rows;
};
/* Adds the products of a tile's rows to columns [i0, i1) of the moments. */
static void add_columns(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct tile *t = ctx;
    const int64_t n = t->m->in.n, block = t->m->in.block;
    (void)worker;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t b0 = i / block * block, nb = min_i64(block, n - b0);
        for (int64_t r = 0; r < t->rows; r++)
            axpy(t->m->sum + i * block, t->row + r * n + b0, t->row[r * n + i], nb);
    }
}

/* A matrix, or a sample of experts, and how to read its rows. */
struct source {
    const struct gguf_tensor *t;
    const struct kern *ref;
    const float *norm; /* [n] */
    int64_t experts;   /* number of experts used, out of ne[2] */
    double weight;     /* what it adds to the trace */
};
/* Decodes rows [r0, r0 + rows) of the k-th sampled expert and multiplies their columns by the
 * norm's weights. */
static void load_rows(const struct source *s, int64_t k, int64_t r0, int64_t rows, float *out) {
    const struct gguf_tensor *t = s->t;
    const int64_t n = t->ne[0], first = k * t->ne[2] / s->experts * t->ne[1] + r0;
    for (int64_t r = 0; r < rows; r++, out += n) {
        const uint64_t at = (uint64_t)(first + r) * qtype_row_bytes(t->type, n);
        s->ref->op[t->type].decode(t->data + at, out, n);
        for (int64_t i = 0; i < n; i++) out[i] *= s->norm[i];
    }
}

/* Adds one matrix to the moments. Skips it if its sum of squares is not a positive finite
 * number. */
static void add_matrix(struct embd_moments *m, const struct source *s, float *room,
                       struct pool *pool) {
    const int64_t n = s->t->ne[0], rows = s->t->ne[1];
    double squares = 0;
    for (int64_t k = 0; k < s->experts; k++)
        for (int64_t r = 0; r < rows; r++) {
            load_rows(s, k, r, 1, room);
            for (int64_t i = 0; i < n; i++) squares += (double)room[i] * (double)room[i];
        }
    if (!(squares > 1e-30 && squares < 1e30)) return;
    const float scale = (float)sqrt(s->weight / squares);
    for (int64_t k = 0; k < s->experts; k++)
        for (int64_t r = 0; r < rows; r += TILE) {
            struct tile tile = {.m = m, .row = room, .rows = min_i64(TILE, rows - r)};
            load_rows(s, k, r, tile.rows, room);
            for (int64_t i = 0; i < tile.rows * n; i++) room[i] *= scale;
            pool_for(pool, n, 16, add_columns, &tile);
        }
    m->count += (float)s->weight;
}

/* Returns block 0's tensor of this name; NULL: not found. */
static const struct gguf_tensor *block_tensor(const struct gguf *g, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "blk.0.%s.weight", name);
    return gguf_find_tensor(g, full);
}

/* Fills out with the weights of a norm, or ones. Returns whether the norm exists. */
static bool norm_weights(const struct gguf *g, const struct kern *ref, const char *name, float *out,
                         int64_t n) {
    const struct gguf_tensor *t = block_tensor(g, name);
    for (int64_t i = 0; i < n; i++) out[i] = 1;
    if (!t || qtype_info(t->type)->block_elems != 1 || !ref->op[t->type].decode || t->ne[0] != n)
        return false;
    ref->op[t->type].decode(t->data, out, n);
    return true;
}

/* Adds the moments of those tensors in block 0 that have suitable shapes. norm: factors of their
 * input. */
static void add_named(struct embd_moments *m, const struct gguf *g, const struct kern *ref,
                      const char *const *names, size_t n_names, const float *norm, float *room,
                      struct pool *pool) {
    for (size_t i = 0; i < n_names; i++) {
        const struct gguf_tensor *t = block_tensor(g, names[i]);
        if (!t || t->ne[0] != m->in.n || t->ne[3] != 1 || !ref->op[t->type].decode) continue;
        const struct source s = {t, ref, norm, min_i64(t->ne[2], EXPERTS),
                                 names[i] == router ? ROUTER : 1};
        add_matrix(m, &s, room, pool);
    }
}

int embd_moments_make(struct embd_moments *m, const struct gguf *g, struct pool *pool,
                      struct err *e) {
    const struct gguf_tensor *t = gguf_find_tensor(g, embd);
    memset(m, 0, sizeof *m);
    if (!t || t->ne[0] < 1) return 0;
    const int64_t n = t->ne[0], block = n <= FULL ? n : BLOCK;
    void *p;
    uint64_t bytes;
    if (!gram_input_bytes(n, block, 1, &bytes))
        return err_set(e, ERR_USAGE, "token_embd.weight has too many columns");
    TRY(mem_alloc(&p, bytes, "moments of embeddings", e));
    m->sum = p;
    m->in = (struct gram_input){.name = (char *)(uintptr_t)embd,
                                .n = n,
                                .block = block,
                                .n_mat = 1,
                                .sum = {m->sum, m->sum},
                                .count = {&m->count, &m->count}};
    float *norm = xcalloc((size_t)n, sizeof *norm), *room = xcalloc((size_t)n, TILE * sizeof *room);
    struct kern ref;
    kern_init(&ref, KERN_REF);
    /* Models that norm only a block's output have neither norm; models in which attention and FFN
     * share a norm lack the second one. */
    const bool first = norm_weights(g, &ref, "attn_norm", norm, n);
    add_named(m, g, &ref, of_attention, COUNT_OF(of_attention), norm, room, pool);
    if (first && !norm_weights(g, &ref, "ffn_norm", norm, n) &&
        !norm_weights(g, &ref, "post_attention_norm", norm, n))
        norm_weights(g, &ref, "attn_norm", norm, n);
    add_named(m, g, &ref, of_ffn, COUNT_OF(of_ffn), norm, room, pool);
    free(norm);
    free(room);
    /* The trace is m->count. */
    for (int64_t i = 0; i < n; i++)
        m->sum[i * block + i % block] += (float)LATER * m->count / (float)n;
    if (!(m->count > 0)) embd_moments_release(m);
    return 0;
}

void embd_moments_release(struct embd_moments *m) {
    mem_free(m->sum);
    memset(m, 0, sizeof *m);
}

const struct gram_input *embd_moments_find(const struct embd_moments *m, const struct gram *gram,
                                           const char *name) {
    const struct gram_input *in = gram_find(gram, name);
    return in || m->in.n == 0 || strcmp(name, embd) != 0 ? in : &m->in;
}
