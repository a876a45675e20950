// SPDX-License-Identifier: MIT
/* runtime/measure/suite.c - reading and checking of suites, parsing of answers, verdicts. Memory:
 * the file and its JSON. */
#include "runtime/measure/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "template/chat.h"
#include "runtime/measure/loop.h"
#include "runtime/measure/suite_int.h"
#include "chat/tool_int.h"
#include "text/schema.h"
#include "text/utf8.h"
#include "text/textfile.h"

enum { MAX_CASES = 100000, MAX_TOKENS = 1 << 20 };

void suite_checks(struct buf *out) {
    for (int i = 0; i < check_count; i++) buf_fmt(out, "%s, ", check_table[i].name);
    buf_str(out, "tool_call");
}

/* ---- reading ---- */

/* Returns the expected call of a case from either of its two places; NULL: missing. */
static const struct json *find_expect(const struct json *c) {
    const struct json *x = json_get(c, "expect");
    return x ? x : json_get(json_get(c, "checks"), "tool_call");
}

/* Returns ERR_DATA, naming the place `of`, if a schema cannot be used; NULL is accepted. */
static int check_schema(const struct json *schema, const char *what, const char *of,
                        struct err *e) {
    if (!schema || !schema_sound(schema, e)) return 0;
    return err_wrap(e, "%s: %s", what, of);
}

/* Checks the parameters of all tools, since a model may call any of them; of a record, only those
 * that its answer calls. */
static int check_tools(const struct suite_case *c, const char *what, struct err *e) {
    for (const struct json *t = json_first(json_get(c->json, "tools")); t; t = json_next(t)) {
        const struct json *f = json_get(t, "function") ? json_get(t, "function") : t;
        const char *name = json_str(json_get(f, "name"));
        char of[120];
        snprintf(of, sizeof of, "tool '%s'", name ? show_n(name, strlen(name)).s : "");
        if (!c->record || (name && is_expected(c, name)))
            TRY(check_schema(parameters_of(f), what, of, e));
    }
    return 0;
}

/* Returns ERR_DATA unless "expect" has valid calls of offered tools, or is null. */
static int check_expect(const struct suite_case *c, const char *what, struct err *e) {
    enum json_type t = json_type(c->expect);
    if (t != JSON_NULL && t != JSON_OBJ && t != JSON_ARR)
        return err_set(e, ERR_DATA, "%s: \"expect\" must be a call, a list of calls or null", what);
    for (const struct json *k = expect_first(c->expect); k; k = expect_next(c->expect, k)) {
        const char *name = json_str(json_get(k, "name"));
        const struct json *args = json_get(k, "arguments");
        struct buf why = {0};
        bool ok = true;
        int rc = 0;
        if (!name || (json_type(args) != JSON_OBJ) == !json_get(k, "schema"))
            rc = err_set(e, ERR_DATA,
                         "%s: an expected call needs a \"name\" and \"arguments\" or \"schema\"",
                         what);
        else if (args)
            rc = call_valid(c, k, &ok, &why, e);
        else if (!case_tool(c->json, name))
            rc = err_set(e, ERR_DATA, "%s: no tool '%s' is offered", what,
                         show_n(name, strlen(name)).s);
        else
            rc = check_schema(json_get(k, "schema"), what, "\"expect\"", e);
        if (!rc && !ok)
            rc = err_set(e, ERR_DATA, "%s: the expected call of '%s' is not valid: %s", what,
                         show_n(name, strlen(name)).s, why.data);
        buf_release(&why);
        TRY(rc);
    }
    return 0;
}

/* Returns the check of this name; NULL: unknown. */
static const struct check *find_check(const char *name) {
    for (int i = 0; i < check_count; i++)
        if (strcmp(check_table[i].name, name) == 0) return &check_table[i];
    return NULL;
}

