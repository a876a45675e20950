// SPDX-License-Identifier: MIT
/* serve/sched.c - the scheduler: chooses the rows of each pass, and starts and ends runs.
 *
 * A run holds all tokens of its prompt and answer, and a sequence that contains the first of them.
 * The remaining tokens are fed to the model; once all are in the sequence, the logits of the last
 * one give the next token. A preempted run loses only its sequence: it waits and is then fed
 * again. */
#include "runtime/generate/pictures.h"
#include "serve/sched_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"

enum {
    MIN_ROWS = 32,  /* minimum prompt rows per pass, so that prompts always progress */
    ECHO_ROWS = 32, /* rows of prompt logits per pass */
    EVERY = 8192,   /* tokens of a long prompt between snapshots */
    TRIES = 3,      /* failed passes in a row after which a run fails */
    SPARES = 16,    /* maximum spare states; a conversation takes one or two */
    WANT_OUT = WANT_LOGITS | WANT_BEST
};
/* Touching fresh memory is slow, so spare states are allocated after REST_S seconds without work.
 * They take at most 1/SPARE_SHARE of the context memory. */
#define REST_S 0.25
#define SPARE_SHARE 16

/* Sets the number of spare states: all that fit into a small share of the context memory, or
 * none. */
static void keep_spares(struct sched *s) {
    const uint64_t state = session_seq_bytes(s->s, 0),
                   longest = session_seq_bytes(s->s, s->n_ctx) + session_seq_bytes(s->s, 1);
    int n = SPARES;
    while (n && (s->o.n_bytes / SPARE_SHARE <= (uint64_t)n * state ||
                 s->o.n_bytes <= longest + (uint64_t)n * state))
        n--;
    s->has_spares = n > 1; /* needs two: for a new sequence and a snapshot of its prompt */
    if (s->has_spares) s->spare_bytes = session_keep_spares(s->s, n);
    s->o.n_bytes -= s->spare_bytes;
}

/* Allocates the buffers for drafting with an MTP block or a draft file. */
static void alloc_drafter(struct sched *s) {
    const struct drafter *d = s->o.drafter;
    const int64_t n = DRAFT_RUNS * (MTP_TAIL + RUN_GUESSES);
    s->hidden = xcalloc((size_t)(n * d->n_row), sizeof(float));
    s->mtp.hidden = xcalloc((size_t)(n * d->n_in), sizeof(float));
    s->mtp.own = xcalloc((size_t)(DRAFT_RUNS * d->n_own), sizeof(float));
    s->mtp.logits = xcalloc((size_t)(DRAFT_RUNS * d->n_logits), sizeof(float));
    s->mtp.row = xcalloc((size_t)n, sizeof *s->mtp.row);
}

int sched_new(struct sched **out, struct session *s, const struct sched_opts *o, struct err *e) {
    const struct session_opts *so = session_get_opts(s);
    struct sched *c = xcalloc(1, sizeof *c);
    c->s = s;
    c->o = *o;
    c->o.draft = o->draft && sched_can_draft(s);
    c->n_ctx = so->n_ctx;
    c->n_ubatch = so->n_ubatch;
    c->n_vocab = session_model(s)->hp.d[HD_VOCAB];
    if (!c->o.draft) c->o.drafter = NULL;
    c->cap_out = max_i64(o->n_live, ECHO_ROWS) + o->n_live + DRAFT_RUNS * RUN_GUESSES;
    for (int64_t i = 0; i < c->n_vocab; i++) c->n_eog += tok_is_eog(session_model(s)->tok, i);
    c->prefix = prefix_cache_new(s, session_model(s)->tok);
    keep_spares(c);
    c->row = xcalloc((size_t)(c->n_ubatch + o->n_live), sizeof *c->row);
    c->row_run = xcalloc((size_t)(c->n_ubatch + o->n_live), sizeof(void *));
    c->row_fork = xcalloc((size_t)(c->n_ubatch + o->n_live), sizeof(void *));
    c->out = xcalloc((size_t)c->cap_out, sizeof *c->out);
    c->best = xcalloc((size_t)c->cap_out, sizeof *c->best);
    c->masked = xcalloc((size_t)c->n_vocab, sizeof *c->masked);
    const uint64_t n_bytes = (uint64_t)(c->cap_out * c->n_vocab) * sizeof(float);
    const int rc = session_host_new(s, &c->host, n_bytes, "logits", e);
    if (rc) {
        sched_free(c);
        return rc;
    }
    c->logits = c->host.p;
    if (c->o.drafter) alloc_drafter(c);
    *out = c;
    return 0;
}

