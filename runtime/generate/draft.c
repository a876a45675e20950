// SPDX-License-Identifier: MIT
/* runtime/generate/draft.c - speculative decoding (draft.h).
 *
 * The draft reads pairs (row of the trunk at position t, token t + 1); `in` and `next` buffer the
 * pairs not yet fed. A series is a pass of the trunk over [pending tokens,] the given token and the
 * drafted ones. While the next tokens equal the drafted ones, their logits are already available.
 * At the first other token the trunk returns to the last one that was right. If it cannot, because
 * of recurrent states, it returns to the mark before the pass, and the accepted tokens stay pending
 * until the next pass. With MAX_LEFT pending tokens or more, a pass without drafts runs them all.
 */
#include "runtime/generate/draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/generate/drafter.h"

enum { PIECE = 512, MAX_LEFT = 2, LEFT_ROOM = MAX_LEFT + DRAFTER_STEPS };

struct draft {
    struct session *trunk;
    struct drafter *by;
    int64_t d, n_vocab;
    /* [PIECE + 1][n_in] rows not yet fed to the draft; the last one has no token yet. */
    float *in;
    struct session_row *next; /* [PIECE] tokens that follow these rows */
    int64_t n_pairs;
    bool begun; /* in[n_pairs] is valid */
    /* Accepted tokens after the mark, which the trunk must run again after a rewind. */
    int32_t left[LEFT_ROOM];
    int n_left;
    /* The series: drafted tokens that the trunk has run, and how many of them were right so far.
     * n_guesses 0: none. */
    int32_t guess[DRAFTER_STEPS];
    int n_guesses, n_right;
    float *ahead_row;    /* [DRAFTER_STEPS][n_row] the trunk's rows at these tokens */
    float *ahead_logits; /* [DRAFTER_STEPS + 1][n_vocab] after the given token and after these */
    float *draft_logits, *own, *own_in; /* of the draft: logits, output, input made of it */
    struct draft_stats stats;
};

/* Allocates n rows of `width` floats, freed with mem_free(); what: their name in errors. */
static int alloc_rows(float **out, int64_t n, int64_t width, const char *what, struct err *e) {
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)n * (uint64_t)width * sizeof **out, what, e));
    *out = p;
    return 0;
}

/* Allocates the buffers of a draft. */
static int alloc_draft(struct draft *d, struct err *e) {
    const struct drafter *by = d->by;
    const char *rows = "hidden rows of the draft", *logits = "logits of the draft";
    d->next = xcalloc(PIECE, sizeof *d->next);
    TRY(alloc_rows(&d->in, PIECE + 1, by->n_in, rows, e));
    TRY(alloc_rows(&d->ahead_row, DRAFTER_STEPS, by->n_row, rows, e));
    TRY(alloc_rows(&d->own, 1, by->n_own, rows, e));
    TRY(alloc_rows(&d->own_in, 1, by->n_in, rows, e));
    TRY(alloc_rows(&d->ahead_logits, DRAFTER_STEPS + 1, d->n_vocab, logits, e));
    return alloc_rows(&d->draft_logits, 1, by->n_logits, logits, e);
}

int draft_new(struct draft **out, struct session *trunk, const char *how, struct err *e) {
    struct draft *d = xcalloc(1, sizeof *d);
    const struct model *m = session_model(trunk);
    int rc;
    d->trunk = trunk;
    d->d = m->hp.d[HD_EMBD];
    d->n_vocab = m->hp.d[HD_VOCAB];
    TRY_GOTO(fail, rc, drafter_open(&d->by, trunk, how, e));
    TRY_GOTO(fail, rc, alloc_draft(d, e));
    *out = d;
    return 0;
fail:
    draft_free(d);
    return rc;
}

void draft_free(struct draft *d) {
    if (!d) return;
    drafter_close(d->by);
    mem_free(d->in);
    mem_free(d->ahead_row);
    mem_free(d->ahead_logits);
    mem_free(d->draft_logits);
    mem_free(d->own);
    mem_free(d->own_in);
    free(d->next);
    free(d);
}

void draft_reset(struct draft *d) {
    session_reset(d->trunk);
    session_reset(d->by->s);
    d->n_pairs = d->n_left = d->n_guesses = 0;
    d->begun = false;
}

struct draft_stats draft_get_stats(const struct draft *d) {
    return d->stats;
}

/* ---- the draft ---- */

