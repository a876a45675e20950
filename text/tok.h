// SPDX-License-Identifier: MIT
/* text/tok.h - tokenizers: text -> ids and back. Built from a GGUF's tokenizer.* keys or from a
 * Hugging Face tokenizer.json (recognised by structure: normalizer, split regex, decoder).
 *
 * Kinds: byte-level BPE (qwen2, qwen35, tekken, gpt-2, llama-bpe pre-tokenizers, table
 * text/pretok.def) and metaspace BPE with byte fallback (gemma4). Thread-safe once built. */
#ifndef HONE_TEXT_TOK_H
#define HONE_TEXT_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"

struct gguf; /* core/gguf.h */
struct gguf_w;
struct tok;

enum tok_type { TT_NORMAL = 1, TT_UNKNOWN, TT_CONTROL, TT_USER, TT_UNUSED, TT_BYTE };

/* ERR_DATA when the file has a kind of tokenizer, or a pre-tokenizer, that is not known here. */
int tok_gguf_known(const struct gguf *g, struct err *e);
int tok_from_gguf(struct tok **out, const struct gguf *g, struct err *e);
/* tokenizer_json: parsed tokenizer.json; config: tokenizer_config.json or NULL; n_vocab: rows of
 * the embedding (ids without text become "[PAD<id>]", unused). model_config: config.json (special
 * ids as fallback) or NULL. pre: NULL, or a pre-tokenizer name that overrides recognition. */
int tok_from_hf(struct tok **out, const struct json *tokenizer_json, const struct json *config,
                const struct json *model_config, const struct json *generation_config,
                int64_t n_vocab, const char *pre, struct err *e);
/* From the text of Mistral's tekken.json, for folders without tokenizer.json. */
int tok_from_tekken(struct tok **out, const char *text, size_t len, int64_t n_vocab, struct err *e);
void tok_free(struct tok *t);

int64_t tok_n_vocab(const struct tok *t);
/* Text as stored in GGUF (byte-level tokens in the byte alphabet); borrowed. */
const char *tok_text(const struct tok *t, int64_t id, size_t *len);
enum tok_type tok_type(const struct tok *t, int64_t id);
int64_t tok_n_merges(const struct tok *t);
/* "left right" of merge i, NUL-terminated; borrowed. */
const char *tok_merge(const struct tok *t, int64_t i);
const char *tok_model(const struct tok *t); /* "gpt2", "gemma4" */
const char *tok_pre(const struct tok *t);   /* "qwen35", ...; NULL when none is written */

enum tok_special { TS_BOS, TS_EOS, TS_EOT, TS_UNK, TS_SEP, TS_PAD, TS_MASK, TS_COUNT };
int64_t tok_special(const struct tok *t, enum tok_special s); /* -1: none */
bool tok_add_bos(const struct tok *t);
bool tok_add_eos(const struct tok *t);
/* Whether the source says so at all: only then the key belongs into a GGUF. */
bool tok_has_add_bos(const struct tok *t);
bool tok_has_add_eos(const struct tok *t);
/* Declares every tokenizer.ggml.* key in the field's order (not tokenizer.chat_template). */
void tok_to_gguf(const struct tok *t, struct gguf_w *w);
/* Ends a generation: eos, eot and the known turn-ending texts. */
bool tok_is_eog(const struct tok *t, int64_t id);
int64_t tok_find(const struct tok *t, const char *text); /* exact token text; -1 */

struct ids { /* zero-initialised is empty; free(v) */
    int32_t *v;
    int64_t n, cap;
};
void ids_add(struct ids *a, int32_t id);
void ids_release(struct ids *a);

/* Appends the ids of text[0..len). parse_special: control-token texts in the input become those
 * tokens (user-defined ones always do). add_bos: prepend BOS if the vocabulary adds one. Invalid
 * UTF-8 is tokenized byte by byte; never fails but for memory limits (ERR_DATA over 2^31 tokens).
 */
int tok_encode(const struct tok *t, const char *text, size_t len, bool parse_special, bool add_bos,
               struct ids *out, struct err *e);
/* Appends the bytes of one id. special: control tokens are spelled out, otherwise they give
 * nothing. */
void tok_decode(const struct tok *t, int32_t id, bool special, struct buf *out);

#endif