/* Runs each check on an empty answer, so that a bad pattern fails at once and not after hours. */
static int check_checks(const struct suite_case *c, const char *what, struct err *e) {
    const struct json *checks = json_get(c->json, "checks");
    const struct answer none = {.content = "null"};
    struct buf text = {0};
    bool ok;
    int rc = 0;
    for (const struct json *k = json_first(checks); k && !rc; k = json_next(k)) {
        const char *name = json_name(k);
        const struct check *row = find_check(name);
        buf_reset(&text);
        if (row && row->malformed(k)) {
            rc = err_set(e, ERR_DATA, "%s: \"%s\" %s", what, name, row->malformed(k));
        } else if (row) {
            if (row->run(k, &none, &ok, &text, e)) rc = err_wrap(e, "%s", what);
            if (!rc && strcmp(name, "json_schema") == 0)
                rc = check_schema(k, what, "\"json_schema\"", e);
        } else if (strcmp(name, "tool_call") != 0) {
            suite_checks(&text);
            rc = err_set(e, ERR_DATA, "%s: the check '%s' is not one of %s", what,
                         show_n(name, strlen(name)).s, text.data);
        }
    }
    buf_release(&text);
    const struct json *goal = json_get(json_get(c->json, "loop"), "goal");
    if (!rc && !c->expect && !json_first(checks) && !json_first(goal))
        rc = err_set(e, ERR_DATA, "%s: neither \"checks\" nor \"expect\"%s", what,
                     c->loop ? ", nor a \"goal\" with values"
                     : json_get(c->json, "hone")
                         ? "; this is a record of hone serve: use --from-answers"
                         : "");
    return rc;
}

/* Reads "stop": a text or a list of texts. */
static int read_stops(struct suite_case *c, const char *what, struct err *e) {
    const struct json *v = json_get(c->json, "stop");
    const bool list = json_type(v) == JSON_ARR;
    if (!v) return 0;
    for (const struct json *s = list ? json_first(v) : v; s; s = list ? json_next(s) : NULL) {
        const char *text = json_str(s);
        if (!text || !*text || strlen(text) > SUITE_STOP_LEN || c->n_stop == SUITE_STOPS)
            return err_set(e, ERR_DATA,
                           "%s: \"stop\" must be a text or a list of at most %d texts, of 1 to %d "
                           "bytes",
                           what, SUITE_STOPS, SUITE_STOP_LEN);
        c->stop[c->n_stop++] = text;
    }
    return 0;
}

/* Reads "id": a text or a number. */
static void read_id(struct suite_case *c, const struct json *id) {
    struct buf number = {0};
    const char *s = json_str(id);
    if (json_type(id) == JSON_NUM) json_write(&number, id);
    if (number.len) s = number.data;
    if (s) snprintf(c->id, sizeof c->id, "%s", show_n(s, strlen(s)).s);
    buf_release(&number);
}

/* Returns ERR_DATA if the tools are no list, or the checks no object. */
static int check_types(const struct suite_case *c, const char *what, struct err *e) {
    const struct json *tools = json_get(c->json, "tools"), *checks = json_get(c->json, "checks");
    if (tools && json_type(tools) != JSON_ARR && json_type(tools) != JSON_NULL)
        return err_set(e, ERR_DATA, "%s: \"tools\" must be a list", what);
    if (checks && json_type(checks) != JSON_OBJ && json_type(checks) != JSON_NULL)
        return err_set(e, ERR_DATA, "%s: \"checks\" must be an object", what);
    return 0;
}

/* Parses one line into c, which has only `record` set. line is kept, not copied; what: its name for
 * errors. */
