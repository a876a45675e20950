// SPDX-License-Identifier: MIT
/* jobs/convert_job.c - hone convert: conversion of a Hugging Face folder to GGUF. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/convert_job.h"
#include "work/open.h"
#include "convert/mmproj.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "containers/qtype.h"
#include "template/chat_src.h"
#include "template/judge.h"

/* Rows of --dry-run. They are collected because numbers that precede them in the document are known
 * only later. */
struct plan_list {
    struct row {
        char name[64], shape[96];
        enum qtype type;
        uint64_t n_bytes;
    } * v;
    size_t n, cap;
};

/* Adds a tensor to the plan's list (ud). */
static void plan_row(void *ud, const char *name, enum qtype type, int n_dims, const int64_t ne[4],
                     uint64_t n_bytes) {
    struct plan_list *l = ud;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->v = xreallocarray(l->v, l->cap, sizeof *l->v);
    }
    struct row *r = &l->v[l->n++];
    *r = (struct row){.type = type, .n_bytes = n_bytes};
    snprintf(r->name, sizeof r->name, "%s", name);
    size_t k = 0;
    for (int i = 0; i < n_dims && k < sizeof r->shape; i++)
        k += (size_t)snprintf(r->shape + k, sizeof r->shape - k, "%s%lld", i ? " x " : "",
                              (long long)ne[i]);
}

/* Adds the table of tensors that would be written. */
static void emit_plan(struct emit *m, const struct plan_list *l) {
    emit_table(m, "tensors", "plan");
    emit_col(m, "name", "tensor");
    emit_col(m, "type", "type");
    emit_col(m, "shape", "shape (fastest first)");
    emit_col(m, "size_bytes", "bytes");
    for (size_t i = 0; i < l->n; i++) {
        emit_row(m);
        emit_cell_str(m, l->v[i].name);
        emit_cell_str(m, qtype_name(l->v[i].type));
        emit_cell_str(m, l->v[i].shape);
        emit_cell_i64(m, (int64_t)l->v[i].n_bytes);
    }
}

static void fill_mmproj(struct emit *m, const char *out, const struct mmproj_report *r) {
    char size[48];
    emit_fmt_bytes(size, r->size_bytes);
    emit_str(m, "mmproj", "vision tower", io_base(out));
    emit_str(m, "mmproj_projector", "projector", r->projector);
    emit_str(m, "mmproj_type", "type", r->type);
    emit_i64(m, "mmproj_n_tensors", "tensors", r->n_tensors);
    emit_i64(m, "mmproj_n_params", "parameters", r->n_params);
    emit_i64(m, "mmproj_size_bytes", NULL, (int64_t)r->size_bytes);
    emit_str(m, "mmproj_size", "size", size);
}

static void emit_result(struct emit *m, const struct convert_opts *o,
                        const struct convert_report *r) {
    emit_str(m, "output", "output", io_base(o->out));
    emit_str(m, "arch", "architecture", r->arch);
    emit_str(m, "type", "type", r->type);
    emit_i64(m, "n_tensors", "tensors", r->n_tensors);
    emit_i64(m, "n_params", "parameters", r->n_params);
    emit_i64(m, "n_mtp_tensors", "MTP tensors", r->n_mtp_tensors);
    if (o->keep_mxfp4) emit_i64(m, "n_kept_mxfp4", "kept as MXFP4", r->n_kept);
    if (r->n_nvfp4) emit_i64(m, "n_kept_nvfp4", "kept as NVFP4", r->n_nvfp4);
    emit_i64(m, "n_vision_left_out", "vision tensors left out", r->n_skipped_vision);
    emit_i64(m, "n_nan", r->n_nan ? "NaN values" : NULL, r->n_nan);
    emit_i64(m, "n_infinite", r->n_inf ? "infinite values" : NULL, r->n_inf);
    emit_i64(m, "n_overflow", r->n_overflow ? "overflowed values" : NULL, r->n_overflow);
    char size[48];
    emit_fmt_bytes(size, r->size_bytes);
    emit_i64(m, "size_bytes", NULL, (int64_t)r->size_bytes);
    emit_str(m, "size", "size", size);
    if (o->consume) {
        emit_fmt_bytes(size, r->extra_bytes);
        emit_str(m, "extra", "free space needed", size);
        emit_i64(m, "extra_bytes", NULL, (int64_t)r->extra_bytes);
    }
    emit_num(m, "seconds", "seconds", r->seconds, 2);
}

/* Warns if no conversation can use the chat template that was written, or would be. */
static int check_template(const struct convert_opts *o, struct err *e) {
    struct template_verdict v;
    struct chat_src s;
    struct err ignored;
    struct buf how = {0};
    const char *path = o->dry_run || o->split_max ? o->src : o->out;
    if (chat_src_open(&s, path, NULL, &ignored)) return 0;
    int rc = template_judge(&v, s.text, s.len, REPAIR_UNUSABLE, e);
    if (!rc && v.unusable) {
        template_remedy(&v, path, &how);
        log_warn("%s: %s; %s%s", s.label, v.why, how.data,
                 path == o->src && !o->dry_run ? ", and convert again" : "");
    }
    if (!rc) template_verdict_free(&v);
    buf_release(&how);
    chat_src_close(&s);
    return rc;
}

int convert_job_run(struct work *w, struct convert_job_opts *x, struct emit *m, struct err *e) {
    struct convert_opts *o = &x->o;
    const char *mmproj = x->mmproj;
    struct plan_list plan = {0};
    struct convert_report r;
    struct mmproj_report mr;
    if (o->consume && mmproj)
        return err_set(
            e, ERR_USAGE,
            "--consume and --mmproj cannot be used together: hone make --consume writes both; or "
            "first convert the vision tower, with --mmproj and without -o, then the "
            "rest with --consume, which keeps the shards that hold the tower");
    if (io_is_dir(o->src) && !o->consume) TRY(source_check(o->src, "convert", false, e));
    TRY(work_pool(w, e));
    o->overwrite = w->overwrite;
    o->pool = w->pool;
    if (o->dry_run) {
        o->plan = plan_row;
        o->plan_ud = &plan;
    }
    int rc = mmproj ? mmproj_run(o, mmproj, &mr, e) : 0; /* the shorter step first */
    if (!rc && o->out) rc = convert_run(o, &r, e);
    if (!rc && o->out) rc = check_template(o, e);
    if (!rc) {
        emit_bool(m, "dry_run", o->dry_run ? "dry run" : NULL, o->dry_run);
        if (o->out) emit_result(m, o, &r);
        if (mmproj) fill_mmproj(m, mmproj, &mr);
        if (o->dry_run) emit_plan(m, &plan);
    }
    free(plan.v);
    return rc;
}
