// SPDX-License-Identifier: MIT
/* runtime/generate/draft.h - speculative decoding with the model's MTP block or a draft file
 * (drafter.h): each pass of the model, the trunk, computes the chosen token and the tokens drafted
 * after it, so that correct drafts save passes. The logits are those of the trunk for exactly the
 * given tokens; on a device, up to the rounding of batched passes.
 *
 * Memory in addition to the trunk's session: the draft's memory (one layer's cache, scratch, and on
 * a GPU its own copy of embeddings and head), a copy of the trunk's recurrent states, and a few
 * rows of logits. */
#ifndef HONE_RUNTIME_GENERATE_DRAFT_H
#define HONE_RUNTIME_GENERATE_DRAFT_H

#include "runtime/engine/session.h"

struct draft_stats {
    /* Drafted tokens of all series whose first token was compared with the actual next one; those
     * that were equal to the actual ones. */
    int64_t n_drafted, n_accepted;
};
struct draft;
/* Creates a draft for trunk, a session at position 0. trunk is borrowed, and from now on used only
 * through the draft. how, and errors: as for drafter_open. */
int draft_new(struct draft **out, struct session *trunk, const char *how, struct err *e);
void draft_free(struct draft *d);
void draft_reset(struct draft *d); /* both sessions to position 0 */
/* Runs the next n >= 1 tokens of the sequence and computes logits [n_vocab] after the last. */
int draft_feed(struct draft *d, const int32_t *ids, int64_t n, float *logits, struct err *e);
struct draft_stats draft_get_stats(const struct draft *d);

#endif
