// SPDX-License-Identifier: MIT
/* report/svg.c - plots: series of points on linear or logarithmic axes.
 *
 * Drawn in three layers: background (bands, grid, rules), then points and lines, then labels. */
#include "report/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/report_text.h"

enum { TOP = 14, BOTTOM = 50, COLORS = 8, GAP = 6 };

/* Axis ranges; on logarithmic axes in log2 x or log10 y. */
struct frame {
    const struct plot_axes *ax;
    int w, h, left, right;
    double x0, x1, y0, y1;
    bool any;
    struct svg_place place;
};

/* Returns x, or its logarithm on a logarithmic axis. */
static double scale_x(const struct frame *fr, double x) {
    return fr->ax->log_x ? log2(x) : x;
}
/* Returns y, or its logarithm on a logarithmic axis. */
static double scale_y(const struct frame *fr, double y) {
    return fr->ax->log_y ? log10(y) : y;
}

/* Returns whether a point is drawn: it must be finite, and have a logarithm if the axis needs
 * one. */
static bool shown(const struct plot_axes *ax, const struct plot_point *p) {
    return isfinite(p->x) && isfinite(p->y) && (!ax->log_x || p->x > 0) && (!ax->log_y || p->y > 0);
}

static bool has_err(const struct plot_point *p) {
    return isfinite(p->err) && p->err > 0;
}