static int read_case(struct suite_case *c, const char *line, size_t len, const char *what,
                     struct err *e) {
    TRY(json_parse(&c->json, line, len, what, e));
    const struct json *j = c->json, *max = json_get(j, "max_tokens");
    int n_prompts = 0;
    c->line = line;
    c->len = len;
    read_id(c, json_get(j, "id"));
    n_prompts += json_type(json_get(j, "messages")) == JSON_ARR;
    n_prompts += json_str(json_get(j, "prompt")) != NULL;
    n_prompts += json_str(json_get(j, "text")) != NULL;
    if (n_prompts != 1)
        return err_set(e, ERR_DATA, "%s: one of \"messages\", \"prompt\" and \"text\" is needed",
                       what);
    if (max && (!json_i64(max, &c->max_tokens) || c->max_tokens < 1 || c->max_tokens > MAX_TOKENS))
        return err_set(e, ERR_DATA, "%s: \"max_tokens\" is not a count of tokens", what);
    TRY(check_types(c, what, e));
    TRY(read_stops(c, what, e));
    c->expect = find_expect(j);
    c->loop = json_get(j, "loop") != NULL;
    if (c->loop && c->expect)
        return err_set(e, ERR_DATA, "%s: \"loop\" has a goal, not an expected call", what);
    if (json_get(j, "expect") && json_get(json_get(j, "checks"), "tool_call"))
        return err_set(e, ERR_DATA,
                       "%s: \"expect\" and the check \"tool_call\" are the same; give one", what);
    TRY(check_tools(c, what, e));
    if (c->loop) TRY(loop_check(c, what, e));
    TRY(check_expect(c, what, e));
    return check_checks(c, what, e);
}

/* Parses cases, of a record or not, of which the first is on line `no`. */
static int parse(struct suite *s, const char *text, size_t len, bool record, long long no,
                 const char *path, struct err *e) {
    memset(s, 0, sizeof *s);
    s->text = xstrndup(text, len);
    s->len = len;
    int rc = 0;
    long long line_no = no - 1;
    for (const char *p = s->text, *end = s->text + len; p < end && !rc;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        char what[512];
        snprintf(what, sizeof what, "%s: line %lld", path, ++line_no);
        if (strspn(p, " \t\r") < n && s->n == MAX_CASES) {
            rc = err_set(e, ERR_DATA, "%s: more than %d cases", path, MAX_CASES);
        } else if (strspn(p, " \t\r") < n) {
            s->c = xreallocarray(s->c, (size_t)s->n + 1, sizeof *s->c);
            struct suite_case *c = &s->c[s->n++];
            *c = (struct suite_case){.record = record};
            snprintf(c->id, sizeof c->id, "line-%lld", line_no);
            rc = read_case(c, p, n, what, e);
        }
        p += n + (nl != NULL);
    }
    if (!rc && !s->n) rc = err_set(e, ERR_DATA, "%s: contains no case", path);
    if (rc) suite_close(s);
    return rc;
}

int suite_parse(struct suite *s, const char *text, size_t len, const char *path, struct err *e) {
    return parse(s, text, len, false, 1, path, e);
}
int suite_parse_record(struct suite *s, const char *text, size_t len, long long no,
                       const char *path, struct err *e) {
    return parse(s, text, len, true, no, path, e);
}

int suite_open(struct suite *s, const char *path, struct err *e) {
    char *data = NULL;
    size_t len = 0;
    memset(s, 0, sizeof *s);
    TRY(text_read_file(&data, &len, path, e));
    const size_t blank = strspn(data, " \t\r\n");
    int rc = data[blank] == '['
                 ? err_set(e, ERR_DATA,
                           "%s: this is a list, but a suite has one JSON object per line", path)
                 : suite_parse(s, data, len, path, e);
    free(data);
    return rc;
}

void suite_close(struct suite *s) {
    for (int i = 0; i < s->n; i++) json_free(s->c[i].json);
    free(s->c);
    free(s->text);
    memset(s, 0, sizeof *s);
}

int suite_spread(int n_all, int n, int i) {
    return (int)((int64_t)i * n_all / n);
}

/* Returns whether calls are expected of the case. */
static bool needs_calls(const struct suite_case *c) {
    return c->expect || c->loop;
}

