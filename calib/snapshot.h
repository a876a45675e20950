// SPDX-License-Identifier: MIT
/* calib/snapshot.h - an importance matrix under way, as a snapshot (base/checkpoint.h): all sums as
 * they are in memory, so that the rest of the chunks gives the same bits. */
#ifndef HONE_CALIB_SNAPSHOT_H
#define HONE_CALIB_SNAPSHOT_H

#include "calib/moments.h"
#include "quantize/imat_file.h"
#include "base/checkpoint.h"

/* Writes a snapshot of m and gram, which is settled, or NULL. */
int calib_save(const char *path, const char *what, const struct imat *m,
               const struct gram_col *gram, struct err *e);
/* Reads the sums of an earlier run to m (empty but for its flag `moments`) and gram; m->n_chunks
 * says how many chunks they hold, at most max_chunks. With anything but SNAP_SAME both are
 * unchanged, and the log has said why. */
enum checkpoint_found calib_load(const char *path, const char *what, struct imat *m,
                                 struct gram_col *gram, int64_t max_chunks);

#endif
