// SPDX-License-Identifier: MIT
/* base/progress.h - progress display on stderr and interruption, both for the calling thread's
 * context (base/ctx.h).
 *
 * On a terminal one line is redrawn at most 5 times a second; otherwise a plain line is printed
 * every 30 s. The line shows stage, percentage, rate and time left. A job has one stage at a time,
 * and only one thread reports it. */
#ifndef HONE_BASE_PROGRESS_H
#define HONE_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress_job { /* position in a job of several steps (struct ctx) */
    const char *item; /* static string, e.g. "probe"; NULL: none */
    int64_t item_at, item_of;
    double stage;                 /* completed fraction of the current stage */
    double began_s, step_began_s; /* progress_now_s at the start of the job and of its step */
    double step_s, rest_s;        /* forecast of this step, and of the steps after it */
    bool timed;                   /* the forecast is valid */
};

enum progress_mode { PROG_AUTO, PROG_ALWAYS, PROG_NEVER };
/* Sets the mode; cli/ does so before threads start. */
void progress_set_mode(enum progress_mode mode);

enum progress_unit { PROG_ITEMS, PROG_BYTES, PROG_TOKENS };
struct progress {
    const char *stage; /* borrowed */
    enum progress_unit unit;
    uint64_t total; /* 0: unknown */
    uint64_t done;
    uint64_t from; /* work done before this run; not counted in rates */
    double t_start_s;
    bool drawn;
    char note[64]; /* shown after the numbers: "ppl 29.14" */
};
/* Starts a stage with `total` units of work, 0 if unknown; `stage` must remain valid. */
void progress_begin(struct progress *p, const char *stage, enum progress_unit unit, uint64_t total);
void progress_from(struct progress *p, uint64_t done); /* work done by an earlier run */
/* Sets the number of finished units (a total, not an increment) and redraws the line when due. */
void progress_update(struct progress *p, uint64_t done);
void progress_end(struct progress *p); /* clears the line; at level debug leaves a summary */

/* Shows "step 4 of 9: " before the stage; 0, 0 turns that off. */
void progress_set_step(int at, int of);

/* Shows "probe 12 of 64" after the step, until the next call; NULL turns that off. */
void progress_set_item(const char *what, int64_t at, int64_t of);
/* Sets the start of the job (a progress_now_s time) and the forecasts, in seconds, for the step
 * that begins now and for all later steps. Lines then show the time left for the whole job, not for
 * the stage. rest_s < 0: unknown. */
void progress_set_left(double began_s, double step_s, double rest_s);

/* Sends every update to `sink` instead of drawing lines; a nonzero return value interrupts the job.
 * NULL: back to lines. */
typedef int (*progress_sink)(void *ud, const char *stage, uint64_t done, uint64_t total);
/* Sets the function that receives this context's progress; NULL: none. */
void progress_set_sink(progress_sink sink, void *ud);

/* Returns a monotonic clock in seconds. */
double progress_now_s(void);

/* Returns whether the job must stop, because it was cancelled or ran out of memory (base/mem.h).
 * Long loops check it and return err_set(e, ERR_INTR, "interrupted"), leaving no partial output. */
bool progress_interrupted(void);
/* Returns whether the job was cancelled: in the program by SIGINT or SIGTERM, in the library by the
 * caller's progress function or cancel handle. For code whose errors the caller may ignore
 * (rendering a probe): there, running out of memory must not look like a faulty template. Signal
 * handlers call ctx_interrupt. */
bool progress_cancelled(void);
/* Asks the current context's work to stop at its next check. */
void progress_interrupt(void);
void progress_resume(void); /* clears an interruption */

#endif
