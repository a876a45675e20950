// SPDX-License-Identifier: MIT
/* serve/sched_admit.c - memory for sequences, and admission of waiting runs. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "serve/sched_int.h"

enum {
    PROMISE = 1024, /* answer tokens for which memory is reserved at the start */
    GROWTH = 256,   /* further answer tokens for which it is reserved at a time */
    SHARED = 512    /* prompt tokens another run must compute to be worth waiting for */
};

/* ---- memory ---- */

/* Returns how much memory runs have reserved but not used yet. */
static uint64_t promised(const struct sched *s) {
    uint64_t n = 0;
    for (int i = 0; i < s->n_runs; i++) {
        const struct run *r = s->run[i];
        if (!r->seq) continue;
        const int64_t pos = seq_pos(r->seq);
        if (r->n_promised > pos)
            n += session_seq_bytes(s->s, r->n_promised) - session_seq_bytes(s->s, pos);
    }
    return n;
}

bool sched_room(struct sched *s, uint64_t n) {
    const uint64_t mtp = s->o.drafter ? session_held_bytes(s->o.drafter->s) : 0;
    while (session_held_bytes(s->s) + mtp + promised(s) + n > s->o.n_bytes)
        if (!prefix_cache_drop(s->prefix) && !sched_drop_taps(s)) return false;
    return true;
}

/* Preempts the latest run other than `but`, so that it waits again. Returns false if no other run
 * can be preempted. */
static bool preempt(struct sched *s, const struct run *but) {
    struct run *last = NULL;
    for (int i = 0; i < s->n_runs; i++)
        if (s->run[i]->seq && s->run[i] != but && (!last || s->run[i]->order > last->order))
            last = s->run[i];
    if (!last) return false;
    sched_release(s, last, true);
    s->n.n_preempted++;
    return true;
}

bool sched_may_grow(struct sched *s, struct run *r, int64_t n) {
    while (seq_pos(r->seq) + n > r->n_promised) {
        const int64_t to = min_i64(r->n_promised + max_i64(GROWTH, n), s->n_ctx);
        const uint64_t more = session_seq_bytes(s->s, to) - session_seq_bytes(s->s, r->n_promised);
        if (!sched_room(s, more) && !preempt(s, r)) return false;
        if (sched_room(s, more)) r->n_promised = to;
    }
    return true;
}

/* ---- admission ---- */

/* Returns when this key last had its turn, as a count of admissions; 0: never. */
static uint64_t last_turn(const struct sched *s, uint64_t key) {
    for (int i = 0; i < s->n_served; i++)
        if (s->served[i].key == key) return s->served[i].at;
    return 0;
}

/* Records that the client `key` was served last. */
static void note_turn(struct sched *s, uint64_t key) {
    int at = 0;
    for (int i = 0; i < s->n_served; i++) {
        if (s->served[i].key == key) {
            s->served[i].at = ++s->served_at;
            return;
        }
        if (s->served[i].at < s->served[at].at) at = i;
    }
    if (s->n_served < (int)COUNT_OF(s->served)) at = s->n_served++;
    s->served[at].key = key;
    s->served[at].at = ++s->served_at;
}

/* Returns the number of tokens that two runs have in common at the start. */
static int64_t common_tokens(const struct run *a, const struct run *b) {
    const int64_t n = min_i64(a->all.n, b->all.n);
    int64_t i = 0;
    while (i < n && a->all.v[i] == b->all.v[i]) i++;
    return i;
}

bool sched_keeps(const struct run *r) {
    return !r->task->ask.no_cache && !(r->task->ask.echo && r->task->ask.top >= 0);
}

/* Adds a snapshot at a position of r's prompt. */
static void add_cut(struct run *r, int64_t at, enum prefix_cache_use use) {
    for (int i = 0; i < r->n_cuts; i++)
        if (r->cut[i].at == at) return;
    if (r->n_cuts == RUN_CUTS || at < 1 || at >= r->n_prompt) return;
    r->cut[r->n_cuts].at = at;
    r->cut[r->n_cuts++].use = use;
}

/* Returns whether r should wait because another run is computing part of its prompt. If so, has
 * that run take a snapshot where the prompts diverge. */
static bool better_wait(struct sched *s, struct run *r) {
    if (!sched_keeps(r)) return false;
    const int64_t have = prefix_cache_match(s->prefix, r->all.v, r->all.n, r->task->key).n;
    for (int i = 0; i < s->n_runs; i++) {
        struct run *o = s->run[i];
        if (!o->seq || o == r || o->task->key != r->task->key || !sched_keeps(o)) continue;
        if (seq_pos(o->seq) >= o->n_prompt) continue;
        const int64_t same = min_i64(common_tokens(o, r), min_i64(r->all.n - 1, o->n_prompt - 1));
        const int64_t least = o->task == r->task ? 1 : SHARED;
        if (same - have < least || same <= seq_pos(o->seq)) continue;
        add_cut(o, same, PREFIX_SPLIT);
        return true;
    }
    return false;
}

