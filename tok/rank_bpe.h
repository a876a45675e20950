// SPDX-License-Identifier: MIT
/* tok/rank_bpe.h - vocabularies stored as byte strings in rank order, without merges: tekken.json
 * and tiktoken files.
 *
 * Other programs need merges: for each token of at least two bytes, in rank order, every split into
 * two tokens, sorted by the ranks of the halves. Merging by that list is equivalent to joining the
 * pair whose union has the lowest rank. */
#ifndef HONE_TOK_RANK_BPE_H
#define HONE_TOK_RANK_BPE_H

#include "tok/tok_int.h"

enum { RANK_BPE_TOKEN = 1024 }; /* maximum token length in bytes */
struct rank_bpe {
    struct tok *t;
    int64_t first, n; /* id of rank 0; number of ranks */
    char **bytes;     /* [n] in the vocabulary's arena */
    uint32_t *len;
    struct strmap *rank_of;
};
/* Prepares for n ranks; the vocabulary of t has room for ids first ... first + n - 1. */
int rank_bpe_init(struct rank_bpe *k, struct tok *t, int64_t first, int64_t n, struct err *e);
void rank_bpe_release(struct rank_bpe *k);
/* Sets the token of a rank. Returns false if another rank has the same bytes. n <=
 * RANK_BPE_TOKEN. */
bool rank_bpe_put(struct rank_bpe *k, int64_t rank, const char *raw, size_t n);
/* Fills the merges of t. Returns the first rank whose token has at least two bytes and is not
 * formed by two other tokens (only a pre-token equal to it can produce it), or -1. */
int64_t rank_bpe_merges(struct rank_bpe *k);

#endif
