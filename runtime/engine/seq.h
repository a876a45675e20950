// SPDX-License-Identifier: MIT
/* runtime/engine/seq.h - sequences: what a model has seen of one text, for those who feed several
 * at a time (session_pass). A sequence belongs to the session that made it, and to one thread at a
 * time with it. Free all before the session. */
#ifndef HONE_RUNTIME_ENGINE_SEQ_H
#define HONE_RUNTIME_ENGINE_SEQ_H

#include <stdint.h>

#include "base/err.h"

struct seq;

void seq_free(struct seq *q);
/* Returns the number of tokens that it has seen. */
int64_t seq_pos(const struct seq *q);
/* Makes a second sequence with the same past. Keys and values are shared, recurrent states are
 * copied. ERR_SYS: no memory. A fork that is never fed is a snapshot. */
int seq_fork(struct seq **out, const struct seq *from, struct err *e);
/* Gives q the past of `from`, of the same session. Needs no memory. */
void seq_restore(struct seq *q, const struct seq *from);
/* Does the same without a copy: `from` has no past any more, as after seq_empty. */
void seq_take(struct seq *q, struct seq *from);
/* Gives back what q holds of keys and values. It has no past then, not even an empty one, until it
 * is given one: by seq_restore, seq_take, session_pass or seq_reset. */
void seq_empty(struct seq *q);
/* Goes back to position 0. */
void seq_reset(struct seq *q);
/* Goes back to the first `pos` tokens. ERR_USAGE when these are no longer known: a recurrent state
 * cannot go back, and a window may have left them behind. Nothing has changed then. */
int seq_trim(struct seq *q, int64_t pos, struct err *e);

#endif
