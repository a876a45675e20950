// SPDX-License-Identifier: MIT
/* template/fix.h - storage of a template in a GGUF file. */
#ifndef HONE_TEMPLATE_FIX_H
#define HONE_TEMPLATE_FIX_H

#include <stddef.h>

#include "base/err.h"
#include "containers/gguf.h"

/* Replaces tokenizer.chat_template of a GGUF file with gguf_edit_str. */
int fix_gguf(const char *path, const char *text, size_t len, struct gguf_edit *how, struct err *e);

#endif