bool suite_calls(const struct suite *s) {
    for (int i = 0; i < s->n; i++)
        if (needs_calls(&s->c[i])) return true;
    return false;
}

int suite_drop_calls(struct suite *s) {
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (!needs_calls(&s->c[i])) n++;
    if (!n || n == s->n) return 0;
    const int n_dropped = s->n - n;
    n = 0;
    for (int i = 0; i < s->n; i++) {
        if (needs_calls(&s->c[i]))
            json_free(s->c[i].json);
        else
            s->c[n++] = s->c[i];
    }
    s->n = n;
    return n_dropped;
}

int suite_prompt(const struct suite_case *c, const struct chat *chat, const struct tok *t,
                 struct chat_prompt *out, struct err *e) {
    const char *text = json_str(json_get(c->json, "text")),
               *prompt = json_str(json_get(c->json, "prompt"));
    struct buf conv = {0};
    if (text) {
        buf_str(&out->text, text);
        return tok_encode(t, text, strlen(text), true, true, &out->ids, e);
    }
    if (prompt) {
        buf_str(&conv, "{\"messages\":[{\"role\":\"user\",\"content\":");
        json_quote(&conv, prompt, strlen(prompt));
        buf_str(&conv, "}]");
        for (const struct json *m = json_first(c->json); m; m = json_next(m)) {
            if (strcmp(json_name(m), "prompt") == 0 || strcmp(json_name(m), "messages") == 0)
                continue;
            buf_chr(&conv, ',');
            json_quote(&conv, json_name(m), strlen(json_name(m)));
            buf_chr(&conv, ':');
            json_write(&conv, m);
        }
        buf_chr(&conv, '}');
    } else {
        buf_add(&conv, c->line, c->len);
    }
    int rc = chat_tokens(chat, t, conv.data, conv.len, NULL, true, CHAT_PLAIN, NULL, out, e);
    if (rc) err_wrap(e, "case %s", c->id);
    buf_release(&conv);
    return rc;
}

/* ---- answers ---- */

/* Appends s, with U+FFFD in place of invalid UTF-8 (the answer may be cut inside a character). */
static void clean(struct buf *out, const char *s, size_t n) {
    buf_str(out, "");
    while (n) {
        size_t k = utf8_valid_prefix(s, n);
        buf_add(out, s, k);
        if (k < n) buf_str(out, "\xef\xbf\xbd");
        k += k < n;
        s += k;
        n -= k;
    }
}

/* Returns the first stop text of a case in n bytes of content, or NULL. */
static const char *find_stop(const struct suite_case *c, const char *text, size_t n) {
    const char *first = NULL;
    for (int i = 0; i < c->n_stop; i++) {
        const char *at = memmem(text, n, c->stop[i], strlen(c->stop[i]));
        if (at && (!first || at < first)) first = at;
    }
    return first;
}

/* Begins to parse an answer: feeds its text, but does not say that it ends there. */
static int begin_parse(struct toolparse **out, const struct toolfmt *f, const struct suite_case *c,
                       const struct answer_text *t, struct err *e) {
    const struct json *offered = json_get(c->json, "tools");
    struct buf tools = {0}, in = {0};
    /* No calls are expected, so only the format's reasoning marks matter. */
    if (!f) f = toolfmt_find("hermes-json");
    if (offered) json_write(&tools, offered);
    clean(&in, t->text, t->len);
    enum tool_think think = toolfmt_think_of(f, t->prompt);
    if (think == TOOL_THINK_UNKNOWN) think = TOOL_THINK_NONE; /* a server cannot wait for a tag */
    const int rc = toolparse_new(out, f, tools.data, tools.len, think, e);
    if (!rc) {
        const char *opened = toolfmt_opened(f, t->prompt);
        if (opened) toolparse_opened(*out, opened);
        if (!json_first(offered)) toolparse_no_calls(*out);
        if (!t->strict_calls) toolparse_allow_loose(*out);
        toolparse_feed(*out, in.data, in.len);
    }
    buf_release(&tools);
    buf_release(&in);
    return rc;
}