/* Feeds all buffered pairs to the draft. If `last` is set, computes the logits of the last pair
 * and, to draft further, the draft's own output. */
static int catch_up(struct draft *d, bool last, struct err *e) {
    const int64_t n = d->n_pairs, w = d->by->n_in;
    const bool further = last && d->by->steps > 1;
    struct session_pass p = {.row = d->next, .n = n, .hidden_in = d->in};
    if (!n) return 0;
    if (last) p.logits = d->draft_logits;
    if (last) d->next[n - 1].want = WANT_LOGITS | (further ? WANT_HIDDEN : 0U);
    TRY(drafter_pass(d->by, &p, further ? d->own : NULL, e));
    memmove(d->in, d->in + n * w, (size_t)w * sizeof *d->in);
    d->n_pairs = 0;
    return 0;
}

/* Completes the pair of the last row with the token that follows it. */
static int complete_pair(struct draft *d, int32_t id, struct err *e) {
    if (!d->begun) return 0; /* the very first token has no row before it */
    if (d->n_pairs == PIECE) TRY(catch_up(d, false, e));
    d->next[d->n_pairs++] = (struct session_row){.id = id};
    return 0;
}
/* Keeps a row of the trunk; the token that follows completes the pair. */
static void add_row(struct draft *d, const float *row) {
    drafter_put(d->by, d->in + d->n_pairs * d->by->n_in, row);
    d->begun = true;
}

/* Drafts up to `most` tokens, the first from the buffered pairs, and sets n_guesses. */
static int make_guesses(struct draft *d, int most, struct err *e) {
    struct err ignored;
    TRY(catch_up(d, true, e));
    struct seq *q = session_own_seq(d->by->s);
    const int64_t to = seq_pos(q);
    if (!session_info(d->by->s).can_trim) most = 1;
    d->guess[0] = drafter_best(d->by, d->draft_logits);
    for (int i = 1; i < most; i++) {
        drafter_put_own(d->by, d->own_in, d->own);
        struct session_pass p = {
            .ids = &d->guess[i - 1], .n = 1, .hidden_in = d->own_in, .logits = d->draft_logits};
        TRY(drafter_pass(d->by, &p, d->own, e));
        d->guess[i] = drafter_best(d->by, d->draft_logits);
    }
    (void)seq_trim(q, to, &ignored); /* cannot fail: can_trim */
    d->n_guesses = most;
    d->n_right = 0;
    return 0;
}

/* ---- the trunk ---- */

/* Runs the trunk over n tokens: `hidden` receives inputs of the head, `rows` the rows that the
 * draft reads, which may be the same. */
static int run_tokens(struct draft *d, const int32_t *ids, int64_t n, float *hidden, float *rows,
                      struct err *e) {
    struct session_pass p = {.ids = ids, .n = n};
    drafter_wants(d->by, &p, d->by->taps ? rows : hidden, hidden);
    return session_pass(d->trunk, &p, e);
}

/* Allocates rows for n tokens of run_tokens; free both with mem_free(*hidden). */
static int alloc_pass(const struct draft *d, int64_t n, float **hidden, float **rows,
                      struct err *e) {
    const int64_t more = d->by->taps ? d->by->n_row : 0;
    TRY(alloc_rows(hidden, n, d->d + more, "hidden rows of a text", e));
    *rows = d->by->taps ? *hidden + n * d->d : *hidden;
    return 0;
}

/* Returns whether the trunk can go back to any position; otherwise only to the mark. */
static bool can_trim(const struct draft *d) {
    return session_info(d->trunk).can_trim;
}

/* Runs the trunk over the pending tokens, id, and the drafted tokens; `logits` receives the logits
 * after id. */
static int run_trunk(struct draft *d, int32_t id, float *logits, struct err *e) {
    int32_t ids[LEFT_ROOM + 1 + DRAFTER_STEPS];
    float *h, *rows;
    int n = d->n_left;
    const int n_heads = d->n_guesses + 1;
    if (!n && d->n_guesses && !can_trim(d)) TRY(session_mark(d->trunk, e));
    memcpy(ids, d->left, (size_t)n * sizeof *ids);
    ids[n++] = id;
    for (int i = 0; i < d->n_guesses; i++) ids[n++] = d->guess[i];
    TRY(alloc_pass(d, n, &h, &rows, e));
    int rc = run_tokens(d, ids, n, h, rows, e);
    const int64_t last = n - n_heads;
    if (!rc) rc = session_head(d->trunk, h + last * d->d, n_heads, d->ahead_logits, e);
    if (!rc) {
        const float *row = rows + last * d->by->n_row;
        memcpy(logits, d->ahead_logits, (size_t)d->n_vocab * sizeof *logits);
        add_row(d, row);
        memcpy(d->ahead_row, row + d->by->n_row,
               (size_t)(d->n_guesses * d->by->n_row) * sizeof *row);
        if (d->n_guesses && !can_trim(d))
            d->left[d->n_left++] = id;
        else
            d->n_left = 0;
    } else
        d->n_guesses = 0;
    mem_free(h);
    return rc;
}

