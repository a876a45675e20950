// SPDX-License-Identifier: MIT
/* report/images.c - the section about answers to questions about images in README.md and
 * report.html; empty if none were measured. */
#include <math.h>
#include <stdio.h>

#include "base/attr.h"
#include "report/card.h"
#include "report/html.h"
#include "report/pick.h"
#include "report/report_text.h"

void result_images_read(struct result_images *out, const cJSON *row) {
    const double none = (double)NAN;
    *out = (struct result_images){
        .kld = doc_num(row, "images_kld", none),
        .kld_stderr = doc_num(row, "images_kld_stderr", none),
        .same_top1 = doc_num(row, "images_same_top1", none),
        .changed = doc_num(row, "images_changed", none),
        .right = doc_num(row, "images_right", none),
        .choices_right = doc_num(row, "images_choices_right", none),
        .choices_flipped = doc_num(row, "images_choices_flipped", none),
    };
}

bool result_sees(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (isfinite(r->file[i].images.kld)) return true;
    return false;
}

static const char about[] =
    "All models answer greedily. Divergence: mean KL divergence from the original's next-token "
    "distribution along the original's answers, in nats, with its standard error. Changed: answers "
    "that differ from the original's. Right: answers given exactly as expected. Choices: the "
    "likeliest of the given answers is the right one; flipped: it is not the original's. Files are "
    "measured with the unquantized projector, projectors with the original language model.";

enum { SHARES = 5 }; /* cells after the divergence */
static const char *const title[SHARES] = {"same token, %", "changed, of 100", "right, of 100",
                                          "choices right, of 100", "choices flipped, of 100"};

/* Sets the shares of a row, in percent. */
static void shares(const struct result_images *v, double out[SHARES]) {
    const double all[] = {v->same_top1, v->changed, v->right, v->choices_right, v->choices_flipped};
    for (size_t k = 0; k < COUNT_OF(all); k++) out[k] = 100 * all[k];
}

/* The tables of one format: their columns, and how they are written. */
struct writer {
    bool html, shown[SHARES];
    struct buf *out;
};

/* Returns a writer with the columns that any file has. */
static struct writer writer_of(const struct result *r, bool html, struct buf *out) {
    struct writer w = {.html = html, .out = out};
    for (int i = 0; i < r->n_files; i++) {
        double v[SHARES];
        shares(&r->file[i].images, v);
        for (int k = 0; k < SHARES; k++) w.shown[k] |= isfinite(v[k]);
    }
    return w;
}

static void put_head(const struct writer *w) {
    buf_str(w->out, w->html ? "<div class=scroll><table class=small><thead><tr><th>file"
                              "<th class=n>divergence"
                            : "| file | divergence |");
    for (int k = 0; k < SHARES; k++)
        if (w->shown[k]) buf_fmt(w->out, w->html ? "<th class=n>%s" : " %s |", title[k]);
    buf_str(w->out, w->html ? "</tr></thead><tbody>\n" : "\n|---|---:|");
    for (int k = 0; k < SHARES && !w->html; k++)
        if (w->shown[k]) buf_str(w->out, "---:|");
    if (!w->html) buf_chr(w->out, '\n');
}

/* Writes the cell of a text. */
static void put_cell(const struct writer *w, const char *text) {
    buf_str(w->out, w->html ? "<td class=n>" : " ");
    (w->html ? html_text : md_text)(w->out, text);
    buf_str(w->out, w->html ? "</td>" : " |");
}

/* Writes a row. */
static void put_row(const struct writer *w, const char *name, const struct result_images *v,
                    bool base) {
    struct buf kld = {0};
    char text[32];
    double share[SHARES];
    shares(v, share);
    buf_str(w->out, w->html ? "<tr><td><code class=name>" : "| ");
    (w->html ? html_text : md_text)(w->out, name);
    buf_str(w->out, w->html ? "</code></td>" : " |");
    text_kld(&kld, base ? 0 : v->kld, v->kld_stderr);
    put_cell(w, base ? "0" : kld.data);
    for (int k = 0; k < SHARES; k++) {
        if (!w->shown[k]) continue;
        snprintf(text, sizeof text, "%.1f", share[k]);
        put_cell(w, isfinite(share[k]) ? text : "-");
    }
    buf_str(w->out, w->html ? "</tr>\n" : "\n");
    buf_release(&kld);
}

/* Writes the rows of all files and projectors. */
static void put_table(const struct result *r, const struct writer *w) {
    put_head(w);
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (f->is_base || isfinite(f->images.kld))
            put_row(w, f->is_base ? "original" : pick_label(r, i), &f->images, f->is_base);
    }
    const cJSON *projectors = doc_get(doc_get(r->root, "vision"), "files");
    for (const cJSON *p = doc_first(projectors); p; p = p->next) {
        struct result_images v;
        struct buf name = {0};
        result_images_read(&v, p);
        buf_fmt(&name, "projector %s", doc_str(p, "type") ? doc_str(p, "type") : "");
        if (isfinite(v.kld)) put_row(w, name.data, &v, false);
        buf_release(&name);
    }
    if (w->html) buf_str(w->out, "</tbody></table></div>");
}

/* Writes what the questions were. */
static void put_questions(const struct result *r, const struct writer *w) {
    const cJSON *images = doc_get(r->root, "images");
    const char *file = doc_str(images, "file");
    int64_t n = 0, n_images = 0;
    (void)doc_i64(images, "n_questions", &n);
    (void)doc_i64(images, "n_images", &n_images);
    buf_fmt(w->out, "Over %lld questions about %lld images, from ", (long long)n,
            (long long)n_images);
    (w->html ? html_text : md_text)(w->out, file ? file : "a file");
    buf_str(w->out, ":");
}

void report_images_md(const struct result *r, struct buf *out) {
    const struct writer w = writer_of(r, false, out);
    if (!result_sees(r)) return;
    card_fold("Answers about images", out);
    put_questions(r, &w);
    buf_str(out, "\n\n");
    put_table(r, &w);
    buf_fmt(out, "\n%s\n", about);
    card_fold_end(out);
}

void report_images_html(const struct result *r, struct buf *out) {
    const struct writer w = writer_of(r, true, out);
    if (!result_sees(r)) return;
    buf_str(out, "<section><h2>Answers about images</h2><p class=m>");
    put_questions(r, &w);
    buf_str(out, "</p>\n");
    put_table(r, &w);
    buf_fmt(out, "<p class=m>%s</p></section>\n", about);
}
