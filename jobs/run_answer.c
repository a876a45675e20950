// SPDX-License-Identifier: MIT
/* jobs/run_answer.c - generation of an answer: renders and tokenizes the conversation, generates,
 * and parses reasoning, content and tool calls (run.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/run.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/str.h"
#include "runtime/engine/kv_type.h"
#include "runtime/generate/drafter.h"
#include "chat/think.h"
#include "template/chat_ends.h"
#include "text/base64.h"
#include "text/complete.h"
#include "work/open.h"

void run_answer_release(struct run_answer *a) {
    ids_release(&a->prompt);
    buf_release(&a->prompt_end);
    gen_answer_release(&a->gen);
    buf_release(&a->part);
    buf_release(&a->text);
    toolparse_free(a->parse);
    memset(a, 0, sizeof *a);
}

int run_check_draft(const struct run_args *a, struct err *e) {
    return a->draft ? drafter_check(a->draft, "--draft", "mtp", e) : 0;
}

int run_start(struct run *r, int64_t n_ctx, struct err *e) {
    struct session_opts o = {.n_ctx = n_ctx,
                             .isa = r->w->isa,
                             .device = r->w->device,
                             .pack = true,
                             .pack_cache = r->w->pack_cache};
    TRY(kv_type_parse(r->a.kv_type, "--kv-type", &o.kv_k, &o.kv_v, e));
    TRY(act_parse(r->a.act, &o.act, e));
    TRY(work_pool(r->w, e));
    o.pool = r->w->pool;
    TRY(run_grammar(r, e));
    TRY(session_new(&r->s, r->m, &o, e));
    if (r->a.draft) TRY(draft_new(&r->draft, r->s, r->a.draft, e));
    TRY(gen_new(&r->gen, r->s, r->draft, e));
    gen_set_pictures(r->gen, r->pictures);
    return 0;
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

void run_add_turn(struct run *r, const char *text, size_t len) {
    struct str_list *images = &r->a.image;
    if (images->n)
        talk_add_images(&r->talk, images->v, images->n, text, len);
    else
        talk_add(&r->talk, "user", text, len);
    images->n = 0;
}

/* Limits the size of images, so that one too large for the context is refused before the tower
 * runs. */
static void limit_pictures(struct run *r) {
    const int64_t n_ctx = r->gen         ? gen_n_ctx(r->gen)
                          : r->a.ctx > 0 ? r->a.ctx
                                         : max_i64(r->m->hp.d[HD_CTX], 0);
    pictures_limit(r->pictures, r->a.image_tokens, n_ctx,
                   pictures_params(r->pictures)->max_pixels
                       ? "shrink it with --image-tokens N, or try a larger --ctx"
                       : "try a larger --ctx");
}

/* Opens the projector file, unless it is open. */
static int open_pictures(struct run *r, struct err *e) {
    char *found = NULL;
    if (r->pictures) return 0;
    TRY(work_pool(r->w, e));
    if (!r->a.mmproj) TRY(pictures_need(r->m, r->path, &found, e));
    const char *path = r->a.mmproj ? r->a.mmproj : found;
    log_info("images are read by %s", path);
    const int rc = pictures_open(&r->pictures, path, r->m, r->w->pool, r->w->isa, e);
    free(found);
    if (!rc) limit_pictures(r);
    return rc;
}

int run_add_image(struct run *r, const char *path, struct err *e) {
    char *bytes = NULL;
    size_t n = 0;
    int index;
    TRY(open_pictures(r, e));
    TRY(io_read_file(&bytes, &n, path, IMAGE_MAX_BYTES, e));
    const int rc = pictures_add(r->pictures, bytes, n, &index, e);
    if (rc) {
        free(bytes);
        return err_wrap(e, "%s", path);
    }
    pictures_let_go(r->pictures, index);
    struct buf source = {0};
    if (picture_files_keep(&r->files, path, bytes, n)) {
        buf_str(&source, path);
    } else { /* earlier turns have an image of this name */
        buf_str(&source, "data:;base64,");
        base64_encode(&source, bytes, n);
    }
    work_list_add(r->w, &r->a.image, arena_strndup(&r->w->mem, source.data, source.len));
    buf_release(&source);
    free(bytes);
    return 0;
}

void run_forget_images(struct run *r) {
    picture_files_release(&r->files);
}

