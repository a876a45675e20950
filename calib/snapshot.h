// SPDX-License-Identifier: MIT
/* calib/snapshot.h - snapshots of an unfinished importance matrix (base/checkpoint.h). They
 * store all sums exactly as in memory, so that the remaining chunks give the same bits. */
#ifndef HONE_CALIB_SNAPSHOT_H
#define HONE_CALIB_SNAPSHOT_H

#include "calib/moments.h"
#include "quantize/imat_file.h"
#include "base/checkpoint.h"

/* Writes a snapshot of m and of gram, which is settled or NULL. */
int calib_save(const char *path, const char *what, const struct imat *m,
               const struct gram_col *gram, struct err *e);
/* Reads an earlier run's sums into m (empty except for its flag `moments`) and gram; sets
 * m->n_chunks to the number of chunks in them, at most max_chunks. If the result is not SNAP_SAME,
 * both are unchanged, and the reason is logged. */
enum checkpoint_found calib_load(const char *path, const char *what, struct imat *m,
                                 struct gram_col *gram, int64_t max_chunks);

#endif
