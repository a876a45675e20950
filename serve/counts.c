// SPDX-License-Identifier: MIT
/* serve/counts.c - addition of scheduler counts (struct sched_counts). */
#include <stddef.h>
#include <string.h>

#include "base/attr.h"
#include "serve/sched.h"

#define AT(member) offsetof(struct sched_counts, member)
static const size_t counts[] = {
    AT(n_running),       AT(n_waiting),       AT(n_prompt),
    AT(n_cached),        AT(n_fed),           AT(n_out),
    AT(n_think),         AT(n_steps),         AT(n_rows),
    AT(n_preempted),     AT(n_cancelled),     AT(n_held),
    AT(n_overruled),     AT(n_jumped),        AT(n_guessed),
    AT(n_right),         AT(held_bytes),      AT(budget_bytes),
    AT(prefix.n_kept),   AT(prefix.n_tokens), AT(prefix.n_dropped),
    AT(shelf.n),         AT(shelf.n_loaded),  AT(shelf.n_saved),
    AT(shelf.n_refused), AT(shelf.n_dropped), AT(shelf.n_bytes),
};
#undef AT

void sched_counts_add(struct sched_counts *to, const struct sched_counts *n) {
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        uint64_t a, b;
        memcpy(&a, (const char *)to + counts[i], sizeof a);
        memcpy(&b, (const char *)n + counts[i], sizeof b);
        a += b;
        memcpy((char *)to + counts[i], &a, sizeof a);
    }
    for (int i = 0; i < TOOL_PLACES; i++) to->n_overruled_at[i] += n->n_overruled_at[i];
    to->busy_s += n->busy_s;
    histogram_join(&to->interval, &n->interval);
    histogram_join(&to->step, &n->step);
    histogram_join(&to->mask, &n->mask);
}
