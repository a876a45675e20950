// SPDX-License-Identifier: MIT
/* chat/tool_int.h - what the tool-call files share. Positions are byte offsets in p->in, texts lie
 * in it or in the arena of the parse; values live in that arena. */
#ifndef HONE_CHAT_TOOL_INT_H
#define HONE_CHAT_TOOL_INT_H

#include "base/arena.h"
#include "base/attr.h"
#include "base/json.h"
#include "chat/toolfmt.h"

enum {
    TOOL_MARKERS = 5,
    TOOL_FRAMES = 10,
    TOOL_ALL_FRAMES = 32, /* more than those of all families and of one */
    TOOL_DEPTH = 48 /* nesting of arguments: the conversation around them stays within json_depth */
};
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
    const char *detect[2];    /* template text that gives it away; all must occur */
    const char *hint[2];      /* the prompt holds one of these when tools are declared */
    const char *think[2];     /* tags around reasoning; NULL: <think>, </think> */
    const char *think_end[2]; /* texts of what follows that end reasoning left open */
    bool think_tagged; /* the closing tag ends other things too: only behind an opening one */
    const char *frame[TOOL_FRAMES]; /* texts around content that are none */
};
struct text { /* bytes that do not end with a NUL */
    const char *s;
    size_t n;
};
struct tool_call {
    struct text name;
    const struct json *args; /* an object */
    size_t from, to;         /* where it was read, maybe with others; once all is read */
};
enum { TOOL_NAMES = 512 };
/* Arguments that are JSON text, as far as they were read while they came; `from` is set by whoever
 * finds them, 0: nobody has. */
struct tool_flow {
    size_t from, at;        /* where the arguments begin, and what is behind what was read */
    struct buf out;         /* what is certain, in the spelling of json_write_spaced */
    char close[TOOL_DEPTH]; /* of the brackets that are open, the outermost first */
    int depth, state;
    struct { /* of the objects that are open: names must differ */
        size_t n;
        int depth;
    } name[TOOL_NAMES];
    int n_names;
    struct buf names;
    bool ended, failed; /* failed: nothing more comes before the call is complete */
    bool skips;         /* the member under way was there before: it is left out */
    struct {
        size_t len; /* of `out` before it */
        int depth;
    } skip;
};
struct toolparse {
    const struct toolfmt *f;
    enum tool_think think;
    struct buf in;
    struct arena arena;
    const struct json *tools;
    struct tool_props {
        const struct json *fn, *props;
    } * props;   /* of each tool */
    int n_props; /* a list; NULL: none were declared */
    struct tool_call *calls;
    int n_calls, cap_calls;
    char **problems; /* what was odd, in sentences; in the arena */
    int n_problems;
    size_t mark_at[TOOL_MARKERS],
        mark_from[TOOL_MARKERS]; /* marker k: next at or after mark_from */
    size_t close_from;           /* streaming: no closing tag of reasoning before it */
    size_t scanned, n_content;   /* streaming: how far content is certain */
    bool closed;                 /* streaming: content ended for good, or what comes is unclear */
    size_t content_from, content_at; /* content_at: the same, known at the end */
    size_t n_reasoning;              /* streaming: bytes of reasoning that are certain */
    size_t part_at, part_len;  /* parts: the next call is behind; read again from that length on */
    size_t part_piece;         /* parts: where the text began that no call was in */
    bool part_list, part_stop; /* parts: within a list of calls; no more of them */
    size_t part_given;         /* parts: bytes of arguments that were given */
    struct text part_name;     /* parts: whose arguments `flow` reads */
    struct tool_flow flow;
    const struct json *root; /* the schema within which parameters refer to others */
    struct buf thought;      /* all reasoning, once all is read */
    size_t loose_at;      /* streaming: read what may be a loose call again from that length on */
    int n_loose;          /* calls that were written loosely */
    bool started, broken; /* broken: what begins like a call is none */
    bool ended;           /* no more text comes */
    bool loose;           /* bare JSON objects may be calls */
    const char *opened;   /* the prompt's marker, until the answer is known to follow it; or NULL */
    struct buf first;     /* the text until then */
    size_t n_opened;      /* bytes of `in` that are the prompt's */
    bool own_form;        /* calls in the forms of other syntaxes are not accepted */
    bool no_calls;        /* no tools were offered: markers are plain text */
    bool json_text;       /* literals: accept JSON's escapes too */
};

