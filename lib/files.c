// SPDX-License-Identifier: MIT
/* lib/files.c - calls on existing files (plan, inspect, meta, verify, diff, replay, recipes,
 * publish, split, merge), synth, doctor and bench-kernels. */
#include <string.h>

#include "jobs/bench_job.h"
#include "jobs/doctor.h"
#include "jobs/gguf_diff.h"
#include "jobs/inspect.h"
#include "jobs/meta_job.h"
#include "plan/memory_plan.h"
#include "jobs/publish_job.h"
#include "jobs/recipes_job.h"
#include "jobs/replay.h"
#include "jobs/split_job.h"
#include "jobs/synth_job.h"
#include "jobs/verify.h"
#include "lib/form.h"
#include "lib/options.h"

enum {
    PLAN,
    INSPECT,
    META,
    VERIFY,
    DIFF,
    REPLAY,
    RECIPES,
    PUBLISH,
    PUBLISH_CHECK,
    SPLIT,
    MERGE,
    SYNTH,
    DOCTOR,
    BENCH
};

/* ---- options ---- */

#include "commands/rows.h"
#define TO memory_plan_opts
const struct option plan_options[] = {
#include "commands/plan.def"
    {0}};
#undef TO
#define TO inspect_opts
const struct option inspect_options[] = {
#include "commands/inspect.def"
    {0}};
#undef TO
#define TO meta_opts
const struct option meta_options[] = {
#include "commands/meta.def"
    {0}};
#undef TO
#define TO verify_opts
const struct option verify_options[] = {
#include "commands/verify.def"
    {0}};
#undef TO
#define TO diff_opts
const struct option diff_options[] = {
#include "commands/diff.def"
    {0}};
#undef TO
#define TO replay_opts
const struct option replay_options[] = {
#include "commands/replay.def"
    {0}};
#undef TO
#define TO recipes_opts
const struct option recipes_options[] = {
#include "commands/recipes.def"
    {0}};
#undef TO
#define TO publish_job_opts
const struct option publish_options[] = {
#include "commands/publish.def"
    {0}};
#undef TO
#define TO split_opts
const struct option split_options[] = {
#include "commands/split.def"
    {0}};
#undef TO
#define TO merge_opts
const struct option merge_options[] = {
#include "commands/merge.def"
    {0}};
#undef TO
#define TO synth_job_opts
const struct option synth_options[] = {
#include "commands/synth.def"
    {0}};
#undef TO
#define TO doctor_opts
const struct option doctor_options[] = {
#include "commands/doctor.def"
    {0}};
#undef TO
#define TO bench_kernels_opts
const struct option bench_kernels_options[] = {
#include "commands/bench_kernels.def"
    {0}};
#undef TO

const struct form forms_files[] = {
    [PLAN] = FORM(plan, "plan", hone_plan_opts, plan_options),
    [INSPECT] = FORM_OF_ARGUMENTS(inspect, "inspect", inspect_options),
    [META] = FORM(meta, "meta", hone_meta_opts, meta_options),
    [VERIFY] = FORM_OF_ARGUMENTS(verify, "verify", verify_options),
    [DIFF] = FORM_OF_ARGUMENTS(diff, "diff", diff_options),
    [REPLAY] = FORM(replay, "replay", hone_replay_opts, replay_options),
    [RECIPES] = FORM(recipes, "recipes", hone_recipes_opts, recipes_options),
    [PUBLISH] = FORM(publish, "publish", hone_publish_opts, publish_options),
    [PUBLISH_CHECK] = FORM_OF_ARGUMENTS(publish_check, "publish", publish_options),
    [SPLIT] = FORM(split, "split", hone_split_opts, split_options),
    [MERGE] = FORM_OF_ARGUMENTS(merge, "merge", merge_options),
    [SYNTH] = FORM(synth, "synth", hone_synth_opts, synth_options),
    [DOCTOR] = FORM_OF_ARGUMENTS(doctor, "doctor", doctor_options),
    [BENCH] = FORM_OF_ARGUMENTS(bench_kernels, "bench-kernels", bench_kernels_options),
    {0}};

/* ---- calls ---- */

