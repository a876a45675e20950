// SPDX-License-Identifier: MIT
/* template/chat_src.h - sources of chat templates: GGUF files, Hugging Face folders, .jinja files.
 */
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
    char *names[CHAT_SRC_MAX]; /* all templates of the source, "default" first if present */
    int n_names;
    const char *instead; /* member of names used because there is no "default"; NULL: none */
    char *special[CHAT_SRC_SPECIALS]; /* texts of bos, eos, unk, pad; NULL: none */
};
extern const char *const chat_src_special_names[CHAT_SRC_SPECIALS]; /* "bos_token", ... */

/* Opens the template `name` of a source; a folder need not contain weights. name NULL: "default",
 * or if there is no such template, "tool_use", or else the first by name. */
int chat_src_open(struct chat_src *s, const char *path, const char *name, struct err *e);
/* Opens the default template as chat_src_open does; the text is empty for a GGUF without templates.
 */
int chat_src_open_or_empty(struct chat_src *s, const char *path, struct err *e);
void chat_src_close(struct chat_src *s);

#endif
