// SPDX-License-Identifier: MIT
/* report/svg.c - the size-against-KLD plot: linear x (GiB), logarithmic y, one labelled point per
 * file. Self-contained: no scripts, no fonts, no references; readable on light and dark pages. */
#include <math.h>
#include <stdlib.h>

#include "report/result.h"

enum { W = 760, H = 420, LEFT = 72, RIGHT = 24, TOP = 24, BOTTOM = 52 };

struct frame {
    double x0, x1;   /* GiB */
    double ly0, ly1; /* log10 KLD */
};

static double gib(const struct result_file *f) {
    return (double)f->size_bytes / 0x1p30;
}

static bool plotted(const struct result_file *f) {
    return !f->is_base && isfinite(f->mean_kld) && f->mean_kld > 0;
}

static bool find_frame(const struct result *r, struct frame *fr) {
    bool any = false;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (!plotted(f)) continue;
        double x = gib(f), y = log10(f->mean_kld);
        if (!any) *fr = (struct frame){x, x, y, y};
        fr->x0 = fmin(fr->x0, x), fr->x1 = fmax(fr->x1, x);
        fr->ly0 = fmin(fr->ly0, y), fr->ly1 = fmax(fr->ly1, y);
        any = true;
    }
    double pad = (fr->x1 - fr->x0) * 0.08;
    if (pad <= 0) pad = fr->x1 * 0.1;
    fr->x0 -= pad, fr->x1 += pad * 1.8; /* room for labels on the right */
    fr->ly0 = floor(fr->ly0 * 2) / 2, fr->ly1 = ceil(fr->ly1 * 2) / 2;
    if (fr->ly1 <= fr->ly0) fr->ly1 = fr->ly0 + 0.5;
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

static void axis_x(const struct frame *fr, struct buf *out) {
    double step = nice_step(fr->x1 - fr->x0);
    for (double v = ceil(fr->x0 / step) * step; v <= fr->x1; v += step) {
        buf_fmt(out, "<line class='g' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>", px(fr, v), px(fr, v),
                TOP, H - BOTTOM);
        buf_fmt(out, "<text x='%.1f' y='%d' text-anchor='middle'>%.4g</text>", px(fr, v),
                H - BOTTOM + 18, v);
    }
    buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>size, GiB</text>",
            (LEFT + W - RIGHT) / 2, H - 12);
    buf_fmt(out,
            "<text transform='translate(16 %d) rotate(-90)' text-anchor='middle'>mean KLD, nats "
            "(lower is better)</text>",
            (TOP + H - BOTTOM) / 2);
}

void report_svg_kld(const struct result *r, struct buf *out) {
    struct frame fr = {0, 1, 0, 1};
    buf_fmt(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' role='img' "
            "aria-label='file size against mean KL divergence'>",
            W, H);
    buf_str(out, "<style>text{font:12px sans-serif;fill:#666}.g{stroke:#8884;stroke-width:1}"
                 ".p{fill:#2a78c8}.l{font-weight:600;fill:#2a78c8}</style>");
    if (find_frame(r, &fr)) {
        axis_y(&fr, out);
        axis_x(&fr, out);
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
        buf_fmt(out, "<text x='%d' y='%d' text-anchor='middle'>no measured quants</text>", W / 2,
                H / 2);
    }
    buf_str(out, "</svg>\n");
}
