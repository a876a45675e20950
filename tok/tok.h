// SPDX-License-Identifier: MIT
/* tok/tok.h - tokenizers: text -> ids and back. Built from a GGUF's tokenizer.* keys or from the
 * files of a folder: tokenizer.json (recognised by structure: normalizer, split regex),
 * tokenizer.model (SentencePiece), tekken.json, tiktoken.model.
 *
 * Kinds: byte-level BPE (pre-tokenizers of tok/pretok.def), BPE over characters with U+2581 for
 * spaces, SentencePiece's BPE by scores and its unigram model. Thread-safe once built. */
#ifndef HONE_TOK_TOK_H
#define HONE_TOK_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct gguf; /* containers/gguf.h */
struct gguf_w;
struct tok;

struct ids { /* zero-initialised is empty; free(v) */
    int32_t *v;
    int64_t n, cap;
};
void ids_add(struct ids *a, int32_t id);
/* Makes room for n more ids, as many as a text has. */
int ids_reserve(struct ids *a, int64_t n, struct err *e);
void ids_release(struct ids *a);

enum tok_type { TT_NORMAL = 1, TT_UNKNOWN, TT_CONTROL, TT_USER, TT_UNUSED, TT_BYTE };

/* Checks that the tokenizer of a file, and its pre-tokenizer, are known here; ERR_DATA otherwise.
 */
int tok_gguf_known(const struct gguf *g, struct err *e);
/* Checks the same for the pre-tokenizer that the caller chose; tok_from_gguf and tok_from_gguf_as
 * make the tokenizer of a file. pre is the pre-tokenizer to use whatever the file names (byte-level
 * BPE only); NULL: that of the file. */
int tok_gguf_known_as(const struct gguf *g, const char *pre, struct err *e);
int tok_from_gguf(struct tok **out, const struct gguf *g, struct err *e);
int tok_from_gguf_as(struct tok **out, const struct gguf *g, const char *pre, struct err *e);

/* The tokenizer files of a folder; what is not there is NULL. */
struct tok_files {
    const struct json *tokenizer;  /* tokenizer.json */
    const struct json *config;     /* tokenizer_config.json */
    const struct json *model;      /* config.json */
    const struct json *generation; /* generation_config.json */
    const struct json *added;      /* added_tokens.json */
    const struct json *map;        /* special_tokens_map.json */
    const char *sp;                /* tokenizer.model or spiece.model */
    size_t sp_len;
    const char *tekken; /* tekken.json */
    size_t tekken_len;
    const char *tiktoken; /* tiktoken.model or NAME.tiktoken; its name */
    const char *tiktoken_name;
    size_t tiktoken_len;
};
/* Chooses: SentencePiece's file, unless tokenizer.json is of another kind or has other tokens; then
 * tokenizer.json; then tekken.json; then the tiktoken file. n_vocab and pre as below. */
int tok_from_files(struct tok **out, const struct tok_files *f, int64_t n_vocab, const char *pre,
                   struct err *e);
/* Makes a tokenizer from the parsed files of a folder: tokenizer_json is tokenizer.json, config is
 * tokenizer_config.json or NULL, model_config is config.json (special ids as fallback) or NULL,
 * generation_config is generation_config.json or NULL. n_vocab is the number of rows of the
 * embedding; ids without text become "[PAD<id>]", unused. pre is the name of a pre-tokenizer that
 * overrides recognition; NULL: none. */
int tok_from_hf(struct tok **out, const struct json *tokenizer_json, const struct json *config,
                const struct json *model_config, const struct json *generation_config,
                int64_t n_vocab, const char *pre, struct err *e);
/* Makes a tokenizer from the text of Mistral's tekken.json, for folders without tokenizer.json. */
int tok_from_tekken(struct tok **out, const char *text, size_t len, int64_t n_vocab, struct err *e);
/* Makes a tokenizer from what of these files lies in a folder. n_vocab 0: as config.json says. */
int tok_from_dir(struct tok **out, const char *dir, int64_t n_vocab, const char *pre,
                 struct err *e);
/* Does the same with the tokenizer's files of another folder (an adapter's); what that one does not
 * have of config.json and generation_config.json is read from dir. own NULL: all from dir. */
int tok_from_dirs(struct tok **out, const char *dir, const char *own, int64_t n_vocab,
                  const char *pre, struct err *e);
void tok_free(struct tok *t);

int64_t tok_n_vocab(const struct tok *t);
/* Returns the text of a token as it is stored in GGUF (byte-level tokens in the byte alphabet),
 * borrowed from t, and its length in *len unless len is NULL; "" for an id that there is not. */