/* Returns whether logprobs of the prompt's tokens are still due. */
static bool is_echoing(const struct run *r) {
    return r->task->ask.echo && r->task->ask.top >= 0 && r->n_echoed < r->n_prompt;
}

/* ---- adding and ending runs ---- */

void sched_add(struct sched *s, struct task *t) {
    t->next = s->tasks;
    s->tasks = t;
    for (int i = 0; i < t->reply.n_choices; i++) {
        if (s->n_runs == s->cap_runs) {
            s->cap_runs = s->cap_runs ? 2 * s->cap_runs : 16;
            s->run = xreallocarray(s->run, (size_t)s->cap_runs, sizeof(void *));
        }
        t->run[i].order = s->order++;
        for (int k = 0; k < GUESSES; k++) t->run[i].draft.right[k] = RIGHT_FIRST;
        s->run[s->n_runs++] = &t->run[i];
    }
}

void sched_release(struct sched *s, struct run *r, bool keep) {
    if (!r->seq) return;
    sched_settle(s, r, seq_pos(r->seq) > r->draft.at);
    struct seq *q = r->seq;
    r->seq = NULL;
    s->n_live--;
    sched_forget_pairs(r);
    if (is_echoing(r)) { /* the prompt will be fed again from its start */
        r->n_echoed = 0;
        buf_reset(&r->task->reply.choice[r->choice].probs);
    }
    if (keep && !r->task->ask.no_cache)
        prefix_cache_keep(s->prefix, r->all.v, seq_pos(q), r->task->key, PREFIX_END, q);
    else
        seq_free(q);
}

/* Returns which limit a run is closest to: that of its request, or the context. */
static enum reply_end nearest_limit(const struct sched *s, const struct run *r) {
    const int64_t n_max = r->task->ask.n_max, n_out = r->task->reply.choice[r->choice].n_out;
    return n_max > 0 && n_max - n_out <= s->n_ctx - r->all.n ? END_LENGTH : END_CONTEXT;
}

void sched_end_run(struct sched *s, struct run *r, enum reply_end end, const char *stop) {
    struct reply_choice *c = &r->task->reply.choice[r->choice];
    /* A text that was shortened to be complete within the limit was cut off all the same. If the
     * grammar is complete at the limit by itself, it was not. */
    const bool is_short = constrain_get_counts(r->guard.c).n_shortened > 0;
    if (end == END_LENGTH && r->guard.c && !is_short && !r->task->ask.tools &&
        constrain_done(r->guard.c))
        end = END_TURN;
    if (r->speak && end != END_FAILED) {
        const char *late = NULL;
        struct buf held = {0};
        tok_stream_put(r->stream, false, 0, &held);
        if (held.len && end != END_STOP && parser_feed(r->speak, held.data, held.len, &stop))
            end = END_STOP;
        buf_release(&held);
        const int n_calls =
            parser_end(r->speak, end == END_LENGTH || end == END_CONTEXT, &c->problems, &late);
        c->n_loose = parser_loose(r->speak);
        if (late) {
            end = END_STOP;
            stop = late;
        }
        if (stop && stop == r->task->ask.end_text) {
            end = END_TURN;
            stop = NULL;
        }
        if (is_short && end == END_TURN) end = nearest_limit(s, r);
        if (n_calls && !is_short &&
            (end == END_TURN || end == END_STOP || end == END_LENGTH || end == END_CONTEXT))
            end = END_CALLS;
    }
    c->held = constrain_get_counts(r->guard.c);
    s->n.n_held += c->held.n_drawn;
    s->n.n_overruled += c->held.n_overruled;
    s->n.n_jumped += c->held.n_forced;
    int64_t n_over;
    const size_t *over = constrain_overruled(r->guard.c, &n_over);
    if (n_over && r->speak && r->task->special && end != END_FAILED) {
        parser_tally(r->speak, over, n_over, &c->overruled);
        for (int i = 0; i < c->overruled.n; i++)
            for (int k = 0; k < TOOL_PLACES; k++)
                s->n.n_overruled_at[k] += c->overruled.row[i].n[k];
    }
    sched_release(s, r, true);
    s->n.n_out += c->n_out;
    s->n.n_think += c->n_think;
    task_end_run(r, end, stop);
}

