// SPDX-License-Identifier: MIT
/* serve/ask.h - a parsed request, independent of its API. The reader of each API fills in a struct
 * ask, which the scheduler answers. */
#ifndef HONE_SERVE_ASK_H
#define HONE_SERVE_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "runtime/generate/sample.h"
#include "tok/tok.h"

/* An error response. */
struct fault {
    int status;       /* HTTP status */
    const char *code; /* static, such as "context_length_exceeded"; NULL: none */
    char param[200];  /* path of the field at fault; "": none */
    char msg[800];
    int64_t n_prompt, n_ctx; /* for "context_length_exceeded" */
};
/* Fills in f and returns its status. The message begins with the path, if there is one. */
int fault_set(struct fault *f, int status, const char *code, const char *param, const char *fmt,
              ...) PRINTF_LIKE(5, 6);

enum ask_think { ASK_THINK_AUTO, ASK_THINK_ON, ASK_THINK_OFF };
enum { ASK_STOPS = 16, ASK_CHOICES = 16, ASK_PROMPTS = 16, ASK_BIASES = 1024, ASK_TOP = 20 };
enum { ASK_MARKS = 8 };
struct ask_image { /* an image of the conversation */
    char hash[33];
    struct buf bytes; /* of its file */
    char path[160];   /* where the request has it first: "messages[1].content[0]" */
    int index;        /* in ask.pictures; -1: not computed yet */
};
struct pictures;
struct ask_prompt { /* one prompt of a text completion */
    char *text;     /* NULL: given as token ids (with `echo`: until these are decoded) */
    size_t len;
    struct ids ids;
};
enum ask_form {
    FORM_FREE,
    FORM_OBJECT,
    FORM_SCHEMA,
    FORM_REGEX,
    FORM_CHOICE,
    FORM_GRAMMAR,
    FORM_TOOLS /* calls of ask.tools; set internally, never read from a request */
};
struct ask {
    char *model;    /* as given in the request; "": not given */
    char *conv;     /* {"messages": [...], "tools": [...]?} for the template; NULL: plain prompts */
    char *tools;    /* JSON text of a list in OpenAI's shape; NULL: none */
    bool no_calls;  /* text that looks like a call is not parsed as one */
    bool must_call; /* the answer must be a call */
    char *only_tool;    /* name of the only tool allowed; NULL: any */
    char *allowed;      /* JSON text: names of the tools allowed; NULL: all */
    struct buf custom;  /* names of custom tools (free-text input), one per line */
    struct buf schemas; /* paths of tool schemas within the request: lines "NAME PATH" */
    struct buf spaces;  /* tool namespaces, one per line */
    bool held;          /* a tool's input has a grammar, to which its calls are constrained */
    bool one_call;      /* stop after the first call */
    bool strict_calls;  /* never read bare JSON as a call */
    bool go_on;         /* continue the last message, which is the assistant's */
    char *cut; /* white space at the end of that message, which the prompt lacks; NULL: none */
    struct buf kwargs; /* template variables: members of a JSON object */
    enum ask_think think;
    bool think_said;  /* the request itself switches thinking on or off; an effort does not */
    int64_t n_think;  /* limit of thinking tokens; then the end of thinking is forced; < 0: none */
    char *think_last; /* text inserted before the forced end; NULL: none */
    bool hide_thinking; /* generate the reasoning but do not send it */
    bool tags;          /* leave reasoning and its tags in the content */
    struct ask_prompt prompt[ASK_PROMPTS];
    int n_prompts;

    enum ask_form form;    /* required form of the content */
    char *form_text;       /* JSON text of a schema or a list of choices, a pattern or a grammar */
    bool form_strict;      /* fail if a part of the form cannot be enforced */
    const char *form_path; /* static: the request field that set the form */
    bool complete; /* OpenAI's `strict` for the form or the tools: all properties required */

    struct sample_opts sample;
    int64_t seed;  /* < 0: drawn at random */
    int64_t n_max; /* answer tokens; < 0: until the context is full */
    char *stop[ASK_STOPS];
    int n_stop;
    const char *end_text; /* text that acts as an end token; borrowed; NULL: none */
    int n;                /* choices per prompt */
    bool stream, usage, echo, ignore_eos;
    bool progress, timings; /* streams: report the prompt's progress; add timings to each piece */
    bool nothing;           /* generate nothing; the request is only meant to load the model */
    bool unload;            /* unload the model after this answer */
    bool no_cache;          /* neither read nor fill the prefix cache */
    bool exact;      /* reuse a cached prefix only if its tokens are the same, not just its bytes */
    struct {         /* cache_control marks: prefixes the client will send again */
        int message; /* last message of the prefix, in conv; -1: tools and system messages only */
        bool hour;   /* keep for an hour instead of minutes */
    } mark[ASK_MARKS];
    int n_marks; /* in ascending order; if there are too many, the last ones are kept */
    int top;     /* alternatives per token; < 0: no probabilities */
    struct {
        int32_t id;
        float by;
    } * bias;
    int n_bias;
    unsigned api_flags;          /* flags private to the API's reader and writer */
    int64_t n_messages, n_tools; /* as sent by the client */
    struct buf repeat;           /* request members that the answer repeats, as JSON text */
    struct buf ignored;          /* names of unknown fields, separated by ", " */
    struct buf warned; /* parts of the request that were dropped or changed, separated by ", " */
    struct ask_image *image;   /* [n_images], serve/images.h */
    struct pictures *pictures; /* holds the images; borrowed; NULL: not computed yet */
    uint64_t image_key;        /* part of the marks of images in conv, unknown to clients */
    int n_images;
    bool sees; /* the model has a projector file, and images can be computed */
};
/* Adds the first 40 bytes of `what` to a->warned. Does nothing if it is already listed or the list
 * is full. */
