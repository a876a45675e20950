// SPDX-License-Identifier: MIT
/* runtime/measure/loop.c - the simulated world of a case: rules that match calls, a state of named
 * values, and a goal. All values are borrowed from the case's JSON. */
#include "runtime/measure/loop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/printable.h"
#include "runtime/measure/suite_int.h"
#include "text/schema.h"

enum { MAX_STATE = 64, MAX_RULES = 256 };

struct loop {
    const struct suite_case *c;
    const struct json *spec;             /* the case's "loop" */
    const struct json *state[MAX_STATE]; /* [n] members of objects, with their names */
    int n;
    int64_t used[MAX_RULES]; /* how often each rule has matched */
    const struct json *user; /* the user's next message; NULL: none */
};

/* ---- reading ---- */

static const struct json *spec_of(const struct suite_case *c) {
    return json_get(c->json, "loop");
}

/* Returns ERR_DATA unless the member is an object or missing. */
static int check_object(const struct json *of, const char *name, const char *what, struct err *e) {
    const struct json *v = json_get(of, name);
    if (!v || json_type(v) == JSON_OBJ) return 0;
    return err_set(e, ERR_DATA, "%s: \"loop\": \"%s\" must be an object", what, name);
}

/* Returns ERR_DATA if an object has a member without a meaning: a misspelled one would change what
 * passes. */
static int check_members(const struct json *of, const char *const *name, size_t n, const char *what,
                         struct err *e) {
    struct buf list = {0};
    const struct json *m = json_first(of);
    for (size_t i = 0; m; m = json_next(m)) {
        for (i = 0; i < n && strcmp(json_name(m), name[i]) != 0;) i++;
        if (i == n) break;
    }
    if (!m) return 0;
    for (size_t i = 0; i < n; i++) buf_fmt(&list, "%s%s", i ? ", " : "", name[i]);
    const int rc = err_set(e, ERR_DATA, "%s: \"loop\": '%s' is not one of %s", what,
                           show_n(json_name(m), strlen(json_name(m))).s, list.data);
    buf_release(&list);
    return rc;
}

/* Returns ERR_DATA if a rule has an argument that its tool does not allow. */
static int check_arguments(const struct suite_case *c, const struct json *rule, const char *what,
                           struct err *e) {
    const char *name = json_str(json_get(rule, "name"));
    const struct json *schema = parameters_of(case_tool(c->json, name)),
                      *props = json_get(schema, "properties"),
                      *more = json_get(schema, "additionalProperties");
    TRY(check_object(rule, "arguments", what, e));
    if (json_bool(more, true) || json_get(schema, "patternProperties")) return 0;
    for (const struct json *m = json_first(json_get(rule, "arguments")); m; m = json_next(m))
        if (!json_get(props, json_name(m)))
            return err_set(e, ERR_DATA, "%s: \"loop\": '%s' has no argument '%s'", what,
                           show_n(name, strlen(name)).s,
                           show_n(json_name(m), strlen(json_name(m))).s);
    return 0;
}

/* Checks one rule of "results". */
static int check_rule(const struct suite_case *c, const struct json *rule, const char *what,
                      struct err *e) {
    static const char *const members[] = {"name",  "arguments", "schema", "when",
                                          "times", "set",       "result"};
    const char *name = json_str(json_get(rule, "name"));
    const struct json *times = json_get(rule, "times");
    int64_t n = 0;
    if (!name || !case_tool(c->json, name))
        return err_set(e, ERR_DATA, "%s: \"loop\": a result needs the \"name\" of an offered tool",
                       what);
    if (!json_get(rule, "result"))
        return err_set(e, ERR_DATA, "%s: \"loop\": a result of '%s' has no \"result\"", what,
                       show_n(name, strlen(name)).s);
    TRY(check_members(rule, members, COUNT_OF(members), what, e));
    if (times && (!json_i64(times, &n) || n < 1))
        return err_set(e, ERR_DATA, "%s: \"loop\": \"times\" must be a count", what);
    if (json_get(rule, "schema") && schema_sound(json_get(rule, "schema"), e))
        return err_wrap(e, "%s: \"loop\": a \"schema\"", what);
    TRY(check_arguments(c, rule, what, e));
    TRY(check_object(rule, "when", what, e));
    return check_object(rule, "set", what, e);
}

