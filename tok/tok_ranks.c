// SPDX-License-Identifier: MIT
/* tok/tok_ranks.c - scores derived from merges, for readers that support only SentencePiece's BPE:
 * minus the lowest rank of a merge that makes the token.
 *
 * Joining by these scores approximates joining by the merges, but is not the same: scores join any
 * two neighbours that spell a token, merges only those listed; among overlapping pairs for one
 * token, scores prefer the left one, merges the one listed first (in runs of spaces, for example).
 * The merges are therefore written too, under a separate key (tok_gguf.c). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tok/tok_hf.h"
#include "text/utf8.h"

/* Returns the token that merge i makes; tok_finish() has checked that it exists. */
static int64_t whole_of(const struct tok *t, int64_t i) {
    const char *m = t->merge[i], *space = memchr(m + 1, ' ', t->merge_len[i] - 1);
    size_t n_left = (size_t)(space - m), n_right = t->merge_len[i] - n_left - 1;
    char *whole = xmalloc(n_left + n_right + 1);
    memcpy(whole, m, n_left);
    memcpy(whole + n_left, space + 1, n_right);
    int64_t id = vocab_find(&t->v, whole, n_left + n_right);
    free(whole);
    return id;
}

/* Returns whether the n bytes are exactly one UTF-8 character. */
static bool one_char(const char *s, size_t n) {
    uint32_t cp;
    return utf8_decode(s, n, &cp) == n;
}

void ranks_to_scores(struct tok *t) {
    t->score = xcalloc((size_t)t->v.n, sizeof *t->score);
    for (int64_t id = 0; id < t->v.n; id++) {
        int type = t->v.type[id];
        bool single = type == TT_NORMAL && one_char(t->v.text[id], t->v.len[id]);
        t->score[id] = type == TT_UNUSED   ? -10000.0f
                       : type != TT_NORMAL ? ADDED_SCORE
                       : single            ? 0.0f
                                /* for a token that no merge makes */
                                : -(float)t->n_merges;
    }
    for (int64_t i = t->n_merges - 1; i >= 0; i--) {
        int64_t id = whole_of(t, i);
        if (t->v.type[id] == TT_NORMAL) t->score[id] = -(float)i;
    }
}
