// SPDX-License-Identifier: MIT
/* report/extra.c - files next to the models in the card and the report: the vision tower that lets
 * the model see images, or the reason why it is missing, and the draft file with the MTP block. */
#include <math.h>
#include <string.h>

#include "report/card.h"
#include "report/html.h"
#include "report/pick.h"
#include "report/report_text.h"

/* Returns a part of the results; NULL: missing. */
static const cJSON *part_of(const struct result *r, const char *name) {
    return r ? doc_get(r->root, name) : NULL;
}

/* Writes a link to a file, with its size. */
static void md_file(const char *file, uint64_t n_bytes, struct buf *out) {
    md_link(out, file);
    buf_fmt(out, " (%.4g GiB)", (double)n_bytes / 0x1p30);
}

/* Writes the share of accepted drafts of each file; nothing if it was not measured. */
static void put_acceptance(const struct result *r, void (*text)(struct buf *, const char *),
                           struct buf *out) {
    static const double z = 1.96; /* 95 % */
    bool any = false;
    for (int i = 0; r && i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (!isfinite(f->acceptance)) continue;
        if (!any)
            buf_fmt(out,
                    "Drafts that match the model's own choice, of %.0f along the evaluation text: ",
                    f->n_drafts);
        buf_str(out, any ? ", " : "");
        text(out, pick_label(r, i));
        buf_fmt(out, " %.1f", f->acceptance * 100);
        if (isfinite(f->acceptance_stderr))
            buf_fmt(out, " &plusmn; %.1f", z * f->acceptance_stderr * 100);
        buf_str(out, " %");
        any = true;
    }
    if (any) buf_chr(out, '.');
}

void card_extras(const struct result *r, const struct release *rel, struct buf *out) {
    const char *why = doc_str(part_of(r, "vision"), "why");
    if (rel && rel->n_mmproj) {
        buf_str(out, "\n**Images**: the vision tower is a separate file, which programs load "
                     "together with any file in the table: ");
        for (int i = 0; i < rel->n_mmproj; i++) {
            if (i) buf_str(out, " or ");
            md_file(rel->mmproj[i].file, rel->mmproj[i].size_bytes, out);
        }
        buf_str(out, ".\n");
    } else if (why) {
        buf_str(out, "\n**Text only**: ");
        if (doc_num(part_of(r, "vision"), "n_tensors", 1) > 0)
            buf_str(out,
                    "the original also reads images, but its vision tower was not converted. ");
        md_text(out, why);
        buf_str(out, ".\n");
    }
    if (!rel || (!rel->draft.file && !rel->has_mtp)) return;
    if (rel->draft.file && strcmp(rel->draft.kind, "mtp") != 0) {
        buf_fmt(out,
                "\n**Drafts**: with this %s draft model, answers can be faster; they stay the "
                "same: ",
                rel->draft.kind);
        md_file(rel->draft.file, rel->draft.size_bytes, out);
        buf_str(out, ".\n");
        return;
    }
    struct buf rates = {0};
    put_acceptance(r, md_text, &rates);
    buf_str(out, "\n**Drafts**: the MTP block guesses the token after the next one");
    buf_str(out, rates.len ? ", which can make answers faster without changing them."
                           : ". How many guesses the model accepts, and so whether answers become "
                             "faster, was not measured.");
    if (rel->has_mtp) buf_str(out, " Every file in the table contains it.");
    if (rel->draft.file) {
        buf_str(out, " Programs that load it separately use ");
        md_file(rel->draft.file, rel->draft.size_bytes, out);
        buf_chr(out, '.');
    }
    if (rates.len) buf_fmt(out, " %s", rates.data);
    buf_chr(out, '\n');
    buf_release(&rates);
}

/* Writes the names and sizes of a list's files, then a full stop. */
static void html_names(const cJSON *first, const char *lead, struct buf *out) {
    if (!first) return;
    buf_fmt(out, "<p class=m>%s", lead);
    for (const cJSON *f = first; f; f = f->next) {
        buf_str(out, f == first ? " <code>" : ", <code>");
        html_text(out, doc_str(f, "file") ? doc_str(f, "file") : "");
        buf_fmt(out, "</code> (%.4g GiB)", doc_num(f, "size_bytes", 0) / 0x1p30);
    }
    buf_str(out, ".</p>\n");
}

void html_extras(const struct result *r, struct buf *out) {
    const cJSON *vision = part_of(r, "vision"), *draft = part_of(r, "draft");
    const char *why = doc_str(vision, "why");
    if (why) {
        buf_str(out, "<p class=m>Text only: ");
        if (doc_num(vision, "n_tensors", 1) > 0)
            buf_str(out, "the vision tower of the original was not converted. ");
        html_text(out, why);
        buf_str(out, ".</p>\n");
    }
    html_names(doc_first(doc_get(vision, "files")),
               "For images, load one of these together with any of the files:", out);
    html_names(doc_first(doc_get(draft, "files")),
               "For drafts by the MTP block, programs that load it separately need:", out);
    struct buf rates = {0};
    put_acceptance(r, html_text, &rates);
    if (rates.len) buf_fmt(out, "<p class=m>%s</p>\n", rates.data);
    buf_release(&rates);
}

void html_extra_sums(const struct result *r, struct buf *out) {
    static const char *const parts[] = {"vision", "draft"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const cJSON *files = doc_get(part_of(r, parts[i]), "files");
        for (const cJSON *f = doc_first(files); f; f = f->next) {
            if (!doc_str(f, "file") || !doc_str(f, "sha256")) continue;
            buf_str(out, "<p class=sum><code>");
            html_text(out, doc_str(f, "file"));
            buf_str(out, "</code><br><code class=m>");
            html_text(out, doc_str(f, "sha256"));
            buf_str(out, "</code></p>\n");
        }
    }
}
