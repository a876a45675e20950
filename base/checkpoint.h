// SPDX-License-Identifier: MIT
/* base/checkpoint.h - the state of a long computation in one file, so that the same command resumes
 * from it.
 *
 * A file has a key (the hash of a text that says all the state depends on; the program's version is
 * added) and a check of all its bytes. It is written beside its name and renamed, so it is whole or
 * not there. A damaged one, or one of another key, is never used.
 *
 * How often: SNAP_S seconds after the last one, and not before 25 times as long as the last one
 * took to write. So writing takes at most 4 % of the time, and an end without warning (KILL, power)
 * costs at most a minute while a snapshot is written in under 2 s. An interruption that can be
 * answered (INT, TERM) costs what is being computed just then. */
#ifndef HONE_BASE_CHECKPOINT_H
#define HONE_BASE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"

struct checkpoint_w;
int checkpoint_begin(struct checkpoint_w **out, const char *path, const char *what, struct err *e);
int checkpoint_put(struct checkpoint_w *w, const void *p, uint64_t n, struct err *e);
int checkpoint_commit(struct checkpoint_w *w, struct err *e);
void checkpoint_end(
    struct checkpoint_w *w); /* without commit: as if it had never been; NULL is fine */

enum checkpoint_found {
    SNAP_NONE,
    SNAP_SAME,
    SNAP_OTHER,  /* ours, of something else, or damaged: it will be replaced */
    SNAP_FOREIGN /* not ours: it must stay as it is */
};
struct checkpoint_r {
    struct map map;
    uint64_t at, end;
};
/* Says what is wrong with a file that is there and not used. checkpoint_close in every case. */
enum checkpoint_found checkpoint_open(struct checkpoint_r *r, const char *path, const char *what);
bool checkpoint_get(struct checkpoint_r *r, void *p, uint64_t n); /* false: it ends before */
uint64_t checkpoint_left(const struct checkpoint_r *r);
void checkpoint_close(struct checkpoint_r *r);
void checkpoint_remove(const char *path); /* if it is one */

enum { SNAP_S = 20 };
struct checkpoint_clock {
    double last, took; /* zeroed: begins with the first question */
    double every;      /* seconds; 0: SNAP_S */
};
bool checkpoint_due(struct checkpoint_clock *c);
void checkpoint_wrote(struct checkpoint_clock *c, double began);

#endif
