// SPDX-License-Identifier: MIT
/* work/plot.h - plots that a command writes along with its tables (--plot FILE). */
#ifndef HONE_WORK_PLOT_H
#define HONE_WORK_PLOT_H

#include "work/work.h"
#include "report/svg.h"

/* Writes the points as an SVG to path; replaces a file with -f only. */
int plot_write(const struct work *w, const struct plot_axes *ax, const struct plot_point *p, int n,
               const char *path, struct err *e);

#endif
