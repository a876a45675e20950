// SPDX-License-Identifier: MIT
/* report/svg.c - plots: points in series, each with a line and a label at its end, on linear or
 * logarithmic axes. Self-contained: no scripts, no fonts, no references; readable on light and dark
 * pages. Labels may come from strangers' results.json: they are escaped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "report/report_text.h"
#include "report/result.h"

enum { W = 760, H = 420, LEFT = 72, RIGHT = 24, TOP = 24, BOTTOM = 52 };
enum { COLORS = 6, MAX_LABELS = 64, LABEL_W = 90, LABEL_H = 13 };

/* Ranges of the axes; of a logarithmic one those of log2 x or log10 y. */
struct frame {
    const struct plot_axes *ax;
    double x0, x1, y0, y1;
    bool any;
};

static double scale_x(const struct frame *fr, double x) {
    return fr->ax->log_x ? log2(x) : x;
}
static double scale_y(const struct frame *fr, double y) {
    return fr->ax->log_y ? log10(y) : y;
}

/* Points that a logarithm cannot show are left out. */
static bool shown(const struct plot_axes *ax, const struct plot_point *p) {
    return isfinite(p->x) && isfinite(p->y) && (!ax->log_x || p->x > 0) && (!ax->log_y || p->y > 0);
}

static void frame_add(struct frame *fr, const struct plot_point *p) {
    double x = scale_x(fr, p->x), y = scale_y(fr, p->y);
    if (!fr->any) fr->x0 = fr->x1 = x, fr->y0 = fr->y1 = y;
    fr->x0 = fmin(fr->x0, x), fr->x1 = fmax(fr->x1, x);
    fr->y0 = fmin(fr->y0, y), fr->y1 = fmax(fr->y1, y);
    fr->any = true;
}

static void frame_pad(struct frame *fr) {
    double pad = (fr->x1 - fr->x0) * 0.08;
    if (pad <= 0) pad = fmax(fabs(fr->x1) * 0.1, 1e-9);
    fr->x0 -= pad, fr->x1 += pad * 2.6; /* room for labels on the right */
    if (fr->ax->log_y)
        fr->y0 = floor(fr->y0 * 2) / 2, fr->y1 = ceil(fr->y1 * 2) / 2;
    else
        fr->y0 = 0, fr->y1 *= 1.08;
    if (fr->y1 <= fr->y0) fr->y1 = fr->y0 + 0.5;
}

static double px(const struct frame *fr, double x) { /* of a scaled value */
    return LEFT + (x - fr->x0) / (fr->x1 - fr->x0) * (W - LEFT - RIGHT);
}
static double py(const struct frame *fr, double y) {
    return H - BOTTOM - (y - fr->y0) / (fr->y1 - fr->y0) * (H - TOP - BOTTOM);
}

static void grid_y(const struct frame *fr, double at, double value, struct buf *out) {
    buf_fmt(out, "<line class='g' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>", LEFT, W - RIGHT,
            py(fr, at), py(fr, at));
    buf_fmt(out, "<text x='%d' y='%.1f' text-anchor='end'>%.4g</text>", LEFT - 8, py(fr, at) + 4,
            value);
}

static void grid_x(const struct frame *fr, double at, double value, struct buf *out) {
    buf_fmt(out, "<line class='g' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>", px(fr, at), px(fr, at),
            TOP, H - BOTTOM);
    buf_fmt(out, "<text x='%.1f' y='%d' text-anchor='middle'>%.6g</text>", px(fr, at),
            H - BOTTOM + 18, value);
}

