// SPDX-License-Identifier: MIT
/* serve/prepare.c - preparation of requests as tasks: parses JSON, renders the template, tokenizes.
 * Errors in a request are found here, while its HTTP status can still be chosen. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/progress.h"
#include "serve/generic.h"
#include "serve/images.h"
#include "serve/conv_repair.h"
#include "serve/preset.h"
#include "serve/server.h"
#include "chat/think.h"
#include "template/chat_span.h"
#include "text/utf8.h"

/* ---- the body ---- */

/* Parses the request's body, which must be a JSON object. */
static int parse_body(const struct job *j, struct arena *mem, const struct json **out,
                      struct fault *f) {
    static const struct json_opts o = {
        .mend = true}; /* clients may cut a text within a surrogate pair */
    struct err e;
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, which some editors write */
    const char *s = j->body.data ? j->body.data : "";
    size_t n = j->body.len;
    *out = NULL;
    if (n >= 3 && memcmp(s, mark, 3) == 0) s += 3, n -= 3;
    if (utf8_valid_prefix(s, n) < n)
        return fault_set(f, 400, NULL, NULL, "the body is not UTF-8 at byte %zu",
                         utf8_valid_prefix(s, n));
    if (json_parse_in(out, mem, s, n, &o, "the body", NULL, &e))
        return fault_set(f, 400, NULL, NULL, "%s", e.msg);
    if (json_type(*out) == JSON_OBJ) return 0;
    return fault_set(f, 400, NULL, NULL, "the body must be a JSON object");
}

/* Rejects tools whose strings contain NUL, which neither the grammar nor the call parser can
 * represent. */
static int check_tools(const char *tools, struct fault *f) {
    struct json *j = NULL;
    struct err ignored;
    if (!tools || !strstr(tools, "\\u0000")) return 0;
    const int rc = json_parse(&j, tools, strlen(tools), "tools", &ignored);
    json_free(j);
    return rc ? fault_set(f, 400, NULL, "tools", "strings that contain \\u0000 are not supported")
              : 0;
}

int prepare_read(struct served *d, const struct job *j, const struct api *api,
                 const struct json *body, struct ask *a, struct fault *f) {
    ask_init(a, &d->file->sample, d->file->seed, d->server->o.n_max);
    a->think = (enum ask_think)d->server->o.think;
    a->n_think = d->server->o.n_think;
    a->strict_calls = d->server->o.strict_calls;
    a->stream = api->streams;
    a->image_key = d->server->image_key;
    a->sees = images_possible(d);
    if (d->server->o.kwargs) buf_str(&a->kwargs, d->server->o.kwargs);
    int rc = preset_apply(a, d->server->o.presets, body, f);
    const int n_stop = a->n_stop; /* those of the preset */
    a->think_said = false;
    if (!rc) rc = api->read(a, body, f);
    if (!rc && a->n_stop > n_stop) ask_drop_stops(a, n_stop);
    const struct json *said = ask_either(body, "messages", "input"),
                      *tools = ask_either(body, "tools", "functions");
    a->n_messages = json_str(said) ? 1 : json_len(said);
    a->n_tools = json_len(tools);
    if (!rc) rc = check_tools(a->tools, f);
    if (!rc && a->tools) ask_note_schemas(a, body);
    char *filled =
        !rc && a->conv && !a->exact ? history_fill(d->server->restore, j->key, a->conv) : NULL;
    if (filled) {
        free(a->conv);
        a->conv = filled;
    }
    for (int i = 0; i < a->n_bias && !rc; i++)
        if (a->bias[i].id >= d->core.m->hp.d[HD_VOCAB])
            rc = fault_set(f, 400, NULL, "logit_bias", "no such token: %d", a->bias[i].id);
    return rc;
}

/* ---- the prompt ---- */

/* Returns 0, or the fault if n tokens exceed the model's context. */
static int too_long(const struct served *d, int64_t n, struct fault *f) {
    const int64_t n_ctx = session_get_opts(d->core.s)->n_ctx;
    if (n <= n_ctx) return 0;
    fault_set(f, 400, "context_length_exceeded", NULL,
              "This model's maximum context length is %" PRId64
              " tokens. However, your messages resulted in %" PRId64 " tokens.",
              n_ctx, n);
    f->n_prompt = n;
    f->n_ctx = n_ctx;
    return f->status;
}

