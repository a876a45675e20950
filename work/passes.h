// SPDX-License-Identifier: MIT
/* work/passes.h - number of rows per pass, chosen so that all sessions of a step fit into memory.
 * On the CPU, a row's bits do not depend on the number of rows. */
#ifndef HONE_WORK_PASSES_H
#define HONE_WORK_PASSES_H

#include "work/work.h"
#include "models/graph.h"

/* Returns how many bytes a session needs per row of a pass, including the keys and values of its
 * window. */
double passes_row_bytes(const struct graph *g);
/* Returns the number of rows per pass for n sessions with windows of ctx tokens: windows_rows(ctx),
 * or fewer if these take more than half of `room` bytes. room 0: unknown. */
int64_t passes_fit(double row_bytes, int64_t ctx, int n, double room);
/* Like passes_fit, for sessions of model m within --max-memory or the free memory. */
int64_t passes_rows(const struct work *w, const struct model *m, int64_t ctx, int n);
/* Returns whether models of n_bytes in all may have to be read from disk again in every pass on the
 * CPU: they take more than half of the free memory. */
bool passes_reread(uint64_t n_bytes);
/* Returns how many bytes n sessions take with passes of `rows` rows. */
double passes_bytes(double row_bytes, int64_t rows, int n);
/* Returns how many sessions with the shortest passes fit into half of `room` bytes, at least 3.
 * room 0: unknown. */
int passes_together(double row_bytes, double room);
/* Like passes_together, for the model in a file, within --max-memory or the free memory. */
int passes_files(const struct work *w, const char *path);

#endif
