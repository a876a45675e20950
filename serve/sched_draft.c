// SPDX-License-Identifier: MIT
/* serve/sched_draft.c - guesses of the next tokens of an answer, computed in the same pass as the
 * token before them (sched_int.h).
 *
 * The rows of a run are then [its last token, guesses]. Its tokens are drawn as ever, from the
 * logits behind the last token, and as long as they are the guessed ones from those behind these:
 * each token from the logits that it is drawn from without guesses, bit for bit. Where a token is
 * another one, the run goes back: its state behind each row but the last is kept until then
 * (session_pass.fork).
 *
 * How many tokens are guessed follows from what passes of so many rows took and from how many
 * guesses of the run were right: as many as give most tokens in the time. Answers do not depend on
 * it. */
#include <string.h>

#include "base/num.h"
#include "serve/ngram_draft.h"
#include "serve/sched_int.h"

enum { AGAIN = 512 /* passes after which it is measured anew what rows cost */ };
#define RIGHT_STEP 0.1 /* weight of a guess in the running mean */
#define RIGHT_BACK                                                                                 \
    0.01 /* a run that guesses nothing forgets so much per pass that it was wrong                  \
          */

bool sched_can_draft(const struct session *s) {
    const struct session_info at = session_info(s);
    return at.can_trim || strcmp(at.device, "cpu") == 0;
}

/* ---- states to go back to ---- */

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

/* Returns a state to go back to that the pass does not use yet, or NULL when there is no room. */
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

/* ---- how many ---- */

void sched_measure_rows(struct sched *s, int64_t n_rows, double t) {
    double *was = n_rows < (int64_t)COUNT_OF(s->rows_s) ? &s->rows_s[n_rows] : NULL;
    if (s->n.n_steps % AGAIN == 0) memset(s->rows_s, 0, sizeof s->rows_s);
    if (was) *was = *was > 0 ? 0.9 * *was + 0.1 * t : t;
}

/* Returns the seconds of a pass of n rows; where that is not known, of one with fewer, so that it
 * is tried. */
double sched_seconds(const struct sched *s, int64_t n) {
    n = min_i64(n, (int64_t)COUNT_OF(s->rows_s) - 1);
    while (n > 1 && !(s->rows_s[n] > 0)) n--;
    return s->rows_s[n] > 0 ? s->rows_s[n] : 1;
}

/* Returns how many of the n guesses of a run are worth it, in a pass of `rows` rows without them.
 * n_others is the number of tokens that the pass gives to others. */
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

static int guess_lookup(const struct sched *s, const struct run *r, int32_t *out, int most) {
    return s->o.guess ? s->o.guess(s->o.guess_ud, r, out, most)
                      : ngram_draft_guess(r->all.v, r->all.n, out, most);
}

/* What guesses, the first that has a guess. Each writes up to `most` tokens that may follow r's to
 * out and returns their number. */
static int (*const source[GUESSES])(const struct sched *s, const struct run *r, int32_t *out,
                                    int most) = {
    [GUESS_LOOKUP] = guess_lookup, [GUESS_MTP] = sched_guess_mtp};

/* Makes guesses of r's next tokens, `most` at most, and notes who made them. Returns their
 * number. */
static int guesses(const struct sched *s, struct run *r, int most) {
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
    const int n = guesses(s, r, (int)most);
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

/* ---- judging ---- */

/* Returns how many guesses of r, from the first one on, are tokens of its answer by now. */
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
        (void)seq_trim(r->seq, to, &ignored); /* session_info.can_trim */
}

void sched_end_guesses(struct sched *s) {
    for (int i = 0; i < s->taps_used; i++) seq_empty(s->tap[i]);
    s->taps_used = 0;
}
