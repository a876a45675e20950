// SPDX-License-Identifier: MIT
/* report/html_files.c - the tables of report.html: files, all numbers, memory.
 *
 * On phones each row becomes a card, so every cell also contains the name of its column. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/html.h"
#include "report/pick.h"
#include "report/report_text.h"

enum { LONG_NAME = 44 }; /* characters per line of the table at 768 px */

/* ---- pieces ---------------------------------------------------------------------------------- */

void html_link(const struct release *rel, const char *file, const char *text, struct buf *out) {
    bool here = *file && (!rel || release_has(rel, file));
    if (here) {
        buf_str(out, "<a href='./");
        text_url(out, file);
        buf_str(out, "'>");
    }
    html_text(out, text);
    if (here) buf_str(out, "</a>");
}

/* Appends the grade of a file: <span class='q q2'>slight loss</span>. */
static void html_grade(const struct result *r, int i, struct buf *out) {
    struct pick_grade g = pick_grade(r, i);
    if (r->file[i].is_base) {
        buf_str(out, "<span class=q>base</span>");
        return;
    }
    buf_fmt(out, "<span class='q q%d'>%s</span>", g.band == PICK_UNKNOWN ? 0 : 1 + (int)g.band,
            pick_word(g.band));
    if (g.worst != g.best)
        buf_fmt(out, "<span class=s>perhaps %s</span>",
                pick_word(g.worst != g.band ? g.worst : g.best));
}

/* Opens a cell that contains the column's name, which only phones show. */
static void cell(const char *column, struct buf *out) {
    buf_fmt(out, "<td class=n data-l='%s'><span class=v>", column);
}

static void cell_end(struct buf *out) {
    buf_str(out, "</span></td>");
}