/* Texts that several files know. */
// clang-format off
#define DS_BAR "\xef\xbd\x9c" /* full-width | and, in DS_LOW, a low block: DeepSeek's tokens */
#define DS_LOW "\xe2\x96\x81"
#define DS_CALL "<" DS_BAR "tool" DS_LOW "call" DS_LOW "begin" DS_BAR ">"
#define DS_CALL_END "<" DS_BAR "tool" DS_LOW "call" DS_LOW "end" DS_BAR ">"
#define DS_CALLS "<" DS_BAR "tool" DS_LOW "calls" DS_LOW "begin" DS_BAR ">"
#define DS_CALLS_END "<" DS_BAR "tool" DS_LOW "calls" DS_LOW "end" DS_BAR ">"
#define DS_END "<" DS_BAR "end" DS_LOW "of" DS_LOW "sentence" DS_BAR ">"
#define DS_SEP "<" DS_BAR "tool" DS_LOW "sep" DS_BAR ">"
#define DSML DS_BAR "DSML" DS_BAR
#define M3_GUARD "]<]minimax[>[" /* before every tag of MiniMax M3 */
#define CHANNEL(x) "<|channel|>" x
#define PY_CALLS "<|tool_call_start|>"
#define HY ":opensource"          /* in every tag of Hunyuan 3 */
// clang-format on

