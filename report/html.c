// SPDX-License-Identifier: MIT
/* report/html.c - report.html, written from results.json: one self-contained page without scripts
 * or references.
 *
 * The recommendation and its reason come first. Untrusted text is escaped where it is printed. */
#include "report/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/pick.h"
#include "report/report_text.h"

/* Writes the text escaped and empties it. */
static void put_plain(struct buf *out, struct buf *text) {
    html_text(out, text->data ? text->data : "");
    buf_reset(text);
}

/* Writes the page's head and title. */
static void put_head(const struct result *r, struct buf *out) {
    char params[24], ctx[32];
    text_params(params, r->n_params);
    text_thousands(ctx, r->ctx);
    buf_str(out, "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
                 "content='width=device-width,initial-scale=1'><meta name=color-scheme "
                 "content='light dark'><title>");
    html_text(out, r->name);
    buf_fmt(out, " GGUF report</title><style>%s%s</style></head>\n<body><main><h1>", html_style,
            html_style_small);
    html_text(out, r->name);
    buf_str(out, "</h1>\n<p class=m>");
    html_text(out, r->arch);
    if (*r->arch_note) {
        buf_str(out, ", ");
        html_text(out, r->arch_note);
    }
    buf_fmt(out, ", %s parameters", params);
    if (r->ctx) buf_fmt(out, ", context %s tokens", ctx);
    buf_str(out, ". GGUF files made and measured by hone ");
    html_text(out, r->version);
    buf_str(out, ".</p>\n");
}

/* Writes one of the large numbers at the top. */
static void put_tile(const char *number, const char *unit, const char *about, struct buf *out) {
    buf_fmt(out, "<div><strong>%s%s</strong><span>", number, unit);
    html_text(out, about);
    buf_str(out, "</span></div>");
}

/* Writes the numbers of the recommended file; the gain comes first if it was measured. */
static void tiles(const struct result *r, int i, struct buf *out) {
    const struct result_file *f = &r->file[i];
    const double gain = pick_gain(r, i);
    char text[64];
    struct buf about = {0};
    buf_str(out, "<div class=tiles>");
    if (pick_is_closer(r, i)) {
        snprintf(text, sizeof text, "%.*f", gain < 9.95 ? 1 : 0, gain);
        buf_fmt(&about, "closer to %s than llama.cpp's %s of the same size", pick_base_word(r),
                f->size_class);
        put_tile(text, "x", about.data, out);
        buf_reset(&about);
    }
    if (isfinite(f->same_top1)) {
        snprintf(text, sizeof text, "%.1f", f->same_top1 * 100);
        buf_fmt(&about, "of the time the same most likely token as %s", pick_base_word(r));
        put_tile(text, " %", about.data, out);
        buf_reset(&about);
    }
    struct buf kld = {0};
    text_kld(&kld, f->mean_kld, f->mean_kld_stderr);
    const size_t n = strcspn(kld.data, " ");
    snprintf(text, sizeof text, "%.*s", (int)n, kld.data);
    buf_fmt(&about, "mean divergence, nats%s%s", kld.data[n] ? "," : "", kld.data + n);
    put_tile(text, "", about.data, out);
    buf_str(out, "</div>");
    buf_release(&kld);
    buf_release(&about);
}

/* Writes the name of the recommended file and one word for its loss. */
static void take(const struct result *r, int i, const struct release *rel, struct buf *out) {
    const struct pick_grade g = pick_grade(r, i);
    char size[32];
    text_size(size, r->file[i].size_bytes);
    buf_str(out, "<h2 class=take>Take ");
    html_link(rel, r->file[i].file, pick_label(r, i), out);
    buf_fmt(out, ", %s <span class='q q%d'>%s</span></h2>", size, 1 + (int)g.band,
            pick_bands[g.band].name);
    if (g.band > PICK_SLIGHT)
        buf_fmt(out, "<p>No file here is closer to %s, but the loss is still noticeable.</p>",
                pick_base_word(r));
}

