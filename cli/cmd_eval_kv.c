// SPDX-License-Identifier: MIT
/* cli/cmd_eval_kv.c - hone eval kv: KV cache types on synthetic attention. Computed in
 * runtime/eval/eval_kv.c. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/eval.h"
#include "jobs/plot.h"
#include "core/mem.h"
#include "core/num.h"
#include "runtime/engine/kv_type.h"

enum { MAX_TYPES = 64 };

struct kv_types {
    const struct kv_type *k[MAX_TYPES], *v[MAX_TYPES];
    const char *name[MAX_TYPES];
    int n;
};

static int parse_types(struct cli *c, const char *text, struct kv_types *t, struct err *e) {
    struct str_list list = {0};
    work_split(&c->work, text, &list);
    if (list.n > MAX_TYPES) return err_set(e, ERR_USAGE, "--kv-type: at most %d", MAX_TYPES);
    for (t->n = 0; t->n < list.n; t->n++) {
        t->name[t->n] = list.v[t->n];
        TRY(kv_type_parse(list.v[t->n], "--kv-type", &t->k[t->n], &t->v[t->n], e));
    }
    return 0;
}

/* Relative error of the output over the keys in the cache, a line per head size and type; the
 * points are in that order. */
static int plot_types(const struct cli *c, const struct plot_point *p, int n, const char *path,
                      struct err *e) {
    static const struct plot_axes axes = {.title = "error of attention by cache type",
                                          .x = "keys in the cache",
                                          .y = "relative error of the output",
                                          .log_x = true,
                                          .log_y = true};
    return plot_write(&c->work, &axes, p, n, path, e);
}

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

int eval_cmd_kv(struct cli *c, int argc, char **argv, struct err *e) {
    const char *dims = "64,128,256", *depths = "512,4096";
    const char *types = "f16,bf16,q8_0,q5_1,q4_0,q8_0-rot,q5_1-rot,q4_0-rot,tq4,tq3,tq2";
    const char *plot = NULL;
    double cosine = 0.5;
    const struct opt opts[] = {
        {"head-dims", 0, OPT_STR, &dims, "LIST", "values of a head (64,128,256)"},
        {"depths", 0, OPT_STR, &depths, "LIST", "keys in the cache (512,4096)"},
        {"kv-type", 0, OPT_STR, &types, "T[,T...]", "cache types, or K/V (the usual ones)"},
        OPT_PLOT(plot, "error of the output by depth, a line per head size and type"),
        {"cosine", 0, OPT_NUM, &cosine, "X", "of queries with the key they look for (0.5)"},
    };
    const struct cmd_spec spec = {
        .name = "eval kv",
        .synopsis = "[--head-dims 64,128,256] [--depths 512,4096] [--kv-type T,T] [--cosine 0.5] "
                    "[--plot FILE]",
        .about = "Error and speed of KV cache types on synthetic attention: no model is needed.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 0,
        .max_args = 0,
    };
    int64_t dim[EVAL_MAX_LIST], depth[EVAL_MAX_LIST];
    int n_dims, n_depths;
    struct kv_types t;
    struct eval_kv r[MAX_TYPES];
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    TRY(eval_parse_list(dims, "--head-dims", dim, &n_dims, e));
    TRY(eval_parse_list(depths, "--depths", depth, &n_depths, e));
    TRY(parse_types(c, types, &t, e));
    struct emit *m = emit_new();
    emit_num(m, "cosine", "cosine", cosine, 2);
    emit_table(m, "types", "");
    emit_col(m, "head_dim", "head");
    emit_col(m, "depth", "depth");
    emit_col(m, "kv_type", "type");
    emit_col(m, "bits_per_value", "bits");
    emit_col(m, "attention_kld", "weights' KLD");
    emit_col(m, "output_error", "output error");
    emit_col(m, "put_ns_per_value", "write ns");
    emit_col(m, "get_ns_per_value", "read ns");
    struct plot_point *p = xcalloc((size_t)(n_dims * n_depths * t.n), sizeof *p);
    char(*label)[64] = xcalloc((size_t)(n_dims * t.n), sizeof *label);
    int rc = 0;
    for (int i = 0; i < n_dims && !rc; i++)
        for (int k = 0; k < n_depths && !rc; k++) {
            rc = eval_kv(dim[i], depth[k], cosine, c->work.isa, t.k, t.v, t.n, r, e);
            if (rc) break;
            emit_types(m, &t, r, dim[i], depth[k]);
            for (int j = i * t.n; j < (i + 1) * t.n; j++) {
                snprintf(label[j], sizeof label[j], "%s, %d", t.name[j % t.n], (int)dim[i]);
                p[j * n_depths + k] = (struct plot_point){.x = (double)depth[k],
                                                          .y = r[j % t.n].output_error,
                                                          .series = j,
                                                          .label = label[j]};
            }
        }
    if (!rc && plot) rc = plot_types(c, p, n_dims * t.n * n_depths, plot, e);
    if (!rc) cli_emit(c, m);
    emit_free(m);
    free(p);
    free(label);
    return rc;
}
