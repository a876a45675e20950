// SPDX-License-Identifier: MIT
/* make/make.c - main function of `hone make`, and the order of its steps. A step is skipped if its
 * record has the same inputs (make/step.h), so a job that was interrupted or extended resumes where
 * it stopped. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/measure/measurement_cache.h"
#include "make/candidates.h"
#include "make/make.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"

bool make_reuse(struct make *mk, struct step *s, cJSON **result) {
    *result = NULL;
    const bool done = !mk->redo && step_done(s, result);
    mk->n_found += mk->counting && done;
    mk->n_missing += mk->counting && !done;
    if (!done) return false;
    log_debug("%s: done before", s->name);
    return true;
}

void make_keep(cJSON **to, cJSON *result) {
    cJSON_Delete(*to);
    *to = result;
}

void make_note(struct make *mk, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    work_list_add(mk->w, &mk->notes, arena_strdup(&mk->w->mem, text));
}

void make_left_out(struct make *mk, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (int i = 0; i < mk->cut_short.n; i++)
        if (strcmp(mk->cut_short.v[i], text) == 0) return;
    work_list_add(mk->w, &mk->cut_short, arena_strdup(&mk->w->mem, text));
}

void make_forget(struct make *mk, const char *text) {
    int n = 0;
    for (int i = 0; i < mk->cut_short.n; i++)
        if (!strstr(mk->cut_short.v[i], text)) mk->cut_short.v[n++] = mk->cut_short.v[i];
    mk->forgot |= n < mk->cut_short.n;
    mk->cut_short.n = n;
}

void made_release(struct made *f) {
    free(f->file);
    free(f->path);
    free(f->why);
    cJSON_Delete(f->eval);
    cJSON_Delete(f->speed);
    for (int k = 0; k < SUITE_KINDS; k++) cJSON_Delete(f->tools[k]);
    cJSON_Delete(f->drafts);
    cJSON_Delete(f->images);
    *f = (struct made){0};
}

void made_drop(struct make *mk) {
    made_release(&mk->file[--mk->n_files]);
}

/* Closes the cache of long steps; remove: then deletes it. */
static void close_kept(struct make *mk, bool remove) {
    results_cache_close(mk->w->kept, remove);
    mk->w->kept = NULL;
}

static void release_make(struct make *mk) {
    while (mk->n_files) made_drop(mk);
    free(mk->file);
    make_free_extras(mk);
    free(mk->name);
    free(mk->imatrix);
    close_kept(mk, false);
    cJSON_Delete(mk->about_imatrix);
    cJSON_Delete(mk->about_eval);
    eval_rows_free(mk->rows);
    job_close(&mk->job);
}

/* Removes unfinished files and candidates of earlier runs, which this job did not need. */
static int remove_left(struct make *mk, struct err *e) {
    TRY(job_remove_parts(&mk->job, e));
    return cand_remove_left(&mk->job, e);
}

/* Opens the steps' results cache, which keeps finished windows until the steps have records. */
static void open_kept(struct make *mk) {
    char *path = io_join(mk->job.state, "measured");
    if (mk->redo) (void)os_unlink(path);
    mk->w->kept = kept_open_own(path);
    free(path);
}

/* Opens the results cache of an earlier run, read-only. */
static void look_at_kept(struct make *mk) {
    char *path = io_join(mk->job.state, "measured");
    mk->w->kept = mk->redo ? NULL : results_cache_look(path);
    free(path);
}

/* Starts writing, once the folder is known to belong to this model. */
static int begin(struct make *mk, struct err *e) {
    if (make_counts(mk)) return 0;
    TRY(make_pre_keep(mk, e));
    if (mk->redo) TRY(job_remove_parts(&mk->job, e));
    TRY(make_set_aside(mk, e));
    open_kept(mk);
    return 0;
}

