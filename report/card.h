// SPDX-License-Identifier: MIT
/* report/card.h - what the files of README.md share. Tables have at most five short columns, since
 * the Hub shows a card 760 px wide and a phone half of that; the rest is folded. */
#ifndef HONE_REPORT_CARD_H
#define HONE_REPORT_CARD_H

#include "core/buf.h"
#include "report/release.h"
#include "report/result.h"

/* Returns whether s is a name of the Hub, "org/name". */
bool card_is_repo(const char *s);
/* Appends the table of files with what its words mean; the other numbers folded. rel may be NULL.
 */
void card_files(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the sizes alone, where nothing was measured. */
void card_plain_files(const struct release *rel, struct buf *out);
/* Appends the plots, which publishing puts next to the card. */
void card_plots(const struct result *r, struct buf *out);
/* Appends the section of commands, each for a file of the folder: from the Hub, where the repo is
 * known, and with the whole folder. */
void card_use(const struct release *rel, struct buf *out);
/* Appends which file fits which memory. r may be NULL. */
void card_fit(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the prompt of a short conversation, folded. */
void card_prompt(const struct release *rel, struct buf *out);
/* Begins and ends text that is folded until a reader opens it. */
void card_fold(const char *summary, struct buf *out);
void card_fold_end(struct buf *out);

#endif
