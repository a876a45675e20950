// SPDX-License-Identifier: MIT
/* jobs/versus_int.h - parts of hone versus: the run, checks of the files, flips, tables. */
#ifndef HONE_JOBS_VERSUS_INT_H
#define HONE_JOBS_VERSUS_INT_H

#include "jobs/versus.h"
#include "runtime/measure/flips.h"

enum {
    VERSUS_MAX = 64,        /* files, and files times cache types */
    VERSUS_MAX_KV = 8,      /* cache types */
    VERSUS_GREEDY = 16,     /* greedy texts with --flips */
    VERSUS_GREEDY_LEN = 48, /* their longest continuation in tokens */
    VERSUS_PROMPT_LEN = 64, /* tokens of their prompts */
    VERSUS_MAX_FAULTS = 16  /* listed per file */
};

struct versus_counts { /* what changes in one model */
    struct eval_share choices, greedy, tools;
    double right_per_100; /* multiple choice: right answers; NaN: not measured */
    double first_change;  /* median first differing token, from 1; NaN: not measured */
    int64_t tools_valid, tools_passed;
};
struct versus_file {
    const char *path;
    char *name;  /* shown: the file's name, with its folder or a number if files share it; owned */
    char *label; /* short: without what all names have in common; owned */
    struct model *m;
    struct session *s[VERSUS_MAX_KV]; /* one per cache type; of the base, only the first */
    int64_t n_bytes;                  /* all shards */
    double bpw;
    bool vision;                    /* a projector file of this model is in its folder */
    int64_t mtp;                    /* multi-token prediction blocks */
    int n_template;                 /* errors of the chat template; -1: no template */
    bool other_template;            /* differs from the base's */
    char *first_template;           /* explanation of the first error; NULL: none; owned */
    char *fault[VERSUS_MAX_FAULTS]; /* metadata that differs from the base's; owned */
    int n_faults;                   /* may exceed VERSUS_MAX_FAULTS */
    int group; /* from 0; a file at most 1 % larger than the next smaller one is in its group */
    struct eval_kld k;
    struct eval_group g;
    struct versus_counts n;
};
struct versus {
    struct work *w;
    const struct versus_opts *o;
    struct eval_args eval;                  /* the options', with the first cache type */
    struct str_list kv;                     /* cache types; all tables but by_kv are of the first */
    struct versus_file base, f[VERSUS_MAX]; /* f: smallest first */
    int n;
    struct eval_texts texts;
    struct eval_kld_run r;
    bool has_choices, has_greedy, has_tools; /* measured */
    bool mixed_suites; /* some cases offer no tools, so answers are not always calls */
};

/* Returns the candidate of the run that is file i with cache type k. */
static inline int versus_cand(const struct versus *v, int i, int k) {
    return k * v->n + i;
}

/* Returns whether two files have the same size, within 1 %. */
static inline bool versus_same_size(const struct versus_file *a, const struct versus_file *b) {
    const double x = (double)a->n_bytes, y = (double)b->n_bytes;
    return x <= 1.01 * y && y <= 1.01 * x;
}
/* Fills the metadata of x and compares them with the base's. ERR_DATA: not the same model. */
int versus_inspect(const struct versus *v, struct versus_file *x, struct err *e);
/* Reads the files of tasks and suites that the options name, to find errors before the work. */
int versus_read_flips(const struct versus *v, struct err *e);
/* Returns the number of greedy texts that the options request. */
int64_t versus_n_greedy(const struct versus_opts *o);
/* Measures the flips that the options request, for the base and all files. */
int versus_flips(struct versus *v, struct err *e);
/* Returns the file of a text [NAME=]FILE. */
const char *versus_text_file(const char *given);
/* Returns the file of FORMAT:FILE. */
const char *versus_choice_file(const char *given);
/* Returns the value of an option that names only a file. */
const char *versus_whole(const char *given);
/* Returns short names (io_short_names) of the files in a list; file: finds the file in a value. The
 * caller frees the names and the array. */
char **versus_shown(const struct str_list *l, const char *(*file)(const char *given));
/* Returns the tool-call syntax of the model's template; NULL: none that hone knows. */
const struct toolfmt *versus_calls(const struct model *m);
/* Fills m. */
void versus_emit(const struct versus *v, struct emit *m);

#endif
