// SPDX-License-Identifier: MIT
/* jobs/eval_replay.c - hone eval traffic: compares recorded answers with a model's (eval_replay.h).
 * Each turn follows the recorded history, so one difference does not cause the next. Model and base
 * are never in memory together. */
#include "jobs/eval_replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/printable.h"
#include "runtime/generate/run_set.h"
#include "serve/replay.h"
#include "serve/serve.h"
#include "text/schema.h"
#include "text/textfile.h"

enum { MOST_LINES = 100000, MOST_DIFFS = 4, LEAST_ANSWER = 256, STEPS = 64 };

/* ---- the record ---- */

struct line {
    const char *s;
    size_t n;
    struct json *json;
    const struct json *answer; /* last message; NULL: a text completion */
    struct json *calls;        /* the answer's calls, a list of {"name", "arguments"} */
    int step;                  /* number of tool results before the answer */
};
struct lines {
    char *text;
    struct line *v;
    int n, n_open;             /* lines; answers left out because they are incomplete */
    long long n_torn, torn_at; /* lines that are not JSON, and the number of the first */
    struct err torn;           /* error of that line */
};

static void lines_close(struct lines *l) {
    for (int i = 0; i < l->n; i++) {
        json_free(l->v[i].json);
        json_free(l->v[i].calls);
    }
    free(l->v);
    free(l->text);
}

/* Converts the calls of a message to the form of the tool-call parser; arguments may be JSON text.
 */
static int read_calls(struct line *l, const char *what, struct err *e) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_arr(&w, NULL);
    for (const struct json *c = json_first(json_get(l->answer, "tool_calls")); c;
         c = json_next(c)) {
        const struct json *fn = json_get(c, "function"), *args = json_get(fn ? fn : c, "arguments");
        struct json *parsed = NULL;
        struct err ignored;
        if (json_str(args) &&
            json_parse(&parsed, json_str(args), strlen(json_str(args)), "", &ignored) == 0)
            args = parsed;
        jw_obj(&w, NULL);
        jw_copy(&w, "name", json_get(fn ? fn : c, "name"));
        jw_copy(&w, "arguments", args);
        jw_end(&w);
        json_free(parsed);
    }
    jw_end(&w);
    const int rc = json_parse(&l->calls, b.data, b.len, what, e);
    buf_release(&b);
    return rc;
}

/* Returns whether an answer failed or its client left; such answers cannot be compared. */
static bool is_open(const struct json *j) {
    const char *end = json_str(json_get(json_get(j, "hone"), "end"));
    return end && (strcmp(end, "failed") == 0 || strcmp(end, "left") == 0);
}

/* Adds a line of the record; skips one that was cut off. */
static int add_line(struct lines *l, const char *s, size_t n, long long no, const char *what,
                    struct err *e) {
    struct line x = {.s = s, .n = n};
    struct err torn;
    if (json_parse(&x.json, s, n, what, &torn)) { /* a line cut off when the server was killed */
        if (!l->n_torn++) l->torn = torn, l->torn_at = no;
        return 0;
    }
    if (is_open(x.json) || l->n == MOST_LINES) {
        l->n_open++;
        json_free(x.json);
        return 0;
    }
    for (const struct json *m = json_first(json_get(x.json, "messages")); m; m = json_next(m)) {
        const char *role = json_str(json_get(m, "role"));
        x.answer = m;
        x.step += role && strcmp(role, "tool") == 0;
    }
    const int rc = read_calls(&x, what, e);
    if (rc) {
        json_free(x.json);
        return rc;
    }
    l->v = xreallocarray(l->v, (size_t)l->n + 1, sizeof *l->v);
    l->v[l->n++] = x;
    return 0;
}

/* Reads a record. ERR_DATA: it has no complete answer. */
static int lines_open(struct lines *l, const char *path, struct err *e) {
    size_t len = 0;
    long long no = 0;
    TRY(text_read_file(&l->text, &len, path, e));
    for (const char *p = l->text, *end = l->text + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        char what[512];
        snprintf(what, sizeof what, "%s: line %lld", path, ++no);
        if (strspn(p, " \t\r") < n) TRY(add_line(l, p, n, no, what, e));
        p += n + (nl != NULL);
    }
    if (l->n && l->n_torn)
        log_warn("%s: %lld line%s torn and skipped, the first is line %lld", path, l->n_torn,
                 l->n_torn == 1 ? " is" : "s are", l->torn_at);
    if (!l->n && l->n_torn) return err_set(e, ERR_DATA, "%s", l->torn.msg);
    return l->n ? 0 : err_set(e, ERR_DATA, "%s: this record has no complete answer", path);
}

