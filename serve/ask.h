// SPDX-License-Identifier: MIT
/* serve/ask.h - one request, whatever API it came by: what every reader of an API fills in, and
 * what the scheduler answers. */
#ifndef HONE_SERVE_ASK_H
#define HONE_SERVE_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "runtime/generate/sample.h"
#include "tok/tok.h"

/* Why a request is not answered. */
struct fault {
    int status;       /* of HTTP */
    const char *code; /* static: "context_length_exceeded", ...; NULL: none */
    char param[200];  /* which field, as a path; "": none */
    char msg[800];
    int64_t n_prompt, n_ctx; /* of "context_length_exceeded" */
};
/* Fills f in and returns its status. The message begins with the path where there is one. */
int fault_set(struct fault *f, int status, const char *code, const char *param, const char *fmt,
              ...) PRINTF_LIKE(5, 6);

enum ask_think { ASK_THINK_AUTO, ASK_THINK_ON, ASK_THINK_OFF };
enum { ASK_STOPS = 16, ASK_CHOICES = 16, ASK_PROMPTS = 16, ASK_BIASES = 1024, ASK_TOP = 20 };
enum { ASK_MARKS = 8 };
struct ask_prompt { /* of a text completion */
    char *text;     /* NULL: ids were given */
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
    FORM_TOOLS /* calls of ask.tools: not a form that is asked for */
};
struct ask {
    char *model;    /* as it was asked for; "": not said */
    char *conv;     /* {"messages": [...], "tools": [...]?} for the template; NULL: plain prompts */
    char *tools;    /* the list in OpenAI's shape, JSON text; NULL: none */
    bool no_calls;  /* text that looks like a call is text */
    bool must_call; /* the answer is a call */
    char *only_tool;    /* of this tool; NULL: of any */
    char *allowed;      /* calls are of these: names, JSON text of a list; NULL: of all */
    struct buf custom;  /* names of tools that take a text, a line each */
    struct buf schemas; /* places of tools' schemas in the request: lines "NAME PATH" */
    struct buf spaces;  /* namespaces of tools, a line each */
    bool held;          /* a tool's text has a grammar: calls are held to it */
    bool one_call;      /* the answer ends after its first call */
    bool strict_calls;  /* bare JSON is never a call */
    bool go_on;         /* the last message is the assistant's, and the answer continues it */
    struct buf kwargs;  /* members of an object: variables of the template */
    enum ask_think think;
    int64_t n_think;    /* tokens of thinking, then its end is forced; < 0: no bound */
    char *think_last;   /* text in front of that end; NULL: none */
    bool hide_thinking; /* it is made, not sent */
    bool tags;          /* reasoning stays in the content, with its tags */
    struct ask_prompt prompt[ASK_PROMPTS];
    int n_prompts;

    enum ask_form form;    /* that the content must have */
    char *form_text;       /* JSON text of a schema or of a list of choices, a pattern, a grammar */
    bool form_strict;      /* what cannot be kept is refused */
    const char *form_path; /* static: the field that asked for it */
    bool complete;         /* `strict`, of a form or a tool, means OpenAI's: all properties come */

    struct sample_opts sample;
    int64_t seed;  /* < 0: one is drawn */
    int64_t n_max; /* tokens of an answer; < 0: until the context is full */
    char *stop[ASK_STOPS];
    int n_stop;
    const char *end_text; /* text that counts as an end token; NULL: none. Borrowed */
    int n;                /* choices per prompt */
    bool stream, usage, echo, ignore_eos;
    bool progress, timings; /* in a stream: while the prompt is computed, with each piece */
    bool nothing;           /* is asked for: the model is to be there */
    bool unload;            /* unload the model after this answer */
    bool no_cache;          /* neither read nor kept */
    bool exact;             /* the tokens of the prompt are those that its text gives */
    struct {                /* what the client will send again, up to an end: cache_control */
        int message;        /* of conv, with it; -1: up to the tools and the system's messages */
        bool hour;          /* it is to be kept for an hour; else for minutes */
    } mark[ASK_MARKS];
    int n_marks; /* ascending; of more, the last ones */
    int top;     /* < 0: no probabilities; else so many alternatives */
    struct {
        int32_t id;
        float by;
    } * bias;
    int n_bias;
    unsigned api_flags;          /* bits that the reader of an API leaves for its writer */
    int64_t n_messages, n_tools; /* as the client sent them */
    struct buf repeat;           /* members that its answer repeats, JSON text */
    struct buf ignored;          /* names of fields that nobody reads, with ", " between them */
    struct buf warned;           /* of things left out, the same */
};
/* Sets the defaults, which are those of the file and the command line. */
void ask_init(struct ask *a, const struct sample_opts *sample, int64_t seed, int64_t n_max);
void ask_release(struct ask *a);
/* Notes a mark of `cache_control`, v, at a message of conv; v may be no mark. */
void ask_mark(struct ask *a, int message, const struct json *v);
/* Drops the first n stop texts. */
void ask_drop_stops(struct ask *a, int n);
/* Adds a member to the variables of the template; text is JSON. */
void ask_kwarg(struct ask *a, const char *name, const char *text);

