// SPDX-License-Identifier: MIT
/* template/jinja_parse.c - the parser for expressions; statements are in jinja_stmt.c.
 *
 * Precedence, loosest first: inline if, or, and, not, comparison, + -, ~, * / // %, **, unary,
 * postfix, filters and tests. This differs from Python: ~ binds tighter than +, ** associates to
 * the left and binds looser than unary minus. Nesting is limited so that neither this recursion nor
 * the evaluator's can exhaust the stack. */
#include "template/jinja_parse.h"

#include <string.h>

enum { MAX_NEST = 150, MAX_CHAIN = 1000 };

struct jnode *jp_node(struct jparser *p, enum jkind kind) {
    struct jnode *n = jx_alloc(p->c, 1, sizeof *n);
    n->kind = kind;
    n->pos = n->start = p->tok->pos;
    n->end = p->tok->end;
    return n;
}

struct jnode *jp_text(struct jparser *p, struct jnode *n, uint32_t start) {
    n->start = start;
    n->end = p->end;
    return n;
}

/* Fails with a syntax error at the current token; does not return. */
void jp_fail(struct jparser *p, const char *text) {
    p->c->pos = p->tok->pos;
    jx_fail(p->c, "syntax", "%s", text);
}

/* Returns the current token's name or kind for error messages. */
static const char *describe_token(struct jparser *p) {
    if (p->tok->kind == TK_NAME) return jv_cstr(p->c, p->tok->val);
    return jtok_name(p->tok->kind);
}

void jp_next(struct jparser *p) {
    if (p->tok->kind == TK_EOF) return;
    p->end = p->tok->end;
    p->tok++;
}

struct jtok *jp_expect(struct jparser *p, enum jtok_kind kind) {
    if (p->tok->kind != kind) {
        p->c->pos = p->tok->pos;
        if (p->tok->kind == TK_EOF)
            jx_fail(p->c, "syntax", "unexpected end of template, expected '%s'.", jtok_name(kind));
        jx_fail(p->c, "syntax", "expected token '%s', got '%s'", jtok_name(kind),
                describe_token(p));
    }
    struct jtok *t = p->tok;
    jp_next(p);
    return t;
}

bool jp_is(const struct jparser *p, enum jtok_kind kind) {
    return p->tok->kind == kind;
}

bool jp_is_name(const struct jparser *p, const char *name) {
    return p->tok->kind == TK_NAME && jv_is(p->tok->val, name);
}

bool jp_skip(struct jparser *p, enum jtok_kind kind) {
    if (p->tok->kind != kind) return false;
    jp_next(p);
    return true;
}

bool jp_skip_name(struct jparser *p, const char *name) {
    if (!jp_is_name(p, name)) return false;
    jp_next(p);
    return true;
}

void jp_append(struct jnode *parent, struct jnode ***tail, struct jnode *n) {
    **tail = n;
    *tail = &n->next;
    parent->n++;
}

/* Counts a level of nesting; fails beyond MAX_NEST. The caller decrements p->nest. */
static void enter_nested(struct jparser *p) {
    if (++p->nest > MAX_NEST) jp_fail(p, "expressions are nested too deeply");
}

/* Counts an operator of the expression in *n; fails if there are too many. */
static void count_operator(struct jparser *p, int *n) {
    if (++*n > MAX_CHAIN) jp_fail(p, "too many operators in one expression");
}

struct jnode *jp_name(struct jparser *p, struct jval name) {
    struct jnode *n = jp_node(p, JN_NAME);
    n->val = name;
    return n;
}

static struct jnode *const_node(struct jparser *p, struct jval v) {
    struct jnode *n = jp_node(p, JN_CONST);
    n->val = v;
    return n;
}

/* Parses a list at the current token and returns the node. */
static struct jnode *parse_list(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_LIST), **tail = &n->list;
    jp_expect(p, TK_LBRACKET);
    while (!jp_is(p, TK_RBRACKET)) {
        if (n->n) jp_expect(p, TK_COMMA);
        if (jp_is(p, TK_RBRACKET)) break;
        jp_append(n, &tail, jp_expr(p));
    }
    jp_expect(p, TK_RBRACKET);
    return jp_text(p, n, n->start);
}

