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

struct serve_file {   /* a served file, from its headers; texts are borrowed */
    const char *id;   /* the model's id for clients */
    const char *own;  /* the file's own name, which also finds it; NULL: the id alone */
    const char *file; /* file name, without folders */
    const char *path;
    const char *type;              /* type of most weights, for display */
    const char *arch, *size_label; /* "": not known */
    const char *tmpl;              /* chat template, its own or --template; "": none */
    const char *wrong;             /* why it cannot be served; NULL: no error */
    char digest[33];               /* hash of gguf_stamp(); "": not known */
    uint64_t n_bytes;              /* of the file */
    uint64_t need;                 /* bytes of memory while loaded */
    int64_t n_params, n_vocab, n_ctx, n_ctx_train;
    struct sample_opts sample; /* defaults for requests */
    int64_t seed;              /* default seed; < 0: none */
};
struct serve_core {      /* a loaded file */
    struct model *m;     /* with a tokenizer */
    struct session *s;   /* of session_opts.guests */
    struct session *mtp; /* sched_opts.mtp */
    uint64_t context_bytes;
    void *own; /* private to serve_opts.load and .unload */
};
struct serve_opts {
    struct net_opts net; /* but its callbacks; no hosts: only serve/replay.h can send requests */
    const struct serve_file *file; /* [n_files] */
    int n_files;
    int first;          /* the file for requests without a model */
    uint64_t max_bytes; /* memory of all loaded files; 0: no bound */
    /* Loads file i, on a thread of its own, or in serve_new when it is the only file. */
    int (*load)(void *ud, int i, struct serve_core *out, struct err *e);
    /* Closes it again; NULL: files stay loaded. */
    void (*unload)(void *ud, int i, struct serve_core *c);
    void *load_ud;
    const char *tmpl_name;      /* source of the template, for messages; NULL: each file */
    const struct json *presets; /* by name (preset.h); NULL: none */
    const char *kwargs;         /* members of an object for the template; NULL: none */
    int think;                  /* enum ask_think, for requests that do not say */
    int64_t n_think;            /* tokens of thinking, for the same; < 0: no bound */
    int constrain;              /* enum guards_mode (constraint.h) */
    bool open_objects;          /* gram_opts.open for schemas of requests */
    bool strict;                /* `model` must be an id */
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
/* Tells whether cache_dir is used; loading a file logs why when it cannot use it. */
bool serve_has_shelf(const struct server *s);
/* Implements serve_opts.load for loaded files; load_ud is an array of struct serve_core. */
int serve_load_ready(void *ud, int i, struct serve_core *out, struct err *e);
/* Serves until progress_interrupted(), then lets answers end. */
int serve_run(struct server *s, struct err *e);
void serve_free(struct server *s);

#endif
