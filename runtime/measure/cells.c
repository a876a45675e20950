// SPDX-License-Identifier: MIT
/* runtime/measure/cells.c - numbers in result tables that too few windows leave unknown. */
#include "runtime/measure/cells.h"

#include <math.h>

#include "runtime/measure/measures.h"

void number_cell(struct emit *m, double x, int prec) {
    if (isnan(x))
        emit_cell_none(m);
    else
        emit_cell_num(m, x, prec);
}

void error_cell(struct emit *m, double x, int64_t n_chunks, int prec) {
    number_cell(m, n_chunks > 1 ? x : (double)NAN, prec);
}

void interval_cells(struct emit *m, double lo, double hi, int64_t n_chunks, int prec) {
    const bool known = n_chunks >= MEASURE_MIN;
    number_cell(m, known ? lo : (double)NAN, prec);
    number_cell(m, known ? hi : (double)NAN, prec);
}

void number_field(struct emit *m, const char *key, const char *title, double x, int prec) {
    if (isnan(x))
        emit_str(m, key, title, NULL);
    else
        emit_num(m, key, title, x, prec);
}
