// SPDX-License-Identifier: MIT
/* tok/rank_bpe.h - vocabularies that are lists of byte strings in rank order, without merges:
 * tekken.json and tiktoken files.
 *
 * Other readers need merges: for each token of two bytes and more, in rank order, every split into
 * two tokens, by the ranks of its halves. Merging by that list gives what "join the pair whose
 * union has the lowest rank" gives. */
#ifndef HONE_TOK_RANK_BPE_H
#define HONE_TOK_RANK_BPE_H

#include "tok/tok_int.h"

enum { RANK_BPE_TOKEN = 1024 }; /* longest token, in bytes */
struct rank_bpe {
    struct tok *t;
    int64_t first, n; /* id of rank 0; number of ranks */
    char **bytes;     /* [n], in the vocabulary's arena */
    uint32_t *len;
    struct strmap *rank_of;
};
/* Prepares for n ranks; the vocabulary of t has room for ids first ... first + n - 1. */
int rank_bpe_init(struct rank_bpe *k, struct tok *t, int64_t first, int64_t n, struct err *e);
void rank_bpe_release(struct rank_bpe *k);
/* Sets the token of a rank; false: another rank has the same bytes. n is at most RANK_BPE_TOKEN. */
bool rank_bpe_put(struct rank_bpe *k, int64_t rank, const char *raw, size_t n);
/* Fills the merges of t. Returns the first rank of two bytes or more that no two others make, or
 * -1: only a pre-token that is taken whole can give such a token. */
int64_t rank_bpe_merges(struct rank_bpe *k);

#endif
