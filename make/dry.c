// SPDX-License-Identifier: MIT
/* make/dry.c - hone make --dry-run: forecast of a job's steps, sizes, disk, memory and time from a
 * short measurement. A model whose passes take seconds is converted into a temporary folder and
 * timed; for larger models, matrix products of its shapes are timed instead. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/machines.h"
#include "make/make.h"
#include "make/rates.h"
#include "work/device.h"
#include "convert/convert.h"
#include "text/size.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/os.h"

struct dry {
    struct make *mk;
    const char *out;
    struct shapes s;
    struct job begun; /* the earlier job in the folder, read-only; state NULL: no job */
};

/* Deletes a folder and the files in it; ignores errors. */
static void remove_folder(const char *dir) {
    struct io_names all;
    struct err ignored;
    if (io_list(&all, dir, &ignored) == 0)
        for (int i = 0; i < all.n; i++) {
            char *path = io_join(dir, all.v[i]);
            os_unlink(path);
            free(path);
        }
    io_names_release(&all);
    os_rmdir(dir);
}

/* Creates a folder in `dir`; returns its path, freed by the caller, or NULL. */
static char *make_temp_folder(const char *dir, struct err *e) {
    char *path = xasprintf("%s/hone-forecast-XXXXXX", dir);
    if (os_mkdtemp(path)) return path;
    err_sys(e, "%s: cannot make a temporary folder", path);
    free(path);
    return NULL;
}

/* Converts the source's folder into the temporary folder, as mk->file[0], if that has room. */
static int convert_here(void *ud, const char **base, struct err *e) {
    struct dry *d = ud;
    struct make *mk = d->mk;
    struct convert_report r;
    char *file = make_base_file(mk, d->s.type), *path = io_join(mk->job.state, file);
    free(file);
    const struct convert_opts o = {.src = mk->src,
                                   .target = mk->target,
                                   .out = path,
                                   .type = mk->type,
                                   .name = mk->name,
                                   .overwrite = true,
                                   .tower_told = true,
                                   .pool = mk->w->pool};
    struct err no_room;
    if (io_need_space(path, d->s.base_bytes, &no_room)) {
        log_info("the forecast does not run the model: %s", no_room.msg);
        free(path);
        return 0;
    }
    TRY(convert_run(&o, &r, e));
    make_add_file(mk, "base", path, true)->is_base = true;
    *base = path;
    return 0;
}

/* Adds the table of files to be made. */
static void emit_files(const struct dry *d, struct emit *m) {
    const struct make *mk = d->mk;
    const struct str_list *lists[] = {&mk->classes, &mk->recipes};
    emit_table(m, "files", "files, maximum size");
    emit_col(m, "file", "file");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "kind", "kind");
    for (size_t k = 0; k < COUNT_OF(lists); k++)
        for (int i = 0; i < lists[k]->n; i++) {
            uint64_t size = make_class_size(mk, &d->s, lists[k]->v[i]);
            char called[RECIPE_FILE];
            recipe_file(lists[k]->v[i], called);
            char *name = xasprintf("%s-%s.gguf", mk->name, called);
            emit_row(m);
            emit_cell_str(m, name);
            emit_cell_i64(m, (int64_t)size);
            emit_cell_str(m, !k && mk->plan.mixes ? "best of mix and preset" : "preset");
            free(name);
        }
    for (int i = 0; i < mk->budget.n && mk->plan.mixes; i++) {
        uint64_t size = 0;
        struct err ignored;
        if (size_parse(mk->budget.v[i], "--budget", &size, &ignored)) continue;
        if (size > d->s.base_bytes) size = d->s.base_bytes; /* no mix is larger */
        emit_row(m);
        emit_cell_str(m, mk->budget.v[i]);
        emit_cell_i64(m, (int64_t)size);
        emit_cell_str(m, "mix");
    }
    make_emit_extras(mk, m);
}

