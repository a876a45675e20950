// SPDX-License-Identifier: MIT
/* chat/tool_int.h - internals of the tool-call parser. Positions are byte offsets in p->in. Texts
 * are in p->in or in the parse's arena; values are in the arena. */
#ifndef HONE_CHAT_TOOL_INT_H
#define HONE_CHAT_TOOL_INT_H

#include "base/arena.h"
#include "base/attr.h"
#include "base/json.h"
#include "chat/toolfmt.h"

enum {
    TOOL_MARKERS = 5,
    TOOL_FRAMES = 10,
    TOOL_ALL_FRAMES = 32, /* upper bound: common frames plus those of one family */
    /* Limit on the nesting of arguments. Together with the conversation around them it stays within
     * json_depth. */
    TOOL_DEPTH = 48
};
/* Syntax of parameters as text between tags. */
struct tool_tags {
    const char *fn_open, *fn_name_end, *fn_close;
    const char *par_open, *par_name_end, *par_close;
    bool newline; /* one newline on each side of a value is not part of it */
    /* Text between a parameter's name and the word for the type of its value; NULL: no such word.
     */
    const char *flag;
    const char *is_text;  /* the word for text; others: JSON */
    const char *counter;  /* text between the tool's name and the call's number; NULL: no number */
    const char *val_open; /* GLM: between name and value */
};
/* Name and JSON: open NAME sep {json} close. */
struct tool_named {
    const char *open, *sep, *close;
    const char
        *behind_id; /* text between an id and the name that follows it; NULL: there is no id */
    bool numbered;  /* the name ends with ":" and the call's index */
};
/* Texts around all calls (open, close), around each one (each, each_end) and between two (sep). sep
 * NULL: only a single call is possible. If the row has tags, fn_open follows `each`. */
