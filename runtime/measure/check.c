// SPDX-License-Identifier: MIT
/* runtime/measure/check.c - the checks of evaluation suites: a table of content checks, then tool
 * calls, which are judged in grades. No answer of a model makes a check return an error; only a
 * malformed check does. */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/printable.h"
#include "text/re.h"
#include "text/schema.h"
#include "runtime/measure/suite_int.h"

static const char blank[] = " \t\r\n";

/* Returns s without surrounding whitespace; *n is its length. */
static const char *trim(const char *s, size_t *n) {
    s += strspn(s, blank);
    *n = strlen(s);
    while (*n && strchr(blank, s[*n - 1])) --*n;
    return s;
}

/* ---- content ---- */

/* Returns NULL if v is a string, otherwise a description of the problem. */
static const char *need_text(const struct json *v) {
    return json_str(v) ? NULL : "must be a string";
}
/* Returns a clause that describes the error in a text or a list of texts; NULL: valid. Empty texts
 * are invalid, since every answer contains "". */
static const char *need_texts(const struct json *v) {
    if (json_str(v)) return *json_str(v) ? NULL : "must not be empty";
    if (json_type(v) != JSON_ARR || !json_first(v)) return "must be a string or a list of strings";
    for (const struct json *x = json_first(v); x; x = json_next(x))
        if (!json_str(x) || !*json_str(x)) return "must contain only non-empty strings";
    return NULL;
}
/* Returns NULL if v may be a JSON Schema, otherwise a description of the problem. */
static const char *need_schema(const struct json *v) {
    enum json_type t = json_type(v);
    return t == JSON_OBJ || t == JSON_BOOL ? NULL : "must be a schema";
}

/* Checks that the content equals the text v, ignoring surrounding space; if not, appends the reason
 * to why. */
static int run_exact(const struct json *v, const struct answer *a, bool *ok, struct buf *why,
                     struct err *e) {
    size_t n, m;
    const char *have = trim(a->content, &n), *want = trim(json_str(v), &m);
    (void)e;
    *ok = n == m && memcmp(have, want, n) == 0;
    if (!*ok) buf_fmt(why, "the answer is '%s'", show_n(have, n).s);
    return 0;
}

/* Sets *ok to whether the answer contains every text of v (wanted) or none of them; why: the first
 * text that fails. */
static int each_text(const struct json *v, const struct answer *a, bool wanted, bool *ok,
                     struct buf *why) {
    const struct json *x = json_type(v) == JSON_ARR ? json_first(v) : v;
    *ok = true;
    for (; x && *ok; x = json_type(v) == JSON_ARR ? json_next(x) : NULL) {
        *ok = (strstr(a->content, json_str(x)) != NULL) == wanted;
        if (!*ok)
            buf_fmt(why, "'%s' is %s", show_n(json_str(x), strlen(json_str(x))).s,
                    wanted ? "not in the answer" : "in the answer");
    }
    return 0;
}
/* Checks that the content contains the text or all texts of v; if not, appends the reason to
 * why. */
static int run_contains(const struct json *v, const struct answer *a, bool *ok, struct buf *why,
                        struct err *e) {
    (void)e;
    return each_text(v, a, true, ok, why);
}
/* Checks that the content contains no text of v; if it does, appends the reason to why. */
static int run_excludes(const struct json *v, const struct answer *a, bool *ok, struct buf *why,
                        struct err *e) {
    (void)e;
    return each_text(v, a, false, ok, why);
}

/* Checks that the regex v matches in the content; if not, appends the reason to why. */
static int run_regex(const struct json *v, const struct answer *a, bool *ok, struct buf *why,
                     struct err *e) {
    enum re_answer r;
    TRY(re_search(json_str(v), a->content, strlen(a->content), &r, e));
    *ok = r == RE_YES;
    if (!*ok) buf_str(why, r == RE_NO ? "no match" : "the search took too long");
    return 0;
}

/* Returns the contents of a ```json ... ``` block, which models like to write, if that is the whole
 * text; otherwise the text itself. */