void sched_sweep(struct sched *s) {
    int n = 0;
    for (int i = 0; i < s->n_runs; i++)
        if (!s->run[i]->ended) s->run[n++] = s->run[i];
    s->n_runs = n;
    for (struct task **at = &s->tasks, *t; (t = *at);) {
        if (t->n_ended < t->reply.n_choices) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        task_free(t);
    }
}

void sched_fail_task(struct sched *s, struct task *t, const struct fault *f) {
    task_fail(t, f);
    for (int i = 0; i < t->reply.n_choices; i++)
        if (!t->run[i].ended) sched_end_run(s, &t->run[i], END_FAILED, NULL);
}

void sched_fail_all(struct sched *s, const struct fault *f) {
    for (struct task *t = s->tasks; t; t = t->next) sched_fail_task(s, t, f);
    sched_sweep(s);
}

void sched_free(struct sched *s) {
    struct fault f;
    if (!s) return;
    fault_set(&f, 503, NULL, NULL, "the server is stopping");
    sched_fail_all(s, &f);
    if (s->prefix) (void)sched_shelve(s, true);
    (void)sched_drop_taps(s);
    prefix_cache_free(s->prefix);
    free(s->run);
    free(s->row);
    free(s->row_run);
    free(s->row_fork);
    free(s->hidden);
    free(s->mtp.hidden);
    free(s->mtp.own);
    free(s->mtp.logits);
    free(s->mtp.row);
    free(s->out);
    free(s->best);
    free(s->masked);
    session_host_free(s->s, &s->host);
    free(s);
}

/* Fails the tasks whose clients have disconnected. */
static void drop_gone(struct sched *s) {
    struct fault f;
    bool any = false;
    for (struct task *t = s->tasks; t; t = t->next) {
        if (!task_gone(t)) continue;
        fault_set(&f, 499, NULL, NULL, "the client left");
        sched_fail_task(s, t, &f);
        s->n.n_cancelled++;
        any = true;
    }
    if (any) sched_sweep(s);
}

/* ---- rows ---- */

/* Returns how many of the run's tokens have not been computed yet. */
static int64_t missing_rows(const struct run *r) {
    return r->all.n - seq_pos(r->seq);
}
/* Returns whether the run has begun to generate and lacks at most JUMP_ROWS rows. */
static bool is_decoding(const struct run *r) {
    return r->all.n > r->n_prompt && missing_rows(r) <= JUMP_ROWS;
}
/* Returns whether r rests in this pass: its grammar is costly, or not yet trusted while others
 * rest. */
static bool rests(const struct sched *s, const struct run *r, double now) {
    if (!r->guard.c || !is_decoding(r)) return false;
    if (r->trust < 0) return now < s->t_costly || r != s->costly;
    return r->trust < PROVEN && now < s->t_costly;
}
/* Chooses the costly answer whose turn it is: the one whose last token is the oldest. Lets no
 * answer rest if nothing else can run. */
static void choose_costly(struct sched *s) {
    const double now = progress_now_s();
    bool others = false;
    s->costly = NULL;
    for (int i = 0; i < s->n_runs; i++) {
        struct run *r = s->run[i];
        if (!r->seq || r->trust >= 0 || !is_decoding(r) || task_full(r->task)) continue;
        if (!s->costly || r->t_last < s->costly->t_last) s->costly = r;
    }
    for (int i = 0; i < s->n_runs; i++) {
        struct run *r = s->run[i];
        const bool runs = r->seq && !task_full(r->task) && !rests(s, r, now);
        others = others || (runs && r != s->costly);
        r->rests = r->seq && rests(s, r, now);
    }
    for (int i = 0; i < s->n_runs && !others; i++) s->run[i]->rests = false;
}
/* Returns whether the run can take part in the next pass as a generating run. */
static bool may_decode(const struct run *r) {
    return r->seq && is_decoding(r) && !task_full(r->task) && !r->rests;
}

