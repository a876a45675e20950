// SPDX-License-Identifier: MIT
/* template/fix_diff.h - unified differences of two texts, three lines of context. */
#ifndef HONE_TEMPLATE_FIX_DIFF_H
#define HONE_TEMPLATE_FIX_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Tells whether two texts differ, a of na bytes and b of nb; out gets the diff. */
bool text_diff(const char *a, size_t na, const char *name_a, const char *b, size_t nb,
               const char *name_b, struct buf *out);

#endif
