// SPDX-License-Identifier: MIT
/* text/chat.h - conversations -> prompt text with a model's own template. */
#ifndef HONE_TEXT_CHAT_H
#define HONE_TEXT_CHAT_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "text/tok.h"

struct gguf;
struct chat; /* a compiled template with bos/eos texts */

/* name: for messages. bos/eos: texts given to the template, "" when none. */
int chat_new(struct chat **out, const char *tmpl, const char *name, const char *bos,
             const char *eos, struct err *e);
/* ERR_DATA when the file has no tokenizer.chat_template. */
int chat_from_gguf(struct chat **out, const struct gguf *g, const struct tok *t, struct err *e);
void chat_free(struct chat *c);
/* conv: {"messages": [...], "tools": [...]?, other keys become template variables}, or a bare array
 * of messages. kwargs: extra variables or NULL. The result is tokenized with parse_special, and a
 * leading BOS text must not be doubled by the caller. */
int chat_render(const struct chat *c, const struct json *conv, const struct json *kwargs,
                bool add_generation_prompt, struct buf *out, struct err *e);
/* The same from JSON text, which keeps integers of any size and 1.0. kwargs: text of an object or
 * NULL. */
int chat_render_text(const struct chat *c, const char *conv, size_t len, const char *kwargs,
                     bool add_generation_prompt, struct buf *out, struct err *e);

#endif
