// SPDX-License-Identifier: MIT
/* runtime/generate/draft.h - speculative decoding with the model's MTP block: each pass of the
 * trunk computes the chosen token and the block's draft of the next one, so that a correct draft
 * saves a pass. The logits are those of the trunk for exactly the given tokens, up to the rounding
 * of batched passes, so the text equals that of plain generation.
 *
 * Memory in addition to the trunk's session: the block's memory (one layer's cache, scratch, and on
 * a GPU its own copy of embeddings and head), a copy of the trunk's recurrent states, and three
 * rows of logits. */
#ifndef HONE_RUNTIME_GENERATE_DRAFT_H
#define HONE_RUNTIME_GENERATE_DRAFT_H

#include "runtime/engine/session.h"

struct draft_stats {
    int64_t n_drafted,
        n_accepted; /* draft tokens compared with the actual next token; those that were equal */
};
struct draft;
/* Creates a draft for trunk, a session at position 0. trunk is borrowed, and from now on used only
 * through the draft. ERR_DATA: its model has no MTP block. */
int draft_new(struct draft **out, struct session *trunk, struct err *e);
void draft_free(struct draft *d);
void draft_reset(struct draft *d); /* both sessions to position 0 */
/* Runs the next n >= 1 tokens of the sequence and computes logits [n_vocab] after the last. */
int draft_feed(struct draft *d, const int32_t *ids, int64_t n, float *logits, struct err *e);
struct draft_stats draft_get_stats(const struct draft *d);

/* Opens the MTP block as a separate session with the trunk's options. The caller frees the session,
 * then the model. */
int draft_session(struct session *trunk, struct model **m, struct session **s, struct err *e);

#endif
