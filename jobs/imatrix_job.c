// SPDX-License-Identifier: MIT
/* jobs/imatrix_job.c - hone imatrix: collects, merges, converts and describes importance matrices.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/coverage.h"
#include "calib/moments.h"
#include "calib/imatrix.h"
#include "calib/stats.h"
#include "jobs/imatrix_job.h"
#include "work/passes.h"
#include "work/apart.h"
#include "work/blas_choice.h"
#include "work/open.h"
#include "base/io.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "base/checkpoint.h"

/* Sets *form by --format, or by the ending of the output. */
static int pick_form(const struct imatrix_job_opts *a, enum imat_form *form, struct err *e) {
    const char *dot = strrchr(a->out, '.');
    *form = dot && strcmp(dot, ".dat") == 0 ? IMAT_DAT : IMAT_GGUF;
    if (!a->format) return 0;
    if (strcmp(a->format, "gguf") != 0 && strcmp(a->format, "dat") != 0)
        return err_set(e, ERR_USAGE, "--format: '%s' is not gguf or dat", a->format);
    *form = strcmp(a->format, "dat") == 0 ? IMAT_DAT : IMAT_GGUF;
    return 0;
}

/* Formats the layer's experts with the fewest tokens as "id:tokens id:tokens ...". */
static void worst_experts(const struct cover_layer *l, char *out, size_t size) {
    size_t n = 0;
    for (int i = 0; i < 4 && i < l->n && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld:%.0f", i ? " " : "",
                              (long long)l->expert[i].id, l->expert[i].tokens);
}

/* Emits the tokens per expert, a row per layer, and every expert in JSON and CSV. Nothing for dense
 * models. */
static void emit_coverage(struct emit *r, const struct imat *m) {
    static const char *const col[][2] = {
        {"layer", "layer"},     {"n_experts", "experts"},
        {"min", "min"},         {"p1", "1 %"},
        {"median", "median"},   {"max", "max"},
        {"n_unseen", "unseen"}, {"n_rare", "< 256"},
        {"n_short", "< 1024"},  {"worst", "fewest tokens"},
        {"total", NULL},
    };
    struct coverage cov;
    coverage_make(m, &cov);
    if (cov.n_layers == 0) return;
    emit_table(r, "coverage", "tokens per expert");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(r, col[i][0], col[i][1]);
    for (int64_t i = 0; i < cov.n_layers; i++) {
        const struct cover_layer *l = &cov.layer[i];
        char worst[128];
        worst_experts(l, worst, sizeof worst);
        emit_row(r);
        emit_cell_i64(r, l->block);
        emit_cell_i64(r, l->n);
        emit_cell_num(r, l->least, 0);
        emit_cell_num(r, l->p1, 0);
        emit_cell_num(r, l->median, 0);
        emit_cell_num(r, l->most, 0);
        emit_cell_i64(r, l->n_unseen);
        emit_cell_i64(r, l->n_rare);
        emit_cell_i64(r, l->n_short);
        emit_cell_str(r, worst);
        emit_cell_num(r, l->total, 0);
    }
    emit_table(r, "experts", NULL);
    emit_col(r, "layer", NULL);
    emit_col(r, "expert", NULL);
    emit_col(r, "tokens", NULL);
    for (int64_t i = 0; i < cov.n_layers; i++)
        for (int64_t k = 0; k < cov.layer[i].n; k++) {
            emit_row(r);
            emit_cell_i64(r, cov.layer[i].block);
            emit_cell_i64(r, cov.layer[i].expert[k].id);
            emit_cell_num(r, cov.layer[i].expert[k].tokens, 0);
        }
    coverage_release(&cov);
}

