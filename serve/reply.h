// SPDX-License-Identifier: MIT
/* serve/reply.h - an answer as it is made: the events that come, what they add up to, and what each
 * API makes of them. Everything here is a function of its arguments; times and ids are given. */
#ifndef HONE_SERVE_REPLY_H
#define HONE_SERVE_REPLY_H

#include "chat/tool_place.h"
#include "runtime/generate/constrain.h"
#include "serve/ask.h"

enum reply_end {
    END_NONE,    /* still going */
    END_TURN,    /* the model's end of turn */
    END_STOP,    /* a stop text */
    END_CALLS,   /* it called tools */
    END_LENGTH,  /* max tokens */
    END_CONTEXT, /* the context is full */
    END_FAILED   /* shutdown or fault */
};
enum { REPLY_ID = 48 }; /* a prefix and 24 characters */
struct reply_call {
    char id[REPLY_ID]; /* "call_...", the API's own prefix */
    char *name;
    struct buf args; /* JSON text of an object */
    bool done;       /* it is complete */
    size_t n_input;  /* bytes of a custom tool's text that were sent */
};
struct reply_choice {
    struct buf content, reasoning;
    struct reply_call *call;
    int n_calls, n_loose; /* of them, written as bare JSON */
    struct buf probs;     /* elements of a list, with ", " between them, not sent yet */
    struct buf problems;  /* the same, of texts */
    enum reply_end end;
    const char *stop; /* of END_STOP: which; borrowed from the ask */
    int64_t n_out, n_think;
    struct constrain_counts held; /* what a form did to it: zeros without one */
    struct tool_tally overruled;  /* where that overruled the model, of answers with tools */
    struct buf ids;               /* "1, 2, 3": when wanted */
};
struct reply {
    const struct ask *ask;
    char id[REPLY_ID];
    const char *model; /* as told to the client */
    const char *fingerprint;
    int64_t created; /* seconds since 1970 */
    struct reply_choice *choice;
    int n_choices;
    int64_t n_prompt, n_cached, n_known, n_drafted, n_accepted;
    uint64_t seed;
    double queue_s, prompt_s, first_s, generate_s, total_s; /* from arrival on */
    /* of the API that writes it */
    int block, block_kind, seq;
    char item[REPLY_ID]; /* id of the item under way */
    struct buf items;    /* that are complete, elements of a list */
    struct buf shown;    /* elements of a list: probabilities of its tokens so far */
    size_t mark;         /* where the text of the item under way begins */
};
void reply_init(struct reply *r, const struct ask *a, int n_choices);
void reply_release(struct reply *r);

enum event_kind {
    EV_ADMITTED,   /* the prompt's tokens are counted, computing begins */
    EV_REASONING,  /* text */
    EV_CONTENT,    /* text */
    EV_CALL_BEGIN, /* reply_choice.call[call] has its id and name */
    EV_CALL_ARGS,  /* text: more of the arguments */
    EV_CALL_END,
    EV_ENDED,   /* a choice has */
    EV_DONE,    /* all have */
    EV_PROGRESS /* of the prompt: n tokens are computed or were kept */
};
struct event {
    enum event_kind kind;
    int choice, call;
    const char *s; /* UTF-8, complete characters */
    size_t n;
};
/* Adds what an event carries to the answer. EV_CALL_BEGIN: s is the name. */
void reply_add(struct reply *r, const struct event *ev, const char *call_prefix);

/* An API: how a request is read, and what becomes of events. */
struct api {
    const char *name;         /* in the log */
    const char *id, *call_id; /* prefixes */
    const char *stream_type, *ping;
    bool streams; /* where the request does not say */
    int (*read)(struct ask *a, const struct json *j, struct fault *f);
    /* Appends what an event is to a stream. */
    void (*event)(struct reply *r, const struct event *ev, struct buf *out);
    /* Appends the answer as a whole. */
    void (*whole)(struct reply *r, struct buf *out);
    /* Appends an error; in_stream: as an event of a stream. Returns the status of HTTP. */
    int (*fail)(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);
};
extern const struct api api_chat, api_text, api_messages, api_count, api_ollama_chat,
    api_ollama_text, api_responses;

/* Steps that several APIs share. */
void reply_sse(struct buf *out, const char *event, const struct buf *data); /* event NULL: none */
/* Appends what an event of a call adds to the text of a custom tool. */
void reply_input(struct reply *r, const struct event *ev, struct buf *out);
const char *reply_finish(const struct reply_choice *c); /* OpenAI's word for an end; NULL: none */
void reply_usage(const struct reply *r, struct jw *w, const char *name); /* OpenAI's usage */
void reply_timings(const struct reply *r, const struct reply_choice *c, struct jw *w);
/* Writes how many tokens of the prompt are computed, under llama-server's names. */
void reply_progress(const struct reply *r, struct jw *w, int64_t done);
int64_t reply_n_out(const struct reply *r); /* tokens of all choices */

/* Makes a->tools of the members `tools` or `functions` of a request. */
int chat_tools(struct ask *a, const struct json *j, struct fault *f);
int openai_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);
/* Makes a->conv of messages in OpenAI's shape and of a->tools. */
int chat_conv(struct ask *a, const struct json *messages, struct fault *f);

#endif