struct pass {
    int64_t n, n_out, n_decode;
};

/* Returns the use (enum prefix_cache_use) of a snapshot after the first `at` tokens of r; -1: none
 * is taken. */
static int snapshot_use(const struct run *r, int64_t at) {
    int use = at % EVERY == 0 ? (int)PREFIX_EVERY : -1;
    if (at >= r->n_prompt || !sched_keeps(r)) return -1;
    for (int i = 0; i < r->n_cuts; i++)
        if (r->cut[i].at == at) use = (int)r->cut[i].use;
    return use;
}

/* Creates a sequence for a snapshot after the first `at` tokens of r. Returns NULL if none is
 * wanted or there is no room. */
static struct seq *snapshot(struct sched *s, const struct run *r, int64_t at) {
    struct err ignored;
    struct seq *q = NULL;
    if (snapshot_use(r, at) < 0 || !sched_room(s, session_seq_bytes(s->s, 1))) return NULL;
    return session_new_fork(s->s, &q, &ignored) ? NULL : q;
}

/* Stores the snapshots of a pass of n rows in the prefix cache. */
static void keep_snapshots(struct sched *s, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        struct seq *q = s->row_fork[i];
        const struct run *r = s->row_run[i];
        if (!q || sched_is_tap(s, q)) continue;
        s->row_fork[i] = NULL;
        const int64_t at = seq_pos(q);
        prefix_cache_keep(s->prefix, r->all.v, at, r->task->key,
                          (enum prefix_cache_use)snapshot_use(r, at), q);
        s->has_new = true;
    }
}

/* Frees q unless it is one of the scheduler's own. */
static void drop_snapshot(const struct sched *s, struct seq *q) {
    if (!sched_is_tap(s, q)) seq_free(q);
}

/* Returns which result to request for the row that token n_tok of r is drawn from: only the best
 * logits, if these suffice and are cheaper. With ignore_eos, end tokens among them do not count. */
static unsigned want_of(const struct sched *s, const struct run *r, int64_t n_tok) {
    const struct ask *a = &r->task->ask;
    const int64_t needs = sampler_needs(r->sampler, n_tok), out = a->ignore_eos ? s->n_eog : 0;
    const bool all = needs < 0 || a->n_bias || a->top >= 0 || r->guard.c || r->watch;
    return !all && needs + out <= SESSION_BEST && session_info(s->s).can_best ? WANT_BEST
                                                                              : WANT_LOGITS;
}

/* Adds the run's next n tokens to the pass. */
static void add_rows(struct sched *s, struct pass *p, struct run *r, int64_t n) {
    const int64_t pos = seq_pos(r->seq);
    for (int64_t i = 0; i < n; i++) {
        const bool want = pos + i + 1 == r->all.n || is_echoing(r);
        const int32_t id = r->all.v[pos + i];
        s->row[p->n] = (struct session_row){.id = id, .seq = r->seq};
        if (id < 0)
            s->row[p->n].image = pictures_row(r->task->ask.pictures, id, &s->row[p->n].image_at);
        if (want) s->row[p->n].want = want_of(s, r, pos + i + 1);
        if (sched_wants_hidden(s, r, pos + i)) s->row[p->n].want |= WANT_HIDDEN;
        s->row_fork[p->n] = snapshot(s, r, pos + i + 1);
        s->row_run[p->n++] = r;
        p->n_out += want;
    }
}