struct names { /* that the state may have */
    const char *v[MAX_STATE];
    int n;
};

static bool has_name(const struct names *s, const char *name) {
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->v[i], name) == 0) return true;
    return false;
}

/* Adds the names of an object's members. Returns false if they are too many. */
static bool add_names(struct names *s, const struct json *of) {
    for (const struct json *m = json_first(of); m; m = json_next(m)) {
        if (has_name(s, json_name(m))) continue;
        if (s->n == MAX_STATE) return false;
        s->v[s->n++] = json_name(m);
    }
    return true;
}

/* Returns ERR_DATA if a "goal" or "when" has a name that nothing sets. */
static int check_names(const struct names *set, const struct json *of, const char *member,
                       const char *what, struct err *e) {
    for (const struct json *m = json_first(json_get(of, member)); m; m = json_next(m))
        if (!has_name(set, json_name(m)))
            return err_set(
                e, ERR_DATA,
                "%s: \"loop\": \"%s\" has '%s', which neither \"state\" nor a \"set\" has", what,
                member, show_n(json_name(m), strlen(json_name(m))).s);
    return 0;
}

int loop_check(const struct suite_case *c, const char *what, struct err *e) {
    const struct json *spec = spec_of(c), *rules = json_get(spec, "results"),
                      *then = json_get(spec, "then"), *steps = json_get(spec, "max_steps");
    static const char *const members[] = {"results", "state", "goal", "then", "max_steps"};
    struct names set = {.n = 0};
    int64_t n = 0;
    if (json_type(spec) != JSON_OBJ || json_type(rules) != JSON_ARR)
        return err_set(e, ERR_DATA, "%s: \"loop\" must be an object with a list \"results\"", what);
    if (json_type(json_get(c->json, "messages")) != JSON_ARR)
        return err_set(e, ERR_DATA, "%s: a case with \"loop\" needs \"messages\"", what);
    TRY(check_members(spec, members, COUNT_OF(members), what, e));
    if (json_len(rules) > MAX_RULES)
        return err_set(e, ERR_DATA, "%s: \"loop\" has more than %d results", what, MAX_RULES);
    TRY(check_object(spec, "state", what, e));
    TRY(check_object(spec, "goal", what, e));
    bool few = add_names(&set, json_get(spec, "state"));
    for (const struct json *r = json_first(rules); r; r = json_next(r)) {
        TRY(check_rule(c, r, what, e));
        few = few && add_names(&set, json_get(r, "set"));
    }
    if (!few)
        return err_set(e, ERR_DATA, "%s: \"loop\" names more than %d values", what, MAX_STATE);
    bool texts = !then || json_type(then) == JSON_ARR;
    for (const struct json *u = json_first(then); u; u = json_next(u)) texts &= json_str(u) != NULL;
    if (!texts) return err_set(e, ERR_DATA, "%s: \"loop\": \"then\" must be a list of texts", what);
    if (steps && (!json_i64(steps, &n) || n < 1 || n > LOOP_MAX_STEPS))
        return err_set(e, ERR_DATA, "%s: \"loop\": \"max_steps\" must be 1 to %d", what,
                       LOOP_MAX_STEPS);
    for (const struct json *r = json_first(rules); r; r = json_next(r))
        TRY(check_names(&set, r, "when", what, e));
    return check_names(&set, spec, "goal", what, e);
}

int loop_steps(const struct suite_case *c) {
    int64_t n;
    return json_i64(json_get(spec_of(c), "max_steps"), &n) ? (int)n : LOOP_STEPS;
}

int64_t loop_room(const struct suite_case *c, int64_t max_tokens) {
    enum { FRAME = 48 }; /* tokens around an answer and a result */
    struct buf text = {0};
    json_write(&text, spec_of(c));
    const int64_t most = c->max_tokens ? c->max_tokens : max_tokens,
                  n = loop_steps(c) * (2 * most + FRAME) + (int64_t)text.len;
    buf_release(&text);
    return n;
}

/* ---- the state ---- */

/* Returns the value of a name; NULL: not set. */
static const struct json *get(const struct loop *l, const char *name) {
    for (int i = 0; i < l->n; i++)
        if (strcmp(json_name(l->state[i]), name) == 0) return l->state[i];
    return NULL;
}

