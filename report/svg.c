// SPDX-License-Identifier: MIT
/* report/svg.c - plots with linear x and logarithmic divergence y: size of files, one labelled
 * point each; time per token of mixes, a line per budget. Self-contained: no scripts, no fonts, no
 * references; readable on light and dark pages. */
#include <math.h>
#include <stdlib.h>

#include "report/result.h"

enum { W = 760, H = 420, LEFT = 72, RIGHT = 24, TOP = 24, BOTTOM = 52 };

struct frame {
    double x0, x1;   /* GiB, or milliseconds */
    double ly0, ly1; /* log10 KLD */
};

static double gib(const struct result_file *f) {
    return (double)f->size_bytes / 0x1p30;
}

static bool plotted(const struct result_file *f) {
    return !f->is_base && isfinite(f->mean_kld) && f->mean_kld > 0;
}

static void frame_add(struct frame *fr, bool *any, double x, double y) {
    double ly = log10(y);
    if (!*any) *fr = (struct frame){x, x, ly, ly};
    fr->x0 = fmin(fr->x0, x), fr->x1 = fmax(fr->x1, x);
    fr->ly0 = fmin(fr->ly0, ly), fr->ly1 = fmax(fr->ly1, ly);
    *any = true;
}

static void frame_pad(struct frame *fr) {
    double pad = (fr->x1 - fr->x0) * 0.08;
    if (pad <= 0) pad = fr->x1 * 0.1;
    fr->x0 -= pad, fr->x1 += pad * 1.8; /* room for labels on the right */
    fr->ly0 = floor(fr->ly0 * 2) / 2, fr->ly1 = ceil(fr->ly1 * 2) / 2;
    if (fr->ly1 <= fr->ly0) fr->ly1 = fr->ly0 + 0.5;
}

static bool find_frame(const struct result *r, struct frame *fr) {
    bool any = false;
    for (int i = 0; i < r->n_files; i++)
        if (plotted(&r->file[i])) frame_add(fr, &any, gib(&r->file[i]), r->file[i].mean_kld);
    frame_pad(fr);
    return any;
}

static double px(const struct frame *fr, double x) {
    return LEFT + (x - fr->x0) / (fr->x1 - fr->x0) * (W - LEFT - RIGHT);
}
static double py(const struct frame *fr, double ly) {
    return H - BOTTOM - (ly - fr->ly0) / (fr->ly1 - fr->ly0) * (H - TOP - BOTTOM);
}

static void axis_y(const struct frame *fr, struct buf *out) {
    for (int dec = (int)floor(fr->ly0); dec <= (int)ceil(fr->ly1); dec++)
        for (int k = 1; k < 10; k += k == 1 ? 1 : 3) { /* 1 2 5 (8 is skipped below) */
            double v = k * pow(10, dec), ly = log10(v);
            if (k > 5 || ly < fr->ly0 - 1e-9 || ly > fr->ly1 + 1e-9) continue;
            buf_fmt(out, "<line class='g' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>", LEFT, W - RIGHT,
                    py(fr, ly), py(fr, ly));
            buf_fmt(out, "<text x='%d' y='%.1f' text-anchor='end'>%.2g</text>", LEFT - 8,
                    py(fr, ly) + 4, v);
        }
}

/* 4 to 8 round steps over the range. */
static double nice_step(double range) {
    double raw = range / 6, p = pow(10, floor(log10(raw))), m = raw / p;
    return p * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void axis_x(const struct frame *fr, const char *what, struct buf *out) {
    double step = nice_step(fr->x1 - fr->x0);
    for (double v = ceil(fr->x0 / step) * step; v <= fr->x1; v += step) {
        buf_fmt(out, "<line class='g' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>", px(fr, v), px(fr, v),
                TOP, H - BOTTOM);
        buf_fmt(out, "<text x='%.1f' y='%d' text-anchor='middle'>%.4g</text>", px(fr, v),
                H - BOTTOM + 18, v);
    }
    buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>%s</text>", (LEFT + W - RIGHT) / 2,
            H - 12, what);
    buf_fmt(out,
            "<text transform='translate(16 %d) rotate(-90)' text-anchor='middle'>mean KLD, nats "
            "(lower is better)</text>",
            (TOP + H - BOTTOM) / 2);
}

static void svg_open(const char *label, struct buf *out) {
    buf_fmt(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' role='img' "
            "aria-label='%s'>",
            W, H, label);
    buf_str(out, "<style>text{font:12px sans-serif;fill:#666}.g{stroke:#8884;stroke-width:1}"
                 ".p{fill:#2a78c8}.l{font-weight:600;fill:#2a78c8}"
                 ".f{fill:none;stroke:#2a78c8;stroke-width:1.5}</style>");
}

static void svg_empty(const char *why, struct buf *out) {
    buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>%s</text>", W / 2, H / 2, why);
}

void report_svg_kld(const struct result *r, struct buf *out) {
    struct frame fr = {0, 1, 0, 1};
    svg_open("file size against mean KL divergence", out);
    if (find_frame(r, &fr)) {
        axis_y(&fr, out);
        axis_x(&fr, "size, GiB", out);
        for (int i = 0; i < r->n_files; i++) {
            const struct result_file *f = &r->file[i];
            if (!plotted(f)) continue;
            double x = px(&fr, gib(f)), y = py(&fr, log10(f->mean_kld));
            buf_fmt(out,
                    "<circle class='p' cx='%.1f' cy='%.1f' r='5'><title>%s: %.4f GiB, mean KLD "
                    "%.6f</title></circle>",
                    x, y, f->recipe, gib(f), f->mean_kld);
            buf_fmt(out, "<text class='l' x='%.1f' y='%.1f'>%s</text>", x + 9, y - 6, f->recipe);
        }
    } else {
        svg_empty("no measured quants", out);
    }
    buf_str(out, "</svg>\n");
}

void report_svg_front(const struct plot_point *p, int n, struct buf *out) {
    struct frame fr = {0, 1, 0, 1};
    bool any = false;
    svg_open("time per token against predicted KL divergence", out);
    for (int i = 0; i < n; i++) frame_add(&fr, &any, p[i].x, p[i].y);
    frame_pad(&fr);
    if (any) {
        axis_y(&fr, out);
        axis_x(&fr, "predicted milliseconds per token", out);
    } else {
        svg_empty("no mixes", out);
    }
    for (int i = 0; i < n && any; i++) {
        double x = px(&fr, p[i].x), y = py(&fr, log10(p[i].y));
        bool first = i == 0 || p[i - 1].series != p[i].series;
        bool last = i + 1 == n || p[i + 1].series != p[i].series;
        if (first) buf_str(out, "<polyline class='f' points='");
        buf_fmt(out, "%.1f,%.1f ", x, y);
        if (last) buf_str(out, "'/>");
    }
    for (int i = 0; i < n && any; i++) {
        double x = px(&fr, p[i].x), y = py(&fr, log10(p[i].y));
        buf_fmt(out,
                "<circle class='p' cx='%.1f' cy='%.1f' r='4'><title>%.5g ms, predicted KLD "
                "%.6f</title></circle>",
                x, y, p[i].x, p[i].y);
        if (p[i].label[0])
            buf_fmt(out, "<text class='l' x='%.1f' y='%.1f'>%s</text>", x + 9, y - 6, p[i].label);
    }
    buf_str(out, "</svg>\n");
}
