// SPDX-License-Identifier: MIT
/* cli/plot.c - plots that a command writes beside its tables. */
#include "cli/plot.h"

#include "core/buf.h"
#include "core/io.h"

int cli_plot(const struct cli *c, const struct plot_axes *ax, const struct plot_point *p, int n,
             const char *path, struct err *e) {
    struct buf svg = {0};
    report_svg(ax, p, n, &svg);
    int rc = out_write_file(path, svg.data, svg.len, c->overwrite, e);
    buf_release(&svg);
    return rc;
}