/* Returns the horizontal position of a scaled value, in plot units. */
static double pixel_x(const struct frame *fr, double x) {
    return fr->left + (x - fr->x0) / (fr->x1 - fr->x0) * (fr->w - fr->left - fr->right);
}
/* Returns the pixel row of a scaled value, clamped to the plot. */
static double pixel_y(const struct frame *fr, double y) {
    double v = fr->h - BOTTOM - (y - fr->y0) / (fr->y1 - fr->y0) * (fr->h - TOP - BOTTOM);
    return fmin(fmax(v, TOP), fr->h - BOTTOM);
}
/* Returns the point's x position in the drawing. */
static double point_x(const struct frame *fr, const struct plot_point *p) {
    return pixel_x(fr, scale_x(fr, p->x));
}
/* Returns the point's y position in the drawing. */
static double point_y(const struct frame *fr, const struct plot_point *p) {
    return pixel_y(fr, scale_y(fr, p->y));
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Extends the axes to include a point. */
static void frame_add(struct frame *fr, double at_x, double at_y) {
    double x = scale_x(fr, at_x), y = scale_y(fr, at_y);
    if (!fr->any) fr->x0 = fr->x1 = x, fr->y0 = fr->y1 = y;
    fr->x0 = fmin(fr->x0, x), fr->x1 = fmax(fr->x1, x);
    fr->y0 = fmin(fr->y0, y), fr->y1 = fmax(fr->y1, y);
    fr->any = true;
}

/* Returns a round step that divides the range into 4 to 8 parts. */
static double nice_step(double range) {
    double raw = range / 6, p = pow(10, floor(log10(raw))), m = raw / p;
    return p * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

/* Widens the ranges so that no point is on an edge. */
static void frame_pad(struct frame *fr) {
    double range = fr->x1 - fr->x0;
    if (!(range > 0)) range = fmax(fabs(fr->x1) * 0.4, 1e-9);
    fr->x0 -= range * 0.06, fr->x1 += range * (fr->ax->label_points ? 0.1 : 0.02);
    if (!fr->ax->log_x && fr->x0 < 0) fr->x0 = 0;
    if (fr->ax->log_y) {
        double pad = fmax((fr->y1 - fr->y0) * 0.06, 0.08);
        fr->y0 -= pad, fr->y1 += pad;
        if (fr->ax->note) fr->y0 -= (fr->y1 - fr->y0) * 0.07; /* room for a line of text */
    } else {
        fr->y0 = 0, fr->y1 *= 1.08;
    }
    if (!(fr->y1 > fr->y0)) fr->y1 = fr->y0 + 0.5;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* Writes a number in a readable form. */
static void number_text(char out[40], double v) {
    if (fabs(v) >= 10000 && fabs(v) < 1e15) {
        char digits[32];
        text_thousands(digits, (int64_t)llround(v));
        snprintf(out, 40, "%s", digits);
    } else if (v != 0 && fabs(v) < 1e-3 && fabs(v) >= 1e-9) {
        snprintf(out, 40, "%.*f", (int)ceil(-log10(fabs(v)) - 1e-9), v);
    } else {
        snprintf(out, 40, "%.4g", v);
    }
}

/* Writes a tick's number; x: on the x axis, which may be in bytes. */
static void tick_text(const struct frame *fr, char out[40], double v, bool x) {
    number_text(out, v);
    if (!x || !fr->ax->bytes_x) return;
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    double top = fr->x1;
    size_t i = 0;
    for (; top >= 2000 && i + 1 < sizeof unit / sizeof *unit; i++) top /= 1000, v /= 1000;
    snprintf(out, 40, "%.4g %s", v, unit[i]);
}

/* Draws a horizontal grid line at a scaled value, with its number. */
static void grid_y(const struct frame *fr, double at, double value, struct buf *out) {
    char text[40];
    tick_text(fr, text, value, false);
    buf_fmt(out, "<line class='g' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>", fr->left,
            fr->w - fr->right, pixel_y(fr, at), pixel_y(fr, at));
    buf_fmt(out, "<text x='%d' y='%.1f' text-anchor='end'>%s</text>", fr->left - 6,
            pixel_y(fr, at) + 4, text);
}

/* Draws ticks at 1, 2 and 5 of each decade, or fewer where they would be too close. */
static void ticks_log_y(const struct frame *fr, struct buf *out) {
    static const int digits[3][4] = {{1, 2, 5, 0}, {1, 3, 0, 0}, {1, 0, 0, 0}};
    double decade = (fr->h - TOP - BOTTOM) / (fr->y1 - fr->y0);
    const int *d = digits[decade > 90 ? 0 : decade > 50 ? 1 : 2];
    int step = decade > 20 ? 1 : (int)ceil(20 / fmax(decade, 1e-3));
    for (int dec = (int)floor(fr->y0); dec <= (int)ceil(fr->y1); dec += step)
        for (int k = 0; d[k]; k++) {
            double v = d[k] * pow(10, dec), ly = log10(v);
            if (ly >= fr->y0 && ly <= fr->y1) grid_y(fr, ly, v, out);
        }
}

static void axis_y(const struct frame *fr, struct buf *out) {
    if (fr->ax->log_y) {
        ticks_log_y(fr, out);
    } else {
        double step = nice_step(fr->y1 - fr->y0);
        for (int i = 0; i * step <= fr->y1; i++) grid_y(fr, i * step, i * step, out);
    }
    buf_fmt(out, "<text transform='translate(13 %d) rotate(-90)' text-anchor='middle'>%s</text>",
            (TOP + fr->h - BOTTOM) / 2, fr->ax->y);
}

static void axis_x(const struct frame *fr, struct buf *out) {
    double step = fr->ax->log_x ? 1 : nice_step(fr->x1 - fr->x0), end = -1e9;
    for (double k = ceil(fr->x0 / step); k * step <= fr->x1; k++) {
        char text[40];
        double x = pixel_x(fr, k * step);
        tick_text(fr, text, fr->ax->log_x ? exp2(k * step) : k * step + 0.0, true);
        double half = svg_text_width(text) / 2;
        buf_fmt(out, "<line class='g' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>", x, x, TOP,
                fr->h - BOTTOM);
        if (x - half < end + 8 || x + half > fr->w) continue;
        buf_fmt(out, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>", x, fr->h - BOTTOM + 18,
                text);
        end = x + half;
    }
    buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>%s</text>",
            (fr->left + fr->w - fr->right) / 2, fr->h - 10, fr->ax->x);
}

/* ---- background ------------------------------------------------------------------------------ */

/* Writes the root element and the styles. */
static void svg_open(const struct frame *fr, struct buf *out) {
    buf_fmt(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' role='img' "
            "aria-label='%s'>",
            fr->w, fr->h, fr->ax->title);
    buf_str(out,
            "<style>svg{--p:#fff;--t:#24292f;--m:#57606a;--g:#d8dee4;--q1:#1a7f43;--q2:#5f7d00;"
            "--q3:#b25e00;--q4:#c4302b;--c0:#0b62c4;--c1:#b3460a;--c2:#16794a;--c3:#8a3fb8;"
            "--c4:#866700;--c5:#c0266e;--c6:#00747c;--c7:#5b616b}"
            "@media(prefers-color-scheme:dark){svg{--p:#1b1f24;--t:#e6e8eb;--m:#a9b3be;"
            "--g:#3a424b;--q1:#4cc57c;--q2:#b5cc3b;--q3:#f0a63a;--q4:#ff7b72;--c0:#63a8ff;"
            "--c1:#ff9b5c;--c2:#56cc8d;--c3:#cf97f5;--c4:#dcbc4a;--c5:#ff86b9;--c6:#4cc9d3;"
            "--c7:#a9b1bb}}"
            "text{font:12px system-ui,sans-serif;fill:var(--m)}.p{fill:var(--p)}"
            ".h{paint-order:stroke;stroke:var(--p);stroke-width:4px;stroke-opacity:.8}"
            ".g{stroke:var(--g)}.l{font-weight:600;fill:var(--t)}.f{fill:none;stroke-width:1.75}"
            ".o{fill:var(--p);stroke:var(--m);stroke-width:1.5}.r{stroke:var(--m);stroke-dasharray:"
            "2 4}.d{stroke:var(--m);stroke-width:.75}"
            ".j{fill:none;stroke:var(--m);stroke-width:1.25;stroke-dasharray:5 4}");
    for (int i = 1; i <= 4; i++)
        buf_fmt(out, ".q%d{fill:var(--q%d);stroke:var(--q%d)}.b%d{fill:var(--q%d);opacity:.09}", i,
                i, i, i, i);
    for (int i = 0; i < COLORS; i++)
        buf_fmt(out, ".c%d{fill:var(--c%d);stroke:var(--c%d)}.t%d{fill:var(--c%d)}", i, i, i, i, i);
    buf_fmt(out, ".l{stroke:none}</style><rect class='p' width='%d' height='%d'/>", fr->w, fr->h);
}

/* Draws the quality bands below the grid or, with `names`, their names at the right edge, and
 * reserves the boxes of the names. */
static void bands(struct frame *fr, bool names, struct buf *out) {
    const struct plot_axes *ax = fr->ax;
    double from = -(double)INFINITY;
    for (int i = 0; i < ax->n_bands; i++) {
        double to = isfinite(ax->band[i].to) ? scale_y(fr, ax->band[i].to) : (double)INFINITY;
        if (to > fr->y0 && from < fr->y1) {
            double y1 = to > fr->y1 ? TOP : pixel_y(fr, to),
                   y0 = from < fr->y0 ? fr->h - BOTTOM : pixel_y(fr, from);
            if (!names)
                buf_fmt(out, "<rect class='b%d' x='%d' y='%.1f' width='%d' height='%.1f'/>", i + 1,
                        fr->left, y1, fr->w - fr->left - fr->right, y0 - y1);
            if (names && y0 - y1 > 18) {
                double w = svg_text_width(ax->band[i].name);
                int x = fr->w - fr->right - 6;
                buf_fmt(out, "<text class='h' x='%d' y='%.1f' text-anchor='end'>%s</text>", x,
                        y1 + 14, ax->band[i].name);
                svg_take(&fr->place, (struct svg_box){x - w, y1, x, y1 + 18});
            }
        }
        from = to;
    }
}

/* Draws the note at the bottom right and reserves its place. */
static void put_note(struct frame *fr, struct buf *out) {
    if (!fr->ax->note) return;
    char text[80];
    svg_shorten(text, fr->ax->note, fr->w - fr->left - fr->right - 20);
    double w = svg_text_width(text);
    int x = fr->w - fr->right - 6, y = fr->h - BOTTOM - 8;
    buf_fmt(out, "<text class='l' x='%d' y='%d' text-anchor='end'>", x, y);
    html_text(out, text);
    buf_str(out, "</text>");
    svg_take(&fr->place, (struct svg_box){x - w, y - 12, x, y + 6});
}

/* Draws the vertical lines that mark requested sizes. */
static void put_rules(const struct frame *fr, struct buf *out) {
    for (int i = 0; i < fr->ax->n_rules; i++) {
        double x = pixel_x(fr, scale_x(fr, fr->ax->rule[i]));
        if (x >= fr->left && x <= fr->w - fr->right)
            buf_fmt(out, "<line class='r' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>", x, x, TOP,
                    fr->h - BOTTOM);
    }
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Writes a point's color class: its grade or its series. */
static void point_class(const struct plot_point *p, struct buf *out) {
    if (p->band)
        buf_fmt(out, "q%d", p->band);
    else
        buf_fmt(out, "c%d", p->series % COLORS);
}

/* Draws a point with its error bar and reserves its place. */
static void put_point(struct frame *fr, const struct plot_point *p, struct buf *out) {
    double x = point_x(fr, p), y = point_y(fr, p);
    if (has_err(p)) {
        double low = fr->ax->log_y && p->y <= p->err ? fr->y0 : scale_y(fr, p->y - p->err);
        double y0 = pixel_y(fr, low), y1 = pixel_y(fr, scale_y(fr, p->y + p->err));
        buf_fmt(out, "<path d='M%.1f %.1fV%.1fM%.1f %.1fh6M%.1f %.1fh6'/>", x, y0, y1, x - 3, y0,
                x - 3, y1);
        svg_take(&fr->place, (struct svg_box){x - 3, y1, x + 3, y0});
    }
    buf_fmt(out, "<circle%s cx='%.1f' cy='%.1f' r='4'><title>", p->ring ? " class='o'" : "", x, y);
    html_text(out, p->ring ? "llama.cpp's preset" : p->label ? p->label : "");
    buf_fmt(out, " %.6g, %.6g</title></circle>", p->x, p->y);
    svg_take(&fr->place, (struct svg_box){x - 5, y - 5, x + 5, y + 5});
}

/* Draws the points [i, end) of one series and the line that joins them. */
static void line(const struct frame *fr, const struct plot_point *p, int i, int end,
                 struct buf *out) {
    static const char *const dash[] = {"", "7 3", "2 3"};
    const char *d = dash[p[i].series / COLORS % 3];
    buf_str(out, "<polyline class='f' points='");
    for (; i < end; i++)
        if (shown(fr->ax, &p[i]))
            buf_fmt(out, "%.1f,%.1f ", point_x(fr, &p[i]), point_y(fr, &p[i]));
    buf_fmt(out, "'%s%s%s/>", *d ? " stroke-dasharray='" : "", d, *d ? "'" : "");
}

static int by_x(const void *a, const void *b) {
    const struct plot_point *x = *(const struct plot_point *const *)a,
                            *y = *(const struct plot_point *const *)b;
    return x->x != y->x ? (x->x < y->x ? -1 : 1) : x < y ? -1 : x > y;
}

/* Draws the line through the points on the front, ordered by x. */
static void front(struct frame *fr, const struct plot_point *p, int n, struct buf *out) {
    const struct plot_point **on = xcalloc((size_t)n + 1, sizeof(const struct plot_point *));
    int k = 0;
    for (int i = 0; i < n; i++)
        if (p[i].front && shown(fr->ax, &p[i])) on[k++] = &p[i];
    qsort(on, (size_t)k, sizeof(const struct plot_point *), by_x);
    if (k > 1) {
        buf_str(out, "<polyline class='j' points='");
        for (int i = 0; i < k; i++)
            buf_fmt(out, "%.1f,%.1f ", point_x(fr, on[i]), point_y(fr, on[i]));
        buf_str(out, "'/>");
    }
    for (int i = 1; i < k; i++)
        svg_take_line(&fr->place, point_x(fr, on[i - 1]), point_y(fr, on[i - 1]),
                      point_x(fr, on[i]), point_y(fr, on[i]));
    free(on);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Draws a text; cls: an additional class, or "". */
static void text_at(double x, double y, const char *cls, const char *s, struct buf *out) {
    buf_fmt(out, "<text class='l%s%s' x='%.1f' y='%.1f'>", *cls ? " " : "", cls, x, y);
    html_text(out, s);
    buf_str(out, "</text>");
}

/* Draws a label next to each point, with a leader line if it is far away. */
static void point_labels(struct frame *fr, const struct plot_point *p, int n, struct buf *out) {
    int n_labels = 0;
    for (int i = 0; i < n; i++) {
        char text[80];
        double x, y, tx = 0, ty = 0;
        if (!shown(fr->ax, &p[i]) || !p[i].label || n_labels++ >= SVG_MAX_LABELS) continue;
        svg_shorten(text, p[i].label, fr->ax->narrow ? 110 : 190);
        double w = svg_text_width(text);
        x = point_x(fr, &p[i]), y = point_y(fr, &p[i]);
        if (svg_place(&fr->place, x, y, w, &tx, &ty)) {
            double near = fmin(fmax(x, tx), tx + w);
            buf_fmt(out, "<line class='d' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>", x, y, near,
                    ty > y ? ty - 10 : ty + 3);
        }
        text_at(tx, ty, "", text, out);
    }
}

struct end {
    double x, y, at;
    const struct plot_point *p;
};

static int by_y(const void *a, const void *b) {
    const struct end *x = a, *y = b;
    return x->y != y->y ? (x->y < y->y ? -1 : 1) : x->p < y->p ? -1 : x->p > y->p;
}

/* Draws the names of lines in the right margin, each at the height at which its line ends; names
 * that would collide are moved apart. */
static void end_labels(const struct frame *fr, struct end *v, int n, struct buf *out) {
    enum { STEP = 15 };
    double bottom = fr->h - BOTTOM;
    qsort(v, (size_t)n, sizeof *v, by_y);
    for (int i = 0; i < n; i++) {
        v[i].at = v[i].y;
        if (i && v[i].at < v[i - 1].at + STEP) v[i].at = v[i - 1].at + STEP;
    }
    for (int i = n - 1; i >= 0; i--) { /* move up again if the last names are outside the plot */
        double limit = i + 1 < n ? v[i + 1].at - STEP : bottom;
        if (v[i].at > limit) v[i].at = limit;
    }
    for (int i = 0; i < n; i++) {
        char text[80], cls[8];
        double x = fr->w - fr->right;
        svg_shorten(text, v[i].p->label, fr->right - 18);
        snprintf(cls, sizeof cls, "t%d", v[i].p->series % COLORS);
        buf_fmt(out, "<path class='d' d='M%.1f %.1fL%.1f %.1f'/>", v[i].x + 5, v[i].y, x + 10,
                v[i].at);
        text_at(x + 13, v[i].at + 4, cls, text, out);
    }
}

/* Returns the width of the right margin for the names of lines. */
static int right_margin(const struct plot_axes *ax, const struct plot_point *p, int n) {
    double widest = 0;
    if (ax->label_points) return 10;
    for (int i = 0; i < n; i++)
        if (p[i].label) widest = fmax(widest, svg_text_width(p[i].label));
    return (int)fmin(widest + 20, ax->narrow ? 104 : 200);
}

/* ---- the picture ----------------------------------------------------------------------------- */

/* Draws all lines and their labels. */
static void put_series(struct frame *fr, const struct plot_point *p, int n, struct buf *out) {
    struct end *v = xcalloc((size_t)n + 1, sizeof *v);
    int n_ends = 0;
    if (fr->ax->label_points) front(fr, p, n, out);
    for (int i = 0, end; i < n; i = end) {
        int last = -1;
        for (end = i + 1; end < n && p[end].series == p[i].series; end++)
            ;
        buf_str(out, "<g class='");
        point_class(&p[i], out);
        buf_str(out, "'>");
        if (end > i + 1 && !fr->ax->label_points) line(fr, p, i, end, out);
        for (int k = i; k < end; k++) {
            if (!shown(fr->ax, &p[k])) continue;
            put_point(fr, &p[k], out);
            last = k;
        }
        buf_str(out, "</g>");
        if (last >= 0 && p[last].label && n_ends < SVG_MAX_LABELS)
            v[n_ends++] = (struct end){point_x(fr, &p[last]), point_y(fr, &p[last]), 0, &p[last]};
    }
    if (fr->ax->label_points)
        point_labels(fr, p, n, out);
    else
        end_labels(fr, v, n_ends, out);
    free(v);
}

void report_svg(const struct plot_axes *ax, const struct plot_point *p, int n, struct buf *out) {
    struct frame *fr = xcalloc(1, sizeof *fr);
    *fr = (struct frame){.ax = ax, .w = ax->narrow ? 340 : 690, .h = ax->narrow ? 340 : 400};
    fr->left = ax->narrow ? 70 : 72;
    fr->right = right_margin(ax, p, n);
    for (int i = 0; i < n; i++) {
        if (!shown(ax, &p[i])) continue;
        frame_add(fr, p[i].x, p[i].y);
        if (has_err(&p[i])) frame_add(fr, p[i].x, p[i].y + p[i].err);
    }
    svg_open(fr, out);
    if (fr->any) {
        frame_pad(fr);
        fr->place.area = (struct svg_box){fr->left + 2, TOP, fr->w - fr->right, fr->h - BOTTOM - 2};
        bands(fr, false, out);
        axis_y(fr, out);
        axis_x(fr, out);
        bands(fr, true, out);
        put_rules(fr, out);
        put_note(fr, out);
        put_series(fr, p, n, out);
    } else {
        buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>nothing was measured</text>",
                fr->w / 2, fr->h / 2);
    }
    buf_str(out, "</svg>\n");
    free(fr);
}
