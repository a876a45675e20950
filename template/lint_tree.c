// SPDX-License-Identifier: MIT
/* template/lint_tree.c - rules on the template's syntax tree: variables, clock, portability. */
#include <stdio.h>
#include <string.h>

#include "template/lint_int.h"

/* Returns the position of the first matching node; -1: none. Lists are walked from their owners, so
 * each is walked once. */
static int64_t find_node(const struct jnode *n, struct jval name,
                         bool (*fits)(const struct jnode *n, struct jval name)) {
    for (; n; n = n->next) {
        if (fits(n, name)) return n->pos;
        const struct jnode *one[] = {n->a, n->b, n->c};
        bool lists = n->kind == JN_MACRO || n->kind == JN_CALLBLOCK || n->kind == JN_GENERATION;
        int64_t pos = -1;
        for (size_t i = 0; i < COUNT_OF(one) && pos < 0; i++) {
            if (!one[i]) continue;
            struct jnode copy = *one[i];
            if (!lists) copy.next = NULL;
            pos = find_node(&copy, name, fits);
        }
        if (pos < 0) pos = find_node(n->list, name, fits);
        if (pos < 0) pos = find_node(n->list2, name, fits);
        if (pos >= 0) return pos;
    }
    return -1;
}
static bool is_name(const struct jnode *n, struct jval name) {
    return n->kind == JN_NAME && n->val.tag == JT_STR && jv_eqs(n->val, name);
}
/* Returns whether a node is a `set` of the name from anything but itself. */
static bool sets(const struct jnode *n, struct jval name) {
    if ((n->kind != JN_SET && n->kind != JN_SETBLOCK) || !n->a || !is_name(n->a, name))
        return false;
    struct jnode value = n->b ? *n->b : (struct jnode){.kind = JN_CONST};
    value.next = NULL;
    return find_node(&value, name, is_name) < 0;
}

void lint_where_name(struct lint_finding *f, const struct jinja *t, struct jval name) {
    int64_t pos = find_node(t->body, name, is_name);
    if (pos >= 0) jx_where(t->src, t->src_len, (uint32_t)pos, &f->line, &f->col);
}

/* Reports the names that the template reads but the renderer does not define. */
static void free_names(struct lint_report *r, const struct jinja *t) {
    static const char *const known[] = {
        "messages",  "tools",     "documents", "add_generation_prompt", "bos_token", "eos_token",
        "unk_token", "pad_token", "caller"};
    for (int i = 0; i < t->n_globals; i++) {
        struct jval n = t->global_name[i];
        struct lint_finding f = {.rule = "UNDECLARED", .severity = LINT_INFO};
        bool given = false;
        lint_where_name(&f, t, n);
        if (jv_is(n, "strftime_now")) {
            f.rule = "CLOCK";
            snprintf(f.outcome, sizeof f.outcome, "static:strftime_now");
            snprintf(f.detail, sizeof f.detail,
                     "the prompt depends on the date, so caches are invalid every day");
            lint_found(r, &f);
        }
        for (size_t k = 0; k < COUNT_OF(known); k++) given = given || jv_is(n, known[k]);
        if (given || jlib_global(n) || find_node(t->body, n, sets) >= 0) continue;
        snprintf(f.outcome, sizeof f.outcome, "static:%.*s", (int)(n.len > 100 ? 100 : n.len),
                 n.u.s);
        snprintf(f.detail, sizeof f.detail, "a variable that callers may pass");
        lint_found(r, &f);
    }
}

/* ---- what other engines do not have ---------------------------------------------------------- */

/* Returns whether n calls the variable or macro `name`. */
static bool calls_name(const struct jnode *n, struct jval name) {
    return n->kind == JN_CALL && n->a && is_name(n->a, name);
}
/* Returns whether a node is s[::-1]. */
static bool reversed(const struct jnode *n, const struct jinja *t) {
    UNUSED(t);
    const struct jnode *step = n->b && n->b->kind == JN_SLICE ? n->b->c : NULL;
    return step && (step->kind == JN_NEG ||
                    (step->kind == JN_CONST && step->val.tag == JT_INT && step->val.u.i < 0));
}
/* Returns whether n calls a method of this name. */
static bool calls(const struct jnode *n, const char *method) {
    return n->a && n->a->kind == JN_ATTR && jv_is(n->a->val, method);
}
/* Returns whether n calls the method index(). */
static bool index_call(const struct jnode *n, const struct jinja *t) {
    UNUSED(t); /* `if loop.index` is not a call */
    return calls(n, "index");
}
/* Returns whether n calls replace() with a count. */
static bool replace_count(const struct jnode *n, const struct jinja *t) {
    UNUSED(t);
    return n->n > 2 && calls(n, "replace");
}
/* Returns whether n calls split() or rsplit() with a limit. */
static bool split_count(const struct jnode *n, const struct jinja *t) {
    UNUSED(t);
    return n->n > 1 && (calls(n, "split") || calls(n, "rsplit"));
}
/* Returns whether n has more than two arguments. */
static bool filter_count(const struct jnode *n, const struct jinja *t) {
    UNUSED(t);
    return n->n > 2;
}
/* Returns whether a node is a value rather than the target of a set or for. */
static bool is_value(const struct jnode *n, const struct jinja *t) {
    const struct jnode *first = n->list;
    while (first && first->kind == JN_TUPLE) first = first->list;
    UNUSED(t);
    return !first || (first->kind != JN_NSREF && !(first->kind == JN_NAME && first->flag));
}
/* Returns whether a node is `set d.x` with a d that is not a namespace. */
static bool makes_namespace(const struct jnode *n, struct jval name) {
    return n->kind == JN_SET && n->a && is_name(n->a, name) && n->b &&
           calls_name(n->b, jv_str("namespace"));
}
/* Returns whether n sets an attribute of a variable that namespace() did not create. */
static bool sets_key(const struct jnode *n, const struct jinja *t) {
    return find_node(t->body, n->val, makes_namespace) < 0;
}
/* Returns whether a node is a macro that calls itself. */
static bool recursive_macro(const struct jnode *n, const struct jinja *t) {
    UNUSED(t);
    return find_node(n->b, n->val, calls_name) >= 0;
}
/* Returns whether n is the operator **, which llama.cpp lacks. */
static bool power(const struct jnode *n, const struct jinja *t) {
    UNUSED(t);
    return n->op == JO_POW;
}
/* Returns whether n is the operator //, which llama.cpp lacks. */
static bool floor_division(const struct jnode *n, const struct jinja *t) {
    UNUSED(t);
    return n->op == JO_FLOORDIV;
}

