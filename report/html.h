// SPDX-License-Identifier: MIT
/* report/html.h - the parts of report.html, one per source file. */
#ifndef HONE_REPORT_HTML_H
#define HONE_REPORT_HTML_H

#include "base/buf.h"
#include "report/release.h"
#include "report/result.h"

extern const char html_style[];       /* the style sheet */
extern const char html_style_small[]; /* additions for narrow windows and paper */

/* Appends the section with the table of files. rel may be NULL. */
void html_files(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the folded table of all numbers. */
void html_numbers(const struct result *r, struct buf *out);
/* Writes which files fit in which memory; nothing if that was not computed. */
void html_fit(const struct result *r, const struct release *rel, struct buf *out);
/* Appends `text`: as a link to the file if the folder has it, otherwise plain. rel NULL: the folder
 * is unknown, and the text becomes a link. */
void html_link(const struct release *rel, const char *file, const char *text, struct buf *out);

/* Appends the names of the projector and draft files, or the reason why the vision tower is missing
 * (extra.c). */
void html_extras(const struct result *r, struct buf *out);
/* Appends the checksums of these files. */
void html_extra_sums(const struct result *r, struct buf *out);

#endif
