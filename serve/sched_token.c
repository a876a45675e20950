// SPDX-License-Identifier: MIT
/* serve/sched_token.c - tokens of answers: draws them from the results of a pass, adds those that a
 * grammar or a thinking budget forces, and ends answers. */
#include "serve/sched_int.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/engine/fault.h"
#include "serve/logprobs.h"

/* An answer is costly if it took more than COSTLY_S of CPU time to choose one of its tokens. While
 * other answers run, costly ones take turns and together get a COSTLY_SHARE of the engine's time,
 * but none rests longer than COSTLY_REST_S between tokens. */
#define COSTLY_S 0.005
#define COSTLY_SHARE 0.02
#define COSTLY_REST_S 5.0

/* Draws a token from the best logits; with ignore_eos, excludes end tokens. */
static int32_t draw_best(struct sched *s, struct run *r, const struct session_best *b) {
    const struct tok *tok = session_model(s->s)->tok;
    struct session_best left = {.n = 0};
    for (int32_t i = 0; i < b->n && r->task->ask.ignore_eos; i++) {
        if (tok_is_eog(tok, b->id[i])) continue;
        left.id[left.n] = b->id[i];
        left.logit[left.n++] = b->logit[i];
    }
    if (left.n) b = &left;
    return sampler_pick_best(r->sampler, b->id, b->logit, b->n, r->all.v, r->all.n);
}

/* Draws the run's next token. out: logits, or only the best tokens. */
static int draw_token(struct sched *s, struct run *r, const struct row_out *out, int32_t *id,
                      struct err *e) {
    const struct ask *a = &r->task->ask;
    const struct tok *tok = session_model(s->s)->tok;
    const float *logits = out->logits;
    if (!logits) {
        *id = draw_best(s, r, out->best);
        return 0;
    }
    if (r->watch) r->watch(r->task->ud, logits, s->n_vocab);
    if (a->n_bias || a->ignore_eos) {
        memcpy(s->masked, logits, (size_t)s->n_vocab * sizeof *logits);
        for (int i = 0; i < a->n_bias; i++)
            if (a->bias[i].id < s->n_vocab) s->masked[a->bias[i].id] += a->bias[i].by;
        for (int64_t i = 0; i < s->n_vocab && a->ignore_eos; i++)
            if (tok_is_eog(tok, i)) s->masked[i] = -INFINITY;
        logits = s->masked;
    }
    if (r->guard.c) {
        const double begin = progress_now_s();
        TRY(constrain_pick(r->guard.c, r->sampler, logits, r->all.v, r->all.n, id, e));
        histogram_add(&s->n.mask, progress_now_s() - begin, 1);
        return 0;
    }
    *id = sampler_pick(r->sampler, logits, r->all.v, r->all.n);
    return 0;
}

/* Forces the end of thinking when its budget is used up, with the requested last words and then the
 * template's closing tag. Waits until the text so far does not end within a character. */
static void end_thinking(const struct tok *tok, struct run *r) {
    const struct ask *a = &r->task->ask;
    const struct toolfmt *fmt = r->task->fmt;
    const struct reply_choice *c = &r->task->reply.choice[r->choice];
    struct buf text = {0};
    struct err ignored; /* if this fails, thinking continues */
    if (a->n_think < 0 || c->n_think < a->n_think || !fmt || r->force.n > r->n_forced) return;
    if (!parser_thinks(r->speak) || parser_half(r->speak)) return;
    if (a->think_last) buf_str(&text, a->think_last);
    buf_fmt(&text, "\n%s", toolfmt_think_tag(fmt, true));
    (void)tok_encode(tok, text.data, text.len, true, false, &r->force, &ignored);
    buf_release(&text);
}

/* Adds to `next` the token that is drawn, or forced by the end of thinking, and then the tokens for
 * which the grammar leaves no choice. */
static int draw_tokens(struct sched *s, struct run *r, const struct row_out *out, struct ids *next,
                       struct err *e) {
    struct constrain *c = r->guard.c;
    const int64_t n_out = r->task->reply.choice[r->choice].n_out, n_max = r->task->ask.n_max;
    int64_t most = min_i64(JUMP_ROWS, s->n_ctx - r->all.n);
    int32_t id;
    if (c) {
        const int64_t room = s->n_ctx - r->all.n + 1;
        constrain_limit(c, n_max > 0 ? min_i64(room, n_max - n_out) : room);
    }
    end_thinking(session_model(s->s)->tok, r);
    if (r->n_forced < r->force.n)
        id = r->force.v[r->n_forced++];
    else
        TRY(draw_token(s, r, out, &id, e));
    if (c) TRY(constrain_accept(c, id, e));
    if (n_max > 0) most = min_i64(most, n_max - n_out);
    if (c && !constrain_ended(c)) TRY(constrain_forced(c, id, most, next, e));
    if (!next->n) ids_add(next, id);
    return 0;
}

