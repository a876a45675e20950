// SPDX-License-Identifier: MIT
/* lib/steps.c - the steps on files of include/hone.h: typed options in, a job of jobs/ below them,
 * its result as JSON. The commands of the same names are options of the same jobs. */
#include <stdio.h>
#include <string.h>

#include "core/prog.h"
#include "jobs/convert_job.h"
#include "jobs/gguf_diff.h"
#include "jobs/imatrix_job.h"
#include "jobs/inspect.h"
#include "jobs/make.h"
#include "jobs/memory_plan.h"
#include "jobs/quantize_job.h"
#include "jobs/sensitivity.h"
#include "jobs/verify.h"
#include "lib/call.h"
#include "runtime/engine/kv_type.h"

enum { WINDOW = 512, PROBE_WINDOWS = 16, PROBE_TYPES = 3 };

/* A call that is a job; its owner lives as long as the call. */
struct task {
    struct owner *owner;
    struct call c;
    struct work w;
    struct emit *m;
};

static int task_begin(struct task *s, const struct hone_opts *o, int overwrite, char **json,
                      struct hone_error *e) {
    memset(s, 0, sizeof *s);
    if (json) *json = NULL;
    int rc = owner_new(&s->owner, o, NULL, e);
    if (!rc) rc = call_begin(&s->c, s->owner, e);
    if (rc) {
        owner_drop(s->owner);
        return rc;
    }
    s->w = (struct work){.ctx = &s->c.ctx,
                         .overwrite = overwrite != 0,
                         .threads = s->owner->o.n_threads,
                         .isa = kern_isa_best(),
                         .tmp = "/tmp"};
    arena_init(&s->w.mem);
    s->m = emit_new();
    return HONE_OK;
}

/* Ends the call; what was found goes to *json where the job says that it is whole. */
static int task_end(struct task *s, int rc, char **json, struct hone_error *e) {
    struct buf b = {0};
    if (json && (!rc || rc == ERR_VERDICT)) {
        emit_str(s->m, "hone_version", NULL, HONE_VERSION);
        emit_render(s->m, EMIT_JSON, &b);
    }
    emit_free(s->m);
    arena_release(&s->w.mem);
    rc = call_end(&s->c, rc, e);
    owner_drop(s->owner);
    if (json && b.len)
        *json = buf_take(&b);
    else
        buf_release(&b);
    return rc;
}

static struct str_list list_of(struct work *w, const char *const *texts) {
    struct str_list l = {0};
    for (int i = 0; texts && texts[i]; i++) work_list_add(w, &l, texts[i]);
    return l;
}

/* Returns the number as a text that --budget would take: "15938355200". */
static const char *bytes_text(struct work *w, uint64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return arena_strndup(&w->mem, text, strlen(text));
}

static int need(const char *path, bool dry_run, struct err *e) {
    return path || dry_run ? 0 : err_set(e, ERR_USAGE, "a path of the output is missing");
}

int hone_convert(const char *folder, const char *path, const struct hone_convert_opts *opts,
                 const struct hone_opts *o, char **json, struct hone_error *e) {
    struct hone_convert_opts co;
    struct task s;
    int rc = lib_take(&co, opts, sizeof co, "hone_convert_opts", e);
    if (rc || (rc = task_begin(&s, o, co.overwrite, json, e))) return rc;
    struct convert_opts j = {.src = folder,
                             .out = path,
                             .type = co.type,
                             .name = co.name,
                             .keep_mxfp4 = co.keep_mxfp4 != 0,
                             .pad = co.pad != 0,
                             .lora = co.lora,
                             .no_mtp = co.no_mtp != 0,
                             .dry_run = co.dry_run != 0,
                             .split_max = co.split_max};
    rc = need(path ? path : co.mmproj, false, &s.c.err);
    if (!rc) rc = convert_job_run(&s.w, &j, co.mmproj, s.m, &s.c.err);
    return task_end(&s, rc, json, e);
}