struct tool_written {
    const char *open, *each, *each_end, *sep, *close;
    bool lines;       /* a newline after every tag */
    const char *lead; /* text that may precede required calls; NULL: only whitespace may */
    /* Before a header that names the tool, which ends with "<|message|>" and comes before `each`;
     * NULL: no such header. */
    const char *recipient;
};
struct toolparse;
/* Message headers whose text depends on the message. All functions but `frame` may be NULL. */
struct tool_headers {
    /* Returns the next header at or after i that begins a call; replaces `marker`. */
    size_t (*call)(const struct toolparse *p, size_t i);
    /* Returns the length of the frame at i, whose literal part has n bytes; n 0: none. */
    size_t (*frame)(const struct toolparse *p, size_t i, size_t n);
    /* Returns the position after the header at i, or i without a header. */
    size_t (*skip)(const struct toolparse *p, size_t i);
    /* Returns the next complete header that is a frame, at or after i; SIZE_MAX: none. */
    size_t (*find)(const struct toolparse *p, size_t i);
    /* Returns the length of the longest suffix of the text at or after `from` that may grow into
     * such a header. */
    size_t (*partial)(const struct toolparse *p, size_t from);
    /* Returns the end of the message that contains `at` if calls in that message are text, in the
     * piece of text that begins at `piece`; 0: they are calls, SIZE_MAX: it has not ended. */
    size_t (*text_end)(const struct toolparse *p, size_t piece, size_t at);
};
struct gcalls; /* chat/calls.h */
struct gcall;
struct toolfmt {
    const char *name;
    const char *marker[TOOL_MARKERS]; /* texts that begin a call */
    bool bare;                        /* calls are JSON objects without a tag */
    /* Parses the call or calls at the marker at *i, adds them and moves *i past them. False: not a
     * call. */
    bool (*parse)(struct toolparse *p, size_t *i);
    /* Returns the language of one call (a gnode), beginning with the tool's name. */
    uint32_t (*grammar)(struct gcalls *c, const struct gcall *t);
    struct tool_written written;
    struct tool_tags tags;
    struct tool_named named;
    const char *detect[2];    /* texts in templates of this syntax; all must occur */
    const char *hint[2];      /* texts in prompts with tools; one is enough */
    const char *quote;        /* Gemma: around strings */
    const char *think[2];     /* tags around reasoning; NULL: <think>, </think> */
    const char *think_end[2]; /* texts that also end reasoning that was not closed */
    /* The closing tag also ends other things, so it counts only after an opening one. */
    bool think_tagged;
    const char *frame[TOOL_FRAMES];     /* texts around content that are not content */
    const struct tool_headers *headers; /* headers of variable text; NULL: none */
};
struct text { /* bytes without a terminating NUL */
    const char *s;
    size_t n;
};
struct tool_call {
    struct text name;
    const struct json *args; /* an object */
    size_t from, to;         /* its bytes, which may contain other calls too; set at the end */
};
enum { TOOL_NAMES = 512 };
/* JSON arguments parsed while they arrive. `from` is set when they are found; 0: not yet. */
struct tool_flow {
    size_t from, at;        /* start of the arguments; offset up to which they are parsed */
    struct buf out;         /* output that will not change, in json_write_spaced()'s style */
    char close[TOOL_DEPTH]; /* closing brackets of open ones, outermost first */
    int depth, state;
    struct { /* names used in each open object, to detect duplicates */
        size_t n;
        int depth;
    } name[TOOL_NAMES];
    int n_names;
    struct buf names;
    bool ended, failed; /* failed: returns no more output before the call is complete */
    bool skips;         /* current member is a duplicate: drop it */
    struct {
        size_t len; /* length of `out` before the member */
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
    } * props;   /* per tool */
    int n_props; /* tools: a list; NULL: none declared */
    struct tool_call *calls;
    int n_calls, cap_calls;
    char **problems; /* problems found, as sentences; in the arena */
    int n_problems;
    size_t mark_at[TOOL_MARKERS + 1],
        mark_from[TOOL_MARKERS + 1]; /* marker k: next one at or after mark_from */
    size_t close_from;               /* streaming: no closing reasoning tag before it */
    size_t scanned, n_content;       /* streaming: bytes scanned; bytes known to be content */
    bool closed;                     /* streaming: content has ended, or may have */
    size_t content_from, content_at; /* content_at: the same, known at the end */
    size_t n_reasoning;              /* streaming: bytes of reasoning that will not change */
    size_t part_at, part_len;  /* parts: end of the last call; text length at which to try again */
    size_t part_piece;         /* parts: start of the current piece of text between calls */
    bool part_list, part_stop; /* parts: in a list of calls; no more parts */
    size_t part_given;         /* parts: bytes of arguments returned */
    struct text part_name;     /* parts: name of the call that `flow` parses */
    struct tool_flow flow;
    const struct json *root; /* schema in which references of parameters are resolved */
    struct buf thought;      /* all reasoning, at the end */
    size_t loose_at;         /* streaming: length at which to recheck for loose calls */
    int n_loose;             /* calls written as bare JSON */
    bool started, broken;    /* broken: something begins like a call but is not one */
    bool ended;              /* end of the text */
    bool limited;            /* a limit cut the text off, so what looks complete may not be */
    bool loose;              /* bare JSON objects may be calls */
    /* The prompt's marker, until it is known whether the answer continues it; NULL: none. */
    const char *opened;
    struct buf first; /* text until then */
    size_t n_opened;  /* bytes of `in` that belong to the prompt */
    size_t answer_to; /* end of the JSON that began like a call but is an answer; 0: none */
    bool own_form;    /* accept only calls in the model's own syntax */
    bool no_calls;    /* no tools were offered: markers are plain text */
    bool continues;   /* the answer continues a text: white space at its start is content */
    bool exact;       /* white space around an answer without calls is content */
    bool json_text;   /* literals: also accept JSON's escapes */
    uint32_t no_ends; /* common frames, as bits, that are content */
};

