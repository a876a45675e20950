// SPDX-License-Identifier: MIT
/* jobs/imatrix_select.c - hone imatrix --select: selection of calibration documents for rare
 * experts.
 *
 * Routes a pool of documents, selects those that add the most coverage of rare experts per token,
 * writes them, and reports the coverage before, after, and with documents drawn at random. */
#include "jobs/imatrix_select.h"
#include "work/apart.h"
#include "work/open.h"

#include <stdlib.h>
#include <string.h>

#include "calib/candidates.h"
#include "base/io.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/str.h"

enum { DRAWS = 10 }; /* random selections to average */

/* Statistics over the experts of all layers. */
struct sums {
    double unseen, rare, few, share, least, median;
};

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Adds a layer's coverage to *s. tokens [n]: tokens per expert; weight: weight of the layer. */
static void add_sums(struct sums *s, const double *tokens, int64_t n, double weight) {
    double *v = xmalloc((size_t)n * sizeof *v);
    memcpy(v, tokens, (size_t)n * sizeof *v);
    qsort(v, (size_t)n, sizeof *v, by_value);
    for (int64_t i = 0; i < n; i++) {
        s->unseen += weight * (v[i] <= 0);
        s->rare += weight * (v[i] > 0 && v[i] < COVER_RARE);
        s->few += weight * (v[i] > 0 && v[i] < COVER_ENOUGH);
    }
    s->share += weight * sel_worth(v, n) / (double)n;
    s->least += weight * v[0];
    s->median += weight * (v[(n - 1) / 2] + v[n / 2]) / 2;
    free(v);
}

/* Adds one row of figures about the experts' tokens. */
static void emit_sums(struct emit *r, const char *name, int64_t n_tokens, const struct sums *s) {
    emit_row(r);
    emit_cell_str(r, name);
    emit_cell_i64(r, n_tokens);
    emit_cell_num(r, s->share, 4);
    emit_cell_num(r, s->unseen, 1);
    emit_cell_num(r, s->rare, 1);
    emit_cell_num(r, s->few, 1);
    emit_cell_num(r, s->least, 0);
    emit_cell_num(r, s->median, 0);
}

/* Adds a table that compares the tokens before, after the selection, and after a random one. */
static void emit_choices(struct emit *r, const struct candidates *c, const double *had,
                         const double *got, int64_t n_tokens) {
    static const char *const col[][2] = {
        {"texts", "texts"},       {"n_tokens", "tokens added"}, {"own_share", "own share"},
        {"n_unseen", "unseen"},   {"n_rare", "< 256"},          {"n_short", "< 1024"},
        {"min", "fewest tokens"}, {"median", "median"},
    };
    const int64_t n = c->sel.n_cells;
    struct sums before = {0}, after = {0}, drawn = {0};
    double *v = xmalloc((size_t)n * sizeof *v);
    add_sums(&before, had, n, 1);
    add_sums(&after, got, n, 1);
    for (uint64_t i = 1; i <= DRAWS; i++) {
        memcpy(v, had, (size_t)n * sizeof *v);
        sel_random(&c->sel, n_tokens, i, v);
        add_sums(&drawn, v, n, 1.0 / DRAWS);
    }
    free(v);
    emit_table(r, "choices", "experts of all layers");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(r, col[i][0], col[i][1]);
    emit_sums(r, "before", 0, &before);
    emit_sums(r, "selected", n_tokens, &after);
    emit_sums(r, "at random", n_tokens, &drawn);
}

/* Adds the table of experts' tokens per layer, before and after the selection. */
static void emit_layers(struct emit *r, const struct candidates *c, const double *had,
                        const double *got) {
    static const char *const col[][2] = {
        {"layer", "layer"},
        {"n_experts", "experts"},
        {"min_before", "min"},
        {"min", "now"},
        {"median_before", "median"},
        {"median", "now"},
        {"n_unseen_before", "unseen"},
        {"n_unseen", "now"},
        {"n_rare_before", "< 256"},
        {"n_rare", "now"},
        {"n_short_before", "< 1024"},
        {"n_short", "now"},
    };
    struct coverage a, b;
    candidates_coverage(c, had, &a);
    candidates_coverage(c, got, &b);
    emit_table(r, "coverage", "tokens per expert, before and now");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(r, col[i][0], col[i][1]);
    for (int64_t i = 0; i < a.n_layers; i++) {
        const struct cover_layer *x = &a.layer[i], *y = &b.layer[i];
        emit_row(r);
        emit_cell_i64(r, x->block);
        emit_cell_i64(r, x->n);
        emit_cell_num(r, x->least, 0);
        emit_cell_num(r, y->least, 0);
        emit_cell_num(r, x->median, 0);
        emit_cell_num(r, y->median, 0);
        emit_cell_i64(r, x->n_unseen);
        emit_cell_i64(r, y->n_unseen);
        emit_cell_i64(r, x->n_rare);
        emit_cell_i64(r, y->n_rare);
        emit_cell_i64(r, x->n_short);
        emit_cell_i64(r, y->n_short);
    }
    coverage_release(&a);
    coverage_release(&b);
}

