// SPDX-License-Identifier: MIT
/* serve/sched_draft.c - speculative decoding: draft tokens are verified in the pass that computes
 * the token before them.
 *
 * The rows of a run are [last token, draft tokens]. The next token is drawn as usual from the
 * logits of the last token; while it equals the draft token, the following one is drawn from that
 * row's logits. So each token comes from the same logits as without drafts, bit for bit. At the
 * first mismatch the run rolls back to a checkpoint; the pass keeps one after each row but the last
 * (session_pass.fork).
 *
 * The draft length is chosen to maximize tokens per second, given the measured times of passes by
 * number of rows and the run's acceptance rate. It does not affect answers. */
#include <string.h>

#include "base/num.h"
#include "serve/ngram_draft.h"
#include "serve/sched_int.h"

enum { AGAIN = 512 /* passes after which pass times are measured again */ };
#define RIGHT_STEP 0.1 /* weight of one draft token in the mean acceptance rate */
/* Fraction by which the acceptance rate returns toward RIGHT_FIRST in each pass without a draft. */
#define RIGHT_BACK 0.01

bool sched_can_draft(const struct session *s) {
    const struct session_info at = session_info(s);
    return at.can_trim || strcmp(at.device, "cpu") == 0;
}

/* ---- checkpoints ---- */

bool sched_is_tap(const struct sched *s, const struct seq *q) {
    for (int i = 0; i < s->n_taps; i++)
        if (s->tap[i] == q) return true;
    return false;
}

bool sched_drop_taps(struct sched *s) {
    if (s->taps_used || !s->n_taps) return false;
    while (s->n_taps) seq_free(s->tap[--s->n_taps]);
    return true;
}

/* Returns an unused checkpoint, or NULL if there is no room. */
static struct seq *take_tap(struct sched *s) {
    struct err ignored;
    if (s->taps_used == s->n_taps) {
        struct seq *q = NULL;
        if (s->n_taps == (int)COUNT_OF(s->tap)) return NULL;
        if (!sched_room(s, session_seq_bytes(s->s, 1))) return NULL;
        if (session_new_fork(s->s, &q, &ignored)) return NULL;
        s->tap[s->n_taps++] = q;
    }
    return s->tap[s->taps_used++];
}

/* ---- draft length ---- */

void sched_measure_rows(struct sched *s, int64_t n_rows, double t) {
    double *was = n_rows < (int64_t)COUNT_OF(s->rows_s) ? &s->rows_s[n_rows] : NULL;
    if (s->n.n_steps % AGAIN == 0) memset(s->rows_s, 0, sizeof s->rows_s);
    if (was) *was = *was > 0 ? 0.9 * *was + 0.1 * t : t;
}

double sched_seconds(const struct sched *s, int64_t n) {
    n = min_i64(n, (int64_t)COUNT_OF(s->rows_s) - 1);
    while (n > 1 && !(s->rows_s[n] > 0)) n--;
    return s->rows_s[n] > 0 ? s->rows_s[n] : 1;
}

/* Returns how many of r's n draft tokens are worth adding to a pass that has `rows` rows without
 * them. n_others: tokens that other answers get from the pass. */
static int worth_it(const struct sched *s, const struct run *r, int n, int64_t rows, int n_others) {
    double tokens = n_others + 1, chance = 1, best_rate = tokens / sched_seconds(s, rows);
    int best = 0;
    for (int k = 1; k <= n; k++) {
        chance *= r->draft.right[r->draft.by];
        tokens += chance;
        const double rate = tokens / sched_seconds(s, rows + k);
        if (rate > best_rate) {
            best = k;
            best_rate = rate;
        }
    }
    return best;
}

void sched_doubt(struct run *r, enum guess_by by) {
    r->draft.right[by] += RIGHT_BACK * (RIGHT_FIRST - r->draft.right[by]);
}

/* Guesses the next tokens from earlier text; returns their number, at most `most`. */
static int guess_lookup(const struct sched *s, const struct run *r, int32_t *out, int most) {
    return s->o.guess ? s->o.guess(s->o.guess_ud, r, out, most)
                      : ngram_draft_guess(r->all.v, r->all.n, out, most);
}

/* Drafting methods in order of preference; the first that returns a draft is used. Each writes up
 * to `most` tokens that may follow r's tokens to out, and returns their number. */
static int (*const source[GUESSES])(const struct sched *s, const struct run *r, int32_t *out,
                                    int most) = {
    [GUESS_LOOKUP] = guess_lookup, [GUESS_MTP] = sched_guess_mtp};

/* Drafts up to `most` tokens to follow r's, records the method used, and returns their number. */
static int draft_tokens(const struct sched *s, struct run *r, int most) {
    int n = 0;
    for (int by = 0; by < GUESSES && !n; by++) {
        r->draft.by = (enum guess_by)by;
        n = source[by](s, r, r->draft.guess, most);
    }
    return n;
}

int sched_guess(struct sched *s, struct run *r, int64_t n_rows, int n_others, int64_t n_free) {
    const struct ask *a = &r->task->ask;
    const int64_t n_out = r->task->reply.choice[r->choice].n_out;
    int64_t most = min_i64(RUN_GUESSES, min_i64(r->n_promised, s->n_ctx) - r->all.n);
    if (a->n_max > 0) most = min_i64(most, a->n_max - n_out - 1);
    most = min_i64(most, n_free);
    r->draft.n = 0;
    if (!s->o.draft || most < 1 || r->n_forced < r->force.n) return 0;
    const int n = draft_tokens(s, r, (int)most);
    if (!n) return 0;
    const int k = s->o.always ? n : worth_it(s, r, n, n_rows, n_others);
    if (!k) sched_doubt(r, r->draft.by);
    while (r->draft.n < k) {
        struct seq *tap = session_info(s->s).can_trim ? NULL : take_tap(s);
        if (!tap && !session_info(s->s).can_trim) break;
        r->draft.tap[r->draft.n++] = tap;
    }
    r->draft.at = r->all.n;
    return r->draft.n;
}

/* ---- verification ---- */

/* Returns how many of r's draft tokens were accepted: those at the start of the draft that its
 * answer now contains. */
static int n_right(const struct run *r) {
    int n = 0;
    while (n < r->draft.n && r->draft.at + n < r->all.n &&
           r->all.v[r->draft.at + n] == r->draft.guess[n])
        n++;
    return n;
}

const struct row_out *sched_next_out(const struct run *r, const struct row_out *out) {
    const int n = n_right(r);
    if (r->ended || !n || r->draft.at + n != r->all.n) return NULL;
    return out + n;
}

void sched_settle(struct sched *s, struct run *r, bool ran) {
    const int n = n_right(r), n_guesses = r->draft.n;
    struct err ignored;
    r->draft.n = 0;
    if (!n_guesses || !ran) return;
    const int64_t to = r->draft.at + n;
    s->n.n_guessed += n_guesses;
    r->draft.n_tried += n_guesses;
    s->n.n_right += n;
    double *right = &r->draft.right[r->draft.by];
    for (int i = 0; i < n; i++) *right += RIGHT_STEP * (1 - *right);
    if (n == n_guesses) return;
    *right -= RIGHT_STEP * *right;
    if (r->draft.tap[n])
        seq_take(r->seq, r->draft.tap[n]);
    else
        (void)seq_trim(r->seq, to, &ignored); /* cannot fail: session_info.can_trim */
}

void sched_end_guesses(struct sched *s) {
    for (int i = 0; i < s->taps_used; i++) seq_empty(s->tap[i]);
    s->taps_used = 0;
}
