// SPDX-License-Identifier: MIT
/* tok/tok_enc.h - shared state of the encoding algorithms for one call of tok_encode().
 *
 * An algorithm receives normalized text without special token texts and appends ids. It may split
 * the text into pieces whose ids do not depend on their surroundings and pass them to enc_piece(),
 * which caches short ones. */
#ifndef HONE_TOK_TOK_ENC_H
#define HONE_TOK_TOK_ENC_H

#include "tok/tok_int.h"

enum { KEPT_BYTES = 24, KEPT_IDS = 6 };
struct kept { /* a cached piece and its ids */
    uint8_t len, n;
    char key[KEPT_BYTES];
    int32_t ids[KEPT_IDS];
};
struct spm_work { /* scratch memory of tok_spm.c */
    struct spm_sym *sym;
    struct spm_pair *heap;
    size_t cap_sym, cap_heap, n_heap;
    /* [vocabulary] for unused pieces: bytes of the left one of the two parts that formed it; NULL
     * until needed. */
    uint32_t *left_part;
};
struct unigram_work { /* scratch memory of tok_unigram.c */
    struct unigram_node *node;
    size_t *end; /* ends of the pieces of a settled stretch, last one first */
    size_t cap, cap_end;
};
struct enc {
    const struct tok *t;
    const struct tok_algo *algo;
    bool parse_special;
    struct ids *out;
    struct kept *kept; /* direct-mapped; len 0: free */
    size_t kept_mask;
    struct pretok_run *run;
    struct bpe_work work;
    int32_t *sym;
    size_t cap_sym;
    struct buf norm, early, spell;
    int64_t last_unk; /* out->n after an <unk> that the next one joins; -1: none */
    struct spm_work spm;
    struct unigram_work unigram;
    struct err *e;
    int rc; /* ERR_SYS: out of memory, *e is set, and the rest was not encoded */
};
struct tok_algo {
    void (*text)(struct enc *c, const char *s, size_t n);
    void (*piece)(struct enc *c, const char *s, size_t n); /* NULL: makes no pieces */
};

/* Resizes p to n items. NULL: out of memory; c->rc is set, and p is unchanged. */
void *enc_grow(struct enc *c, void *p, size_t n, size_t size);
/* Appends n ids; does nothing after an error (c->rc). */
void enc_ids(struct enc *c, const int32_t *v, size_t n);
/* Appends <unk>; nothing if the vocabulary has no <unk> or it would repeat a fused one. */
void enc_unk(struct enc *c);
/* Adds the byte tokens of a character that is not a token itself, or <unk>. */
void enc_unknown_char(struct enc *c, const char *s, size_t n);
/* Adds the ids of a piece, from the cache or from c->algo->piece. */
void enc_piece(struct enc *c, const char *s, size_t n);
/* Encodes text in pieces, split between characters that no merge joins (t->cuts). */
void enc_cut_text(struct enc *c, const char *s, size_t n);

/* Appends the tokens of a text without control tokens: by merges of best score (spm), or the
 * segmentation of best total score (unigram). */
void spm_piece(struct enc *c, const char *s, size_t n);
void spm_work_release(struct spm_work *w);
/* Appends the split into pieces with the highest sum of scores. */
void unigram_text(struct enc *c, const char *s, size_t n);
void unigram_work_release(struct unigram_work *w);

#endif
