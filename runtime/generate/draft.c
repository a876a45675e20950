// SPDX-License-Identifier: MIT
/* runtime/generate/draft.c - speculative decoding of one token with the MTP block (draft.h).
 *
 * The block reads pairs (hidden row of position t, token t + 1); `hidden` and `next` buffer the
 * pairs not yet fed. A pass of the trunk runs [pending tokens,] the given token and the draft
 * token. If the next token equals the draft token, its logits are already available. Otherwise the
 * trunk returns to the mark before the pass, since recurrent states cannot drop a token, and the
 * accepted tokens stay pending until the next pass. After MAX_LEFT pending tokens, a pass without a
 * draft token runs them all and ends the series. */
#include "runtime/generate/draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/logits.h"

enum { PIECE = 512, MAX_LEFT = 2 };

struct draft {
    struct session *trunk, *s;
    struct model *m;
    int64_t d, n_vocab;
    /* [PIECE + 1][d] rows not yet fed to the block; the last one has no token yet. */
    float *hidden;
    int32_t *next; /* [PIECE] tokens that follow these rows */
    int64_t n_pairs;
    bool begun; /* hidden[n_pairs] is valid */
    /* Accepted tokens after the mark, which the trunk must run again after a rewind. */
    int32_t left[MAX_LEFT + 1];
    int n_left;
    /* The trunk has also run `guess`; ahead_hidden and ahead_logits are its row and logits. */
    bool ahead;
    int32_t guess;
    float *ahead_hidden, *ahead_logits, *draft_logits;
    struct draft_stats stats;
};

int draft_session(struct session *trunk, struct model **m, struct session **s, struct err *e) {
    struct session_opts o = *session_get_opts(trunk);
    *m = NULL;
    *s = NULL;
    TRY(model_open_draft(m, session_model(trunk), e));
    int rc = session_new(s, *m, &o, e);
    if (rc) {
        model_close(*m);
        *m = NULL;
    }
    return rc;
}

/* Allocates n rows of `width` floats, freed with mem_free(); what: their name in errors. */
static int alloc_rows(float **out, int64_t n, int64_t width, const char *what, struct err *e) {
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)n * (uint64_t)width * sizeof **out, what, e));
    *out = p;
    return 0;
}

int draft_new(struct draft **out, struct session *trunk, struct err *e) {
    struct draft *d = xcalloc(1, sizeof *d);
    const struct model *m = session_model(trunk);
    int rc;
    d->trunk = trunk;
    d->d = m->hp.d[HD_EMBD];
    d->n_vocab = m->hp.d[HD_VOCAB];
    d->next = xcalloc(PIECE, sizeof *d->next);
    TRY_GOTO(fail, rc, draft_session(trunk, &d->m, &d->s, e));
    TRY_GOTO(fail, rc, alloc_rows(&d->hidden, PIECE + 1, d->d, "hidden rows of the draft", e));
    TRY_GOTO(fail, rc, alloc_rows(&d->ahead_hidden, 1, d->d, "hidden rows of the draft", e));
    TRY_GOTO(fail, rc, alloc_rows(&d->ahead_logits, 2, d->n_vocab, "logits of the draft", e));
    TRY_GOTO(fail, rc, alloc_rows(&d->draft_logits, 1, d->n_vocab, "logits of the draft", e));
    *out = d;
    return 0;
fail:
    draft_free(d);
    return rc;
}

void draft_free(struct draft *d) {
    if (!d) return;
    session_free(d->s);
    model_close(d->m);
    mem_free(d->hidden);
    mem_free(d->ahead_hidden);
    mem_free(d->ahead_logits);
    mem_free(d->draft_logits);
    free(d->next);
    free(d);
}

void draft_reset(struct draft *d) {
    session_reset(d->trunk);
    session_reset(d->s);
    d->n_pairs = d->n_left = 0;
    d->begun = d->ahead = false;
}

struct draft_stats draft_get_stats(const struct draft *d) {
    return d->stats;
}

/* Feeds all buffered pairs of hidden row and token to the block. `logits`, if not NULL, receives
 * the logits of the last pair. */
static int catch_up(struct draft *d, float *logits, struct err *e) {
    if (!d->n_pairs) return 0;
    const struct session_pass p = {
        .ids = d->next, .n = d->n_pairs, .hidden_in = d->hidden, .logits = logits};
    TRY(session_pass(d->s, &p, e));
    memmove(d->hidden, d->hidden + d->n_pairs * d->d, (size_t)d->d * sizeof *d->hidden);
    d->n_pairs = 0;
    return 0;
}

