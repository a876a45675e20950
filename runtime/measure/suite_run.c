// SPDX-License-Identifier: MIT
/* runtime/measure/suite_run.c - evaluation of a suite: prompts from the model's own template,
 * greedy answers, verdicts. Memory: the session, the prompts and the answers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/measure/internal.h"
#include "chat/talk.h"
#include "template/chat.h"
#include "template/chat_ends.h"
#include "runtime/measure/loop.h"
#include "runtime/measure/suite.h"

/* Finds the call syntax by name; name NULL: that of the model's template. */
static int find_format(const struct suite *suite, const struct model *m, const char *name,
                       const struct toolfmt **out, struct err *e) {
    const char *tmpl;
    TRY(gguf_chat_template(m->gguf, &tmpl, e));
    if (!tmpl) tmpl = "";
    *out = name ? toolfmt_find(name) : toolfmt_detect(tmpl, strlen(tmpl));
    if (name && !*out) {
        char list[900] = "";
        toolfmt_list(list, sizeof list);
        return err_set(e, ERR_USAGE, "--format: '%s' is not one of %s", name, list);
    }
    if (!*out && suite_calls(suite))
        return err_set(
            e, ERR_DATA,
            "%s: its template has no known syntax of tool calls, which the suite needs; --format "
            "names one, if the model was trained on it",
            gguf_path(m->gguf));
    return 0;
}

/* Renders and encodes the prompt of case i. */
static int plan_case(struct suite_plan *p, int i, const struct model *m, const struct chat *chat,
                     struct err *e) {
    const struct suite_case *c = &p->suite->c[p->index[i]];
    struct chat_prompt prompt = {0};
    const int rc = suite_prompt(c, chat, m->tok, &prompt, e);
    p->text[i] = buf_take(&prompt.text);
    p->prompt[i] = prompt.ids;
    prompt.ids = (struct ids){0};
    chat_prompt_release(&prompt);
    p->longest = max_i64(p->longest, p->prompt[i].n);
    return rc;
}

int suite_plan_open(struct suite_plan *p, const struct suite *suite, const struct model *m,
                    int64_t n_cases, const char *format, struct err *e) {
    memset(p, 0, sizeof *p);
    TRY(model_need_tok(m, e));
    TRY(find_format(suite, m, format, &p->format, e));
    p->suite = suite;
    p->n = n_cases > 0 && n_cases < suite->n ? (int)n_cases : suite->n;
    p->index = xcalloc((size_t)p->n, sizeof *p->index);
    p->prompt = xcalloc((size_t)p->n, sizeof *p->prompt);
    p->text = xcalloc((size_t)p->n, sizeof *p->text);
    int rc = 0;
    for (int i = 0; i < p->n && !rc; i++) {
        p->index[i] = suite_spread(suite->n, p->n, i);
        bool plain = json_str(json_get(suite->c[p->index[i]].json, "text")) != NULL;
        if (!plain && !p->chat) {
            rc = chat_from_gguf(&p->chat, m->gguf, m->tok, e);
            if (!rc) chat_find_ends(p->chat, m->tok);
        }
        if (!rc) rc = plan_case(p, i, m, p->chat, e);
    }
    if (rc) suite_plan_close(p);
    return rc;
}

void suite_plan_close(struct suite_plan *p) {
    for (int i = 0; i < p->n; i++) {
        if (p->prompt) ids_release(&p->prompt[i]);
        if (p->text) free(p->text[i]);
    }
    gram_vocab_free(p->vocab);
    chat_free(p->chat);
    free(p->index);
    free(p->prompt);
    free(p->text);
    memset(p, 0, sizeof *p);
}

/* Reads an answer from its cache record: three numbers, then the text. Returns false if there is no
 * record. */
