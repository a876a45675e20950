// SPDX-License-Identifier: MIT
/* mix/slopes.c - divergences predicted from gradients.
 *
 * An error E of a matrix W changes the loss of a window, whose answers are drawn from the model, by
 * <D, E>, where D is the gradient with respect to W. To second order, the divergence of the window
 * is the mean of <D, E>^2 / 2. Encoders' errors are nearly independent of each other and, weighted
 * by the importance h of columns, have the same relative size e in every row. So the mean over
 * errors is e sum_r v_r |D_r|^2 / 2, with v_r = sum_c h_c W_rc^2 / sum_c h_c: no encoded weights
 * are needed. D = sum_t g_t x_t^T over the tokens of the window. In the head, gradients of
 * different tokens are independent, and |D_r|^2 is sum_t g_tr^2 |x_t|^2. Not covered: changes of
 * the chosen experts (docs/notebook/quality.md compares slopes with probes). */
#include "mix/slopes.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "grad/grad.h"

enum { PANEL = 64 };
struct sized { /* a weight of the graph */
    int group; /* -1: in no group */
    float *v;  /* [matrices][rows] mean squares of rows, weighted by importance; NULL: not computed
                  yet */
};
struct slopes {
    const struct model *m;
    const struct imat *imat; /* NULL: none */
    struct pool *pool;
    struct kern kern;
    struct sized *weight; /* [n_weights] */
    double *sum;          /* [n_groups] */
    struct err err;       /* first error that occurred in an observer */
};

struct rows_job {
    const struct slopes *s;
    const struct weight *w;
    const float *imp; /* [matrices][columns]; NULL: all columns count the same */
    float *v, *row;   /* row: [workers][columns] */
};
/* Sets v[] of rows i0 to i1 - 1 to the mean squares of their weights, weighted by importance. */
static void size_rows(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct rows_job *j = ctx;
    const int64_t n = j->w->ne[0];
    float *row = j->row + worker * n;
    for (int64_t i = i0; i < i1; i++) {
        const float *h = j->imp ? j->imp + i / j->w->ne[1] * n : NULL;
        double sum = 0, of = 0;
        j->s->kern.op[j->w->type].decode(
            (const uint8_t *)j->w->data + (uint64_t)i * j->w->row_bytes, row, n);
        for (int64_t c = 0; c < n; c++) {
            const double by = h ? (double)h[c] : 1;
            sum += by * (double)row[c] * (double)row[c];
            of += by;
        }
        const double scale = (double)weight_scale(
            j->w, (const uint8_t *)j->w->data + (uint64_t)(i / j->w->ne[1]) * j->w->mat_bytes);
        j->v[i] = of > 0 ? (float)(sum / of * scale * scale) : 0;
    }
}

/* Returns a weight's group and row sizes, computing them on first use. NULL: the weight is in no
 * group, or out of memory. */
static const struct sized *sized(struct slopes *s, const struct gr_weight *gw) {
    const struct model *m = s->m;
    struct sized *z = &s->weight[gw - m->graph.weight];
    if (z->group < 0 || z->v) return z->group < 0 ? NULL : z;
    struct rows_job j = {.s = s, .w = model_weight(m, (gr_w)(gw - m->graph.weight))};
    const int64_t rows = j.w->ne[1] * j.w->ne[2] * j.w->ne[3];
    float *imp = NULL;
    void *v = NULL;
    int rc = sens_importance(s->imat, gguf_find_tensor(m->gguf, gw->name), &imp, &s->err);
    if (!rc) rc = mem_alloc(&v, (uint64_t)rows * sizeof(float), "sizes of rows", &s->err);
    if (!rc) {
        j.imp = imp;
        z->v = j.v = v;
        j.row = xcalloc((size_t)(pool_size(s->pool) * j.w->ne[0]), sizeof *j.row);
        pool_for(s->pool, rows, 16, size_rows, &j);
        free(j.row);
    }
    mem_free(imp);
    return z->v ? z : NULL;
}

