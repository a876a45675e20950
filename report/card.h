// SPDX-License-Identifier: MIT
/* report/card.h - the sections of README.md, the model card.
 *
 * The Hub shows a card 760 px wide, and a phone half of that, so tables have at most five short
 * columns and everything else is folded. */
#ifndef HONE_REPORT_CARD_H
#define HONE_REPORT_CARD_H

#include "base/buf.h"
#include "report/release.h"
#include "report/result.h"

/* Returns whether s has the form of a Hub repository, "org/name". */
bool card_is_repo(const char *s);
/* Returns the base's file name or, if it is not in the folder, its recorded name. */
const char *card_base_file(const struct result *r);
/* Appends what a reader wants to know about the recommended file, on one screen; versus: results of
 * hone versus, or NULL. Nothing without a recommendation. */
void card_glance(const struct result *r, const struct release *rel, const cJSON *versus,
                 struct buf *out);
/* Appends the table of files, then a folded table with all numbers and a folded glossary. rel may
 * be NULL. */
void card_files(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the table for a release without measurements; it has only sizes. */
void card_plain_files(const struct release *rel, struct buf *out);
/* Appends the names of the projector and draft files, or the reason why the vision tower is missing
 * (extra.c). */
void card_extras(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the plots; hone publish writes their SVG files next to the card. */
void card_plots(const struct result *r, struct buf *out);
/* Appends the commands for the recommended file: one that downloads it from the Hub, if the
 * repository is known, and one for a download of the whole folder. */
void card_use(const struct release *rel, struct buf *out);
/* Appends tables that show which file fits each memory size. r may be NULL. */
void card_fit(const struct result *r, const struct release *rel, struct buf *out);
/* Appends a folded example: the prompt of a short conversation. */
void card_prompt(const struct release *rel, struct buf *out);
/* Open and close a folded section. */
void card_fold(const char *summary, struct buf *out);
void card_fold_end(struct buf *out);

#endif