/* ---- differences between answers ---- */

enum kind { SAME, WORDING, ARGUMENTS, TOOL, MISSING, EXTRA, INVALID, THINKING, FAILED, KINDS };
static const struct {
    const char *key, *title;
} kinds[KINDS] = {{"same", "the same"},
                  {"wording", "other wording"},
                  {"arguments", "other arguments"},
                  {"tool", "another tool"},
                  {"missing", "a call is missing"},
                  {"extra", "an extra call"},
                  {"invalid", "a call that violates its schema"},
                  {"thinking", "reasoning without an answer"},
                  {"failed", "was not answered"}};
/* Returns whether an answer of this kind counts as unchanged. */
static bool is_kept(enum kind k) {
    return k == SAME || k == WORDING;
}

struct seen { /* a new answer */
    struct replay a;
    enum kind kind;
    struct buf detail;       /* description of the difference */
    char own[100], was[100]; /* first different token: new, recorded */
};

/* Appends a JSON value, shortened; "nothing" for NULL. */
static void put_value(struct buf *out, const struct json *v) {
    struct buf b = {0};
    if (!v) {
        buf_str(out, "nothing");
        return;
    }
    json_write(&b, v);
    buf_str(out, show_n(b.data, b.len).s);
    buf_release(&b);
}

/* Appends up to MOST_DIFFS differences of two values, as "PATH: old -> new". */
static void put_diff(struct buf *out, int *n, const char *path, const struct json *was,
                     const struct json *now) {
    char at[160];
    if (*n >= MOST_DIFFS || (was && now && json_equal(was, now))) return;
    if (json_type(was) != JSON_OBJ || json_type(now) != JSON_OBJ) {
        buf_fmt(out, "%s%s: ", (*n)++ ? "; " : "", path);
        put_value(out, was);
        buf_str(out, " -> ");
        put_value(out, now);
        return;
    }
    for (const struct json *m = json_first(was); m; m = json_next(m)) {
        snprintf(at, sizeof at, "%.90s.%.60s", path, json_name(m));
        put_diff(out, n, at, m, json_get(now, json_name(m)));
    }
    for (const struct json *m = json_first(now); m; m = json_next(m)) {
        snprintf(at, sizeof at, "%.90s.%.60s", path, json_name(m));
        if (!json_get(was, json_name(m))) put_diff(out, n, at, NULL, m);
    }
}

/* Returns the parameters' schema of the named tool. NULL: unknown tool or no schema. */
static const struct json *schema_of(const struct json *j, const char *name) {
    for (const struct json *t = json_first(json_get(j, "tools")); t; t = json_next(t)) {
        const struct json *fn = json_get(t, "function");
        const char *own = json_str(json_get(fn ? fn : t, "name"));
        if (own && strcmp(own, name) == 0) return json_get(fn ? fn : t, "parameters");
    }
    return NULL;
}

/* Returns whether a call violates its tool's schema. Unreadable schemas allow every call. */
static bool is_invalid(const struct json *j, const struct json *calls, struct buf *why) {
    for (const struct json *c = json_first(calls); c; c = json_next(c)) {
        const char *name = json_str(json_get(c, "name"));
        const struct json *schema = name ? schema_of(j, name) : NULL;
        struct err ignored;
        struct buf place = {0};
        bool ok = true;
        if (schema && schema_check(schema, json_get(c, "arguments"), &ok, &place, &ignored))
            ok = true;
        if (!ok) buf_fmt(why, "%s: %s", name, place.data ? place.data : "");
        buf_release(&place);
        if (!ok) return true;
    }
    return false;
}

