// SPDX-License-Identifier: MIT
/* grammar/gram.h - constrained decoding: computes which tokens may come next so that an answer
 * stays within a language: a JSON Schema, a regular expression, a list of choices or a grammar. See
 * docs/design/constrained.md.
 *
 * Three objects: a gram_vocab is a tokenizer's vocabulary as a byte trie, built once per model. A
 * grammar is a compiled language over one vocabulary, shared by any number of requests and threads.
 * A gram_state is the position in one answer. None of them needs a model. */
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

/* Builds the vocabulary of all tokens of t; free it with gram_vocab_free(). Control tokens never
 * match text. End-of-generation tokens are allowed where the language may end. Takes 1 MiB plus 30
 * bytes per token, and 0.2 s for 250,000 tokens. */
int gram_vocab_new(struct gram_vocab **out, const struct tok *t, struct err *e);
/* Builds a vocabulary of n byte strings: token i is text[i], of len[i] bytes. A token of length 0
 * is never allowed, except `end`, which ends a generation regardless of its bytes. */
int gram_vocab_of(struct gram_vocab **out, const char *const *text, const size_t *len, int64_t n,
                  int32_t end, struct err *e);
void gram_vocab_free(struct gram_vocab *v);
int64_t gram_vocab_size(const struct gram_vocab *v);

/* ---- languages ---- */

/* Compilation is counted in steps: nodes created or visited, pairs compared. ERR_DATA: the count
 * exceeds the limit grammar_steps, or the thread's cost limit (ctx_cost), which several grammars
 * share. ERR_INTR: cancelled. */

enum gram_space {                  /* whitespace between JSON tokens */
                  GRAM_SPACE_FREE, /* none, one space, or a newline and up to 32 spaces */
                  GRAM_SPACE_ONE,  /* one space after ':' and ',', none elsewhere */
                  GRAM_SPACE_NONE
};
struct gram_spot { /* the rejected part of a schema; "": unknown */
    char tool[132], path[200];
};
struct gram_opts {  /* zero-initialized: defaults */
    bool strict;    /* reject unsupported clauses instead of reporting them in `notes` */
    bool any_order; /* object members in any order; else in the order of `properties` */
    /* Allow unlisted members where the schema does not mention them, as JSON Schema does. Otherwise
     * objects with named members are closed. */
    bool open;
    bool complete; /* OpenAI's `strict: true`: all properties required, no others allowed */
    enum gram_space space;
    struct buf *notes;      /* if not NULL, receives a line "path: reason" per unsupported clause */
    struct gram_spot *spot; /* if not NULL, set to the part that caused ERR_DATA */
};
/* Compiles a JSON Schema (2020-12) to a grammar; free it with grammar_free().
 * docs/design/constrained.md lists which keywords are exact. v is borrowed and must outlive the
 * grammar, here and below. ERR_DATA messages name the path: "properties.when.pattern: lookaround is
 * not supported". o NULL: defaults. */
int grammar_of_schema(struct grammar **out, const struct gram_vocab *v, const struct json *schema,
                      const struct gram_opts *o, struct err *e);
/* Compiles a grammar for any JSON value or, with object_only, any JSON object, nested up to 32
 * levels. */
int grammar_of_json(struct grammar **out, const struct gram_vocab *v, bool object_only,
                    const struct gram_opts *o, struct err *e);
/* Compiles a regular expression of len bytes, in UTF-8. It must match the whole answer, so anchors
 * are not needed; '.' matches any character but a newline. Lookaround, back references and \b are
 * rejected with an error that names them. */
int grammar_of_regex(struct grammar **out, const struct gram_vocab *v, const char *pattern,
                     size_t len, struct err *e);
/* Creates a grammar that accepts n texts. ERR_USAGE: n is 0, or a text is empty. */
int grammar_of_choices(struct grammar **out, const struct gram_vocab *v, const char *const *text,
                       int n, struct err *e);
/* Compiles a GBNF grammar: rules `name ::= ...` with "texts", [classes], (groups), | * + ? {m,n},
 * `.` and <special tokens>; the start rule is "root". Direct left recursion is allowed; indirect
 * recursion and recursion after an empty prefix are not. */
int grammar_of_gbnf(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e);
/* Compiles a grammar in a subset of Lark: rules and TERMINALS, "texts"i, /regular expressions/is,
 * "a".."z", groups, [optional], | * + ? ~m..n, %ignore, %import common.NAME, %json {schema},
 * <special tokens>; the start rule is "start". There is no lexer: terminals match characters
 * without being greedy, and priorities are ignored. */
