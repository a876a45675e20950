// SPDX-License-Identifier: MIT
/* runtime/engine/seq.h - sequences: the state of a session for one text, for callers that feed
 * several texts at a time (session_pass). A sequence belongs to the session that created it, and
 * one thread at a time uses both. Free all sequences before the session. */
#ifndef HONE_RUNTIME_ENGINE_SEQ_H
#define HONE_RUNTIME_ENGINE_SEQ_H

#include <stdint.h>

#include "base/err.h"

struct seq;

/* Frees q, which may be NULL. Its fixed memory may be kept for the next sequence. */
void seq_free(struct seq *q);
/* Returns the number of tokens fed so far. */
int64_t seq_pos(const struct seq *q);
/* Creates a sequence with the same past. Keys and values are shared, recurrent states are copied.
 * ERR_SYS: out of memory. A fork that is never fed serves as a snapshot. */
int seq_fork(struct seq **out, const struct seq *from, struct err *e);
/* Gives q the past of `from`, a sequence of the same session. Allocates nothing. */
void seq_restore(struct seq *q, const struct seq *from);
/* Moves the past of `from` to q without copying it, and leaves `from` as after seq_empty. */
void seq_take(struct seq *q, struct seq *from);
/* Releases q's keys and values. q then has no past, not even an empty one, until seq_restore,
 * seq_take, session_pass or seq_reset gives it one. */
void seq_empty(struct seq *q);
/* Resets q to position 0. */
void seq_reset(struct seq *q);
/* Truncates q to its first `pos` tokens. ERR_USAGE, with q unchanged, if they are no longer
 * available: a recurrent state cannot go back, and a window may have dropped them. */
int seq_trim(struct seq *q, int64_t pos, struct err *e);

#endif