/* Compares the calls; returns the kind of the first difference, described in out. */
static enum kind compare_calls(const struct json *was, const struct json *now, struct buf *out) {
    const struct json *a = json_first(was), *b = json_first(now);
    int n = 0;
    enum kind k = SAME;
    for (; a && b; a = json_next(a), b = json_next(b)) {
        const char *x = json_str(json_get(a, "name")), *y = json_str(json_get(b, "name"));
        if (!x || !y || strcmp(x, y) != 0) {
            buf_reset(out);
            buf_fmt(out, "%s -> %s", x ? x : "?", y ? y : "?");
            return TOOL;
        }
        if (json_equal(json_get(a, "arguments"), json_get(b, "arguments"))) continue;
        k = ARGUMENTS;
        put_diff(out, &n, x, json_get(a, "arguments"), json_get(b, "arguments"));
    }
    if (!a && !b) return k;
    const char *name = json_str(json_get(a ? a : b, "name"));
    buf_reset(out);
    buf_str(out, name ? name : "?");
    return a ? MISSING : EXTRA;
}

/* Returns the recorded answer's text. */
static const char *content_of(const struct line *l) {
    const char *own = json_str(json_get(json_get(l->json, "hone"), "content"));
    const char *text = own ? own : json_str(json_get(l->answer, "content"));
    return text ? text : "";
}

/* Classifies how the answer differs from the recorded one. */
static void judge_answer(const struct line *l, struct seen *x) {
    struct json *now = NULL;
    struct err ignored;
    const char *said = x->a.content.data ? x->a.content.data : "";
    if (x->a.failed) {
        x->kind = FAILED;
        buf_str(&x->detail, x->a.why);
        return;
    }
    if (x->a.calls.data) (void)json_parse(&now, x->a.calls.data, x->a.calls.len, "calls", &ignored);
    x->kind = compare_calls(l->calls, now, &x->detail);
    if (x->kind == MISSING && x->a.thinking) x->kind = THINKING;
    if (x->kind != SAME && json_first(now)) {
        struct buf why = {0};
        if (is_invalid(l->json, now, &why)) {
            x->kind = INVALID;
            buf_reset(&x->detail);
            buf_str(&x->detail, why.data);
        }
        buf_release(&why);
    }
    if (x->kind == SAME && strcmp(said, content_of(l)) != 0)
        x->kind = x->a.thinking ? THINKING : WORDING;
    json_free(now);
}

/* ---- a model ---- */

struct side {
    const char *path;
    struct seen *v; /* [n] */
    int n;
    double seconds;
    int64_t n_out, n_prompt, n_cached;
};

static void side_release(struct side *s) {
    for (int i = 0; i < s->n; i++) {
        replay_release(&s->v[i].a);
        buf_release(&s->v[i].detail);
    }
    free(s->v);
}

/* Returns the context length, in tokens, that the longest recorded conversation needs, with a
 * margin for this model's different tokenizer; at most `trained`. */
static int64_t longest(const struct lines *l, const int *index, int n, int64_t trained) {
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        const struct json *own = json_get(l->v[index[i]].json, "hone"),
                          *use = json_get(own, "usage");
        int64_t prompt = 0, out = 0, max = -1;
        if (!json_i64(json_get(use, "prompt_tokens"), &prompt))
            prompt = (int64_t)l->v[index[i]].n / 2;
        (void)json_i64(json_get(use, "output_tokens"), &out);
        (void)json_i64(json_get(json_get(own, "ask"), "max_tokens"), &max);
        const int64_t room = max_i64(LEAST_ANSWER, 4 * out);
        most = max_i64(most, prompt + prompt / 4 + (max >= 0 ? min_i64(max, room) : room));
    }
    most = min_i64((most + 255) / 256 * 256, max_i64(trained, 256));
    return most;
}

/* Writes a token's text for display; id -1: the end of the text. */
static void token_text(const struct tok *t, int32_t id, char out[100]) {
    struct buf b = {0};
    if (id >= 0) tok_decode(t, id, true, &b);
    snprintf(out, 100, "%s", id < 0 ? "(end)" : show_n(b.data ? b.data : "", b.len).s);
    buf_release(&b);
}