static bool has_output(const struct make *mk) {
    return mk->job.dir != NULL;
}
/* Returns whether the model has a vision tower to be converted. */
static bool has_tower(const struct make *mk) {
    return mk->tower.tower != TOWER_NONE;
}
/* Returns whether the model has an MTP block. */
static bool has_draft(const struct make *mk) {
    return make_extra_file(mk, EXTRA_DRAFT) != NULL;
}
/* Returns whether the files can draft for themselves. */
static bool can_draft(const struct make *mk) {
    return mk->drafts;
}
/* Returns whether the job makes draft files, and has their model. */
static bool has_target(const struct make *mk) {
    return mk->target_file != NULL;
}
/* Returns whether questions about images were given. */
static bool has_images(const struct make *mk) {
    return mk->images != NULL;
}
/* Returns whether the job makes individual recipes. */
static bool wants_presets(const struct make *mk) {
    return mk->recipes.n > 0;
}
/* Returns whether the job makes the best file of each size class. */
static bool wants_classes(const struct make *mk) {
    return mk->classes.n > 0;
}
/* Returns whether the job makes mixes for budgets. */
static bool wants_budgets(const struct make *mk) {
    return mk->budget.n > 0;
}
/* Returns whether sensitivity probes are needed: for size classes or budgets. */
static bool wants_probes(const struct make *mk) {
    return mk->classes.n || mk->budget.n;
}

static const struct make_step {
    const char *what; /* logged when the step begins; NULL: no message */
    int (*run)(struct make *mk, struct err *e);
    bool (*asked)(const struct make *mk);
    /* Part of the forecast that this step completes; PART_COUNT: none. */
    enum plan_part part;
    bool runs; /* needs a model that hone can run */
} steps[] = {
    {NULL, make_source, has_output, PART_COUNT, false},
    {NULL, begin, has_output, PART_COUNT, false},
    {"conversion", make_convert, has_output, PART_COUNT, false},
    {"vision tower", make_tower, has_tower, PART_COUNT, false},
    {"draft file of the MTP block", make_draft, has_draft, PART_COUNT, false},
    {NULL, make_template, has_output, PART_COUNT, false},
    {NULL, make_check_images, has_images, PART_COUNT, true},
    {NULL, make_texts, has_output, PART_COUNT, true},
    {NULL, make_forecast, has_output, PART_COUNT, true},
    {NULL, make_check_disk, has_output, PART_COUNT, true},
    {"importance matrix", make_imatrix, has_output, PART_IMATRIX, true},
    {"presets", make_quantize, wants_presets, PART_PRESETS, false},
    {"cost of each type for each part of the model", make_sensitivity, wants_probes, PART_PROBES,
     true},
    {"the best file of each size class", make_ladder, wants_classes, PART_COUNT, true},
    {"mixes of other sizes", make_mix, wants_budgets, PART_JUDGE, true},
    {NULL, remove_left, has_output, PART_COUNT, false},
    {"perplexity and divergence", make_eval, has_output, PART_EVAL, true},
    {"acceptance of drafts", make_acceptance, can_draft, PART_COUNT, true},
    {"speed", make_speed, has_output, PART_SPEED, true},
    {"questions about images", make_images, has_images, PART_IMAGES, true},
    {"tool calls, loops and checks", make_tools, has_output, PART_TOOLS, true},
    {"acceptance of drafts", make_acceptance, has_target, PART_COUNT, false},
    {"checksums and report", make_report, has_output, PART_REPORT, false},
};
enum { FORECAST = 8 }; /* index of make_forecast */

/* ---- remaining work ---- */

bool make_counts(const struct make *mk) {
    return mk->counting;
}

/* Returns the number of files that the job makes, including the base. */
static int n_files(const struct make *mk) {
    return 1 + mk->classes.n + mk->recipes.n + (mk->plan.mixes ? mk->budget.n : 0);
}

/* Returns whether all parts before `end` are done. */
static bool all_done(const struct make *mk, enum plan_part end) {
    struct plan_in whole = mk->in;
    for (int i = 0; i < (int)end; i++) {
        whole.done[i] = 0;
        if (mk->in.done[i] < 1 && plan_seconds(&whole, &mk->plan, (enum plan_part)i) > 0)
            return false;
    }
    return true;
}

bool make_nothing_left(const struct make *mk) {
    return mk->plan.made && !mk->extra_missing && all_done(mk, PART_COUNT);
}

