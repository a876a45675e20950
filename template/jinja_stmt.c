// SPDX-License-Identifier: MIT
/* template/jinja_stmt.c - the parser for text, output and statements; expressions are in
 * jinja_parse.c. */
#include "template/jinja_parse.h"

#include <string.h>

enum { MAX_BLOCKS = 100 };

static struct jnode *parse_body(struct jparser *p, const char *const *ends);

/* Parses statements up to one of the end tags (NULL-terminated list); the tag's name remains the
 * current token. */
static struct jnode *statements(struct jparser *p, const char *const *ends) {
    jp_skip(p, TK_COLON);
    jp_expect(p, TK_BLOCK_END);
    if (++p->nest > MAX_BLOCKS) jp_fail(p, "statements are nested too deeply");
    struct jnode *body = parse_body(p, ends);
    p->nest--;
    if (jp_is(p, TK_EOF)) {
        p->c->pos = p->tok->pos;
        jx_fail(p->c, "syntax",
                "Unexpected end of template. Jinja was looking for the following tags: '%s'.",
                ends[0]);
    }
    return body;
}

/* Parses statements up to the tag `end` and moves past its name. */
static struct jnode *statements_to(struct jparser *p, const char *end) {
    const char *const ends[] = {end, NULL};
    struct jnode *body = statements(p, ends);
    jp_next(p);
    return body;
}

/* Marks the names of a target as stored. */
static void check_target(struct jparser *p, struct jnode *n) {
    const char *what = "expression";
    switch ((int)n->kind) {
    case JN_NAME:
        n->flag = true;
        return;
    case JN_NSREF:
        return;
    case JN_TUPLE:
        for (struct jnode *k = n->list; k; k = k->next) check_target(p, k);
        return;
    case JN_CONST:
        what = "const";
        break;
    case JN_LIST:
        what = "list";
        break;
    case JN_DICT:
        what = "dict";
        break;
    default:
        break;
    }
    p->c->pos = n->pos;
    jx_fail(p->c, "syntax", "can't assign to '%s'", what);
}

/* Parses an assignment target; with_ns: also "ns.attr". */
static struct jnode *parse_target(struct jparser *p, const char *end_name, bool with_ns) {
    struct jnode *n =
        jp_tuple(p, (struct jtuple_opts){.simple = true, .with_ns = with_ns, .end_name = end_name});
    check_target(p, n);
    return n;
}

/* Parses a name to assign to; fails for constants such as true. */
static struct jnode *name_target(struct jparser *p) {
    struct jnode *n = jp_name(p, jp_is(p, TK_NAME) ? p->tok->val : jv_none());
    n->flag = true;
    jp_expect(p, TK_NAME);
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < COUNT_OF(constants); i++)
        if (jv_is(n->val, constants[i])) jp_fail(p, "can't assign to 'name'");
    return n;
}

/* Parses a {% for %} statement after its name and returns its node. */
static struct jnode *parse_for(struct jparser *p) {
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jnode *n = jp_node(p, JN_FOR);
    n->a = parse_target(p, "in", false);
    if (!jp_skip_name(p, "in")) {
        p->c->pos = p->tok->pos;
        jx_fail(p->c, "syntax", "expected token 'in', got '%s'", jtok_name(p->tok->kind));
    }
    n->b = jp_tuple(p, (struct jtuple_opts){.end_name = "recursive"});
    if (jp_skip_name(p, "if")) n->c = jp_expr(p);
    n->flag = jp_skip_name(p, "recursive");
    p->loops++;
    n->list = statements(p, ends);
    p->loops--;
    bool more = jp_is_name(p, "else");
    jp_next(p);
    if (more) n->list2 = statements_to(p, "endfor");
    return n;
}

/* Parses a {% if %} statement after its name and returns its node. */
static struct jnode *parse_if(struct jparser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jnode *first = NULL, **link = &first;
    for (int count = 0;; count++) { /* An elif is an if inside the else body. */
        if (count > 500) jp_fail(p, "too many elif branches");
        struct jnode *n = jp_node(p, JN_IF);
        *link = n;
        link = &n->list2;
        n->flag = n != first;
        n->a = jp_tuple(p, (struct jtuple_opts){0});
        n->list = statements(p, ends);
        if (jp_skip_name(p, "elif")) continue;
        if (jp_skip_name(p, "else")) {
            *link = statements_to(p, "endif");
        } else {
            jp_next(p);
        }
        return first;
    }
}