int hone_imatrix(const char *model, const char *const *texts, const char *path,
                 const struct hone_imatrix_opts *opts, const struct hone_opts *o, char **json,
                 struct hone_error *e) {
    struct hone_imatrix_opts io;
    struct task s;
    int rc = lib_take(&io, opts, sizeof io, "hone_imatrix_opts", e);
    if (rc || (rc = task_begin(&s, o, io.overwrite, json, e))) return rc;
    const struct str_list l = list_of(&s.w, texts);
    const struct imatrix_job_opts j = {.out = path,
                                       .format = io.format,
                                       .gram = io.gram,
                                       .text = l.v,
                                       .n_texts = l.n,
                                       .ctx = io.n_ctx,
                                       .chunks = io.max_windows,
                                       .no_special = io.no_special != 0};
    rc = need(path, false, &s.c.err);
    if (!rc && !l.n) rc = err_set(&s.c.err, ERR_USAGE, "imatrix: at least one text is needed");
    if (!rc) rc = device_parse(io.device, &s.w.device, &s.c.err);
    if (!rc) rc = imatrix_job_collect(&s.w, model, &j, s.m, &s.c.err);
    return task_end(&s, rc, json, e);
}

int hone_imatrix_merge(const char *const *from, const char *path,
                       const struct hone_imatrix_opts *opts, const struct hone_opts *o, char **json,
                       struct hone_error *e) {
    struct hone_imatrix_opts io;
    struct task s;
    int rc = lib_take(&io, opts, sizeof io, "hone_imatrix_opts", e);
    if (rc || (rc = task_begin(&s, o, io.overwrite, json, e))) return rc;
    const struct str_list l = list_of(&s.w, from);
    const struct imatrix_job_opts j = {.out = path, .format = io.format};
    rc = need(path, false, &s.c.err);
    if (!rc && !l.n) rc = err_set(&s.c.err, ERR_USAGE, "imatrix: at least one matrix is needed");
    if (!rc) rc = imatrix_job_merge(&s.w, l.v, l.n, &j, s.m, &s.c.err);
    return task_end(&s, rc, json, e);
}

int hone_sensitivity(const char *model, const char *path, const struct hone_sensitivity_opts *opts,
                     const struct hone_opts *o, char **json, struct hone_error *e) {
    struct hone_sensitivity_opts so;
    struct task s;
    int rc = lib_take(&so, opts, sizeof so, "hone_sensitivity_opts", e);
    if (rc || (rc = task_begin(&s, o, so.overwrite, json, e))) return rc;
    const struct mix_probe_opts j = {.w = &s.w,
                                     .model = model,
                                     .imatrix = so.imatrix,
                                     .out = path,
                                     .texts = list_of(&s.w, so.texts),
                                     .ctx = so.n_ctx ? so.n_ctx : WINDOW,
                                     .n_chunks = so.max_windows ? so.max_windows : PROBE_WINDOWS,
                                     .n_types = PROBE_TYPES,
                                     .rounds = 1,
                                     .seconds = so.seconds,
                                     .overwrite = so.overwrite != 0};
    rc = need(path, false, &s.c.err);
    if (!rc) rc = device_parse(so.device, &s.w.device, &s.c.err);
    if (!rc) rc = sensitivity_run(&j, s.m, &s.c.err);
    return task_end(&s, rc, json, e);
}

int hone_mix(const char *in, const char *path, const struct hone_mix_opts *opts,
             const struct hone_opts *o, char **json, struct hone_error *e) {
    struct hone_mix_opts mo;
    struct task s;
    int rc = lib_take(&mo, opts, sizeof mo, "hone_mix_opts", e);
    if (rc || (rc = task_begin(&s, o, mo.overwrite, json, e))) return rc;
    struct quantize_job_opts j = {.in = in,
                                  .out = path,
                                  .imatrix = mo.imatrix,
                                  .gram = mo.gram,
                                  .search = mo.search,
                                  .plan_out = mo.plan_out,
                                  .dry_run = mo.dry_run != 0,
                                  .mix = {.sensitivity = mo.sensitivity,
                                          .avoid = mo.avoid,
                                          .kv_type = mo.kv_type,
                                          .vram = mo.vram,
                                          .reserve = mo.reserve,
                                          .ctx = mo.n_ctx,
                                          .slots = mo.n_slots,
                                          .gate = list_of(&s.w, mo.gate)}};
    if (mo.bytes) work_list_add(&s.w, &j.mix.budget, bytes_text(&s.w, mo.bytes));
    rc = need(path, mo.dry_run != 0, &s.c.err);
    if (!rc && !mo.bytes && !mo.vram)
        rc = err_set(&s.c.err, ERR_USAGE, "a mix needs a limit: bytes or vram");
    if (!rc) rc = quantize_job_run(&s.w, &j, s.m, &s.c.err);
    return task_end(&s, rc, json, e);
}