void make_share(struct make *mk, enum plan_part part, double found, int of, int before) {
    if (of + before) mk->in.done[part] = (mk->in.done[part] * before + found) / (of + before);
}

/* Records the share of its part that step s has found done while counting. */
static void note_share(struct make *mk, const struct make_step *s) {
    int of = mk->n_found + mk->n_missing;
    if (s->part >= PART_EVAL && of < n_files(mk)) of = n_files(mk);
    if (s->run == make_mix) {
        make_share(mk, PART_LADDER, mk->n_found + mk->n_begun, mk->budget.n, mk->classes.n);
        make_share(mk, PART_JUDGE, mk->n_found, mk->budget.n, mk->classes.n);
    } else if (s->part < PART_REPORT && s->part != PART_PROBES) {
        make_share(mk, s->part, mk->n_found + mk->n_begun, of, 0);
    }
    if (s->part == PART_REPORT) {
        char *results = job_path(&mk->job, "results.json");
        mk->in.done[PART_REPORT] = all_done(mk, PART_REPORT) && io_exists(results);
        free(results);
    }
}

/* Runs the steps after the forecast (with `whole`, all steps) without doing their work. */
static void count_steps(struct make *mk, bool whole) {
    struct err ignored;
    bool planned = !whole;
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        const struct make_step *s = &steps[i];
        mk->n_begun = 0;
        if (!s->asked(mk) || s->run == remove_left || (!planned && i > FORECAST)) continue;
        if (!whole && i <= FORECAST) continue;
        mk->n_found = mk->n_missing = 0;
        if (s->run(mk, &ignored)) return; /* it needs a file that has not been made yet */
        if (i == FORECAST) planned = mk->plan.made;
        if (s->part < PART_COUNT) note_share(mk, s);
    }
}

void make_count(struct make *mk, bool whole) {
    const struct make before = *mk;
    const enum log_level level = log_get_level();
    const bool open = mk->w->kept != NULL;
    memset(mk->in.done, 0, sizeof mk->in.done);
    mk->in.done[PART_CONVERT] = !whole;
    mk->imatrix = NULL;
    mk->imatrix_hash[0] = 0;
    mk->counting = true;
    if (whole) mk->extra_missing = false;
    log_set_level(LOG_ERROR);
    if (!open) look_at_kept(mk);
    count_steps(mk, whole);
    if (!open) close_kept(mk, false);
    log_set_level(level);
    mk->counting = false;
    while (mk->n_files > 1) made_drop(mk);
    if (mk->n_files && mk->file[0].hash[0]) mk->in.done[PART_CONVERT] = 1;
    if (mk->n_files) {
        make_keep(&mk->file[0].eval, NULL);
        make_keep(&mk->file[0].speed, NULL);
        for (int k = 0; k < SUITE_KINDS; k++) make_keep(&mk->file[0].tools[k], NULL);
        make_keep(&mk->file[0].drafts, NULL);
        make_keep(&mk->file[0].images, NULL);
    }
    free(mk->imatrix);
    mk->imatrix = before.imatrix;
    memcpy(mk->imatrix_hash, before.imatrix_hash, sizeof mk->imatrix_hash);
    mk->tools = before.tools;
    mk->tools_cases = before.tools_cases;
    mk->notes.n = before.notes.n;
    make_keep(&mk->about_imatrix, NULL);
    make_keep(&mk->about_eval, NULL);
}

/* Passes the expected times of this step and the following ones to the progress line. */
static void tell_progress(const struct make *mk, const struct make_step *s) {
    double step = 0, rest = 0;
    if (mk->in.eval_window <= 0) return;
    /* The ladder step covers two parts of the forecast. */
    const enum plan_part first = s->run == make_ladder ? PART_LADDER : s->part,
                         last = s->run == make_ladder ? PART_JUDGE : s->part;
    if (first == PART_COUNT) return;
    for (int i = 0; i < PART_COUNT; i++) {
        const double t = plan_seconds(&mk->in, &mk->plan, (enum plan_part)i);
        if (i >= (int)first && i <= (int)last) step += t;
        if (i > (int)last) rest += t;
    }
    progress_set_left(mk->t0, step, rest);
}