/* Adds the last token of each running answer to the pass, and its draft tokens. */
static void add_answers(struct sched *s, struct pass *p) {
    int64_t n_rows = 0;
    int n_runs = 0;
    for (int i = 0; i < s->n_runs; i++) {
        struct run *r = s->run[i];
        if (!may_decode(r)) continue;
        n_rows += missing_rows(r);
        n_runs++;
    }
    for (int i = 0; i < s->n_runs; i++) {
        struct run *r = s->run[i];
        if (!may_decode(r)) continue;
        const int64_t n = min_i64(missing_rows(r), max_i64(s->n_ubatch - p->n, 1));
        if (seq_pos(r->seq) + n > r->n_promised) continue; /* no memory reserved for it */
        const bool all = n == missing_rows(r), few = n_runs <= DRAFT_RUNS;
        const int64_t free = s->n_ubatch - p->n - n_rows;
        add_rows(s, p, r, n);
        if (!all || !few || !sched_guess(s, r, n_rows, n_runs - 1, free)) continue;
        for (int k = 0; k < r->draft.n; k++) {
            s->row_fork[p->n - 1] = r->draft.tap[k];
            const unsigned more = sched_wants_hidden(s, r, r->all.n) ? WANT_HIDDEN : 0;
            const unsigned out = want_of(s, r, r->all.n + k + 1);
            s->row[p->n] =
                (struct session_row){.id = r->draft.guess[k], .seq = r->seq, .want = out | more};
            s->row_fork[p->n] = NULL;
            s->row_run[p->n++] = r;
            p->n_out++;
        }
        n_rows += r->draft.n;
    }
}

/* Returns the number of prompt rows for which the pass has time. */
static int64_t prompt_rows(const struct sched *s, const struct pass *p) {
    const int64_t most = s->n_ubatch - p->n;
    if (!p->n_decode || !(s->row_s > 0)) return most;
    const double left = s->o.max_step_s - s->decode_s;
    const int64_t n = left > 0 ? (int64_t)fmin(left / s->row_s, 1e9) : 0;
    return min_i64(max_i64(n, MIN_ROWS), most);
}

/* Returns the run whose prompt is next: the shortest one, unless another has waited for long. NULL:
 * no prompt is left. */
static struct run *next_prompt(const struct sched *s, const struct pass *p) {
    struct run *best = NULL;
    double best_score = 0;
    const double now = progress_now_s();
    for (int i = 0; i < s->n_runs; i++) {
        struct run *r = s->run[i];
        bool in = !r->seq || is_decoding(r) || task_full(r->task);
        for (int64_t k = 0; k < p->n && !in; k++) in = s->row_run[k] == r;
        if (in) continue;
        const double rate = s->row_s > 0 ? 1 / s->row_s : 0;
        const double score = (double)missing_rows(r) - (now - r->task->t_arrive) * rate / 4;
        if (!best || score < best_score) {
            best = r;
            best_score = score;
        }
    }
    return best;
}

/* Returns how many of r's next n rows to add so that no image is cut whose tokens see each
 * other. An image that is first may exceed the time for prompts, but not the pass. */
static int64_t whole_images(const struct sched *s, const struct pass *p, const struct run *r,
                            int64_t n) {
    const int32_t *v = r->all.v + seq_pos(r->seq);
    const int64_t all = missing_rows(r), room = s->n_ubatch - p->n;
    int64_t end = n;
    if (n < 1 || n >= all || v[n - 1] >= 0 || v[n] >= 0) return n;
    if (!session_info(s->s).whole_images) return n;
    while (end > 0 && v[end - 1] < 0) end--;
    if (end) return end;
    while (n < all && v[n] < 0) n++;
    return n <= room || room == s->n_ubatch ? min_i64(n, room) : 0;
}

/* Fills the pass: generating runs first, then prompts. */
static void gather_rows(struct sched *s, struct pass *p) {
    choose_costly(s);
    for (int i = 0; i < s->n_runs; i++) {
        struct run *r = s->run[i];
        if (may_decode(r)) (void)sched_may_grow(s, r, missing_rows(r));
    }
    add_answers(s, p);
    p->n_decode = p->n;
    for (int64_t left = prompt_rows(s, p); left > 0;) {
        struct run *r = next_prompt(s, p);
        if (!r) break;
        int64_t n = min_i64(missing_rows(r), left);
        if (is_echoing(r)) n = min_i64(n, min_i64(ECHO_ROWS, s->cap_out - p->n_out - s->o.n_live));
        n = whole_images(s, p, r, n);
        if (n < 1 || !sched_may_grow(s, r, n)) break;
        add_rows(s, p, r, n);
        left -= n;
    }
}

