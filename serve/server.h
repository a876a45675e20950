// SPDX-License-Identifier: MIT
/* serve/server.h - what the files of a server share: serve.c threads, routes.c what is answered
 * where, prepare.c requests to tasks, info.c what the server says about itself. Internal. */
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
enum miss { MISS_NEW, MISS_STATE, MISS_OFF }; /* why much of a prompt was computed */
struct ledger {                               /* of requests that have ended */
    struct ledger_row {
        const char *api;
        int status;
        int64_t n;
    } row[64];
    int n;
    struct histogram queue, first, request, compile;
    int64_t n_calls, n_loose, n_problems;
    int64_t n_missed[3]; /* of enum miss */
};
/* A loaded model and what answers from it. */
struct served {
    struct server *server;
    int index; /* in models.v */
    const struct serve_file *file;
    struct serve_core core;
    struct chat *chat; /* NULL: the model has no template */
    const char *tmpl;
    const struct toolfmt *fmt;
    bool generic;     /* the template shows no tools, or writes calls in no known way: as text */
    bool hides_calls; /* it leaves out calls or their results */
    bool keeps_null;  /* it tells content that is null from an empty text */
    char fingerprint[24];
    struct sched *sched;       /* of the engine's thread */
    struct prefix_disk *shelf; /* its, too; or NULL */
    struct guards *guards;
    struct sched_counts counts; /* after the last pass; within server.lock */
    struct buf slots;           /* JSON, of the same time and under the same lock */
};
/* Prepares loaded file i for requests; *c is copied, what it points to is borrowed. */
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
    struct ctx *ctx;   /* whom all threads work for */
    atomic_bool stop;  /* at once */
    atomic_bool drain; /* when what runs has ended */
    atomic_bool late;  /* what runs fails */
    atomic_bool lost;  /* a device failed for good, as `wrong` says: it ends as if interrupted */
    struct err wrong;
    double t_drain;
    pthread_t engine, prepare, compiler[SERVE_COMPILERS];
    bool has_engine, has_prepare;
    int n_compilers;

    struct stranger { /* addresses that gave wrong keys; of the network's thread */
        uint64_t peer;
        double since;
        int n;
    } stranger[SERVE_STRANGERS];

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t to_prepare, to_engine, to_compile;
    struct job_list {
        struct handed {
            struct job *j;
            struct served *d; /* the file it uses; NULL: not chosen yet */
        } * v;
        int n, cap;
    } jobs; /* for the thread that prepares */
    struct task *forms,
        **last_form;    /* whose form is to be compiled, in order; where the next goes */
    struct task *tasks; /* for the engine, last one first */
    int n_tasks;        /* runs in there */
    struct ledger ledger;
    int64_t n_requests, n_failed, n_left; /* n_left: before they were prepared */
};

/* What a path does. Small things are answered by the network thread. */
struct route {
    const char *method, *path;
    void (*now)(struct server *s, struct job *j); /* by the network thread; NULL: prepared */
    /* by the thread that prepares, with a loaded file; body NULL for GET */
    void (*later)(struct served *d, struct job *j, const struct json *body);
    void (*named)(struct server *s, int i, struct job *j); /* same thread; file i, loaded or not */
    const struct api *api; /* of generation, and of errors; NULL: OpenAI's errors */
    bool open;             /* without a key */
    const char *why;       /* not offered: what is said of it */
};
bool route_head(void *ud, struct job *j);    /* net_ops.head */
void route_request(void *ud, struct job *j); /* net_ops.request */
void route_error(void *ud, int status, const char *why, struct buf *out);
/* Returns the value of a query parameter; .s NULL: not there. */
struct http_text route_query(const struct job *j, const char *name);
/* Answers with an error, in the form of its API. */
void route_fail(struct job *j, const struct fault *f);
/* Does the same and counts the request (ledger_refused). Without s->lock. */
void route_refuse(struct server *s, struct job *j, const struct fault *f);
void answer_json(struct job *j, const struct buf *b);
/* Answers with b and a line feed, and frees b. */
void answer_line(struct job *j, struct buf *b);
/* Adds the sampling options to the open object. */
void put_sample(const struct sample_opts *o, struct jw *w);

/* Makes a task of a request that was read, ready for the engine, and takes a over. When something
 * is wrong with the request its status is returned, with *f filled in. j NULL says that nobody is
 * told. */
int prepare_task(struct served *d, struct job *j, const struct api *api, struct ask *a,
                 struct task **out, struct fault *f);
/* Reads the body of a request; prepare_prompt renders its conversation. They return 0, or the
 * status of an error with *f filled in. */
int prepare_read(struct served *d, const struct job *j, const struct api *api,
                 const struct json *body, struct ask *a, struct fault *f);
int prepare_prompt(struct served *d, struct ask *a, struct chat_prompt *p, struct fault *f);
/* Adds the texts of the special tokens to the open object, as templates name them; null: none. */
void texts_specials(const struct tok *t, struct jw *w);
/* Hands lines of a record to serve_opts.record: one for each answer of a task that has ended. */
void record_task(struct served *d, const struct task *t);

/* Counts a request that has ended, with that status, or that was refused, and tells the log.
 * Without s->lock. */
void ledger_task(struct server *s, const struct task *t, int status);
void ledger_refused(struct server *s, const struct job *j, const struct fault *f);
/* Appends the metrics. Within s->lock. */
void ledger_metrics(const struct ledger *l, struct buf *out);

/* Prepares a request, on the thread that does so; drops h->d (models_drop) at the end. */
void prepare_job(struct server *s, const struct handed *h);
/* Gives a request to that thread; d: the loaded file it uses, NULL: not chosen yet. Within s->lock.
 */
void serve_hand(struct server *s, struct job *j, struct served *d);
/* Tells whether n more answers are too many. Within s->lock. */
bool serve_is_full(const struct server *s, int64_t n);
/* Waits for a condition, at most ms milliseconds. Returns false on timeout. Within s->lock. */
bool serve_wait(struct server *s, pthread_cond_t *c, int64_t ms);
/* Compiles the form of a task, on a thread that does nothing else, and gives it to the engine. The
 * task fails when that costs too much, the server is told to stop, or its client leaves. */
void prepare_form(struct task *t);
/* Gives a task to a thread that does so. */
void serve_compile(struct server *s, struct task *t);
/* Gives a task to the engine; fails it when too many wait. */
void serve_submit(struct server *s, struct task *t);

void info_health(struct server *s, struct job *j);
void info_models(struct server *s, struct job *j);
void info_model(struct server *s, struct job *j, const char *id, size_t n);
void info_props(struct server *s, struct job *j);
void info_slots(struct server *s, struct job *j);
void info_metrics(struct server *s, struct job *j);
void info_tags(struct server *s, struct job *j);
void info_ps(struct server *s, struct job *j);
void info_version(struct server *s, struct job *j);
void info_root(struct server *s, struct job *j);
/* Answers browsers with a page, and others as info_root does. */
void info_page(struct server *s, struct job *j);

void later_generate(struct served *d, struct job *j, const struct json *body);
void later_tokenize(struct served *d, struct job *j, const struct json *body);
void later_detokenize(struct served *d, struct job *j, const struct json *body);
void later_template(struct served *d, struct job *j, const struct json *body);
/* Answers .../count_tokens and .../input_tokens. */
void later_count(struct served *d, struct job *j, const struct json *body);
/* Answers GET /tokenizer_info. */
void later_tokenizer(struct served *d, struct job *j, const struct json *body);
void named_show(struct server *s, int i, struct job *j);

#endif
