// SPDX-License-Identifier: MIT
/* report/svg.h - plots as self-contained SVG: no scripts, no fonts, no references; light and dark.
 * Text is 12 units or more on a width of 690 (of 340 when narrow). Labels may be strangers': they
 * are escaped. Labels are put where they cover no other label and no point, as far as there is
 * room.
 */
#ifndef HONE_REPORT_SVG_H
#define HONE_REPORT_SVG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct plot_point {
    double x, y; /* NaN, and what a logarithm cannot show: left out */
    int series;
    const char *label; /* borrowed; NULL: none */
    double err;        /* half the length of an error bar; 0, NaN: none */
    int band;          /* 1..4: coloured by quality, from the best; 0: by series */
    bool front;        /* with label_points: on the line that joins the best */
    bool ring;         /* drawn as an open grey circle: a reference to compare with */
};
struct plot_band { /* everything up to this y and above the band before */
    double to;
    const char *name; /* our own words */
};
struct plot_axes {
    const char *title, *x, *y; /* our own words: not escaped */
    bool log_x, log_y;
    bool label_points; /* each point has its label; else a series is a line, labelled at its end */
    bool bytes_x;      /* ticks such as "8 MB" */
    bool narrow;       /* 340 units wide instead of 690 */
    const struct plot_band *band; /* drawn behind; from the lowest */
    int n_bands;
    const double *rule; /* vertical lines: budgets */
    int n_rules;
    const char *note; /* in the lower right corner; escaped; NULL: none */
};
/* Appends a plot of n points as an <svg>; neighbours of one series are joined by a line, unless
 * each point has its label. */
void report_svg(const struct plot_axes *ax, const struct plot_point *p, int n, struct buf *out);

/* Placing labels: report/svg_label.c. */
struct svg_box {
    double x0, y0, x1, y1;
};
enum { SVG_MAX_LABELS = 96, SVG_MAX_BOXES = 400 };
struct svg_place {
    struct svg_box area;                 /* labels stay inside */
    struct svg_box taken[SVG_MAX_BOXES]; /* what they must not cover */
    struct svg_box soft[SVG_MAX_BOXES];  /* what they had better not cover: lines */
    int n, n_soft;
};
/* Returns the width of bold text of 12 units, about. */
double svg_text_width(const char *s);
/* Copies a text, with its middle taken out ("tiny-qw…Q4_K_M") where it is wider than `width` units;
 * only whole characters are left. */
void svg_shorten(char out[80], const char *s, double width);
void svg_take(struct svg_place *p, struct svg_box b);
void svg_take_line(struct svg_place *p, double x0, double y0, double x1, double y1);
/* Finds the place for the text of the point x, y: its left end on the base line goes to *tx and
 * *ty, and the place is taken then. `width` is that of the text. Returns true when it is so far off
 * that a line should lead there. */
bool svg_place(struct svg_place *p, double x, double y, double width, double *tx, double *ty);

#endif