/* Returns the value of an option for which 0 means `usual`, and less than 0 no limit, which the job
 * calls 0. */
static int64_t limit(int64_t v, int64_t usual) {
    return v < 0 ? 0 : v ? v : usual;
}

int hone_make(const char *source, const char *folder, const struct hone_make_opts *opts,
              const struct hone_opts *o, char **json, struct hone_error *e) {
    struct hone_make_opts mo;
    struct task s;
    struct buf after = {0};
    int rc = lib_take(&mo, opts, sizeof mo, "hone_make_opts", e);
    if (rc || (rc = task_begin(&s, o, mo.overwrite, json, e))) return rc;
    struct make j = make_usual;
    j.w = &s.w;
    j.src = source;
    j.plain = mo.plain != 0;
    j.dry_run = mo.dry_run != 0;
    j.redo = mo.overwrite != 0;
    if (mo.seconds != 0) j.hours = mo.seconds < 0 ? 0 : mo.seconds / 3600;
    j.calib = list_of(&s.w, mo.calib);
    j.eval = list_of(&s.w, mo.eval);
    j.probe = list_of(&s.w, mo.probe);
    j.budget = list_of(&s.w, mo.budget);
    j.tools = mo.tools;
    j.calib_chunks = limit(mo.calib_windows, 0);
    j.asked_chunks = j.eval_chunks = limit(mo.eval_windows, j.eval_chunks);
    j.tools_cases = limit(mo.tools_cases, j.tools_cases);
    rc = need(folder, false, &s.c.err);
    if (!rc) rc = device_parse(mo.device, &s.w.device, &s.c.err);
    if (!rc) rc = make_run(&j, mo.recipes, folder, s.m, &after, &s.c.err);
    buf_release(&after);
    return task_end(&s, rc, json, e);
}

int hone_plan(const char *model, const struct hone_plan_opts *opts, const struct hone_opts *o,
              char **json, struct hone_error *e) {
    struct hone_plan_opts po;
    struct task s;
    int rc = lib_take(&po, opts, sizeof po, "hone_plan_opts", e);
    if (rc || (rc = task_begin(&s, o, 0, json, e))) return rc;
    const struct memory_plan_opts j = {.path = model,
                                       .kv_name = po.kv_type ? po.kv_type : KV_USUAL,
                                       .vram = po.vram,
                                       .reserve = po.reserve ? po.reserve : PLAN_USUAL_RESERVE,
                                       .ctx = po.n_ctx,
                                       .slots = po.n_slots ? po.n_slots : 1,
                                       .recipes = po.recipes != 0};
    return task_end(&s, memory_plan_run(&s.w, &j, s.m, &s.c.err), json, e);
}

int hone_inspect(const char *path, int tensors, const struct hone_opts *o, char **json,
                 struct hone_error *e) {
    struct task s;
    const struct inspect_opts j = {.path = path, .keys = KEYS_ALL, .tensors = tensors != 0};
    int rc = task_begin(&s, o, 0, json, e);
    return rc ? rc : task_end(&s, inspect_run(&j, s.m, &s.c.err), json, e);
}

int hone_verify(const char *path, int deep, const char *manifest, const struct hone_opts *o,
                char **json, struct hone_error *e) {
    struct task s;
    const struct verify_opts j = {.path = path, .manifest = manifest, .deep = deep != 0};
    int rc = task_begin(&s, o, 0, json, e);
    return rc ? rc : task_end(&s, verify_run(&j, s.m, &s.c.err), json, e);
}

int hone_diff(const char *a, const char *b, int weights, const struct hone_opts *o, char **json,
              struct hone_error *e) {
    struct task s;
    const struct diff_opts j = {.a = a, .b = b, .list = true, .want_error = weights != 0};
    int rc = task_begin(&s, o, 0, json, e);
    return rc ? rc : task_end(&s, diff_run(&s.w, &j, s.m, &s.c.err), json, e);
}
