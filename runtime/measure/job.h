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
    const char *pre;  /* --pre: pre-tokenizer; NULL: the file's */
    const char *keep; /* --keep: path */
    struct results_cache
        *kept;        /* it, open; or another file of the command's; NULL: nothing is kept */
    const char *hash; /* of the model's content, for it; NULL: not known */
    bool by_depth, routing, compact;
    bool jump;         /* constrained: what must come is not drawn */
    bool strict_calls; /* only the syntax of the template makes a call */
    bool constrained;  /* calls are of the tools offered, with arguments that their schemas allow */
};
/* What an evaluation does without options: of a text, of the answers of a model, of speed. */
extern const struct eval_args eval_text_usual, eval_answer_usual, eval_speed_usual;

struct eval_loaded {
    struct model *m;
    struct session *s;
    double seconds; /* that opening both took */
};
/* Makes a session of m with room for n_ctx tokens. kv names the type of its cache of keys and
 * values; a says the rest. */
int eval_session(struct work *w, const struct eval_args *a, struct model *m, const char *kv,
                 int64_t n_ctx, struct session **out, struct err *e);
int eval_open_one(struct work *w, const struct eval_args *a, const char *path, int64_t n_ctx,
                  struct eval_loaded *l, struct err *e);
void eval_close_one(struct eval_loaded *l);
int eval_load_text(const struct model *m, const char *path, struct ids *ids, struct err *e);

struct suite;
struct suite_answers;
/* Reads a suite of cases from a file, or the one of the program when path is "builtin". */
int eval_suite_read(struct suite *s, const char *path, struct err *e);
/* Opens the model, lets it answer n_cases of the suite (0: all), and closes it. Of `a` the context
 * (0: what is needed), the cache's type, the activations and the constraints on calls count.
 * `format` names a syntax of calls; NULL: the one that the template asks for. */
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
struct eval_job { /* of a command without a struct of its own */
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
/* Loads the texts of n_paths files as domains. A file is a domain of its base name, but lines of a
 * .jsonl file that name a "domain" belong to that one. eval_texts_release frees what it fills. */
int eval_texts_load(const struct model *m, const char *const *path, int n_paths,
                    struct eval_texts *out, struct err *e);
void eval_texts_release(struct eval_texts *t);
/* Keeps max_chunks chunks of ctx tokens, evenly spread over all texts, so that every text has its
 * share. With 1 it keeps two, which is the least that an evaluation asks of a text; with 0 all. */
void eval_spread_chunks(struct ids *ids, int64_t ctx, int64_t max_chunks);

enum { EVAL_MAX_LIST = 32 };
/* Reads a list of counts such as "0,4096" into out[*n]. `what` is the name of the option, for the
 * message. */
int eval_parse_list(const char *text, const char *what, int64_t out[EVAL_MAX_LIST], int *n,
                    struct err *e);

#endif