static const char *unfence(const char *s, size_t *n) {
    s = trim(s, n);
    if (*n < 6 || strncmp(s, "```", 3) != 0 || strncmp(s + *n - 3, "```", 3) != 0) return s;
    const char *nl = memchr(s, '\n', *n - 3);
    if (!nl) return s;
    *n -= (size_t)(nl - s) + 3;
    return nl;
}

/* Checks that the content is JSON that satisfies the schema v; if not, appends the reason to
 * why. */
static int run_json(const struct json *v, const struct answer *a, bool *ok, struct buf *why,
                    struct err *e) {
    size_t n;
    struct json *value;
    struct err bad;
    const char *s = unfence(a->content, &n);
    *ok = false;
    if (json_parse(&value, s, n, "the answer", &bad)) {
        buf_str(why, bad.msg);
        return 0;
    }
    int rc = schema_check(v, value, ok, why, e);
    json_free(value);
    return rc;
}

/* Returns NULL if v is a list of keys, otherwise a description of the problem. */
static const char *need_keys(const struct json *v) {
    return json_str(v) ? "must be a list of strings" : need_texts(v);
}

/* Checks that the content is a JSON object whose keys are those of v, in this order; if not,
 * appends the reason to why. */
static int run_fields(const struct json *v, const struct answer *a, bool *ok, struct buf *why,
                      struct err *e) {
    size_t n;
    struct json *value;
    struct err bad;
    const char *s = unfence(a->content, &n);
    (void)e;
    *ok = false;
    if (json_parse(&value, s, n, "the answer", &bad)) {
        buf_str(why, bad.msg);
        return 0;
    }
    const struct json *k = json_type(value) == JSON_OBJ ? json_first(value) : NULL,
                      *want = json_first(v);
    for (; k && want && strcmp(json_name(k), json_str(want)) == 0; k = json_next(k))
        want = json_next(want);
    *ok = !k && !want;
    if (!*ok && want)
        buf_fmt(why, "'%s' is not where it is expected",
                show_n(json_str(want), strlen(json_str(want))).s);
    else if (!*ok)
        buf_str(why, "a key too many");
    json_free(value);
    return 0;
}

/* Returns NULL if v is true or false, otherwise a description of the problem. */
static const char *need_bool(const struct json *v) {
    return json_type(v) == JSON_BOOL ? NULL : "must be true or false";
}

/* Checks whether the answer has reasoning, as v demands; if not, appends the reason to why. */
static int run_reasoning(const struct json *v, const struct answer *a, bool *ok, struct buf *why,
                         struct err *e) {
    const char *r = json_str(json_get(a->json, "reasoning"));
    const bool has = r && r[strspn(r, blank)] != 0;
    (void)e;
    *ok = has == json_bool(v, false);
    if (!*ok) buf_str(why, has ? "the answer has reasoning" : "the answer has no reasoning");
    return 0;
}

const struct check check_table[] = {
    {"exact", need_text, run_exact},         {"contains", need_texts, run_contains},
    {"excludes", need_texts, run_excludes},  {"regex", need_text, run_regex},
    {"json_schema", need_schema, run_json},  {"fields", need_keys, run_fields},
    {"reasoning", need_bool, run_reasoning},
};
const int check_count = (int)COUNT_OF(check_table);

/* ---- tool calls ---- */

const struct json *expect_first(const struct json *x) {
    return json_type(x) == JSON_ARR ? json_first(x) : json_type(x) == JSON_OBJ ? x : NULL;
}
const struct json *expect_next(const struct json *x, const struct json *call) {
    return json_type(x) == JSON_ARR ? json_next(call) : NULL;
}
int64_t expect_len(const struct json *x) {
    return json_type(x) == JSON_ARR ? json_len(x) : json_type(x) == JSON_OBJ;
}