void ask_warn(struct ask *a, const char *what);
/* Sets the defaults, which come from the model file and the command line. */
void ask_init(struct ask *a, const struct sample_opts *sample, int64_t seed, int64_t n_max);
void ask_release(struct ask *a);
/* Records the `cache_control` value v of a message of conv. A value that does not request caching
 * is ignored. */
void ask_mark(struct ask *a, int message, const struct json *v);
/* Removes the first n stop texts. */
void ask_drop_stops(struct ask *a, int n);
/* Switches thinking on or off as the request says, whatever effort it also gives. */
void ask_switch(struct ask *a, bool on);
/* Adds a template variable; `text` is JSON. */
void ask_kwarg(struct ask *a, const char *name, const char *text);

/* ---- fields ---- */

enum field_kind {
    F_BOOL,    /* bool */
    F_INT,     /* int64_t in a range */
    F_COUNT,   /* int32_t in a range */
    F_REAL,    /* float in a range */
    F_READ,    /* read by a function */
    F_LEFT,    /* ignored: another row's function reads it, or it has no effect here */
    F_NEUTRAL, /* number that must equal `least`, the value that has no effect */
    F_REFUSED  /* always an error; `why` is the reason */
};
struct field { /* a member of a request's body */
    const char *name;
    enum field_kind kind;
    double least, most;
    size_t at;
    int (*read)(struct ask *a, const struct json *v, const char *path, struct fault *f);
    const char *why;
};
/* Reads each member of obj as specified by its row in one of the tables. A member that is null
 * counts as absent; names without a row are recorded in a->ignored. prefix: the start of paths in
 * errors, "" or "options.". Returns 0 or the fault's HTTP status. */
int fields_read(struct ask *a, const struct json *obj, const char *prefix,
                const struct field *const *table, const int *n, int n_tables, struct fault *f);
#define FIELD(kind, member, least, most) kind, least, most, offsetof(struct ask, member), NULL, NULL
#define FIELD_BY(fn) F_READ, 0, 0, 0, fn, NULL
#define FIELD_LEFT F_LEFT, 0, 0, 0, NULL, NULL
#define FIELD_NEUTRAL(x) F_NEUTRAL, x, 0, 0, NULL, NULL
#define FIELD_REFUSED(why) F_REFUSED, 0, 0, 0, NULL, why

/* Returns whether v is an empty string or list; some clients send these instead of omitting a
 * field. */
bool ask_is_empty(const struct json *v);

/* Sampling fields that are common to OpenAI's APIs and their extensions. */
extern const struct field ask_sampling[];
extern const int ask_n_sampling;
/* Reads the number of answers; ask_read_usage reads stream_options with its {"include_usage"}. Like
 * the functions below, they fill in a from v, the value at `path` in the request, and return 0, or
 * the HTTP status of an error with *f filled in. */
int ask_read_n(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads whether a stream ends with token counts. */
int ask_read_usage(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads the number of alternatives per token; 0 does not request logprobs by itself. */
int ask_read_top(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads a seed of up to 64 bits; -1: random. */
int ask_read_seed(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads how many tokens the repeat penalty looks back; -1: all. */
int ask_read_last_n(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads a stop text or a list of at most ASK_STOPS. */
int ask_read_stop(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads the template's variables; enable_thinking is stored as a separate setting. */
int ask_read_kwargs(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads whether and how much to think: {"type": "enabled" | "disabled" | "adaptive",
 * "budget_tokens", "display"}, the budget in tokens, true or false. */
int ask_read_thinking(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads a reasoning effort for the template. Unless the request itself switches thinking on or off,
 * "none" switches it off, and any other effort on. */
int ask_read_effort(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads the response format: {"type": "text" | "json_object" | "json_schema", "json_schema":
 * {"schema", "strict"}}, or the same with schema and strict next to the type. */
int ask_read_format(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_form(struct ask *a, enum ask_form form, const struct json *v, const char *path,
             struct fault *f);
/* Requires the answer to be a call: of the tool `name`, or of any tool if name is NULL. */
int ask_must_call(struct ask *a, const struct json *name, const char *path, struct fault *f);
/* Reads which tools may be called: {"mode": "auto" | "required", "tools": [{"name"} or {"function":
 * {"name"}}]}. */
int ask_read_allowed(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads the request's model name, which need not exist. */
int ask_read_model(struct ask *a, const struct json *v, const char *path, struct fault *f);

/* Fills in a->schemas from the body of a request. */
void ask_note_schemas(struct ask *a, const struct json *body);
/* Returns whether a message has this role. msg_text() returns a message's content, or "" if that is
 * not a string. */
bool msg_is(const struct json *m, const char *role);
/* Returns a message's content; "" if it is not a string. */
const char *msg_text(const struct json *m);

/* ---- values of a request: copied with the order of members and the spelling of numbers ---- */

/* Returns a member of obj; NULL if it is absent or null: null counts as absent in requests. */
const struct json *ask_get(const struct json *obj, const char *name);
/* Returns member `name`, or member `other` if that is absent or null; NULL if both are. */
const struct json *ask_either(const struct json *obj, const char *name, const char *other);
/* Writes v to the open object as member `name`, or to the open list if name is NULL. */
void ask_put(struct jw *w, const char *name, const struct json *v);
/* Writes member `name` of obj as member `as`, unless it is absent or null. */
void ask_copy(struct jw *w, const char *name, const struct json *obj, const char *as);
/* Returns v as JSON text; the caller frees it. */
char *ask_json(const struct json *v);

#endif