/* Returns the waiting run to start next: keys take turns; runs of a key start in order of arrival.
 * NULL: no run can start. */
static struct run *next_waiting(struct sched *s) {
    struct run *best = NULL;
    for (int i = 0; i < s->n_runs; i++) {
        struct run *r = s->run[i];
        if (r->seq || task_full(r->task)) continue;
        if (best && last_turn(s, r->task->key) >= last_turn(s, best->task->key)) continue;
        if (!better_wait(s, r)) best = r;
    }
    return best;
}

/* Returns whether the text is a token that ordinary text cannot contain; ud: the tokenizer. */
static bool is_control(void *ud, const char *text) {
    const struct tok *t = ud;
    const int64_t id = tok_find(t, text);
    return id >= 0 && (tok_role(t, id) == TT_CONTROL || tok_is_eog(t, id));
}

/* Creates the run's sampler and parser unless they exist. */
static int start_text(struct run *r, const struct model *m, struct err *e) {
    struct task *t = r->task;
    if (!r->sampler)
        r->sampler =
            sampler_new(&t->ask.sample, m->hp.d[HD_VOCAB], t->reply.seed + (uint64_t)r->choice);
    if (r->speak) return 0;
    r->stream = tok_stream_new(m->tok);
    TRY(parser_new(&r->speak, &t->ask, t->fmt, t->think, r->choice, task_event, t, e));
    parser_opened(r->speak, t->opened);
    parser_ends(r->speak, is_control, m->tok);
    if (!r->guard.c) parser_whole_calls(r->speak);
    return 0;
}

/* Moves snapshot positions by `more`, the number of tokens by which the first `from` prompt tokens
 * have grown. Drops positions within those. */
static void move_cuts(struct run *r, int64_t from, int64_t more) {
    int n = 0;
    for (int i = 0; i < r->n_cuts; i++)
        if (r->cut[i].at > from) {
            r->cut[n] = r->cut[i];
            r->cut[n++].at += more;
        }
    r->n_cuts = n;
}

/* Resumes r from the prefix cache. If earlier requests share more of the prompt than can be
 * resumed, schedules a snapshot there for the next request. Conversations are matched by their
 * bytes; prompts that are plain text or tokens, by their tokens. */
static void resume(struct sched *s, struct run *r) {
    const bool first = r->all.n == r->n_prompt; /* otherwise part of the answer is there already */
    const bool text = first && r->task->ask.conv && !r->task->ask.exact;
    const int64_t n = r->all.n;
    struct prefix_cache_match m = {0};
    struct err ignored; /* failing here only costs time */
    if (prefix_cache_take(s->prefix, &r->all, r->task->key, text ? PREFIX_BYTES : PREFIX_IDS,
                          s->n_ctx, &r->seq, &m, &ignored))
        return;
    const int64_t more = r->all.n - n;
    if (first) r->n_cached = m.n, r->n_known = m.seen;
    if (r->all.n != n || m.n) move_cuts(r, m.n, more);
    r->n_prompt += more;
    if (first && m.seen - m.n > SHARED) add_cut(r, m.seen + more, PREFIX_SPLIT);
}

/* Gives a run its sequence. Returns false if there is no room yet, or if there is an error, with *e
 * set. */
static bool begin_run(struct sched *s, struct run *r, struct err *e) {
    const struct ask *a = &r->task->ask;
    const int64_t more = a->n_max < 0 ? PROMISE : min_i64(a->n_max, PROMISE);
    const int64_t want = min_i64(r->all.n + more, s->n_ctx);
    /* One page more, since the last page of a prefix may have to be copied. */
    const uint64_t need = session_seq_bytes(s->s, want) + session_seq_bytes(s->s, 1);
    if (!sched_room(s, need)) {
        if (s->n_live) return false;
        err_set(e, ERR_SYS,
                "%" PRIu64 " bytes of context memory are not enough for %" PRId64 " tokens",
                s->o.n_bytes, want);
        return false;
    }
    if (sched_keeps(r)) {
        sched_from_shelf(s, r, need);
        resume(s, r);
    }
    if (!r->seq && session_new_seq(s->s, 0, &r->seq, e)) return false;
    r->n_promised = want;
    if (!r->task->admitted) {
        s->n.n_prompt += r->task->reply.n_prompt;
        s->n.n_cached += r->n_cached;
        r->task->reply.n_known = r->n_known;
        task_admit(r->task, r->n_cached);
    }
    s->n_live++;
    return true;
}

void sched_admit(struct sched *s) {
    while (s->n_live < s->o.n_live) {
        struct err e = {0};
        struct fault f;
        struct run *r = next_waiting(s);
        if (!r) return;
        if (!start_text(r, session_model(s->s), &e) && begin_run(s, r, &e)) {
            note_turn(s, r->task->key);
            continue;
        }
        if (!e.code) return; /* no room yet */
        fault_set(&f, 500, NULL, NULL, "%s", e.msg);
        sched_fail_task(s, r->task, &f);
        sched_sweep(s);
    }
}
