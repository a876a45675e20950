// SPDX-License-Identifier: MIT
/* report/tower.c - the vision tower in the card and the report: the files that let the model see
 * images, or the reason why they are missing. */
#include <string.h>

#include "report/card.h"
#include "report/html.h"
#include "report/report_text.h"

/* Returns the results' vision part; NULL: missing. */
static const cJSON *vision(const struct result *r) {
    return r ? doc_get(r->root, "vision") : NULL;
}

void card_vision(const struct result *r, const struct release *rel, struct buf *out) {
    const char *why = doc_str(vision(r), "why");
    if (rel && rel->n_mmproj) {
        buf_str(out, "\n**Images**: the vision tower is a separate file, which programs load "
                     "together with any file in the table:");
        for (int i = 0; i < rel->n_mmproj; i++) {
            const struct release_mmproj *m = &rel->mmproj[i];
            buf_fmt(out, "%s [%s](%s) (%.4g GiB)", i ? " or" : "", m->file, m->file,
                    (double)m->size_bytes / 0x1p30);
        }
        buf_str(out, ".\n");
    } else if (why) {
        buf_str(out, "\n**Text only**: the original also reads images, but its vision tower was "
                     "not converted. ");
        md_text(out, why);
        buf_str(out, ".\n");
    }
}

void html_vision(const struct result *r, struct buf *out) {
    const char *why = doc_str(vision(r), "why");
    const cJSON *first = doc_first(doc_get(vision(r), "files"));
    if (why) {
        buf_str(out, "<p class=m>Text only: the vision tower of the original was not converted. ");
        html_text(out, why);
        buf_str(out, ".</p>\n");
    }
    if (!first) return;
    buf_str(out, "<p class=m>For images, load one of these together with any of the files:");
    for (const cJSON *f = first; f; f = f->next) {
        buf_str(out, f == first ? " <code>" : ", <code>");
        html_text(out, doc_str(f, "file") ? doc_str(f, "file") : "");
        buf_fmt(out, "</code> (%.4g GiB)", doc_num(f, "size_bytes", 0) / 0x1p30);
    }
    buf_str(out, ".</p>\n");
}

void html_vision_sums(const struct result *r, struct buf *out) {
    for (const cJSON *f = doc_first(doc_get(vision(r), "files")); f; f = f->next) {
        if (!doc_str(f, "file") || !doc_str(f, "sha256")) continue;
        buf_str(out, "<p class=sum><code>");
        html_text(out, doc_str(f, "file"));
        buf_str(out, "</code><br><code class=m>");
        html_text(out, doc_str(f, "sha256"));
        buf_str(out, "</code></p>\n");
    }
}
