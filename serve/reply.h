// SPDX-License-Identifier: MIT
/* serve/reply.h - an answer in progress: its events, the answer so far, and how each API writes it.
 * All functions here are pure: times and ids are passed in. */
#ifndef HONE_SERVE_REPLY_H
#define HONE_SERVE_REPLY_H

#include "chat/tool_place.h"
#include "runtime/generate/constrain.h"
#include "serve/ask.h"

enum reply_end {
    END_NONE,    /* still running */
    END_TURN,    /* the model ended its turn */
    END_STOP,    /* a stop text */
    END_CALLS,   /* tool calls */
    END_LENGTH,  /* token limit reached */
    END_CONTEXT, /* context full */
    END_FAILED   /* shutdown or error */
};
enum { REPLY_ID = 48 }; /* a prefix and 24 characters */
struct reply_call {
    char id[REPLY_ID]; /* "call_..." or the API's own prefix */
    char *name;
    struct buf args; /* JSON text of an object */
    bool done;       /* complete */
    size_t n_input;  /* for a custom tool: bytes of its input already sent */
};
struct reply_choice {
    struct buf content, reasoning;
    struct reply_call *call;
    int n_calls, n_loose; /* n_loose: calls written as bare JSON */
    struct buf probs;     /* logprobs not sent yet: JSON list elements separated by ", " */
    int64_t n_chars;      /* characters of the tokens whose logprobs have been sent as text */
    struct buf problems;  /* problems with calls, as strings in the same form */
    enum reply_end end;
    const char *stop; /* stop text found, if END_STOP; borrowed from the ask */
    int64_t n_out, n_think;
    struct constrain_counts held; /* what the constraint did; zeros if unconstrained */
    struct tool_tally overruled;  /* tokens at which the constraint overruled the model, by place;
                                   * only in  answers with tools */
    struct buf ids;               /* token ids if requested: "1, 2, 3" */
};
struct reply {
    const struct ask *ask;
    char id[REPLY_ID];
    const char *model; /* the model's id for the client */
    const char *fingerprint;
    int64_t created; /* seconds since 1970 */
    struct reply_choice *choice;
    int n_choices;
    int64_t n_prompt, n_cached, n_known, n_drafted, n_accepted;
    uint64_t seed;
    double queue_s, prompt_s, first_s, generate_s, total_s; /* all measured since arrival */
    /* Private to the API's writer. */
    int block, block_kind, seq;
    char item[REPLY_ID]; /* id of the current item */
    struct buf items;    /* completed items: list elements */
    struct buf shown;    /* logprobs of the current item: list elements */
    size_t mark;         /* offset at which the text of the current item begins */
};
/* Begins the reply to a, which it borrows. */
void reply_init(struct reply *r, const struct ask *a, int n_choices);
void reply_release(struct reply *r);

enum event_kind {
    EV_ADMITTED,   /* the prompt's tokens have been counted, and computing begins */
    EV_REASONING,  /* reasoning text */
    EV_CONTENT,    /* content text */
    EV_CALL_BEGIN, /* reply_choice.call[call] has its id and name */
    EV_CALL_ARGS,  /* text: more of the arguments */
    EV_CALL_END,
    EV_ENDED,   /* one choice is complete */
    EV_DONE,    /* all choices are complete */
    EV_PROGRESS /* n prompt tokens have been computed or were cached */
};
struct event {
    enum event_kind kind;
    int choice, call;
    const char *s; /* UTF-8, complete characters */
    size_t n;
};
/* Adds an event to the answer so far. EV_CALL_BEGIN: s is the name. */
void reply_add(struct reply *r, const struct event *ev, const char *call_prefix);

/* An API: how it reads requests and writes answers. */
struct api {
    const char *name;         /* for the log */
    const char *id, *call_id; /* prefixes */
    const char *stream_type, *ping;
    bool streams; /* whether answers are streamed if the request does not say */
    int (*read)(struct ask *a, const struct json *j, struct fault *f);
    /* Appends an event, as sent in a stream. */
    void (*event)(struct reply *r, const struct event *ev, struct buf *out);
    /* Appends the complete answer. */
    void (*whole)(struct reply *r, struct buf *out);
    /* Appends an error; in_stream: as an event of a stream. Returns the HTTP status. */
    int (*fail)(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);
};
extern const struct api api_chat, api_text, api_messages, api_count, api_ollama_chat,
    api_ollama_text, api_responses;

/* Helpers shared by several APIs. Appends a server-sent event. */
void reply_sse(struct buf *out, const char *event,
               const struct buf *data); /* event NULL: no event line */
/* Appends the part of a custom tool's input text that an event adds. */
void reply_input(struct reply *r, const struct event *ev, struct buf *out);
const char *reply_finish(const struct reply_choice *c); /* OpenAI's finish_reason; NULL: none */
void reply_usage(const struct reply *r, struct jw *w, const char *name); /* OpenAI's usage */
/* Writes the member "timings" with counts and times of a choice. */
void reply_timings(const struct reply *r, const struct reply_choice *c, struct jw *w);
/* Writes the prompt's progress with the member names of llama-server. */
void reply_progress(const struct reply *r, struct jw *w, int64_t done);
int64_t reply_n_out(const struct reply *r); /* tokens of all choices */

/* Fills in a->tools from the members `tools` or `functions` of a request. */
int chat_tools(struct ask *a, const struct json *j, struct fault *f);
/* Appends the fault in OpenAI's form, as an event if in_stream; returns the HTTP status. */
int openai_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);
/* Builds a->conv from messages in OpenAI's format and from a->tools. */
int chat_conv(struct ask *a, const struct json *messages, struct fault *f);

#endif