static bool kept_gen(const struct results_cache_of *keep, const char *which, struct eval_gen *g) {
    int64_t head[3];
    struct buf b = {0};
    bool ok = results_cache_get_buf(keep, which, &b) && b.len >= sizeof head;
    if (ok) {
        memcpy(head, b.data, sizeof head);
        *g = (struct eval_gen){.n_prompt = head[0], .n_new = head[1], .ended = head[2] != 0};
        buf_add(&g->text, b.data + sizeof head, b.len - sizeof head);
        buf_str(&g->text, "");
    }
    buf_release(&b);
    return ok;
}
/* Caches a generated answer under the name `which`. */
static void keep_gen(const struct results_cache_of *keep, const char *which,
                     const struct eval_gen *g) {
    const int64_t head[3] = {g->n_prompt, g->n_new, g->ended};
    struct buf b = {0};
    buf_add(&b, head, sizeof head);
    buf_add(&b, g->text.data, g->text.len);
    results_cache_put(keep, which, b.data, b.len);
    buf_release(&b);
}

/* Returns the name of an answer in the cache; the caller frees it. */
static char *kept_name(const struct session *s, const struct ids *prompt,
                       const struct suite_case *c, const struct eval_gen_opts *how) {
    const int64_t room = session_get_opts(s)->n_ctx - prompt->n;
    char *name = eval_keep_window("greedy", prompt->v, prompt->n, 0, min_i64(how->n_max, room));
    struct buf b = {0};
    buf_str(&b, name);
    free(name);
    if (c->n_stop) buf_str(&b, " stop of content");
    for (int i = 0; i < c->n_stop; i++) {
        buf_chr(&b, ' ');
        json_quote(&b, c->stop[i], strlen(c->stop[i]));
    }
    return buf_take(&b);
}

/* Generates an answer or takes it from the cache. *seconds is the time it took, 0 if cached. */
static int generate(struct session *s, const struct ids *prompt, const struct suite_case *c,
                    const struct eval_gen_opts *how, const struct results_cache_of *keep,
                    struct eval_gen *g, double *seconds, struct err *e) {
    char *which = kept_name(s, prompt, c, how);
    int rc = 0;
    *seconds = 0;
    if (!kept_gen(keep, which, g)) {
        const double t0 = progress_now_s();
        rc = eval_generate(s, prompt, how, g, e);
        *seconds = progress_now_s() - t0;
        if (!rc) keep_gen(keep, which, g);
    }
    free(which);
    return rc;
}

/* A prompt as tokens and as text. */
struct asked {
    const struct ids *ids;
    const char *text;
};

/* Generates an answer constrained to calls of offered tools with arguments valid for their schemas.
 * If the case expects a call, one is required, as with "tool_choice": "required", so the tokens of
 * an answer without calls also count as overruled. */
static int generate_calls(struct session *s, const struct suite_plan *p, const struct suite_case *c,
                          const struct asked *q, struct eval_gen_opts how, struct eval_gen *g,
                          double *seconds, struct err *e) {
    const struct gram_tools t = {.tools = json_get(c->json, "tools"),
                                 .choice =
                                     json_first(c->expect) ? GRAM_TOOLS_REQUIRED : GRAM_TOOLS_AUTO,
                                 .parallel = true,
                                 .opened = toolfmt_opened(p->format, q->text)};
    const struct gram_opts go = {.any_order = true};
    const enum tool_think think = t.opened ? TOOL_THINK_NONE : toolfmt_think_of(p->format, q->text);
    struct constrain_opts o = {.draw_all = !p->jump};
    if (think != TOOL_THINK_NONE) o.close = toolfmt_think_tag(p->format, true);
    if (think == TOOL_THINK_UNKNOWN) o.open = toolfmt_think_tag(p->format, false);
    TRY(grammar_of_tools(&o.g, p->vocab, p->format, &t, &go, e));
    const double t0 = progress_now_s();
    how.constrain = &o;
    const int rc = eval_generate(s, q->ids, &how, g, e);
    *seconds = progress_now_s() - t0;
    grammar_free(o.g);
    return rc;
}

struct stops { /* what shows whether a stop text has ended an answer */
    const struct suite_plan *p;
    const struct suite_case *c;
    const char *prompt;
};
/* Returns whether a stop text of the case has ended the answer; ud: struct stops. */
static bool stops_here(void *ud, const char *text, size_t n) {
    const struct stops *s = ud;
    const struct answer_text t = {
        .prompt = s->prompt, .text = text, .len = n, .strict_calls = s->p->strict_calls};
    return answer_stopped(s->p->format, s->c, &t);
}

