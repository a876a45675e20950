// SPDX-License-Identifier: MIT
/* work/work.h - what every job is given: the context it works for, the device and the threads it
 * may use, and what it shares with other jobs of the same caller. Nothing here knows a command
 * line; cli/ fills it from one, a library call could as well.
 *
 * A job is a function of a struct work, of a struct with its options, and, where it has a result
 * for people, of a struct emit that it fills and its caller prints. */
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
    struct ctx *ctx;        /* the one that the calling thread works for; it owns the pool */
    bool overwrite;         /* existing outputs may be replaced */
    bool warned_context;    /* open_warn_context has warned */
    int threads;            /* most that may be used; 0: all processors */
    struct device device;   /* where models are computed */
    enum kern_isa isa;      /* of the CPU's kernels */
    const char *pack_cache; /* folder of packed weights, or NULL */
    const char *choices;    /* folder of isa_choice.h and blas_choice.h, or NULL */
    bool isa_given;         /* by name: only kernels of that set compute */
    const char *pre;        /* pre-tokenizer for every model opened; NULL: each file's own */
    const char *tmp;        /* folder for temporary files */
    struct pool *pool;      /* ctx's, made by work_pool on first use */
    struct results_cache
        *kept;        /* what long steps measure, base/results_cache.h; NULL: nothing is kept */
    struct arena mem; /* lists and strings that live as long as the job */
};

/* How a job is to be done: the options that all commands have, and hone_opts of the library. */
struct work_how {
    int64_t threads;     /* at most; 0: all processors */
    int64_t stream_from; /* passes of so many tokens copy experts; 0: none; < 0: as usual */
    uint64_t max_memory; /* bytes of large buffers; 0: no limit */
    const char *device, *isa, *max_vram, *place, *pack_cache; /* NULL: as usual */
    const char *choices; /* as in struct work, borrowed for as long as the job; NULL: none */
    bool overwrite, untrusted;
    bool default_device; /* device NULL means auto: a build with CUDA uses a card if present */
    const char *root;    /* prefix of the paths that are searched for a card; NULL: none */
};
/* Fills w by what was asked for, and sets the limits of the current context. Returns ERR_USAGE for
 * a name that is none, ERR_SYS for what this machine has not. */
int work_set(struct work *w, const struct work_how *how, struct err *e);

/* Looks for a card if --device was not given, and warns if there is one that cannot be used. */
void work_device(struct work *w);
/* Creates the thread pool on the first call, and calls work_device. */
int work_pool(struct work *w, struct err *e);

/* Strings that are borrowed; the array lives in an arena. */
struct str_list {
    const char **v;
    int n;
};
/* Appends a borrowed string; the array lives in w->mem. */
void work_list_add(struct work *w, struct str_list *l, const char *value);
/* Splits "a,b,c" into a list; everything lives in w->mem. */
void work_split(struct work *w, const char *text, struct str_list *out);

/* Names of how activations are computed: as they are, or rounded to 8 bits. */
#define ACT_EXACT "f32"
#define ACT_FAST "q8"
/* Finds a mode by its name. Returns ERR_USAGE, naming --act, where there is none. */
int act_parse(const char *text, enum act_mode *out, struct err *e);

#endif