/* Sends all selected requests to the server and judges the answers. */
static int ask_all(struct server *s, const struct model *m, const struct replay_opts *o,
                   const struct lines *l, const int *index, struct side *x, struct err *e) {
    const double t0 = progress_now_s();
    for (int i = 0; i < x->n; i++) {
        const struct line *line = &l->v[index[i]];
        TRY(progress_interrupted() ? err_set(e, ERR_INTR, "interrupted") : 0);
        if (replay_ask(s, line->json, !o->sampled, &x->v[i].a, e))
            return err_wrap(e, "%s: answer %d", o->record, index[i] + 1);
    }
    replay_finish(s);
    x->seconds = progress_now_s() - t0;
    for (int i = 0; i < x->n; i++) {
        struct seen *v = &x->v[i];
        judge_answer(&l->v[index[i]], v);
        if (v->a.parted >= 0) {
            token_text(m->tok, v->a.own, v->own);
            token_text(m->tok, v->a.was, v->was);
        }
        x->n_out += v->a.n_out;
        x->n_prompt += v->a.n_prompt;
        x->n_cached += v->a.n_cached;
    }
    return 0;
}

/* Opens a session and a server in this process, and sends it all requests. */
static int ask_in_session(struct work *w, const struct replay_opts *o, struct model *m,
                          const struct lines *l, const int *index, struct side *x, struct err *e) {
    struct session *s = NULL;
    struct server *server = NULL;
    struct run_set set;
    struct session_opts so = {.isa = w->isa,
                              .device = w->device,
                              .pack = true,
                              .pack_cache = w->pack_cache,
                              .guests = true,
                              .whole = true};
    TRY(run_set_init(&set, m->gguf, e));
    TRY(kv_type_parse(o->eval.kv_type, "--kv-type", &so.kv_k, &so.kv_v, e));
    TRY(act_parse(o->eval.act, &so.act, e));
    TRY(work_pool(w, e));
    so.pool = w->pool;
    so.n_ctx = o->eval.ctx ? o->eval.ctx : longest(l, index, x->n, m->hp.d[HD_CTX]);
    TRY(session_new(&s, m, &so, e));
    const uint64_t one = session_seq_bytes(s, so.n_ctx) + session_seq_bytes(s, 1);
    struct serve_file f = {.id = "m",
                           .file = io_base(x->path),
                           .path = x->path,
                           .type = "",
                           .n_ctx = so.n_ctx,
                           .sample = set.sample,
                           .seed = -1};
    struct serve_core core = {
        .m = m, .s = s, .context_bytes = max_u64(4 * one, (uint64_t)256 << 20)};
    const struct serve_opts opts = {.file = &f,
                                    .n_files = 1,
                                    .load = serve_load_ready,
                                    .load_ud = &core,
                                    .n_max = -1,
                                    .n_think = -1,
                                    .n_live = 4,
                                    .n_queue = MOST_LINES,
                                    .max_step_s = 60};
    int rc = gguf_chat_template(m->gguf, &f.tmpl, e);
    if (!f.tmpl) f.tmpl = "";
    if (!rc) rc = serve_new(&server, &opts, e);
    if (!rc) rc = ask_all(server, m, o, l, index, x, e);
    serve_free(server);
    session_free(s);
    return rc;
}

/* Opens the model of a side and sends it all requests. */
static int ask_model(struct work *w, const struct replay_opts *o, const struct lines *l,
                     const int *index, int n, struct side *x, struct err *e) {
    struct model *m = NULL;
    x->v = xcalloc((size_t)n, sizeof *x->v);
    x->n = n;
    TRY(model_open(&m, x->path, e));
    int rc = model_use_pre(m, o->eval.pre, e);
    if (!rc) rc = model_need_tok(m, e);
    if (!rc) rc = ask_in_session(w, o, m, l, index, x, e);
    model_close(m);
    return rc;
}

/* ---- the result ---- */

struct result {
    const struct replay_opts *o;
    const struct lines *l;
    const int *index;
    struct side model, base;
    bool has_base;
};

/* Returns the number of unchanged answers. */
static int64_t n_kept(const struct side *s) {
    int64_t n = 0;
    for (int i = 0; i < s->n; i++) n += is_kept(s->v[i].kind);
    return n;
}

/* Returns the two-sided p-value of McNemar's exact test for a and b discordant pairs. */
static double by_chance(int64_t a, int64_t b) {
    const int64_t n = a + b, least = min_i64(a, b);
    double p = 0;
    for (int64_t k = 0; k <= least; k++)
        p += exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) -
                 (double)n * log(2));
    return n ? fmin(2 * p, 1) : 1;
}

