// SPDX-License-Identifier: MIT
/* report/svg_label.c - placement of point labels.
 *
 * Tries several positions around each point and takes the one that covers the fewest boxes placed
 * before; ties go to the nearest. Greedy, in call order; deterministic. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/svg.h"

enum { ASCENT = 10, DESCENT = 3 };

/* Returns the width of a character in a common sans-serif face; unknown characters count as wide.
 */
static double char_width(unsigned char c) {
    if ((c & 0xc0) == 0x80) return 0;
    if (c >= 0x80) return 12;
    if (strchr("MWm@%", c)) return 11;
    if (strchr("iljtfrI.,:;'!|()[] ", c)) return 4.2;
    if (c >= 'A' && c <= 'Z') return 8.8;
    return 7.2;
}

double svg_text_width(const char *s) {
    double w = 0;
    for (; *s; s++) w += char_width((unsigned char)*s);
    return w * 1.06; /* some faces are wider */
}

void svg_shorten(char out[80], const char *s, double width) {
    size_t n = strlen(s), head, tail;
    double h = 0, t = 0, room = (width - 12) / 2;
    if (svg_text_width(s) <= width && n < 80) {
        memcpy(out, s, n + 1);
        return;
    }
    for (head = 0; head < n && head < 36; head++) {
        h += char_width((unsigned char)s[head]);
        if (h > room) break;
    }
    for (tail = n; tail > head && n - tail < 36; tail--) {
        t += char_width((unsigned char)s[tail - 1]);
        if (t > room) break;
    }
    while (head > 0 && ((unsigned char)s[head] & 0xc0) == 0x80) head--; /* keep whole characters */
    while (tail < n && ((unsigned char)s[tail] & 0xc0) == 0x80) tail++;
    snprintf(out, 80, "%.*s\xe2\x80\xa6%s", (int)head, s, s + tail);
}

static bool svg_overlap(const struct svg_box *a, const struct svg_box *b) {
    return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

void svg_take(struct svg_place *p, struct svg_box b) {
    if (p->n < SVG_MAX_BOXES) p->taken[p->n++] = b;
}

void svg_take_line(struct svg_place *p, double x0, double y0, double x1, double y1) {
    enum { STEP = 8 };
    int n = 1 + (int)(sqrt((x1 - x0) * (x1 - x0) + (y1 - y0) * (y1 - y0)) / STEP);
    for (int i = 0; i <= n && p->n_soft < SVG_MAX_BOXES; i++) {
        double x = x0 + (x1 - x0) * i / n, y = y0 + (y1 - y0) * i / n;
        p->soft[p->n_soft++] = (struct svg_box){x - 1, y - 1, x + 1, y + 1};
    }
}

/* Returns the box of a text whose baseline begins at x, y. */
static struct svg_box text_box(double x, double y, double width) {
    return (struct svg_box){x - 2, y - ASCENT - 1, x + width + 2, y + DESCENT + 1};
}

/* Returns the cost of a label at b: the penalties for being outside the plot, over points and over
 * lines. */
static double cost_of_place(const struct svg_place *p, const struct svg_box *b) {
    double c = 0;
    if (b->x0 < p->area.x0 || b->x1 > p->area.x1) c += 5000;
    if (b->y0 < p->area.y0 || b->y1 > p->area.y1) c += 5000;
    for (int i = 0; i < p->n; i++)
        if (svg_overlap(b, &p->taken[i])) c += 1000;
    for (int i = 0; i < p->n_soft; i++)
        if (svg_overlap(b, &p->soft[i])) c += 6;
    return c;
}

bool svg_place(struct svg_place *p, double x, double y, double width, double *tx, double *ty) {
    static const double steps[] = {0, 16, 30, 44, 60, 80, 104};
    double best = (double)INFINITY;
    bool lead = false;
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        double d = steps[k];
        const double at[][2] = {{x + 9, y + 4 - d},         {x + 9, y + 4 + d},
                                {x - 9 - width, y + 4 - d}, {x - 9 - width, y + 4 + d},
                                {x - width / 2, y - 9 - d}, {x - width / 2, y + 18 + d}};
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            struct svg_box b = text_box(at[i][0], at[i][1], width);
            double c = cost_of_place(p, &b) + (double)(k * 10 + i);
            if (c >= best) continue;
            best = c;
            *tx = at[i][0], *ty = at[i][1];
            lead = k > 0;
        }
    }
    svg_take(p, text_box(*tx, *ty, width));
    return lead;
}