/* Parses a dict at the current token and returns the node. */
static struct jnode *parse_dict(struct jparser *p) {
    struct jnode *n = jp_node(p, JN_DICT), **tail = &n->list;
    jp_expect(p, TK_LBRACE);
    while (!jp_is(p, TK_RBRACE)) {
        if (n->n) jp_expect(p, TK_COMMA);
        if (jp_is(p, TK_RBRACE)) break;
        struct jnode *pair = jp_node(p, JN_KW);
        pair->a = jp_expr(p);
        jp_expect(p, TK_COLON);
        pair->b = jp_expr(p);
        jp_append(n, &tail, pair);
    }
    jp_expect(p, TK_RBRACE);
    return jp_text(p, n, n->start);
}

/* Parses a name or constant; with_ns: allows ns.attribute, as assignments do. */
static struct jnode *parse_name(struct jparser *p, bool with_ns) {
    struct jval name = p->tok->val;
    struct jnode *n;
    if (jv_is(name, "true") || jv_is(name, "True")) {
        n = const_node(p, jv_bool(true));
    } else if (jv_is(name, "false") || jv_is(name, "False")) {
        n = const_node(p, jv_bool(false));
    } else if (jv_is(name, "none") || jv_is(name, "None")) {
        n = const_node(p, jv_none());
    } else {
        n = jp_name(p, name);
        jp_next(p);
        if (with_ns && jp_skip(p, TK_DOT)) {
            n->kind = JN_NSREF;
            n->a = const_node(p, jp_expect(p, TK_NAME)->val);
        }
        return jp_text(p, n, n->start);
    }
    jp_next(p);
    return n;
}

struct jnode *jp_primary(struct jparser *p, bool with_ns) {
    struct jnode *n;
    switch ((int)p->tok->kind) {
    case TK_NAME:
        return parse_name(p, with_ns);
    case TK_STR:
        n = const_node(p, p->tok->val);
        jp_next(p);
        while (jp_is(p, TK_STR)) { /* adjacent literals form one string */
            size_t m = jx_mark(p->c);
            jx_add(p->c, n->val.u.s, n->val.len);
            jx_add(p->c, p->tok->val.u.s, p->tok->val.len);
            n->val = jx_take(p->c, m);
            jp_next(p);
        }
        return jp_text(p, n, n->start);
    case TK_INT:
    case TK_FLOAT:
        n = const_node(p, p->tok->val);
        jp_next(p);
        return n;
    case TK_LPAREN:
        enter_nested(p);
        jp_next(p);
        n = jp_tuple(p, (struct jtuple_opts){.cond = true, .parens = true});
        jp_expect(p, TK_RPAREN);
        p->nest--;
        return n;
    case TK_LBRACKET:
        enter_nested(p);
        n = parse_list(p);
        p->nest--;
        return n;
    case TK_LBRACE:
        enter_nested(p);
        n = parse_dict(p);
        p->nest--;
        return n;
    default:
        p->c->pos = p->tok->pos;
        jx_fail(p->c, "syntax", "unexpected '%s'", describe_token(p));
    }
}

/* Returns whether a tuple without parentheses ends at the current token. end_name: a keyword that
 * ends it, or NULL. */
static bool tuple_end(const struct jparser *p, const char *end_name) {
    return jp_is(p, TK_VAR_END) || jp_is(p, TK_BLOCK_END) || jp_is(p, TK_RPAREN) ||
           (end_name && jp_is_name(p, end_name));
}

static struct jnode *parse_or(struct jparser *p);

struct jnode *jp_tuple(struct jparser *p, struct jtuple_opts o) {
    struct jnode *n = jp_node(p, JN_TUPLE), **tail = &n->list;
    bool is_tuple = false;
    for (;;) {
        if (n->n) jp_expect(p, TK_COMMA);
        if (tuple_end(p, o.end_name)) break;
        jp_append(n, &tail,
                  o.simple ? jp_primary(p, o.with_ns)
                  : o.cond ? jp_expr(p)
                           : parse_or(p));
        if (!jp_is(p, TK_COMMA)) break;
        is_tuple = true;
    }
    if (is_tuple) return jp_text(p, n, n->start);
    if (n->list) return n->list;
    if (!o.parens) {
        p->c->pos = p->tok->pos;
        jx_fail(p->c, "syntax", "Expected an expression, got '%s'", describe_token(p));
    }
    return n;
}

/* Parses the content of brackets: an expression or a slice. */
static struct jnode *parse_subscribed(struct jparser *p) {
    struct jnode *n = NULL, *s;
    if (!jp_is(p, TK_COLON)) {
        n = jp_expr(p);
        if (!jp_is(p, TK_COLON)) return n;
    }
    s = jp_node(p, JN_SLICE);
    jp_expect(p, TK_COLON);
    s->a = n;
    if (!jp_is(p, TK_COLON) && !jp_is(p, TK_RBRACKET) && !jp_is(p, TK_COMMA)) s->b = jp_expr(p);
    if (jp_skip(p, TK_COLON) && !jp_is(p, TK_RBRACKET) && !jp_is(p, TK_COMMA)) s->c = jp_expr(p);
    return s;
}

