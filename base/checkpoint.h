// SPDX-License-Identifier: MIT
/* base/checkpoint.h - checkpoint file: the state of a long computation, from which the same command
 * can resume.
 *
 * A checkpoint contains a key (a hash of everything that the state depends on, including the
 * program's version) and a checksum of the whole file. It is written under a temporary name and
 * renamed, so it is complete or absent. A damaged file, or one with a different key, is never used.
 *
 * The interval between checkpoints is SNAP_S seconds or 25 times the duration of the last write,
 * whichever is longer. Writing therefore takes at most 4 % of the time. A sudden end (SIGKILL,
 * power failure) loses at most a minute of work if a checkpoint takes under 2 s to write. A signal
 * that can be handled (SIGINT, SIGTERM) loses only the step in progress. */
#ifndef HONE_BASE_CHECKPOINT_H
#define HONE_BASE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"

struct checkpoint_w;
/* Starts a checkpoint file for the work `what` names; finish with checkpoint_end(), also on
 * error. */
int checkpoint_begin(struct checkpoint_w **out, const char *path, const char *what, struct err *e);
/* Appends n bytes, which also enter the checksum at the end. */
int checkpoint_put(struct checkpoint_w *w, const void *p, uint64_t n, struct err *e);
/* Writes the checksum and gives the file its final name. */
int checkpoint_commit(struct checkpoint_w *w, struct err *e);
void checkpoint_end(
    struct checkpoint_w *w); /* without commit, discards the new file; accepts NULL */

enum checkpoint_found {
    SNAP_NONE,
    SNAP_SAME,
    SNAP_OTHER,  /* our format, but with a different key or damaged: will be replaced */
    SNAP_FOREIGN /* not a checkpoint: must not be touched */
};
struct checkpoint_r {
    struct map map;
    uint64_t at, end;
};
/* Opens a checkpoint. Logs the reason if an existing file is not used. Always call
 * checkpoint_close. */
enum checkpoint_found checkpoint_open(struct checkpoint_r *r, const char *path, const char *what);
bool checkpoint_get(struct checkpoint_r *r, void *p, uint64_t n); /* false: data ends early */
/* Returns the number of unread bytes before the checksum. */
uint64_t checkpoint_left(const struct checkpoint_r *r);
/* Unmaps the file and clears *r. */
void checkpoint_close(struct checkpoint_r *r);
bool checkpoint_is(const char *path);     /* also if it was cut short */
void checkpoint_remove(const char *path); /* only if it is a checkpoint */

enum { SNAP_S = 20 };
struct checkpoint_clock {
    double last, took; /* both zero: the clock starts with the first call */
    double every;      /* interval in seconds; 0: SNAP_S */
};
/* Returns whether a checkpoint should be written now; the first call only starts the clock. */
bool checkpoint_due(struct checkpoint_clock *c);
/* Records that a checkpoint begun at `began`, in seconds of progress_now_s(), is written. */
void checkpoint_wrote(struct checkpoint_clock *c, double began);

#endif
