// SPDX-License-Identifier: MIT
/* text/complete.h - decoding of UTF-8 that arrives in pieces. */
#ifndef HONE_TEXT_COMPLETE_H
#define HONE_TEXT_COMPLETE_H

#include <stddef.h>

#include "base/buf.h"

/* Appends the complete characters of `part` followed by s, with U+FFFD for invalid bytes, and keeps
 * an incomplete last character in `part`. s NULL: end of the text, so `part` is also flushed. */
void text_complete(struct buf *out, struct buf *part, const char *s, size_t n);

#endif
