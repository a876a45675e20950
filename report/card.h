// SPDX-License-Identifier: MIT
/* report/card.h - the sections of README.md, the model card. Tables have at most five short
 * columns, since the Hub shows a card 760 px wide and a phone half of that; everything else is
 * folded. */
#ifndef HONE_REPORT_CARD_H
#define HONE_REPORT_CARD_H

#include "base/buf.h"
#include "report/release.h"
#include "report/result.h"

/* Returns whether s is a name of the Hub, "org/name". */
bool card_is_repo(const char *s);
/* Appends the table of files and, folded, all other numbers and a glossary. rel may be NULL. */
void card_files(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the table of a release without measurements: sizes only. */
void card_plain_files(const struct release *rel, struct buf *out);
/* Appends the plots, which publishing puts next to the card. */
void card_plots(const struct result *r, struct buf *out);
/* Appends the commands for the recommended file: from the Hub, if the repo is known, and from a
 * download of the whole folder. */
void card_use(const struct release *rel, struct buf *out);
/* Appends the tables of which file fits into which memory. r may be NULL. */
void card_fit(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the prompt of a short conversation, folded. */
void card_prompt(const struct release *rel, struct buf *out);
/* Begins and ends a folded section. */
void card_fold(const char *summary, struct buf *out);
void card_fold_end(struct buf *out);

#endif
