// SPDX-License-Identifier: MIT
/* work/work.h - context of a job: device, threads, and state shared with the caller's other jobs.
 * It does not depend on a command line: cli/ fills it from one, the library from hone_opts.
 *
 * A job is a function that takes a struct work, a struct of options and, if its result is to be
 * shown, a struct emit that the job fills and the caller prints. */
#ifndef HONE_WORK_WORK_H
#define HONE_WORK_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/ctx.h"
#include "base/emit.h"
#include "base/err.h"
#include "base/pool.h"
#include "kernels/kern.h"
#include "runtime/engine/session.h"

struct results_cache;

struct work {
    struct ctx *ctx;        /* context of the calling thread; owns the pool */
    bool overwrite;         /* existing outputs may be replaced */
    bool warned_context;    /* open_warn_context has warned */
    int threads;            /* maximum; 0: all processors */
    struct device device;   /* where models run */
    enum kern_isa isa;      /* instruction set of the CPU kernels */
    const char *pack_cache; /* folder of packed weights, or NULL */
    const char *choices;    /* folder for isa_choice.h and blas_choice.h, or NULL */
    bool isa_given;         /* --isa names a set: only kernels of that set are used */
    const char *pre;        /* pre-tokenizer of every model that is opened; NULL: each file's own */
    const char *tmp;        /* folder for temporary files */
    struct pool *pool;      /* the context's pool, created by work_pool on first use */
    struct results_cache *kept; /* results of long steps; NULL: none */
    struct arena mem;           /* lists and strings with the job's lifetime */
};

/* Settings of a job: the options common to all commands, or hone_opts of the library. */
struct work_how {
    int64_t threads;     /* maximum; 0: all processors */
    int64_t stream_from; /* shortest pass, in tokens, that copies experts; 0: none; < 0: default */
    uint64_t max_memory; /* bytes of large buffers; 0: no limit */
    const char *device, *isa, *max_vram, *place, *pack_cache; /* NULL: default */
    const char *choices; /* as in struct work, borrowed for the job's lifetime; NULL: none */
    bool overwrite, untrusted;
    bool default_device; /* device NULL means auto: a CUDA build uses a card if present */
    const char *root;    /* prefix of the paths that are searched for a card; NULL: none */
};
/* Fills w from the settings and sets the limits of the current context. ERR_USAGE: unknown name.
 * ERR_SYS: not available on this machine. */
int work_set(struct work *w, const struct work_how *how, struct err *e);

/* Looks for a card if --device was not given, and warns if it finds one that cannot be used. */
void work_device(struct work *w);
/* Creates the thread pool on the first call and calls work_device. */
int work_pool(struct work *w, struct err *e);

/* List of borrowed strings; the array lives in an arena. */
struct str_list {
    const char **v;
    int n;
};
/* Appends a borrowed string; the array lives in w->mem. */
void work_list_add(struct work *w, struct str_list *l, const char *value);
/* Splits "a,b,c" into a list that lives in w->mem. */
void work_split(struct work *w, const char *text, struct str_list *out);

/* Activation modes of --act: unchanged, or rounded to 8 bits. */
#define ACT_EXACT "f32"
#define ACT_FAST "q8"
/* Finds a mode by name. ERR_USAGE if the name is unknown; the message names --act. */
int act_parse(const char *text, enum act_mode *out, struct err *e);

#endif
