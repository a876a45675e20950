// SPDX-License-Identifier: MIT
/* serve/serve.h - the HTTP server. One thread handles the network, one prepares requests, and one
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
    const char *own;  /* its original name, which is accepted too; NULL: only the id is */
    const char *file; /* file name, without folders */
    const char *path;
    const char *type;              /* type that most weights have, for display */
    const char *arch, *size_label; /* "": not known */
    const char *tmpl;              /* chat template: the file's own, or --template; "": none */
    const char *wrong;             /* why it cannot be served; NULL: it can */
    char digest[33];               /* hash of gguf_stamp(); "": not known */
    uint64_t n_bytes;              /* size of the file */
    uint64_t need;                 /* bytes of memory while loaded */
    int64_t n_params, n_vocab, n_ctx, n_ctx_train;
    struct sample_opts sample; /* defaults for requests */
    int64_t seed;              /* default seed; < 0: none */
};
struct serve_core {          /* a loaded file */
    struct model *m;         /* the model; has a tokenizer */
    struct session *s;       /* its session, created with session_opts.guests */
    struct drafter *drafter; /* sched_opts.drafter */
    uint64_t context_bytes;
};
struct serve_opts {
    struct net_opts net; /* without callbacks; no hosts: requests come only from serve/replay.h */
    const struct serve_file *file; /* [n_files] */
    int n_files;
    int first;          /* file that serves requests without a model */
    uint64_t max_bytes; /* memory for all loaded files; 0: unlimited */
    /* Loads file i. Called on a thread of its own or, if it is the only file, in serve_new(). */
    int (*load)(void *ud, int i, struct serve_core *out, struct err *e);
    /* Closes file i again; NULL: files stay loaded. */
    void (*unload)(void *ud, int i, struct serve_core *c);
    void *load_ud;
    const char *tmpl_name;      /* name of the template, for messages; NULL: each file's own */
    const char *mmproj;         /* projector file of the models that it fits; NULL: none is named */
    const struct json *presets; /* by name (preset.h); NULL: none */
    const char *kwargs;         /* template variables: members of a JSON object; NULL: none */
    int think;                  /* enum ask_think, default for requests */
    int64_t n_think;            /* default limit on thinking tokens; < 0: none */
    int constrain;              /* enum guards_mode (constraint.h) */
    bool open_objects;          /* gram_opts.open for schemas of requests */
    bool strict;                /* `model` must be an exact id */
    bool strict_calls;          /* accept calls only in the template's own syntax */
    enum chat_special special;
    int64_t n_max; /* < 0: not set */
    int n_live, n_queue;
    double max_step_s, drain_s;
    bool draft;             /* sched_opts.draft */
    const char *cache_dir;  /* on-disk prefix cache; NULL: none */
    uint64_t cache_bytes;   /* its size limit */
    const char *const *key; /* API keys; NULL: none required */
    int n_keys;
    const char *const *allow_host, *const *allow_origin;
    int n_allow_hosts, n_allow_origins;
    void (*log)(void *ud, const char *line); /* receives a JSON object per request; NULL: no log */
    void *log_ud;
    void (*record)(void *ud, const char *line); /* receives a JSON object per answer, with its
                                                   request; NULL: no record */
    void *record_ud;
};
struct server;
/* Creates a server and opens its listening sockets; serve_run() answers the requests. The options
 * are borrowed. */
int serve_new(struct server **out, const struct serve_opts *o, struct err *e);
int serve_port(const struct server *s);
/* Returns whether the server uses cache_dir. If it cannot, the reason was logged when a file was
 * loaded. */
bool serve_has_shelf(const struct server *s);
/* Implements serve_opts.load for files that the caller has loaded. load_ud: their array of struct
 * serve_core. */
int serve_load_ready(void *ud, int i, struct serve_core *out, struct err *e);
/* Serves until progress_interrupted() returns true, then finishes the running answers. */
int serve_run(struct server *s, struct err *e);
void serve_free(struct server *s);

#endif