static const struct {
    enum jkind kind;
    const char *name; /* name of the filter, test or attribute; NULL: any */
    /* Returns whether the node is at fault; NULL: always. */
    bool (*fits)(const struct jnode *n, const struct jinja *t);
    /* what: the construct at fault; NULL: use `name`. note: a remark about it. */
    const char *what, *note;
} portability[] = {
    {JN_FILTER, "items", NULL, NULL, "older minja has no filter items"},
    {JN_FILTER, "safe", NULL, NULL, "unknown to LM Studio's engine as of early 2026"},
    {JN_TEST, "sequence", NULL, NULL, "unknown to LM Studio's engine as of early 2026"},
    {JN_TEST, "sameas", NULL, NULL, "missing in small engines"},
    {JN_TEST, "escaped", NULL, NULL, "missing in small engines"},
    {JN_ATTR, "previtem", NULL, NULL, "older minja has no loop.previtem"},
    {JN_ATTR, "nextitem", NULL, NULL, "older minja has no loop.nextitem"},
    {JN_ITEM, NULL, reversed, "[::-1]", "older minja has no slices with a negative step"},
    {JN_ATTR, "find", NULL, NULL, "llama.cpp never had it"},
    {JN_ATTR, "rfind", NULL, NULL, "llama.cpp never had it"},
    {JN_CALL, NULL, index_call, "index", "llama.cpp never had it"},
    {JN_CALL, NULL, replace_count, "replace(count)", "the count is missing in small engines"},
    {JN_FILTER, "replace", filter_count, "replace(count)", "the count is missing in small engines"},
    {JN_CALL, NULL, split_count, "split(sep, n)", "the limit is missing in small engines"},
    {JN_BIN, NULL, power, "**", "llama.cpp has no power"},
    {JN_BIN, NULL, floor_division, "//", "llama.cpp has no floor division"},
    {JN_TUPLE, NULL, is_value, "tuple", "small engines have no tuples, or treat them as lists"},
    {JN_ATTR, "append", NULL, NULL, "transformers forbids changing lists"},
    {JN_ATTR, "pop", NULL, NULL, "transformers forbids changing lists"},
    {JN_NSREF, NULL, sets_key, "set d.x", "transformers allows it on namespaces only"},
    {JN_FILTER, "from_json", NULL, NULL, "transformers has no such filter"},
    {JN_FILTER, "groupby", NULL, NULL, "missing in small engines"},
    {JN_FILTER, "unique", NULL, NULL, "missing in small engines"},
    {JN_FILTER, "select", NULL, NULL, "missing in small engines"},
    {JN_GENERATION, NULL, NULL, "block", "{% generation %} is transformers' own"},
    {JN_CALLBLOCK, NULL, NULL, "block", "{% call %} is missing in small engines"},
    {JN_FILTERBLOCK, NULL, NULL, "block", "{% filter %} is missing in small engines"},
    {JN_MACRO, NULL, recursive_macro, "recursion",
     "a macro that calls itself: missing in small engines"},
};

/* Reports, once each, the constructs that other Jinja engines lack. seen: bits of those
 * reported. */
static void portable(struct lint_report *r, const struct jinja *t, const struct jnode *n,
                     uint64_t *seen) {
    for (; n; n = n->next) {
        for (size_t i = 0; i < COUNT_OF(portability); i++) {
            if (n->kind != portability[i].kind || (*seen >> i & 1)) continue;
            if (portability[i].name && !jv_is(n->val, portability[i].name)) continue;
            if (portability[i].fits && !portability[i].fits(n, t)) continue;
            struct lint_finding f = {.rule = "ENGINE-PORT", .severity = LINT_INFO};
            *seen |= (uint64_t)1 << i;
            jx_where(t->src, t->src_len, n->pos, &f.line, &f.col);
            snprintf(f.outcome, sizeof f.outcome, "static:%s",
                     portability[i].what ? portability[i].what : portability[i].name);
            snprintf(f.detail, sizeof f.detail, "%s", portability[i].note);
            lint_found(r, &f);
        }
        const struct jnode *one[] = {n->a, n->b, n->c};
        for (size_t i = 0; i < COUNT_OF(one); i++) {
            if (!one[i]) continue;
            if (n->kind == JN_MACRO || n->kind == JN_CALLBLOCK || n->kind == JN_GENERATION) {
                portable(r, t, one[i], seen);
                continue;
            }
            struct jnode copy = *one[i];
            copy.next = NULL;
            portable(r, t, &copy, seen);
        }
        portable(r, t, n->list, seen);
        portable(r, t, n->list2, seen);
    }
}

void lint_tree(struct lint_report *r, const struct jinja *t) {
    uint64_t seen = 0;
    portable(r, t, t->body, &seen);
    free_names(r, t);
}