/* Parses ".name", ".0" or "[...]" after the expression `of`. */
static struct jnode *parse_subscript(struct jparser *p, struct jnode *of) {
    struct jnode *n = jp_node(p, JN_ITEM);
    n->a = of;
    if (jp_skip(p, TK_DOT)) {
        n->pos = p->tok->pos;
        if (jp_is(p, TK_NAME)) {
            n->kind = JN_ATTR;
            n->val = p->tok->val;
            n->m_str = jlib_method(JT_STR, n->val);
            n->m_dict = jlib_method(JT_DICT, n->val);
            n->m_list = jlib_method(JT_LIST, n->val);
        } else if (jp_is(p, TK_INT)) {
            n->b = const_node(p, p->tok->val);
        } else {
            jp_fail(p, "expected name or number");
        }
        jp_next(p);
        return n;
    }
    jp_expect(p, TK_LBRACKET);
    enter_nested(p);
    struct jnode *t = jp_node(p, JN_TUPLE), **tail = &t->list;
    while (!jp_is(p, TK_RBRACKET)) {
        if (t->n) jp_expect(p, TK_COMMA);
        jp_append(t, &tail, parse_subscribed(p));
    }
    jp_expect(p, TK_RBRACKET);
    p->nest--;
    n->b = t->n == 1 ? t->list : t;
    return n;
}

/* Fails if the call already has the keyword argument `name`. */
static void check_keyword(struct jparser *p, const struct jnode *call, struct jval name) {
    for (const struct jnode *k = call->list2; k; k = k->next)
        if (k->kind == JN_KW && jv_eqs(k->val, name)) jp_fail(p, "keyword argument repeated");
}

/* Parses "(a, b, k=v, *l, **d)" into list and list2 of n. */
void jp_args(struct jparser *p, struct jnode *n) {
    struct jnode **tail = &n->list, **tail2 = &n->list2;
    bool star = false, star2 = false;
    jp_expect(p, TK_LPAREN);
    enter_nested(p);
    for (int count = 0; !jp_is(p, TK_RPAREN); count++) {
        if (count) {
            jp_expect(p, TK_COMMA);
            if (jp_is(p, TK_RPAREN)) break;
        }
        struct jnode *k = jp_node(p, JN_KW);
        bool bad;
        if (jp_skip(p, TK_MUL)) {
            bad = star || star2;
            star = true;
            k->kind = JN_STAR;
            k->a = jp_expr(p);
        } else if (jp_skip(p, TK_POW)) {
            bad = star2;
            star2 = true;
            k->kind = JN_STARSTAR;
            k->a = jp_expr(p);
        } else if (jp_is(p, TK_NAME) && p->tok[1].kind == TK_ASSIGN) {
            bad = star2;
            k->val = p->tok->val;
            check_keyword(p, n, k->val);
            jp_next(p);
            jp_next(p);
            k->a = jp_expr(p);
        } else {
            bad = star || star2 || n->list2;
            if (!bad) {
                jp_append(n, &tail, jp_expr(p));
                continue;
            }
        }
        if (bad) jp_fail(p, "invalid syntax for function call expression");
        *tail2 = k;
        tail2 = &k->next;
    }
    jp_expect(p, TK_RPAREN);
    p->nest--;
    n->flag = n->list2 != NULL;
}

/* Parses the arguments of a call of `of`. */
static struct jnode *parse_call(struct jparser *p, struct jnode *of) {
    struct jnode *n = jp_node(p, JN_CALL);
    n->a = of;
    jp_args(p, n);
    return n;
}

/* Parses subscripts and calls after n. start: offset of n in the source. */
static struct jnode *parse_postfix(struct jparser *p, struct jnode *n, uint32_t start) {
    for (int count = 0;;) {
        count_operator(p, &count);
        if (jp_is(p, TK_DOT) || jp_is(p, TK_LBRACKET)) {
            n = parse_subscript(p, n);
        } else if (jp_is(p, TK_LPAREN)) {
            n = parse_call(p, n);
        } else {
            return n;
        }
        jp_text(p, n, start);
    }
}