/* Adds the result: totals, tables and the selected documents. */
static void emit_report(struct emit *r, const struct select_args *a, const struct candidates *p,
                        const struct sel_pick *pick, int64_t n_picks, const double *had,
                        const double *got) {
    int64_t n_tokens = 0;
    for (int64_t i = 0; i < n_picks; i++) n_tokens += p->sel.doc[pick[i].doc].n_tokens;
    emit_str(r, "output", "output", io_base(a->out));
    emit_i64(r, "n_candidates", "documents in the pool", p->sel.n_docs);
    emit_i64(r, "n_duplicates", "duplicates left out", p->n_duplicates);
    emit_i64(r, "pool_tokens", "tokens in the pool", p->n_tokens);
    emit_i64(r, "n_selected", "documents selected", n_picks);
    emit_i64(r, "selected_tokens", "tokens selected", n_tokens);
    emit_i64(r, "budget_tokens", NULL, a->budget);
    emit_choices(r, p, had, got, n_tokens);
    emit_layers(r, p, had, got);
    emit_table(r, "documents", NULL);
    emit_col(r, "text", NULL);
    emit_col(r, "number", NULL);
    emit_col(r, "n_tokens", NULL);
    emit_col(r, "gain", NULL);
    for (int64_t i = 0; i < n_picks; i++) {
        const struct candidate *d = &p->of[pick[i].doc];
        emit_row(r);
        emit_cell_str(r, io_base(a->text[d->text]));
        emit_cell_i64(r, d->number);
        emit_cell_i64(r, p->sel.doc[pick[i].doc].n_tokens);
        emit_cell_num(r, pick[i].gain, 4);
    }
}

/* Reads how many tokens each expert has in an importance matrix. */
static int read_have(const struct candidates *p, const char *path, double *tokens, struct err *e) {
    struct imat m;
    imat_init(&m);
    int rc = imat_read(&m, path, e);
    if (rc == 0 && candidates_have(p, &m, tokens, e)) rc = err_wrap(e, "%s", path);
    imat_release(&m);
    return rc;
}

/* Selects texts for rarely used experts and writes them. */
static int choose_texts(struct work *w, const struct select_args *a, const struct model *model,
                        const struct imatrix_opts *o, const struct candidates *p, const double *had,
                        struct emit *r, struct err *e) {
    const size_t n = (size_t)p->sel.n_cells;
    double *got = xmalloc(n * sizeof *got);
    struct sel_pick *pick = NULL;
    struct buf lines = {0};
    int rc = 0;
    memcpy(got, had, n * sizeof *got);
    const int64_t n_picks = sel_greedy(&p->sel, a->budget, got, &pick);
    if (!n_picks)
        rc = err_set(e, ERR_DATA,
                     "no document of the pool fits into %lld tokens; allow more with --select, or "
                     "cut the documents",
                     (long long)a->budget);
    if (rc == 0) rc = candidates_lines(p, model, o, pick, n_picks, &lines, e);
    if (rc == 0) rc = out_write_file(a->out, lines.data, lines.len, w->overwrite, e);
    if (rc == 0) emit_report(r, a, p, pick, n_picks, had, got);
    buf_release(&lines);
    free(pick);
    free(got);
    return rc;
}

/* Returns ERR_USAGE unless the output is a .jsonl of its own and the texts are files. */
static int check_options(struct work *w, const struct select_args *a, struct err *e) {
    struct apart files = {.w = w};
    if (!str_ends(a->out, ".jsonl"))
        return err_set(e, ERR_USAGE,
                       "%s: the selection is written as .jsonl: give a file name with that ending",
                       a->out);
    apart_in(&files, a->model);
    apart_in(&files, a->have);
    apart_in_all(&files, a->text, a->n_texts);
    apart_out(&files, a->out);
    TRY(apart_check(&files, e));
    TRY(out_try(a->out, w->overwrite, e));
    for (int i = 0; i < a->n_texts; i++)
        if (strcmp(a->text[i], "-") == 0)
            return err_set(e, ERR_USAGE,
                           "--select reads its texts twice: give a file instead of -");
    return 0;
}

int imatrix_select(struct work *w, const struct select_args *a, struct emit *r, struct err *e) {
    struct candidates p = {0};
    struct model *model = NULL;
    double *had = NULL;
    int rc;
    TRY(check_options(w, a, e));
    TRY_GOTO(out, rc, work_pool(w, e));
    TRY_GOTO(out, rc, open_model(w, &model, a->model, e));
    const struct imatrix_opts o = {.texts = a->text,
                                   .n_texts = a->n_texts,
                                   .ctx = a->ctx,
                                   .parse_special = a->parse_special,
                                   .isa = w->isa,
                                   .pool = w->pool,
                                   .device = w->device};
    TRY_GOTO(out, rc, candidates_init(&p, model, e));
    had = xcalloc((size_t)p.sel.n_cells, sizeof *had);
    if (a->have) TRY_GOTO(out, rc, read_have(&p, a->have, had, e));
    TRY_GOTO(out, rc, candidates_route(&p, model, &o, e));
    rc = choose_texts(w, a, model, &o, &p, had, r, e);
out:
    free(had);
    candidates_release(&p);
    model_close(model);
    return rc;
}
