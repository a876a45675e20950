// SPDX-License-Identifier: MIT
/* cli/run_once.c - one answer: shown as it is made, or one JSON document at the end. */
#include <string.h>

#include "cli/run.h"
#include "core/io.h"
#include "core/log.h"
#include "core/num.h"

enum { DEFAULT_TEXT = 512, DEFAULT_CTX = 8192 };

static void emit_counts(struct run *r, const struct run_answer *a, struct emit *m) {
    const struct sample_opts *o = &r->set.sample;
    const double p = a->prompt_s, g = a->gen.seconds;
    emit_i64(m, "prompt_tokens", "prompt tokens", a->prompt.n);
    emit_i64(m, "generated_tokens", "generated tokens", a->gen.n_drawn);
    emit_num(m, "prompt_tok_per_s", "prompt tokens/s", p > 0 ? (double)a->n_prompt / p : 0, 1);
    emit_num(m, "tok_per_s", "tokens/s", g > 0 ? (double)a->gen.n_drawn / g : 0, 1);
    if (r->draft) {
        const struct draft_stats d = draft_get_stats(r->draft);
        emit_i64(m, "drafted_tokens", "drafted tokens", d.n_drafted);
        emit_i64(m, "accepted_tokens", "accepted tokens", d.n_accepted);
        emit_num(m, "acceptance", "acceptance",
                 d.n_drafted ? (double)d.n_accepted / (double)d.n_drafted : 0, 4);
    }
    if (a->gen.constrain) {
        const struct constrain_counts n = constrain_get_counts(a->gen.constrain);
        emit_i64(m, "constrained_tokens", "constrained tokens", n.n_drawn);
        emit_i64(m, "overruled_tokens", "overruled tokens", n.n_overruled);
        emit_i64(m, "forced_tokens", "forced tokens", n.n_forced);
    }
    emit_num(m, "temp", "temp", (double)o->temp, 2);
    emit_i64(m, "top_k", "top k", o->top_k);
    emit_num(m, "top_p", "top p", (double)o->top_p, 2);
    emit_num(m, "min_p", "min p", (double)o->min_p, 2);
    emit_num(m, "repeat_penalty", NULL, (double)o->repeat_penalty, 2);
    emit_num(m, "presence_penalty", NULL, (double)o->presence_penalty, 2);
    emit_num(m, "frequency_penalty", NULL, (double)o->frequency_penalty, 2);
    emit_i64(m, "seed", "seed", (int64_t)a->gen.seed);
}

static void report_json(struct run *r, const struct run_answer *a, bool turn) {
    struct emit *m = emit_new();
    emit_str(m, "model", "model", r->c->arg[0]);
    emit_str(m, "text", "text", a->text.data ? a->text.data : "");
    if (turn) {
        emit_str(m, "content", NULL, a->content);
        emit_str(m, "reasoning", NULL, a->reasoning);
        emit_json(m, "tool_calls", NULL, a->calls_text.len ? a->calls_text.data : "[]");
    }
    emit_str(m, "stop", "stop", gen_stop_name(a->gen.stop));
    emit_counts(r, a, m);
    cli_emit(r->c, m);
    emit_free(m);
}

static void report(struct run *r, const struct run_answer *a, bool turn) {
    struct buf b = {0};
    if (r->c->form != EMIT_TABLE) {
        report_json(r, a, turn);
        return;
    }
    run_cut(r, a, false, &b);
    if (b.len) screen_note(&r->screen, "%s", b.data);
    buf_reset(&b);
    run_speed(a, &b);
    if (r->draft) {
        const struct draft_stats d = draft_get_stats(r->draft);
        buf_fmt(&b, "; %lld of %lld drafted tokens accepted", (long long)d.n_accepted,
                (long long)d.n_drafted);
    }
    screen_note(&r->screen, "%s", b.data);
    buf_release(&b);
}

/* Room for an answer of n tokens, or of any length: then what models of today think at most, as far
 * as this one was trained. */
static int64_t room_for(const struct run *r, int64_t n_prompt) {
    if (r->a.ctx > 0) return r->a.ctx;
    if (r->set.n > 0) return max_i64(n_prompt + r->set.n, 1);
    const int64_t trained = r->m->hp.d[HD_CTX], want = max_i64(DEFAULT_CTX, 2 * n_prompt);
    return trained > n_prompt ? min_i64(want, trained) : want;
}

int run_once(struct run *r, const char *text, size_t len, struct err *e) {
    const bool turn = r->chat != NULL;
    struct run_answer a = {0};
    int rc = 0;
    if (!turn && !r->set.n_given) r->set.n = DEFAULT_TEXT;
    if (turn && text) talk_add(&r->talk, "user", text, len);
    if (turn)
        rc = run_render(r, 0, true, &a.prompt, NULL, e);
    else
        rc = tok_encode(r->m->tok, text, len, true, true, &a.prompt, e);
    if (!rc) rc = run_start(r, room_for(r, a.prompt.n), e);
    if (!rc) rc = turn ? run_answer_make(r, &a, e) : run_answer_text(r, &a, e);
    if (!rc || (rc == ERR_INTR && a.gen.n_drawn)) report(r, &a, turn);
    run_answer_release(&a);
    return rc;
}
