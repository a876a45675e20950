// SPDX-License-Identifier: MIT
/* runtime/measure/caches.c - table and plot of the errors of KV cache types on synthetic attention,
 * measured by runtime/measure/kv.c. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/measure/caches.h"
#include "runtime/measure/job.h"
#include "work/plot.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/kv_type.h"

enum { MAX_TYPES = 64 };

struct kv_types {
    const struct kv_type *k[MAX_TYPES], *v[MAX_TYPES];
    const char *name[MAX_TYPES];
    int n;
};

/* Parses a comma-separated list of cache types. ERR_USAGE: none, unknown, or over MAX_TYPES. */
static int parse_types(struct work *w, const char *text, struct kv_types *t, struct err *e) {
    struct str_list list = {0};
    work_split(w, text, &list);
    if (!list.n) return err_set(e, ERR_USAGE, "--kv-type: '%s' is not a cache type", text);
    if (list.n > MAX_TYPES) return err_set(e, ERR_USAGE, "--kv-type: at most %d", MAX_TYPES);
    for (t->n = 0; t->n < list.n; t->n++) {
        t->name[t->n] = list.v[t->n];
        TRY(kv_type_parse(list.v[t->n], "--kv-type", &t->k[t->n], &t->v[t->n], e));
    }
    return 0;
}

/* Plots relative output error against the number of cached keys, one line per head size and type.
 * The points of p are in that order. */
static int plot_types(const struct work *w, const struct plot_point *p, int n, const char *path,
                      struct err *e) {
    static const struct plot_axes axes = {.title = "error of attention by cache type",
                                          .x = "keys in the cache",
                                          .y = "relative error of the output",
                                          .log_x = true,
                                          .log_y = true};
    return plot_write(w, &axes, p, n, path, e);
}

/* Emits one row per cache type for one head size and depth. */
static void emit_types(struct emit *m, const struct kv_types *t, const struct eval_kv *r,
                       int64_t dim, int64_t depth) {
    for (int i = 0; i < t->n; i++) {
        emit_row(m);
        emit_cell_i64(m, dim);
        emit_cell_i64(m, depth);
        emit_cell_str(m, t->name[i]);
        emit_cell_num(m, r[i].bits, 3);
        emit_cell_num(m, r[i].kld, 6);
        emit_cell_num(m, r[i].output_error, 5);
        emit_cell_num(m, r[i].put_ns, 2);
        emit_cell_num(m, r[i].get_ns, 2);
    }
}

/* Sizes and types to measure, and the points of the plot: one series per head size and type. */
struct caches {
    int64_t dim[EVAL_MAX_LIST], depth[EVAL_MAX_LIST];
    int n_dims, n_depths;
    struct kv_types t;
    struct plot_point *p;
    char (*label)[64];
};

/* Begins the table of cache types and adds its columns. */
static void emit_columns(struct emit *m) {
    static const char *const col[][2] = {
        {"head_dim", "head"},
        {"depth", "depth"},
        {"kv_type", "type"},
        {"bits_per_value", "bits"},
        {"attention_kld", "weights' KLD"},
        {"output_error", "output error"},
        {"put_ns_per_value", "write ns"},
        {"get_ns_per_value", "read ns"},
    };
    emit_table(m, "types", "");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i][0], col[i][1]);
}

/* Fills in the plot's points for head size i and depth k. */
static void add_points(struct caches *x, int i, int k, const struct eval_kv *r) {
    const int n = x->t.n;
    for (int j = i * n; j < (i + 1) * n; j++) {
        snprintf(x->label[j], sizeof x->label[j], "%s, %d", x->t.name[j % n], (int)x->dim[i]);
        x->p[j * x->n_depths + k] = (struct plot_point){.x = (double)x->depth[k],
                                                        .y = r[j % n].output_error,
                                                        .series = j,
                                                        .label = x->label[j]};
    }
}

/* Measures each type at each head size and depth. */
static int measure_caches(struct work *w, const struct caches_opts *o, struct caches *x,
                          struct emit *m, struct err *e) {
    struct eval_kv r[MAX_TYPES];
    for (int i = 0; i < x->n_dims; i++)
        for (int k = 0; k < x->n_depths; k++) {
            TRY(eval_kv(x->dim[i], x->depth[k], o->cosine, w->isa, x->t.k, x->t.v, x->t.n, r, e));
            emit_types(m, &x->t, r, x->dim[i], x->depth[k]);
            add_points(x, i, k, r);
        }
    return o->plot ? plot_types(w, x->p, x->n_dims * x->t.n * x->n_depths, o->plot, e) : 0;
}

const struct caches_opts eval_caches_usual = {
    .dims = "64,128,256",
    .depths = "512,4096",
    .types = "f16,bf16,q8_0,q5_1,q4_0,q8_0-norot,q5_1-norot,q4_0-norot,tq4,tq3,tq2",
    .cosine = 0.5};

int eval_caches_run(struct work *w, const struct caches_opts *o, struct emit *m, struct err *e) {
    struct caches x = {0};
    TRY(eval_parse_list(o->dims, "--head-dims", x.dim, &x.n_dims, e));
    TRY(eval_parse_list(o->depths, "--depths", x.depth, &x.n_depths, e));
    TRY(parse_types(w, o->types, &x.t, e));
    emit_num(m, "cosine", "cosine", o->cosine, 2);
    emit_columns(m);
    x.p = xcalloc((size_t)(x.n_dims * x.n_depths * x.t.n), sizeof *x.p);
    x.label = xcalloc((size_t)(x.n_dims * x.t.n), sizeof *x.label);
    int rc = measure_caches(w, o, &x, m, e);
    free(x.p);
    free(x.label);
    return rc;
}
