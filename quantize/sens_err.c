// SPDX-License-Identifier: MIT
/* quantize/sens_err.c - stage 0: the error of the real encoders on sampled rows, and whole tensors
 * encoded in memory for probes. Every row is one work item with its own slot of the result, added
 * in row order: the numbers do not depend on the number of threads. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"
#include "core/ranks.h"
#include "kernels/kern.h"
#include "quantize/sens.h"

enum { MIN_ROWS = 64, MIN_ROWS_MAT = 8, PERCENT = 2, TAU = 256 };

struct sampler {
    const struct gguf_tensor *t;
    const struct kern *ref;
    const struct sens_group *g;
    enum search search;
    const float *imp;      /* [n_mat][ne0] or NULL */
    int64_t per_mat, step; /* sampled rows of each matrix */
    double *sum;           /* [rows][QT_COUNT + 1]: errors, and last the signal; < 0: not finite */
    struct scratch {
        float *x, *y;
        uint8_t *blk;
    } * scratch;
};

static void sample_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct sampler *j = ctx;
    struct scratch *w = &j->scratch[worker];
    int64_t ne0 = j->t->ne[0];
    uint64_t src_row = qtype_row_bytes(j->t->type, ne0);
    for (int64_t i = begin; i < end; i++) {
        int64_t mat = i / j->per_mat, row = mat * j->t->ne[1] + (i % j->per_mat) * j->step;
        const float *imp = j->imp ? j->imp + mat * ne0 : NULL;
        double *sum = j->sum + i * (QT_COUNT + 1), signal = 0;
        j->ref->op[j->t->type].decode(j->t->data + (uint64_t)row * src_row, w->x, ne0);
        for (int64_t c = 0; c < ne0; c++)
            signal += (imp ? (double)imp[c] : 1) * (double)w->x[c] * (double)w->x[c];
        sum[QT_COUNT] = isfinite(signal) ? signal : -1;
        for (int t = 0; t < QT_COUNT && isfinite(signal); t++) {
            if (!j->g->can[t]) continue;
            enc_find((enum qtype)t)->row(w->x, imp, ne0, w->blk, j->search);
            j->ref->op[t].decode(w->blk, w->y, ne0);
            for (int64_t c = 0; c < ne0; c++) {
                double d = (double)w->x[c] - (double)w->y[c];
                sum[t] += (imp ? (double)imp[c] : 1) * d * d;
            }
        }
    }
}

static int importance(const struct imat *imat, const struct gguf_tensor *t, float **out,
                      struct imat_entry **entry, struct err *e) {
    int64_t n_mat = t->ne[2] * t->ne[3];
    struct imat_entry *en = imat ? imat_find(imat, t->name) : NULL;
    *out = NULL;
    *entry = NULL;
    if (!en) return 0;
    TRY(imat_fit(en, t->ne[0], n_mat, e));
    void *p;
    TRY(buf_alloc(&p, (uint64_t)(n_mat * t->ne[0]) * sizeof(float), "importance of a tensor", e));
    imat_weights(en, TAU, p);
    *out = p;
    *entry = en;
    return 0;
}

int sens_importance(const struct imat *imat, const struct gguf_tensor *t, float **out,
                    struct err *e) {
    struct imat_entry *en;
    return importance(imat, t, out, &en, e);
}

/* Adds the tensor's relative errors, divided by the number of tensors of its group. */
static int tensor_errors(const struct gguf *gf, struct sens_group *g, int64_t index,
                         const struct imat *imat, const struct kern *ref, enum search search,
                         struct pool *pool, struct err *e) {
    const struct gguf_tensor *t = gguf_tensor_at(gf, index);
    int64_t n_mat = t->ne[2] * t->ne[3], ne0 = t->ne[0];
    if (!ref->op[t->type].decode)
        return err_set(e, ERR_DATA, "%s: tensor %s has type %s, which cannot be decoded",
                       gguf_path(gf), t->name, qtype_name(t->type));
    struct sampler j = {.t = t, .ref = ref, .g = g, .search = search};
    struct imat_entry *en;
    float *imp;
    TRY(importance(imat, t, &imp, &en, e));
    j.imp = imp;
    j.per_mat = max_i64(t->ne[1] * PERCENT / 100, max_i64(MIN_ROWS_MAT, div_up(MIN_ROWS, n_mat)));
    j.per_mat = min_i64(j.per_mat, t->ne[1]);
    j.step = t->ne[1] / j.per_mat;
    int64_t rows = j.per_mat * n_mat;
    int n_workers = pool_size(pool);
    j.sum = xcalloc((size_t)rows * (QT_COUNT + 1), sizeof *j.sum);
    j.scratch = xcalloc((size_t)n_workers, sizeof *j.scratch);
    for (int k = 0; k < n_workers; k++) {
        j.scratch[k].x = xreallocarray(NULL, (size_t)ne0, sizeof(float));
        j.scratch[k].y = xreallocarray(NULL, (size_t)ne0, sizeof(float));
        j.scratch[k].blk = xreallocarray(NULL, (size_t)ne0, sizeof(float));
    }
    pool_for(pool, rows, 1, sample_rows, &j);
    double total[QT_COUNT + 1] = {0};
    bool bad = false;
    for (int64_t i = 0; i < rows; i++) {
        /* the mean of squares is per expert; its part of the output is per token */
        double tokens = en && n_mat > 1 ? en->count[i / j.per_mat] + 1 : 1;
        const double *sum = j.sum + i * (QT_COUNT + 1);
        bad |= sum[QT_COUNT] < 0;
        for (int k = 0; k <= QT_COUNT; k++) total[k] += tokens * sum[k];
    }
    for (int k = 0; k < QT_COUNT; k++) {
        const struct recipe_item it = {.name = t->name, .role = g->role, .type = (enum qtype)k};
        if (!en) g->can[k] = g->can[k] && !recipe_needs_imatrix(NULL, &it);
        if (!g->can[k]) continue;
        double rel = total[QT_COUNT] > 0 ? total[k] / total[QT_COUNT] : 0;
        g->err[k] = fmax(g->err[k], 0) + rel / g->n_items;
    }
    for (int k = 0; k < n_workers; k++) {
        free(j.scratch[k].x);
        free(j.scratch[k].y);
        free(j.scratch[k].blk);
    }
    free(j.scratch);
    free(j.sum);
    buf_free(imp);
    if (bad)
        return err_set(e, ERR_DATA,
                       "%s: tensor %s holds NaN or infinity; it cannot be quantized, repair or "
                       "convert the model again",
                       gguf_path(gf), t->name);
    return 0;
}

