// SPDX-License-Identifier: MIT
/* base/snap.h - the state of a long computation in one file, so that the same command goes on from
 * it.
 *
 * A file has a key (the hash of a text that says all the state depends on; the program's version is
 * added) and a check of all its bytes. It is written beside its name and renamed, so it is whole or
 * not there. A damaged one, or one of another key, is never used.
 *
 * How often: SNAP_S seconds after the last one, and not before 25 times as long as the last one
 * took to write. So writing takes at most 4 % of the time, and an end without warning (KILL, power)
 * costs at most a minute while a snapshot is written in under 2 s. An interruption that can be
 * answered (INT, TERM) costs what is being computed just then. */
#ifndef HONE_BASE_SNAP_H
#define HONE_BASE_SNAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"

struct snap_w;
int snap_begin(struct snap_w **out, const char *path, const char *what, struct err *e);
int snap_put(struct snap_w *w, const void *p, uint64_t n, struct err *e);
int snap_commit(struct snap_w *w, struct err *e);
void snap_end(struct snap_w *w); /* without commit: as if it had never been; NULL is fine */

enum snap_found {
    SNAP_NONE,
    SNAP_SAME,
    SNAP_OTHER,  /* ours, of something else, or damaged: it will be replaced */
    SNAP_FOREIGN /* not ours: it must stay as it is */
};
struct snap_r {
    struct map map;
    uint64_t at, end;
};
/* Says what is wrong with a file that is there and not used. snap_close in every case. */
enum snap_found snap_open(struct snap_r *r, const char *path, const char *what);
bool snap_get(struct snap_r *r, void *p, uint64_t n); /* false: it ends before */
uint64_t snap_left(const struct snap_r *r);
void snap_close(struct snap_r *r);
void snap_remove(const char *path); /* if it is one */

enum { SNAP_S = 20 };
struct snap_clock {
    double last, took; /* zeroed: begins with the first question */
    double every;      /* seconds; 0: SNAP_S */
};
bool snap_due(struct snap_clock *c);
void snap_wrote(struct snap_clock *c, double began);

#endif