/* Writes the recommendation, the first section of the page. */
static void answer(const struct result *r, const struct release *rel, struct buf *out) {
    struct buf text = {0};
    int i = pick_file(r);
    buf_str(out, "<section class=answer>");
    if (rel && rel->fault) {
        buf_str(out, "<p><b>These files cannot chat yet</b>: ");
        html_text(out, rel->fault);
        buf_str(out, ".</p>");
    }
    if (i < 0) {
        buf_str(out, "<p>No file was compared with the original, so none is recommended.</p>");
    } else {
        take(r, i, rel, out);
        tiles(r, i, out);
        buf_str(out, "<p>");
        pick_others(r, &text);
        put_plain(out, &text);
        buf_str(out, "</p>");
    }
    if (r->base_is_quantized) {
        buf_str(out, "<p>The base of these files was already quantized");
        if (*r->base_type) {
            buf_str(out, " (");
            html_text(out, r->base_type);
            buf_chr(out, ')');
        }
        buf_str(out, ". Their loss is measured against it, and adds to the loss it already has."
                     "</p>");
    }
    buf_str(out, "</section>\n");
    buf_release(&text);
}

/* Writes a wide and a narrow version of a plot; the style sheet shows the one that fits. */
static void plot(const struct buf *wide, const struct buf *narrow, struct buf *out) {
    buf_fmt(out, "<div class=wide>%s</div><div class=narrow>%s</div>\n", wide->data, narrow->data);
}

/* Writes the plot of size against divergence, in a wide and a narrow form. */
static void put_size_plot(const struct result *r, struct buf *out) {
    struct buf wide = {0}, narrow = {0};
    bool bars = false, front = false, sizes = false, rings = false;
    for (int i = 0, n = 0; i < r->n_files; i++) {
        bars |= r->file[i].mean_kld_stderr > 0;
        sizes |= result_budget(&r->file[i]) > 0;
        rings |= isfinite(pick_gain(r, i));
        n += pick_on_front(r, i);
        front |= n > 1;
    }
    report_svg_kld(r, false, &wide);
    report_svg_kld(r, true, &narrow);
    buf_str(out, "<section><h2>Size against loss</h2>\n");
    plot(&wide, &narrow, out);
    buf_str(out, "<p class=m>");
    if (rings)
        buf_str(out, "Rings: llama.cpp's presets of the same size, encoded by hone, on the same "
                     "text. ");
    if (front)
        buf_str(out, "The dashed line joins the files that no other file beats in both size and "
                     "divergence. ");
    if (bars) buf_str(out, "Bars are 95 % intervals. ");
    if (sizes) buf_str(out, "Dotted lines: requested sizes. ");
    buf_str(out, "</p></section>\n");
    buf_release(&wide);
    buf_release(&narrow);
}

/* Writes the plots that only some results have. */
static void more_plots(const struct result *r, struct buf *out) {
    static const struct {
        bool (*draw)(const struct result *r, bool narrow, struct buf *out);
        const char *title, *about;
    } plots[] = {
        {report_svg_speed, "Speed",
         "Generated tokens per second with an empty context, on the machine named below. Bars are "
         "one "
         "standard deviation of the repetitions: where they overlap, the order means nothing."},
        {report_svg_kld_depth, "Loss by length of context",
         "Mean divergence of predictions made from this many tokens of context; a line per file."},
        {report_svg_speed_depth, "Speed by length of context",
         "Generated tokens per second after this many tokens of context; a line per file."}};
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++) {
        struct buf wide = {0}, narrow = {0};
        if (plots[i].draw(r, false, &wide) && plots[i].draw(r, true, &narrow)) {
            buf_fmt(out, "<section><h2>%s</h2>\n", plots[i].title);
            plot(&wide, &narrow, out);
            buf_fmt(out, "<p class=m>%s</p></section>\n", plots[i].about);
        }
        buf_release(&wide);
        buf_release(&narrow);
    }
}

/* Writes the section that explains the words. */
static void put_words(const struct result *r, struct buf *out) {
    const bool known = pick_knows_errors(r);
    buf_fmt(out,
            "<details><summary>What the words mean</summary><p>The mean divergence shows how far a "
            "file's next-token probabilities are from those of %s (Kullback-Leibler, in "
            "nats; 0 is the same). %s</p><dl>",
            pick_base_word(r),
            known ? "&plusmn; is one standard error, over windows of the texts."
                  : "Its error is unknown, so the words are those of the means alone.");
    for (int i = 0; i < PICK_BANDS; i++) {
        const struct pick_row *b = &pick_bands[i];
        buf_fmt(out, "<dt><span class='q q%d'>%s</span> ", i + 1, b->name);
        if (isfinite(b->max_kld)) buf_fmt(out, "divergence up to %g", b->max_kld);
        buf_fmt(out, "</dt><dd class=m>%s.</dd>", b->reason);
    }
    buf_fmt(out,
            "</dl><p class=m>&quot;perhaps&quot;: the 95 %% interval crosses a limit. The "
            "recommended file is the smallest that %shas no noticeable loss; failing that, "
            "%s (divergence up to %g%s).</p></details>\n",
            known ? "certainly " : "", pick_take.reason, pick_take.max_kld,
            known ? ", errors included" : "");
}

