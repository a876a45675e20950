// SPDX-License-Identifier: MIT
/* template/chat.h - conversations -> prompt text with a model's own template. */
#ifndef HONE_TEMPLATE_CHAT_H
#define HONE_TEMPLATE_CHAT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "tok/tok.h"

struct gguf;
struct jinja_spans;
struct chat; /* a compiled template with bos/eos texts */

/* Compiles a template. `name` is for messages; bos and eos are texts given to the template, "" or
 * NULL when there are none. */
int chat_new(struct chat **out, const char *tmpl, const char *name, const char *bos,
             const char *eos, struct err *e);
/* Compiles a template with the special texts of the tokenizer t; t NULL: none. */
int chat_with(struct chat **out, const char *tmpl, const char *name, const struct tok *t,
              struct err *e);
/* Compiles the template of a GGUF file, with the texts of t. ERR_DATA when the file has no
 * tokenizer.chat_template. */
int chat_from_gguf(struct chat **out, const struct gguf *g, const struct tok *t, struct err *e);
void chat_free(struct chat *c);
/* Renders a conversation: JSON text of {"messages": [...], "tools": [...]?, other keys become
 * template variables}, or of a bare array of messages. kwargs is the text of an object of extra
 * variables, or NULL. The result is tokenized with parse_special, and a leading BOS text must not
 * be doubled by the caller. */
int chat_render_text(const struct chat *c, const char *conv, size_t len, const char *kwargs,
                     bool add_generation_prompt, struct buf *out, struct err *e);

/* Steps that the probes for one property of a template share. No published template needs more for
 * a few short messages; a hostile one cannot use up the full limit for every property. */
enum { CHAT_PROBE_STEPS = 2 << 20 };

/* A conversation as a model reads it. Texts of control tokens in messages, tool results and tool
 * definitions are plain text there, so that none can speak as another role. */
struct chat_prompt { /* zero-initialised is an empty one */
    struct buf text;
    struct ids ids;
    int64_t n_head; /* tokens in front of the first message that is no system message; 0: unknown */
    int n_forged;   /* texts of control tokens that were made plain */
    struct jinja_spans *spans; /* which bytes of text came from which input; NULL: not rendered */
    bool refused; /* not rendered, for the template raised an error or met what it cannot take */
};
void chat_prompt_release(struct chat_prompt *p);
enum chat_special { CHAT_PLAIN, CHAT_PARSE /* control tokens count wherever they stand */ };
/* Renders a conversation as chat_render_text does, and tokenizes it with t into *out, in place of
 * what that held. `special` says whether texts of control tokens in the conversation count. kwargs
 * is as for chat_render_text. */
int chat_tokens(const struct chat *c, const struct tok *t, const char *conv, size_t len,
                const char *kwargs, bool add_generation_prompt, enum chat_special special,
                struct chat_prompt *out, struct err *e);

#endif