/* Parses a {% set %} statement after its name and returns its node. */
static struct jnode *parse_set(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_SET);
    n->a = parse_target(p, NULL, true);
    if (jp_skip(p, TK_ASSIGN)) {
        n->b = jp_tuple(p, (struct jtuple_opts){.cond = true});
        return n;
    }
    n->kind = JN_SETBLOCK;
    struct jnode *input = jp_node(p, JN_CONST);
    struct jnode *f = jp_filters(p, input, input->start, false);
    if (f != input) {
        n->b = f;
        n->c = input;
    }
    int loops = p->loops;
    n->list = statements_to(p, "endset");
    p->loops = loops;
    return n;
}

/* Parses "(a, b=expr)": names go into list, and a default becomes `a` of its name. */
static void signature(struct jparser *p, struct jnode *n) {
    struct jnode **tail = &n->list;
    bool seen_default = false;
    jp_expect(p, TK_LPAREN);
    while (!jp_is(p, TK_RPAREN)) {
        if (n->n) jp_expect(p, TK_COMMA);
        struct jnode *arg = name_target(p);
        for (const struct jnode *k = n->list; k; k = k->next)
            if (jv_eqs(k->val, arg->val)) jp_fail(p, "duplicate argument in macro definition");
        if (jp_skip(p, TK_ASSIGN)) {
            arg->a = jp_expr(p);
            seen_default = true;
        } else if (seen_default) {
            jp_fail(p, "non-default argument follows default argument");
        }
        jp_append(n, &tail, arg);
    }
    jp_expect(p, TK_RPAREN);
}

/* Parses a macro's body, in which a break cannot leave a loop outside the macro. */
static struct jnode *function_body(struct jparser *p, const char *end) {
    int loops = p->loops;
    p->loops = 0;
    struct jnode *body = statements_to(p, end);
    p->loops = loops;
    return body;
}

/* Parses a {% macro %} statement after its name and returns its node. */
static struct jnode *parse_macro(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_MACRO);
    struct jnode *name = name_target(p);
    n->a = name;
    n->val = name->val;
    signature(p, n);
    n->b = function_body(p, "endmacro");
    return n;
}

/* Parses a {% call %} statement after its name and returns its node. */
static struct jnode *parse_call_block(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_CALLBLOCK);
    n->val = jv_none();
    if (jp_is(p, TK_LPAREN)) signature(p, n);
    n->a = jp_expr(p);
    if (n->a->kind != JN_CALL) jp_fail(p, "expected call");
    n->b = function_body(p, "endcall");
    return n;
}

/* Parses a {% generation %} statement after its name and returns its node. */
static struct jnode *parse_generation(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_GENERATION);
    n->val = jv_none();
    n->b = function_body(p, "endgeneration");
    return n;
}

/* Parses a {% filter %} statement after its name and returns its node. */
static struct jnode *parse_filter_block(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_FILTERBLOCK);
    n->c = jp_node(p, JN_CONST);
    n->b = jp_filters(p, n->c, n->start, true);
    n->list = statements_to(p, "endfilter");
    return n;
}

/* Parses a {% with %} statement after its name and returns its node. */
static struct jnode *parse_with(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_WITH), **tail = &n->list;
    while (!jp_is(p, TK_BLOCK_END)) {
        if (n->n) jp_expect(p, TK_COMMA);
        struct jnode *k = jp_node(p, JN_KW);
        k->a = parse_target(p, NULL, false);
        jp_expect(p, TK_ASSIGN);
        k->b = jp_expr(p);
        jp_append(n, &tail, k);
    }
    n->list2 = statements_to(p, "endwith");
    return n;
}