const char *tok_text(const struct tok *t, int64_t id, size_t *len);
enum tok_type tok_type(const struct tok *t, int64_t id);
/* Returns how a token is treated, which differs from its type in some files (tok.c). */
enum tok_type tok_role(const struct tok *t, int64_t id);
int64_t tok_n_merges(const struct tok *t);
/* Returns "left right" of merge i, NUL-terminated and borrowed from t. */
const char *tok_merge(const struct tok *t, int64_t i);
const char *tok_model(const struct tok *t); /* "gpt2", "gemma4", "llama", "t5" */
const char *tok_pre(const struct tok *t);   /* "qwen35", ...; NULL when none is written */

enum tok_special { TS_BOS, TS_EOS, TS_EOT, TS_UNK, TS_SEP, TS_PAD, TS_MASK, TS_EOM, TS_COUNT };
int64_t tok_special(const struct tok *t, enum tok_special s); /* -1: none */
bool tok_add_bos(const struct tok *t);
bool tok_add_eos(const struct tok *t);
/* Tells whether the source says at all if BOS is added: only then the key belongs into a GGUF. */
bool tok_has_add_bos(const struct tok *t);
/* Declares every tokenizer.ggml.* key in the field's order (not tokenizer.chat_template). */
void tok_to_gguf(const struct tok *t, struct gguf_w *w);
/* Tells whether a token ends an answer: those that the files list, those added below, and those of
 * the usual texts (tok_ends.c). */
bool tok_is_eog(const struct tok *t, int64_t id);
/* Makes a token an end, or keeps a usual text from being one. Before threads share t. */
void tok_add_end(struct tok *t, int64_t id);
void tok_not_end(struct tok *t, int64_t id);
/* Makes the token that a chat template writes after an answer (s: TS_EOT) or after calls (TS_EOM)
 * an end, and gives it that key where it needs one. */
void tok_set_turn_end(struct tok *t, enum tok_special s, int64_t id);
/* Sets the stop text of a chat template that ends answers with ordinary tokens. tok_end_text
 * returns it, NULL: none. It is only for answers to that template's prompts. */
void tok_set_end_text(struct tok *t, const char *s, size_t n);
const char *tok_end_text(const struct tok *t);
/* Returns the number of ends that neither a key that llama.cpp reads nor a usual text tells, and
 * appends them to out unless it is NULL. */
int64_t tok_ends_left(const struct tok *t, struct ids *out);
/* Appends the ends of a file, ascending; for callers that need no tokenizer. */
int tok_gguf_ends(const struct gguf *g, struct ids *out, struct err *e);
int64_t tok_find(const struct tok *t, const char *text); /* exact token text; -1 */

/* Appends the ids of text[0..len). parse_special: control-token texts in the input become those
 * tokens (user-defined ones always do). add_bos: prepend BOS if the vocabulary adds one. Invalid
 * UTF-8 is tokenized byte by byte (SentencePiece: as U+FFFD); never fails but for memory limits
 * (ERR_DATA over 2^31 tokens). */
int tok_encode(const struct tok *t, const char *text, size_t len, bool parse_special, bool add_bos,
               struct ids *out, struct err *e);
/* The same with control tokens recognised, but not where they reach into a range that is plain
 * text: ranges ascend and do not overlap. */
struct tok_range {
    size_t start, end;
};
int tok_encode_around(const struct tok *t, const char *text, size_t len,
                      const struct tok_range *plain, int n_plain, bool add_bos, struct ids *out,
                      struct err *e);
/* Appends the bytes of one id. special: control tokens are spelled out, otherwise they give
 * nothing. */
void tok_decode(const struct tok *t, int32_t id, bool special, struct buf *out);
/* Appends the text of ids that begin a text: as above, less the space that encoding adds. */
void tok_decode_text(const struct tok *t, const int32_t *id, int64_t n, bool special,
                     struct buf *out);
/* Applies the decoder's Replace steps for whole texts to a text that is decoded token by token.
 * Call tok_stream_put after each tok_decode(): it rewrites out[start..] in place, and holds back
 * text that may be part of a match until a later call, or until `more` is false. tok_stream_new
 * returns NULL if there are no such steps; the other two accept NULL. t is borrowed. */
struct tok_stream *tok_stream_new(const struct tok *t);
void tok_stream_put(struct tok_stream *s, bool more, size_t start, struct buf *out);
void tok_stream_free(struct tok_stream *s);

#endif