/* Removes the rows of runs that were preempted after their rows had been added. */
static void drop_lost(struct sched *s, struct pass *p) {
    int64_t n = 0;
    p->n_out = 0;
    for (int64_t i = 0; i < p->n; i++) {
        struct seq *fork = s->row_fork[i];
        s->row_fork[i] = NULL;
        if (!s->row_run[i]->seq) {
            drop_snapshot(s, fork);
            continue;
        }
        s->row[n] = s->row[i];
        s->row_fork[n] = fork;
        s->row_run[n++] = s->row_run[i];
        p->n_out += (s->row[i].want & WANT_OUT) != 0;
    }
    p->n = n;
}

/* ---- passes ---- */

/* Updates counts and speeds after a pass of t seconds. */
static void measure_pass(struct sched *s, const struct pass *p, double t) {
    const int64_t n_prompt = p->n - p->n_decode;
    s->n.n_fed += n_prompt;
    if (!n_prompt) {
        s->decode_s = s->decode_s > 0 ? 0.9 * s->decode_s + 0.1 * t : t;
        sched_measure_rows(s, p->n, t);
    } else if (n_prompt >= MIN_ROWS / 2) {
        const double each = fmax(t - (p->n_decode ? s->decode_s : 0), t / 8) / (double)n_prompt;
        s->row_s = s->row_s > 0 ? 0.8 * s->row_s + 0.2 * each : each;
    }
    s->n.n_steps++;
    s->n.n_rows += p->n;
    s->n.busy_s += t;
    histogram_add(&s->n.step, t, 1);
}

/* Handles a failed pass: drops a cache entry and, after TRIES failures in a row, fails the latest
 * run. */
static void failed(struct sched *s, const struct pass *p, const struct err *e) {
    struct fault f;
    if (session_lost(s->s)) s->lost = *e;
    for (int64_t i = 0; i < p->n; i++) {
        struct run *r = s->row_run[i];
        drop_snapshot(s, s->row_fork[i]);
        s->row_fork[i] = NULL;
        if (!r->draft.n) continue;
        r->draft.n = 0;
        if (seq_pos(r->seq) > r->draft.at) sched_release(s, r, false); /* it will be fed again */
    }
    sched_end_guesses(s);
    if (prefix_cache_drop(s->prefix) || ++s->n_failed < TRIES) return;
    struct run *last = NULL;
    for (int i = 0; i < s->n_runs; i++)
        if (s->run[i]->seq && (!last || s->run[i]->order > last->order)) last = s->run[i];
    s->n_failed = 0;
    if (!last) return;
    fault_set(&f, 500, NULL, NULL, "%s", e->msg);
    sched_fail_task(s, last->task, &f);
    sched_sweep(s);
}

/* Passes the results of a pass of n rows to their runs. */
static void hand_out(struct sched *s, int64_t n) {
    const float *logits = s->logits, *hidden = s->hidden;
    const struct session_best *best = s->best;
    struct row_out *out = s->out;
    for (int64_t i = 0, to; i < n; i = to) {
        struct run *r = s->row_run[i];
        const int n_guesses = r->draft.n;
        int64_t n_hidden = 0;
        for (to = i; to < n && s->row_run[to] == r; to++) {
            n_hidden += (s->row[to].want & WANT_HIDDEN) != 0;
            if (!(s->row[to].want & WANT_OUT)) continue;
            const bool all = (s->row[to].want & WANT_LOGITS) != 0;
            *out = all ? (struct row_out){.logits = logits} : (struct row_out){.best = best++};
            if (all) logits += s->n_vocab;
            if (is_echoing(r)) sched_echo_token(s, r, out->logits);
            out++;
        }
        const float *own = hidden;
        hidden = n_hidden ? hidden + n_hidden * s->o.drafter->n_row : hidden;
        if (!r->seq) continue;
        const int64_t fed = seq_pos(r->seq);
        const bool all = seq_pos(r->seq) == r->all.n + n_guesses;
        if (r->all.n == r->n_prompt) task_progress(r, seq_pos(r->seq));
        if (all) sched_next_tokens(s, r, out - (n_guesses + 1));
        if (all && r->seq) sched_add_pairs(s, r, own, n_hidden - (fed - seq_pos(r->seq)));
    }
}

