// SPDX-License-Identifier: MIT
/* serve/server.h - state and functions shared by the server's files: serve.c (threads), routes.c
 * (routing), prepare.c (requests to tasks), prompt.c (their prompts), info.c (status and model
 * lists). Internal. */
#ifndef HONE_SERVE_SERVER_H
#define HONE_SERVE_SERVER_H

#include "serve/constraint.h"
#include "serve/histogram.h"
#include "serve/models.h"
#include "serve/history.h"
#include "serve/sched.h"
#include "serve/serve.h"
#include "chat/toolfmt.h"

enum { SERVE_STRANGERS = 64, SERVE_COMPILERS = 2 };
enum miss { MISS_NEW, MISS_STATE, MISS_OFF }; /* why most of a prompt was computed */
struct ledger {                               /* statistics of finished requests */
    struct ledger_row {
        const char *api;
        int status;
        int64_t n;
    } row[64];
    int n;
    struct histogram queue, first, request, compile;
    int64_t n_calls, n_loose, n_problems;
    int64_t n_missed[3]; /* cache misses, indexed by enum miss */
};
/* A loaded model with its template, session, scheduler and caches. */
struct served {
    struct server *server;
    int index; /* index in models.v */
    const struct serve_file *file;
    struct serve_core core;
    struct chat *chat; /* NULL: the model has no template */
    const char *tmpl;
    const struct toolfmt *fmt;
    bool generic;     /* the template shows no tools or has an unknown call syntax (generic.h) */
    bool hides_calls; /* the template leaves out calls or their results */
    bool keeps_null;  /* the template distinguishes null content from an empty string */
    char fingerprint[24];
    char *mmproj;              /* projector file for images; NULL: none */
    struct pictures *pictures; /* opened at the first image; preparing thread only */
    struct sched *sched;       /* engine thread only */
    struct prefix_disk *shelf; /* engine thread only; NULL: none */
    struct guards *guards;
    struct sched_counts counts; /* as of the last pass; protected by server.lock */
    struct buf slots;           /* JSON, as of the last pass; protected by server.lock */
};
/* Prepares loaded file i for requests. *c is copied; its pointers are borrowed. */
int served_new(struct served **out, struct server *s, int i, const struct serve_core *c,
               struct err *e);
/* Frees d; unfinished tasks fail. */
void served_free(struct served *d);

struct server {
    struct serve_opts o;
    struct net *net;
    struct models models;
    struct served **active; /* [n_active] loaded files; engine thread only */
    int n_active;
    int64_t created;
    double t_start;
    struct history *restore;
    uint64_t image_key; /* ask.image_key */
    struct ctx *ctx;    /* context that all threads enter (base/ctx.h) */
    atomic_bool stop;   /* stop now */
    atomic_bool drain;  /* stop when running answers have ended */
    atomic_bool late;   /* the drain time is over: fail running answers */
    atomic_bool lost;   /* a device failed for good (`wrong`); the server shuts down */
    struct err wrong;
    double t_drain;
    pthread_t engine, prepare, compiler[SERVE_COMPILERS];
    bool has_engine, has_prepare;
    int n_compilers;

    struct stranger { /* addresses that sent wrong keys; network thread only */
        uint64_t peer;
        double since;
        int n;
    } stranger[SERVE_STRANGERS];

    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t to_prepare, to_engine, to_compile;
    struct job_list {
        struct handed {
            struct job *j;
            struct served *d; /* the file that the request uses; NULL: not chosen yet */
        } * v;
        int n, cap;
    } jobs;                          /* for the preparing thread */
    struct task *forms, **last_form; /* waiting for a compiler thread, in order; end of that list */
    struct task *tasks;              /* for the engine, newest first */
    int n_tasks;                     /* number of runs in `tasks` */
    struct ledger ledger;
    int64_t n_requests, n_failed, n_left; /* n_left: clients that left before preparation */
};

/* A route: the handler of a method and path. The network thread answers cheap requests itself. */
struct route {
    const char *method, *path;
    void (*now)(struct server *s, struct job *j); /* on the network thread; may be NULL */
    /* Called on the preparing thread, with a loaded file; body NULL for GET. */
    void (*later)(struct served *d, struct job *j, const struct json *body);
    void (*named)(struct server *s, int i,
                  struct job *j); /* on the preparing thread; file i may not be loaded */
    const struct api *api;        /* API of generation, and of errors; NULL: OpenAI's errors */
    bool open;                    /* needs no key */
    const char *why;              /* if not supported: the reason, for the client */
};
bool route_head(void *ud, struct job *j);    /* net_ops.head */
void route_request(void *ud, struct job *j); /* net_ops.request */
/* Writes the body for an error found by the network code; ud: unused. */
void route_error(void *ud, int status, const char *why, struct buf *out);
/* Returns whether the client may know about the server's files: it has a valid key, or the server
 * has no keys. Network thread only. */
bool route_trusts(const struct server *s, struct job *j);
/* Returns the value of a query parameter; .s NULL: not present. */
struct http_text route_query(const struct job *j, const char *name);
/* Answers with an error in the form of the route's API. */
void route_fail(struct job *j, const struct fault *f);
/* Answers like route_fail(), and counts the request with ledger_refused(). Call without s->lock. */
void route_refuse(struct server *s, struct job *j, const struct fault *f);
/* Answers with status 200 and the JSON in b. */
void answer_json(struct job *j, const struct buf *b);
/* Answers with b and a line feed, and frees b. */
void answer_line(struct job *j, struct buf *b);
/* Writes the sampling options to the open object. */
void put_sample(const struct sample_opts *o, struct jw *w);