/* Adds the table of steps and their expected times. */
static void emit_steps(const struct dry *d, struct emit *m) {
    const struct make *mk = d->mk;
    emit_table(m, "steps", "steps");
    emit_col(m, "step", "step");
    emit_col(m, "seconds", NULL);
    emit_col(m, "time", "time");
    for (int i = 0; i < PART_COUNT; i++) {
        char text[32];
        const double s = plan_seconds(&mk->in, &mk->plan, (enum plan_part)i);
        if (s <= 0) continue;
        plan_time_text(s, text);
        emit_row(m);
        emit_cell_str(m, plan_part_name[i]);
        emit_cell_num(m, s, 1);
        emit_cell_str(m, text);
    }
}

/* Emits what longer and shorter time limits would allow, along with the plan for --time. */
static void emit_points(const struct dry *d, struct emit *m) {
    const struct make *mk = d->mk;
    struct make_plan p[PLAN_POINTS + 1];
    int n = plan_points(&mk->in, p), at = 0;
    const double total = plan_total(&mk->in, &mk->plan);
    while (at < n && plan_total(&mk->in, &p[at]) < total && !plan_same(&p[at], &mk->plan)) at++;
    if (at == n || !plan_same(&p[at], &mk->plan)) {
        memmove(&p[at + 1], &p[at], (size_t)(n++ - at) * sizeof *p);
        p[at] = mk->plan;
    }
    emit_table(m, "points", "what other time limits allow");
    emit_col(m, "seconds", NULL);
    emit_col(m, "time", "time");
    emit_col(m, "makes", "files");
    emit_col(m, "this_plan", "this plan");
    for (int i = 0; i < n; i++) {
        char time[32], makes[256];
        const double s = plan_total(&mk->in, &p[i]) - mk->in.spent;
        plan_time_text(s, time);
        plan_describe(&mk->in, &p[i], makes, sizeof makes);
        emit_row(m);
        emit_cell_num(m, s, 1);
        emit_cell_str(m, time);
        emit_cell_str(m, makes);
        emit_cell_bool(m, i == at);
    }
}

/* Emits a row with the time for everything and for presets alone at these rates. */
static void emit_machine_row(const struct dry *d, const char *name, const struct rates *r,
                             const struct estimate_opts *o, struct emit *m) {
    struct plan_in in = d->mk->in;
    struct make_plan p;
    memset(in.done, 0, sizeof in.done);
    in.spent = 0;
    estimate(&in, r, &d->s, o);
    plan_full(&in, &p);
    emit_row(m);
    emit_cell_str(m, name);
    for (int plain = 0; plain < 2; plain++) {
        char text[32];
        if (plain) p.mixes = p.sequential = p.feedback = p.answers = false, p.fed_files = 0;
        const double s = plan_total(&in, &p);
        plan_time_text(s, text);
        emit_cell_num(m, s, 1);
        emit_cell_str(m, text);
    }
}

/* Emits the forecast for this machine without its current load, and for machines with a card. */
static void emit_machines(const struct dry *d, struct emit *m) {
    const struct make *mk = d->mk;
    const struct machine_row *row;
    struct estimate_opts o;
    struct rates r = mk->rates;
    rates_opts(mk, &o);
    emit_table(m, "machines",
               "other machines (16 threads as fast as this one's; calculated, not measured)");
    emit_col(m, "card", "card");
    emit_col(m, "seconds", NULL);
    emit_col(m, "everything", "everything");
    emit_col(m, "presets_seconds", NULL);
    emit_col(m, "presets", "plain presets");
    r.speeds = mk->speeds;
    rates_guess(&r, &d->s, &o);
    emit_machine_row(d, "none: this machine, idle", &r, &o, m);
    for (int i = 0; (row = machine_at(i)); i++) {
        machine_rates(row, &mk->rates, &mk->speeds, pool_size(mk->w->pool), &d->s, &o, &r);
        emit_machine_row(d, row->name, &r, &o, m);
    }
}