/* Renders and tokenizes a conversation, whose images are computed. */
static int tokens_of(struct run *r, const struct buf *doc, const char *kwargs, bool gen,
                     struct chat_prompt *p, struct err *e) {
    const struct pictures_prompt how = {r->chat, r->m->tok, kwargs, gen, r->a.special};
    struct chat_images im;
    struct buf bare = {0};
    int rc = chat_images_take(doc->data, doc->len, &im, &bare, e);
    if (!rc && !im.n)
        rc = chat_tokens(r->chat, r->m->tok, doc->data, doc->len, kwargs, gen, r->a.special, NULL,
                         p, e);
    else if (!rc)
        rc = open_pictures(r, e);
    if (!rc && im.n)
        rc = pictures_tokens(r->pictures, &im, &r->files, &how, bare.data, bare.len, p, e);
    if (!rc && r->gen) gen_set_pictures(r->gen, r->pictures);
    chat_images_release(&im);
    buf_release(&bare);
    return rc;
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
    if (!rc) rc = tokens_of(r, &doc, kwargs, gen, &p, e);
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

/* Returns the length of the prefix that the next turn's prompt will share: up to the generation
 * prompt, because the reasoning that follows may be dropped later. -1: none. */
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

/* Passes new text of the answer to the view, or to the parser of calls. */
static void on_text(void *ud, const char *s, size_t n) {
    struct run_answer *a = ud;
    const size_t before = a->text.len;
    text_complete(&a->text, &a->part, s, n);
    if (a->text.len == before) return;
    if (a->parse) toolparse_feed(a->parse, a->text.data + before, a->text.len - before);
    if (a->parse && !a->r->a.raw)
        a->r->view.update(a->r->view.ud, a->parse, a->gen.n_drawn);
    else
        a->r->view.text(a->r->view.ud, a->text.data + before, a->text.len - before);
}

/* Creates the parser for the answer and feeds it the text so far. */
static int new_parse(struct run *r, struct run_answer *a, struct err *e) {
    enum tool_think think = toolfmt_think_of(r->fmt, a->prompt_end.data);
    const char *tools = r->talk.tools;
    toolparse_free(a->parse);
    a->parse = NULL;
    /* Streamed text cannot wait for a closing tag that may never come. */
    if (think == TOOL_THINK_UNKNOWN && r->shown && !r->a.raw) think = TOOL_THINK_NONE;
    TRY(toolparse_new(&a->parse, r->fmt, tools, tools ? strlen(tools) : 0, think, e));
    if (!tools) toolparse_no_calls(a->parse);
    if (r->grammar && !r->a.schema) toolparse_exact(a->parse);
    const char *opened = toolfmt_opened(r->fmt, a->prompt_end.data);
    if (opened) toolparse_opened(a->parse, opened);
    if (!r->a.strict_calls && !r->grammar) toolparse_allow_loose(a->parse);
    toolparse_feed(a->parse, a->text.data ? a->text.data : "", a->text.len);
    return 0;
}

/* Parses the generated text. */
static int read_answer(struct run *r, struct run_answer *a, struct err *e) {
    size_t shown;
    text_complete(&a->text, &a->part, NULL, 0);
    TRY(new_parse(r, a, e));
    (void)toolparse_content(a->parse, &shown); /* so that toolparse_rest() starts after it */
    const struct json *doc = toolparse_finish(a->parse);
    a->content = json_str(json_get(doc, "content"));
    a->reasoning = json_str(json_get(doc, "reasoning"));
    a->calls = json_get(doc, "tool_calls");
    return 0;
}

/* Fills in the options for generating; special: show control tokens. */
static void set_options(struct run *r, struct run_answer *a, bool special, struct gen_opts *o) {
    *o = (struct gen_opts){.sample = r->set.sample,
                           .n_max = r->set.n,
                           .special = special,
                           .stop = r->a.stop.v,
                           .n_stop = r->a.stop.n,
                           .end = r->chat ? tok_end_text(r->m->tok) : NULL,
                           .constrain = run_constrain(r, r->chat ? a->prompt_end.data : NULL),
                           .sink = on_text,
                           .ud = a};
    a->r = r;
    if (!a->gen.sampler) a->gen.seed = (uint64_t)r->set.seed;
}

/* Generates tokens and text after the prompt and the answer so far. */
static int generate(struct run *r, struct run_answer *a, bool special, int64_t mark,
                    struct err *e) {
    struct ids all = {0};
    struct gen_opts o;
    int64_t n_new = 0;
    set_options(r, a, special, &o);
    for (int64_t i = 0; i < a->prompt.n; i++) ids_add(&all, a->prompt.v[i]);
    for (int64_t i = 0; i < a->gen.ids.n; i++) ids_add(&all, a->gen.ids.v[i]);
    const double t = progress_now_s();
    int rc = gen_prompt(r->gen, &all, mark, &n_new, e);
    a->n_prompt += n_new;
    a->prompt_s += progress_now_s() - t;
    a->gen.stop = GEN_INTERRUPTED;
    if (!rc) rc = gen_run(r->gen, &o, &a->gen, e);
    ids_release(&all);
    return rc;
}

/* Ends the view of an answer, even of an interrupted one. Returns rc, or an error. */
static int finish_answer(struct run *r, struct run_answer *a, int rc, struct err *e) {
    struct err own;
    if (rc && rc != ERR_INTR) return rc;
    if (a->gen.n_drawn || !rc) {
        TRY(read_answer(r, a, &own) ? err_set(e, own.code, "%s", own.msg) : 0);
        if (!r->a.raw)
            r->view.end(r->view.ud, a->reasoning, a->content, a->calls, a->parse);
        else
            r->view.newline(r->view.ud);
    }
    return rc;
}

int run_answer_make(struct run *r, struct run_answer *a, struct err *e) {
    TRY(run_render(r, r->skip, true, &a->prompt, &a->prompt_end, e));
    TRY(new_parse(r, a, e));
    r->view.begin(r->view.ud);
    return finish_answer(r, a, generate(r, a, true, mark_of(r, &a->prompt), e), e);
}

int run_answer_more(struct run *r, struct run_answer *a, const struct ids *prompt, struct err *e) {
    if (prompt) {
        a->prompt.n = 0;
        for (int64_t i = 0; i < prompt->n; i++) ids_add(&a->prompt, prompt->v[i]);
    }
    TRY(new_parse(r, a, e));
    return finish_answer(r, a, generate(r, a, true, -1, e), e);
}

int run_answer_text(struct run *r, struct run_answer *a, struct err *e) {
    r->view.begin(r->view.ud);
    int rc = generate(r, a, false, -1, e);
    text_complete(&a->text, &a->part, NULL, 0);
    a->content = a->text.data ? a->text.data : "";
    a->reasoning = "";
    if (!rc || a->gen.n_drawn) r->view.newline(r->view.ud);
    return rc;
}

/* ---- reports ---- */

/* Returns n / s; 0 if s is not positive. */
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
    const int64_t n = a->gen.n_drawn, n_ctx = gen_n_ctx(r->gen), more = run_most_ctx(r, 2 * n_ctx);
    const bool thinking = r->chat && a->parse && !*a->content && *a->reasoning;
    const char *what = thinking ? "cut while it was thinking" : "cut";
    if (a->gen.stop == GEN_LENGTH && in_chat)
        buf_fmt(out,
                "%s at %" PRId64
                " tokens: /continue resumes it, /set n -1 lets answers end by themselves",
                what, n);
    else if (a->gen.stop == GEN_LENGTH)
        buf_fmt(out,
                "%s at %" PRId64 " token%s: -n %" PRId64
                " lets it continue, -n -1 until the context is full",
                what, n, str_s(n), 4 * max_i64(n, 1));
    else if (a->gen.stop == GEN_CONTEXT && more > n_ctx)
        buf_fmt(out,
                "%s: the context of %" PRId64 " tokens is full; use --ctx %" PRId64
                " for a larger one",
                what, n_ctx, more);
    else if (a->gen.stop == GEN_CONTEXT)
        buf_fmt(out, "%s: the context of %" PRId64 " tokens is full; the model supports no more",
                what, n_ctx);
    else if (a->gen.stop == GEN_INTERRUPTED && in_chat)
        buf_fmt(out, "stopped: /continue resumes it");
}

