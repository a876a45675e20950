// SPDX-License-Identifier: MIT
/* serve/prefix_cache.h - what was computed for earlier requests, for later ones that begin alike: a
 * tree over tokens, with sequences (keys, values, recurrent states) where something was kept.
 *
 * Models whose sequences can go back (session_info.can_trim) resume anywhere in what was kept;
 * others only where a sequence ends, so snapshots are kept where conversations part.
 *
 * The text of an answer, given back by a client and tokenized, need not give the tokens that were
 * drawn. Bytes decide then: kept tokens with the bytes of the prompt's stand for them. */
#ifndef HONE_SERVE_PREFIX_CACHE_H
#define HONE_SERVE_PREFIX_CACHE_H

#include "runtime/engine/session.h"
#include "tok/tok.h"

struct prefix_cache;
/* Makes an empty tree, which prefix_cache_free frees; s and t are borrowed. Nothing of one key is
 * found by another. t NULL means that tokens are compared, not bytes. */
struct prefix_cache *prefix_cache_new(struct session *s, const struct tok *t);
void prefix_cache_free(struct prefix_cache *p);

/* How far a prompt is known, in tokens of the prompt. */
struct prefix_cache_match {
    int64_t n;    /* computed already; less than all */
    int64_t seen; /* begins like something that was computed: n or more */
};
struct prefix_cache_match prefix_cache_match(const struct prefix_cache *p, const int32_t *ids,
                                             int64_t n, uint64_t key);
enum prefix_cache_how { PREFIX_IDS, PREFIX_BYTES };
/* Makes a sequence that has seen the first m->n tokens of a prompt. With PREFIX_BYTES it may have
 * seen other tokens with the same bytes, with which *all begins then; it does not become longer
 * than n_max. Returns ERR_SYS when there is no memory. *out is NULL when m->n is 0. */
int prefix_cache_take(struct prefix_cache *p, struct ids *all, uint64_t key,
                      enum prefix_cache_how how, int64_t n_max, struct seq **out,
                      struct prefix_cache_match *m, struct err *e);

/* What a kept sequence is good for. */
enum prefix_cache_use {
    PREFIX_END,   /* of an answer: the next turn of a tool loop goes on there */
    PREFIX_TURN,  /* of the messages: templates change what follows */
    PREFIX_HEAD,  /* of the system message and the tools: every conversation begins so; and where a
                     client says that it comes back */
    PREFIX_SPLIT, /* where two requests part */
    PREFIX_EVERY  /* each few thousand tokens of a long prompt */
};
/* Keeps a sequence that has seen ids[0..n), which is taken over. */
void prefix_cache_keep(struct prefix_cache *p, const int32_t *ids, int64_t n, uint64_t key,
                       enum prefix_cache_use use, struct seq *q);
/* Shows what is kept, from the root down, until fn returns false. fn must not change it. */
struct prefix_cache_kept {
    const int32_t *ids; /* [n], until fn returns */
    int64_t n;
    uint64_t key;
    enum prefix_cache_use use;
    const struct seq *q;
};
typedef bool (*prefix_cache_show_fn)(void *ud, const struct prefix_cache_kept *k);
void prefix_cache_show(const struct prefix_cache *p, prefix_cache_show_fn fn, void *ud);
/* Drops what is worth least. Returns false when there is nothing. */
bool prefix_cache_drop(struct prefix_cache *p);

struct prefix_cache_counts {
    int64_t n_kept, n_tokens, n_dropped;
};
struct prefix_cache_counts prefix_cache_counts(const struct prefix_cache *p);

#endif