/* Generates one answer to a prompt of a case, or takes it from the cache, parses it and adds its
 * counts to *out. */
static int answer_prompt(struct session *s, const struct suite_plan *p, const struct suite_case *c,
                         const struct asked *q, int64_t max_tokens,
                         const struct results_cache_of *keep, struct suite_answers *out,
                         struct answer *a, bool *ended, struct err *e) {
    struct eval_gen g = {0};
    double seconds = 0;
    struct stops stops = {p, c, q->text};
    const struct eval_gen_opts how = {.n_max = c->max_tokens ? c->max_tokens : max_tokens,
                                      .done = c->n_stop ? stops_here : NULL,
                                      .ud = &stops};
    const bool calls = p->vocab && p->format && json_first(json_get(c->json, "tools"));
    int rc = calls ? generate_calls(s, p, c, q, how, &g, &seconds, e)
                   : generate(s, q->ids, c, &how, keep, &g, &seconds, e);
    out->seconds += seconds;
    out->decode_s += g.decode_s;
    if (rc) err_wrap(e, "case %s", c->id);
    *ended = g.ended;
    out->n_prompt += g.n_prompt;
    out->n_new += g.n_new;
    out->counts.n_drawn += g.counts.n_drawn;
    out->counts.n_overruled += g.counts.n_overruled;
    out->counts.n_forced += g.counts.n_forced;
    out->counts.n_ended += g.counts.n_ended;
    const struct answer_text t = {q->text, g.text.data, g.text.len, .cut = !g.ended,
                                  .strict_calls = p->strict_calls};
    if (!rc) rc = answer_read(a, p->format, c, &t, e);
    out->n_loose += a->parse ? toolparse_loose(a->parse) : 0;
    if (!rc && a->parse)
        tool_tally_add(&out->overruled, a->parse, g.overruled, g.counts.n_overruled);
    buf_release(&g.text);
    free(g.overruled);
    return rc;
}

/* ---- loops ---- */

struct steps { /* a loop in progress */
    struct loop *world;
    struct talk talk;
    int64_t n_calls, n_valid;
    bool done;        /* the model answered without a call, and the user has nothing more to say */
    const char *fail; /* why the loop ended early; NULL: it did not */
};

/* Answers the calls of one step and appends them to the trace; the next user message follows an
 * answer without calls that has ended. */
static int loop_step(struct steps *x, const struct answer *a, bool ended, struct buf *trace,
                     struct err *e) {
    const struct json *calls = json_get(a->json, "tool_calls");
    struct buf result = {0};
    int rc = 0;
    talk_add_answer(&x->talk, a->content, json_str(json_get(a->json, "reasoning")), calls);
    for (const struct json *k = json_first(calls); k && !rc; k = json_next(k)) {
        const char *name = json_str(json_get(k, "name"));
        bool valid = false;
        buf_reset(&result);
        buf_fmt(trace, "%s%s", trace->len ? " " : "", name ? name : "?");
        json_write(trace, json_get(k, "arguments"));
        rc = loop_call(x->world, k, &result, &valid, e);
        x->n_calls++;
        x->n_valid += valid;
        if (!rc && !talk_add_result(&x->talk, result.data, result.len))
            talk_add(&x->talk, "tool", result.data, result.len);
    }
    buf_release(&result);
    if (rc || json_first(calls)) return rc;
    if (!ended) {
        x->fail = "the answer was cut at the limit";
        return 0;
    }
    const char *user = loop_user(x->world);
    if (user) talk_add(&x->talk, "user", user, strlen(user));
    x->done = !user;
    return 0;
}

/* Sets the verdict of a loop: by its end, its goal and the checks of its last answer. */
static int judge_loop(const struct steps *x, const struct suite_case *c, const struct answer *a,
                      struct verdict *v, struct err *e) {
    TRY(answer_judge(c, a, v, e));
    v->parsed = x->n_calls > 0;
    v->valid = x->n_calls > 0 && x->n_valid == x->n_calls;
    struct buf why = {0};
    const bool reached = loop_reached(x->world, &why);
    if (!x->done || !reached) {
        buf_reset(&v->why);
        buf_str(&v->why, x->fail ? x->fail : x->done ? why.data : "no end within the steps");
    }
    v->pass = v->pass && x->done && reached;
    buf_release(&why);
    return 0;
}

