// SPDX-License-Identifier: MIT
/* report/html.h - what the files of report.html share. */
#ifndef HONE_REPORT_HTML_H
#define HONE_REPORT_HTML_H

#include "base/buf.h"
#include "report/release.h"
#include "report/result.h"

extern const char html_style[];       /* the style sheet */
extern const char html_style_small[]; /* its rules for narrow windows and paper */

/* Appends the section with the table of files. rel may be NULL. */
void html_files(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the section with the numbers that the table of files leaves out. */
void html_numbers(const struct result *r, struct buf *out);
void html_fit(const struct result *r, const struct release *rel, struct buf *out);
/* Appends `text`, as a link to the file where the folder holds it; rel NULL: nothing is known of
 * the folder, and it is a link. */
void html_link(const struct release *rel, const char *file, const char *text, struct buf *out);

#endif