/* Returns whether the job has this step. */
static bool has_step(const struct make *mk, const struct make_step *s) {
    return s->asked(mk) && !(mk->unmeasured && s->runs);
}

/* Runs all steps of the job that were requested. */
static int all_steps(struct make *mk, struct err *e) {
    int n = 0, at = 0, rc = 0;
    for (size_t i = 0; i < COUNT_OF(steps); i++) n += steps[i].what && has_step(mk, &steps[i]);
    for (size_t i = 0; i < COUNT_OF(steps) && !rc; i++) {
        const struct make_step *s = &steps[i];
        if (!has_step(mk, s)) continue;
        if (progress_interrupted()) {
            rc = ERR_INTR;
            break;
        }
        if (s->what) {
            progress_set_step(++at, n);
            log_info("step %d of %d: %s", at, n, s->what);
            tell_progress(mk, s);
        }
        rc = s->run(mk, e);
        if (!rc && i == FORECAST) make_count(mk, false);
        if (!rc && s->part < PART_REPORT && !mk->unmeasured) rc = make_replan(mk, s->part, e);
    }
    progress_set_step(0, 0);
    if (rc == ERR_INTR)
        return err_set(e, ERR_INTR,
                       mk->redo ? "interrupted; the same command without -f keeps what this one "
                                  "finished, and what earlier runs made of the rest"
                                : "interrupted; the same command continues where this one stopped");
    return rc;
}

/* Opens the output folder and locks it for this job. */
static int open_job(struct make *mk, const char *out, struct err *e) {
    TRY(job_open(&mk->job, out, e));
    TRY(make_check_folder(mk, e));
    return 0;
}

/* Runs the whole job; after: text to print at the end. */
static int run_make(struct make *mk, const char *recipes, const char *out, struct emit *m,
                    struct buf *after, struct err *e) {
    struct work *w = mk->w;
    if (!*out) return err_set(e, ERR_USAGE, "the output folder has no name: name a folder with -o");
    TRY(make_pre_recall(mk, out, e));
    TRY(make_consume(mk, recipes, out, e));
    TRY(mk->checked ? make_check_source(mk->src, w->pre, &mk->unmeasured, &mk->draft, e)
                    : make_ask(mk, recipes, e));
    /* A step that does not fit on the device must fall back to the CPU. */
    if (w->device.kind == DEVICE_CUDA) w->device.kind = DEVICE_AUTO;
    TRY(work_pool(w, e));
    TRY(make_check_base(mk, e));
    TRY(make_check_place(mk->src, out, e));
    TRY(make_name(mk, e));
    TRY(make_look_at_extras(mk, e));
    TRY(make_look_at_images(mk, e));
    TRY(make_look_at_template(mk, e));
    TRY(make_check_earlier(mk, out, e));
    TRY(make_check_before(mk, out, e));
    if (mk->dry_run)
        return mk->unmeasured ? make_dry_unmeasured(mk, out, m, e) : make_dry_run(mk, out, m, e);
    if (!mk->checked) TRY(make_check_time(mk, out, e));
    TRY(open_job(mk, out, e));
    TRY(all_steps(mk, e));
    close_kept(mk, true); /* every result now has a record */
    return (mk->unmeasured ? make_show_unmeasured : make_show)(mk, progress_now_s() - mk->t0, m,
                                                               after, e);
}

const struct make make_usual = {.calib_ctx = 512,
                                .eval_ctx = 512,
                                .eval_chunks = 100,
                                .pp = 512,
                                .tg = 64,
                                .reps = 3,
                                .depths = "0",
                                .tools_cases = 12,
                                .type = "auto",
                                .seconds = 12 * 3600,
                                .job = {.lock_fd = -1}};

int make_run(struct make *mk, const char *recipes, const char *out, struct emit *m,
             struct buf *after, struct err *e) {
    mk->t0 = progress_now_s();
    int rc = run_make(mk, recipes, out, m, after, e);
    release_make(mk);
    return rc;
}
