// SPDX-License-Identifier: MIT
/* serve/serve.h - the HTTP server. It has one network thread, one that prepares requests, and one
 * that computes. */
#ifndef HONE_SERVE_SERVE_H
#define HONE_SERVE_SERVE_H

#include "runtime/engine/model.h"
#include "runtime/generate/sample.h"
#include "runtime/engine/session.h"
#include "serve/net.h"
#include "template/chat.h"

struct serve_file {   /* a served file, from its headers; texts are borrowed */
    const char *id;   /* the model's id for clients */
    const char *own;  /* its original name, also accepted; NULL: only the id */
    const char *file; /* file name, without folders */
    const char *path;
    const char *type;              /* type of most weights, for display */
    const char *arch, *size_label; /* "": not known */
    const char *tmpl;              /* chat template, its own or --template; "": none */
    const char *wrong;             /* why it cannot be served; NULL: it can */
    char digest[33];               /* hash of gguf_stamp(); "": not known */
    uint64_t n_bytes;              /* size of the file */
    uint64_t need;                 /* bytes of memory while loaded */
    int64_t n_params, n_vocab, n_ctx, n_ctx_train;
    struct sample_opts sample; /* defaults for requests */
    int64_t seed;              /* default seed; < 0: none */
};
struct serve_core {      /* a loaded file */
    struct model *m;     /* the model; has a tokenizer */
    struct session *s;   /* its session, created with session_opts.guests */
    struct session *mtp; /* sched_opts.mtp */
    uint64_t context_bytes;
    void *own; /* private to serve_opts.load and .unload */
};
struct serve_opts {
    struct net_opts net;           /* no callbacks; no hosts: only serve/replay.h sends requests */
    const struct serve_file *file; /* [n_files] */
    int n_files;
    int first;          /* file for requests without a model */
    uint64_t max_bytes; /* memory for all loaded files; 0: unlimited */
    /* Loads file i, on its own thread; if it is the only file, in serve_new(). */
    int (*load)(void *ud, int i, struct serve_core *out, struct err *e);
    /* Closes it again; NULL: files stay loaded. */
    void (*unload)(void *ud, int i, struct serve_core *c);
    void *load_ud;
    const char *tmpl_name;      /* source of the template, for messages; NULL: each file's own */
    const struct json *presets; /* by name (preset.h); NULL: none */
    const char *kwargs;         /* template variables: members of a JSON object; NULL: none */
    int think;                  /* enum ask_think, default for requests */
    int64_t n_think;            /* default limit of thinking tokens; < 0: none */
    int constrain;              /* enum guards_mode (constraint.h) */
    bool open_objects;          /* gram_opts.open for schemas of requests */
    bool strict;                /* `model` must be an exact id */
    bool strict_calls;          /* read only the template's own syntax as calls */
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
    void (*log)(void *ud, const char *line); /* gets one JSON object per request; NULL: no log */
    void *log_ud;
    void (*record)(
        void *ud,
        const char *line); /* gets one JSON object per answer, with its request; NULL: no record */
    void *record_ud;
};
struct server;
/* Opens the listening sockets; requests are answered once serve_run() runs. Options are
 * borrowed. */
int serve_new(struct server **out, const struct serve_opts *o, struct err *e);
int serve_port(const struct server *s);
/* Returns whether cache_dir is in use. If it cannot be used, loading a file logs the reason. */
bool serve_has_shelf(const struct server *s);
/* Implements serve_opts.load for files already loaded; load_ud: array of struct serve_core. */
int serve_load_ready(void *ud, int i, struct serve_core *out, struct err *e);
/* Serves until progress_interrupted(), then finishes the running answers. */
int serve_run(struct server *s, struct err *e);
void serve_free(struct server *s);

#endif
