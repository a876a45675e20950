// SPDX-License-Identifier: MIT
/* runtime/measure/job.h - opening models and reading texts, suites and tasks for a measurement. */
#ifndef HONE_RUNTIME_MEASURE_JOB_H
#define HONE_RUNTIME_MEASURE_JOB_H

#include "work/work.h"
#include "runtime/measure/eval.h"
#include "runtime/engine/kv_type.h"

struct eval_args {
    int64_t ctx, chunks, stride, pp, tg, reps, worst, kv_skip, top, tail;
    const char *kv_type, *kv_skip_type, *base_kv, *act, *base, *base_file, *save_base, *depths;
    const char *ids, *out, *plot;
    const char *pre;            /* --pre: pre-tokenizer; NULL: the file's */
    const char *keep;           /* --keep: path */
    struct results_cache *kept; /* the open cache of keep, or the command's own; NULL: none */
    const char *hash;           /* hash of the model's content, for the cache; NULL: unknown */
    bool by_depth, routing, compact;
    bool jump;         /* with constrained: forced tokens are not drawn */
    bool strict_calls; /* only the template's syntax counts as a call */
    bool constrained;  /* calls are constrained to the tools offered and their schemas */
};
/* Defaults of evaluations: of a text, of a model's answers, of speed. */
extern const struct eval_args eval_text_usual, eval_answer_usual, eval_speed_usual;

struct eval_loaded {
    struct model *m;
    struct session *s;
    double seconds; /* time to open both */
};
/* Creates a session of m with room for n_ctx tokens. kv names the KV cache type; `a` has the other
 * settings. */
int eval_session(struct work *w, const struct eval_args *a, struct model *m, const char *kv,
                 int64_t n_ctx, struct session **out, struct err *e);
int eval_open_one(struct work *w, const struct eval_args *a, const char *path, int64_t n_ctx,
                  struct eval_loaded *l, struct err *e);
void eval_close_one(struct eval_loaded *l);
int eval_load_text(const struct model *m, const char *path, struct ids *ids, struct err *e);

struct suite;
struct suite_answers;
/* Reads a suite of cases from a file, or the built-in one if path is "builtin". */
int eval_suite_read(struct suite *s, const char *path, struct err *e);
/* Opens the model, runs n_cases of the suite (0: all), and closes it. These fields of `a` apply:
 * context (0: as needed), cache type, activations and the constraints on calls. `format` names a
 * syntax of calls; NULL: the template's. */
int eval_suite_of(struct work *w, const struct eval_args *a, const char *model,
                  const struct suite *suite, int64_t n_cases, int64_t max_tokens,
                  const char *format, struct suite_answers *out, struct err *e);

struct choice_tasks;
struct choice_answers;
struct choice_job {
    const char *format, *path; /* format NULL: needles in a text */
    int64_t n_cases, ctx, n_depths, per_depth;
};
extern const struct choice_job eval_needle_usual;
struct eval_job { /* for commands without their own struct */
    struct eval_args eval;
    struct choice_job tasks;
};
/* Opens the model, scores the tasks with it, and closes it. */
int eval_choice_of(struct work *w, const struct eval_args *a, const char *model,
                   const struct choice_job *j, struct choice_tasks *tasks,
                   struct choice_answers *out, struct err *e);

struct eval_texts { /* texts as domains */
    struct eval_domain *domain;
    struct ids *ids; /* [n] */
    int n;
};
/* Loads the texts of n_paths files as domains. A file is a domain named by its base name; lines of
 * a .jsonl file with a "domain" go to that one. Release with eval_texts_release. */
int eval_texts_load(const struct model *m, const char *const *path, int n_paths,
                    struct eval_texts *out, struct err *e);
void eval_texts_release(struct eval_texts *t);
/* Reduces ids to max_chunks chunks of ctx tokens, evenly spread over all texts, so that every text
 * has its share. 1 keeps two chunks, the minimum that an evaluation requires of a text. 0: all. */
void eval_spread_chunks(struct ids *ids, int64_t ctx, int64_t max_chunks);

enum { EVAL_MAX_LIST = 32 };
/* Parses a list of counts such as "0,4096" into out[*n]. `what` is the option's name, for the
 * message. */
int eval_parse_list(const char *text, const char *what, int64_t out[EVAL_MAX_LIST], int *n,
                    struct err *e);

#endif