int hone_plan(const char *model, const struct hone_plan_opts *opts, const struct hone_opts *o,
              char **json, struct hone_error *e) {
    NEED(model, e);
    struct hone_plan_opts po;
    struct memory_plan_opts j = memory_plan_usual;
    struct task t;
    int rc = task_begin_form(&t, &forms_files[PLAN], opts, &po, &j, o, json, e);
    if (rc) return rc;
    j.path = &model;
    j.n_paths = 1;
    return task_end(&t, memory_plan_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_inspect(const char *path, int tensors, const struct hone_opts *o, char **json,
                 struct hone_error *e) {
    NEED(path, e);
    struct task t;
    const struct inspect_opts j = {.path = path, .keys = "all", .tensors = tensors != 0};
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, inspect_run(&j, t.m, &t.c.err), json, e);
}

int hone_meta(const char *path, const char *const *edits, const struct hone_meta_opts *opts,
              const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(path, e);
    struct hone_meta_opts mo;
    struct meta_opts j = {.path = path, .in_full = true};
    struct task t;
    int rc = task_begin_form(&t, &forms_files[META], opts, &mo, &j, o, json, e);
    if (rc) return rc;
    j.set = task_list(&t, edits);
    return task_end(&t, meta_run(&j, t.m, &t.c.err), json, e);
}

int hone_verify(const char *path, int deep, const char *manifest, const struct hone_opts *o,
                char **json, struct hone_error *e) {
    NEED(path, e);
    struct task t;
    const struct verify_opts j = {.path = path, .manifest = manifest, .deep = deep != 0};
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, verify_run(&j, t.m, &t.c.err), json, e);
}

int hone_diff(const char *a, const char *b, int weights, const struct hone_opts *o, char **json,
              struct hone_error *e) {
    NEED(a, e);
    NEED(b, e);
    struct task t;
    const struct diff_opts j = {.a = a, .b = b, .list = true, .want_error = weights != 0};
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, diff_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_replay(const char *file, const struct hone_replay_opts *opts, const struct hone_opts *o,
                char **json, struct hone_error *e) {
    NEED(file, e);
    struct hone_replay_opts ro;
    struct replay_opts j = {.path = file};
    struct task t;
    int rc = task_begin_form(&t, &forms_files[REPLAY], opts, &ro, &j, o, json, e);
    return rc ? rc : task_end(&t, replay_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_recipes(const char *model, const struct hone_recipes_opts *opts, const struct hone_opts *o,
                 char **json, struct hone_error *e) {
    struct hone_recipes_opts ro;
    struct recipes_opts j = {.model = model};
    struct task t;
    int rc = task_begin_form(&t, &forms_files[RECIPES], opts, &ro, &j, o, json, e);
    return rc ? rc : task_end(&t, recipes_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_publish(const char *folder, const struct hone_publish_opts *opts,
                 const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(folder, e);
    struct hone_publish_opts po;
    struct publish_job_opts j = {.o = {.dir = folder}};
    struct task t;
    int rc = task_begin_form(&t, &forms_files[PUBLISH], opts, &po, &j, o, json, e);
    if (rc) return rc;
    j.o.way = t.w.overwrite ? GUARD_KEEP : GUARD_REFUSE;
    return task_end(&t, publish_job_run(&j, t.m, &t.c.err), json, e);
}

int hone_publish_check(const char *folder, int quick, const struct hone_opts *o, char **json,
                       struct hone_error *e) {
    NEED(folder, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, publish_job_check(folder, quick != 0, t.m, &t.c.err), json, e);
}

int hone_split(const char *in, const struct hone_split_opts *opts, const struct hone_opts *o,
               char **json, struct hone_error *e) {
    NEED(in, e);
    struct hone_split_opts so;
    struct split_opts j = {.path = in};
    struct task t;
    int rc = task_begin_form(&t, &forms_files[SPLIT], opts, &so, &j, o, json, e);
    return rc ? rc : task_end(&t, split_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_merge(const char *shard, const char *path, int overwrite, const struct hone_opts *o,
               char **json, struct hone_error *e) {
    NEED(shard, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    if (rc) return rc;
    t.w.overwrite = overwrite != 0;
    const struct merge_opts j = {.shard = shard, .out = path};
    return task_end(&t, merge_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_synth(const char *path, const struct hone_synth_opts *opts, const struct hone_opts *o,
               char **json, struct hone_error *e) {
    struct hone_synth_opts so;
    struct synth_job_opts j = synth_usual;
    struct task t;
    int rc = task_begin_form(&t, &forms_files[SYNTH], opts, &so, &j, o, json, e);
    if (rc) return rc;
    j.o.out = path;
    return task_end(&t, synth_job_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_doctor(const char *model, const char *list, const struct hone_opts *o, char **json,
                struct hone_error *e) {
    struct task t;
    const struct doctor_opts j = {.model = model,
                                  .limits = list && strcmp(list, "limits") == 0,
                                  .models = list && strcmp(list, "models") == 0};
    int rc = task_begin(&t, o, json, e);
    if (rc) return rc;
    if (list && !j.limits && !j.models)
        rc = err_set(&t.c.err, ERR_USAGE, "list: '%.80s' is neither limits nor models", list);
    else
        rc = doctor_run(&t.w, &j, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_bench_kernels(const char *types, double seconds, const struct hone_opts *o, char **json,
                       struct hone_error *e) {
    struct task t;
    struct bench_kernels_opts j = bench_kernels_usual;
    j.types = types;
    if (seconds > 0) j.seconds = seconds;
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, bench_job_run(&t.w, &j, t.m, &t.c.err), json, e);
}