/* ---- one answer ---- */

enum { DEFAULT_TEXT = 512, DEFAULT_CTX = 8192, MAX_INPUT = 64 << 20 };

static int read_chat_file(struct run *r, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    TRY(io_read_file(&text, &len, r->a.chat, MAX_INPUT, e));
    int rc = talk_parse(&r->talk, text, len, r->a.chat, e);
    free(text);
    return rc;
}

int run_prepare_turns(struct run *r, struct err *e) {
    char *kwargs = NULL;
    bool none = false;
    TRY(chat_from_gguf(&r->chat, r->m->gguf, r->m->tok, e));
    chat_find_ends(r->chat, r->m->tok);
    r->tmpl = gguf_str_or(r->m->gguf, "tokenizer.chat_template", "");
    r->fmt = toolfmt_detect(r->tmpl, strlen(r->tmpl));
    if (!r->fmt) r->fmt = toolfmt_plain();
    if (r->a.chat) TRY(read_chat_file(r, e));
    if (r->a.system) talk_set_system(&r->talk, *r->a.system ? r->a.system : NULL);
    TRY(run_kwargs(r, &kwargs, &none, e));
    free(kwargs);
    if (none)
        log_warn("the model's template has no switch for thinking, so --%s changes nothing",
                 r->a.think ? "think" : "no-think");
    return 0;
}