/* Completes the pair of the last hidden row with the token that follows it. */
static int complete_pair(struct draft *d, int32_t id, struct err *e) {
    if (!d->begun) return 0; /* the very first token has no row before it */
    if (d->n_pairs == PIECE) TRY(catch_up(d, NULL, e));
    d->next[d->n_pairs++] = id;
    return 0;
}
/* Keeps a hidden state of the trunk; the token that follows completes the pair. */
static void add_hidden(struct draft *d, const float *hidden) {
    memcpy(d->hidden + d->n_pairs * d->d, hidden, (size_t)d->d * sizeof *hidden);
    d->begun = true;
}

/* Runs the trunk over the pending tokens, id, and the draft token if there is one; `logits`
 * receives the logits after id. */
static int run_trunk(struct draft *d, int32_t id, bool guessing, float *logits, struct err *e) {
    int32_t ids[MAX_LEFT + 2];
    int n = d->n_left;
    void *mem = NULL;
    if (!n && guessing) TRY(session_mark(d->trunk, e));
    memcpy(ids, d->left, (size_t)n * sizeof *ids);
    ids[n++] = id;
    if (guessing) ids[n++] = d->guess;
    TRY(mem_alloc(&mem, (uint64_t)(n * d->d) * sizeof(float), "hidden rows of the draft", e));
    float *h = mem;
    int rc = session_forward(d->trunk, ids, n, h, e);
    int n_heads = guessing ? 2 : 1;
    const float *last = h + (n - n_heads) * d->d;
    if (!rc) rc = session_head(d->trunk, last, n_heads, d->ahead_logits, e);
    if (!rc) {
        memcpy(logits, d->ahead_logits, (size_t)d->n_vocab * sizeof *logits);
        add_hidden(d, last);
        if (guessing) memcpy(d->ahead_hidden, last + d->d, (size_t)d->d * sizeof *last);
        if (guessing)
            d->left[d->n_left++] = id;
        else
            d->n_left = 0;
        d->ahead = guessing;
    }
    mem_free(h);
    return rc;
}

/* Returns whether the draft token was correct: its row has then been computed. Otherwise rewinds
 * the trunk to the mark. */
static bool check_draft(struct draft *d, int32_t id, float *logits) {
    if (!d->ahead) return false;
    d->ahead = false;
    d->stats.n_drafted++;
    if (id != d->guess) {
        session_rewind(d->trunk);
        return false;
    }
    d->stats.n_accepted++;
    d->n_left = 0;
    memcpy(logits, d->ahead_logits + d->n_vocab, (size_t)d->n_vocab * sizeof *logits);
    return true;
}

/* Feeds one token. If it was guessed correctly, uses the result computed with the guess. */
static int feed_one(struct draft *d, int32_t id, float *logits, struct err *e) {
    bool right = check_draft(d, id, logits);
    TRY(complete_pair(d, id, e));
    if (right) {
        add_hidden(d, d->ahead_hidden);
        return 0;
    }
    int64_t room = session_get_opts(d->trunk)->n_ctx - session_pos(d->trunk) - d->n_left;
    bool guessing = d->begun && d->n_left < MAX_LEFT && room >= 2;
    if (guessing) {
        TRY(catch_up(d, d->draft_logits, e));
        d->guess = (int32_t)logits_argmax(d->draft_logits, d->n_vocab);
    }
    return run_trunk(d, id, guessing, logits, e);
}

/* Runs many tokens without drafting. */
static int feed_many(struct draft *d, const int32_t *ids, int64_t n, float *logits, struct err *e) {
    void *mem = NULL;
    TRY(mem_alloc(&mem, (uint64_t)(PIECE * d->d) * sizeof(float), "hidden rows of a prompt", e));
    float *h = mem;
    int rc = 0;
    for (int64_t i = 0, k; i < n && !rc; i += k) {
        k = min_i64(PIECE, n - i);
        rc = session_forward(d->trunk, ids + i, k, h, e);
        for (int64_t t = 0; t < k && !rc; t++) {
            rc = complete_pair(d, ids[i + t], e);
            if (!rc) add_hidden(d, h + t * d->d);
        }
        if (!rc && i + k == n) rc = session_head(d->trunk, h + (k - 1) * d->d, 1, logits, e);
    }
    mem_free(h);
    return rc;
}

int draft_feed(struct draft *d, const int32_t *ids, int64_t n, float *logits, struct err *e) {
    int64_t done = 0;
    if (n < 1) return err_set(e, ERR_USAGE, "no tokens given");
    if (n == 1) return feed_one(d, ids[0], logits, e);
    bool right = check_draft(d, ids[0], logits);
    if (right || d->n_left) { /* pending tokens go first */
        TRY(complete_pair(d, ids[done++], e));
        if (right)
            add_hidden(d, d->ahead_hidden);
        else
            TRY(run_trunk(d, ids[0], false, logits, e));
    }
    return feed_many(d, ids + done, n - done, logits, e);
}
