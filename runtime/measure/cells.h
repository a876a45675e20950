// SPDX-License-Identifier: MIT
/* runtime/measure/cells.h - numbers in result tables that too few windows leave unknown. */
#ifndef HONE_RUNTIME_MEASURE_CELLS_H
#define HONE_RUNTIME_MEASURE_CELLS_H

#include "base/emit.h"

/* Adds a number to a row; an empty cell for NaN. */
void number_cell(struct emit *m, double x, int prec);
/* Adds a standard error over windows; an empty cell if there is only one window. */
void error_cell(struct emit *m, double x, int64_t n_chunks, int prec);
/* Adds the ends of a 95 % interval; empty cells if there are too few windows for one. */
void interval_cells(struct emit *m, double lo, double hi, int64_t n_chunks, int prec);
/* Adds a number as a field; an empty one for NaN. */
void number_field(struct emit *m, const char *key, const char *title, double x, int prec);

#endif
