// SPDX-License-Identifier: MIT
/* grammar/bnf.h - shared parser of text grammars (GBNF, Lark). A rule is parsed when it is first
 * referred to. If it turns out to be regular, its node replaces every reference, so that masks are
 * computed for it as a whole; other rules become G_RULE nodes. */
#ifndef HONE_GRAMMAR_BNF_H
#define HONE_GRAMMAR_BNF_H

#include "base/hash.h"
#include "grammar/gram_int.h"

struct bnf_rule {
    const char *name;
    size_t len, from, to; /* byte range of its body */
    uint8_t state;        /* 0: not parsed, 1: being parsed, 2: done */
    bool used, term;      /* used: some G_RULE node refers to it; term: it is a terminal */
    uint32_t index;       /* in g->rule */
    gnode node;
};
struct bnf {
    struct grammar *g;
    const char *s;
    size_t n, i, end; /* parsing stops at `end` */
    struct bnf_rule *rule;
    size_t n_rule;
    struct strmap *by_name; /* name to index in rule; NULL: no rules */
    int nest;
    bool term;    /* parsing a terminal */
    bool escaped; /* the text is inside a JSON string, with its escapes */
    gnode ignore;
    /* Parses a list of alternatives, up to b->end or the end of the group. */
    gnode (*body)(struct bnf *b);
    int rc;
    struct err *e;
};
/* Records a grammar error, with the current line, in b->rc and b->e; the first error wins. Returns
 * G_NONE. */
gnode bnf_fail(struct bnf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Returns whether text is left and no error has occurred. */
bool bnf_more(const struct bnf *b);
/* Returns the character k bytes ahead, or 0 past the end. */
char bnf_peek(const struct bnf *b, size_t k);
/* Moves past lit if it is next, and returns whether it was. */
bool bnf_take(struct bnf *b, const char *lit);
/* Returns whether the byte may be part of a rule's name. */
bool bnf_is_name(char c);
/* Appends x to the sequence v of n parts. */
void bnf_then(gnode **v, size_t *n, gnode x);
/* Adds the rule name[0..len), which is borrowed; its body begins at byte `from` of b->s. term: a
 * terminal. Sets b->rc to ERR_DATA if the name is taken or there are too many rules. */
void bnf_add(struct bnf *b, const char *name, size_t len, size_t from, bool term);
/* Returns the rule of this name; NULL: undefined. */
struct bnf_rule *bnf_find(struct bnf *b, const char *name, size_t len);
/* Returns a reference to a rule, or its body if that is regular. Sets an error if it is
 * undefined. */
gnode bnf_ref(struct bnf *b, const char *name, size_t len);
/* Parses a string after its opening quotation mark, up to and including the closing one. Appends
 * its bytes to out, with escapes resolved. */
void bnf_quoted(struct bnf *b, struct buf *out);
/* Parses a token after its '<', including the '>': a special token by its text, or any token by its
 * id, as in <[123]>. Text that is not a special token matches literally. */
gnode bnf_token(struct bnf *b);
/* Parses a decimal number: a repetition count or a token id. Sets b->rc to ERR_DATA if there is no
 * digit or the number exceeds ten million. */
uint32_t bnf_number(struct bnf *b);
/* Sets *out to the language of a Lark grammar of len bytes, for use within g. escaped: it describes
 * text inside a JSON string. Defined in lark.c. */
int gn_lark(struct grammar *g, const char *text, size_t len, bool escaped, gnode *out,
            struct err *e);
/* Parses all rules and returns the node of the rule `root`, preceded by the ignored text. Does not
 * seal the grammar. Frees the list of rules. The result is in b->rc. */
gnode bnf_root(struct bnf *b, const char *root);
/* Calls bnf_root(), then seals the grammar and returns it in *out; the caller frees it.
 * On error the grammar is freed and *out is unchanged. */
int bnf_finish(struct bnf *b, const char *root, struct grammar **out);

#endif