/* Returns the thread's processor time in seconds. */
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Calls draw_tokens() with the step limit for one token, and records whether that was costly. */
static int take_bounded(struct sched *s, struct run *r, const struct row_out *out, struct ids *next,
                        struct err *e) {
    struct ctx_cost cost = {.most = limit_of(LIM_TOKEN_STEPS)};
    if (!r->guard.c) return draw_tokens(s, r, out, next, e);
    const double begin = cpu_s();
    ctx_cost_enter(&cost);
    const int rc = draw_tokens(s, r, out, next, e);
    ctx_cost_enter(NULL);
    const double took = cpu_s() - begin, now = progress_now_s();
    if (took <= COSTLY_S) {
        r->trust += r->trust < PROVEN;
        return rc;
    }
    r->trust = -PROVEN;
    s->t_costly = fmax(s->t_costly, now) + took / COSTLY_SHARE;
    s->t_costly = fmin(s->t_costly, now + COSTLY_REST_S);
    return rc;
}

/* Adds a token to the answer and checks whether the answer ends with it. last: it is the last token
 * of this step. logits may be NULL if no log probabilities were requested. */
static void add_token(struct sched *s, struct run *r, const float *logits, int32_t id, bool last) {
    struct task *t = r->task;
    struct reply_choice *c = &t->reply.choice[r->choice];
    const struct tok *tok = session_model(s->s)->tok;
    const char *stop = NULL;
    struct buf text = {0};
    const bool end = r->guard.c ? last && constrain_ended(r->guard.c) : tok_is_eog(tok, id);
    if (end && !t->ask.ignore_eos) {
        sched_end_run(s, r, END_TURN, NULL);
        return;
    }
    const bool thought = parser_thinks(r->speak);
    if (t->ask.top >= 0 && !thought)
        logprobs_add(&c->probs, tok, logits, s->n_vocab, id, t->ask.top);
    ids_add(&r->all, id);
    c->n_out++;
    tok_decode(tok, id, t->special, &text);
    tok_stream_put(r->stream, true, 0, &text);
    const size_t aside = r->guard.c ? constrain_aside(r->guard.c) : 0;
    text.len -= aside < text.len ? aside : text.len;
    const bool stopped = parser_feed(r->speak, text.data ? text.data : "", text.len, &stop);
    buf_release(&text);
    c->n_think += thought || parser_thinks(r->speak);
    if (stopped)
        sched_end_run(s, r, END_STOP, stop);
    else if (t->ask.n_max > 0 && c->n_out >= t->ask.n_max)
        sched_end_run(s, r, END_LENGTH, NULL);
    else if (r->all.n > s->n_ctx)
        sched_end_run(s, r, END_CONTEXT, NULL);
}

/* Returns whether the logits of r contain NaNs; if so, fails its request. The weights are searched
 * once for the cause. The error for clients does not contain the file's path. */
static bool is_broken(struct sched *s, struct run *r, const struct row_out *out) {
    struct fault f;
    const char *path = gguf_path(session_model(s->s)->gguf), *at = s->broken.msg;
    if (out->logits ? !fault_in_logits(out->logits, s->n_vocab) : out->best->n > 0) return false;
    if (!s->broken.msg[0]) {
        (void)fault_find(s->s, NULL, 0, &s->broken);
        log_warn("%s", s->broken.msg);
    }
    if (strncmp(at, path, strlen(path)) == 0) at += strlen(path) + 2;
    fault_set(&f, 500, NULL, NULL, "the model is broken: %s", at);
    sched_fail_task(s, r->task, &f);
    return true;
}

/* Draws the next token of r from the logits of its last one, and adds the tokens that must follow
 * it. */
static void next_token(struct sched *s, struct run *r, const struct row_out *out) {
    struct task *t = r->task;
    struct ids next = {0};
    struct err e;
    if (is_broken(s, r, out)) return;
    if (!(r->t_ready > 0)) r->t_ready = progress_now_s();
    if (t->ask.n_max == 0) {
        sched_end_run(s, r, END_LENGTH, NULL);
        return;
    }
    if (take_bounded(s, r, out, &next, &e)) {
        struct fault f;
        fault_set(&f, 500, NULL, NULL, "%s", e.msg);
        sched_fail_task(s, t, &f);
        ids_release(&next);
        return;
    }
    const double now = progress_now_s();
    if (!t->reply.choice[r->choice].n_out)
        t->reply.first_s = now - t->t_arrive;
    else if (next.n)
        histogram_add(&s->n.interval, (now - r->t_last) / (double)next.n, next.n);
    r->t_last = now;
    for (int64_t i = 0; i < next.n && !r->ended; i++)
        add_token(s, r, out->logits, next.v[i], i + 1 == next.n);
    /* With tools another turn follows, so the sequence must include the whole answer. */
    const bool once = r->guard.c && !t->ask.tools;
    if (!r->ended && once && constrain_done(r->guard.c)) sched_end_run(s, r, END_TURN, NULL);
    ids_release(&next);
}

void sched_echo_token(struct sched *s, struct run *r, const float *logits) {
    struct reply_choice *c = &r->task->reply.choice[r->choice];
    const struct tok *tok = session_model(s->s)->tok;
    if (!r->n_echoed++) logprobs_add(&c->probs, tok, NULL, 0, r->all.v[0], 0);
    if (r->n_echoed < r->n_prompt)
        logprobs_add(&c->probs, tok, logits, s->n_vocab, r->all.v[r->n_echoed], r->task->ask.top);
}

void sched_next_tokens(struct sched *s, struct run *r, const struct row_out *out) {
    for (const struct row_out *o = out; o; o = sched_next_out(r, out)) next_token(s, r, o);
    if (r->seq) sched_settle(s, r, true);
}
