// SPDX-License-Identifier: MIT
/* hone.h - hone as a library: every command of the program is a call.
 *
 * A call takes what the command line takes (man pages hone-<command>(1)) and returns its result as
 * text, one JSON document unless --csv or --md is among the arguments:
 *
 *     const char *args[] = {"in.gguf", "-o", "out.gguf", "--recipe", "Q4_K_M", NULL};
 *     struct hone_result r;
 *     if (hone_quantize(args, NULL, &r) != HONE_OK) fprintf(stderr, "%s\n", r.message);
 *     else puts(r.text);
 *     hone_result_free(&r);
 *
 * Calls may run at the same time, from several threads or from a callback of another call. Each has
 * a context of its own: its level of messages and where they go, its progress and whether it was
 * cancelled, its limits (--untrusted, --max-memory), its team of threads (--threads). None changes
 * what another returns or writes; they share the machine, so give each some of the threads. Two
 * calls that write the same file race for its name like two programs: without -f the second to
 * finish fails. The library installs no signal handlers, prints nothing on standard output, and
 * writes messages to standard error unless `log` takes them. Outputs appear whole or not at all,
 * also when a call fails or is cancelled. The process ends (exit 4) only when an allocation of a
 * few bytes fails. An input file that another program cuts while it is read raises SIGBUS. Link
 * with `pkg-config --libs hone`. */
#ifndef HONE_H
#define HONE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HONE_API __attribute__((visibility("default")))
#else
#define HONE_API
#endif

enum hone_status {              /* also the exit status of the program */
                   HONE_OK = 0, /* done */
                   HONE_VERDICT =
                       1, /* the check ran and the answer is "no"; the result says what was found */
                   HONE_USAGE = 2,      /* senseless request */
                   HONE_DATA = 3,       /* an input file is not what it claims to be */
                   HONE_SYS = 4,        /* the machine said no: I/O, memory, no device */
                   HONE_CANCELLED = 130 /* `progress` returned non-zero */
};

enum hone_level { HONE_ERROR, HONE_WARN, HONE_INFO, HONE_DEBUG, HONE_TRACE };

struct hone_opts { /* zero what is not used */
    size_t size;   /* sizeof(struct hone_opts): fields may be added at the end */
    /* A message, without a line feed; may come from any thread. NULL: to standard error. */
    void (*log)(void *user, enum hone_level level, const char *text);
    /* How far a step is; total 0: unknown. Non-zero cancels the call. NULL: not told. */
    int (*progress)(void *user, const char *stage, uint64_t done, uint64_t total);
    void *user;
};

struct hone_result {
    char *text;         /* what the command prints, "" when nothing; never NULL */
    size_t len;         /* without the NUL at its end */
    char message[1024]; /* one sentence that says what went wrong; "" when nothing */
};
/* Frees the text. A result is filled by every call, also by one that fails. */
HONE_API void hone_result_free(struct hone_result *r);

/* "0.1.0" of the library that is loaded. */
HONE_API const char *hone_version(void);

/* The command by its name: `hone_call("quantize", ...)` is hone_quantize(...). `args` ends with
 * NULL; `opts` may be NULL. Returns an enum hone_status. */
HONE_API int hone_call(const char *command, const char *const *args, const struct hone_opts *opts,
                       struct hone_result *r);

// clang-format off
#define HONE_CALL(name) \
    HONE_API int name(const char *const *args, const struct hone_opts *opts, struct hone_result *r)
HONE_CALL(hone_make);          /* the main job: folder in, measured and publishable files out */
HONE_CALL(hone_convert);       /* Hugging Face folder to GGUF */
HONE_CALL(hone_imatrix);       /* collect, merge and describe importance matrices */
HONE_CALL(hone_sensitivity);   /* what each type costs each part of a model, measured */
HONE_CALL(hone_quantize);      /* GGUF to a smaller GGUF */
HONE_CALL(hone_replay);        /* a quantized file made again from its record, and compared */
HONE_CALL(hone_recipes);       /* every recipe, its exact size, and as a plan to edit */
HONE_CALL(hone_eval);          /* perplexity, divergence, speed, logits: "ppl", "kld", ... first */
HONE_CALL(hone_run);           /* generate or answer with the model's template */
HONE_CALL(hone_serve);         /* the model for programs, until `progress` cancels */
HONE_CALL(hone_template);      /* chat templates: "show", "render", "lint", ... first */
HONE_CALL(hone_tokenize);      /* text to token ids and back: with --batch FILE */
HONE_CALL(hone_plan);          /* will it fit: exact memory, and command lines */
HONE_CALL(hone_inspect);       /* what a file or folder is */
HONE_CALL(hone_diff);          /* what changed between two files */
HONE_CALL(hone_publish);       /* card, checksums, manifest; or faults of such a folder */
HONE_CALL(hone_split);         /* a GGUF into shards */
HONE_CALL(hone_merge);         /* shards into one GGUF */
HONE_CALL(hone_verify);        /* is it whole and what it claims */
HONE_CALL(hone_synth);         /* a model of random weights, for speed work */
HONE_CALL(hone_bench_kernels); /* speed of single kernels per tensor type */
HONE_CALL(hone_completion);    /* the words a shell completes */
HONE_CALL(hone_doctor);        /* what this build uses on this machine */
#undef HONE_CALL
// clang-format on

#ifdef __cplusplus
}
#endif
#endif