/* Returns the members of the template's variables, freed by the caller. */
static char *template_kwargs(const struct served *d, const struct ask *a) {
    struct buf b = {0}, all = {0};
    struct err ignored;
    const char *member = a->think == ASK_THINK_AUTO
                             ? NULL
                             : think_member(d->chat, d->tmpl, a->think == ASK_THINK_ON);
    buf_fmt(&b, "{%s}", a->kwargs.data ? a->kwargs.data : "");
    if (!member || think_merge(member, b.data, &all, &ignored)) return buf_take(&b);
    buf_release(&b);
    return buf_take(&all);
}

/* Renders and encodes a conversation; gen: with the answer's beginning. */
static int tokens_of(struct served *d, const struct ask *a, const char *conv, const char *kwargs,
                     bool gen, struct chat_prompt *p, struct err *e) {
    if (a->n_images)
        TRY(images_tokens(d, a, conv, kwargs, gen, p, e));
    else
        TRY(chat_tokens(d->chat, d->core.m->tok, conv, strlen(conv), kwargs, gen,
                        d->server->o.special, NULL, p, e));
    p->refused = !p->ids.n; /* without tokens there is nothing to continue */
    return p->refused ? err_set(e, ERR_DATA, "the template renders these messages as an empty text")
                      : 0;
}

/* Replaces the conversation and takes ownership of `conv`. */
static void take_conv(struct ask *a, char *conv) {
    free(a->conv);
    a->conv = conv;
    a->n_marks = 0; /* they are indices of messages, which have changed */
}

/* Applies a repair step that keeps the number of messages. */
static void mend_conv(struct ask *a, enum conv_repair_step step) {
    const char *what;
    char *conv = conv_repair_conv(a->conv, step, &what);
    if (!conv) return;
    free(a->conv);
    a->conv = conv;
}

/* Adapts the conversation to the limits of the template: generic tool calling, null content, ids of
 * calls. */
static void adapt_conv(const struct served *d, struct ask *a) {
    static const char null[] = "\"content\":null";
    char *conv = d->generic ? generic_conv(a->conv, d->hides_calls) : NULL;
    if (conv) {
        take_conv(a, conv);
        buf_fmt(&a->warned, "%stools, described in the system message", a->warned.len ? ", " : "");
    }
    if (!d->keeps_null && strstr(a->conv, null)) mend_conv(a, MEND_NULL);
    if (toolfmt_numbers(d->fmt) && strstr(a->conv, "\"tool_calls\"")) mend_conv(a, MEND_NUMBERS);
}

/* Returns whether the prompt lacks some system text. If a text is not found in it, renders a marker
 * word in its place to see whether the template changes the text or drops it. */
static bool is_silent(struct served *d, const char *conv, const char *kwargs, bool gen,
                      const struct chat_prompt *p) {
    struct buf words = {0}, text = {0};
    struct err ignored;
    bool silent = false;
    if (conv_repair_shown(conv, p->spans)) return false;
    char *probe = conv_repair_probe(conv, &words);
    if (probe && chat_render_text(d->chat, probe, strlen(probe), kwargs, gen, &text, &ignored) == 0)
        for (char *w = words.data, *end; *w && !silent; w = end + 1) {
            end = strchr(w, '\n');
            *end = 0;
            silent = !text.len || !strstr(text.data, w);
        }
    free(probe);
    buf_release(&words);
    buf_release(&text);
    return silent;
}

/* Applies the n repair steps in `step` one by one, until the template accepts the conversation and
 * renders its system text. Records the changes in a->warned. Returns 0, or nonzero if the template
 * still fails. */
