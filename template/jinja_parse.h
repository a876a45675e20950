// SPDX-License-Identifier: MIT
/* template/jinja_parse.h - parser state, and functions shared by expressions and statements. */
#ifndef HONE_TEMPLATE_JINJA_PARSE_H
#define HONE_TEMPLATE_JINJA_PARSE_H

#include "template/jinja_int.h"

struct jparser {
    struct jctx *c;
    struct jtok *tok; /* current; the last one is TK_EOF */
    uint32_t end;     /* end of the previous token */
    int nest;         /* depth of expressions and statements */
    int loops;        /* enclosing loops within this function body */
    bool in_block;
};

struct jtuple_opts {
    bool cond;    /* elements may be inline ifs */
    bool parens;  /* inside parentheses, where () is valid */
    bool simple;  /* elements are primaries (assignment targets) */
    bool with_ns; /* accepts ns.attr as a target */
    const char *end_name;
};

NORETURN void jp_fail(struct jparser *p, const char *text);
/* Returns a new node at the current token. */
struct jnode *jp_node(struct jparser *p, enum jkind kind);
/* Moves to the next token; stays at TK_EOF. */
void jp_next(struct jparser *p);
/* Sets the source range of expression n: from `start` to the end of the last token. Returns n. */
struct jnode *jp_text(struct jparser *p, struct jnode *n, uint32_t start);
/* Returns the current token and moves past it; fails unless it is of this kind. */
struct jtok *jp_expect(struct jparser *p, enum jtok_kind kind);
bool jp_is(const struct jparser *p, enum jtok_kind kind);
bool jp_is_name(const struct jparser *p, const char *name);
/* Moves past the current token if it is of this kind, and returns whether it was. */
bool jp_skip(struct jparser *p, enum jtok_kind kind);
/* Moves past the current token if it is this name, and returns whether it was. */
bool jp_skip_name(struct jparser *p, const char *name);
/* Appends n to the list that ends at *tail and increments parent->n. */
void jp_append(struct jnode *parent, struct jnode ***tail, struct jnode *n);
struct jnode *jp_name(struct jparser *p, struct jval name);
struct jnode *jp_expr(struct jparser *p);
/* Parses a name, literal, list, dict or parenthesis. with_ns: "ns.attr" is a target. */
struct jnode *jp_primary(struct jparser *p, bool with_ns);
/* Parses comma-separated expressions; returns a tuple, or the expression itself if there is only
 * one. */
struct jnode *jp_tuple(struct jparser *p, struct jtuple_opts o);
struct jnode *jp_filters(struct jparser *p, struct jnode *n, uint32_t start, bool inline_start);
void jp_args(struct jparser *p, struct jnode *n);

#endif
