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
    const char *keep;           /* --keep: path of the results cache */
    struct results_cache *kept; /* the open cache of `keep`, or the command's own; NULL: none */
    const char *hash;           /* hash of the model's content, for cache keys; NULL: unknown */
    bool by_depth, routing, compact;
    bool jump;         /* with constrained: forced tokens are not drawn */
    bool strict_calls; /* only the template's syntax counts as a call */
    bool constrained;  /* calls are constrained to the offered tools and their schemas */
};
/* Default arguments of evaluations: for texts, for a model's answers, for speed. */
extern const struct eval_args eval_text_usual, eval_answer_usual, eval_speed_usual;

struct eval_loaded {
    struct model *m;
    struct session *s;
    double seconds; /* time to open both */
};
/* Creates a session of m with room for n_ctx tokens. kv names the KV cache type; the other settings
 * come from `a`. */
int eval_session(struct work *w, const struct eval_args *a, struct model *m, const char *kv,
                 int64_t n_ctx, struct session **out, struct err *e);
struct eval_opening { /* a session, opened with others */
    const struct eval_args *a;
    struct model *m;
    const char *kv;
    struct session **out;
};
/* Creates n sessions of n_ctx tokens, which will be open at the same time: on a device, each may
 * use a share of the memory in proportion to its file. Reorders o. On error, some may be open. */
int eval_sessions(struct work *w, struct eval_opening *o, int n, int64_t n_ctx, struct err *e);
/* Opens a model, with the arguments' pre-tokenizer. */
int eval_model(const struct eval_args *a, const char *path, struct model **out, struct err *e);
/* Opens a model and a session of n_ctx tokens; on error, leaves nothing open. */
int eval_open_one(struct work *w, const struct eval_args *a, const char *path, int64_t n_ctx,
                  struct eval_loaded *l, struct err *e);
void eval_close_one(struct eval_loaded *l);
/* Encodes a text file with the model's tokenizer. ERR_DATA: the model has no tokenizer. */
int eval_load_text(const struct model *m, const char *path, struct ids *ids, struct err *e);

struct suite;
struct suite_answers;
/* Reads a suite of cases from a file, or the built-in one if path is "builtin". */
int eval_suite_read(struct suite *s, const char *path, struct err *e);
/* Opens the model and closes it again: reports, before hours of work with another model, why this
 * one could not be measured. */
int eval_check_model(const struct eval_args *a, const char *model, struct err *e);
/* Sets *knows to whether the model's template has a known syntax of tool calls. */
int eval_knows_calls(const struct eval_args *a, const char *model, bool *knows, struct err *e);
/* Does the same as eval_check_model() for a model that will answer a suite: also reports a missing
 * call syntax. */
int eval_check_suite(const struct eval_args *a, const char *model, const struct suite *suite,
                     int64_t n_cases, const char *format, struct err *e);
/* Opens the model, runs n_cases of the suite (0: all), and closes it. Of `a`, these fields apply:
 * context (0: as needed), cache type, activations and the constraints on calls. `format` names the
 * call syntax; NULL: the template's. */
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
/* Opens the model, scores the tasks, and closes the model. */
int eval_choice_of(struct work *w, const struct eval_args *a, const char *model,
                   const struct choice_job *j, struct choice_tasks *tasks,
                   struct choice_answers *out, struct err *e);

struct eval_texts { /* texts, grouped by domain */
    struct eval_domain *domain;
    struct ids *ids; /* [n] */
    int n;
};
/* Loads the texts of n_paths files as domains. A file is a domain named after the file, or file and
 * folder (io_short_names); lines of a .jsonl file with a "domain" go to that domain instead.
 * Release with eval_texts_release. */
int eval_texts_load(const struct model *m, const char *const *path, int n_paths,
                    struct eval_texts *out, struct err *e);
/* Adds one file to t, zeroed or filled before, as the domain `name`; NULL: named after the file.
 * path "builtin": the built-in texts, as domains "prose" and, with a chat template, "chat". The
 * name of a built-in domain (calib/defaults.h) adds its text, unless there is a file of that name.
 */
int eval_texts_add(struct eval_texts *t, const struct model *m, const char *name, const char *path,
                   struct err *e);
/* Adds the texts of all built-in domains, those of conversations only if m has a chat template. */
int eval_texts_add_all(struct eval_texts *t, const struct model *m, struct err *e);
void eval_texts_release(struct eval_texts *t);
/* Reduces ids to max_chunks chunks of ctx tokens, spread evenly over all texts so that each text
 * has its share. 1 keeps two chunks, the minimum that an evaluation requires. 0: all. */
void eval_spread_chunks(struct ids *ids, int64_t ctx, int64_t max_chunks);
/* Puts the whole windows of ctx tokens into a fixed random order, so that the first ones are a
 * sample of the text. */
void eval_shuffle_chunks(struct ids *ids, int64_t ctx);

enum { EVAL_MAX_LIST = 32 };
/* Parses a list of counts, e.g. "0,4096", into out[*n]. `what` is the option's name, for the error
 * message. */
int eval_parse_list(const char *text, const char *what, int64_t out[EVAL_MAX_LIST], int *n,
                    struct err *e);

#endif