bool tool_at(const struct toolparse *p, size_t i, const char *lit);
/* Returns the first offset at or after i that is no white space. */
size_t tool_ws(const struct toolparse *p, size_t i);
/* Returns the offset of lit at or after i; SIZE_MAX when there is none. */
size_t tool_find(const struct toolparse *p, size_t i, const char *lit);
struct text tool_text(const struct toolparse *p, size_t from, size_t to);
struct text tool_strip(struct text t); /* without white space around it */
bool tool_is(struct text t, const char *lit);
bool tool_same(struct text a, struct text b);
/* Returns the JSON value that t is, apart from white space around it; NULL when it is none. */
const struct json *tool_whole_json(struct toolparse *p, struct text t);
int tool_len(struct text t); /* as %.*s takes it, at most 200 */
/* Reads the JSON value that t begins with; *used is where it ends. NULL: it begins with none. */
const struct json *tool_json(struct toolparse *p, struct text t, size_t *used);
struct json *tool_str(struct toolparse *p, struct text t);
/* Adds a member; of two of one name the first counts, since a stream has sent it. */
void tool_put(struct toolparse *p, struct json *obj, struct text name, const struct json *v);
/* Adds a call; name and args stay where they are. */
void tool_add(struct toolparse *p, struct text name, const struct json *args);
void tool_problem(struct toolparse *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Returns the schema that a $ref of `schema` leads to within root, as in "#/$defs/name"; the schema
 * itself where there is none, or nothing is there. */
const struct json *tool_target(const struct json *root, const struct json *schema);
/* Returns a tool's schema with its parameters in one list, "properties", and "required". Parameters
 * may come from a $ref and allOf, and from anyOf or oneOf, of which only number `branch` counts;
 * -1: all do, and none of them is required. What needs no merging is returned as it is; else new
 * nodes belong to a. */
const struct json *tool_flat(struct arena *a, const struct json *root, int branch);
/* Returns the number of branches of anyOf or oneOf that a tool's schema is; 0: none, or too many.
 */
int tool_branches(const struct json *root);
/* Returns the properties of the parameters of a declared function; NULL: there are none. */
const struct json *tool_properties(const struct toolparse *p, const struct json *fn);
/* Returns the schema of a parameter of the tool fn; NULL when it is not declared. Notes in p->root
 * within what it refers to others. */
const struct json *tool_schema(struct toolparse *p, struct text fn, struct text key);
/* Returns a value that was given as raw text, typed by its schema; key is for messages. */
const struct json *tool_typed(struct toolparse *p, const struct json *schema, struct text key,
                              struct text text);
/* Returns what is behind the opening, or closing, tag of a wrapper around calls that is at i; i
 * when there is none. */
size_t tool_wrapper(const struct toolparse *p, size_t i);
size_t tool_wrapper_end(const struct toolparse *p, size_t i);
/* Returns the closing tag of the wrapper that a syntax puts around calls, or NULL. */
const char *tool_wrapper_close(const struct toolfmt *f);
/* Returns NAME of `"NAME"`, or of DSML's `"NAME" string="true"`. */
struct text tool_attr_name(struct text t);
/* Tells whether a model of Cohere's says by a call of that name that it answers by itself. */
bool tool_is_no_call(const struct toolparse *p, struct text name);
/* Members that hold a call's name and its arguments, as models write them; NULL-terminated. */
extern const char *const tool_name_members[], *const tool_arg_members[];
/* Returns the arguments v as an object. v may be JSON text in a string, as APIs have it, where
 * empty text means no arguments. NULL: not an object. */
const struct json *tool_arguments(struct toolparse *p, const struct json *v);
/* Adds the call {"name", "arguments" | "parameters"}; false: obj is not a call. */
bool tool_add_object(struct toolparse *p, const struct json *obj);

/* Returns where the value of a parameter of the tool fn that begins at i ends; *next is after its
 * closing tag. SIZE_MAX: it is not closed, or that is not certain yet. */
size_t tool_value_end(struct toolparse *p, size_t i, struct text fn, size_t *next);
/* Returns the next marker at or after i; SIZE_MAX. */
size_t tool_marker(struct toolparse *p, size_t i);
/* Returns the next marker at or after i that neither is a frame nor is within a later block of
 * reasoning, in the piece of text that begins at `piece`. SIZE_MAX: none, or not certain yet. */
size_t tool_next_call(struct toolparse *p, size_t piece, size_t i);
/* Returns the declared function of that name, which may have a namespace; NULL: not declared. */
const struct json *tool_declared(const struct toolparse *p, struct text name);
/* Returns the name as declared, without its namespace; an undeclared one is returned unchanged. */
struct text tool_known_name(const struct toolparse *p, struct text name);
/* Returns whether the text from i on may become, or is, a loose call: an answer that is nothing
 * but a JSON object which names a declared tool and satisfies its schema, in a fence or bare. */
enum tool_loose { LOOSE_NO, LOOSE_MAYBE, LOOSE_YES };
enum tool_loose tool_loose(struct toolparse *p, size_t i);
/* Adds the calls of a text that is LOOSE_YES. */
void tool_add_loose(struct toolparse *p, size_t i);
/* Returns the k-th of the texts around messages that are no content, of all families and of p's;
 * NULL: there is none of that number, below TOOL_ALL_FRAMES. */
const char *tool_frame(const struct toolparse *p, size_t k);
/* Tells whether a family's own tag of reasoning, or NULL, is a token that no text holds. */
bool tool_is_token(const char *tag);
bool tool_is_ws(char ch); /* a blank, a tab or the end of a line */
/* Returns where the reasoning that i is in ends; *after: what follows. SIZE_MAX: it is open. */
size_t tool_think_end(const struct toolparse *p, size_t i, size_t *after);
/* Takes text while it is unknown whether it follows the prompt's marker; last: no more comes. True:
 * it is known now, `in` has the marker where it does, and all of `first` comes next. */
bool tool_opened_feed(struct toolparse *p, const char *s, size_t n, bool last);
/* Ends that waiting: no more text comes. */
void tool_opened_end(struct toolparse *p);
/* Skips whitespace and frames before an answer; returns the next position. */
size_t tool_begin(const struct toolparse *p);
/* Returns the place after white space, frames and closing tags of reasoning at i. */
size_t tool_skip_frames(const struct toolparse *p, size_t i);
/* Returns the length of the longest end of [from, in.len) that is a beginning of lit. */
size_t tool_partial(const struct toolparse *p, size_t from, const char *lit);
/* Returns the place after the header of a message that begins at i, in harmony's form; i: none. */
size_t tool_header(const struct toolparse *p, size_t i);
/* A fence around calls: n marks ch, or a tag. n 0: no fence. */
struct tool_fence {
    char ch;
    size_t n;
    const char *tag;
};
/* Returns the place after the opening fence at i; i: no fence. SIZE_MAX: more text is needed. */
size_t tool_fence_open(const struct toolparse *p, size_t i, struct tool_fence *f);
/* Returns the place after the closing fence at i; i: no fence. SIZE_MAX: more text is needed. */
size_t tool_fence_close(const struct toolparse *p, size_t i, const struct tool_fence *f);
/* Returns the start of the last line in [from, to) if that line may open a fence; otherwise to. */
size_t tool_fence_before(const struct toolparse *p, size_t from, size_t to, struct tool_fence *f);
/* Returns where the calls begin after the marker at `at` and an optional fence, which is stored in
 * *fence unless that is NULL. SIZE_MAX: more text is needed. */
size_t tool_list_at(const struct toolparse *p, size_t at, struct tool_fence *fence);
/* Reads JSON calls up to the closing tag. Models write several calls into one tag, with or without
 * commas, and fences inside the tag. */
bool tool_json_calls(struct toolparse *p, size_t *i, const char *close);
/* Returns the tool name in [from, to) without the "functions." of harmony and Kimi. */
struct text tool_name(const struct toolparse *p, size_t from, size_t to);
/* Reads arguments at *i, an object or JSON text in quotes, and moves past `close`. Nothing before
 * `close` means an empty object. Returns NULL when there are no arguments. */
const struct json *tool_args(struct toolparse *p, size_t *i, const char *close);
/* Reads a Python literal at *i and moves past it; NULL: not a literal. */
const struct json *tool_literal(struct toolparse *p, size_t *i);
/* Reads one Python call or a list of calls at *i and moves past it. */
bool tool_python_calls(struct toolparse *p, size_t *i);
/* Returns the next header with a recipient at or after i: harmony's marker of a call. */
size_t tool_harmony_marker(const struct toolparse *p, size_t i);
/* Returns the length of the frame of n bytes at i including the header words that follow it. */
size_t tool_harmony_frame(const struct toolparse *p, size_t i, size_t n);

/* Reads on in arguments that begin at f->from. */
void tool_flow_more(struct toolparse *p, struct tool_flow *f);
/* Returns how many bytes of f->out are certain to stay. */
size_t tool_flow_sure(const struct tool_flow *f);
/* Appends what would end the arguments here, behind those bytes. */
void tool_flow_end(const struct tool_flow *f, struct buf *out);
void tool_flow_reset(struct tool_flow *f);
void tool_flow_release(struct tool_flow *f);
/* Finds the name of the tool and the arguments, JSON text of an object, of what may be a call at
 * `at`, complete or not. False: they are not certain. */
typedef bool tool_head(struct toolparse *p, size_t at, struct text *name, size_t *from);
tool_head tool_head_object, tool_head_hermes, tool_head_named, tool_head_mistral,
    tool_head_deepseek, tool_head_harmony, tool_head_llama;
/* Finds how much of the parameters of the call at `at` is certain: text up to *cut, which `end`
 * makes a call; *n_close bytes of the arguments are the end's. False: nothing is. */
typedef bool tool_cut(struct toolparse *p, size_t at, size_t *cut, struct buf *end,
                      size_t *n_close);
tool_cut tool_cut_tags, tool_cut_elements, tool_cut_python, tool_cut_gemma;
/* Reads an element of a list of calls. */
typedef bool tool_one(struct toolparse *p, size_t *i);
tool_one tool_one_object, tool_one_python;
/* Reads the elements of a list from *i on, after its bracket, as a stream reads them, and moves
 * past the closing bracket. False: moves to what is not an element. */
bool tool_list_elements(struct toolparse *p, size_t *i, tool_one *one);
/* Reads the list of calls whose bracket is at *i, what closes its fence, and `close`. A list that
 * breaks off keeps the calls before that place, with a problem. False: there are none. */
bool tool_list(struct toolparse *p, size_t *i, tool_one *one, struct tool_fence *fence,
               const char *close);
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
#endif
