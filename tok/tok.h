// SPDX-License-Identifier: MIT
/* tok/tok.h - tokenizers: text to token ids and back. Built from a GGUF's tokenizer.* keys or from
 * the files of a folder: tokenizer.json (recognised by structure: normalizer, split regex),
 * tokenizer.model (SentencePiece), tekken.json, tiktoken.model.
 *
 * Kinds: byte-level BPE (pre-tokenizers of tok/pretok.def), BPE over characters with U+2581 for
 * spaces, SentencePiece's BPE by scores, and SentencePiece's unigram model. Thread-safe once
 * built. */
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

struct ids { /* zero-initialised: empty; free with ids_release */
    int32_t *v;
    int64_t n, cap;
};
void ids_add(struct ids *a, int32_t id);
/* Makes room for n more ids. Unlike ids_add it returns an error if memory runs out, for counts that
 * depend on input text. */
int ids_reserve(struct ids *a, int64_t n, struct err *e);
void ids_release(struct ids *a);

enum tok_type { TT_NORMAL = 1, TT_UNKNOWN, TT_CONTROL, TT_USER, TT_UNUSED, TT_BYTE };

/* Checks that a file's tokenizer and pre-tokenizer are supported; ERR_DATA otherwise. */
int tok_gguf_known(const struct gguf *g, struct err *e);
/* Checks a file for tok_from_gguf_as; tok_from_gguf and tok_from_gguf_as create its tokenizer. pre
 * is a pre-tokenizer that overrides the file's (byte-level BPE only); NULL: none. */
int tok_gguf_known_as(const struct gguf *g, const char *pre, struct err *e);
/* Reads the file's tokenizer; release it with tok_free(). */
int tok_from_gguf(struct tok **out, const struct gguf *g, struct err *e);
/* Reads the tokenizer with a different pre-tokenizer; pre NULL: the file's own. */
int tok_from_gguf_as(struct tok **out, const struct gguf *g, const char *pre, struct err *e);

/* Tokenizer files of a folder; NULL: no such file. */
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
    const char *tiktoken; /* tiktoken.model or NAME.tiktoken; its file name */
    const char *tiktoken_name;
    size_t tiktoken_len;
    bool embeds; /* modules.json is there: an embedding model */
};
/* Creates a tokenizer from SentencePiece's file, unless tokenizer.json is of a different kind or
 * has different tokens; otherwise from tokenizer.json, tekken.json or the tiktoken file, in this
 * order. n_vocab and pre: see tok_from_hf. */
int tok_from_files(struct tok **out, const struct tok_files *f, int64_t n_vocab, const char *pre,
                   struct err *e);
/* Creates a tokenizer from parsed files of a folder: tokenizer.json, tokenizer_config.json or NULL,
 * config.json (special ids as fallback) or NULL, generation_config.json or NULL. n_vocab is the
 * number of rows of the embedding, <= 0: the number of ids; ids without text become
 * "[PAD<id>]", unused. pre names a pre-tokenizer that overrides detection; NULL: none. */
int tok_from_hf(struct tok **out, const struct json *tokenizer_json, const struct json *config,
                const struct json *model_config, const struct json *generation_config,
                int64_t n_vocab, const char *pre, struct err *e);
/* Creates a tokenizer from the text of Mistral's tekken.json, for folders without
 * tokenizer.json. */
int tok_from_tekken(struct tok **out, const char *text, size_t len, int64_t n_vocab, struct err *e);
/* Creates a tokenizer from the tokenizer files in a folder. n_vocab 0: as in config.json. */
int tok_from_dir(struct tok **out, const char *dir, int64_t n_vocab, const char *pre,
                 struct err *e);
/* Like tok_from_dir, with the tokenizer files of another folder (an adapter's); config.json and
 * generation_config.json fall back to dir. own NULL: all from dir. */
int tok_from_dirs(struct tok **out, const char *dir, const char *own, int64_t n_vocab,
                  const char *pre, struct err *e);
void tok_free(struct tok *t);

int64_t tok_n_vocab(const struct tok *t);
/* Returns a token's text as stored in GGUF (byte-level tokens in the byte alphabet), borrowed from
 * t, and its length in *len unless len is NULL; "" for an invalid id. */
const char *tok_text(const struct tok *t, int64_t id, size_t *len);
/* Returns the token's type; TT_UNUSED for ids outside the vocabulary. */
enum tok_type tok_type(const struct tok *t, int64_t id);
/* Returns how a token is treated, which in some files differs from its type (tok.c). */
enum tok_type tok_role(const struct tok *t, int64_t id);
int64_t tok_n_merges(const struct tok *t);
/* Returns merge i as "left right", NUL-terminated and borrowed from t. */
const char *tok_merge(const struct tok *t, int64_t i);
const char *tok_model(const struct tok *t); /* "gpt2", "gemma4", "llama", "t5" */
const char *tok_pre(const struct tok *t);   /* "qwen35", ...; NULL: none stored */

