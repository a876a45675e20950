// SPDX-License-Identifier: MIT
/* text/visible.h - untrusted text made safe for a terminal: characters that would move the cursor,
 * change colours or titles, or reorder the text are spelled out. */
#ifndef HONE_TEXT_VISIBLE_H
#define HONE_TEXT_VISIBLE_H

#include <stddef.h>

#include "base/buf.h"

/* Appends s, with control characters other than newline and tab as ^[, ^G, ..., C1 controls and
 * bidirectional overrides as <U+009B>, and invalid UTF-8 as U+FFFD. */
void text_visible(struct buf *out, const char *s, size_t n);
/* Appends the complete UTF-8 of `part` plus s, with U+FFFD for invalid bytes, and keeps an
 * incomplete final character in `part`. s NULL: the end; `part` is also flushed. */
void text_complete(struct buf *out, struct buf *part, const char *s, size_t n);

#endif
