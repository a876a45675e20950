// SPDX-License-Identifier: MIT
/* base/progress.c - the progress line on stderr, and the interrupt flag. The time left is estimated
 * from the mean rate since the stage began. Never writes to stdout. */
#include "base/progress.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/ctx.h"
#include "base/log.h"
#include "base/os.h"

enum { LINE_MAX_BYTES = 320 };
static const double redraw_s = 0.2, plain_s = 30.0;

void progress_set_mode(enum progress_mode mode) {
    atomic_store(&ctx_current()->prog.mode, (int)mode);
}

void progress_interrupt(void) {
    ctx_interrupt(ctx_current());
}

void progress_resume(void) {
    atomic_store(&ctx_current()->interrupted, false);
    atomic_store(&ctx_current()->starved, false);
}

bool progress_cancelled(void) {
    const struct ctx *c = ctx_current();
    return atomic_load_explicit(&c->interrupted, memory_order_relaxed) ||
           (c->stop && atomic_load_explicit(c->stop, memory_order_relaxed));
}

bool progress_interrupted(void) {
    return progress_cancelled() ||
           atomic_load_explicit(&ctx_current()->starved, memory_order_relaxed);
}

void progress_set_sink(progress_sink sink, void *ud) {
    struct ctx *c = ctx_current();
    c->prog.sink = sink;
    c->prog.sink_ud = ud;
}

void progress_set_step(int at, int of) {
    struct ctx *c = ctx_current();
    c->prog.step_at = at;
    c->prog.step_of = of;
    c->prog.job.item = NULL;
    if (!of) c->prog.job.timed = false;
}

void progress_set_item(const char *what, int64_t at, int64_t of) {
    struct progress_job *j = &ctx_current()->prog.job;
    j->item = what;
    j->item_at = at;
    j->item_of = of;
    j->stage = 0;
}

void progress_set_left(double began_s, double step_s, double rest_s) {
    struct progress_job *j = &ctx_current()->prog.job;
    j->timed = rest_s >= 0;
    j->began_s = began_s;
    j->step_began_s = progress_now_s();
    j->step_s = step_s;
    j->rest_s = rest_s;
}

/* Returns the estimated time remaining. As the items of a step complete, the estimate moves from
 * the forecast to the measured speed; a step that outlasts its forecast also uses the latter. */
static double job_left(const struct progress_job *j, double now) {
    const double spent = now - j->step_began_s;
    double left = j->step_s > spent ? j->step_s - spent : 0;
    if (j->item && j->item_of > 0) {
        const double share = ((double)j->item_at - 1 + j->stage) / (double)j->item_of;
        const double sure = share < .2 ? share / .2 : 1; /* the first items say little */
        if (share > 0) left = (1 - sure) * left + sure * spent * (1 - share) / share;
    } else if (j->stage > 0 && left < spent * (1 - j->stage))
        left = spent * (1 - j->stage);
    return left + j->rest_s;
}

double progress_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns whether the progress line is redrawn in place. */
static bool on_terminal(struct ctx *c) {
    int mode = atomic_load(&c->prog.mode);
    return mode == PROG_ALWAYS || (mode == PROG_AUTO && os_is_tty(stderr));
}

/* Writes s seconds as M:SS or H:MM:SS, "?" if unknown or too long. */
static void fmt_duration(char out[24], double s) {
    if (!(s >= 0 && s < 3.6e6))
        snprintf(out, 24, "?");
    else if (s < 3600)
        snprintf(out, 24, "%d:%02d", (int)s / 60, (int)s % 60);
    else
        snprintf(out, 24, "%d:%02d:%02d", (int)s / 3600, (int)s / 60 % 60, (int)s % 60);
}

/* Writes an amount with its unit; bytes in GiB. */
static void fmt_amount(char out[32], enum progress_unit unit, double v) {
    static const char *const name[] = {
        [PROG_ITEMS] = "", [PROG_BYTES] = " GiB", [PROG_TOKENS] = " tokens"};
    if (unit == PROG_BYTES)
        snprintf(out, 32, "%.2f%s", v / 0x1p30, name[unit]);
    else
        snprintf(out, 32, v < 100 && v != (double)(int)v ? "%.1f%s" : "%.0f%s", v, name[unit]);
}

/* Writes a rate per second; bytes in MiB. */
static void fmt_rate(char out[40], enum progress_unit unit, double per_s) {
    if (unit == PROG_BYTES)
        snprintf(out, 40, "%.1f MiB/s", per_s / 0x1p20);
    else
        snprintf(out, 40, "%.*f%s/s", per_s < 100 ? 1 : 0, per_s,
                 unit == PROG_TOKENS ? " tok" : "");
}

/* Formats "3 min of 12 left"; both numbers are in the unit that suits the total time. */
static void fmt_left(char out[40], double left, double all) {
    if (all >= 5400)
        snprintf(out, 40, "%.1f of %.1f hours left", left / 3600, all / 3600);
    else if (all >= 100)
        snprintf(out, 40, "%.0f min of %.0f left", left / 60, all / 60);
    else
        snprintf(out, 40, "%.0f s of %.0f left", left, all);
}