int sens_errors(struct sens *s, const struct gguf *g, const struct imat *imat, struct pool *pool,
                struct err *e) {
    struct kern *ref = xcalloc(1, sizeof *ref);
    struct prog prog = {0};
    int rc = 0;
    kern_init(ref, KERN_REF);
    prog_begin(&prog, "errors of the encoders", PROG_ITEMS, (uint64_t)s->n_groups);
    for (int i = 0; i < s->n_groups && !rc; i++) {
        struct sens_group *gr = &s->group[i];
        for (int t = 0; t < QT_COUNT; t++) gr->err[t] = -1;
        if (!s->low) gr->can[QT_IQ1_S] = gr->can[QT_IQ1_M] = false;
        for (int k = 0; k < gr->n_items && !rc && ranks_mine(i); k++) {
            rc = tensor_errors(g, gr, gr->item[k], imat, ref, s->search, pool, e);
            if (!rc && prog_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        }
        if (!rc) {
            ranks_pass(i, gr->err, sizeof gr->err);
            ranks_pass(i, gr->can, sizeof gr->can);
        }
        prog_update(&prog, (uint64_t)i + 1);
    }
    prog_end(&prog);
    free(ref);
    if (!rc) sens_tell(s);
    return rc;
}

void sens_tell(struct sens *s) {
    for (int i = 0; i < s->n_groups; i++) ranks_tell(&s->group[i], sizeof s->group[i]);
}

/* ---- whole tensors ------------------------------------------------------------------------------
 */

struct whole {
    const struct gguf_tensor *t;
    const struct kern *ref;
    const struct enc *enc;
    const float *imp;
    uint8_t *out;
    enum search search;
    float **row;
};

static void encode_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct whole *j = ctx;
    int64_t ne0 = j->t->ne[0];
    uint64_t src = qtype_row_bytes(j->t->type, ne0), dst = qtype_row_bytes(j->enc->type, ne0);
    for (int64_t i = begin; i < end; i++) {
        j->ref->op[j->t->type].decode(j->t->data + (uint64_t)i * src, j->row[worker], ne0);
        const float *imp = j->imp ? j->imp + i / j->t->ne[1] * ne0 : NULL;
        j->enc->row(j->row[worker], imp, ne0, j->out + (uint64_t)i * dst, j->search);
    }
}

int sens_encode(const struct gguf *g, int64_t index, const struct imat *imat, enum qtype type,
                enum search search, struct pool *pool, void **out, struct err *e) {
    const struct gguf_tensor *t = gguf_tensor_at(g, index);
    int64_t rows = t->ne[1] * t->ne[2] * t->ne[3];
    int n_workers = pool_size(pool);
    struct imat_entry *en;
    float *imp;
    void *p = NULL;
    TRY(importance(imat, t, &imp, &en, e));
    int rc =
        buf_alloc(&p, qtype_row_bytes(type, t->ne[0]) * (uint64_t)rows, "a tensor to probe", e);
    if (!rc) {
        struct kern *ref = xcalloc(1, sizeof *ref);
        struct whole j = {t, ref, enc_find(type), imp, p, search, NULL};
        kern_init(ref, KERN_REF);
        j.row = xcalloc((size_t)n_workers, sizeof *j.row);
        for (int k = 0; k < n_workers; k++)
            j.row[k] = xreallocarray(NULL, (size_t)t->ne[0], sizeof **j.row);
        pool_for(pool, rows, max_i64(1, 4096 / t->ne[0]), encode_rows, &j);
        for (int k = 0; k < n_workers; k++) free(j.row[k]);
        free(j.row);
        free(ref);
        *out = p;
    }
    buf_free(imp);
    return rc;
}