/* Texts used by several files. */
// clang-format off
#define DS_BAR "\xef\xbd\x9c" /* full-width |; DS_LOW: low block, as in DeepSeek's tokens */
#define DS_LOW "\xe2\x96\x81"
#define DS_CALL "<" DS_BAR "tool" DS_LOW "call" DS_LOW "begin" DS_BAR ">"
#define DS_CALL_END "<" DS_BAR "tool" DS_LOW "call" DS_LOW "end" DS_BAR ">"
#define DS_CALLS "<" DS_BAR "tool" DS_LOW "calls" DS_LOW "begin" DS_BAR ">"
#define DS_CALLS_END "<" DS_BAR "tool" DS_LOW "calls" DS_LOW "end" DS_BAR ">"
#define DS_END "<" DS_BAR "end" DS_LOW "of" DS_LOW "sentence" DS_BAR ">"
#define DS_SEP "<" DS_BAR "tool" DS_LOW "sep" DS_BAR ">"
#define DSML DS_BAR "DSML" DS_BAR
#define GCML DS_BAR "GCML" DS_BAR
/* DSML's flag of a parameter: string="true" or string="false" */
#define TEXT_FLAG "\" string=\""
#define K3_OPEN(x) "<|open|>" x
#define K3_CLOSE(x) "<|close|>" x "<|sep|>"
#define M3_GUARD "]<]minimax[>[" /* before every tag of MiniMax M3 */
#define CHANNEL(x) "<|channel|>" x
#define INVOKE_JSON "<|content_invoke_tool_json|>" /* Inkling: between a name and a call */
#define PY_CALLS "<|tool_call_start|>"
#define HY ":opensource"          /* in every tag of Hunyuan 3 */
// clang-format on

