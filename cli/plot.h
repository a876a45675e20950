// SPDX-License-Identifier: MIT
/* cli/plot.h - plots that a command writes beside its tables (--plot FILE). */
#ifndef HONE_CLI_PLOT_H
#define HONE_CLI_PLOT_H

#include "cli/opt.h"
#include "report/svg.h"

/* Row of an option table: where the plot goes, a const char *. */
#define OPT_PLOT(file, help)                                                                       \
    { "plot", 0, OPT_STR, &(file), "FILE", "SVG: " help }

/* Writes the points as an SVG to path; replaces a file with -f only. */
int cli_plot(const struct cli *c, const struct plot_axes *ax, const struct plot_point *p, int n,
             const char *path, struct err *e);

#endif
