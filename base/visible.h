// SPDX-License-Identifier: MIT
/* base/visible.h - escaping of untrusted text for a terminal: characters that would move the
 * cursor, change colours or titles, or reorder the text are spelled out. */
#ifndef HONE_BASE_VISIBLE_H
#define HONE_BASE_VISIBLE_H

#include <stddef.h>

#include "base/buf.h"

/* Appends s to out. Control characters other than newline and tab become ^[, ^G, ...; C1 controls
 * and bidirectional overrides become <U+009B>, ...; invalid UTF-8 becomes U+FFFD. */
void text_visible(struct buf *out, const char *s, size_t n);

#endif
