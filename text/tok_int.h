// SPDX-License-Identifier: MIT
/* text/tok_int.h - what the tokenizer files share: the struct and how the builders finish it.
 *
 * A builder (tok_hf.c, tok_gguf.c) makes a zeroed struct tok, fills what a file says, then calls
 * tok_finish(), which derives the tables that encoding needs. */
#ifndef HONE_TEXT_TOK_INT_H
#define HONE_TEXT_TOK_INT_H

#include "text/bpe.h"
#include "text/pretok.h"
#include "text/tok.h"
#include "text/vocab.h"

enum tok_kind {
    TOK_BYTES, /* byte-level BPE: pre-tokens of a regex, bytes spelled in the alphabet ("gpt2") */
    TOK_META   /* spaces become U+2581, characters outside the vocabulary become byte tokens */
};

struct pair_set { /* of character pairs; see cuts in tok_encode.c */
    uint64_t *v;  /* 0: free */
    size_t mask;
};

struct tok {
    /* filled by a builder */
    enum tok_kind kind;
    struct vocab v;
    const char **merge; /* "left right", in v.arena */
    uint32_t *merge_len;
    int64_t n_merges;
    int64_t special[TS_COUNT];
    const struct pretok_row *row; /* TOK_BYTES */
    const char *pre;              /* NULL: none */
    bool nfc, ignore_merges, byte_fallback, fuse_unk;
    bool add_bos, add_eos, has_add_bos, has_add_eos;
    struct spots raw, normalized; /* matched on the text as given, and after normalization */

    /* derived by tok_finish() */
    struct pretok *split;
    struct bpe bpe;
    int32_t byte_id[256];     /* TOK_BYTES: the byte's token; TOK_META: "<0xNN>"; -1: none */
    int32_t ascii_id[128];    /* TOK_META */
    struct pair_set may_join; /* TOK_META: characters that some merge brings together */
    bool cuts;                /* TOK_META: may_join can be trusted */
};

/* A zeroed tokenizer without special ids. */
struct tok *tok_new(void);
/* from_file: roles come from the types and texts alone (a GGUF has no list of added tokens). */
int tok_finish(struct tok *t, bool from_file, struct err *e);
/* Id of a "<0xNN>" text's byte, or -1. */
int tok_byte_text(const char *text, size_t len);
/* `<|x|>`, `<unused7>`, `<pad>` and the like. */
bool tok_looks_control(const char *text, size_t len);

void pair_set_init(struct pair_set *p, size_t n);
void pair_set_add(struct pair_set *p, uint32_t a, uint32_t b);
bool pair_set_has(const struct pair_set *p, uint32_t a, uint32_t b);

#endif
