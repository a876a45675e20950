// SPDX-License-Identifier: MIT
/* jobs/passes.h - how many rows a pass may have, so that the sessions that a step opens together
 * fit into memory. On the CPU a row's bits do not depend on it. */
#ifndef HONE_JOBS_PASSES_H
#define HONE_JOBS_PASSES_H

#include "jobs/work.h"
#include "models/graph.h"

/* Returns the bytes that a session takes per row of a pass, with keys and values of a window. */
double passes_row_bytes(const struct graph *g);
/* Returns the rows of a pass of each of n sessions of windows of ctx tokens: those of eval_rows,
 * fewer where half of `room` bytes does not hold them; room 0: unknown. */
int64_t passes_fit(double row_bytes, int64_t ctx, int n, double room);
/* Returns the same for sessions of model m, by --max-memory or by what is free. */
int64_t passes_rows(const struct work *w, const struct model *m, int64_t ctx, int n);
/* Returns the bytes of n sessions with passes of so many rows. */
double passes_bytes(double row_bytes, int64_t rows, int n);
/* Returns how many sessions, at least 3, fit into `room` bytes together, with the shortest passes;
 * room 0: unknown. */
int passes_together(double row_bytes, double room);
/* Returns the same for the model in a file, by --max-memory or by what is free. */
int passes_files(const struct work *w, const char *path);

#endif
