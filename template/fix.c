// SPDX-License-Identifier: MIT
/* template/fix.c - storage of a template in a GGUF file. */
#include "template/fix.h"

int fix_gguf(const char *path, const char *text, size_t len, struct gguf_edit *how, struct err *e) {
    return gguf_edit_str(path, "tokenizer.chat_template", text, len, how, e);
}