/* Creates a task that is ready for the engine from the parsed request a, and takes ownership of a.
 * Returns 0, or the status of an error with *f filled in. j is NULL if no client waits. */
int prepare_task(struct served *d, struct job *j, const struct api *api, struct ask *a,
                 struct task **out, struct fault *f);
/* Reads the body of a request into a; prepare_prompt() renders its conversation to p. Both return
 * 0, or the status of an error with *f filled in. */
int prepare_read(struct served *d, const struct job *j, const struct api *api,
                 const struct json *body, struct ask *a, struct fault *f);
/* Renders the conversation of a, computes its images, and writes text and ids of the prompt to *p.
 * Returns 0 or the fault's HTTP status. */
int prepare_prompt(struct served *d, struct ask *a, struct chat_prompt *p, struct fault *f);
/* Returns the number of p's tokens up to the end of the messages; what follows them may change with
 * the next turn. 0: unknown. */
int64_t prompt_turn_end(struct served *d, struct ask *a, const struct chat_prompt *p);
/* Returns the number of tokens that p shares with a prompt of only the messages up to `message`,
 * which has a cache_control mark (ask.mark). 0: unknown. */
int64_t prompt_mark_end(struct served *d, const struct ask *a, int message,
                        const struct chat_prompt *p);
/* Writes the texts of the special tokens to the open object, with their names in templates; null:
 * no such token. */
void texts_specials(const struct tok *t, struct jw *w);
/* Passes one record line per answer of a finished task to serve_opts.record. */
void record_task(struct served *d, const struct task *t);

/* Counts and logs a finished request with this status; ledger_refused() a rejected one. Call both
 * without s->lock. */
void ledger_task(struct server *s, const struct task *t, int status);
/* Counts and logs a request that was rejected before it became a task. */
void ledger_refused(struct server *s, const struct job *j, const struct fault *f);
/* Appends the metrics. Call with s->lock held. */
void ledger_metrics(const struct ledger *l, struct buf *out);

/* Prepares a request, on the preparing thread, and drops h->d at the end (models_drop). */
void prepare_job(struct server *s, const struct handed *h);
/* Queues a request for the preparing thread. d: the loaded file it uses; NULL: not chosen yet. Call
 * with s->lock held. */
void serve_hand(struct server *s, struct job *j, struct served *d);
/* Returns whether n more answers would exceed the limits on running and waiting ones. Call with
 * s->lock held. */
bool serve_is_full(const struct server *s, int64_t n);
/* Waits for a condition for up to ms milliseconds. Returns false on timeout. Call with s->lock
 * held. */
bool serve_wait(struct server *s, pthread_cond_t *c, int64_t ms);
/* Compiles a task's grammar, on a compiler thread, and passes the task to the engine. The task
 * fails if the grammar costs too much, the server stops, or the client leaves. */
void prepare_form(struct task *t);
/* Queues a task for the compiler threads. */
void serve_compile(struct server *s, struct task *t);
/* Queues a task for the engine; fails it if too many are waiting. */
void serve_submit(struct server *s, struct task *t);

/* Answers with the server's readiness and the state of each model. */
void info_health(struct server *s, struct job *j);
/* Answers with the list of all models. */
void info_models(struct server *s, struct job *j);
/* Answers with the entry of the model `id`, n bytes; 404 if unknown. */
void info_model(struct server *s, struct job *j, const char *id, size_t n);
/* Answers with the settings of the model that the query names. */
void info_props(struct server *s, struct job *j);
/* Answers with the state of all slots; 503 if ?fail_on_no_slot=1 and none is free. */
void info_slots(struct server *s, struct job *j);
/* Answers with the counters in Prometheus's text format. */
void info_metrics(struct server *s, struct job *j);
/* Answers with all models, as Ollama's /api/tags does. */
void info_tags(struct server *s, struct job *j);
/* Answers with the models in memory, as Ollama's /api/ps does. */
void info_ps(struct server *s, struct job *j);
void info_version(struct server *s, struct job *j);
void info_root(struct server *s, struct job *j);
/* Answers browsers with the web page, and other clients like info_root(). */
void info_page(struct server *s, struct job *j);

/* Reads a request to generate and submits its task; on failure, answers with the fault. */
void later_generate(struct served *d, struct job *j, const struct json *body);
/* Answers with the tokens of "content" or, as vLLM does, of "prompt". */
void later_tokenize(struct served *d, struct job *j, const struct json *body);
/* Answers with the text of "tokens". */
void later_detokenize(struct served *d, struct job *j, const struct json *body);
/* Answers with the rendered prompt without generating; runs once the model is loaded. */
void later_template(struct served *d, struct job *j, const struct json *body);
/* Answers .../count_tokens and .../input_tokens. */
void later_count(struct served *d, struct job *j, const struct json *body);
/* Answers GET /tokenizer_info. */
void later_tokenizer(struct served *d, struct job *j, const struct json *body);
/* Answers with the details of model i, as Ollama's /api/show does. */
void named_show(struct server *s, int i, struct job *j);

#endif
