// SPDX-License-Identifier: MIT
/* template/chat_src.h - where a chat template comes from: a GGUF file, a Hugging Face folder, a
 * .jinja file. */
#ifndef HONE_TEMPLATE_CHAT_SRC_H
#define HONE_TEMPLATE_CHAT_SRC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { CHAT_SRC_MAX = 32, CHAT_SRC_SPECIALS = 4 };
struct chat_src {
    char *text; /* verbatim bytes of the chosen template, NUL-terminated */
    size_t len;
    char *label; /* for messages: "model.gguf: tokenizer.chat_template" */
    bool is_gguf;
    char *names[CHAT_SRC_MAX]; /* all templates of the source, "default" first when there is one */
    int n_names;
    const char *instead; /* which of names was taken because none is "default"; NULL: none */
    char *special[CHAT_SRC_SPECIALS]; /* texts of bos, eos, unk, pad; NULL: none */
};
extern const char *const chat_src_special_names[CHAT_SRC_SPECIALS]; /* "bos_token", ... */

/* Opens the template `name` of a source. Folders need no weights. name NULL: the default template;
 * where none is called so, "tool_use", else the first by name. */
int chat_src_open(struct chat_src *s, const char *path, const char *name, struct err *e);
/* Opens as chat_src_open does, with the default name; a GGUF without any template gives an empty
 * text. */
int chat_src_open_or_empty(struct chat_src *s, const char *path, struct err *e);
void chat_src_close(struct chat_src *s);

#endif