/* 4 to 8 round steps over the range. */
static double nice_step(double range) {
    double raw = range / 6, p = pow(10, floor(log10(raw))), m = raw / p;
    return p * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void axis_y(const struct frame *fr, struct buf *out) {
    static const int digits[] = {1, 2, 5};
    double step = nice_step(fr->y1 - fr->y0);
    if (!fr->ax->log_y)
        for (int i = 0; i * step <= fr->y1; i++) grid_y(fr, i * step, i * step, out);
    for (int dec = (int)floor(fr->y0); fr->ax->log_y && dec <= (int)ceil(fr->y1); dec++)
        for (size_t k = 0; k < sizeof digits / sizeof *digits; k++) {
            double v = digits[k] * pow(10, dec), ly = log10(v);
            if (ly >= fr->y0 - 1e-9 && ly <= fr->y1 + 1e-9) grid_y(fr, ly, v, out);
        }
    buf_fmt(out, "<text transform='translate(16 %d) rotate(-90)' text-anchor='middle'>%s</text>",
            (TOP + H - BOTTOM) / 2, fr->ax->y);
}

static void axis_x(const struct frame *fr, struct buf *out) {
    double step = fr->ax->log_x ? 1 : nice_step(fr->x1 - fr->x0);
    for (double k = ceil(fr->x0 / step); k * step <= fr->x1; k++)
        grid_x(fr, k * step, fr->ax->log_x ? exp2(k * step) : k * step + 0.0, out);
    buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>%s</text>", (LEFT + W - RIGHT) / 2,
            H - 12, fr->ax->x);
}

static void svg_open(const char *label, struct buf *out) {
    buf_fmt(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' role='img' "
            "aria-label='%s'>",
            W, H, label);
    buf_str(out, "<style>text{font:12px sans-serif;fill:#767676}.g{stroke:#8884;stroke-width:1}"
                 ".l{font-weight:600}.f{fill:none;stroke-width:1.5}"
                 ".c0{fill:#2a78c8;stroke:#2a78c8}.c1{fill:#c8562a;stroke:#c8562a}"
                 ".c2{fill:#2a9a5a;stroke:#2a9a5a}.c3{fill:#9a4ac0;stroke:#9a4ac0}"
                 ".c4{fill:#a8820a;stroke:#a8820a}.c5{fill:#d04a8a;stroke:#d04a8a}"
                 ".l{stroke:none}</style>");
}

static void point(const struct frame *fr, const struct plot_point *p, struct buf *out) {
    buf_fmt(out, "<circle cx='%.1f' cy='%.1f' r='4'><title>", px(fr, scale_x(fr, p->x)),
            py(fr, scale_y(fr, p->y)));
    html_text(out, p->label ? p->label : "");
    buf_fmt(out, " %.6g, %.6g</title></circle>", p->x, p->y);
}

struct label {
    double x, y;
    const struct plot_point *p;
};

static int by_y(const void *a, const void *b) {
    const struct label *x = a, *y = b;
    return x->y != y->y ? (x->y < y->y ? -1 : 1) : x->p < y->p ? -1 : 1;
}

/* Labels right of the last point of their series, pushed down where they would overlap. */
static void labels(struct label *l, int n, struct buf *out) {
    qsort(l, (size_t)n, sizeof *l, by_y);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            if (fabs(l[k].x - l[i].x) < LABEL_W && l[i].y - l[k].y < LABEL_H)
                l[i].y = l[k].y + LABEL_H;
        buf_fmt(out, "<text class='l c%d' x='%.1f' y='%.1f'>", l[i].p->series % COLORS, l[i].x + 9,
                l[i].y + 4);
        html_text(out, l[i].p->label);
        buf_str(out, "</text>");
    }
}

/* The points of one series, [i, end): a line where they are joined. */
static void line(const struct frame *fr, const struct plot_point *p, int i, int end,
                 struct buf *out) {
    buf_str(out, "<polyline class='f' points='");
    for (; i < end; i++)
        if (shown(fr->ax, &p[i]))
            buf_fmt(out, "%.1f,%.1f ", px(fr, scale_x(fr, p[i].x)), py(fr, scale_y(fr, p[i].y)));
    buf_str(out, "'/>");
}