/* Parses "a.b.c" and returns it as one string. */
static struct jval dotted_name(struct jparser *p) {
    struct jval name = jp_expect(p, TK_NAME)->val;
    while (jp_skip(p, TK_DOT)) {
        size_t m = jx_mark(p->c);
        jx_add(p->c, name.u.s, name.len);
        jx_add(p->c, ".", 1);
        struct jtok *t = jp_expect(p, TK_NAME);
        jx_add(p->c, t->val.u.s, t->val.len);
        name = jx_take(p->c, m);
    }
    return name;
}

/* Parses "| name(args) | ..."; with `inline_start` the first "|" is omitted, as in filter blocks.
 */
struct jnode *jp_filters(struct jparser *p, struct jnode *n, uint32_t start, bool inline_start) {
    for (int count = 0; inline_start || jp_is(p, TK_PIPE);) {
        count_operator(p, &count);
        if (!inline_start) jp_next(p);
        inline_start = false;
        struct jnode *f = jp_node(p, JN_FILTER);
        f->a = n;
        f->val = dotted_name(p);
        f->row = jlib_filter(f->val);
        if (f->row && f->row->sig[0] == '!' && !p->c->t->lenient) f->row = NULL;
        if (jp_is(p, TK_LPAREN)) jp_args(p, f);
        n = jp_text(p, f, start);
    }
    return n;
}

/* Parses "is [not] NAME [argument]" after the expression `of`. */
static struct jnode *parse_test(struct jparser *p, struct jnode *of, uint32_t start) {
    jp_next(p);
    bool negated = jp_skip_name(p, "not");
    struct jnode *n = jp_node(p, JN_TEST), **tail = &n->list;
    n->a = of;
    n->val = dotted_name(p);
    n->row = jlib_test(n->val);
    enum jtok_kind k = p->tok->kind;
    if (k == TK_LPAREN) {
        jp_args(p, n);
    } else if ((k == TK_NAME || k == TK_STR || k == TK_INT || k == TK_FLOAT || k == TK_LBRACKET ||
                k == TK_LBRACE) &&
               !jp_is_name(p, "else") && !jp_is_name(p, "or") && !jp_is_name(p, "and")) {
        if (jp_is_name(p, "is")) jp_fail(p, "You cannot chain multiple tests with is");
        const uint32_t from = p->tok->pos;
        jp_append(n, &tail, parse_postfix(p, jp_primary(p, false), from));
    }
    jp_text(p, n, start);
    if (!negated) return n;
    struct jnode *not_node = jp_node(p, JN_NOT);
    not_node->a = n;
    return jp_text(p, not_node, start);
}

/* Parses signs, a primary and its postfixes; with_filter: and then filters and tests. */
static struct jnode *parse_unary(struct jparser *p, bool with_filter) {
    const uint32_t start = p->tok->pos;
    struct jnode *n;
    if (jp_is(p, TK_SUB) || jp_is(p, TK_ADD)) {
        n = jp_node(p, jp_is(p, TK_SUB) ? JN_NEG : JN_POS);
        enter_nested(p);
        jp_next(p);
        n->a = parse_unary(p, false);
        jp_text(p, n, start);
        p->nest--;
    } else {
        n = jp_primary(p, false);
    }
    n = parse_postfix(p, n, start);
    for (int count = 0; with_filter;) {
        count_operator(p, &count);
        if (jp_is(p, TK_PIPE)) {
            n = jp_filters(p, n, start, false);
        } else if (jp_is_name(p, "is")) {
            n = parse_test(p, n, start);
        } else if (jp_is(p, TK_LPAREN)) {
            n = parse_call(p, n);
        } else {
            break;
        }
        jp_text(p, n, start);
    }
    return n;
}

/* Returns the operator of a token at this precedence level; JO_NONE: it is not one. */
static enum jop binary_op(enum jtok_kind k, int level) {
    static const struct {
        enum jtok_kind tok;
        enum jop op;
        int level;
    } ops[] = {
        {TK_ADD, JO_ADD, 1}, {TK_SUB, JO_SUB, 1}, {TK_MUL, JO_MUL, 2},
        {TK_DIV, JO_DIV, 2}, {TK_MOD, JO_MOD, 2}, {TK_FLOORDIV, JO_FLOORDIV, 2},
        {TK_POW, JO_POW, 3}, {TK_EQ, JO_EQ, 4},   {TK_NE, JO_NE, 4},
        {TK_LT, JO_LT, 4},   {TK_LE, JO_LE, 4},   {TK_GT, JO_GT, 4},
        {TK_GE, JO_GE, 4},
    };
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (ops[i].tok == k && ops[i].level == level) return ops[i].op;
    return JO_NONE;
}

static struct jnode *parse_concat(struct jparser *p);

