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

/* tok_hf_kind.c: kind, pre-tokenizer and normalization from the structure of tokenizer.json. */
int hf_recognise(struct tok *t, const struct tok_files *f, const char *pre, struct err *e);
/* Whether tokenizer.json is of a kind that tokenizer.model may stand for. */
bool hf_like_sentencepiece(const struct json *tokenizer);
/* Where a space is added, as tokenizer.json says; false when it says nothing. */
bool hf_prefix(const struct json *tokenizer, struct prep *out);

/* tok_hf_added.c: added tokens; rows without a token get their padding; special ids. */
int hf_added(struct tok *t, const struct tok_files *f, struct err *e);
void hf_pad(struct tok *t);
int hf_specials(struct tok *t, const struct tok_files *f, struct err *e);

/* tok_ranks.c: scores that come near to the merges, for other readers. */
void ranks_to_scores(struct tok *t);

/* tok_sp.c: from SentencePiece's file. */
int tok_from_sp(struct tok **out, const struct tok_files *f, int64_t n_vocab, struct err *e);
/* Whether the tokens of tokenizer.json are, as far as its own go, those of SentencePiece's file. */
bool sp_agrees(const struct tok_files *f);

#endif