struct panel_job {
    const struct slopes *s;
    const struct gr_weight *w;
    const float *v; /* [rows] sizes of the rows */
    const float *x, *dy;
    int64_t ld_x, ld_y, n_rows;
    float *scratch; /* [workers][PANEL][columns + n_rows] */
    double *size;   /* [rows] |D_r|^2; for the head, [n_rows] contribution of each token */
};
/* Computes the gradient of the weight in panels i0 to i1 - 1 of its rows, and the sum of squares of
 * each row. */
static void panels(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct panel_job *j = ctx;
    const int64_t n = j->w->ne[0], rows = j->w->ne[1];
    float *d = j->scratch + worker * PANEL * (n + j->n_rows), *g = d + PANEL * n;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t r0 = i * PANEL, m = min_i64(PANEL, rows - r0);
        for (int64_t r = 0; r < m; r++)
            for (int64_t t = 0; t < j->n_rows; t++)
                g[r * j->n_rows + t] = j->dy[t * j->ld_y + r0 + r];
        memset(d, 0, (size_t)(m * n) * sizeof *d);
        j->s->kern.gemm_nn(g, j->n_rows, j->x, j->ld_x, d, n, m, n, j->n_rows);
        for (int64_t r = 0; r < m; r++) {
            double sum = 0;
            for (int64_t c = 0; c < n; c++) sum += (double)d[r * n + c] * (double)d[r * n + c];
            j->size[r0 + r] = sum;
        }
    }
}

/* Adds the share of a matrix to the sum of its group. One call must cover all tokens of the window,
 * because gradients of different tokens are added before they are squared. */
static void see_matrix(struct slopes *s, const struct sized *z, const struct gr_weight *w,
                       int64_t expert, const float *x, int64_t ld_x, const float *dy, int64_t ld_y,
                       int64_t n_rows) {
    const float *v = z->v + (expert < 0 ? 0 : expert) * w->ne[1];
    struct panel_job j = {s, w, v, x, dy, ld_x, ld_y, n_rows, NULL, NULL};
    const int64_t floats = pool_size(s->pool) * PANEL * (w->ne[0] + n_rows);
    j.scratch = try_calloc((size_t)floats, sizeof *j.scratch, "gradients of rows", &s->err);
    if (!j.scratch) return;
    j.size = xcalloc((size_t)w->ne[1], sizeof *j.size);
    pool_for(s->pool, div_up(w->ne[1], PANEL), 1, panels, &j);
    for (int64_t r = 0; r < w->ne[1]; r++) s->sum[z->group] += j.size[r] * (double)v[r];
    free(j.scratch);
    free(j.size);
}

/* Sets size[] of tokens t0 to t1 - 1 to |x|^2 times the squares of the gradients, weighted by v. */
static void head_rows(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct panel_job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *xt = j->x + t * j->ld_x, *g = j->dy + t * j->ld_y;
        double in = 0, out = 0;
        for (int64_t c = 0; c < j->w->ne[0]; c++) in += (double)xt[c] * (double)xt[c];
        for (int64_t r = 0; r < j->w->ne[1]; r++)
            out += (double)g[r] * (double)g[r] * (double)j->v[r];
        j->size[t] = in * out;
    }
}
/* Adds the head's gradients to the sum of its group. */
static void see_head(struct slopes *s, const struct sized *z, const struct gr_weight *w,
                     const float *x, int64_t ld_x, const float *dy, int64_t ld_y, int64_t n_rows) {
    struct panel_job j = {s, w, z->v, x, dy, ld_x, ld_y, n_rows, NULL, NULL};
    j.size = xcalloc((size_t)n_rows, sizeof *j.size);
    pool_for(s->pool, n_rows, 1, head_rows, &j);
    for (int64_t t = 0; t < n_rows; t++) s->sum[z->group] += j.size[t];
    free(j.size);
}

/* Adds the gradients of one product to its group; ud: struct slopes. */
static void see_product(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                        int64_t ld_x, const float *dy, int64_t ld_y, int64_t n_rows) {
    struct slopes *s = ud;
    const struct sized *z = sized(s, w);
    if (z && w == model_head(s->m))
        see_head(s, z, w, x, ld_x, dy, ld_y, n_rows);
    else if (z)
        see_matrix(s, z, w, expert, x, ld_x, dy, ld_y, n_rows);
}

/* Adds the share of an embedding table. Changing a row affects every occurrence of its token, so
 * the gradients of equal tokens are added first. */