/* ---- fields ---- */

enum field_kind {
    F_BOOL,    /* bool */
    F_INT,     /* int64_t in a range */
    F_COUNT,   /* int32_t in a range */
    F_REAL,    /* float in a range */
    F_READ,    /* by a function */
    F_LEFT,    /* read by another row's function, or without meaning here */
    F_NEUTRAL, /* a number that may only have the value that changes nothing: least */
    F_REFUSED  /* always; `why` says it */
};
struct field { /* a member of a request's body */
    const char *name;
    enum field_kind kind;
    double least, most;
    size_t at;
    int (*read)(struct ask *a, const struct json *v, const char *path, struct fault *f);
    const char *why;
};
/* Reads the members of obj that tables name, each by its row; null counts as absent. Names in no
 * table are noted as ignored. prefix: "" or "options.". */
int fields_read(struct ask *a, const struct json *obj, const char *prefix,
                const struct field *const *table, const int *n, int n_tables, struct fault *f);
#define FIELD(kind, member, least, most) kind, least, most, offsetof(struct ask, member), NULL, NULL
#define FIELD_BY(fn) F_READ, 0, 0, 0, fn, NULL
#define FIELD_LEFT F_LEFT, 0, 0, 0, NULL, NULL
#define FIELD_NEUTRAL(x) F_NEUTRAL, x, 0, 0, NULL, NULL
#define FIELD_REFUSED(why) F_REFUSED, 0, 0, 0, NULL, why

/* Tells whether v is an empty text or list, which clients send for none. */
bool ask_is_empty(const struct json *v);

/* Sampling under the names that OpenAI's APIs and their extensions share. */
extern const struct field ask_sampling[];
extern const int ask_n_sampling;
/* Reads how many answers are wanted; ask_read_usage reads {"include_usage"} of a stream. These and
 * those below fill in a from v, the value of the member `path` of a request. They return 0, or the
 * status of an error with *f filled in. */
int ask_read_n(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_usage(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_top(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_seed(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_last_n(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_stop(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_kwargs(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads whether and how much to think: {"type": "enabled" | "disabled" | "adaptive",
 * "budget_tokens", "display"}, the budget in tokens; or true, or false. */
int ask_read_thinking(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_effort(struct ask *a, const struct json *v, const char *path, struct fault *f);
/* Reads the form of the answer: {"type": "text" | "json_object" | "json_schema", "json_schema":
 * {"schema", "strict"}}, or schema and strict beside the type. */
int ask_read_format(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_form(struct ask *a, enum ask_form form, const struct json *v, const char *path,
             struct fault *f);
/* Notes that the answer must be a call of the tool `name`, or of any when that is NULL. */
int ask_must_call(struct ask *a, const struct json *name, const char *path, struct fault *f);
/* Reads which tools may be called: {"mode": "auto" | "required", "tools": [{"name"} or {"function":
 * {"name"}}]}. */
int ask_read_allowed(struct ask *a, const struct json *v, const char *path, struct fault *f);
int ask_read_model(struct ask *a, const struct json *v, const char *path, struct fault *f);

/* Fills a->schemas from the body of a request. */
void ask_note_schemas(struct ask *a, const struct json *body);
/* Tells whether a message has a role; msg_text returns its content, "" if that is not a text. */
bool msg_is(const struct json *m, const char *role);
const char *msg_text(const struct json *m);

/* ---- values of a request, written again: members in their order, numbers as they came ---- */

/* Adds v to the open object or list; name NULL means to a list. */
void ask_put(struct jw *w, const char *name, const struct json *v);
/* Adds member `name` of obj as member `as`, where it is there and not null. */
void ask_copy(struct jw *w, const char *name, const struct json *obj, const char *as);
/* Returns v as JSON text, which the caller frees. */
char *ask_json(const struct json *v);

#endif