/* Parses a block tag; "scoped" and "required" are accepted. */
static struct jnode *parse_block(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_BLOCK);
    n->val = jp_expect(p, TK_NAME)->val;
    n->flag = jp_skip_name(p, "scoped");
    jp_skip_name(p, "required");
    int loops = p->loops;
    p->loops = 0;
    n->list = statements_to(p, "endblock");
    p->loops = loops;
    if (jp_is(p, TK_NAME) && jv_eqs(p->tok->val, n->val)) jp_next(p);
    return n;
}

/* Skips include, import, from and extends leniently. There is no loader, so executing one is an
 * error. */
static struct jnode *parse_noloader(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_NOLOADER);
    n->a = jp_expr(p);
    while (!jp_is(p, TK_BLOCK_END) && !jp_is(p, TK_EOF)) jp_next(p);
    return n;
}

/* Parses a {% print %} statement after its name and returns its node. */
static struct jnode *parse_print(struct jparser *p) {
    struct jnode *first = NULL, **tail = &first;
    while (!jp_is(p, TK_BLOCK_END)) {
        if (first) jp_expect(p, TK_COMMA);
        struct jnode *n = jp_node(p, JN_PRINT);
        n->a = jp_expr(p);
        *tail = n;
        tail = &n->next;
    }
    return first;
}

/* Parses a {% autoescape %} statement after its name and returns its node. */
static struct jnode *parse_autoescape(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_AUTOESCAPE);
    n->a = jp_expr(p);
    n->list = statements_to(p, "endautoescape");
    return n;
}

/* Parses a {% break %} statement after its name and returns its node. */
static struct jnode *parse_break(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_BREAK);
    if (!p->loops) jp_fail(p, "'break' outside loop");
    return n;
}

/* Parses a {% continue %} statement after its name and returns its node. */
static struct jnode *parse_continue(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_CONTINUE);
    if (!p->loops) jp_fail(p, "'continue' not properly in loop");
    return n;
}

static const struct {
    const char *name;
    struct jnode *(*parse)(struct jparser *p);
} tags[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"generation", parse_generation},
    {"break", parse_break},
    {"continue", parse_continue},
    {"block", parse_block},
    {"print", parse_print},
    {"autoescape", parse_autoescape},
    {"include", parse_noloader},
    {"import", parse_noloader},
    {"from", parse_noloader},
    {"extends", parse_noloader},
};

/* Parses the tag whose name is the current token; fails if it is unknown. */
static struct jnode *parse_statement(struct jparser *p) {
    if (!jp_is(p, TK_NAME)) jp_fail(p, "tag name expected");
    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        if (!jv_is(p->tok->val, tags[i].name)) continue;
        jp_next(p);
        return tags[i].parse(p);
    }
    p->c->pos = p->tok->pos;
    jx_fail(p->c, "syntax", "Encountered unknown tag '%s'.", jv_cstr(p->c, p->tok->val));
}

/* Returns whether the current name ends the block. ends: list that ends in NULL, or NULL. */
static bool at_end_tag(const struct jparser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (jp_is_name(p, *ends)) return true;
    return false;
}

/* Parses text, prints and tags up to a tag in `ends` (NULL: no such tag) or the end. */
static struct jnode *parse_body(struct jparser *p, const char *const *ends) {
    struct jnode *first = NULL, **tail = &first;
    for (;;) {
        struct jnode *n = NULL;
        if (jp_is(p, TK_EOF)) return first;
        if (jp_is(p, TK_DATA)) {
            n = jp_node(p, JN_TEXT);
            n->val = p->tok->val;
            jp_next(p);
        } else if (jp_skip(p, TK_VAR_BEGIN)) {
            n = jp_node(p, JN_PRINT);
            n->a = jp_tuple(p, (struct jtuple_opts){.cond = true});
            jp_expect(p, TK_VAR_END);
        } else {
            jp_expect(p, TK_BLOCK_BEGIN);
            if (at_end_tag(p, ends)) return first;
            n = parse_statement(p);
            jp_expect(p, TK_BLOCK_END);
        }
        *tail = n;
        while (*tail) tail = &(*tail)->next;
    }
}

struct jnode *jparse(struct jctx *c, struct jtok *tok, size_t n_tok) {
    struct jparser p = {.c = c, .tok = tok};
    UNUSED(n_tok);
    return parse_body(&p, NULL);
}