static void see_lookup(void *ud, const struct gr_weight *w, const int32_t *ids, float by,
                       const float *dy, int64_t n_rows) {
    struct slopes *s = ud;
    const struct sized *z = sized(s, w);
    const int64_t n = w->ne[0];
    double *d = xcalloc((size_t)n, sizeof *d);
    for (int64_t t = 0; t < n_rows && z; t++) {
        double size = 0;
        int64_t k = 0;
        while (k < t && ids[k] != ids[t]) k++;
        if (k < t) continue; /* added at the token's first lookup */
        memset(d, 0, (size_t)n * sizeof *d);
        for (k = t; k < n_rows; k++)
            for (int64_t c = 0; c < n && ids[k] == ids[t]; c++) d[c] += (double)dy[k * n + c];
        for (int64_t c = 0; c < n; c++) size += d[c] * d[c];
        s->sum[z->group] += (double)by * (double)by * size * (double)z->v[ids[t]];
    }
    free(d);
}

/* Returns the group of a tensor; -1: it belongs to no group. */
static int group_of(const struct slopes *s, const struct sens *sens, const char *name) {
    for (int i = 0; i < sens->n_groups; i++)
        for (int k = 0; k < sens->group[i].n_items; k++)
            if (strcmp(gguf_tensor_at(s->m->gguf, sens->group[i].item[k])->name, name) == 0)
                return i;
    return -1;
}

/* Adds the gradients of every window of the probe text. */
static int windows(struct slopes *s, struct grad *g, const struct slope_text *t, struct err *e) {
    struct progress prog;
    int rc = 0;
    progress_begin(&prog, "gradients of the probe text", PROG_ITEMS, (uint64_t)t->n_windows);
    for (int64_t i = 0; i < t->n_windows && !rc; i++) {
        rc = grad_text(g, t->ids + i * t->ctx, NULL, t->ctx, (uint64_t)i, NULL, e);
        if (!rc && s->err.code) rc = err_set(e, s->err.code, "%s", s->err.msg);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        progress_update(&prog, (uint64_t)i + 1);
    }
    progress_end(&prog);
    return rc;
}

/* Measures the slopes. If there is not enough memory for gradients, logs a warning and succeeds
 * without slopes. */
static int measure(struct sens *sens, struct slopes *s, const struct slope_text *t,
                   enum kern_isa isa, struct err *e) {
    const int n = s->m->graph.n_weights;
    struct grad *g = NULL;
    int rc = grad_new(&g, s->m, t->ctx, isa, s->pool, e);
    if (rc == ERR_SYS) log_warn("%s: continuing without gradients of the probe text", e->msg);
    if (rc) return rc == ERR_SYS ? 0 : rc;
    kern_init(&s->kern, isa);
    s->weight = xcalloc((size_t)n, sizeof *s->weight);
    s->sum = xcalloc((size_t)sens->n_groups, sizeof *s->sum);
    for (int i = 0; i < n; i++) s->weight[i].group = group_of(s, sens, s->m->graph.weight[i].name);
    grad_observe(g, see_product, s);
    grad_observe_lookups(g, see_lookup, s);
    rc = windows(s, g, t, e);
    for (int i = 0; i < sens->n_groups && !rc; i++)
        sens->group[i].slope = s->sum[i] / 2 / (double)(t->n_windows * t->ctx);
    for (int i = 0; i < n; i++) mem_free(s->weight[i].v);
    free(s->weight);
    free(s->sum);
    grad_free(g);
    return rc;
}

int slopes_measure(struct sens *sens, const struct model *m, const struct imat *imat,
                   const struct slope_text *t, enum kern_isa isa, struct pool *pool,
                   struct err *e) {
    const char *missing = "";
    struct slopes s = {.m = m, .imat = imat, .pool = pool};
    if (!grad_can(m, &missing)) {
        log_info("the operation %s has no derivative: all layers are probed", missing);
        return 0;
    }
    int rc = ranks_me() == 0 ? measure(sens, &s, t, isa, e) : 0;
    ranks_bcast(&rc, sizeof rc);
    if (rc && ranks_me()) return err_set(e, (enum err_code)rc, "gradients failed on another rank");
    sens_tell(sens);
    return rc;
}