/* Writes the names of the texts and their subjects; list: names or objects. */
static void put_names(const cJSON *list, struct buf *out) {
    const char *sep = "";
    for (const cJSON *n = doc_first(list); n; n = n->next) {
        const char *s = cJSON_GetStringValue(n) ? cJSON_GetStringValue(n) : doc_str(n, "name"),
                   *about = doc_str(n, "about");
        if (!s) continue;
        buf_fmt(out, "%s<code>", sep);
        html_text(out, s);
        buf_str(out, "</code>");
        if (about) {
            buf_str(out, " (");
            html_text(out, about);
            buf_chr(out, ')');
        }
        sep = ", ";
    }
    if (!*sep) buf_str(out, "no text");
}

/* Writes a list with a title; nothing if the list is empty. */
static void put_sentences(const cJSON *list, const char *title, struct buf *out) {
    if (!doc_first(list)) return;
    buf_fmt(out, "<h3>%s</h3><ul>", title);
    for (const cJSON *n = doc_first(list); n; n = n->next) {
        if (!cJSON_GetStringValue(n)) continue;
        buf_str(out, "<li>");
        html_text(out, cJSON_GetStringValue(n));
        buf_str(out, "</li>\n");
    }
    buf_str(out, "</ul>");
}

/* Writes, for each file, why its types were chosen. */
static void whys(const struct result *r, struct buf *out) {
    bool any = false;
    for (int i = 0; i < r->n_files; i++) {
        if (!*r->file[i].why) continue;
        if (!any) buf_str(out, "<details><summary>Why each file was chosen</summary><ul>");
        any = true;
        buf_str(out, "<li>");
        html_text(out, pick_label(r, i));
        buf_str(out, ": ");
        html_text(out, r->file[i].why);
        buf_str(out, ".</li>\n");
    }
    if (any) buf_str(out, "</ul></details>");
}

/* Writes how the files were made and measured. */
static void put_method(const struct result *r, struct buf *out) {
    char n[3][32];
    text_thousands(n[0], r->eval_tokens);
    text_thousands(n[1], r->eval_chunks);
    text_thousands(n[2], r->imatrix_chunks);
    buf_fmt(out,
            "<section><h2>How it was measured</h2><p>%s tokens scored in %s chunks of %lld from ",
            n[0], n[1], (long long)r->eval_ctx);
    put_names(r->eval_texts, out);
    buf_fmt(out, "; importance matrix from %s chunks of %lld tokens of ", n[2],
            (long long)r->imatrix_chunk_size);
    put_names(r->calib_texts, out);
    buf_str(out, ". Base and files run together on the same tokens; weights are dequantized and "
                 "activations are 32-bit floats. Speed on ");
    html_text(out, r->machine);
    buf_str(out, ".</p>\n");
    whys(r, out);
    put_sentences(r->left_out, "Left out", out);
    put_sentences(r->notes, "Notes", out);
    buf_str(out, "</section>\n");
}

static void put_sums(const struct result *r, struct buf *out) {
    buf_str(out, "<details><summary>Checksums</summary><p class=m>SHA-256; <code>sha256sum -c "
                 "SHA256SUMS</code> compares them all.</p>\n");
    for (int i = 0; i < r->n_files; i++) {
        buf_str(out, "<p class=sum><code>");
        html_text(out, r->file[i].file);
        buf_str(out, "</code><br><code class=m>");
        html_text(out, *r->file[i].sha256 ? r->file[i].sha256 : "see SHA256SUMS");
        buf_str(out, "</code></p>\n");
    }
    html_extra_sums(r, out);
    buf_str(out, "</details>\n");
}

void report_html(const struct result *r, const struct release *rel, struct buf *out) {
    put_head(r, out);
    answer(r, rel, out);
    put_size_plot(r, out);
    html_files(r, rel, out);
    html_fit(r, rel, out);
    more_plots(r, out);
    report_images_html(r, out);
    report_tools_html(r, out);
    put_method(r, out);
    buf_str(out, "<section class=folds>");
    put_words(r, out);
    html_numbers(r, out);
    put_sums(r, out);
    buf_str(out, "</section></main></body></html>\n");
}