/* Writes a cell with a number; "-" if it is not finite. */
static void cell_num(const char *column, double v, int prec, struct buf *out) {
    cell(column, out);
    if (isfinite(v))
        buf_fmt(out, "%.*f", prec, v);
    else
        buf_str(out, "-");
    cell_end(out);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void put_plain(struct buf *out, const struct buf *text) {
    html_text(out, text->data ? text->data : "");
}

/* Writes a divergence, with its error on a second line that phones hide. */
static void kld_cell(const struct result_file *f, struct buf *out) {
    struct buf text = {0};
    cell("divergence", out);
    text_kld(&text, f->is_base ? 0 : f->mean_kld, f->mean_kld_stderr);
    char *err = strstr(text.data, " \302\261");
    if (f->is_base) {
        buf_chr(out, '0');
    } else if (err) {
        buf_add(out, text.data, (size_t)(err - text.data));
        buf_fmt(out, "<span class=s>%s</span>", err + 1);
    } else {
        buf_str(out, text.data);
    }
    cell_end(out);
    buf_release(&text);
}

/* Writes the divergence over questions about images. */
static void images_cell(const struct result_file *f, struct buf *out) {
    struct buf text = {0};
    text_kld(&text, f->images.kld, (double)NAN);
    cell("images", out);
    buf_str(out, f->is_base ? "0" : text.data);
    cell_end(out);
    buf_release(&text);
}

/* Writes tokens per second with a suitable number of digits. */
static void speed_text(double v, struct buf *out) {
    char digits[32];
    if (v >= 1000 && v < 1e15) {
        text_thousands(digits, (int64_t)llround(v));
        buf_str(out, digits);
    } else {
        buf_fmt(out, "%.*f", v >= 100 ? 0 : 1, v);
    }
}

/* Writes a cell with speed and deviation; "-" if the speed was not measured. */
static void speed_cell(const char *column, double v, double stddev, struct buf *out) {
    cell(column, out);
    if (isfinite(v))
        speed_text(v, out);
    else
        buf_chr(out, '-');
    if (isfinite(v) && isfinite(stddev)) {
        buf_str(out, "<span class=s>&plusmn; ");
        speed_text(stddev, out);
        buf_str(out, "</span>");
    }
    cell_end(out);
}

/* Writes the cell with the name of file i and notes about it. */
static void file_name(const struct result *r, int i, const struct release *rel, struct buf *out) {
    const char *file = r->file[i].file;
    struct buf text = {0};
    buf_fmt(out, "<td><code class='name%s'>", strlen(file) > LONG_NAME ? " long" : "");
    html_link(rel, file, file, out);
    buf_str(out, "</code>");
    if (i == pick_file(r)) buf_str(out, "<span class=star>recommended</span>");
    pick_role(r, i, &text);
    buf_str(out, "<span class=s>");
    put_plain(out, &text);
    buf_reset(&text);
    if (pick_gain_text(r, i, &text)) buf_str(out, "; ");
    put_plain(out, &text);
    buf_str(out, "</span></td>");
    buf_release(&text);
}

/* Writes the row of file i. */
static void file_row(const struct result *r, int i, const struct release *rel, struct buf *out) {
    const struct result_file *f = &r->file[i];
    char size[32];
    buf_str(out, "<tr>");
    file_name(r, i, rel, out);
    buf_str(out, "<td class=w>");
    html_grade(r, i, out);
    buf_str(out, "</td>");
    cell("size", out);
    text_size(size, f->size_bytes);
    buf_fmt(out, "%s", size);
    text_gib(size, f->size_bytes);
    buf_fmt(out, "<span class=s>%s</span>", size);
    cell_end(out);
    kld_cell(f, out);
    cell("same token", out);
    if (isfinite(f->same_top1) && !f->is_base)
        buf_fmt(out, "%.1f %%", f->same_top1 * 100);
    else
        buf_str(out, f->is_base ? "100 %" : "-");
    cell_end(out);
    if (result_sees(r)) images_cell(f, out);
    buf_str(out, "</tr>\n");
}

/* Writes the name of the base below the table if the base is not in the folder. */
static void base_line(const struct result *r, int i, struct buf *out) {
    char size[32];
    text_size(size, r->file[i].size_bytes);
    buf_str(out, "<p class=m>Compared with <code>");
    html_text(out, r->file[i].file);
    buf_fmt(out, "</code>, %s, %s; it is not in this folder.</p>", size,
            r->base_is_quantized ? "the base of these files, itself quantized"
                                 : "the unquantized conversion");
}

void html_files(const struct result *r, const struct release *rel, struct buf *out) {
    int *order = pick_order(r);
    buf_fmt(out,
            "<section id=files><h2>Files</h2><table class=files><thead><tr><th>file<th>loss"
            "<th class=n>size<th class=n>mean<br>divergence<th class=n>same<br>token%s</tr>"
            "</thead><tbody>\n",
            result_sees(r) ? "<th class=n>divergence,<br>images" : "");
    const int n = r->n_files, last = n ? order[n - 1] : -1;
    const bool away = n && r->file[last].is_base && rel && !release_has(rel, r->file[last].file);
    for (int i = 0; i < n - away; i++) file_row(r, order[i], rel, out);
    buf_str(out, "</tbody></table>");
    if (away) base_line(r, last, out);
    html_extras(r, out);
    buf_str(out, "</section>\n");
    free(order);
}

void html_numbers(const struct result *r, struct buf *out) {
    int *order = pick_order(r);
    buf_fmt(out, "<details><summary>All numbers, and the types inside</summary><div class=scroll>"
                 "<table class=small><thead><tr><th>file<th class=n>bytes"
                 "<th class=n>bits per<br>weight<th class=n>perplexity<th class=n>99.9 "
                 "%%<br>divergence<th class=n>largest"
                 "<th class=n>RMS &Delta;p<th class=n>prompt,<br>tokens/s<th class=n>answer,"
                 "<br>tokens/s<th>types, by share of the bytes</tr></thead><tbody>\n");
    for (int k = 0; k < r->n_files; k++) {
        const struct result_file *f = &r->file[order[k]];
        char digits[32];
        buf_str(out, "<tr><td><code class=name>");
        html_text(out, pick_label(r, order[k]));
        buf_str(out, "</code></td>");
        cell("bytes", out);
        text_thousands(digits, f->size_bytes);
        buf_str(out, digits);
        cell_end(out);
        cell_num("bits per weight", f->bpw, 2, out);
        cell("perplexity", out);
        if (isfinite(f->ppl)) buf_fmt(out, "%.4f", f->ppl);
        if (isfinite(f->ppl) && isfinite(f->ppl_stderr))
            buf_fmt(out, "<span class=s>&plusmn; %.4f</span>", f->ppl_stderr);
        if (!isfinite(f->ppl)) buf_chr(out, '-');
        cell_end(out);
        cell_num("99.9 % divergence", f->kld_p999, 4, out);
        cell_num("largest divergence", f->max_kld, 3, out);
        cell("RMS change of probability", out);
        if (isfinite(f->rms_dp))
            buf_fmt(out, "%.2f %%", f->rms_dp * 100);
        else
            buf_chr(out, '-');
        cell_end(out);
        speed_cell("prompt, tokens/s", f->pp_tok_per_s, f->pp_stddev, out);
        speed_cell("answer, tokens/s", f->tg_tok_per_s, f->tg_stddev, out);
        struct buf types = {0};
        pick_types(r, order[k], &types);
        buf_str(out, "<td class=types>");
        put_plain(out, &types);
        buf_str(out, "</td></tr>\n");
        buf_release(&types);
    }
    buf_str(out, "</tbody></table></div></details>\n");
    free(order);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const struct {
    const char *title, *before, *behind, *about;
} memories[RELEASE_MEMORIES] = {
    [RELEASE_GPU] = {"A GPU", "a GPU of ", "", "of its own memory; 1 GiB is kept free"},
    [RELEASE_UNIFIED] = {"Unified memory (Apple silicon)", "", " of unified memory",
                         "of which macOS lets the GPU use two thirds (three quarters from 48 GiB)"},
    [RELEASE_RAM] = {"Main memory (no GPU)", "", " of main memory",
                     "of which 3 GiB are left to the system"}};

/* Returns the label of a file of the release: its label in the results, or else its encoding or
 * name. */
static const char *label_of(const struct result *r, const struct release *rel, int file) {
    for (int k = 0; k < r->n_files; k++)
        if (strcmp(r->file[k].file, rel->file[file].file) == 0) return pick_label(r, k);
    return *rel->file[file].encoding ? rel->file[file].encoding : rel->file[file].file;
}

/* Writes the file that fits with the k-th context, or "none". */
static void fit_cell(const struct result *r, const struct release *rel, const struct release_fit *f,
                     int k, struct buf *out) {
    buf_str(out, "<td>");
    if (f->file[k] < 0) {
        buf_str(out, "<span class=m>none</span>");
    } else {
        html_link(rel, rel->file[f->file[k]].file, label_of(r, rel, f->file[k]), out);
        if (f->cpu_moe[k])
            buf_fmt(out, "<span class=s>experts of %d blocks in main memory</span>", f->cpu_moe[k]);
    }
    buf_str(out, "</td>");
}

/* Writes the table of files that fit one kind of memory; nothing without rows. */
static void fit_table(const struct result *r, const struct release *rel, int kind,
                      struct buf *out) {
    char digits[32];
    bool begun = false;
    for (int i = 0; i < rel->n_fits; i++) {
        const struct release_fit *f = &rel->fit[i];
        if ((int)f->kind != kind) continue;
        if (!begun) {
            buf_fmt(out, "<h3>%s</h3><table class=fit><thead><tr><th>memory", memories[kind].title);
            for (int k = 0; k < RELEASE_CONTEXTS && rel->fit_ctx[k]; k++) {
                text_thousands(digits, rel->fit_ctx[k]);
                buf_fmt(out, "<th>%s tokens", digits);
            }
            buf_str(out, "</tr></thead><tbody>\n");
        }
        begun = true;
        buf_fmt(out, "<tr><td>%d GiB%s</td>", f->gib,
                rel->enough_gib[kind] == f->gib ? " and more" : "");
        for (int k = 0; k < RELEASE_CONTEXTS && rel->fit_ctx[k]; k++) fit_cell(r, rel, f, k, out);
        buf_str(out, "</tr>\n");
    }
    if (begun) buf_fmt(out, "</tbody></table><p class=m>Memory %s.</p>\n", memories[kind].about);
}

void html_fit(const struct result *r, const struct release *rel, struct buf *out) {
    const char *sep = " fits ";
    bool any = false;
    if (!rel || !rel->fit_ctx[0] || rel->fit_best < 0) return;
    buf_str(out, "<section id=fit><h2>What fits your memory</h2>\n");
    for (int kind = 0; kind < RELEASE_MEMORIES; kind++) {
        bool has_rows = false;
        for (int i = 0; i < rel->n_fits; i++) has_rows |= (int)rel->fit[i].kind == kind;
        if (has_rows || !rel->enough_gib[kind]) continue;
        if (!any) {
            buf_str(out, "<p>");
            html_text(out, label_of(r, rel, rel->fit_best));
        }
        buf_str(out, sep);
        buf_fmt(out, "%s%d GiB%s", memories[kind].before, rel->enough_gib[kind],
                memories[kind].behind);
        sep = ", ";
        any = true;
    }
    if (any) {
        buf_str(out, " with ");
        release_longest(rel, out);
        buf_str(out, ".</p>\n");
    }
    for (int kind = 0; kind < RELEASE_MEMORIES; kind++) fit_table(r, rel, kind, out);
    if (rel->n_fits)
        buf_str(out, "<p class=m>Each cell names the recommended file if it fits, otherwise the "
                     "closest to the "
                     "original that fits, for one conversation with keys and values in "
                     "f16. <code>hone plan FILE --vram SIZE</code> computes other cases.</p>");
    if (release_projector(rel)) {
        char size[32];
        text_gib(size, (int64_t)release_projector(rel));
        buf_fmt(out, "<p class=m>The projector file, %s, is counted.</p>", size);
    }
    buf_str(out, "</section>\n");
}
