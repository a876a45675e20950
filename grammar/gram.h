// SPDX-License-Identifier: MIT
/* grammar/gram.h - constrained decoding: which tokens may come next, so that the text of an
 * answer belongs to a language given as JSON Schema, regular expression, list of choices or
 * grammar. docs/design/constrained.md says how it works.
 *
 * Three objects. A gram_vocab is a tokenizer's vocabulary as a tree of bytes: once per model. A
 * grammar is a compiled language over one vocabulary; it may be shared by any number of requests
 * and threads. A gram_state is the place in one answer. Nothing here needs a model. */
#ifndef HONE_GRAMMAR_GRAM_H
#define HONE_GRAMMAR_GRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct ids;
struct tok;
struct gram_vocab;
struct grammar;
struct gram_state;

/* ---- vocabulary: immutable, thread-safe ---- */

/* Makes a vocabulary of every token of t; gram_vocab_free frees it. Control tokens are never
 * matched by text; those that end a generation may come where the language may end. A vocabulary
 * takes 1 MiB and 30 bytes a token, and 0.2 s for 250,000 tokens. */
int gram_vocab_new(struct gram_vocab **out, const struct tok *t, struct err *e);
/* Makes a vocabulary of n byte strings: token i is text[i], of len[i] bytes. One of length 0 is
 * never allowed, unless `end` names its id: that token ends a generation, whatever its bytes. */
int gram_vocab_of(struct gram_vocab **out, const char *const *text, const size_t *len, int64_t n,
                  int32_t end, struct err *e);
void gram_vocab_free(struct gram_vocab *v);
int64_t gram_vocab_size(const struct gram_vocab *v);

/* ---- languages ---- */

/* Compiling is counted in steps: a node made or looked at, a pair compared. More than the limit
 * grammar_steps are refused (ERR_DATA), or than the cost that the thread works under (ctx_cost),
 * which several grammars share; it ends with ERR_INTR when that is no longer wanted. */

enum gram_space {                  /* white space between the parts of JSON */
                  GRAM_SPACE_FREE, /* none, a blank, or a newline and at most 32 blanks */
                  GRAM_SPACE_ONE,  /* one blank behind ':' and ',', none elsewhere */
                  GRAM_SPACE_NONE
};
struct gram_spot { /* the refused part of a schema; "": unknown */
    char tool[132], path[200];
};
struct gram_opts {  /* zero-initialised is the usual */
    bool strict;    /* what cannot be expressed is refused; else it is left out and noted */
    bool any_order; /* members of objects in any order; else in the order of `properties` */
    bool open;      /* members that a schema does not name are allowed where it says nothing of
                       them, as JSON Schema has it; else objects of named members are closed */
    bool complete;  /* as OpenAI's `strict: true`: every property is required, no other may come */
    enum gram_space space;
    struct buf *notes;      /* NULL, or gets a line "path: what was left out" per clause */
    struct gram_spot *spot; /* NULL, or gets the part that an ERR_DATA is about */
};
/* Compiles a JSON Schema (2020-12) to a grammar, which grammar_free frees;
 * docs/design/constrained.md lists what is exact. v is borrowed and must live as long as the
 * grammar, here and below. Fails with ERR_DATA and a message that names the path:
 * "properties.when.pattern: lookaround is not supported". o NULL means the usual options. */
int grammar_of_schema(struct grammar **out, const struct gram_vocab *v, const struct json *schema,
                      const struct gram_opts *o, struct err *e);
/* Compiles a grammar of any JSON value, or with object_only of any JSON object, at most 32 levels
 * deep. */
int grammar_of_json(struct grammar **out, const struct gram_vocab *v, bool object_only,
                    const struct gram_opts *o, struct err *e);
/* Compiles a grammar of a regular expression of len bytes. The whole answer matches it, so it needs
 * no anchors. It is read as UTF-8; '.' is any character but a newline. Lookaround, back references
 * and \b are not supported, and refused by name. */
int grammar_of_regex(struct grammar **out, const struct gram_vocab *v, const char *pattern,
                     size_t len, struct err *e);
int grammar_of_choices(struct grammar **out, const struct gram_vocab *v, const char *const *text,
                       int n, struct err *e);
/* Compiles a grammar written in GBNF: rules `name ::= ...` with
 * "texts", [classes], (groups), | * + ? {m,n}, `.` and <special tokens>; "root" is the whole. A
 * rule may begin with itself, but not by way of others or behind what may be empty. */