/* Adds token counts, speeds and sampling options. */
static void emit_counts(const struct run *r, const struct run_answer *a, struct emit *m) {
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
        emit_i64(m, "ended_tokens", "tokens chosen to end in time", n.n_ended);
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

void run_describe(const struct run *r, const struct run_answer *a, bool turn, struct emit *m) {
    emit_str(m, "text", "text", a->text.data ? a->text.data : "");
    if (turn) {
        emit_str(m, "content", NULL, a->content);
        emit_str(m, "reasoning", NULL, a->reasoning);
        struct buf calls = {0};
        json_write_spaced(&calls, a->calls);
        emit_json(m, "tool_calls", NULL, a->calls ? calls.data : "[]");
        buf_release(&calls);
    }
    emit_str(m, "stop", "stop", gen_stop_name(a->gen.stop));
    emit_counts(r, a, m);
}

int64_t run_most_ctx(const struct run *r, int64_t n_ctx) {
    const int64_t most = r->m->hp.d[HD_MOST_CTX];
    return most > 0 ? min_i64(n_ctx, most) : n_ctx;
}

/* Returns the context length for a prompt and its answer; if the answer has no limit, 8192 tokens
 * or twice the prompt. Only with -n N is it more than the model was trained with. */
static int64_t room_for(const struct run *r, int64_t n_prompt) {
    const int64_t trained = r->m->hp.d[HD_CTX], n = r->set.n;
    if (r->a.ctx > 0) return r->a.ctx;
    const int64_t want = n > 0 ? n_prompt + n : max_i64(DEFAULT_CTX, 2 * n_prompt);
    const bool given = r->set.n_given && n > 0;
    return run_most_ctx(r, !given && trained > n_prompt ? min_i64(want, trained) : want);
}

/* Rejects a prompt longer than the context that the model was trained with; with --ctx, only warns.
 */
static int check_trained(const struct run *r, int64_t n_prompt, struct err *e) {
    const int64_t trained = r->m->hp.d[HD_CTX];
    if (trained <= 0 || n_prompt <= trained) return 0;
    if (r->a.ctx < n_prompt)
        return err_set(e, ERR_USAGE,
                       "the prompt has %" PRId64 " tokens, but the model was trained for %" PRId64
                       ": shorten it, or try with --ctx %" PRId64,
                       n_prompt, trained, n_prompt + DEFAULT_TEXT);
    log_warn("the prompt has %" PRId64 " tokens, but the model was trained for %" PRId64, n_prompt,
             trained);
    r->w->warned_context = true;
    return 0;
}

/* Warns of options that change nothing without an image. */
static void warn_no_images(const struct run *r) {
    const char *name = r->a.mmproj ? "mmproj" : r->a.image_tokens ? "image-tokens" : NULL;
    if (name && !r->pictures) log_warn("--%s changes nothing, because there is no image", name);
}

int run_once(struct run *r, const char *text, size_t len, struct run_answer *a, struct err *e) {
    const bool turn = r->chat != NULL;
    if (!turn && !r->set.n_given) r->set.n = DEFAULT_TEXT;
    if (turn && text) run_add_turn(r, text, len);
    if (turn)
        TRY(run_render(r, 0, true, &a->prompt, NULL, e));
    else
        TRY(tok_encode(r->m->tok, text, len, true, true, &a->prompt, e));
    warn_no_images(r);
    TRY(check_trained(r, a->prompt.n, e));
    const int64_t n_ctx = room_for(r, a->prompt.n);
    open_warn_context(r->w, r->m, n_ctx);
    TRY(run_start(r, n_ctx, e));
    return turn ? run_answer_make(r, a, e) : run_answer_text(r, a, e);
}

int run_open(struct run *r, const char *path, struct err *e) {
    r->path = path;
    TRY(model_open(&r->m, path, e));
    TRY(model_use_pre(r->m, r->a.pre, e));
    TRY(model_need_tok(r->m, e));
    if (r->a.mmproj) TRY(pictures_fit_file(r->a.mmproj, r->m, e));
    return run_set_init(&r->set, r->m->gguf, e);
}

void run_close(struct run *r) {
    gen_free(r->gen);
    pictures_free(r->pictures);
    picture_files_release(&r->files);
    run_grammar_free(r);
    draft_free(r->draft);
    session_free(r->s);
    chat_free(r->chat);
    talk_release(&r->talk);
    model_close(r->m);
}
