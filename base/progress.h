// SPDX-License-Identifier: MIT
/* base/progress.h - progress on stderr, and interruption, of the context that the calling thread
 * works for (base/ctx.h).
 *
 * On a terminal one line is rewritten at most 5 times a second; otherwise a plain line every 30 s.
 * It shows stage, share, rate and time left. A job has one stage at a time, and one thread that
 * tells of it. */
#ifndef HONE_BASE_PROGRESS_H
#define HONE_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress_job { /* position in a job of several steps (struct ctx) */
    const char *item; /* "probe", static; NULL: none */
    int64_t item_at, item_of;
    double stage;                 /* share of the current stage that is done */
    double began_s, step_began_s; /* progress_now_s of the job and of its step */
    double step_s, rest_s;        /* forecast of the step, and of those after it */
    bool timed;                   /* the forecast is known */
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
    uint64_t from; /* was done before this run: rates do not count it */
    double t_start_s;
    bool drawn;
    char note[64]; /* shown after the numbers: "ppl 29.14" */
};
void progress_begin(struct progress *p, const char *stage, enum progress_unit unit, uint64_t total);
void progress_from(struct progress *p, uint64_t done); /* so much is there already */
void progress_update(struct progress *p, uint64_t done);
void progress_end(struct progress *p); /* clears the line; at level debug leaves a summary */

/* Makes lines say "step 4 of 9: " before the stage. With 0, 0 they no longer do. */
void progress_set_step(int at, int of);

/* Makes lines say "probe 12 of 64" after the step, until the next call. With NULL they do not. */
void progress_set_item(const char *what, int64_t at, int64_t of);
/* Sets the job's start (progress_now_s) and the forecast, in seconds, of the step that begins now
 * and of those after it. Lines then show the time left of the whole job in place of the stage's.
 * rest_s < 0: unknown. */
void progress_set_left(double began_s, double step_s, double rest_s);

/* Sends every update to `sink` instead of a line; a value other than zero from it interrupts. NULL:
 * lines again. */
typedef int (*progress_sink)(void *ud, const char *stage, uint64_t done, uint64_t total);
void progress_set_sink(progress_sink sink, void *ud);

/* Seconds of a monotonic clock. */
double progress_now_s(void);

/* Returns true when the job must stop: it was cancelled, or memory was refused (base/mem.h). Long
 * loops test it and return err_set(e, ERR_INTR, "interrupted"), leaving nothing partial. */
bool progress_interrupted(void);
/* Returns true when the job was cancelled: in the program by SIGINT or SIGTERM, in the library by
 * the caller's progress function or cancel handle. Use it in work whose errors the caller may
 * ignore (rendering a probe), where refused memory must not look like a failing template. A signal
 * handler calls ctx_interrupt. */
bool progress_cancelled(void);
void progress_interrupt(void);
void progress_resume(void); /* forgets an interruption */

#endif