/* Sets every member of an object in the state. */
static void set_all(struct loop *l, const struct json *of) {
    for (const struct json *m = json_first(of); m; m = json_next(m)) {
        int i = 0;
        while (i < l->n && strcmp(json_name(l->state[i]), json_name(m)) != 0) i++;
        if (i == MAX_STATE) return;
        l->state[i] = m;
        if (i == l->n) l->n++;
    }
}

/* Returns the first member of `want` that the state does not have; null: must not be set. NULL: the
 * state has all. */
static const struct json *first_missing(const struct loop *l, const struct json *want) {
    for (const struct json *m = json_first(want); m; m = json_next(m)) {
        const struct json *have = get(l, json_name(m));
        const bool null = !have || json_type(have) == JSON_NULL;
        if (json_type(m) == JSON_NULL ? !null : !have || !json_equal(m, have)) return m;
    }
    return NULL;
}

struct loop *loop_new(const struct suite_case *c) {
    struct loop *l = xcalloc(1, sizeof *l);
    l->c = c;
    l->spec = spec_of(c);
    l->user = json_first(json_get(l->spec, "then"));
    set_all(l, json_get(l->spec, "state"));
    return l;
}

void loop_free(struct loop *l) {
    free(l);
}

/* ---- calls ---- */

/* Sets *ok to whether a rule matches a call: its name, the arguments that the rule gives, their
 * schema, the state, and how often it may match. */
static int matches(const struct loop *l, const struct json *rule, int64_t used,
                   const struct json *call, bool *ok, struct err *e) {
    const struct json *args = json_get(call, "arguments"), *schema = json_get(rule, "schema");
    const char *name = json_str(json_get(call, "name"));
    struct buf why = {0};
    int64_t times;
    *ok = name && strcmp(name, json_str(json_get(rule, "name"))) == 0;
    if (json_i64(json_get(rule, "times"), &times) && used >= times) *ok = false;
    for (const struct json *m = json_first(json_get(rule, "arguments")); m; m = json_next(m)) {
        const struct json *have = json_get(args, json_name(m));
        if (!have || !json_equal(m, have)) *ok = false;
    }
    if (first_missing(l, json_get(rule, "when"))) *ok = false;
    const int rc = *ok && schema ? schema_check(schema, args, ok, &why, e) : 0;
    buf_release(&why);
    return rc;
}

/* Finds the first rule that matches a call, and its index. *out NULL: none. */
static int find_rule(const struct loop *l, const struct json *call, const struct json **out, int *i,
                     struct err *e) {
    const struct json *rule = json_first(json_get(l->spec, "results"));
    bool ok = false;
    for (*i = 0; rule; rule = json_next(rule), ++*i) {
        TRY(matches(l, rule, l->used[*i], call, &ok, e));
        if (ok) break;
    }
    *out = rule;
    return 0;
}

/* Appends {"error": text}. */
static void put_error(struct buf *out, const char *text) {
    buf_str(out, "{\"error\": ");
    json_quote(out, text, strlen(text));
    buf_chr(out, '}');
}

int loop_call(struct loop *l, const struct json *call, struct buf *result, bool *valid,
              struct err *e) {
    struct buf why = {0};
    const struct json *rule = NULL;
    int i = 0;
    int rc = call_valid(l->c, call, valid, &why, e);
    if (!rc && *valid) rc = find_rule(l, call, &rule, &i, e);
    if (!rc && !*valid)
        put_error(result, why.len ? why.data : "not valid");
    else if (!rc && !rule)
        put_error(result, "nothing found for these arguments");
    if (!rc && rule) {
        const struct json *r = json_get(rule, "result");
        l->used[i]++;
        set_all(l, json_get(rule, "set"));
        if (json_str(r))
            buf_str(result, json_str(r));
        else
            json_write_spaced(result, r);
    }
    buf_release(&why);
    return rc;
}

const char *loop_user(struct loop *l) {
    const struct json *u = l->user;
    if (u) l->user = json_next(u);
    return u ? json_str(u) : NULL;
}

bool loop_reached(const struct loop *l, struct buf *why) {
    const struct json *m = first_missing(l, json_get(l->spec, "goal"));
    if (!m) return true;
    buf_fmt(why, "'%s' is not ", show_n(json_name(m), strlen(json_name(m))).s);
    json_write(why, m);
    return false;
}
