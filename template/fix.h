// SPDX-License-Identifier: MIT
/* template/fix.h - repairing known faults of chat templates by edits of their text (fixes.def). */
#ifndef HONE_TEMPLATE_FIX_H
#define HONE_TEMPLATE_FIX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "containers/gguf.h"

struct fix_edit { /* one selectable edit */
    const char *id, *rule, *why;
    bool applies; /* its fault is in the template */
};
enum { FIX_MAX_EDITS = 16 };
int fix_list(struct fix_edit out[FIX_MAX_EDITS], const char *src,
             size_t len); /* returns how many */
/* Applies the edits named in `only` (NULL: all that apply; n_only entries). ERR_USAGE for an
 * unknown id, ERR_DATA for one that does not apply. *n_done: edits made; out gets the whole new
 * text. */
int fix_apply(const char *src, size_t len, const char *const *only, int n_only, struct buf *out,
              int *n_done, struct err *e);
/* Replaces tokenizer.chat_template of a GGUF file, see gguf_edit_str. */
int fix_gguf(const char *path, const char *text, size_t len, struct gguf_edit *how, struct err *e);

#endif