bool sched_lost(const struct sched *s, struct err *why) {
    if (s->lost.code) *why = s->lost;
    return s->lost.code != 0;
}

bool sched_step(struct sched *s) {
    struct pass p = {0};
    struct err e = {0};
    if (s->lost.code) {
        struct fault f;
        fault_set(&f, 503, NULL, NULL, "the device has failed; the server is stopping");
        sched_fail_all(s, &f);
        return false;
    }
    drop_gone(s);
    sched_admit(s);
    gather_rows(s, &p);
    drop_lost(s, &p);
    if (!p.n) {
        if (!s->n_live) (void)sched_drop_taps(s);
        const bool rests = progress_now_s() - s->t_busy > REST_S;
        if (s->has_spares && rests && session_add_spare(s->s)) return true;
        return sched_shelve(s, false);
    }
    const double t = progress_now_s();
    struct session_pass rows = {
        .row = s->row, .fork = s->row_fork, .n = p.n, .logits = s->logits, .best = s->best};
    if (s->o.drafter) drafter_wants(s->o.drafter, &rows, s->hidden, NULL);
    if (session_pass(s->s, &rows, &e)) {
        failed(s, &p, &e);
        return true;
    }
    keep_snapshots(s, p.n);
    s->n_failed = 0;
    s->t_busy = progress_now_s();
    measure_pass(s, &p, s->t_busy - t);
    hand_out(s, p.n);
    sched_run_mtp(s);
    sched_end_guesses(s);
    sched_sweep(s);
    if (!s->n_live) (void)sched_drop_taps(s);
    return true;
}

/* ---- status ---- */

bool sched_has_chores(const struct sched *s) {
    return s->o.shelf || (s->has_spares && session_info(s->s).lacks_spare);
}

struct sched_counts sched_counts(const struct sched *s) {
    struct sched_counts n = s->n;
    n.n_running = s->n_live;
    n.n_waiting = s->n_runs - s->n_live;
    n.held_bytes =
        session_held_bytes(s->s) + (s->o.drafter ? session_held_bytes(s->o.drafter->s) : 0);
    n.budget_bytes = s->o.n_bytes + s->spare_bytes;
    n.prefix = prefix_cache_counts(s->prefix);
    if (s->o.shelf) n.shelf = prefix_disk_counts(s->o.shelf);
    return n;
}

void sched_slots(const struct sched *s, const char *model, struct jw *w) {
    int id = 0;
    for (int i = 0; i < s->n_runs; i++) {
        const struct run *r = s->run[i];
        if (!r->seq) continue;
        jw_obj(w, NULL);
        jw_i64(w, "id", id++);
        if (model) jw_str(w, "model", model);
        jw_bool(w, "is_processing", true);
        jw_i64(w, "n_ctx", s->n_ctx);
        jw_i64(w, "n_past", seq_pos(r->seq));
        jw_i64(w, "n_cached", r->n_cached);
        jw_str(w, "state",
               task_full(r->task) || r->rests ? "paused"
               : is_decoding(r)               ? "decode"
                                              : "prefill");
        if (r->task->job) jw_str(w, "request_id", r->task->job->id);
        jw_bool(w, "speculative", r->draft.n_tried > 0);
        jw_end(w);
    }
    for (; id < s->o.n_live; id++) {
        jw_obj(w, NULL);
        jw_i64(w, "id", id);
        if (model) jw_str(w, "model", model);
        jw_bool(w, "is_processing", false);
        jw_i64(w, "n_ctx", s->n_ctx);
        jw_end(w);
    }
}