static int render_mended(struct served *d, struct ask *a, const char *kwargs, bool gen,
                         const enum conv_repair_step *step, int n, struct chat_prompt *p) {
    struct buf done = {0};
    struct err ignored;
    char *conv = NULL;
    int rc = -1;
    for (int i = 0; i < n && rc; i++) {
        const char *what;
        char *next = conv_repair_conv(conv ? conv : a->conv, step[i], &what);
        if (!next) continue;
        free(conv);
        conv = next;
        buf_fmt(&done, "%s%s", done.len ? ", " : "", what);
        rc = tokens_of(d, a, conv, kwargs, gen, p, &ignored);
        if (!rc && is_silent(d, conv, kwargs, gen, p)) rc = -1;
    }
    if (!rc) {
        take_conv(a, conv);
        buf_fmt(&a->warned, "%s%s", a->warned.len ? ", " : "", done.data);
        conv = NULL;
    }
    free(conv);
    buf_release(&done);
    return rc;
}

/* Tries other values of reasoning_effort, the nearest first, until the template accepts one.
 * Templates know different values, and many clients always send the same one. Returns 0, or nonzero
 * if the template accepts none. */
static int render_effort(struct served *d, struct ask *a, bool gen, struct chat_prompt *p) {
    static const char *const words[] = {"\"minimal\"", "\"low\"",   "\"medium\"",
                                        "\"high\"",    "\"xhigh\"", "\"max\""};
    static const char name[] = "\"reasoning_effort\": ";
    const char *said = a->kwargs.data ? strstr(a->kwargs.data, name) : NULL;
    const size_t before = a->kwargs.len;
    const int n = (int)COUNT_OF(words);
    struct err ignored;
    int at = 0, rc = -1;
    while (said && at < n && strncmp(said + sizeof name - 1, words[at], strlen(words[at])) != 0)
        at++;
    for (int k = 2; said && at < n && k < 2 * n && rc; k++) {
        const int i = k % 2 ? at - k / 2 : at + k / 2; /* above, below, two above ... */
        if (i < 0 || i >= n) continue;
        ask_kwarg(a, "reasoning_effort", words[i]);
        char *kwargs = template_kwargs(d, a);
        rc = tokens_of(d, a, a->conv, kwargs, gen, p, &ignored);
        free(kwargs);
        if (rc) a->kwargs.data[a->kwargs.len = before] = 0;
    }
    if (!rc) buf_fmt(&a->warned, "%sreasoning effort", a->warned.len ? ", " : "");
    return rc;
}

/* Renders the prompt; if the template fails, repairs the conversation in steps. */
static int render_prompt(struct served *d, struct ask *a, bool gen, struct chat_prompt *p,
                         struct fault *f) {
    struct err e;
    if (!d->chat)
        return fault_set(f, 400, NULL, "messages",
                         "this model has no chat template; use /v1/completions");
    static const enum conv_repair_step all[] = {MEND_NULL,   MEND_IDS,        MEND_ARGUMENTS,
                                                MEND_SYSTEM, MEND_NEIGHBOURS, MEND_RESULTS,
                                                MEND_FIRST,  MEND_THOUGHT,    MEND_NO_SYSTEM},
                                       thought[] = {MEND_THOUGHT},
                                       system[] = {MEND_SYSTEM, MEND_NO_SYSTEM, MEND_NEIGHBOURS};
    a->end_text = a->ignore_eos ? NULL : tok_end_text(d->core.m->tok);
    adapt_conv(d, a);
    char *kwargs = template_kwargs(d, a);
    int rc = tokens_of(d, a, a->conv, kwargs, gen, p, &e);
    const bool refused = rc && p->refused;
    if (refused) rc = render_effort(d, a, gen, p);
    if (rc && refused) rc = render_mended(d, a, kwargs, gen, thought, 1, p);
    if (rc && refused) rc = render_mended(d, a, kwargs, gen, all, (int)COUNT_OF(all), p);
    if (!rc && is_silent(d, a->conv, kwargs, gen, p) &&
        render_mended(d, a, kwargs, gen, system, (int)COUNT_OF(system), p))
        rc = tokens_of(d, a, a->conv, kwargs, gen, p, &e);
    free(kwargs);
    if (rc && e.code == ERR_INTR)
        return fault_set(f, 503, NULL, NULL, "the server is stopping, or the client disconnected");
    return rc ? fault_set(f, 400, NULL, "messages", "%s", e.msg) : 0;
}

