// SPDX-License-Identifier: MIT
/* runtime/generate/draft.h - generation with the model's MTP block: every pass of the trunk
 * computes the chosen token and the block's guess of the one after it, so that a right guess costs
 * no pass of its own. Logits are the trunk's for exactly the tokens given, up to the rounding of
 * batched passes: the text is that of plain generation.
 *
 * Memory beside the trunk's session: the block's (one layer's cache, scratch, and on a GPU its own
 * copy of embeddings and head), the trunk's recurrent states once more, three rows of logits. */
#ifndef HONE_RUNTIME_GENERATE_DRAFT_H
#define HONE_RUNTIME_GENERATE_DRAFT_H

#include "runtime/engine/session.h"

struct draft_stats {
    int64_t n_drafted, n_accepted; /* guesses that were compared with a token; equal ones */
};
struct draft;
/* Makes a draft over trunk, which is at position 0, borrowed, and from then on used through the
 * draft only. ERR_DATA when its model has no MTP block. */
int draft_new(struct draft **out, struct session *trunk, struct err *e);
void draft_free(struct draft *d);
void draft_reset(struct draft *d); /* both at position 0 */
/* Runs the next n tokens of the sequence (n may be 1) and computes logits [n_vocab] after the
 * last of them. */
int draft_feed(struct draft *d, const int32_t *ids, int64_t n, float *logits, struct err *e);
struct draft_stats draft_get_stats(const struct draft *d);

/* Opens the MTP block as a session of its own, with the trunk's options. The caller frees both,
 * the session first. */
int draft_session(struct session *trunk, struct model **m, struct session **s, struct err *e);

#endif
