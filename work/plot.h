// SPDX-License-Identifier: MIT
/* work/plot.h - plots that accompany the tables of commands (--plot FILE). */
#ifndef HONE_WORK_PLOT_H
#define HONE_WORK_PLOT_H

#include "work/work.h"
#include "report/svg.h"

/* Writes a plot of the points to path, as an SVG. An existing file is replaced only with -f. */
int plot_write(const struct work *w, const struct plot_axes *ax, const struct plot_point *p, int n,
               const char *path, struct err *e);

#endif
