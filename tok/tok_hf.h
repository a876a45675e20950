// SPDX-License-Identifier: MIT
/* tok/tok_hf.h - what the readers of a folder's tokenizer files share. */
#ifndef HONE_TOK_TOK_HF_H
#define HONE_TOK_TOK_HF_H

#include <string.h>

#include "tok/tok_int.h"

static inline bool hf_is(const struct json *j, const char *text) {
    const char *s = json_str(j);
    return s && strcmp(s, text) == 0;
}

/* Recognises kind, pre-tokenizer and normalization from the structure of tokenizer.json
 * (tok_hf_kind.c). */
int hf_recognise(struct tok *t, const struct tok_files *f, const char *pre, struct err *e);
/* Reads what the decoder of tokenizer.json does beyond undoing the normalization
 * (tok_hf_decoder.c). */
void hf_decoder(struct tok *t, const struct json *decoder);
/* Tells whether tokenizer.json is of a kind that tokenizer.model may stand for. */
bool hf_like_sentencepiece(const struct json *tokenizer);
/* Reads where a space is added, as tokenizer.json says; returns false when it says nothing. */
bool hf_prefix(const struct json *tokenizer, struct prep *out);

/* Returns the largest id of any added token of the folder, at least `most`. */
int64_t hf_last_id(const struct tok_files *f, int64_t most);
/* Reads added tokens; hf_pad gives rows without a token their padding, and hf_specials reads the
 * special ids (tok_hf_added.c). */
int hf_added(struct tok *t, const struct tok_files *f, struct err *e);
void hf_pad(struct tok *t);
void hf_specials(struct tok *t, const struct tok_files *f);
/* Reads which tokens end an answer, and the special tokens that families have by convention
 * (tok_ends.c). */
void hf_ends(struct tok *t, const struct tok_files *f);

/* Makes a score for each token from the ranks of the merges that make it, for other readers of a
 * GGUF (tok_ranks.c). */
void ranks_to_scores(struct tok *t);

/* Returns the id of a text by a linear search, for a vocabulary without an index; -1: none. */
int64_t hf_find_text(const struct tok *t, const char *text);

/* Makes a tokenizer.json from vocab.json and merges.txt (tok_vocab_json.c). pre: as in
 * tok_from_files. */
int tok_json_of_vocab(struct json **out, const struct tok_files *f, const struct json *vocab,
                      const char *merges, size_t len, const char *pre, struct err *e);

/* Makes a tokenizer from a tiktoken file (tok_tiktoken.c). */
int tok_from_tiktoken(struct tok **out, const struct tok_files *f, int64_t n_vocab, const char *pre,
                      struct err *e);
/* Tells whether the first line of a file is that of a tiktoken file. */
bool tiktoken_like(const char *text, size_t len);

/* Makes a tokenizer from SentencePiece's file (tok_sp.c). */
int tok_from_sp(struct tok **out, const struct tok_files *f, int64_t n_vocab, struct err *e);
/* Tells whether the tokens of tokenizer.json are, as far as those of SentencePiece's file go, the
 * same. True for such a file that cannot be read: the caller meets its error again. */
bool sp_agrees(const struct tok_files *f);

#endif
