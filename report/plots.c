// SPDX-License-Identifier: MIT
/* report/plots.c - the plots of a report: builds points, labels and axes; svg.c draws them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/pick.h"
#include "report/report_text.h"
#include "report/result.h"
#include "report/svg.h"

static const double Z95 = 1.959964; /* two-sided 95 % of a normal distribution */

/* Appends a note, e.g. "BF16, 35.4 MB: 0 >". The base itself is outside the plot: it is larger than
 * all files, and its divergence of 0 has no logarithm. */
static void base_note(const struct result *r, struct buf *out) {
    for (int i = 0; i < r->n_files; i++) {
        char size[32];
        if (!r->file[i].is_base) continue;
        text_size(size, r->file[i].size_bytes);
        buf_fmt(out, "%s, %s: 0 \xe2\x96\xb8", *r->base_type ? r->base_type : r->file[i].recipe,
                size);
        return;
    }
}

void report_svg_kld(const struct result *r, bool narrow, struct buf *out) {
    struct plot_band band[PICK_BANDS];
    struct plot_point *p = xcalloc(2 * (size_t)r->n_files + 1, sizeof *p);
    double *rule = xcalloc((size_t)r->n_files + 1, sizeof *rule);
    struct buf note = {0};
    struct plot_axes ax = {.title = "file size against mean divergence",
                           .x = "size of the file",
                           .y = narrow ? "mean divergence, nats"
                                       : "mean divergence, nats (lower is better)",
                           .log_y = true,
                           .label_points = true,
                           .bytes_x = true,
                           .narrow = narrow,
                           .band = band,
                           .n_bands = PICK_BANDS,
                           .rule = rule};
    int n = 0;
    for (int i = 0; i < PICK_BANDS; i++)
        band[i] = (struct plot_band){pick_bands[i].max_kld, pick_bands[i].name};
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (f->is_base) continue;
        double budget = result_budget(f);
        if (budget > 0) rule[ax.n_rules++] = budget;
        p[n++] = (struct plot_point){.x = (double)f->size_bytes,
                                     .y = f->mean_kld,
                                     .series = i,
                                     .label = pick_label(r, i),
                                     .err = Z95 * f->mean_kld_stderr,
                                     .band = 1 + (int)pick_grade(r, i).band % PICK_BANDS,
                                     .front = pick_on_front(r, i)};
        if (isfinite(pick_gain(r, i))) /* llama.cpp's preset of the same size */
            p[n++] = (struct plot_point){
                .x = (double)f->size_bytes, .y = f->preset_kld, .series = i, .ring = true};
    }
    base_note(r, &note);
    ax.note = note.data;
    report_svg(&ax, p, n, out);
    buf_release(&note);
    free(rule);
    free(p);
}

bool report_svg_speed(const struct result *r, bool narrow, struct buf *out) {
    struct plot_axes ax = {.title = "file size against generation speed",
                           .x = "size of the file",
                           .y = "generated tokens per second",
                           .label_points = true,
                           .bytes_x = true,
                           .narrow = narrow};
    struct plot_point *p = xcalloc((size_t)r->n_files + 1, sizeof *p);
    int n = 0;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (!isfinite(f->tg_tok_per_s) || f->is_base) continue;
        p[n++] = (struct plot_point){.x = (double)f->size_bytes,
                                     .y = f->tg_tok_per_s,
                                     .err = f->tg_stddev,
                                     .label = pick_label(r, i)};
    }
    if (n > 1) report_svg(&ax, p, n, out);
    free(p);
    return n > 1;
}

/* Plots one line per file from the rows of a measurement. */
static void by_depth(const struct plot_axes *ax, const struct result *r, bool speed,
                     struct buf *out) {
    struct plot_point *p = NULL;
    int n = 0;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        const cJSON *rows = speed ? f->speed : f->by_depth;
        p = xreallocarray(p, (size_t)n + (size_t)cJSON_GetArraySize(rows) + 1, sizeof *p);
        for (const cJSON *o = doc_first(rows); o; o = o->next) {
            const char *test = doc_str(o, "test");
            if (speed && (!test || strncmp(test, "tg", 2) != 0)) continue;
            p[n++] =
                (struct plot_point){.x = doc_num(o, speed ? "depth" : "to", (double)NAN),
                                    .y = doc_num(o, speed ? "tok_per_s" : "mean_kld", (double)NAN),
                                    .series = i,
                                    .label = pick_label(r, i)};
        }
    }
    report_svg(ax, p, n, out);
    free(p);
}

/* Returns whether any file has more than one row of speeds, or of results by depth. */
static bool any_rows(const struct result *r, bool speed) {
    for (int i = 0; i < r->n_files; i++)
        if (cJSON_GetArraySize(speed ? r->file[i].speed : r->file[i].by_depth) > 1) return true;
    return false;
}

bool report_svg_kld_depth(const struct result *r, bool narrow, struct buf *out) {
    const struct plot_axes ax = {.title = "mean divergence by context",
                                 .x = "tokens of context, up to",
                                 .y = narrow ? "mean divergence, nats"
                                             : "mean divergence, nats (lower is better)",
                                 .log_x = true,
                                 .log_y = true,
                                 .narrow = narrow};
    if (!any_rows(r, false)) return false;
    by_depth(&ax, r, false, out);
    return true;
}

bool report_svg_speed_depth(const struct result *r, bool narrow, struct buf *out) {
    const struct plot_axes ax = {.title = "generation speed by context",
                                 .x = "tokens of preceding context",
                                 .y = "generated tokens per second",
                                 .narrow = narrow};
    if (!any_rows(r, true)) return false;
    by_depth(&ax, r, true, out);
    return true;
}
