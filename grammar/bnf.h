// SPDX-License-Identifier: MIT
/* grammar/bnf.h - what the readers of grammars share: named rules, each made when it is first
 * referred to. A rule that turns out regular stands in place of its name, so that masks are found
 * for it as a whole; others are rules. */
#ifndef HONE_GRAMMAR_BNF_H
#define HONE_GRAMMAR_BNF_H

#include "base/hash.h"
#include "grammar/gram_int.h"

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
    struct strmap *by_name; /* rules: their number; NULL: there are none */
    int nest;
    bool term;    /* reading a terminal */
    bool escaped; /* the language is written in a JSON text, with its escapes */
    gnode ignore;
    /* Reads alternatives up to b->end, or to what ends a group. */
    gnode (*body)(struct bnf *b);
    int rc;
    struct err *e;
};
/* Notes an error of the grammar in b->rc and b->e, with the line where b stands; the first error
 * stays. Returns G_NONE. */
gnode bnf_fail(struct bnf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool bnf_more(const struct bnf *b);
/* Returns the character k bytes further on, or 0 behind the end. */
char bnf_peek(const struct bnf *b, size_t k);
bool bnf_take(struct bnf *b, const char *lit);
bool bnf_is_name(char c);
/* Adds x to the sequence v, of n parts. */
void bnf_then(gnode **v, size_t *n, gnode x);
/* Adds the rule name[0..len), which is borrowed; its body begins at byte `from` of the text b->s.
 * term tells that it is a terminal. Fails with ERR_DATA in b->rc when a rule of the name is there
 * already, or when there are too many. */
void bnf_add(struct bnf *b, const char *name, size_t len, size_t from, bool term);
struct bnf_rule *bnf_find(struct bnf *b, const char *name, size_t len);
gnode bnf_ref(struct bnf *b, const char *name, size_t len);
/* Reads a text behind its opening quotation mark and goes on behind the closing one. Appends the
 * bytes of the text to out, its escapes resolved. */
void bnf_quoted(struct bnf *b, struct buf *out);
/* Reads a token behind its '<' and goes on behind the '>'. Returns the node of the special token
 * that is written there by its text, or of any token by its id, as in <[123]>. What no special
 * token has stands for itself. */
gnode bnf_token(struct bnf *b);
/* Reads a whole number in decimal digits: a count of a repetition, or the id of a token. Fails with
 * ERR_DATA in b->rc when there is no digit, or the number is over ten million. */
uint32_t bnf_number(struct bnf *b);
/* Sets *out to the language of a text of len bytes in Lark, as a part of g. escaped tells that the
 * language is written as it stands between the quotation marks of JSON. Defined in lark.c. */
int gn_lark(struct grammar *g, const char *text, size_t len, bool escaped, gnode *out,
            struct err *e);
/* Reads all rules and returns the node of the one called `root`, with what is ignored allowed in
 * front of it. Does not seal the grammar. Frees the list of rules. Whether all went well stands in
 * b->rc. */
gnode bnf_root(struct bnf *b, const char *root);
/* Reads all rules as bnf_root does, seals the grammar and hands it out; the caller frees it. After
 * an error the grammar is freed and *out stays as it was. */
int bnf_finish(struct bnf *b, const char *root, struct grammar **out);

#endif