bool answer_stopped(const struct toolfmt *f, const struct suite_case *c,
                    const struct answer_text *t) {
    struct toolparse *p;
    struct err ignored;
    size_t n;
    if (!find_stop(c, t->text, t->len) || begin_parse(&p, f, c, t, &ignored)) return false;
    const char *sure = toolparse_content(p, &n);
    const bool found = n && find_stop(c, sure, n);
    toolparse_free(p);
    return found;
}

int answer_read(struct answer *a, const struct toolfmt *f, const struct suite_case *c,
                const struct answer_text *t, struct err *e) {
    size_t n;
    memset(a, 0, sizeof *a);
    TRY(begin_parse(&a->parse, f, c, t, e));
    if (t->cut) toolparse_limited(a->parse);
    toolparse_no_more(a->parse);
    const char *text = toolparse_content(a->parse, &n);
    if (t->cut) buf_add(&a->shown, text, n);
    a->json = toolparse_finish(a->parse);
    /* Of an answer that is cut within a call, the content before the call remains. */
    const bool offered = json_first(json_get(c->json, "tools")) != NULL;
    if (!(t->cut && offered && toolparse_broken(a->parse))) {
        buf_reset(&a->shown);
        buf_str(&a->shown, json_str(json_get(a->json, "content")));
    }
    buf_str(&a->shown, "");
    const char *stop = find_stop(c, a->shown.data, a->shown.len);
    if (stop) a->shown.data[stop - a->shown.data] = 0;
    a->content = a->shown.data;
    return 0;
}

void answer_release(struct answer *a) {
    toolparse_free(a->parse);
    buf_release(&a->shown);
    buf_release(&a->trace);
    memset(a, 0, sizeof *a);
}

bool answer_same(const struct answer *a, const struct answer *b) {
    const struct json *x = json_get(a->json, "tool_calls"), *y = json_get(b->json, "tool_calls");
    if (a->trace.len != b->trace.len) return false;
    if (a->trace.len) return memcmp(a->trace.data, b->trace.data, a->trace.len) == 0;
    if (!json_equal(x, y)) return false;
    return json_len(x) > 0 || strcmp(a->content, b->content) == 0;
}

void answer_show(const struct answer *a, struct buf *out) {
    const struct json *calls = json_get(a->json, "tool_calls");
    if (a->loop && a->trace.len) buf_fmt(out, "%s ", a->trace.data);
    for (const struct json *k = json_first(calls); k && !a->loop; k = json_next(k)) {
        const char *name = json_str(json_get(k, "name"));
        buf_fmt(out, "%s%s", k == json_first(calls) ? "" : " ", name ? name : "?");
        json_write(out, json_get(k, "arguments"));
    }
    if (a->loop || !json_first(calls)) json_quote(out, a->content, strlen(a->content));
}

int answer_judge(const struct suite_case *c, const struct answer *a, struct verdict *v,
                 struct err *e) {
    struct buf why = {0};
    int rc = 0;
    memset(v, 0, sizeof *v);
    v->pass = true;
    if (c->expect) {
        rc = calls_judge(c, a, v, e);
        v->pass = v->valid && v->equal;
    }
    const struct json *checks = json_get(c->json, "checks");
    for (const struct json *k = json_first(checks); k && !rc; k = json_next(k)) {
        const struct check *row = find_check(json_name(k));
        bool ok = true;
        buf_reset(&why);
        if (row) rc = row->run(k, a, &ok, &why, e);
        if (!ok && v->pass) buf_fmt(&v->why, "%s: %s", row->name, why.data);
        v->pass = v->pass && ok;
    }
    buf_release(&why);
    if (rc) {
        err_wrap(e, "case %s", c->id);
        verdict_release(v);
    }
    return rc;
}

void verdict_release(struct verdict *v) {
    buf_release(&v->why);
}