/* Returns whether the text is in the input at position i. */
bool tool_at(const struct toolparse *p, size_t i, const char *lit);
/* Returns the first non-whitespace offset at or after i. */
size_t tool_ws(const struct toolparse *p, size_t i);
/* Returns the offset of lit at or after i; SIZE_MAX: not found. */
size_t tool_find(const struct toolparse *p, size_t i, const char *lit);
/* Returns the input from `from` up to `to`; valid until more text is fed. */
struct text tool_text(const struct toolparse *p, size_t from, size_t to);
struct text tool_strip(struct text t); /* without surrounding whitespace */
bool tool_is(struct text t, const char *lit);
bool tool_same(struct text a, struct text b);
/* Returns the JSON value of t, ignoring surrounding whitespace; NULL: not JSON. */
const struct json *tool_whole_json(struct toolparse *p, struct text t);
int tool_len(struct text t); /* for %.*s, at most 200 */
/* Parses the JSON value at the start of t; *used: its length. NULL: no value. */
const struct json *tool_json(struct toolparse *p, struct text t, size_t *used);
/* Returns a string value with a copy of the text. */
struct json *tool_str(struct toolparse *p, struct text t);
/* Adds a member; if the name is taken, the first one stays, since a stream has sent it. */
void tool_put(struct toolparse *p, struct json *obj, struct text name, const struct json *v);
/* Adds a call; name and args are not copied. */
void tool_add(struct toolparse *p, struct text name, const struct json *args);
/* Records a problem for the result; those after the first 100 are dropped. */
void tool_problem(struct toolparse *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Returns the target of a $ref in `schema` within root, such as "#/$defs/name"; the schema itself
 * if it has no $ref or the target does not exist. */
const struct json *tool_target(const struct json *root, const struct json *schema);
/* Returns a tool's schema with all its parameters in "properties" and "required". Parameters may
 * come from a $ref and allOf, and from anyOf or oneOf, where only branch number `branch` counts;
 * -1: all branches, none of them required. A schema that needs no merging is returned unchanged;
 * otherwise new nodes are in a. */
const struct json *tool_flat(struct arena *a, const struct json *root, int branch);
/* Returns whether a tool accepts parameters that its schema does not list: additionalProperties
 * allows them, or it lists none at all. */
bool tool_is_open(const struct json *root);
/* Returns whether the tool fn accepts a parameter `key` that its schema does not list. */
bool tool_takes_other(const struct toolparse *p, struct text fn, struct text key);
/* Returns the schema of any parameter of the tool fn, listed or not; NULL: it has none. Sets
 * p->root as tool_schema() does. */
const struct json *tool_any_schema(struct toolparse *p, struct text fn, struct text key);
/* Returns the number of branches of a tool's schema that is an anyOf or oneOf; 0: it is neither, or
 * has too many. */
int tool_branches(const struct json *root);
/* Returns the schema of a function's parameters, which some APIs name input_schema; NULL: none. */
const struct json *tool_parameters(const struct json *fn);
/* Returns the properties of a declared function's parameters; NULL: none. */
const struct json *tool_properties(const struct toolparse *p, const struct json *fn);
/* Computes these for every tool; call once. */
void tool_know_properties(struct toolparse *p);
/* Returns the schema of a parameter of the tool fn; NULL: not declared. Sets p->root to the schema
 * that its references are resolved in. */
const struct json *tool_schema(struct toolparse *p, struct text fn, struct text key);
/* Converts a value given as raw text to the type that its schema demands. key: its name in
 * messages. */
const struct json *tool_typed(struct toolparse *p, const struct json *schema, struct text key,
                              struct text text);
/* Returns the position after the opening (closing) tag of a wrapper around calls at i, or i if
 * there is no tag. */
size_t tool_wrapper(const struct toolparse *p, size_t i);
/* Returns the position after the wrapper's end tag at i; i if there is no end tag. */
size_t tool_wrapper_end(const struct toolparse *p, size_t i);
/* Returns the closing tag of a syntax's wrapper around calls, or NULL. */
const char *tool_wrapper_close(const struct toolfmt *f);
/* Returns NAME of `"NAME"`, or of a tag with more attributes, `"NAME" string="true"`. */
struct text tool_attr_name(const struct toolparse *p, struct text t);
/* Returns whether a parameter's tag `"NAME" string="true"` calls the value text (1) or JSON (0),
 * and cuts *t after the name; -1: it has no such attribute. */
int tool_flag(const struct toolparse *p, struct text *t);
/* Returns whether `name` is the pseudo-tool that Cohere models call to answer directly. */
bool tool_is_no_call(const struct toolparse *p, struct text name);
/* Alternative names of the members for a call's name and arguments, as models write them;
 * NULL-terminated. */
extern const char *const tool_name_members[], *const tool_arg_members[];
/* Returns the arguments v as an object. v may be a string with JSON text, as in APIs; empty text
 * means no arguments. NULL: not an object. */
const struct json *tool_arguments(struct toolparse *p, const struct json *v);
/* Adds the call {"name", "arguments" | "parameters"}. Returns false if obj is not a call. */
bool tool_add_object(struct toolparse *p, const struct json *obj);

/* Returns the end of the value at i, which belongs to a parameter of the tool fn; *next: position
 * after its closing tag. SIZE_MAX: not closed, or not certain yet. */
size_t tool_value_end(struct toolparse *p, size_t i, struct text fn, size_t *next);
/* Returns the next marker at or after i, or SIZE_MAX. */
size_t tool_marker(struct toolparse *p, size_t i);
/* Returns the end of the message that contains `at` if calls in it are text, in the piece of text
 * that begins at `piece`; 0: they are calls, SIZE_MAX: it has not ended. */
size_t tool_text_end(const struct toolparse *p, size_t piece, size_t at);
/* Returns the next marker at or after i, in the piece of text that begins at `piece`, that is not
 * in a message whose calls are text; SIZE_MAX: none. */
size_t tool_piece_marker(struct toolparse *p, size_t piece, size_t i);
/* Returns the next marker at or after i that is neither part of a frame nor inside a reasoning
 * block. piece: start of the piece of text that contains i. SIZE_MAX: none, or not certain yet. */
size_t tool_next_call(struct toolparse *p, size_t piece, size_t i);
/* Returns the declared function of that name, which may have a namespace; NULL: not declared. */
const struct json *tool_declared(const struct toolparse *p, struct text name);
/* Returns the name as declared, without its namespace; an undeclared one is returned unchanged. */
struct text tool_known_name(const struct toolparse *p, struct text name);
/* Returns whether the text at i is, or may become, a loose call: an answer that is only a JSON
 * object, bare or in a fence, which names a declared tool and matches its schema. */
enum tool_loose { LOOSE_NO, LOOSE_MAYBE, LOOSE_YES };
/* Returns whether a call without its opening marker begins at i; LOOSE_MAYBE: more text is
 * needed. */
enum tool_loose tool_loose(struct toolparse *p, size_t i);
/* Adds the calls at i, where tool_loose() returned LOOSE_YES. */
void tool_add_loose(struct toolparse *p, size_t i);
/* Returns frame k < TOOL_ALL_FRAMES; NULL: no such frame. Frames are texts around messages
 * that are not content: some are common to all families, the others belong to p's family. */
const char *tool_frame(const struct toolparse *p, size_t k);
/* Returns whether a family's reasoning tag (or NULL) is a control token, which ordinary text cannot
 * contain. */
bool tool_is_token(const char *tag);
bool tool_is_ws(char ch); /* a space, tab or line end */
/* Returns the end of the reasoning that contains i; *after: position after its tag. SIZE_MAX: not
 * closed. */
size_t tool_think_end(const struct toolparse *p, size_t i, size_t *after);
/* Collects text in `first` while it is unknown whether the answer continues the prompt's marker;
 * last: end of the text. Returns true once that is known; the marker has been added to `in` if the
 * answer continues it. The caller then feeds all of `first`. */
bool tool_opened_feed(struct toolparse *p, const char *s, size_t n, bool last);
/* Decides at the end of the text whether it continues the marker, and feeds the text that was held
 * back. */
void tool_opened_end(struct toolparse *p);
/* Returns the position after the whitespace and frames that precede an answer. */
size_t tool_begin(const struct toolparse *p);
/* Returns the position after whitespace, frames and closing reasoning tags at i. */
size_t tool_skip_frames(const struct toolparse *p, size_t i);
/* Returns where content begins whose first character that is not whitespace is at i: at the start
 * of an answer that continues a text, otherwise at i. */
size_t tool_content_at(const struct toolparse *p, size_t i);
/* Returns the length of the longest suffix of [from, in.len) that may become a bare call, {"name":
 * ...}, of a declared tool with white space after the brace. */
size_t tool_spaced_partial(const struct toolparse *p, size_t from);
/* Returns the next such call at or after i; SIZE_MAX: none. */
size_t tool_next_spaced(const struct toolparse *p, size_t i);
/* Returns the length of the longest suffix of [from, in.len) that is a prefix of lit. */
size_t tool_partial(const struct toolparse *p, size_t from, const char *lit);
/* A fence around calls: n characters ch, or a tag. n 0: no fence. */
struct tool_fence {
    char ch;
    size_t n;
    const char *tag;
};
/* Returns whether the syntax writes calls in Python's notation, each on a line of its own. */
bool tool_has_lines(const struct toolfmt *f);
/* Returns the position after the opening fence at i; i: no fence. SIZE_MAX: more text is needed. */
size_t tool_fence_open(const struct toolparse *p, size_t i, struct tool_fence *f);
/* Returns the position after the closing fence at i; i: no fence. SIZE_MAX: more text is needed. */
size_t tool_fence_close(const struct toolparse *p, size_t i, const struct tool_fence *f);
/* Returns the start of the last line in [from, to) if that line may open a fence; otherwise to. */
size_t tool_fence_before(const struct toolparse *p, size_t from, size_t to, struct tool_fence *f);
/* Returns the start of the calls, after the marker at `at` and an optional fence, which is stored
 * in *fence if not NULL. SIZE_MAX: more text is needed. */
size_t tool_list_at(const struct toolparse *p, size_t at, struct tool_fence *fence);
/* Parses JSON calls up to the closing tag. One tag may contain several calls, with or without
 * commas between them, and fences. False: no complete call, or more text is needed. */
bool tool_json_calls(struct toolparse *p, size_t *i, const char *close);
/* Returns the tool name in [from, to) without the prefix "functions." that harmony and Kimi use. */
struct text tool_name(const struct toolparse *p, size_t from, size_t to);
/* Parses arguments at *i, an object or JSON text in quotes, and moves past `close`. Nothing before
 * `close` means an empty object. NULL: no arguments. */
const struct json *tool_args(struct toolparse *p, size_t *i, const char *close);
/* Parses a Python literal at *i and moves past it; NULL: not a literal. */
const struct json *tool_literal(struct toolparse *p, size_t *i);
/* Parses one Python call or a list of calls at *i and moves past it. If incomplete, returns false
 * without adding calls. */
bool tool_python_calls(struct toolparse *p, size_t *i);
/* Headers of gpt-oss, Muse Glimmer and Inkling. */
extern const struct tool_headers tool_harmony_headers, tool_atem_headers, tool_inkling_headers;
/* Returns the next complete header that is a frame, at or after i; SIZE_MAX: none. */
size_t tool_next_header(const struct toolparse *p, size_t i);

/* Continues parsing the arguments that begin at f->from. */
void tool_flow_more(struct toolparse *p, struct tool_flow *f);
/* Returns the number of bytes of f->out that will not change. */
size_t tool_flow_sure(const struct tool_flow *f);
/* Appends what would complete the arguments after those bytes. */
void tool_flow_end(const struct tool_flow *f, struct buf *out);
/* Prepares for the next value but keeps the storage. */
void tool_flow_reset(struct tool_flow *f);
void tool_flow_release(struct tool_flow *f);
/* Finds the tool's name and its JSON arguments in a possibly incomplete call at `at`. False: not
 * certain yet. */
typedef bool tool_head(struct toolparse *p, size_t at, struct text *name, size_t *from);
tool_head tool_head_object, tool_head_hermes, tool_head_named, tool_head_mistral,
    tool_head_deepseek, tool_head_harmony, tool_head_llama;
/* Finds the certain part of the parameters of the call at `at`: appending `end` at *cut completes
 * the call, and *n_close bytes of the arguments come from `end`. False: nothing is certain. */
typedef bool tool_cut(struct toolparse *p, size_t at, size_t *cut, struct buf *end,
                      size_t *n_close);
tool_cut tool_cut_tags, tool_cut_elements, tool_cut_python, tool_cut_gemma;
/* Parses one element of a list of calls at *i, and moves past it. */
typedef bool tool_one(struct toolparse *p, size_t *i);
tool_one tool_one_object, tool_one_python;
/* Parses list elements at *i, after the opening bracket, one by one as a stream does, and moves
 * past the closing bracket. False: *i is at something that is not an element. */
bool tool_list_elements(struct toolparse *p, size_t *i, tool_one *one);
/* Parses the list of calls whose bracket is at *i, then the end of its fence, then `close`. If the
 * list breaks off, keeps the calls before that point and reports a problem. False: no calls. */
bool tool_list(struct toolparse *p, size_t *i, tool_one *one, struct tool_fence *fence,
               const char *close);
/* Parses a call at *i and moves *i past it; false leaves *i unchanged. */
bool tool_parse_tags(struct toolparse *p, size_t *i);
/* Parses the calls of a tag at *i and moves *i past them; false leaves *i unchanged. */
bool tool_parse_hermes(struct toolparse *p, size_t *i);
/* Parses a call at *i and moves *i past it; false leaves *i unchanged. */
bool tool_parse_named(struct toolparse *p, size_t *i);
/* Parses a list of calls at *i and moves *i past it; false leaves *i unchanged. */
bool tool_parse_list(struct toolparse *p, size_t *i);
/* Parses the calls at *i and moves *i past each complete one. False: none is complete, or the head
 * of another may have begun. */
bool tool_parse_mistral(struct toolparse *p, size_t *i);
/* Parses a call at *i and moves *i past it; false leaves *i unchanged. */
bool tool_parse_deepseek(struct toolparse *p, size_t *i);
/* Parses a call at *i and moves *i past it; false leaves *i unchanged. */
bool tool_parse_harmony(struct toolparse *p, size_t *i);
bool tool_parse_llama(struct toolparse *p, size_t *i);
bool tool_parse_gemma(struct toolparse *p, size_t *i);
bool tool_parse_python(struct toolparse *p, size_t *i);
bool tool_parse_glm(struct toolparse *p, size_t *i);
/* Parses a call at *i and moves *i past it; false leaves *i unchanged. */
bool tool_parse_elements(struct toolparse *p, size_t *i);
#endif