/* Reports on a matrix. seconds: time to collect it, or 0. n_before: chunks of an earlier run. */
static void report(struct emit *r, const struct imat *m, const char *path, double seconds,
                   int64_t n_before) {
    uint64_t size = 0;
    struct err ignored;
    int64_t n_mat = 0, unseen = 0, rare = 0;
    for (int64_t i = 0; i < m->n_entries; i++)
        for (int64_t k = 0; k < m->entry[i].n_mat && imat_is_experts(&m->entry[i]); k++) {
            n_mat++;
            unseen += m->entry[i].count[k] <= 0;
            rare += m->entry[i].count[k] > 0 && m->entry[i].count[k] < 256;
        }
    if (io_file_size(path, &size, &ignored) != 0) size = 0;
    emit_str(r, "output", "output", io_base(path));
    emit_i64(r, "n_entries", "tensors", m->n_entries);
    emit_i64(r, "n_chunks", "chunks", m->n_chunks);
    emit_i64(r, "chunk_size", "tokens per chunk", m->chunk_size);
    emit_i64(r, "n_expert_matrices", "expert matrices", n_mat);
    emit_i64(r, "n_experts_unseen", "never used", unseen);
    emit_i64(r, "n_experts_rare", "under 256 tokens", rare);
    emit_i64(r, "size_bytes", "bytes", (int64_t)size);
    if (seconds > 0) {
        emit_num(r, "seconds", "seconds", seconds, 1);
        if (n_before) emit_i64(r, "n_chunks_before", "from an earlier run", n_before);
        emit_num(r, "tok_per_s", "tokens/s",
                 (double)(m->n_chunks - n_before) * (double)m->chunk_size / seconds, 0);
    }
    emit_coverage(r, m);
}

int imatrix_job_stats(const char *path, struct emit *r, struct err *e) {
    struct imat m;
    imat_init(&m);
    int rc = imat_read(&m, path, e);
    if (rc) goto out;
    static const char *const col[][2] = {
        {"tensor", "tensor"},   {"n_mat", "mats"},      {"tokens", "tokens"},
        {"sum", "sum"},         {"mean", "mean"},       {"max", "max"},
        {"active", "active"},   {"entropy", "entropy"}, {"zd", "ZD"},
        {"cosine", "cos prev"}, {"n_unseen", "unseen"}, {"n_rare", "rare"},
        {"min", NULL},          {"stddev", NULL},
    };
    emit_i64(r, "n_chunks", "chunks", m.n_chunks);
    emit_i64(r, "chunk_size", "tokens per chunk", m.chunk_size);
    for (int i = 0; i < m.n_datasets; i++) emit_str(r, "dataset", "text", m.dataset[i]);
    emit_table(r, "tensors", "tensors");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(r, col[i][0], col[i][1]);
    for (int64_t i = 0; i < m.n_entries; i++) {
        struct imat_stats s;
        imat_describe(&m, i, &s);
        emit_row(r);
        emit_cell_str(r, m.entry[i].name);
        emit_cell_i64(r, m.entry[i].n_mat);
        emit_cell_num(r, s.tokens, 0);
        emit_cell_num(r, s.sum, 2);
        emit_cell_num(r, s.mean, 5);
        emit_cell_num(r, s.max, 3);
        emit_cell_num(r, s.active, 3);
        emit_cell_num(r, s.entropy_norm, 4);
        emit_cell_num(r, s.zd, 3);
        if (isnan(s.cosine))
            emit_cell_none(r);
        else
            emit_cell_num(r, s.cosine, 4);
        emit_cell_i64(r, s.n_unseen);
        emit_cell_i64(r, s.n_rare);
        emit_cell_num(r, s.min, 6);
        emit_cell_num(r, s.stddev, 6);
    }
    emit_coverage(r, &m);
out:
    imat_release(&m);
    return rc;
}

/* Merges matrices; with one input, converts it to another format. */
int imatrix_job_merge(struct work *w, const char *const *path, int n,
                      const struct imatrix_job_opts *a, struct emit *m, struct err *e) {
    struct apart files = {.w = w};
    struct imat sum;
    enum imat_form form;
    int rc;
    imat_init(&sum);
    apart_in_all(&files, path, n);
    apart_out(&files, a->out);
    TRY_GOTO(out, rc, apart_check(&files, e));
    TRY_GOTO(out, rc, pick_form(a, &form, e));
    TRY_GOTO(out, rc, imat_read(&sum, path[0], e));
    for (int i = 1; i < n; i++) {
        struct imat next;
        imat_init(&next);
        rc = imat_read(&next, path[i], e);
        if (rc == 0 && imat_merge(&sum, &next, e)) rc = err_wrap(e, "%s", path[i]);
        imat_release(&next);
        if (rc) goto out;
    }
    TRY_GOTO(out, rc, imat_write(&sum, a->out, form, w->overwrite, e));
    report(m, &sum, a->out, 0, 0);
out:
    imat_release(&sum);
    return rc;
}

