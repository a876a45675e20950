// SPDX-License-Identifier: MIT
/* serve/prefix.h - what was computed for earlier requests, for later ones that begin alike: token
 * sequences with their keys, values and recurrent states.
 *
 * Models whose sequences can go back (session_can_trim) resume anywhere in a kept sequence; others
 * only at its end, so snapshots are kept where conversations part. */
#ifndef HONE_SERVE_PREFIX_H
#define HONE_SERVE_PREFIX_H

#include "runtime/engine/session.h"

struct prefix;
/* s: borrowed. Nothing of one key is found by another. */
struct prefix *prefix_new(struct session *s);
void prefix_free(struct prefix *p);

/* How far a prompt of n tokens is computed already; less than n. */
int64_t prefix_match(const struct prefix *p, const int32_t *ids, int64_t n, uint64_t key);
/* Makes a sequence that has seen so many tokens as prefix_match says, NULL when that is none.
 * ERR_SYS: no memory. */
int prefix_take(struct prefix *p, const int32_t *ids, int64_t n, uint64_t key, struct seq **out,
                struct err *e);

/* What a kept sequence is good for. */
enum prefix_use {
    PREFIX_END,   /* of an answer: the next turn of a tool loop goes on there */
    PREFIX_TURN,  /* of the messages: templates change what follows */
    PREFIX_HEAD,  /* of the system message and the tools: every conversation begins so */
    PREFIX_SPLIT, /* where two requests part */
    PREFIX_EVERY  /* each few thousand tokens of a long prompt */
};
/* Keeps a sequence that has seen ids[0..n), which is taken over. */
void prefix_keep(struct prefix *p, const int32_t *ids, int64_t n, uint64_t key, enum prefix_use use,
                 struct seq *q);
/* Drops what is worth least. False: there is nothing. */
bool prefix_drop(struct prefix *p);

struct prefix_counts {
    int64_t n_kept, n_tokens, n_dropped;
};
struct prefix_counts prefix_counts(const struct prefix *p);

#endif
