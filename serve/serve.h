// SPDX-License-Identifier: MIT
/* serve/serve.h - a server as a whole: one network thread, one that prepares requests, one that
 * computes. */
#ifndef HONE_SERVE_SERVE_H
#define HONE_SERVE_SERVE_H

#include "runtime/engine/model.h"
#include "runtime/generate/sample.h"
#include "runtime/engine/session.h"
#include "serve/net.h"
#include "template/chat.h"

struct serve_file {   /* a file that is served, as its headers tell; all texts are borrowed */
    const char *id;   /* the model's id for clients */
    const char *file; /* its name, without folders */
    const char *path;
    const char *type;              /* of most of its weights, for people */
    const char *arch, *size_label; /* "": not known */
    const char *tmpl;              /* its chat template, or the one in its place; "": none */
    const char *wrong;             /* why it cannot be served; NULL: it can */
    char digest[33];               /* stands for its content; "": not known */
    uint64_t n_bytes;              /* of the file */
    uint64_t need;                 /* bytes of memory that it takes while it is loaded */
    int64_t n_params, n_vocab, n_ctx, n_ctx_train;
    struct sample_opts sample; /* for requests that do not say */
    int64_t seed;              /* the same; < 0: not given */
};
struct serve_core {      /* what answers are computed with while a file is loaded */
    struct model *m;     /* with a tokenizer */
    struct session *s;   /* of session_opts.guests */
    struct session *mtp; /* sched_opts.mtp */
    uint64_t context_bytes;
    void *own; /* of who loaded it */
};
struct serve_opts {
    struct net_opts net; /* but its callbacks; no hosts: nobody can ask but serve/again.h */
    const struct serve_file *file; /* [n_files] */
    int n_files;
    int first;          /* the file for requests that name none */
    uint64_t max_bytes; /* loaded files take at most so much; 0: no bound */
    /* Loads file i, on a thread that does nothing else; of a server with one file in serve_new. */
    int (*load)(void *ud, int i, struct serve_core *out, struct err *e);
    /* Closes it again; NULL: a file stays loaded once it is. */
    void (*unload)(void *ud, int i, struct serve_core *c);
    void *load_ud;
    const char *tmpl_name;      /* where templates come from; NULL: from each file */
    const struct json *presets; /* by name (preset.h); NULL: none */
    const char *kwargs;         /* members of an object for the template; NULL: none */
    int think;                  /* enum ask_think, for requests that do not say */
    int64_t n_think;            /* tokens of thinking, for the same; < 0: no bound */
    int constrain;              /* enum guards_mode (guard.h) */
    bool open_objects;          /* gram_opts.open for schemas of requests */
    bool strict;                /* other names of models than ids are refused */
    bool strict_calls;          /* only the syntax of the template makes a call */
    enum chat_special special;
    int64_t n_max; /* < 0: not given */
    int n_live, n_queue;
    double max_step_s, drain_s;
    bool draft;             /* sched_opts.draft */
    const char *cache_dir;  /* for what outlives the server; NULL: nothing does */
    uint64_t cache_bytes;   /* of files there */
    const char *const *key; /* NULL: none is needed */
    int n_keys;
    const char *const *allow_host, *const *allow_origin;
    int n_allow_hosts, n_allow_origins;
    void (*log)(void *ud, const char *line); /* a JSON object per request; NULL: none */
    void *log_ud;
    void (*record)(void *ud, const char *line); /* the same, of what was asked and answered */
    void *record_ud;
};
struct server;
/* Listens; nothing is answered before serve_run. Options are borrowed. */
int serve_new(struct server **out, const struct serve_opts *o, struct err *e);
int serve_port(const struct server *s);
/* Tells whether cache_dir is used; a file that cannot use it says why when it is loaded. */
bool serve_has_shelf(const struct server *s);
/* Loads, as serve_opts.load, what is loaded already: load_ud is the struct serve_core of each file.
 */
int serve_load_ready(void *ud, int i, struct serve_core *out, struct err *e);
/* Serves until prog_interrupted(), then lets answers end. */
int serve_run(struct server *s, struct err *e);
void serve_free(struct server *s);

#endif
