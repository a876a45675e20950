// SPDX-License-Identifier: MIT
/* jobs/plot.h - plots that a command writes beside its tables (--plot FILE). */
#ifndef HONE_JOBS_PLOT_H
#define HONE_JOBS_PLOT_H

#include "jobs/work.h"
#include "report/svg.h"

/* Writes the points as an SVG to path; replaces a file with -f only. */
int plot_write(const struct work *w, const struct plot_axes *ax, const struct plot_point *p, int n,
               const char *path, struct err *e);

#endif