/* Checks that the outputs are files of their own and can be written, before the long work begins.
 */
static int check_outputs(struct work *w, const char *model, const struct imatrix_job_opts *a,
                         struct err *e) {
    struct apart files = {.w = w};
    apart_in(&files, model);
    apart_in_all(&files, a->text, a->n_texts);
    apart_out(&files, a->out);
    apart_out(&files, a->gram);
    apart_out(&files, a->moments);
    TRY(apart_check(&files, e));
    for (int i = 0; i < files.out.n && ranks_me() == 0; i++)
        TRY(out_try(files.out.v[i], w->overwrite, e));
    return 0;
}

/* Writes the second moments collected together with m. */
static int write_gram(struct gram_col *col, const struct imat *m, const struct imatrix_job_opts *a,
                      bool overwrite, struct err *e) {
    struct gram g;
    gram_init(&g);
    g.n_chunks = m->n_chunks;
    g.chunk_size = m->chunk_size;
    for (int i = 0; i < m->n_datasets; i++) {
        g.dataset = xreallocarray(g.dataset, (size_t)g.n_datasets + 1, sizeof *g.dataset);
        g.dataset[g.n_datasets++] = xstrdup(m->dataset[i]);
    }
    int rc = gram_col_finish(col, &g, e);
    if (rc == 0) rc = gram_write(&g, a->gram, overwrite, e);
    gram_release(&g);
    return rc;
}

int imatrix_job_collect(struct work *w, const char *path, const struct imatrix_job_opts *a,
                        struct emit *r, struct err *e) {
    struct imat m;
    struct model *model = NULL;
    struct gram_col *gram = NULL;
    enum imat_form form;
    int rc;
    double t0 = progress_now_s();
    char *part = xasprintf("%s.part", a->out);
    struct imatrix_keep keep = {.path = part};
    imat_init(&m);
    TRY_GOTO(out, rc, pick_form(a, &form, e));
    TRY_GOTO(out, rc, check_outputs(w, path, a, e));
    TRY_GOTO(out, rc, work_pool(w, e));
    if (a->gram) TRY_GOTO(out, rc, gram_col_new(&gram, a->gram_block, w->isa, w->pool, e));
    TRY_GOTO(out, rc, model_open(&model, path, e));
    TRY_GOTO(out, rc, model_use_pre(model, a->pre, e));
    open_warn_context(w, model, a->ctx);
    struct imatrix_opts o = {.texts = a->text,
                             .n_texts = a->n_texts,
                             .ctx = a->ctx,
                             .max_chunks = a->chunks,
                             .parse_special = !a->no_special,
                             .isa = w->isa,
                             .moments_there = !w->isa_given,
                             .blas = gram ? blas_choice(w) : 0,
                             .pool = w->pool,
                             .gram = gram,
                             .moments = a->moments != NULL,
                             .reread = passes_reread(gguf_file_bytes(model->gguf)),
                             .device = w->device,
                             .keep = &keep};
    TRY_GOTO(out, rc, imatrix_collect(model, &o, &m, e));
    if (gram) TRY_GOTO(out, rc, write_gram(gram, &m, a, w->overwrite, e));
    if (a->moments) TRY_GOTO(out, rc, imat_write_moments(&m, a->moments, w->overwrite, e));
    if (ranks_me() == 0) TRY_GOTO(out, rc, imat_write(&m, a->out, form, w->overwrite, e));
    if (ranks_me() == 0) checkpoint_remove(part);
    report(r, &m, a->out, progress_now_s() - t0, keep.n_found);
out:
    free(part);
    gram_col_free(gram);
    model_close(model);
    imat_release(&m);
    return rc;
}