/* Ends the series at a drafted token that was wrong: the trunk keeps those that were right. */
static void end_series(struct draft *d) {
    struct err ignored;
    struct seq *q = session_own_seq(d->trunk);
    if (can_trim(d))
        (void)seq_trim(q, seq_pos(q) - (d->n_guesses - d->n_right), &ignored); /* cannot fail */
    else {
        session_rewind(d->trunk);
        for (int i = 0; i < d->n_right; i++) d->left[d->n_left++] = d->guess[i];
    }
    d->n_guesses = 0;
}

/* Compares the next token with the series. If it was drafted, keeps its row, sets `logits` to those
 * after it, and returns true. Otherwise ends the series. */
static bool is_next(struct draft *d, int32_t id, float *logits) {
    if (!d->n_guesses) return false;
    if (!d->n_right) d->stats.n_drafted += d->n_guesses;
    if (id != d->guess[d->n_right]) {
        end_series(d);
        return false;
    }
    d->stats.n_accepted++;
    d->n_right++;
    memcpy(logits, d->ahead_logits + d->n_right * d->n_vocab, (size_t)d->n_vocab * sizeof *logits);
    return true;
}

/* Takes the first of n tokens that are the series' next ones; sets *done to their number. */
static int take_drafted(struct draft *d, const int32_t *ids, int64_t n, float *logits,
                        int64_t *done, struct err *e) {
    *done = 0;
    while (*done < n && is_next(d, ids[*done], logits)) {
        TRY(complete_pair(d, ids[(*done)++], e));
        add_row(d, d->ahead_row + (d->n_right - 1) * d->by->n_row);
        if (d->n_right < d->n_guesses) continue;
        d->n_guesses = d->n_left = 0; /* all were right */
    }
    return 0;
}

/* Feeds one token that was not drafted. */
static int feed_one(struct draft *d, int32_t id, float *logits, struct err *e) {
    TRY(complete_pair(d, id, e));
    const int64_t room = session_get_opts(d->trunk)->n_ctx - session_pos(d->trunk) - d->n_left;
    const int most = (int)min_i64(d->by->steps, room - 1);
    if (d->begun && d->n_left < MAX_LEFT && most > 0) TRY(make_guesses(d, most, e));
    return run_trunk(d, id, logits, e);
}

/* Runs many tokens without drafting. */
static int feed_many(struct draft *d, const int32_t *ids, int64_t n, float *logits, struct err *e) {
    float *h, *rows;
    int rc = 0;
    TRY(alloc_pass(d, min_i64(PIECE, n), &h, &rows, e));
    for (int64_t i = 0, k; i < n && !rc; i += k) {
        k = min_i64(PIECE, n - i);
        rc = run_tokens(d, ids + i, k, h, rows, e);
        for (int64_t t = 0; t < k && !rc; t++) {
            rc = complete_pair(d, ids[i + t], e);
            if (!rc) add_row(d, rows + t * d->by->n_row);
        }
        if (!rc && i + k == n) rc = session_head(d->trunk, h + (k - 1) * d->d, 1, logits, e);
    }
    mem_free(h);
    return rc;
}

int draft_feed(struct draft *d, const int32_t *ids, int64_t n, float *logits, struct err *e) {
    int64_t done;
    if (n < 1) return err_set(e, ERR_USAGE, "no tokens given");
    TRY(take_drafted(d, ids, n, logits, &done, e));
    ids += done;
    n -= done;
    if (!n) return 0;
    if (n == 1 && !done) return feed_one(d, ids[0], logits, e);
    if (d->n_left) { /* pending tokens go first */
        TRY(complete_pair(d, ids[0], e));
        TRY(run_trunk(d, ids[0], logits, e));
        ids++;
        n--;
    }
    return n ? feed_many(d, ids, n, logits, e) : 0;
}
