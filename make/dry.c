// SPDX-License-Identifier: MIT
/* make/dry.c - hone make --dry-run: steps, sizes, disk, memory and time of a job, forecast from a
 * short measurement. A small model is converted into a temporary folder for it; for a large one,
 * products of its shapes are timed instead. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "make/make.h"
#include "make/rates.h"
#include "convert/convert.h"
#include "text/size.h"
#include "base/io.h"
#include "base/mem.h"

/* A model up to this size is converted in seconds. */
static const uint64_t small_enough = (uint64_t)1 << 30;

struct dry {
    struct make *mk;
    const char *out;
    struct shapes s;
    uint64_t file_bytes, work_bytes, memory;
    struct job begun; /* earlier job in the folder, read-only; state NULL: none */
};

static void remove_folder(const char *dir) {
    struct io_names all;
    struct err ignored;
    if (io_list(&all, dir, &ignored) == 0)
        for (int i = 0; i < all.n; i++) {
            char *path = io_join(dir, all.v[i]);
            unlink(path);
            free(path);
        }
    io_names_release(&all);
    rmdir(dir);
}

static char *make_temp_folder(const char *dir, struct err *e) {
    char *path = xasprintf("%s/hone-forecast-XXXXXX", dir);
    if (mkdtemp(path)) return path;
    err_sys(e, "%s: cannot make a temporary folder", path);
    free(path);
    return NULL;
}

/* Adds mk->file[0] if there is a model that can be run. */
static int provide_base(struct dry *d, struct err *e) {
    struct make *mk = d->mk;
    struct convert_report r;
    if (mk->n_files) return 0; /* already converted */
    if (!io_is_dir(mk->src)) {
        make_add_file(mk, "base", xstrdup(mk->src), true)->is_base = true;
        return 0;
    }
    if (d->s.base_bytes > small_enough) return 0;
    char *file = make_base_file(mk, d->s.type), *path = io_join(mk->job.state, file);
    free(file);
    const struct convert_opts o = {.src = mk->src,
                                   .out = path,
                                   .type = mk->type,
                                   .name = mk->name,
                                   .overwrite = true,
                                   .pool = mk->w->pool};
    TRY(convert_run(&o, &r, e));
    make_add_file(mk, "base", path, true)->is_base = true;
    return 0;
}

static uint64_t class_size(struct dry *d, const char *name) {
    uint64_t exact;
    struct err ignored;
    if (d->mk->n_files && make_class_bytes(d->mk, name, &exact, &ignored) == 0) return exact;
    return shapes_preset(&d->s, name);
}

static void emit_files(struct dry *d, struct emit *m) {
    struct make *mk = d->mk;
    const struct str_list *lists[] = {&mk->classes, &mk->recipes};
    struct shapes_gram gram;
    shapes_gram(&d->s, &gram);
    emit_table(m, "files", "files, maximum size");
    emit_col(m, "file", "file");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "kind", "kind");
    for (size_t k = 0; k < COUNT_OF(lists); k++)
        for (int i = 0; i < lists[k]->n; i++) {
            uint64_t size = class_size(d, lists[k]->v[i]);
            char *name = xasprintf("%s-%s.gguf", mk->name, lists[k]->v[i]);
            emit_row(m);
            emit_cell_str(m, name);
            emit_cell_i64(m, (int64_t)size);
            emit_cell_str(m, !k && mk->plan.mixes ? "best of mix and preset" : "preset");
            d->file_bytes += size;
            /* the preset that a mix is compared with */
            if (!k && mk->plan.mixes) d->work_bytes += size;
            free(name);
        }
    for (int i = 0; i < mk->budget.n; i++) {
        uint64_t size = 0;
        struct err ignored;
        if (size_parse(mk->budget.v[i], "--budget", &size, &ignored)) continue;
        if (size > d->s.base_bytes) size = d->s.base_bytes; /* no mix is larger */
        emit_row(m);
        emit_cell_str(m, mk->budget.v[i]);
        emit_cell_i64(m, (int64_t)size);
        emit_cell_str(m, "mix");
        d->file_bytes += size;
    }
    d->file_bytes += make_emit_mmproj(mk, m);
    if (io_is_dir(mk->src)) d->work_bytes += d->s.base_bytes;
    if (mk->plan.feedback)
        d->work_bytes += (uint64_t)(gram.inputs + (mk->plan.answers ? gram.answers : 0));
    d->memory = (uint64_t)(plan_bytes(&mk->in, &mk->plan) + make_other_memory());
}

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