/* Adds a table of skipped files and skipped work, if there is any. */
static void emit_left_out(const struct dry *d, struct emit *m) {
    const struct make *mk = d->mk;
    char text[640];
    if (!mk->same.n && !plan_no_memory(&mk->in, 0, text, sizeof text) &&
        !make_mmproj_gap(mk, text, sizeof text) &&
        !plan_left_out(&mk->in, &mk->plan, 0, text, sizeof text) && !mk->cut_short.n)
        return;
    emit_table(m, "left_out", "left out");
    emit_col(m, "why", "why");
    emit_col(m, "what", "what");
    if (make_mmproj_gap(mk, text, sizeof text)) {
        emit_row(m);
        emit_cell_str(m, mk->tower.n_tensors ? "unknown tower" : "missing tower");
        emit_cell_str(m, text);
    }
    for (int i = 0; i < mk->same.n; i++) {
        emit_row(m);
        emit_cell_str(m, "size");
        emit_cell_str(m, mk->same.v[i]);
    }
    for (int i = 0; plan_no_memory(&mk->in, i, text, sizeof text); i++) {
        emit_row(m);
        emit_cell_str(m, "memory");
        emit_cell_str(m, text);
    }
    for (int i = 0; plan_left_out(&mk->in, &mk->plan, i, text, sizeof text); i++) {
        emit_row(m);
        emit_cell_str(m, "--time");
        emit_cell_str(m, text);
    }
    for (int i = 0; i < mk->cut_short.n; i++) {
        emit_row(m);
        emit_cell_str(m, "other");
        emit_cell_str(m, mk->cut_short.v[i]);
    }
}

/* Swaps the temporary job with the folder's job, to read the folder's records. */
static void swap_jobs(struct dry *d) {
    const struct job j = d->mk->job;
    d->mk->job = d->begun;
    d->begun = j;
}

/* Looks for an earlier job in the folder: its base, its plan and the work that remains. */
static void look_at_begun(struct dry *d) {
    char *state = job_work(d->out), *lock = state ? io_join(state, "lock") : NULL;
    if (!state || d->mk->redo || !io_exists(lock)) {
        free(state);
        free(lock);
        return;
    }
    free(lock);
    d->begun =
        (struct job){.dir = xstrdup(d->out), .state = state, .lock_fd = -1, .read_only = true};
    d->mk->text_dir = d->mk->job.state;
    swap_jobs(d);
    make_count(d->mk, true);
    swap_jobs(d);
}

/* Measures this machine, makes a plan unless the job has one, and counts the finished work. */
static int make_plan(struct dry *d, struct err *e) {
    struct make *mk = d->mk;
    const bool known = mk->plan.made;
    double done[PART_COUNT];
    memcpy(done, mk->in.done, sizeof done);
    if (!known) make_order_classes(mk, &d->s);
    TRY(make_measure_plan(mk, &d->s, mk->n_files ? mk->file[0].path : NULL, convert_here, d, e));
    mk->in.spent = 0;
    mk->in.done[PART_CONVERT] = done[PART_CONVERT];
    if (!known && d->begun.state && done[PART_CONVERT] >= 1) {
        swap_jobs(d);
        make_fit(mk);
        swap_jobs(d);
    } else {
        if (!known) plan_fit(&mk->in, &mk->plan);
        memcpy(mk->in.done, done, sizeof done);
    }
    return 0;
}

/* Returns the time of all parts, including finished ones. */
static double whole_time(const struct make *mk) {
    struct plan_in in = mk->in;
    memset(in.done, 0, sizeof in.done);
    return plan_total(&in, &mk->plan) - in.spent;
}

/* Emits the facts about this machine on which the forecast is based. */
static void emit_machine(const struct make *mk, struct emit *m) {
    char name[256], text[512], busy[80] = "";
    const struct rates *r = &mk->rates;
    if (!(mk->speeds.product > 0)) return;
    if (mk->busy > .1)
        snprintf(busy, sizeof busy, "; busy: other programs take %.0f %% of its time",
                 100 * mk->busy);
    device_name(mk->w, name);
    snprintf(
        text, sizeof text,
        "%s%s%d threads, %.0f GFLOP/s, %.1f GB of memory free; the source is read at %.1f GB/s%s",
        name, name[0] ? " (not in this forecast unless passes were timed), " : "",
        pool_size(mk->w->pool), mk->speeds.product / 1e9, r->memory / 1e9, r->disk / 1e9, busy);
    emit_str(m, "machine", "this machine", text);
}

