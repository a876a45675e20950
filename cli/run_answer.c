// SPDX-License-Identifier: MIT
/* cli/run_answer.c - a turn: conversation -> the template's text -> tokens -> text -> reasoning,
 * content and tool calls (run.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"
#include "core/str.h"
#include "runtime/engine/kv_type.h"
#include "chat/think.h"
#include "text/visible.h"

void run_answer_release(struct run_answer *a) {
    ids_release(&a->prompt);
    buf_release(&a->prompt_end);
    gen_answer_release(&a->gen);
    buf_release(&a->part);
    buf_release(&a->text);
    buf_release(&a->calls_text);
    toolparse_free(a->parse);
    free(a->json);
    json_free(a->doc);
    memset(a, 0, sizeof *a);
}

int run_start(struct run *r, int64_t n_ctx, struct err *e) {
    struct session_opts o = {.n_ctx = n_ctx,
                             .isa = r->c->work.isa,
                             .device = r->c->work.device,
                             .pack = true,
                             .pack_cache = r->c->work.pack_cache};
    TRY(kv_type_parse(r->a.kv_type, "--kv-type", &o.kv_k, &o.kv_v, e));
    TRY(act_parse(r->a.act, &o.act, e));
    TRY(work_pool(&r->c->work, e));
    o.pool = r->c->work.pool;
    TRY(run_grammar(r, e));
    TRY(session_new(&r->s, r->m, &o, e));
    if (r->a.draft) TRY(draft_new(&r->draft, r->s, e));
    return gen_new(&r->gen, r->s, r->draft, e);
}

/* ---- prompt ---- */

int run_kwargs(const struct run *r, char **out, bool *none, struct err *e) {
    struct buf b = {0};
    const char *member = NULL;
    *out = NULL;
    *none = false;
    if (r->set.think != THINK_AUTO) {
        member = think_member(r->chat, r->tmpl, r->set.think == THINK_ON);
        *none = !member;
    }
    if (!member) {
        *out = r->a.kwargs ? xstrdup(r->a.kwargs) : NULL;
        return 0;
    }
    TRY(think_merge(member, r->a.kwargs, &b, e));
    *out = buf_take(&b);
    return 0;
}

int run_render(struct run *r, int skip, bool gen, struct ids *out, struct buf *text,
               struct err *e) {
    struct buf doc = {0};
    struct chat_prompt p = {0};
    char *kwargs = NULL;
    bool none;
    out->n = 0;
    talk_write(&r->talk, skip, &doc);
    int rc = run_kwargs(r, &kwargs, &none, e);
    if (!rc)
        rc = chat_tokens(r->chat, r->m->tok, doc.data, doc.len, kwargs, gen, r->a.special, &p, e);
    for (int64_t i = 0; i < p.ids.n && !rc; i++) ids_add(out, p.ids.v[i]);
    if (text) {
        buf_release(text);
        buf_str(text, p.text.data ? p.text.data : "");
    }
    chat_prompt_release(&p);
    free(kwargs);
    buf_release(&doc);
    return rc;
}

/* Where the prompt of the next turn will still be the same: before the template's invitation to
 * answer, behind which reasoning may be dropped later. -1: nowhere. */
static int64_t mark_of(struct run *r, const struct ids *prompt) {
    struct ids closed = {0};
    struct err ignored;
    int64_t n = 0;
    if (!r->lasting || run_render(r, r->skip, false, &closed, NULL, &ignored)) {
        ids_release(&closed);
        return -1;
    }
    while (n < closed.n && n < prompt->n && closed.v[n] == prompt->v[n]) n++;
    ids_release(&closed);
    return n > 0 && n < prompt->n ? n : -1;
}

/* ---- text ---- */

static void on_text(void *ud, const char *s, size_t n) {
    struct run_answer *a = ud;
    const size_t before = a->text.len;
    text_complete(&a->text, &a->part, s, n);
    if (a->text.len == before) return;
    if (a->parse) toolparse_feed(a->parse, a->text.data + before, a->text.len - before);
    if (a->parse && !a->r->a.raw)
        screen_update(&a->r->screen, a->parse, a->gen.n_drawn);
    else
        screen_text(&a->r->screen, a->text.data + before, a->text.len - before);
}

static int new_parse(struct run *r, struct run_answer *a, struct err *e) {
    enum tool_think think = toolfmt_think_of(r->fmt, a->prompt_end.data);
    const char *tools = r->talk.tools;
    toolparse_free(a->parse);
    a->parse = NULL;
    /* what is shown while it comes cannot wait for a closing tag that may never come */
    if (think == TOOL_THINK_UNKNOWN && r->screen.out && !r->a.raw) think = TOOL_THINK_NONE;
    TRY(toolparse_new(&a->parse, r->fmt, tools, tools ? strlen(tools) : 0, think, e));
    toolparse_feed(a->parse, a->text.data ? a->text.data : "", a->text.len);
    return 0;
}

/* What was written, read. A text that cannot be is content. */
static int read_answer(struct run *r, struct run_answer *a, struct err *e) {
    static const char *const names[] = {"content", "reasoning"};
    struct buf out = {0};
    const char *at;
    size_t n;
    text_complete(&a->text, &a->part, NULL, 0);
    TRY(new_parse(r, a, e));
    size_t shown;
    (void)toolparse_content(a->parse, &shown); /* so that the rest begins behind it */
    json_free(a->doc);
    free(a->json);
    a->doc = NULL;
    a->json = NULL;
    buf_reset(&a->calls_text);
    struct err ignored;
    if (toolparse_finish(a->parse, &out, &ignored) == 0)
        (void)json_parse(&a->doc, out.data, out.len, "answer", &ignored);
    a->json = buf_take(&out);
    const char **const text[] = {&a->content, &a->reasoning};
    for (int i = 0; i < 2; i++) {
        const char *s = json_str(json_get(a->doc, names[i]));
        *text[i] = s ? s : "";
    }
    if (!a->doc) a->content = a->text.data ? a->text.data : "";
    a->calls = json_get(a->doc, "tool_calls");
    at = a->doc ? talk_member(a->json, a->doc, "tool_calls", &n) : NULL;
    if (at) buf_add(&a->calls_text, at, n);
    return 0;
}