int grammar_of_gbnf(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e);
/* Compiles a grammar written in a subset of Lark: rules and TERMINALS, "texts"i, /regular
 * expressions/is, "a".."z", groups, [optional], | * + ? ~m..n, %ignore, %import common.NAME, %json
 * {schema}, <special tokens>; "start" is the whole. Terminals are not cut greedily: it is a grammar
 * of characters, in which priorities mean nothing. */
int grammar_of_lark(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e);
/* Compiles a grammar written in GBNF where "::=" occurs in the text, else in Lark. */
int grammar_of_text(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e);
/* Answers with tool calls, in the syntax that chat/toolfmt.h reads. */
struct toolfmt;
enum gram_tools_choice {
    GRAM_TOOLS_AUTO,     /* text, then calls, or none */
    GRAM_TOOLS_REQUIRED, /* calls at once */
    GRAM_TOOLS_NONE      /* text without the syntax's markers */
};
struct gram_tools {
    const struct json *tools; /* list, as a template gets it: names and schemas of arguments */
    const char *only;         /* the one tool that may be called; NULL: all */
    enum gram_tools_choice choice;
    bool parallel;      /* several calls */
    const char *opened; /* the marker that the prompt ends with (toolfmt_opened); NULL: none */
};
/* Compiles a grammar of answers with calls of tools, written in the syntax f. A tool that is not
 * offered cannot be called, and arguments satisfy its schema. A schema that is broken counts as any
 * object and is noted, unless strict. Reasoning is not part of it: the grammar begins behind it.
 * Returns ERR_USAGE when there is no such tool, or f is toolfmt_plain() and calls are wanted. */
int grammar_of_tools(struct grammar **out, const struct gram_vocab *v, const struct toolfmt *f,
                     const struct gram_tools *t, const struct gram_opts *o, struct err *e);
/* Frees a grammar; no state of it may be left. NULL is fine. */
void grammar_free(struct grammar *g);
/* Bytes that it takes now: what it was compiled to, and what it has learned since. At most
 * GRAM_BYTES_MAX and the masks of GRAM_MASKS_MAX. */
enum { GRAM_BYTES_MAX = 64 << 20, GRAM_MASKS_MAX = 64 << 20 };
size_t grammar_bytes(struct grammar *g);
/* Tells whether a limit was reached: no answer can follow it any more. False while it is in use. */
bool grammar_is_full(struct grammar *g);
/* Steps that one call on a state may take. A call that needs more returns ERR_DATA. */
enum { GRAM_CALL_STEPS = 20000000 };

/* ---- one answer ---- */

struct gram_state *gram_begin(struct grammar *g);
struct gram_state *gram_copy(const struct gram_state *s);
/* Frees a state. NULL is fine. */
void gram_end(struct gram_state *s);

/* Tells whether the token may come next. Tokens that end a generation may where the text may end.
 * Takes about 0.2 microseconds. */
bool gram_allows(const struct gram_state *s, int32_t id);
/* Goes on behind the token. Returns ERR_USAGE when it is not allowed, and s is unchanged then;
 * returns ERR_DATA when the language needs more memory than GRAM_BYTES_MAX. */
int gram_accept(struct gram_state *s, int32_t id, struct err *e);
/* Goes on behind n bytes of text, which need not end where a token does. Fails as gram_accept
 * does. */
int gram_accept_text(struct gram_state *s, const char *text, size_t n, struct err *e);
/* Sets the bits of all tokens that gram_allows, and clears the others. bits has (size + 31) / 32
 * words, where size is that of the vocabulary. Returns ERR_DATA as gram_accept does. */
int gram_mask(const struct gram_state *s, uint32_t *bits, struct err *e);
/* Appends the bytes that must come, at most `most`: while exactly one byte can follow and the
 * text cannot end. */
void gram_forced(const struct gram_state *s, size_t most, struct buf *out);
/* Returns how few bytes complete the text, 0 when it is complete, or -1 when no way is known: the
 * search for one is bounded. */
int64_t gram_least(const struct gram_state *s);
/* Appends tokens that complete what came, by such a short text; none when it is complete. Returns
 * false when no way is known. */
bool gram_way_out(const struct gram_state *s, struct ids *out);
/* Tells whether at most that many tokens can complete what came. True is certain; false when they
 * cannot, or no way is known. Takes about a microsecond where the end is far. */
bool gram_ends_within(const struct gram_state *s, int64_t most);
/* Tells whether what came is complete. */
bool gram_may_end(const struct gram_state *s);
/* Tells whether an end came. */
bool gram_ended(const struct gram_state *s);
/* Tells whether what came is complete and nothing can be added, or an end came. */
bool gram_must_end(const struct gram_state *s);

#endif