/* Plans again, if this machine has a card, with the rates of the fastest card known, because passes
 * that were not run are estimated for the processor. */
static void fit_with_card(const struct dry *d, struct plan_in *in, struct make_plan *p) {
    const struct make *mk = d->mk;
    struct estimate_opts o;
    struct rates r;
    const double card = mk->rates.measured ? 0 : (double)device_free(mk->w);
    if (!(card > 0)) return;
    rates_opts(mk, &o);
    machine_with_card(card, &mk->rates, pool_size(mk->w->pool), &d->s, &o, &r);
    estimate(in, &r, &d->s, &o);
    plan_fit(in, p);
}

/* Writes a warning to out if make_check_time would refuse the job, or if too little of --time is
 * left for one already begun. */
static bool is_too_long(const struct dry *d, char out[512]) {
    struct plan_in in = d->mk->in;
    struct make_plan p = d->mk->plan;
    if (!make_too_long(d->mk, out)) return false;
    if (!d->begun.state) fit_with_card(d, &in, &p);
    return plan_too_long(&in, &p);
}

/* Emits the first lines of the forecast: sizes, time, and what the plan leaves out. */
static void say_answer(const struct dry *d, const struct make_disk *disk, bool nothing_left,
                       struct emit *m) {
    const struct make *mk = d->mk;
    char time[32], all[32], files[32], temporary[32], answer[2048], late[512], begun[80] = "";
    const double total = plan_total(&mk->in, &mk->plan) - mk->in.spent, whole = whole_time(mk);
    const bool too_long = !nothing_left && is_too_long(d, late);
    struct err full;
    const bool no_room = !nothing_left && io_need_space(d->out, disk->left, &full);
    char *work = job_work(d->out);
    plan_time_text(total, time);
    plan_time_text(whole, all);
    plan_amount_text((double)disk->files, files);
    plan_amount_text((double)disk->work, temporary);
    if (d->begun.state && whole > total) snprintf(begun, sizeof begun, " left of %s", all);
    if (nothing_left)
        snprintf(answer, sizeof answer,
                 "Nothing left to do: %s holds every file of this job; nothing was written.",
                 d->out);
    else
        snprintf(answer, sizeof answer,
                 "About %s%s on this machine, %s of files and %s of temporary files in "
                 "%.1024s; nothing was written.%s%s%s%s%s%s",
                 time, begun, files, temporary, work ? work : "", too_long ? " Note: " : "",
                 too_long ? late : "", too_long ? "." : "", no_room ? " Note: " : "",
                 no_room ? full.msg : "", no_room ? "." : "");
    free(work);
    emit_answer(m, answer);
    emit_num(m, "seconds", NULL, total, 1);
    emit_num(m, "seconds_in_all", NULL, whole, 1);
    emit_num(m, "hours", "hours", total / 3600, 2);
    emit_num(m, "time_limit_hours", mk->seconds > 0 ? "limit of --time, hours" : NULL,
             mk->seconds / 3600, 2);
    emit_bool(m, "over_time_limit", NULL, too_long);
    emit_bool(m, "over_free_space", NULL, no_room);
}

