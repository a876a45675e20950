// SPDX-License-Identifier: MIT
/* convert/convert.c - conversion driver: plan, metadata, then the tensors in file order. The output
 * file appears under its name only after the last byte is written; an error or interruption leaves
 * no file. */
#include "convert/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/consume.h"
#include "convert/conv_plan.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/out.h"
#include "base/progress.h"
#include "base/str.h"

struct run {
    struct conv_plan plan;
    struct gguf_w *w;
    struct xform_buf *buf;
    struct consume c; /* with o->consume */
    struct progress prog;
    uint64_t done;
};

/* Reports n_bytes more as done. Returns ERR_INTR if the user has interrupted. */
static int add_progress(void *ud, uint64_t n_bytes, struct err *e) {
    struct run *r = ud;
    r->done += n_bytes;
    progress_update(&r->prog, r->done);
    return progress_interrupted() ? err_set(e, ERR_INTR, "interrupted") : 0;
}

/* Returns an error if path is a file of this folder, or a link to one; GGUF files do not count. */
static int apart_from_folder(const char *path, const char *dir, struct err *e) {
    struct io_names l;
    if (!io_exists(path) || !io_is_dir(dir)) return 0;
    int rc = io_list(&l, dir, e);
    for (int i = 0; i < l.n && !rc; i++) {
        if (str_ends(l.v[i], ".gguf")) continue;
        char *name = io_join(dir, l.v[i]);
        const char *in[] = {name};
        if (out_apart(path, in, 1, e))
            rc = err_set(e, ERR_USAGE, "%s is a file of %s: name another output", path, dir);
        free(name);
    }
    io_names_release(&l);
    return rc;
}

int convert_apart(const struct convert_opts *o, const char *out, struct err *e) {
    const char *const dir[] = {o->src, o->lora, o->target};
    for (size_t i = 0; i < COUNT_OF(dir); i++)
        if (dir[i]) TRY(apart_from_folder(out, dir[i], e));
    return 0;
}

/* Returns an error unless source and output are usable. */
static int check_opts(const struct convert_opts *o, struct err *e) {
    if (!o->src || (!o->out && !o->dry_run))
        return err_set(e, ERR_USAGE, "a folder and an output file are required");
    if (!o->dry_run) TRY(convert_apart(o, o->out, e));
    TRY(consume_check(o, e));
    return o->dry_run || o->consume ? 0 : out_check(o->out, o->overwrite, e);
}

/* Writes the keys and declares the tensors. */
static int declare_output(struct run *r, const struct convert_opts *o, struct err *e) {
    r->w = gguf_w_new();
    TRY(meta_write(&r->plan, o, r->w, e));
    for (int64_t i = 0; i < r->plan.n_items; i++) {
        const struct item *it = &r->plan.item[i];
        TRY(gguf_w_tensor(r->w, it->inst.name, it->type, it->inst.n_dims, it->inst.ne, e));
        if (o->plan)
            o->plan(o->plan_ud, it->inst.name, it->type, it->inst.n_dims, it->inst.ne, it->n_bytes);
    }
    if (o->split_max) gguf_w_split(r->w, o->split_max, false);
    return 0;
}

/* Warns about NaN, infinite and overflowing values of a tensor, and if at least 1% became 0. */
static void warn_values(const struct item *it, const struct tally *t) {
    if (t->n_nan)
        log_warn("%s: %lld values are not numbers (NaN); they are in the output too", it->inst.name,
                 (long long)t->n_nan);
    if (t->n_inf)
        log_warn("%s: %lld values are infinite; they are in the output too", it->inst.name,
                 (long long)t->n_inf);
    if (t->n_overflow)
        log_warn("%s: %lld values do not fit %s and became infinite: use --type bf16",
                 it->inst.name, (long long)t->n_overflow, qtype_name(it->type));
    const int64_t *ne = it->inst.ne;
    if (t->n_zeroed && t->n_zeroed >= ne[0] * ne[1] * ne[2] / 100)
        log_warn("%s: %lld values are too small for %s and became 0: use --type bf16",
                 it->inst.name, (long long)t->n_zeroed, qtype_name(it->type));
}

/* Converts and writes all tensors. */
static int write_all(struct run *r, const struct convert_opts *o, struct convert_report *rep,
                     struct err *e) {
    const struct conv_plan *p = &r->plan;
    uint64_t total = 0;
    int64_t first = 0;
    TRY(o->consume ? consume_begin(&r->c, &first, e) : gguf_w_begin(r->w, o->out, o->overwrite, e));
    if (first < 0) return 0; /* the output is complete */
    for (int64_t i = first; i < p->n_items; i++) total += p->item[i].n_bytes;
    progress_begin(&r->prog, "convert", PROG_BYTES, total);
    r->buf = xform_buf_new();
    int rc = 0;
    for (int64_t i = first; i < p->n_items && !rc; i++) {
        struct tally t = {0};
        rc = xform_item(p, &p->item[i], o->pool, r->buf, r->w, &t, add_progress, r, e);
        if (!rc) warn_values(&p->item[i], &t);
        rep->n_nan += t.n_nan;
        rep->n_inf += t.n_inf;
        rep->n_overflow += t.n_overflow;
        if (!rc && o->consume) rc = consume_item(&r->c, i, e);
    }
    progress_end(&r->prog);
    return rc ? rc : gguf_w_commit(r->w, e);
}

static void fill_report(struct convert_report *rep, const struct run *r) {
    const struct conv_plan *p = &r->plan;
    snprintf(rep->arch, sizeof rep->arch, "%s", p->arch->name);
    snprintf(rep->type, sizeof rep->type, "%s", qtype_name(p->type));
    rep->n_tensors = p->n_items;
    rep->n_params = p->n_params;
    rep->n_mtp_tensors = p->n_mtp_tensors;
    rep->n_kept = p->n_kept;
    rep->n_nvfp4 = p->n_nvfp4;
    rep->n_skipped_vision = p->n_vision;
    rep->n_tower = plan_count_tower(p);
    rep->size_bytes = gguf_w_total_bytes(r->w);
}

/* Plans and, unless it is a dry run, writes the conversion. */
static int run_steps(struct run *r, const struct convert_opts *o, struct convert_report *rep,
                     struct err *e) {
    bool done = false;
    TRY(check_opts(o, e));
    if (o->consume) TRY(consumed_finish(o, &done, rep, e));
    if (done) return 0;
    TRY(plan_make(&r->plan, o, e));
    if (r->plan.n_vision && !o->tower_told)
        log_info("%lld vision tensors are left out of this file: they belong to a projector file "
                 "(--mmproj)",
                 (long long)r->plan.n_vision);
    TRY(declare_output(r, o, e));
    if (o->consume) TRY(consume_open(&r->c, &r->plan, o, r->w, e));
    rep->extra_bytes = r->c.extra;
    fill_report(rep, r);
    if (o->dry_run) return 0;
    TRY(write_all(r, o, rep, e));
    return o->consume ? consume_end(&r->c, e) : 0;
}

int convert_run(const struct convert_opts *o, struct convert_report *rep, struct err *e) {
    double start = progress_now_s();
    struct run r;
    memset(&r, 0, sizeof r);
    memset(rep, 0, sizeof *rep);
    int rc = run_steps(&r, o, rep, e);
    xform_buf_free(r.buf);
    consume_close(&r.c, rc);
    if (r.w) gguf_w_free(r.w);
    plan_release(&r.plan);
    rep->seconds = progress_now_s() - start;
    return rc;
}
