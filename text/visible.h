// SPDX-License-Identifier: MIT
/* text/visible.h - text of strangers made fit for a terminal: what would move the cursor, change
 * colours or titles, or turn the order of characters around is spelled out. */
#ifndef HONE_TEXT_VISIBLE_H
#define HONE_TEXT_VISIBLE_H

#include <stddef.h>

#include "base/buf.h"

/* Appends s with control characters but newline and tab as ^[, ^G, ..., C1 ones and the marks that
 * override the direction of writing as <U+009B>, and bytes that are no UTF-8 as U+FFFD. */
void text_visible(struct buf *out, const char *s, size_t n);
/* Appends what of `part` plus s is complete UTF-8, with U+FFFD for what can never be any, and
 * leaves the beginning of a character in `part`. s NULL: the end, `part` is given out too. */
void text_complete(struct buf *out, struct buf *part, const char *s, size_t n);

#endif