static void options(struct run *r, struct run_answer *a, bool special, struct gen_opts *o) {
    *o = (struct gen_opts){.sample = r->set.sample,
                           .n_max = r->set.n,
                           .special = special,
                           .stop = r->a.stop.v,
                           .n_stop = r->a.stop.n,
                           .constrain = run_constrain(r, r->chat ? a->prompt_end.data : NULL),
                           .sink = on_text,
                           .ud = a};
    a->r = r;
    if (!a->gen.sampler) a->gen.seed = (uint64_t)r->set.seed;
}

/* Tokens to text, behind the prompt and what a holds already. */
static int generate(struct run *r, struct run_answer *a, bool special, int64_t mark,
                    struct err *e) {
    struct ids all = {0};
    struct gen_opts o;
    int64_t n_new = 0;
    options(r, a, special, &o);
    for (int64_t i = 0; i < a->prompt.n; i++) ids_add(&all, a->prompt.v[i]);
    for (int64_t i = 0; i < a->gen.ids.n; i++) ids_add(&all, a->gen.ids.v[i]);
    const double t = prog_now_s();
    int rc = gen_prompt(r->gen, &all, mark, &n_new, e);
    a->n_prompt += n_new;
    a->prompt_s += prog_now_s() - t;
    a->gen.stop = GEN_INTERRUPTED;
    if (!rc) rc = gen_run(r->gen, &o, &a->gen, e);
    ids_release(&all);
    return rc;
}

static int finish(struct run *r, struct run_answer *a, int rc, struct err *e) {
    struct err own;
    if (rc && rc != ERR_INTR) return rc;
    if (a->gen.n_drawn || !rc) {
        TRY(read_answer(r, a, &own) ? err_set(e, own.code, "%s", own.msg) : 0);
        if (!r->a.raw)
            screen_end(&r->screen, a->reasoning, a->content, a->calls, a->parse);
        else
            screen_newline(&r->screen);
    }
    return rc;
}

int run_answer_make(struct run *r, struct run_answer *a, struct err *e) {
    TRY(run_render(r, r->skip, true, &a->prompt, &a->prompt_end, e));
    TRY(new_parse(r, a, e));
    screen_begin(&r->screen);
    return finish(r, a, generate(r, a, true, mark_of(r, &a->prompt), e), e);
}

int run_answer_more(struct run *r, struct run_answer *a, const struct ids *prompt, struct err *e) {
    if (prompt) {
        a->prompt.n = 0;
        for (int64_t i = 0; i < prompt->n; i++) ids_add(&a->prompt, prompt->v[i]);
    }
    TRY(new_parse(r, a, e));
    return finish(r, a, generate(r, a, true, -1, e), e);
}

int run_answer_text(struct run *r, struct run_answer *a, struct err *e) {
    screen_begin(&r->screen);
    int rc = generate(r, a, false, -1, e);
    text_complete(&a->text, &a->part, NULL, 0);
    a->content = a->text.data ? a->text.data : "";
    a->reasoning = "";
    if (!rc || a->gen.n_drawn) screen_newline(&r->screen);
    return rc;
}

/* ---- what is said about it ---- */

static double per_second(int64_t n, double s) {
    return s > 0 ? (double)n / s : 0;
}

void run_speed(const struct run_answer *a, struct buf *out) {
    const double p = per_second(a->n_prompt, a->prompt_s);
    buf_fmt(out, "%" PRId64 " token%s, %.1f/s; prompt %" PRId64 " token%s", a->gen.n_drawn,
            str_s(a->gen.n_drawn), per_second(a->gen.n_drawn, a->gen.seconds), a->prompt.n,
            str_s(a->prompt.n));
    if (a->n_prompt < a->prompt.n) buf_fmt(out, " (%" PRId64 " new)", a->n_prompt);
    buf_fmt(out, ", %.*f/s", p < 100, p);
    run_overruled(a, out);
    buf_fmt(out, "; seed %" PRIu64, a->gen.seed);
}

void run_cut(const struct run *r, const struct run_answer *a, bool in_chat, struct buf *out) {
    const int64_t n = a->gen.n_drawn, n_ctx = gen_n_ctx(r->gen);
    const bool thinking = r->chat && a->parse && !*a->content && *a->reasoning;
    const char *what = thinking ? "cut while it was thinking" : "cut";
    if (a->gen.stop == GEN_LENGTH && in_chat)
        buf_fmt(out,
                "%s at %" PRId64
                " tokens: /continue goes on, /set n -1 lets answers end by themselves",
                what, n);
    else if (a->gen.stop == GEN_LENGTH)
        buf_fmt(out,
                "%s at %" PRId64 " token%s: -n %" PRId64
                " lets it go on, -n -1 until the context is full",
                what, n, str_s(n), 4 * max_i64(n, 1));
    else if (a->gen.stop == GEN_CONTEXT)
        buf_fmt(out, "%s: the context of %" PRId64 " tokens is full; --ctx %" PRId64 " holds more",
                what, n_ctx, 2 * n_ctx);
    else if (a->gen.stop == GEN_INTERRUPTED && in_chat)
        buf_fmt(out, "stopped: /continue goes on");
}
