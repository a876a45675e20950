// SPDX-License-Identifier: MIT
/* chat/tool_int.h - what the tool-call files share. Positions are byte offsets in p->in. */
#ifndef HONE_CHAT_TOOL_INT_H
#define HONE_CHAT_TOOL_INT_H

#include "template/jinja_int.h"
#include "chat/toolfmt.h"

enum { TOOL_MARKERS = 3, TOOL_FRAMES = 6 };
/* How parameters are written as text between tags. */
struct tool_tags {
    const char *fn_open, *fn_name_end, *fn_close;
    const char *par_open, *par_name_end, *par_close;
    bool newline;         /* one newline on each side of a value belongs to the syntax */
    const char *val_open; /* GLM's: between the name and the value */
};
/* Name and JSON: open NAME sep {json} close. */
struct tool_named {
    const char *open, *sep, *close;
    const char *behind_id; /* an identifier and this text stand in front of the name; NULL: not */
    bool numbered;         /* the name ends in ":" and the number of the call */
};
/* How calls are written, besides what the reader asks for: around all, around each, between them;
 * sep NULL: there is one call only. Behind `each` comes fn_open, where the row has tags. */
struct tool_written {
    const char *open, *each, *each_end, *sep, *close;
    bool lines;       /* a newline behind every tag */
    const char *lead; /* may stand in front of calls that are required; NULL: white space */
};
struct gcalls; /* chat/calls.h */
struct gcall;
struct toolfmt {
    const char *name;
    const char *marker[TOOL_MARKERS]; /* a call begins with one of these */
    /* Parses what begins at *i (a marker), adds its calls, moves *i behind it. False: not a call.
     */
    bool (*parse)(struct toolparse *p, size_t *i);
    /* The language of one call, from the name of its tool on (a gnode). */
    uint32_t (*grammar)(struct gcalls *c, const struct gcall *t);
    struct tool_written written;
    struct tool_tags tags;
    struct tool_named named;
    const char *detect[2]; /* template text that gives it away; all must occur */
    const char *think[2];  /* tags around reasoning; NULL: <think>, </think> */
    bool think_tagged;     /* the closing tag ends other things too: only behind an opening one */
    const char *frame[TOOL_FRAMES]; /* texts around content that are none */
};
struct toolparse {
    const struct toolfmt *f;
    enum tool_think think;
    struct buf in;
    struct arena arena;
    struct jctx c;
    struct jinja_err je;
    struct jval tools;
    struct jval calls, problems; /* lists */
    size_t mark_at[TOOL_MARKERS],
        mark_from[TOOL_MARKERS]; /* marker k: next at or after mark_from */
    size_t close_from;           /* streaming: no closing tag of reasoning before it */
    size_t scanned, n_content;   /* streaming: how far content is certain */
    bool closed;                 /* streaming: content ended for good, or what comes is unclear */
    size_t content_from, content_at; /* content_at: the same, known at the end */
    size_t n_reasoning;              /* streaming: bytes of reasoning that are certain */
    bool started;
};

/* Texts that several files know. */
// clang-format off
#define DS_BAR "\xef\xbd\x9c" /* full-width | and, in DS_LOW, a low block: DeepSeek's tokens */
#define DS_LOW "\xe2\x96\x81"
#define DS_CALL "<" DS_BAR "tool" DS_LOW "call" DS_LOW "begin" DS_BAR ">"
#define DS_CALL_END "<" DS_BAR "tool" DS_LOW "call" DS_LOW "end" DS_BAR ">"
#define DS_CALLS "<" DS_BAR "tool" DS_LOW "calls" DS_LOW "begin" DS_BAR ">"
#define DS_CALLS_END "<" DS_BAR "tool" DS_LOW "calls" DS_LOW "end" DS_BAR ">"
#define DS_SEP "<" DS_BAR "tool" DS_LOW "sep" DS_BAR ">"
#define DSML DS_BAR "DSML" DS_BAR
#define M3_GUARD "]<]minimax[>[" /* before every tag of MiniMax M3 */
#define HY ":opensource"          /* in every tag of Hunyuan 3 */
// clang-format on

bool tool_at(const struct toolparse *p, size_t i, const char *lit);
size_t tool_ws(const struct toolparse *p, size_t i); /* behind white space */
/* Offset of lit at or after i; SIZE_MAX. */
size_t tool_find(const struct toolparse *p, size_t i, const char *lit);
struct jval tool_text(const struct toolparse *p, size_t from, size_t to);
void tool_add(struct toolparse *p, struct jval name, struct jval args);
void tool_problem(struct toolparse *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A value given as raw text, typed by the schema of its parameter. */
struct jval tool_typed(struct toolparse *p, struct jval fn, struct jval key, struct jval text);
/* Schema of a parameter, JT_MISSING when it is not declared; a value typed by a schema. */
struct jval tool_schema(struct toolparse *p, struct jval fn, struct jval key);
struct jval tool_typed_as(struct toolparse *p, struct jval schema, struct jval key,
                          struct jval text);
struct jval tool_member(struct jval obj, const char *name); /* JT_MISSING when absent */
/* Behind the opening, or closing, tag of a wrapper around calls that is at i; i when there is none.
 */
size_t tool_wrapper(const struct toolparse *p, size_t i);
size_t tool_wrapper_end(const struct toolparse *p, size_t i);
/* {"name", "arguments" | "parameters"} -> a call. */
bool tool_add_object(struct toolparse *p, struct jval obj);

bool tool_parse_tags(struct toolparse *p, size_t *i);
bool tool_parse_hermes(struct toolparse *p, size_t *i);
bool tool_parse_named(struct toolparse *p, size_t *i);
bool tool_parse_list(struct toolparse *p, size_t *i);
bool tool_parse_mistral(struct toolparse *p, size_t *i);
bool tool_parse_deepseek(struct toolparse *p, size_t *i);
bool tool_parse_harmony(struct toolparse *p, size_t *i);
bool tool_parse_llama(struct toolparse *p, size_t *i);
bool tool_parse_gemma(struct toolparse *p, size_t *i);
bool tool_parse_python(struct toolparse *p, size_t *i);
bool tool_parse_glm(struct toolparse *p, size_t *i);
bool tool_parse_elements(struct toolparse *p, size_t *i);
/* A Python literal at *i; false when there is none. */
bool tool_literal(struct toolparse *p, size_t *i, struct jval *out);

#endif
