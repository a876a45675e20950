// SPDX-License-Identifier: MIT
/* mix/sens_err.c - stage 0: errors of the actual encoders on sampled rows; also encodes whole
 * tensors in memory for probes. Every row has its own slot in the result and rows are added up in
 * order, so results depend neither on the number of threads nor on the device that encodes. Types
 * that cannot hold a weight are left out; for that each tensor is read whole. Memory: the sampled
 * rows (2 % of a tensor) as in the file, and 4 million encoded weights. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "base/fp.h"
#include "quantize/batch.h"
#include "quantize/exact.h"
#include "mix/sens.h"

enum { MIN_ROWS = 64, MIN_ROWS_MAT = 8, PERCENT = 2, TAU = 256 };
static const int64_t BATCH = 4 << 20; /* weights encoded at a time */

struct sampler {
    /* Encodes the sampled rows, stored contiguously as a separate tensor. */
    struct batch_job b;
    const struct kern *ref;
    double *sum; /* one sum or magnitude per row; < 0: the row is not finite */
};

/* Returns the importance of a row's columns; NULL: none. */
static const float *imp_of(const struct batch_job *b, int64_t row) {
    return b->imp ? b->imp + row / b->t->ne[1] * b->t->ne[0] : NULL;
}

/* Computes the sum of importance times squared weight for each of the rows begin to end - 1. */
static void signals(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct sampler *s = ctx;
    float *x = s->b.scratch[worker];
    for (int64_t i = begin; i < end; i++) {
        const float *imp = imp_of(&s->b, i);
        double sum = 0;
        if (batch_load(&s->b, i, x))
            for (int64_t c = 0; c < s->b.t->ne[0]; c++)
                sum += (imp ? (double)imp[c] : 1) * (double)x[c] * (double)x[c];
        else
            sum = -1;
        s->sum[i] = sum;
    }
}

/* Computes the errors of the rows in b.out. An exact row (exact.h) has no error: it differs only by
 * the rounding of the stored weights. */
static void errors(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct sampler *s = ctx;
    const int64_t ne0 = s->b.t->ne[0];
    float *x = s->b.scratch[worker], *y = x + ne0;
    for (int64_t i = begin; i < end; i++) {
        const float *imp = imp_of(&s->b, s->b.first + i);
        double sum = 0;
        bool exact = (qtype_info(s->b.to)->flags & QF_EXACT) != 0;
        batch_load(&s->b, s->b.first + i, x);
        s->ref->op[s->b.to].decode(s->b.out + (uint64_t)i * s->b.dst_row, y, ne0);
        exact = exact && exact_equal(s->b.t->type, x, y, ne0);
        for (int64_t c = 0; c < ne0 && !exact; c++) {
            double d = (double)x[c] - (double)y[c];
            sum += (imp ? (double)imp[c] : 1) * d * d;
        }
        s->sum[s->b.first + i] = sum;
    }
}

/* Sets *out to a tensor's importance, to be freed with mem_free(). *entry is NULL if it has no
 * entry, or embeddings have one of another shape, which quantization ignores too. */