/* Adds the whole forecast; for a job already begun, only the work that remains. */
static void emit_forecast(const struct dry *d, struct emit *m) {
    const struct make *mk = d->mk;
    const bool nothing_left = d->begun.state && make_nothing_left(mk);
    const double buffers = plan_bytes(&mk->in, &mk->plan);
    struct make_disk disk;
    make_disk_of(mk, &d->s, d->out, &disk);
    say_answer(d, &disk, nothing_left, m);
    emit_i64(m, "file_bytes", "files, bytes", (int64_t)disk.files);
    emit_i64(m, "work_bytes", "temporary files, bytes", (int64_t)disk.work);
    emit_i64(m, "memory_bytes", "memory, bytes", (int64_t)(buffers + make_other_memory()));
    emit_i64(m, "buffer_bytes", "of which large buffers, bytes", (int64_t)buffers);
    emit_i64(m, "cached_bytes", "plus file cache for full speed, bytes", (int64_t)d->s.base_bytes);
    emit_i64(m, "n_probes", "sensitivity probes",
             mk->plan.mixes ? plan_probes(&mk->in, &mk->plan) : 0);
    emit_bool(m, "feedback", "error feedback", mk->plan.feedback);
    emit_bool(m, "measured", "passes of the model itself were timed", mk->rates.measured);
    emit_machine(mk, m);
    emit_steps(d, m);
    emit_files(d, m);
    if (!d->begun.state) emit_points(d, m);
    if (!d->begun.state) emit_machines(d, m);
    emit_left_out(d, m);
}

/* Plans the job without running it, and emits the forecast. */
static int run_forecast(struct dry *d, struct emit *m, struct err *e) {
    struct make *mk = d->mk;
    TRY(shapes_open(&d->s, mk->src, mk->type, mk->target, e));
    look_at_begun(d);
    if (!(d->begun.state && make_nothing_left(mk))) {
        if (!mk->n_files && !io_is_dir(mk->src))
            make_add_file(mk, "base", xstrdup(mk->src), true)->is_base = true;
        if (!mk->calib.n || !mk->eval.n) TRY(make_texts(mk, e));
        TRY(make_check_judge(mk, e));
        TRY(make_plan(d, e));
    }
    emit_forecast(d, m);
    return 0;
}

int make_dry_run(struct make *mk, const char *out, struct emit *m, struct err *e) {
    struct dry d = {.mk = mk, .out = out};
    mk->job.state = make_temp_folder(mk->w->tmp, e);
    if (!mk->job.state) return (int)e->code;
    mk->job.dir = xstrdup(out);
    int rc = run_forecast(&d, m, e);
    shapes_close(&d.s);
    remove_folder(mk->job.state);
    job_close(&d.begun);
    return rc;
}

/* Forecasts the job from shapes and timed products, and returns an error if --time or the disk is
 * too small. */
static int check_time(struct dry *d, struct err *e) {
    struct make *mk = d->mk;
    char late[512];
    TRY(shapes_open(&d->s, mk->src, mk->type, mk->target, e));
    if (!mk->calib.n || !mk->eval.n) TRY(make_texts(mk, e));
    make_order_classes(mk, &d->s);
    TRY(make_measure_plan(mk, &d->s, NULL, NULL, NULL, e));
    mk->in.spent = 0;
    mk->in.done[PART_CONVERT] = 0;
    plan_fit(&mk->in, &mk->plan);
    if (plan_too_long(&mk->in, &mk->plan)) fit_with_card(d, &mk->in, &mk->plan);
    if (make_too_long(mk, late)) return err_set(e, ERR_SYS, "%s", late);
    return make_need_disk(mk, &d->s, d->out, e);
}

int make_check_time(struct make *mk, const char *out, struct err *e) {
    struct dry d = {.mk = mk, .out = out};
    if (mk->unmeasured) return make_space_unmeasured(mk, out, e);
    char *state = job_work(out);
    const bool begun = state && io_exists(state);
    const struct make before = *mk;
    free(state);
    if (begun) return 0;
    mk->job.state = make_temp_folder(mk->w->tmp, e);
    if (!mk->job.state) return (int)e->code;
    const int rc = check_time(&d, e);
    shapes_close(&d.s);
    remove_folder(mk->job.state);
    free(mk->job.state);
    mk->job = before.job;
    mk->calib = before.calib;
    mk->probe = before.probe;
    mk->eval = before.eval;
    mk->in = before.in;
    mk->plan = before.plan;
    mk->classes = before.classes;
    mk->same = before.same;
    return rc;
}
