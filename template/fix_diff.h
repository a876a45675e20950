// SPDX-License-Identifier: MIT
/* template/fix_diff.h - unified diffs of two texts, with three lines of context. */
#ifndef HONE_TEMPLATE_FIX_DIFF_H
#define HONE_TEMPLATE_FIX_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Returns whether two texts differ (a: na bytes, b: nb bytes), and appends the diff to out. */
bool text_diff(const char *a, size_t na, const char *name_a, const char *b, size_t nb,
               const char *name_b, struct buf *out);

#endif
