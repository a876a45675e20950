// SPDX-License-Identifier: MIT
/* work/plot.c - writer of the plots that accompany the tables of commands. */
#include "work/plot.h"

#include "base/buf.h"
#include "base/out.h"

int plot_write(const struct work *w, const struct plot_axes *ax, const struct plot_point *p, int n,
               const char *path, struct err *e) {
    struct buf svg = {0};
    report_svg(ax, p, n, &svg);
    int rc = out_write_file(path, svg.data, svg.len, w->overwrite, e);
    buf_release(&svg);
    return rc;
}