/* Adds the table of how the answers changed, by kind. */
static void emit_kinds(struct emit *m, const struct result *r) {
    emit_table(m, "kinds", "");
    emit_col(m, "kind", NULL);
    emit_col(m, "about", "");
    emit_col(m, "n", "answers");
    emit_col(m, "base_n", r->has_base ? "base" : NULL);
    for (int k = 0; k < KINDS; k++) {
        int64_t n = 0, n_base = 0;
        for (int i = 0; i < r->model.n; i++) {
            n += r->model.v[i].kind == (enum kind)k;
            n_base += r->has_base && r->base.v[i].kind == (enum kind)k;
        }
        if (!n && !n_base && k > WORDING) continue;
        emit_row(m);
        emit_cell_str(m, kinds[k].key);
        emit_cell_str(m, kinds[k].title);
        emit_cell_i64(m, n);
        if (r->has_base)
            emit_cell_i64(m, n_base);
        else
            emit_cell_none(m);
    }
}

/* Returns the first tool called in the recorded answer, or "". */
static const char *tool_of(const struct line *l) {
    const char *name = json_str(json_get(json_first(l->calls), "name"));
    return name ? name : "";
}

/* Emits the number of kept answers by called tool. */
static void emit_tools(struct emit *m, const struct result *r) {
    emit_table(m, "tools", "by the tool that was called");
    emit_col(m, "tool", "tool");
    emit_col(m, "n", "answers");
    emit_col(m, "kept", "kept");
    for (int i = 0; i < r->model.n; i++) {
        const char *name = tool_of(&r->l->v[r->index[i]]);
        int64_t n = 0, kept = 0;
        bool first = true;
        for (int k = 0; k < r->model.n; k++) {
            if (strcmp(tool_of(&r->l->v[r->index[k]]), name) != 0) continue;
            first = first && k >= i;
            n++;
            kept += is_kept(r->model.v[k].kind);
        }
        if (!first) continue;
        emit_row(m);
        emit_cell_str(m, *name ? show_n(name, strlen(name)).s : "(none)");
        emit_cell_i64(m, n);
        emit_cell_i64(m, kept);
    }
}

/* Emits the number of kept answers by the number of tool results before them. */
static void emit_steps(struct emit *m, const struct result *r) {
    emit_table(m, "steps", "by number of tool results before the answer");
    emit_col(m, "step", "results");
    emit_col(m, "n", "answers");
    emit_col(m, "kept", "kept");
    for (int step = 0; step <= STEPS; step++) { /* last row: STEPS or more */
        int64_t n = 0, kept = 0;
        for (int i = 0; i < r->model.n; i++) {
            const int at = r->l->v[r->index[i]].step;
            if (at != step && !(step == STEPS && at > STEPS)) continue;
            n++;
            kept += is_kept(r->model.v[i].kind);
        }
        if (!n) continue;
        emit_row(m);
        emit_cell_i64(m, step);
        emit_cell_i64(m, n);
        emit_cell_i64(m, kept);
    }
}

/* Adds the table of answers; without --all only the changed ones. */
static void emit_answers(struct emit *m, const struct result *r) {
    emit_table(m, "answers", r->o->all ? "answers" : "answers that changed (--all: every answer)");
    emit_col(m, "id", "id");
    emit_col(m, "kind", "what");
    emit_col(m, "detail", "recorded -> now");
    emit_col(m, "parted_at", "first other token");
    emit_col(m, "was", "it was");
    emit_col(m, "was_p", "p");
    emit_col(m, "now", "is now");
    emit_col(m, "now_p", "p");
    emit_col(m, "comparable", NULL);
    emit_col(m, "n_out", NULL);
    emit_col(m, "base_kind", r->has_base ? "base" : NULL);
    for (int i = 0; i < r->model.n; i++) {
        const struct seen *x = &r->model.v[i];
        const char *id = json_str(json_get(r->l->v[r->index[i]].json, "id"));
        if (!r->o->all && x->kind == SAME && x->a.parted < 0) continue;
        emit_row(m);
        emit_cell_str(m, id ? show_n(id, strlen(id)).s : "");
        emit_cell_str(m, kinds[x->kind].key);
        emit_cell_str(m, x->detail.len ? x->detail.data : NULL);
        if (x->a.parted < 0) {
            for (int k = 0; k < 5; k++) emit_cell_none(m);
        } else {
            emit_cell_i64(m, x->a.parted);
            emit_cell_str(m, x->was);
            emit_cell_num(m, x->a.p_was, 3);
            emit_cell_str(m, x->own);
            emit_cell_num(m, x->a.p_own, 3);
        }
        emit_cell_bool(m, x->a.comparable);
        emit_cell_i64(m, x->a.n_out);
        if (r->has_base)
            emit_cell_str(m, kinds[r->base.v[i].kind].key);
        else
            emit_cell_none(m);
    }
}