static void emit_left_out(const struct dry *d, struct emit *m) {
    const struct make *mk = d->mk;
    char text[640];
    if (!plan_no_memory(&mk->in, 0, text, sizeof text) && !make_mmproj_gap(mk, text, sizeof text) &&
        !plan_left_out(&mk->in, &mk->plan, 0, text, sizeof text))
        return;
    emit_table(m, "left_out", "left out");
    emit_col(m, "why", "why");
    emit_col(m, "what", "what");
    if (make_mmproj_gap(mk, text, sizeof text)) {
        emit_row(m);
        emit_cell_str(m, "unknown tower");
        emit_cell_str(m, text);
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
}

/* Swaps the temporary job and the folder's job, to read the folder's records. */
static void swap_jobs(struct dry *d) {
    const struct job j = d->mk->job;
    d->mk->job = d->begun;
    d->begun = j;
}

/* Finds an earlier job in the folder: its base, its plan and the remaining work. */
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

/* Measures this machine, makes the plan unless the job has one, and counts the finished work. */
static int make_plan(struct dry *d, struct err *e) {
    struct make *mk = d->mk;
    const bool known = mk->plan.made;
    double done[PART_COUNT];
    memcpy(done, mk->in.done, sizeof done);
    TRY(make_measure_plan(mk, &d->s, mk->n_files ? mk->file[0].path : NULL, e));
    mk->in.spent = 0;
    mk->in.done[PART_CONVERT] = done[PART_CONVERT];
    if (!known) plan_fit(&mk->in, &mk->plan);
    if (!known && d->begun.state && done[PART_CONVERT] >= 1) {
        swap_jobs(d);
        make_count(mk, false);
        swap_jobs(d);
        mk->in.done[PART_CONVERT] = 1;
    } else {
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

/* Writes the forecast's first sentences: size, time and what is left out. */
static void say_answer(const struct dry *d, const struct dry *sums, bool nothing_left,
                       struct emit *m) {
    const struct make *mk = d->mk;
    char time[32], all[32], answer[1024], late[512], begun[80] = "";
    const double total = plan_total(&mk->in, &mk->plan) - mk->in.spent, whole = whole_time(mk);
    const bool too_long = !nothing_left && make_too_long(mk, late);
    plan_time_text(total, time);
    plan_time_text(whole, all);
    if (whole > total + 1) snprintf(begun, sizeof begun, " left of %s", all);
    if (nothing_left)
        snprintf(answer, sizeof answer,
                 "Nothing left to do: %s holds every file of this job; nothing was written.",
                 d->out);
    else
        snprintf(answer, sizeof answer,
                 "About %s%s on this machine, %.1f GB of files and %.1f GB next to them in "
                 "%s.work; nothing was written.%s%s%s",
                 time, begun, (double)sums->file_bytes / 1e9, (double)sums->work_bytes / 1e9,
                 d->out, too_long ? " Note: " : "", too_long ? late : "", too_long ? "." : "");
    emit_answer(m, answer);
    emit_num(m, "seconds", NULL, total, 1);
    emit_num(m, "seconds_in_all", NULL, whole, 1);
    emit_num(m, "hours", "hours", total / 3600, 2);
    emit_num(m, "time_limit_hours", mk->seconds > 0 ? "limit of --time, hours" : NULL,
             mk->seconds / 3600, 2);
    emit_bool(m, "over_time_limit", NULL, too_long);
}

static void emit_forecast(struct dry *d, struct emit *m) {
    struct make *mk = d->mk;
    struct emit *files = emit_new();
    const bool nothing_left = d->begun.state && make_nothing_left(mk);
    struct dry sums = *d;
    emit_files(&sums, files); /* only for the sums */
    emit_free(files);
    say_answer(d, &sums, nothing_left, m);
    emit_i64(m, "file_bytes", "files, bytes", (int64_t)sums.file_bytes);
    emit_i64(m, "work_bytes", "next to them while working, bytes", (int64_t)sums.work_bytes);
    emit_i64(m, "memory_bytes", "memory, bytes", (int64_t)sums.memory);
    emit_i64(m, "buffer_bytes", "of which large buffers, bytes",
             (int64_t)plan_bytes(&mk->in, &mk->plan));
    emit_i64(m, "cached_bytes", "plus file cache for full speed, bytes", (int64_t)d->s.base_bytes);
    emit_i64(m, "n_probes", "sensitivity probes",
             mk->plan.mixes ? plan_probes(&mk->in, &mk->plan) : 0);
    emit_bool(m, "feedback", "error feedback", mk->plan.feedback);
    emit_bool(m, "measured", "passes of the model itself were timed", mk->n_files > 0);
    emit_steps(d, m);
    emit_files(d, m);
    emit_left_out(d, m);
}

static int run_forecast(struct dry *d, struct emit *m, struct err *e) {
    struct make *mk = d->mk;
    TRY(shapes_open(&d->s, mk->src, mk->type, e));
    look_at_begun(d);
    if (!(d->begun.state && make_nothing_left(mk))) {
        TRY(provide_base(d, e));
        if (!mk->calib.n || !mk->eval.n) TRY(make_texts(mk, e));
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
