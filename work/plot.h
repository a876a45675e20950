// SPDX-License-Identifier: MIT
/* work/plot.h - plots that commands write along with their tables (--plot FILE). */
#ifndef HONE_WORK_PLOT_H
#define HONE_WORK_PLOT_H

#include "work/work.h"
#include "report/svg.h"

/* Writes the points as an SVG to path. An existing file is replaced only with -f. */
int plot_write(const struct work *w, const struct plot_axes *ax, const struct plot_point *p, int n,
               const char *path, struct err *e);

#endif