/* Parses operators of level 1 (+ -), 2 (* / // %) or 3 (**), all left-associative; ~ binds between
 * levels 1 and 2. */
static struct jnode *parse_binary(struct jparser *p, int level) {
    const uint32_t start = p->tok->pos;
    struct jnode *l = level == 1   ? parse_concat(p)
                      : level == 2 ? parse_binary(p, 3)
                                   : parse_unary(p, true);
    enum jop op = binary_op(p->tok->kind, level);
    for (int count = 0; op != JO_NONE; op = binary_op(p->tok->kind, level)) {
        count_operator(p, &count);
        struct jnode *n = jp_node(p, JN_BIN);
        jp_next(p);
        n->op = op;
        n->a = l;
        n->b = level == 1   ? parse_concat(p)
               : level == 2 ? parse_binary(p, 3)
                            : parse_unary(p, true);
        l = jp_text(p, n, start);
    }
    return l;
}

/* Parses operands joined by `~` at the current token and returns the node. */
static struct jnode *parse_concat(struct jparser *p) {
    const uint32_t start = p->tok->pos;
    struct jnode *first = parse_binary(p, 2);
    if (!jp_is(p, TK_TILDE)) return first;
    struct jnode *n = jp_node(p, JN_CONCAT), **tail = &n->list;
    jp_append(n, &tail, first);
    while (jp_skip(p, TK_TILDE)) jp_append(n, &tail, parse_binary(p, 2));
    return jp_text(p, n, start);
}

/* Parses a chain of comparisons at the current token and returns the node. */
static struct jnode *parse_compare(struct jparser *p) {
    const uint32_t start = p->tok->pos;
    struct jnode *first = parse_binary(p, 1), *n = NULL, **tail = NULL;
    for (;;) {
        enum jop op = binary_op(p->tok->kind, 4);
        struct jnode *operand = jp_node(p, JN_COMPARE);
        if (op != JO_NONE) {
            jp_next(p);
        } else if (jp_skip_name(p, "in")) {
            op = JO_IN;
        } else if (jp_is_name(p, "not") && p->tok[1].kind == TK_NAME &&
                   jv_is(p->tok[1].val, "in")) {
            jp_next(p);
            jp_next(p);
            op = JO_NOTIN;
        } else {
            return n ? jp_text(p, n, start) : first;
        }
        if (!n) {
            /* A chain of comparisons keeps its first operand in a and the others in list; each of
             * those has its op, and its value in a. */
            n = operand;
            n->a = first;
            tail = &n->list;
            operand = jp_node(p, JN_COMPARE);
        }
        operand->op = op;
        operand->a = parse_binary(p, 1);
        jp_append(n, &tail, operand);
    }
}

/* Parses an expression with `not` at the current token and returns the node. */
static struct jnode *parse_not(struct jparser *p) {
    if (!jp_is_name(p, "not")) return parse_compare(p);
    struct jnode *n = jp_node(p, JN_NOT);
    enter_nested(p);
    jp_next(p);
    n->a = parse_not(p);
    p->nest--;
    return jp_text(p, n, n->start);
}

/* Parses operands joined by `and` at the current token and returns the node. */
static struct jnode *parse_and(struct jparser *p) {
    const uint32_t start = p->tok->pos;
    struct jnode *l = parse_not(p);
    for (int count = 0; jp_is_name(p, "and");) {
        count_operator(p, &count);
        struct jnode *n = jp_node(p, JN_AND);
        jp_next(p);
        n->a = l;
        n->b = parse_not(p);
        l = jp_text(p, n, start);
    }
    return l;
}

/* Parses operands joined by `or` at the current token and returns the node. */
static struct jnode *parse_or(struct jparser *p) {
    const uint32_t start = p->tok->pos;
    struct jnode *l = parse_and(p);
    for (int count = 0; jp_is_name(p, "or");) {
        count_operator(p, &count);
        struct jnode *n = jp_node(p, JN_OR);
        jp_next(p);
        n->a = l;
        n->b = parse_and(p);
        l = jp_text(p, n, start);
    }
    return l;
}

struct jnode *jp_expr(struct jparser *p) {
    enter_nested(p);
    const uint32_t start = p->tok->pos;
    struct jnode *l = parse_or(p);
    for (int count = 0; jp_is_name(p, "if");) {
        count_operator(p, &count);
        struct jnode *n = jp_node(p, JN_COND);
        jp_next(p);
        n->a = parse_or(p);
        n->b = l;
        if (jp_skip_name(p, "else")) n->c = jp_expr(p);
        l = jp_text(p, n, start);
    }
    p->nest--;
    return l;
}