const struct json *case_tool(const struct json *c, const char *name) {
    for (const struct json *t = json_first(json_get(c, "tools")); t; t = json_next(t)) {
        const struct json *f = json_get(t, "function") ? json_get(t, "function") : t;
        const char *n = json_str(json_get(f, "name"));
        if (n && name && strcmp(n, name) == 0) return f;
    }
    return NULL;
}

const struct json *parameters_of(const struct json *tool) {
    const struct json *s = json_get(tool, "parameters");
    return json_type(s) == JSON_NULL ? NULL : s;
}

bool is_expected(const struct suite_case *c, const char *name) {
    for (const struct json *k = expect_first(c->expect); k; k = expect_next(c->expect, k)) {
        const char *n = json_str(json_get(k, "name"));
        if (n && strcmp(n, name) == 0) return true;
    }
    return false;
}

int call_valid(const struct suite_case *c, const struct json *call, bool *ok, struct buf *why,
               struct err *e) {
    const char *name = json_str(json_get(call, "name"));
    const struct json *tool = case_tool(c->json, name), *schema = parameters_of(tool);
    struct err ignored;
    *ok = tool && !schema;
    if (!tool) buf_fmt(why, "no tool '%s' is offered", name ? show_n(name, strlen(name)).s : "");
    if (schema && c->record && !is_expected(c, name) && schema_sound(schema, &ignored)) *ok = true;
    return schema && !*ok ? schema_check(schema, json_get(call, "arguments"), ok, why, e) : 0;
}

/* Compares a call's arguments with the expectation: they must equal its "arguments" or satisfy its
 * "schema". */
static int call_equal(const struct json *want, const struct json *call, bool *ok, struct buf *why,
                      struct err *e) {
    const struct json *args = json_get(want, "arguments"), *have = json_get(call, "arguments");
    *ok = true;
    if (json_get(want, "schema")) return schema_check(json_get(want, "schema"), have, ok, why, e);
    for (const struct json *m = json_first(args); m && *ok; m = json_next(m)) {
        const struct json *h = json_get(have, json_name(m));
        *ok = h && json_equal(m, h);
        if (!*ok)
            buf_fmt(why, "argument '%s' is %s", show_n(json_name(m), strlen(json_name(m))).s,
                    h ? "another value" : "missing");
    }
    if (*ok && json_len(have) != json_len(args)) {
        *ok = false;
        buf_str(why, "unexpected arguments");
    }
    return 0;
}

/* Sets the verdict's reason unless an earlier check set it. */
static void first_reason(struct verdict *v, const char *what, const struct buf *why) {
    if (!v->why.len) buf_fmt(&v->why, "%s: %s", what, why->len ? why->data : "");
}

int calls_judge(const struct suite_case *c, const struct answer *a, struct verdict *v,
                struct err *e) {
    const struct json *calls = json_get(a->json, "tool_calls"), *want = expect_first(c->expect);
    int64_t n = json_len(calls), n_want = expect_len(c->expect);
    struct buf why = {0};
    int rc = 0;
    v->parsed = v->valid = n_want ? n > 0 : n == 0;
    v->named = v->equal = n == n_want;
    for (const struct json *k = json_first(calls); k && !rc && n_want; k = json_next(k)) {
        const char *name = json_str(json_get(k, "name")), *w = json_str(json_get(want, "name"));
        bool ok = false;
        buf_reset(&why);
        rc = call_valid(c, k, &ok, &why, e);
        if (!ok) first_reason(v, "not valid", &why);
        v->valid = v->valid && ok;
        v->named = v->named && name && w && strcmp(name, w) == 0;
        buf_reset(&why);
        if (!rc && v->named) rc = call_equal(want, k, &ok, &why, e);
        if (v->named && !ok) first_reason(v, "not equal", &why);
        v->equal = v->equal && v->named && ok;
        want = want ? expect_next(c->expect, want) : NULL;
    }
    buf_release(&why);
    if (!v->why.len && !v->parsed)
        buf_str(&v->why, n_want ? "no call" : "a call where none is expected");
    if (!v->why.len && !v->named) buf_str(&v->why, "not the expected tools");
    return rc;
}
