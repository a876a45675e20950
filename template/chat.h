// SPDX-License-Identifier: MIT
/* template/chat.h - prompts: conversations rendered with the model's chat template. */
#ifndef HONE_TEMPLATE_CHAT_H
#define HONE_TEMPLATE_CHAT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "tok/tok.h"

struct gguf;
struct jinja_spans;
struct chat; /* compiled template and texts of special tokens */

/* Compiles a template. `name` is used in messages; bos and eos are the token texts passed to the
 * template, "" or NULL: none. */
int chat_new(struct chat **out, const char *tmpl, const char *name, const char *bos,
             const char *eos, struct err *e);
/* Compiles a template with the special token texts of tokenizer t; t NULL: none. */
int chat_with(struct chat **out, const char *tmpl, const char *name, const struct tok *t,
              struct err *e);
/* Compiles the template of a GGUF file with the special token texts of t. ERR_DATA: the file has no
 * tokenizer.chat_template. */
int chat_from_gguf(struct chat **out, const struct gguf *g, const struct tok *t, struct err *e);
void chat_free(struct chat *c);
/* Renders a conversation: the JSON text of {"messages": [...], "tools": [...]?} or of a bare array
 * of messages. Other keys of the object become template variables. kwargs is the JSON text of an
 * object with more variables, or NULL. Tokenize the result with parse_special; it may already begin
 * with the BOS text, so do not add a second one. */
int chat_render_text(const struct chat *c, const char *conv, size_t len, const char *kwargs,
                     bool add_generation_prompt, struct buf *out, struct err *e);

/* Step budget shared by all probes for one property of a template. It suffices for a few short
 * messages in any published template, and keeps a hostile template from using the full limit for
 * every property. */
enum { CHAT_PROBE_STEPS = 2 << 20 };

/* A tokenized prompt. Control token texts within messages, tool results and tool definitions become
 * plain text, so that no input can impersonate another role. */
struct chat_prompt { /* zero-initialised: empty */
    struct buf text;
    struct ids ids;
    int64_t n_head;            /* tokens before the first non-system message; 0: unknown */
    int n_forged;              /* control token texts turned into plain text */
    struct jinja_spans *spans; /* origins of the bytes of text; NULL: not rendered */
    int n_media;               /* placeholders of images found in the text */
    bool refused;              /* the template raised an error or cannot render this conversation */
};
void chat_prompt_release(struct chat_prompt *p);
enum chat_special { CHAT_PLAIN, CHAT_PARSE /* recognise control tokens everywhere */ };
/* Images of a conversation: the texts that replace the placeholders written by the template. */
struct chat_media {
    const char *placeholder; /* "<|image_pad|>" */
    char *const *text;       /* [n], in the order of the conversation; may contain control tokens */
    int n;
    /* A text that represents an image in the messages' own texts, for templates that know no
     * images; unknown to the authors of the messages. NULL: the template writes placeholders. */
    const char *mark;
};
/* Renders a conversation as chat_render_text does and tokenizes it with t, replacing the contents
 * of *out. `special`: whether control token texts within the conversation are recognised. kwargs as
 * for chat_render_text. media NULL: no images. ERR_USAGE: the template writes a different number of
 * placeholders than there are images. */
int chat_tokens(const struct chat *c, const struct tok *t, const char *conv, size_t len,
                const char *kwargs, bool add_generation_prompt, enum chat_special special,
                const struct chat_media *media, struct chat_prompt *out, struct err *e);
/* Cuts the prompt's text to its first `len` bytes and tokenizes these again, with the same t and
 * `special` as before. */
int chat_tokens_cut(struct chat_prompt *p, const struct tok *t, size_t len,
                    enum chat_special special, struct err *e);

#endif