void report_svg(const struct plot_axes *ax, const struct plot_point *p, int n, struct buf *out) {
    struct frame fr = {.ax = ax};
    for (int i = 0; i < n; i++)
        if (shown(ax, &p[i])) frame_add(&fr, &p[i]);
    svg_open(ax->title, out);
    if (fr.any) {
        frame_pad(&fr);
        axis_y(&fr, out);
        axis_x(&fr, out);
    } else {
        buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>nothing was measured</text>", W / 2,
                H / 2);
    }
    struct label l[MAX_LABELS];
    int n_labels = 0;
    for (int i = 0, end; i < n && fr.any; i = end) {
        for (end = i + 1; end < n && p[end].series == p[i].series; end++)
            ;
        buf_fmt(out, "<g class='c%d'>", p[i].series % COLORS);
        if (end > i + 1) line(&fr, p, i, end, out);
        for (int k = i; k < end; k++)
            if (shown(ax, &p[k])) point(&fr, &p[k], out);
        buf_str(out, "</g>");
        const struct plot_point *last = &p[end - 1];
        if (shown(ax, last) && last->label && n_labels < MAX_LABELS)
            l[n_labels++] = (struct label){px(&fr, scale_x(&fr, last->x)),
                                           py(&fr, scale_y(&fr, last->y)), last};
    }
    labels(l, n_labels, out);
    buf_str(out, "</svg>\n");
}

void report_svg_kld(const struct result *r, struct buf *out) {
    static const struct plot_axes ax = {.title = "file size against mean KL divergence",
                                        .x = "size, GiB",
                                        .y = "mean KLD, nats (lower is better)",
                                        .log_y = true};
    struct plot_point *p = xcalloc((size_t)r->n_files + 1, sizeof *p);
    int n = 0;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (f->is_base) continue;
        p[n++] = (struct plot_point){(double)f->size_bytes / 0x1p30, f->mean_kld, i, f->recipe};
    }
    report_svg(&ax, p, n, out);
    free(p);
}

/* One line per file over a measurement's rows: `x` and `y` are members of them. */
static void by_depth(const struct plot_axes *ax, const struct result *r, bool speed,
                     struct buf *out) {
    struct plot_point *p = NULL;
    int n = 0;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        const struct json *rows = speed ? f->speed : f->by_depth;
        p = xreallocarray(p, (size_t)n + (size_t)json_len(rows) + 1, sizeof *p);
        for (const struct json *o = json_first(rows); o; o = json_next(o)) {
            const char *test = json_str(json_get(o, "test"));
            if (speed && (!test || strncmp(test, "tg", 2) != 0)) continue;
            p[n++] = (struct plot_point){
                json_num(json_get(o, speed ? "depth" : "to"), (double)NAN),
                json_num(json_get(o, speed ? "tok_per_s" : "mean_kld"), (double)NAN), i, f->recipe};
        }
    }
    report_svg(ax, p, n, out);
    free(p);
}

static bool any_rows(const struct result *r, bool speed) {
    for (int i = 0; i < r->n_files; i++)
        if (json_len(speed ? r->file[i].speed : r->file[i].by_depth) > 1) return true;
    return false;
}

bool report_svg_kld_depth(const struct result *r, struct buf *out) {
    static const struct plot_axes ax = {.title = "mean KL divergence by depth",
                                        .x = "tokens of context, up to",
                                        .y = "mean KLD, nats (lower is better)",
                                        .log_x = true,
                                        .log_y = true};
    if (!any_rows(r, false)) return false;
    by_depth(&ax, r, false, out);
    return true;
}

bool report_svg_speed_depth(const struct result *r, struct buf *out) {
    static const struct plot_axes ax = {.title = "generation speed by depth",
                                        .x = "tokens of context before",
                                        .y = "generated tokens per second"};
    if (!any_rows(r, true)) return false;
    by_depth(&ax, r, true, out);
    return true;
}
