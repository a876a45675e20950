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
#include "serve/images.h"
#include "serve/preset.h"
#include "serve/server.h"
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

/* ---- the task ---- */

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
        const int64_t turn = a->go_on ? 0 : prompt_turn_end(d, a, &p);
        int64_t mark[ASK_MARKS];
        const int n_marks = a->n_marks;
        for (int i = 0; i < n_marks; i++)
            mark[i] =
                a->mark[i].message < 0 ? p.n_head : prompt_mark_end(d, a, a->mark[i].message, &p);
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