int grammar_of_lark(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e);
/* Compiles a GBNF grammar if the text contains "::=", else a Lark grammar. */
int grammar_of_text(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e);
/* Answers with tool calls, in one of the syntaxes of chat/toolfmt.h. */
struct toolfmt;
enum gram_tools_choice {
    GRAM_TOOLS_AUTO,     /* text, calls, or text followed by calls */
    GRAM_TOOLS_REQUIRED, /* calls only */
    GRAM_TOOLS_NONE      /* text without call markers */
};
struct gram_tools {
    const struct json *tools; /* list as given to templates: names and argument schemas */
    const char *only;         /* name of the only tool allowed; NULL: all */
    enum gram_tools_choice choice;
    bool parallel;      /* several calls allowed */
    const char *opened; /* call marker at the end of the prompt (toolfmt_opened); NULL: none */
};
/* Compiles a grammar of answers with tool calls in the syntax f. Only the listed tools can be
 * called, with arguments that match their schemas. Unless strict, a tool with an invalid schema
 * accepts any object, and the schema is reported in notes. The grammar applies from the end of the
 * reasoning. ERR_USAGE: the tool does not exist, or calls are requested but f is
 * toolfmt_plain(). */
int grammar_of_tools(struct grammar **out, const struct gram_vocab *v, const struct toolfmt *f,
                     const struct gram_tools *t, const struct gram_opts *o, struct err *e);
/* Frees a grammar; its states must have been freed first. NULL is allowed. */
void grammar_free(struct grammar *g);
/* Returns how many bytes of memory a grammar uses, including cached derivatives and masks; at most
 * GRAM_BYTES_MAX, plus GRAM_MASKS_MAX for the masks. */
enum { GRAM_BYTES_MAX = 64 << 20, GRAM_MASKS_MAX = 64 << 20 };
/* Returns the memory used by the grammar, including cached masks. */
size_t grammar_bytes(struct grammar *g);
/* Returns whether a limit was reached, so that no answer can use the grammar any more. Returns
 * false while it is in use. */
bool grammar_is_full(struct grammar *g);
/* Steps per call on a state; a call that needs more returns ERR_DATA. */
enum { GRAM_CALL_STEPS = 20000000 };

/* ---- one answer ---- */

/* Returns the state at the start of a text; release it with gram_end(). */
struct gram_state *gram_begin(struct grammar *g);
/* Returns a copy of the state; release it with gram_end(). */
struct gram_state *gram_copy(const struct gram_state *s);
/* Frees a state. NULL is allowed. */
void gram_end(struct gram_state *s);

/* Returns whether the token may come next. End-of-generation tokens may come where the text may
 * end. Takes about 0.2 microseconds. */
bool gram_allows(const struct gram_state *s, int32_t id);
/* Advances past a token. ERR_USAGE: the token is not allowed, and s is unchanged. ERR_DATA: the
 * grammar exceeds GRAM_BYTES_MAX. */
int gram_accept(struct gram_state *s, int32_t id, struct err *e);
/* Advances past n bytes of text, which need not end at a token boundary. Fails like
 * gram_accept(). */
int gram_accept_text(struct gram_state *s, const char *text, size_t n, struct err *e);
/* Sets the bits of all tokens that gram_allows() and clears the others. bits has (size + 31) / 32
 * words, where size is the vocabulary's. Returns ERR_DATA like gram_accept(). */
int gram_mask(const struct gram_state *s, uint32_t *bits, struct err *e);
/* Appends up to `most` forced bytes: as long as exactly one byte can follow and the text cannot end
 * there, that byte is forced. */
void gram_forced(const struct gram_state *s, size_t most, struct buf *out);
/* Returns the smallest number of bytes that completes the text. 0: it is complete. -1: unknown,
 * because the search is bounded. */
int64_t gram_least(const struct gram_state *s);
/* Appends the tokens of a shortest text that completes the answer; none if it is complete. Returns
 * false if no such text is known. */
bool gram_way_out(const struct gram_state *s, struct ids *out);
/* Returns whether the text can be completed with at most `most` tokens; false if that is unknown.
 * Takes about a microsecond if many tokens are needed. */
bool gram_ends_within(const struct gram_state *s, int64_t most);
/* Returns whether the text so far is complete. */
bool gram_may_end(const struct gram_state *s);
/* Returns whether an end token was accepted. */
bool gram_ended(const struct gram_state *s);
/* Returns whether the text is complete and cannot be extended, or an end token was accepted. */
bool gram_must_end(const struct gram_state *s);

#endif