/* Runs a case with several steps: the model's calls are answered by the case's world until it
 * answers without a call. *a: its last answer, with the trace of all calls. */
static int run_loop(struct session *s, const struct suite_plan *p, int i, int64_t max_tokens,
                    const struct results_cache_of *keep, struct suite_answers *out, struct err *e) {
    const struct suite_case *c = &p->suite->c[p->index[i]];
    struct answer *a = &out->answer[i];
    struct steps x = {.world = loop_new(c)};
    struct buf trace = {0}, conv = {0};
    int rc = talk_parse(&x.talk, c->line, c->len, c->id, e);
    for (int step = 0; step < loop_steps(c) && !rc && !x.done && !x.fail; step++) {
        struct chat_prompt next = {0};
        buf_reset(&conv);
        talk_write(&x.talk, 0, &conv);
        rc = chat_tokens(p->chat, session_model(s)->tok, conv.data, conv.len, NULL, true,
                         CHAT_PLAIN, NULL, &next, e);
        if (rc && step) { /* the template cannot render what the model did */
            x.fail = "the template refuses the conversation";
            rc = 0;
        } else if (!rc && step && next.ids.n >= session_get_opts(s)->n_ctx) {
            x.fail = "the context is full";
        } else if (!rc) {
            const struct asked q = {&next.ids, next.text.data};
            answer_release(a);
            rc = answer_prompt(s, p, c, &q, max_tokens, keep, out, a, &out->ended[i], e);
            if (!rc) rc = loop_step(&x, a, out->ended[i], &trace, e);
        }
        chat_prompt_release(&next);
    }
    a->loop = true;
    a->trace = trace;
    if (!rc) rc = judge_loop(&x, c, a, &out->verdict[i], e);
    loop_free(x.world);
    talk_release(&x.talk);
    buf_release(&conv);
    return rc;
}

/* Generates the answer to case i, or takes it from the cache, and judges it. */
static int answer_case(struct session *s, const struct suite_plan *p, int i, int64_t max_tokens,
                       const struct results_cache_of *keep, struct suite_answers *out,
                       struct err *e) {
    const struct suite_case *c = &p->suite->c[p->index[i]];
    const struct asked q = {&p->prompt[i], p->text[i]};
    if (c->loop) return run_loop(s, p, i, max_tokens, keep, out, e);
    TRY(answer_prompt(s, p, c, &q, max_tokens, keep, out, &out->answer[i], &out->ended[i], e));
    return answer_judge(c, &out->answer[i], &out->verdict[i], e);
}

int eval_suite(struct session *s, const struct suite_plan *p, int64_t max_tokens,
               const struct results_cache_of *keep, struct suite_answers *out, struct err *e) {
    struct progress prog = {0};
    int64_t n_passed = 0;
    int rc = 0;
    *out = (struct suite_answers){.n = p->n};
    out->answer = xcalloc((size_t)p->n, sizeof *out->answer);
    out->verdict = xcalloc((size_t)p->n, sizeof *out->verdict);
    out->ended = xcalloc((size_t)p->n, sizeof *out->ended);
    progress_begin(&prog, "suite", PROG_ITEMS, (uint64_t)p->n);
    for (int i = 0; i < p->n && !rc; i++) {
        rc = answer_case(s, p, i, max_tokens, keep, out, e);
        n_passed += out->verdict[i].pass;
        snprintf(prog.note, sizeof prog.note, "%" PRId64 " of %d passed", n_passed, i + 1);
        progress_update(&prog, (uint64_t)(i + 1));
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    progress_end(&prog);
    if (rc) suite_answers_release(out);
    return rc;
}

void suite_answers_release(struct suite_answers *a) {
    for (int i = 0; i < a->n; i++) {
        answer_release(&a->answer[i]);
        verdict_release(&a->verdict[i]);
    }
    tool_tally_release(&a->overruled);
    free(a->answer);
    free(a->verdict);
    free(a->ended);
    memset(a, 0, sizeof *a);
}