static void emit_result(struct emit *m, const struct result *r) {
    const int64_t kept = n_kept(&r->model);
    int64_t same = 0, comparable = 0, lost = 0, gained = 0;
    for (int i = 0; i < r->model.n; i++) {
        const struct seen *x = &r->model.v[i];
        comparable += x->a.comparable;
        same += x->a.comparable && x->a.parted < 0 && !x->a.failed;
        if (!r->has_base) continue;
        lost += is_kept(r->base.v[i].kind) && !is_kept(x->kind);
        gained += !is_kept(r->base.v[i].kind) && is_kept(x->kind);
    }
    emit_str(m, "model", "model", r->o->model);
    emit_str(m, "record", "record", r->o->record);
    emit_i64(m, "n_answers", "answers", r->model.n);
    emit_i64(m, "n_left_out", r->l->n_open ? "left out, not complete" : NULL, r->l->n_open);
    emit_i64(m, "n_kept", "kept", kept);
    emit_num(m, "kept_rate", "kept, share", (double)kept / (double)r->model.n, 4);
    emit_i64(m, "n_comparable", NULL, comparable);
    emit_i64(m, "n_same_tokens", "of the same tokens", same);
    if (r->has_base) {
        emit_str(m, "base", "base", r->o->eval.base);
        emit_i64(m, "n_base_kept", "kept by the base", n_kept(&r->base));
        emit_i64(m, "n_lost", "kept by the base only", lost);
        emit_i64(m, "n_gained", "kept by the model only", gained);
        emit_num(m, "by_chance", "probability of such a split by chance", by_chance(lost, gained),
                 4);
    }
    emit_bool(m, "sampled", NULL, r->o->sampled);
    emit_i64(m, "prompt_tokens", NULL, r->model.n_prompt);
    emit_i64(m, "cached_tokens", NULL, r->model.n_cached);
    emit_i64(m, "tokens_made", NULL, r->model.n_out);
    emit_num(m, "seconds", "seconds", r->model.seconds, 3);
    emit_kinds(m, r);
    emit_tools(m, r);
    emit_steps(m, r);
    emit_answers(m, r);
}

const struct replay_opts eval_replay_usual = {.eval = {.kv_type = KV_USUAL, .act = ACT_FAST},
                                              .require = (double)NAN};

int eval_replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e) {
    struct lines l = {0};
    struct result r = {.o = o, .l = &l, .model.path = o->model, .base.path = o->eval.base};
    r.has_base = o->eval.base != NULL;
    int *index = NULL, n = 0;
    int rc = lines_open(&l, o->record, e);
    if (!rc) {
        n = o->n_cases > 0 && o->n_cases < l.n ? (int)o->n_cases : l.n;
        index = xcalloc((size_t)n, sizeof *index);
        for (int i = 0; i < n; i++) index[i] = (int)((int64_t)i * l.n / n);
        r.index = index;
        if (r.has_base) rc = eval_check_model(&o->eval, o->eval.base, e);
    }
    if (!rc) rc = ask_model(w, o, &l, index, n, &r.model, e);
    if (!rc && r.has_base) rc = ask_model(w, o, &l, index, n, &r.base, e);
    if (!rc) {
        emit_result(m, &r);
        const double percent = 100 * (double)n_kept(&r.model) / (double)n;
        if (percent < o->require)
            rc = err_set(e, ERR_VERDICT, "%.2f %% of the answers are kept, %.9g %% are required",
                         percent, o->require);
    }
    side_release(&r.model);
    side_release(&r.base);
    free(index);
    lines_close(&l);
    return rc;
}
