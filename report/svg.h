// SPDX-License-Identifier: MIT
/* report/svg.h - plots as self-contained SVG: no scripts, fonts or references, for light and dark
 * mode.
 *
 * A plot is 690 units wide (340 when narrow); text is at least 12 units high. Labels may be
 * untrusted text and are escaped. They avoid points and other labels as far as space allows. */
#ifndef HONE_REPORT_SVG_H
#define HONE_REPORT_SVG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct plot_point {
    double x, y; /* NaN, or without a logarithm on a log axis: not drawn */
    int series;
    const char *label; /* borrowed; NULL: none */
    double err;        /* half the length of the error bar; 0 or NaN: none */
    int band;          /* 1..4: colour by quality, best first; 0: colour by series */
    bool front;        /* on the line that joins the best points, drawn with label_points */
    bool ring;         /* an open grey circle, for a reference */
};
struct plot_band { /* a horizontal band that extends from the end of the previous one up to `to` */
    double to;
    const char *name; /* trusted text */
};
struct plot_axes {
    const char *title, *x, *y; /* trusted text, not escaped */
    bool log_x, log_y;
    bool label_points; /* label every point; otherwise a series is a line with a label at its end */
    bool bytes_x;      /* ticks are bytes, e.g. "8 MB" */
    bool narrow;       /* 340 units wide instead of 690 */
    const struct plot_band *band; /* background, lowest first */
    int n_bands;
    const double *rule; /* vertical lines: size budgets */
    int n_rules;
    const char *note; /* text in the lower right corner, escaped; NULL: none */
};
/* Appends a plot of n points as an <svg>. Without label_points, a line joins neighbours of one
 * series. */
void report_svg(const struct plot_axes *ax, const struct plot_point *p, int n, struct buf *out);

/* Label placement: report/svg_label.c. */
struct svg_box {
    double x0, y0, x1, y1;
};
enum { SVG_MAX_LABELS = 96, SVG_MAX_BOXES = 400 };
struct svg_place {
    struct svg_box area;                 /* bounds of the labels */
    struct svg_box taken[SVG_MAX_BOXES]; /* boxes that labels must not cover */
    struct svg_box soft[SVG_MAX_BOXES];  /* boxes that labels avoid if possible: lines */
    int n, n_soft;
};
/* Estimates the width of bold text 12 units high. */
double svg_text_width(const char *s);
/* Copies a text. If it is wider than `width` units, cuts out its middle ("tiny-qw…Q4_K_M"), between
 * whole characters. */
void svg_shorten(char out[80], const char *s, double width);
/* Reserves a box; ignored once SVG_MAX_BOXES are taken. */
void svg_take(struct svg_place *p, struct svg_box b);
/* Reserves the boxes along a line, which labels only prefer to avoid. */
void svg_take_line(struct svg_place *p, double x0, double y0, double x1, double y1);
/* Finds and reserves a place for the label of point x, y, a text of the given width. Sets *tx and
 * *ty to the left end of its baseline. Returns true if the label is so far away that it needs a
 * leader line. */
bool svg_place(struct svg_place *p, double x, double y, double width, double *tx, double *ty);

#endif
