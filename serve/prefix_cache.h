// SPDX-License-Identifier: MIT
/* serve/prefix_cache.h - prefix cache: a tree of token runs whose nodes may hold sequences (keys,
 * values, recurrent states) that earlier requests computed.
 *
 * If sequences can be trimmed (session_info.can_trim), a prompt can resume after any token of a
 * cached sequence. Otherwise it can resume only at the end of one, so snapshots are taken where
 * conversations diverge.
 *
 * When a client sends an answer back as text, tokenizing it may not give the tokens that were
 * drawn. Lookup then compares bytes, and cached tokens with the same bytes replace the prompt's. */
#ifndef HONE_SERVE_PREFIX_CACHE_H
#define HONE_SERVE_PREFIX_CACHE_H

#include "runtime/engine/session.h"
#include "tok/tok.h"

struct prefix_cache;
/* Creates an empty cache; free it with prefix_cache_free(). s and t are borrowed. A lookup finds
 * only entries stored under the same key. t NULL: compare tokens only, not bytes. */
struct prefix_cache *prefix_cache_new(struct session *s, const struct tok *t);
void prefix_cache_free(struct prefix_cache *p);

/* The cached part of a prompt, in prompt tokens. */
struct prefix_cache_match {
    int64_t n; /* cached tokens at the start of the prompt; always fewer than the prompt has */
    int64_t
        seen; /* length of the longest prefix found in the tree, even without a sequence; >= n */
};
/* Returns how many of the prompt's n tokens are cached, without using the cache. */
struct prefix_cache_match prefix_cache_match(const struct prefix_cache *p, const int32_t *ids,
                                             int64_t n, uint64_t key);
enum prefix_cache_how { PREFIX_IDS, PREFIX_BYTES };
/* Creates a sequence that contains the first m->n tokens of a prompt. With PREFIX_BYTES these may
 * be replaced by different tokens with the same bytes; then *all is changed to begin with those,
 * and has at most n_max tokens. *out is NULL if m->n is 0. ERR_SYS: out of memory. */
int prefix_cache_take(struct prefix_cache *p, struct ids *all, uint64_t key,
                      enum prefix_cache_how how, int64_t n_max, struct seq **out,
                      struct prefix_cache_match *m, struct err *e);

/* Why a sequence is kept. */
enum prefix_cache_use {
    PREFIX_END,   /* end of an answer: the next turn of a tool loop continues there */
    PREFIX_TURN,  /* end of the messages; the template's text after it may change */
    PREFIX_HEAD,  /* end of the tools and system message, or a cache_control mark of the client */
    PREFIX_SPLIT, /* where two requests diverge */
    PREFIX_EVERY  /* every few thousand tokens of a long prompt */
};
/* Stores a sequence that contains ids[0..n) and takes ownership of it. */
void prefix_cache_keep(struct prefix_cache *p, const int32_t *ids, int64_t n, uint64_t key,
                       enum prefix_cache_use use, struct seq *q);
/* An entry, as passed to fn. prefix_cache_show() calls fn for each entry, from the root down, until
 * fn returns false; fn must not change the cache. */
struct prefix_cache_kept {
    const int32_t *ids; /* [n], valid until fn returns */
    int64_t n;
    uint64_t key;
    enum prefix_cache_use use;
    const struct seq *q;
};
typedef bool (*prefix_cache_show_fn)(void *ud, const struct prefix_cache_kept *k);
/* Calls fn for every kept state until it returns false. */
void prefix_cache_show(const struct prefix_cache *p, prefix_cache_show_fn fn, void *ud);
/* Removes the least valuable entry. Returns false if the cache is empty. */
bool prefix_cache_drop(struct prefix_cache *p);

struct prefix_cache_counts {
    int64_t n_kept, n_tokens, n_dropped;
};
struct prefix_cache_counts prefix_cache_counts(const struct prefix_cache *p);

#endif
