// SPDX-License-Identifier: MIT
/* tok/tok_hf.h - internals shared by the readers of a folder's tokenizer files. */
#ifndef HONE_TOK_TOK_HF_H
#define HONE_TOK_TOK_HF_H

#include <string.h>

#include "tok/tok_int.h"

/* The token that is U+0000 alone (InternLM): as json_read_nul reads it, and as files hold it, an
 * emoji, as other converters do. */
#define NUL_READ "\xc0\x80"
#define NUL_STORED "\xf0\x9f\x90\x89"

static inline bool hf_is(const struct json *j, const char *text) {
    const char *s = json_str(j);
    return s && strcmp(s, text) == 0;
}

/* Returns the text to store for a token of tokenizer.json. */
static inline const char *hf_token_text(const char *s) {
    return strcmp(s, NUL_READ) == 0 ? NUL_STORED : s;
}

/* Detects kind, pre-tokenizer and normalization from the structure of tokenizer.json
 * (tok_hf_kind.c). */
int hf_recognise(struct tok *t, const struct tok_files *f, const char *pre, struct err *e);
/* Reads the steps of tokenizer.json's decoder that do more than undo the normalization
 * (tok_hf_decoder.c). */
void hf_decoder(struct tok *t, const struct json *decoder);
/* Returns whether tokenizer.json is of a kind that tokenizer.model can replace. */
bool hf_like_sentencepiece(const struct json *tokenizer);
/* Reads from tokenizer.json where a space is added; returns false if it does not specify that. */
bool hf_prefix(const struct json *tokenizer, struct prep *out);

/* Returns the largest id of the folder's added tokens, or `most` if that is larger. */
int64_t hf_last_id(const struct tok_files *f, int64_t most);
/* Read added tokens, pad rows without a token (hf_pad), and read the special ids (hf_specials). In
 * tok_hf_added.c. */
int hf_added(struct tok *t, const struct tok_files *f, struct err *e);
/* Names the ids without text "[PAD<id>]" and marks them as unused. */
void hf_pad(struct tok *t);
/* Sets the special tokens that the configuration names. */
void hf_specials(struct tok *t, const struct tok_files *f);
/* Reads the tokens that end an answer, and the conventional special tokens of model families
 * (tok_ends.c). */
void hf_ends(struct tok *t, const struct tok_files *f);

/* Computes a score for each token from the ranks of its merges, for other readers of a GGUF
 * (tok_ranks.c). */
void ranks_to_scores(struct tok *t);

/* Returns the id of a text by linear search, for a vocabulary without an index; -1: none. */
int64_t hf_find_text(const struct tok *t, const char *text);

/* Builds a tokenizer.json from vocab.json and merges.txt (tok_vocab_json.c). pre: as in
 * tok_from_files. */
int tok_json_of_vocab(struct json **out, const struct tok_files *f, const struct json *vocab,
                      const char *merges, size_t len, const char *pre, struct err *e);

/* Creates a tokenizer from a tiktoken file (tok_tiktoken.c). */
int tok_from_tiktoken(struct tok **out, const struct tok_files *f, int64_t n_vocab, const char *pre,
                      struct err *e);
/* Returns whether the first line belongs to a tiktoken file. */
bool tiktoken_like(const char *text, size_t len);

/* Creates a tokenizer from SentencePiece's file (tok_sp.c). */
int tok_from_sp(struct tok **out, const struct tok_files *f, int64_t n_vocab, struct err *e);
/* Returns whether tokenizer.json and SentencePiece's file have the same token for every id that is
 * in both, and tokenizer.json has no others except added tokens. True if the file cannot be read:
 * the caller then reports the error. */
bool sp_agrees(const struct tok_files *f);

#endif
