// SPDX-License-Identifier: MIT
/* gram/bnf.h - what the readers of grammars share: named rules, each made when it is first
 * referred to. A rule that turns out regular stands in place of its name, so that masks are found
 * for it as a whole; others are rules. */
#ifndef HONE_GRAM_BNF_H
#define HONE_GRAM_BNF_H

#include "gram/gram_int.h"

struct bnf_rule {
    const char *name;
    size_t len, from, to; /* the text of its body */
    uint8_t state;        /* 0 not read, 1 being read, 2 done */
    bool used, term;      /* used: by index; term: a terminal */
    uint32_t index;       /* of g->rule */
    gnode node;
};
struct bnf {
    struct grammar *g;
    const char *s;
    size_t n, i, end; /* the part that is being read ends at `end` */
    struct bnf_rule *rule;
    size_t n_rule;
    int nest;
    bool term;    /* reading a terminal */
    bool escaped; /* the language is written in a JSON text, with its escapes */
    gnode ignore;
    /* Reads alternatives up to b->end, or to what ends a group. */
    gnode (*body)(struct bnf *b);
    int rc;
    struct err *e;
};
gnode bnf_fail(struct bnf *b, const char *fmt, ...) PRINTF_LIKE(2, 3); /* with the line; G_NONE */
bool bnf_more(const struct bnf *b);
char bnf_peek(const struct bnf *b, size_t k); /* 0 behind the end */
bool bnf_take(struct bnf *b, const char *lit);
bool bnf_is_name(char c);
/* ERR_DATA when the name is there already. */
void bnf_add(struct bnf *b, const char *name, size_t len, size_t from, bool term);
struct bnf_rule *bnf_find(struct bnf *b, const char *name, size_t len);
gnode bnf_ref(struct bnf *b, const char *name, size_t len);
/* Behind the opening quote: a text with escapes, up to the closing one. */
void bnf_quoted(struct bnf *b, struct buf *out);
/* Behind '<': a special token by its text, or by its id as [123]. */
gnode bnf_token(struct bnf *b);
/* Behind '{': m, m,n or m, and '}'; counts of a repetition. */
uint32_t bnf_number(struct bnf *b);
/* lark.c: the language of a text in Lark, as a part of g; escaped: as it is written between the
 * quotation marks of JSON. */
int gn_lark(struct grammar *g, const char *text, size_t len, bool escaped, gnode *out,
            struct err *e);
/* The rule `root`, everything read; then the grammar is not sealed yet. */
gnode bnf_root(struct bnf *b, const char *root);
/* The same, and the grammar sealed. */
int bnf_finish(struct bnf *b, const char *root, struct grammar **out);

#endif