/* Formats the job's position: "step 3 of 8, probe 12 of 64, 3 min of 12 left: ". */
static void fmt_job(char out[120], const struct ctx *c, double now) {
    const struct progress_job *j = &c->prog.job;
    char item[48] = "", left[40] = "";
    if (j->item)
        snprintf(item, sizeof item, ", %s %lld of %lld", j->item, (long long)j->item_at,
                 (long long)j->item_of);
    if (j->timed) {
        const double s = job_left(j, now);
        fmt_left(left, s, now - j->began_s + s);
    }
    snprintf(out, 120, "step %d of %d%s%s%s: ", c->prog.step_at, c->prog.step_of, item,
             j->timed ? ", " : "", left);
}

/* Formats the line of a job whose remaining time is known. Omits the stage's amounts and times,
 * which could be mistaken for those of the job. */
static void fmt_short(char *line, const struct ctx *c, const struct progress *p, double now) {
    const double spent = now - p->t_start_s;
    char step[120], share[16] = "", rate[40];
    fmt_job(step, c, now);
    fmt_rate(rate, p->unit, spent > 0 ? (double)(p->done - p->from) / spent : 0);
    if (p->total) snprintf(share, sizeof share, " %.0f%%", 100 * c->prog.job.stage);
    snprintf(line, LINE_MAX_BYTES, "%s%.40s%s  %s%s%.60s", step, p->stage, share, rate,
             p->note[0] ? "  " : "", p->note);
}

/* Formats the progress line: step, amounts, rate and time left. */
static void fmt_line(char *line, const struct ctx *c, const struct progress *p, double now) {
    double spent = now - p->t_start_s, per_s = spent > 0 ? (double)(p->done - p->from) / spent : 0;
    char step[120] = "", done[32], total[32] = "", share[16] = "", rate[40], left[24] = "";
    fmt_amount(done, p->unit, (double)p->done);
    fmt_rate(rate, p->unit, per_s);
    if (p->total) {
        uint64_t capped = p->done < p->total ? p->done : p->total;
        fmt_amount(total, p->unit, (double)p->total);
        snprintf(share, sizeof share, " %3d%%", (int)(100.0 * (double)capped / (double)p->total));
        fmt_duration(left, per_s > 0 ? (double)(p->total - capped) / per_s : -1);
    } else
        fmt_duration(left, spent);
    if (c->prog.step_of) fmt_job(step, c, now);
    snprintf(line, LINE_MAX_BYTES, "%s%.40s%s  %s%s%s  %s  %s %s%s%.60s", step, p->stage, share,
             done, p->total ? " of " : "", total, rate, left, p->total ? "left" : "so far",
             p->note[0] ? "  " : "", p->note);
}

/* Shows the progress line, redrawn on a terminal, else as a message; silent with -q. */
static void draw_line(struct ctx *c, struct progress *p, double now) {
    char line[LINE_MAX_BYTES];
    c->prog.drawn_s = now;
    if (log_get_level() < LOG_INFO) return; /* -q: silence */
    if (c->prog.step_of && c->prog.job.timed)
        fmt_short(line, c, p, now);
    else
        fmt_line(line, c, p, now);
    if (on_terminal(c)) {
        fprintf(stderr, "\r\033[K%.*s", 99, line);
        fflush(stderr);
        log_set_line(1);
        p->drawn = true;
    } else
        log_info("%s", line);
}

void progress_begin(struct progress *p, const char *stage, enum progress_unit unit,
                    uint64_t total) {
    double now = progress_now_s();
    *p = (struct progress){.stage = stage, .unit = unit, .total = total, .t_start_s = now};
    /* Not reset with each stage, so that many short stages also show a line now and then. */
    if (ctx_current()->prog.drawn_s <= 0) ctx_current()->prog.drawn_s = now;
}

void progress_from(struct progress *p, uint64_t done) {
    p->from = p->done = done;
}

void progress_update(struct progress *p, uint64_t done) {
    p->done = done < p->from ? p->from : done;
    struct ctx *c = ctx_current();
    c->prog.job.stage =
        p->total ? (double)(done < p->total ? done : p->total) / (double)p->total : 0;
    if (c->prog.sink) {
        if (c->prog.sink(c->prog.sink_ud, p->stage, done, p->total)) ctx_interrupt(c);
        return;
    }
    if (atomic_load(&c->prog.mode) == PROG_NEVER) return;
    double now = progress_now_s();
    if (now - c->prog.drawn_s >= (on_terminal(c) ? redraw_s : plain_s)) draw_line(c, p, now);
}

void progress_end(struct progress *p) {
    if (p->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        log_set_line(0);
        p->drawn = false;
    }
    if (log_get_level() < LOG_DEBUG) return;
    char took[24], done[32];
    fmt_duration(took, progress_now_s() - p->t_start_s);
    fmt_amount(done, p->unit, (double)p->done);
    log_debug("%s: %s in %s", p->stage, done, took);
}