static int importance(const struct imat *imat, const struct gguf_tensor *t, float **out,
                      struct imat_entry **entry, struct err *e) {
    int64_t n_mat = t->ne[2] * t->ne[3];
    struct imat_entry *en = imat ? imat_find(imat, t->name) : NULL;
    *out = NULL;
    *entry = NULL;
    if (!en) return 0;
    const int rc = imat_fit(en, t->ne[0], n_mat, e);
    if (rc) return strcmp(t->name, "token_embd.weight") == 0 ? 0 : rc;
    if (imat_blind(en) == n_mat) return 0;
    void *p;
    TRY(mem_alloc(&p, (uint64_t)(n_mat * t->ne[0]) * sizeof(float), "importance of a tensor", e));
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

/* Builds a tensor from the sampled rows of t. *copy holds the rows, freed with mem_free; NULL: all
 * rows are sampled and the data is the tensor's own. */
static int sample(const struct gguf_tensor *t, struct gguf_tensor *out, void **copy,
                  struct err *e) {
    const int64_t n_mat = t->ne[2] * t->ne[3];
    const uint64_t row = qtype_row_bytes(t->type, t->ne[0]);
    int64_t per_mat =
        max_i64(t->ne[1] * PERCENT / 100, max_i64(MIN_ROWS_MAT, div_up(MIN_ROWS, n_mat)));
    per_mat = min_i64(per_mat, t->ne[1]);
    const int64_t step = t->ne[1] / per_mat;
    *out = *t;
    *copy = NULL;
    if (per_mat == t->ne[1]) return 0;
    out->ne[1] = per_mat;
    TRY(mem_alloc(copy, (uint64_t)(per_mat * n_mat) * row, "sampled rows", e));
    uint8_t *to = *copy;
    for (int64_t m = 0; m < n_mat; m++)
        for (int64_t i = 0; i < per_mat; i++, to += row)
            memcpy(to, t->data + (uint64_t)(m * t->ne[1] + i * step) * row, row);
    out->data = *copy;
    return 0;
}

/* Returns the sum over all rows, with experts weighted by their tokens: importance is a mean of
 * squares per expert, but an expert's contribution to the output grows with its tokens. */
static double total(const struct sampler *s, const struct imat_entry *en) {
    const int64_t n_mat = s->b.t->ne[2] * s->b.t->ne[3], rows = s->b.t->ne[1] * n_mat;
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        sum += (en && n_mat > 1 ? en->count[i / s->b.t->ne[1]] + 1 : 1) * s->sum[i];
    return sum;
}

/* Encodes the rows in a type and stores their errors in s->sum. */
static int errors_in(struct sampler *s, enum qtype to, const struct sens_source *from,
                     struct err *e) {
    struct batch_job *b = &s->b;
    const int64_t rows = b->t->ne[1] * b->t->ne[2] * b->t->ne[3];
    const int64_t per = min_i64(rows, max_i64(1, BATCH / b->t->ne[0]));
    void *out = NULL;
    int rc = 0;
    b->to = to;
    TRY_GOTO(out, rc, batch_open(b, s->ref, e));
    TRY_GOTO(out, rc, batch_device(b, from->dev, e));
    TRY_GOTO(out, rc, mem_alloc(&out, (uint64_t)per * b->dst_row, "sampled rows", e));
    for (int64_t at = 0; at < rows; at += b->n) {
        b->out = out;
        TRY_GOTO(out, rc, batch_encode(b, at, min_i64(per, rows - at), gguf_path(from->g), e));
        pool_for(b->pool, b->n, 1, errors, s);
    }
out:
    batch_close(b);
    mem_free(out);
    return rc;
}

/* Computes one number for each row of the tensor. ERR_DATA if a weight is not finite. */
static int each_row(struct sampler *s, pool_fn fn, const char *path, struct err *e) {
    const struct gguf_tensor *t = s->b.t;
    const int64_t rows = t->ne[1] * t->ne[2] * t->ne[3];
    s->b.to = t->type;
    int rc = batch_open(&s->b, s->ref, e);
    if (!rc) pool_for(s->b.pool, rows, 1, fn, s);
    batch_close(&s->b);
    for (int64_t i = 0; i < rows && !rc; i++)
        if (s->sum[i] < 0)
            rc = err_set(e, ERR_DATA,
                         "%s: tensor %s holds NaN or infinity; it cannot be quantized, repair or "
                         "convert the model again",
                         path, t->name);
    return rc;
}

/* Adds the relative errors of a tensor, divided by the number of tensors in its group. */
static int tensor_errors(const struct sens_source *from, const struct kern *ref, enum search search,
                         struct sens_group *g, int64_t index, struct err *e) {
    const struct gguf_tensor *t = gguf_tensor_at(from->g, index);
    const char *path = gguf_path(from->g);
    struct gguf_tensor rows;
    struct sampler s = {.b = {.t = &rows, .search = search, .pool = from->pool}, .ref = ref};
    struct imat_entry *en;
    float *imp;
    void *copy = NULL;
    TRY(importance(from->imat, t, &imp, &en, e));
    s.b.imp = imp;
    int rc = sample(t, &rows, &copy, e);
    if (!rc) s.sum = xcalloc((size_t)(rows.ne[1] * rows.ne[2] * rows.ne[3]), sizeof *s.sum);
    if (!rc) rc = each_row(&s, signals, path, e);
    const double signal = rc ? 0 : total(&s, en);
    for (int k = 0; k < QT_COUNT && !rc; k++) {
        const struct recipe_item it = {.name = t->name, .role = g->role, .type = (enum qtype)k};
        if (!en) g->can[k] = g->can[k] && !recipe_needs_imatrix(NULL, &it);
        if (!g->can[k]) continue;
        rc = errors_in(&s, it.type, from, e);
        const double rel = signal > 0 ? total(&s, en) / signal : 0;
        g->err[k] = fmax(g->err[k], 0) + rel / g->n_items;
    }
    free(s.sum);
    mem_free(copy);
    mem_free(imp);
    return rc;
}

/* ---- types that hold the largest weight ------------------------------------------------------ */

/* Stores the largest magnitude in each of the rows begin to end - 1; a pool_fn. */
static void magnitudes(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct sampler *s = ctx;
    float *x = s->b.scratch[worker];
    for (int64_t i = begin; i < end; i++) {
        uint32_t top = 0;
        const bool finite = batch_load(&s->b, i, x);
        for (int64_t c = 0; c < s->b.t->ne[0]; c++) {
            const uint32_t v = fp_bits(x[c]) & 0x7fffffffu;
            top = v > top ? v : top;
        }
        s->sum[i] = finite ? (double)fp_from_bits(top) : -1;
    }
}

/* Sets *out to the largest magnitude of a tensor's weights. Reads the whole tensor, because rows
 * that are not sampled have large weights too. */
static int largest_weight(const struct sens_source *from, const struct kern *ref,
                          const struct gguf_tensor *t, double *out, struct err *e) {
    const int64_t rows = t->ne[1] * t->ne[2] * t->ne[3];
    struct sampler s = {.b = {.t = t, .pool = from->pool}, .ref = ref};
    *out = 0;
    if (!ref->op[t->type].decode)
        return err_set(e, ERR_DATA, "%s: tensor %s has type %s, which cannot be decoded",
                       gguf_path(from->g), t->name, qtype_name(t->type));
    s.sum = xcalloc((size_t)rows, sizeof *s.sum);
    const int rc = each_row(&s, magnitudes, gguf_path(from->g), e);
    for (int64_t i = 0; i < rows && !rc; i++) *out = fmax(*out, s.sum[i]);
    free(s.sum);
    gguf_drop(from->g, t);
    return rc;
}

/* Removes the types that cannot hold the largest weight of each tensor of the group. If none is
 * left, adds sens_spare(). */
static int remove_small(const struct sens_source *from, const struct kern *ref,
                        struct sens_group *g, struct err *e) {
    bool any = false;
    for (int i = 0; i < g->n_items; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(from->g, g->item[i]);
        double top;
        TRY(largest_weight(from, ref, t, &top, e));
        for (int k = 0; k < QT_COUNT; k++)
            if (g->can[k] && k != (int)t->type && top > (double)enc_largest((enum qtype)k))
                g->can[k] = false;
    }
    for (int k = 0; k < QT_COUNT; k++) any |= g->can[k];
    if (!any) g->can[sens_spare()] = true;
    return 0;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Sets the errors of one group, from the results cache if possible. */
static int group_errors(const struct sens *s, const struct sens_source *from,
                        const struct kern *ref, struct sens_group *gr, struct err *e) {
    struct {
        double err[QT_COUNT];
        bool can[QT_COUNT];
    } kept;
    char *which = xasprintf("errors 2 %s %d %d", gr->name, (int)s->search, s->low);
    int rc = 0;
    memset(&kept, 0, sizeof kept);
    if (results_cache_get(from->keep, which, &kept, sizeof kept)) {
        memcpy(gr->err, kept.err, sizeof gr->err);
        memcpy(gr->can, kept.can, sizeof gr->can);
    } else {
        rc = remove_small(from, ref, gr, e);
        for (int k = 0; k < gr->n_items && !rc; k++) {
            rc = tensor_errors(from, ref, s->search, gr, gr->item[k], e);
            if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        }
        memcpy(kept.err, gr->err, sizeof gr->err);
        memcpy(kept.can, gr->can, sizeof gr->can);
        if (!rc) results_cache_put(from->keep, which, &kept, sizeof kept);
    }
    free(which);
    return rc;
}

int sens_errors(struct sens *s, const struct sens_source *from, struct err *e) {
    struct kern *ref = xcalloc(1, sizeof *ref);
    struct progress prog = {0};
    int rc = 0;
    kern_init(ref, KERN_REF);
    progress_begin(&prog, "errors of the encoders", PROG_ITEMS, (uint64_t)s->n_groups);
    for (int i = 0; i < s->n_groups && !rc; i++) {
        struct sens_group *gr = &s->group[i];
        for (int t = 0; t < QT_COUNT; t++) gr->err[t] = -1;
        for (int t = 0; t < QT_COUNT && !s->low; t++)
            if (qtype_info(t) && (qtype_info(t)->flags & QF_LAST_RESORT)) gr->can[t] = false;
        if (ranks_mine(i)) rc = group_errors(s, from, ref, gr, e);
        if (!rc) {
            ranks_send(i, gr->err, sizeof gr->err);
            ranks_send(i, gr->can, sizeof gr->can);
        }
        progress_update(&prog, (uint64_t)i + 1);
    }
    progress_end(&prog);
    free(ref);
    if (!rc) sens_tell(s);
    return rc;
}

void sens_tell(struct sens *s) {
    for (int i = 0; i < s->n_groups; i++) ranks_bcast(&s->group[i], sizeof s->group[i]);
    ranks_bcast(s->joint, sizeof s->joint);
    ranks_bcast(&s->n_joint, sizeof s->n_joint);
}

/* ---- whole tensors --------------------------------------------------------------------------- */

int sens_encode(const struct sens_source *from, int64_t index, enum qtype type, enum search search,
                void **out, struct err *e) {
    const struct gguf_tensor *t = gguf_tensor_at(from->g, index);
    const int64_t rows = t->ne[1] * t->ne[2] * t->ne[3], per = max_i64(1, BATCH / t->ne[0]);
    struct batch_job b = {.t = t, .to = type, .search = search, .pool = from->pool};
    struct kern *ref = xcalloc(1, sizeof *ref);
    float *imp = NULL;
    void *p = NULL;
    int rc = 0;
    kern_init(ref, KERN_REF);
    TRY_GOTO(out, rc, sens_importance(from->imat, t, &imp, e));
    b.imp = imp;
    TRY_GOTO(out, rc, batch_open(&b, ref, e));
    TRY_GOTO(out, rc, batch_device(&b, from->dev, e));
    TRY_GOTO(out, rc, mem_alloc(&p, b.dst_row * (uint64_t)rows, "a tensor to probe", e));
    for (int64_t at = 0; at < rows; at += b.n) {
        b.out = (uint8_t *)p + (uint64_t)at * b.dst_row;
        TRY_GOTO(out, rc, batch_encode(&b, at, min_i64(per, rows - at), gguf_path(from->g), e));
    }
    *out = p;
    p = NULL;
out:
    batch_close(&b);
    mem_free(p);
    mem_free(imp);
    free(ref);
    return rc;
}