enum tok_special { TS_BOS, TS_EOS, TS_EOT, TS_UNK, TS_SEP, TS_PAD, TS_MASK, TS_EOM, TS_COUNT };
int64_t tok_special(const struct tok *t, enum tok_special s); /* -1: none */
/* Returns whether encoding puts the begin-of-sequence token first by default. */
bool tok_add_bos(const struct tok *t);
/* Returns whether encoding appends the end-of-sequence token by default. */
bool tok_add_eos(const struct tok *t);
/* Returns whether encoding puts a space before the text. */
bool tok_add_space(const struct tok *t);
/* Returns whether the source specifies if BOS is added; otherwise a GGUF does not get the key. */
bool tok_has_add_bos(const struct tok *t);
/* Declares all tokenizer.ggml.* keys (not tokenizer.chat_template) in the order of llama.cpp's
 * converter. */
void tok_to_gguf(const struct tok *t, struct gguf_w *w);
/* Returns whether a token ends an answer: listed in the files, added with tok_add_end(), or
 * known by its text (tok_ends.c). */
bool tok_is_eog(const struct tok *t, int64_t id);
/* Mark a token as an end of an answer, or exclude one that tok_ends.c recognised by its text. Call
 * before threads share t. */
void tok_add_end(struct tok *t, int64_t id);
/* Marks the token as never ending an answer; ignores ids outside the vocabulary. */
void tok_not_end(struct tok *t, int64_t id);
/* Marks the token that a chat template writes after an answer (s: TS_EOT) or after calls (TS_EOM)
 * as an end. Makes it the EOS if the EOS is missing; otherwise sets special[s], unless that is set
 * already or readers find the token without it. */
void tok_set_turn_end(struct tok *t, enum tok_special s, int64_t id);
/* Set and return the stop text of a chat template that ends answers with ordinary tokens (NULL:
 * none). It applies only to answers to that template's prompts. */
void tok_set_end_text(struct tok *t, const char *s, size_t n);
/* Returns the text that ends an answer if no token does; NULL if none is known. */
const char *tok_end_text(const struct tok *t);
/* Returns the number of ends that are covered neither by a key that llama.cpp reads nor by a usual
 * text, and appends them to out unless it is NULL. */
int64_t tok_ends_left(const struct tok *t, struct ids *out);
/* Appends the end tokens of a file in ascending order, for callers without a tokenizer. */
int tok_gguf_ends(const struct gguf *g, struct ids *out, struct err *e);
int64_t tok_find(const struct tok *t, const char *text); /* exact token text; -1: none */

/* Appends the ids of text[0..len). parse_special: texts of control tokens become those tokens
 * (texts of user-defined tokens always do). add_bos: prepend BOS if the vocabulary adds one.
 * Invalid UTF-8 is tokenized byte by byte (SentencePiece: as U+FFFD). Fails only if memory runs
 * out, or with ERR_DATA for more than 2^31 tokens. */
int tok_encode(const struct tok *t, const char *text, size_t len, bool parse_special, bool add_bos,
               struct ids *out, struct err *e);
/* A range of plain text, into which control tokens may not reach. Ranges ascend and do not
 * overlap. */
struct tok_range {
    size_t start, end;
};
/* Appends the ids of a text; special tokens are recognized outside the n_plain ranges only. */
int tok_encode_around(const struct tok *t, const char *text, size_t len,
                      const struct tok_range *plain, int n_plain, bool add_bos, struct ids *out,
                      struct err *e);
/* Appends the bytes of one id. special: control tokens are spelled out; otherwise they are
 * empty. */
void tok_decode(const struct tok *t, int32_t id, bool special, struct buf *out);
/* Appends the text of n ids that begin a text: each as tok_decode does, without the space that
 * encoding adds in front. Then applies the decoder's Replace steps for whole texts. */
void tok_decode_text(const struct tok *t, const int32_t *id, int64_t n, bool special,
                     struct buf *out);
/* Apply the decoder's Replace steps for whole texts to text that is decoded token by token. Call
 * tok_stream_put after each tok_decode(): it rewrites out[start..] in place and holds back text
 * that may be part of a match until a later call, or until `more` is false. tok_stream_new returns
 * NULL if there are no such steps; the other two accept NULL. t is borrowed. */
struct tok_stream *tok_stream_new(const struct tok *t);
/* Applies the decoder's rules for whole texts to the part of out that begins at start; s may be
 * NULL. more: text follows. */
void tok_stream_put(struct tok_stream *s, bool more, size_t start, struct buf *out);
void tok_stream_free(struct tok_stream *s);

#endif
