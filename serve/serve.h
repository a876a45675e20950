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

struct serve_file {   /* a file that is served; all texts are borrowed */
    const char *id;   /* the model's id for clients */
    const char *file; /* its name, without folders */
    const char *type; /* of most of its weights, for people */
    uint64_t n_bytes; /* of the file */
    int64_t n_params;
};
struct serve_core {      /* what answers are computed with while a file is loaded; borrowed */
    struct model *m;     /* with a tokenizer */
    struct session *s;   /* of session_opts.guests */
    struct session *mtp; /* sched_opts.mtp */
    struct sample_opts sample;
    int64_t seed; /* < 0: not given */
    uint64_t context_bytes;
};
struct serve_opts {
    struct net_opts net; /* but its callbacks; no hosts: nobody can ask but serve/again.h */
    struct serve_file file;
    struct serve_core core;
    const char *tmpl;           /* text of a template; NULL: the file's own */
    const struct json *presets; /* by name (preset.h); NULL: none */
    const char *kwargs;         /* members of an object for the template; NULL: none */
    int think;                  /* enum ask_think, for requests that do not say */
    int64_t n_think;            /* tokens of thinking, for the same; < 0: no bound */
    int constrain;              /* enum guards_mode (guard.h) */
    bool open_objects;          /* gram_opts.open for schemas of requests */
    bool strict;                /* other model ids than the alias are refused */
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
/* Tells whether cache_dir is used; serve_new says why when it is not. */
bool serve_has_shelf(const struct server *s);
/* Serves until prog_interrupted(), then lets answers end. */
int serve_run(struct server *s, struct err *e);
void serve_free(struct server *s);

#endif