static bool is_white(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Returns the end of the text of message i in the prompt, without trailing whitespace; 0: the
 * template does not render it. */
static size_t text_end(const struct chat_prompt *p, int i) {
    char path[48];
    const size_t n = (size_t)snprintf(path, sizeof path, "messages[%d].content", i);
    for (int k = p->spans->n - 1; k >= 0; k--) {
        const struct jinja_span *s = &p->spans->v[k];
        size_t end = s->end;
        if (strncmp(p->spans->origin[s->origin].path, path, n) != 0) continue;
        while (end > s->start && is_white(p->text.data[end - 1])) end--;
        if (end > s->start) return end;
    }
    return 0;
}

/* Renders a prompt that ends inside the last message, without the text that the template writes
 * after that. Sets a->cut. */
static int render_open(struct served *d, struct ask *a, struct chat_prompt *p, struct fault *f) {
    struct err e;
    struct json *j = NULL;
    TRY(render_prompt(d, a, false, p, f));
    if (json_parse_mend(&j, a->conv, strlen(a->conv), "messages", &e)) return 0;
    const struct json *last = json_first(json_get(j, "messages"));
    while (json_next(last)) last = json_next(last);
    const char *text = msg_text(last);
    size_t n = strlen(text);
    while (n && is_white(text[n - 1])) n--;
    free(a->cut);
    a->cut = xstrdup(text + n);
    const size_t end = text_end(p, (int)json_len(json_get(j, "messages")) - 1);
    json_free(j);
    if (!end)
        return fault_set(
            f, 400, NULL, "messages",
            "the template does not render the last message's text, so it cannot be continued");
    if (chat_tokens_cut(p, d->core.m->tok, end, d->server->o.special, &e))
        return fault_set(f, 400, NULL, "messages", "%s", e.msg);
    return 0;
}

int prepare_prompt(struct served *d, struct ask *a, struct chat_prompt *p, struct fault *f) {
    TRY(images_compute(d, a, f));
    if (a->n_images && a->go_on)
        return fault_set(f, 400, NULL, "messages",
                         "an answer cannot be continued if the conversation has images");
    return a->go_on ? render_open(d, a, p, f) : render_prompt(d, a, true, p, f);
}

/* Returns the number of tokens at the start of p that another prompt shares; 0 if it shares all of
 * p. */
static int64_t same_tokens(const struct chat_prompt *other, const struct chat_prompt *p) {
    int64_t n = 0;
    while (n < other->ids.n && n < p->ids.n && other->ids.v[n] == p->ids.v[n]) n++;
    return n < p->ids.n ? n : 0;
}

/* Returns the number of p's tokens up to the end of the messages. What follows them may change with
 * the next turn. */
static int64_t turn_end(struct served *d, struct ask *a, const struct chat_prompt *p) {
    struct chat_prompt closed = {0};
    struct fault ignored;
    const int64_t n = render_prompt(d, a, false, &closed, &ignored) ? 0 : same_tokens(&closed, p);
    chat_prompt_release(&closed);
    return n;
}

/* Returns the number of tokens that p shares with a prompt of only the messages up to `message`,
 * which has a cache_control mark (ask.mark); 0: unknown. */
static int64_t mark_end(struct served *d, const struct ask *a, int message,
                        const struct chat_prompt *p) {
    struct chat_prompt part = {0};
    struct json *j = NULL;
    struct buf conv = {0};
    struct jw w;
    struct err ignored;
    int i = 0;
    if (json_parse_mend(&j, a->conv, strlen(a->conv), "conversation", &ignored)) return 0;
    jw_init(&w, &conv, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    for (const struct json *m = json_first(json_get(j, "messages")); m && i <= message;
         m = json_next(m), i++)
        ask_put(&w, NULL, m);
    jw_end(&w);
    ask_copy(&w, "tools", j, "tools");
    jw_end(&w);
    char *kwargs = template_kwargs(d, a);
    const int rc = tokens_of(d, a, conv.data, kwargs, false, &part, &ignored);
    const int64_t n = rc ? 0 : same_tokens(&part, p);
    chat_prompt_release(&part);
    free(kwargs);
    buf_release(&conv);
    json_free(j);
    return n;
}

/* ---- identity of an answer ---- */

/* Remembers the parts of an answer that clients do not send back. This is done before the answer is
 * sent, because the next request of a tool loop may come within a millisecond and would otherwise
 * recompute it. */
static void choice_ends(struct task *t, const struct reply_choice *c) {
    history_note(t->from->server->restore, t->key, c);
}

/* Counts, records and logs a finished task. */
static void task_done(struct task *t) {
    struct served *d = t->from;
    struct server *s = d->server;
    pthread_mutex_lock(&s->lock);
    s->n_failed += t->failed;
    s->models.v[d->index].n_requests++;
    if (t->ask.unload && s->o.unload) s->models.v[d->index].unload = true;
    pthread_mutex_unlock(&s->lock);
    if (s->o.record) record_task(d, t);
    ledger_task(s, t, t->failed ? t->status : 200);
}

/* Creates the constraints of a task's answers. now: see guards_make(). */
static int guard(struct served *d, struct task *t, bool now, struct fault *f) {
    struct constraint g[ASK_CHOICES] = {{0}};
    const int n = t->reply.n_choices;
    const double begin = progress_now_s();
    const int rc = guards_make(d->guards, &t->ask, t->fmt, t->think, t->opened, now, g, n, f);
    for (int i = 0; i < n && !rc; i++) t->run[i].guard = g[i];
    if (rc || !g[0].c) return rc;
    pthread_mutex_lock(&d->server->lock);
    histogram_add(&d->server->ledger.compile, progress_now_s() - begin, 1);
    pthread_mutex_unlock(&d->server->lock);
    return 0;
}

/* Sets a task's id, seed and callbacks, and the metadata of its reply. */
static void init_reply(struct served *d, struct task *t) {
    job_random_id(t->api->id, t->reply.id);
    t->reply.model = t->ask.model && *t->ask.model ? t->ask.model : d->file->id;
    t->reply.fingerprint = d->fingerprint;
    t->reply.created = (int64_t)time(NULL);
    t->done = task_done;
    t->ends = choice_ends;
    uint64_t seed = (uint64_t)t->ask.seed;
    if (t->ask.seed < 0) {
        (void)os_random(&seed, sizeof seed);
        seed >>= 11; /* every JSON parser reads it exactly */
    }
    t->reply.seed = seed;
}

/* Adds a position at which to keep the prompt's state, unless it is too early or already listed. */
static void add_cut(struct run *r, int64_t at, enum prefix_cache_use use) {
    enum { WORTH = 16 }; /* tokens; computing fewer is cheaper than copying a state */
    if (at < WORTH || at >= r->n_prompt || r->n_cuts == RUN_CUTS) return;
    for (int i = 0; i < r->n_cuts; i++)
        if (r->cut[i].at == at) return;
    r->cut[r->n_cuts].at = at;
    r->cut[r->n_cuts++].use = use;
}

/* Creates the task of a conversation; returns 0 or the fault's HTTP status. */
static int chat_task(struct served *d, struct job *j, const struct api *api, struct ask *a,
                     struct task **out, struct fault *f) {
    struct chat_prompt p = {0};
    int rc = prepare_prompt(d, a, &p, f);
    if (!rc) rc = too_long(d, p.ids.n, f);
    if (!rc) {
        const int64_t turn = a->go_on ? 0 : turn_end(d, a, &p);
        int64_t mark[ASK_MARKS];
        const int n_marks = a->n_marks;
        for (int i = 0; i < n_marks; i++)
            mark[i] = a->mark[i].message < 0 ? p.n_head : mark_end(d, a, a->mark[i].message, &p);
        struct task *t = *out = task_new(j, api, a, &p.ids, 1);
        for (int i = 0; i < t->reply.n_choices; i++) {
            for (int k = 0; k < n_marks; k++) add_cut(&t->run[i], mark[k], PREFIX_HEAD);
            add_cut(&t->run[i], p.n_head, PREFIX_HEAD);
            add_cut(&t->run[i], turn, PREFIX_TURN);
        }
        t->fmt = d->fmt;
        t->think = toolfmt_think_of(d->fmt, p.text.data);
        t->opened = toolfmt_opened(d->fmt, p.text.data);
        if (t->opened) t->think = TOOL_THINK_NONE; /* the prompt has opened a call */
        t->special = true;
    }
    chat_prompt_release(&p);
    return rc;
}

/* Sets the text of a prompt of token ids, for answers that begin with it. */
static void decode_prompt(const struct served *d, struct ask_prompt *p) {
    struct buf text = {0};
    for (int64_t i = 0; i < p->ids.n; i++) tok_decode(d->core.m->tok, p->ids.v[i], true, &text);
    p->len = text.len;
    p->text = buf_take(&text);
}

/* Creates the task of plain prompts; returns 0 or the fault's HTTP status. */
static int text_task(struct served *d, struct job *j, const struct api *api, struct ask *a,
                     struct task **out, struct fault *f) {
    struct ids ids[ASK_PROMPTS] = {{0}};
    struct err e;
    int rc = 0;
    const int n = a->n_prompts;
    for (int i = 0; i < n && !rc; i++) {
        struct ask_prompt *p = &a->prompt[i];
        for (int64_t k = 0; k < p->ids.n && !rc; k++) {
            if (p->ids.v[k] >= d->core.m->hp.d[HD_VOCAB])
                rc = fault_set(f, 400, NULL, "prompt", "no such token: %d", p->ids.v[k]);
            ids_add(&ids[i], p->ids.v[k]);
        }
        if (!rc && p->text && tok_encode(d->core.m->tok, p->text, p->len, true, true, &ids[i], &e))
            rc = fault_set(f, 400, NULL, "prompt", "%s", e.msg);
        if (!rc && !ids[i].n) rc = fault_set(f, 400, NULL, "prompt", "the prompt is empty");
        if (!rc) rc = too_long(d, ids[i].n, f);
        if (!rc && a->echo && !p->text) decode_prompt(d, p);
    }
    if (!rc) *out = task_new(j, api, a, ids, n);
    for (int i = 0; i < n; i++) ids_release(&ids[i]);
    return rc;
}

/* Implements prepare_task(). Without `now`, returns GUARDS_LATER if the grammar of *out still has
 * to be compiled. */
static int make_task(struct served *d, struct job *j, const struct api *api, struct ask *a,
                     bool now, struct task **out, struct fault *f) {
    *out = NULL;
    int rc = a->conv ? chat_task(d, j, api, a, out, f) : text_task(d, j, api, a, out, f);
    if (*out) {
        (*out)->from = d;
        (*out)->freed = models_drop;
        models_hold(d);
    }
    if (!rc) rc = guard(d, *out, now, f);
    if (!rc) init_reply(d, *out);
    if (!rc || rc == GUARDS_LATER) return rc;
    task_free(*out);
    *out = NULL;
    return rc;
}

int prepare_task(struct served *d, struct job *j, const struct api *api, struct ask *a,
                 struct task **out, struct fault *f) {
    return make_task(d, j, api, a, true, out, f);
}

/* Answers a request that has no prompt and only loads or unloads file i. */
static void answer_nothing(struct server *s, int i, struct job *j, const struct api *api,
                           const struct ask *a) {
    struct reply r;
    struct buf b = {0};
    reply_init(&r, a, 1);
    r.model = a->model && *a->model ? a->model : s->o.file[i].id;
    r.created = (int64_t)time(NULL);
    if (a->unload) models_unload(s, i);
    api->whole(&r, &b);
    answer_json(j, &b);
    buf_release(&b);
    reply_release(&r);
}

void later_generate(struct served *d, struct job *j, const struct json *body) {
    const struct api *api = ((const struct route *)j->route)->api;
    struct ask a;
    struct fault f = {0};
    struct task *t = NULL;
    int rc = prepare_read(d, j, api, body, &a, &f);
    if (!rc && !a.nothing) rc = make_task(d, j, api, &a, false, &t, &f);
    if (rc == GUARDS_LATER)
        serve_compile(d->server, t);
    else if (rc)
        route_refuse(d->server, j, &f);
    else if (a.nothing)
        answer_nothing(d->server, d->index, j, api, &a);
    else
        serve_submit(d->server, t);
    ask_release(&a);
}

void prepare_form(struct task *t) {
    struct served *d = t->from;
    struct ctx_cost cost = {.most = limit_of(LIM_GRAMMAR_STEPS), .gone = &t->job->gone};
    struct fault f = {0};
    ctx_cost_enter(&cost);
    const int rc = task_gone(t) ? -1 : guard(d, t, true, &f);
    ctx_cost_enter(NULL);
    if (!rc) {
        init_reply(d, t);
        serve_submit(d->server, t);
        return;
    }
    if (!task_gone(t)) {
        route_refuse(d->server, t->job, &f);
    } else {
        pthread_mutex_lock(&d->server->lock);
        d->server->n_left++;
        pthread_mutex_unlock(&d->server->lock);
    }
    task_free(t);
}

/* ---- choosing the file ---- */

/* Returns the model name given in the body or in the query (decoded into `out`). NULL: not
 * given. */
static const char *named(const struct job *j, const struct json *body, struct buf *out) {
    const bool show = ((const struct route *)j->route)->named != NULL;
    if (body) /* /api/show of older Ollama clients has "name" */
        return json_str(ask_either(body, "model", show ? "name" : "model"));
    const struct http_text t = route_query(j, "model");
    if (!t.s) return NULL;
    http_unescape(t, out);
    return out->data;
}

/* Answers a request that only unloads a file, whether or not it is loaded. Returns false for other
 * requests. */
static bool only_unloads(struct server *s, int i, struct job *j, const struct json *body) {
    const struct api *api = ((const struct route *)j->route)->api;
    static const struct sample_opts any;
    struct ask a;
    struct fault ignored = {0};
    if (json_type(json_get(body, "keep_alive")) == JSON_NULL) return false;
    ask_init(&a, &any, -1, -1);
    const bool does = !api->read(&a, body, &ignored) && a.nothing && a.unload;
    if (does) answer_nothing(s, i, j, api, &a);
    ask_release(&a);
    return does;
}

/* Finds the file for a request and adds a user to it. *out NULL: the request waits until the file
 * is loaded, or has been answered. Returns 0, or the status of an error with *f filled in. */
static int choose(struct server *s, struct job *j, const struct json *body, struct served **out,
                  struct fault *f) {
    const struct route *r = j->route;
    struct buf name = {0};
    int i = 0;
    const int rc = models_find(s, named(j, body, &name), &i, f);
    buf_release(&name);
    if (rc) return rc;
    if (r->named) {
        r->named(s, i, j);
        return 0;
    }
    if (r->api && only_unloads(s, i, j, body)) return 0;
    if (s->o.n_files > 1 && r->later == later_generate &&
        json_bool(json_get(body, "stream"), r->api->streams))
        task_will_stream(j, r->api);
    return models_take(s, i, j, out, f);
}

/* Runs a route's handler with a step limit; it is cancelled if the client leaves. The limit allows
 * for several renderings, as for probes, repairs and partial prompts. */
static void do_later(const struct route *r, struct served *d, struct job *j,
                     const struct json *body) {
    enum { RENDERS = 4 };
    struct ctx_cost cost = {.most = RENDERS * limit_of(LIM_TEMPLATE_STEPS), .gone = &j->gone};
    ctx_cost_enter(&cost);
    r->later(d, j, body);
    ctx_cost_enter(NULL);
}

void prepare_job(struct server *s, const struct handed *h) {
    const struct route *r = h->j->route;
    const struct json *body = NULL;
    struct served *d = h->d;
    struct arena mem;
    struct fault f = {0};
    arena_init(&mem);
    int rc = http_is(h->j->req.method, "POST") ? parse_body(h->j, &mem, &body, &f) : 0;
    if (!rc && !d) rc = choose(s, h->j, body, &d, &f);
    if (rc)
        route_refuse(s, h->j, &f);
    else if (d)
        do_later(r, d, h->j, body);
    if (d) models_drop(d);
    arena_release(&mem);
}
