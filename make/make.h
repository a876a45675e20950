// SPDX-License-Identifier: MIT
/* make/make.h - what the steps of `hone make` share. Each step is in one of make_*.c; cmd_make.c
 * orders them. Files are named within the job (job_path). */
#ifndef HONE_MAKE_MAKE_H
#define HONE_MAKE_MAKE_H

#include "make/plan.h"
#include "work/work.h"
#include "make/publish.h"
#include "make/step.h"
#include "quantize/quantize.h"
#include "quantize/requant.h"

struct made { /* one GGUF of the folder */
    char recipe[64];
    char *file;    /* name in the folder */
    char *path;    /* where it is (the base lies outside) */
    char hash[33]; /* content */
    bool is_base, outside;
    cJSON *eval, *speed, *tools; /* what the steps found, owned; NULL: not measured */
    char sha256[65];
    double bpw;
    int64_t size_bytes;
    uint64_t type_bytes[QT_COUNT]; /* of its tensors, by type */
    /* of a file of the ladder: */
    char size_class[32]; /* "Q4_K_M"; "": none */
    bool is_mix;         /* else the preset that its name says */
    bool feedback;       /* encoded with error feedback */
    double preset_kld;   /* mean divergence of llama.cpp's preset of this size; 0: not measured */
    char *why;           /* owned; NULL: nothing was compared */
};
struct make {
    struct work *w;
    struct job job;
    const char *src;
    struct str_list recipes; /* made as they are: presets, named recipes */
    struct str_list classes; /* sizes to make the best file of; none with --plain */
    struct str_list calib, eval, budget, probe;
    double probe_seconds; /* of probing; 0: no limit */
    double seconds;       /* of the whole job, --time; 0: no limit */
    double t0;            /* when the job began */
    bool plain, dry_run;
    struct plan_in in;     /* the forecast */
    struct make_plan plan; /* what time and memory allow */
    int64_t calib_ctx, calib_chunks, eval_ctx, pp, tg, reps;
    int64_t eval_chunks, asked_chunks; /* as the plan has it, and --chunks */
    const char *type, *depths;
    const char *search;      /* NULL: fast for presets, best for files of the ladder */
    const char *effort_text; /* as asked for; NULL: normal */
    enum effort effort;
    bool by_depth;
    const char *tools; /* suite: path, "builtin", "none"; NULL: the source folder's, if any */
    int64_t tools_cases;
    bool redo;   /* -f: no record is believed */
    bool resume; /* what is done of a quant is kept even if it is small */
    char *name;
    char src_hash[33];
    char weights[33];  /* hash of the weights in SRC alone; "": not known */
    struct made *file; /* [0] is the base */
    int n_files;
    char *imatrix; /* path; NULL: none */
    char imatrix_hash[33];
    cJSON *about_imatrix, *about_eval; /* objects of results.json, owned; NULL: not known */
    struct str_list notes;
    struct publish_facts given; /* options: what the card is to say */
    const char *words;          /* --notes: file */
    const char *tmpl_how;       /* --template: "keep", or NULL */
    const char *tmpl;           /* the repaired chat template; NULL: the base's */
    char tmpl_hash[33];
    bool requantize;           /* --allow-requantize */
    struct requant base;       /* was the base quantized already? */
    struct str_list left_out;  /* by the current plan: first for memory, then for --time */
    int n_no_memory;           /* entries of left_out that memory decided */
    struct str_list cut_short; /* what else could not be done */
    bool counting;             /* make_count: steps look up their records and do no work */
    int n_found, n_missing;    /* records of the current step, while counting */
    double n_begun;            /* what is done of the missing ones, in records */
    const char *text_dir;      /* folder for the built-in texts; NULL: with the records */
    bool said_late;            /* the warning that --time is too short was logged */
    bool kept_plan;            /* the plan comes from the record of an earlier run */
};
/* Returns whether this is a dry pass of make_count, in which steps must not do their work. */
bool make_counts(const struct make *mk);
/* Notes, while counting, that `found` of `of` files of a part are done, in addition to `before`
 * files that were noted earlier. */
void make_share(struct make *mk, enum plan_part part, double found, int of, int before);
/* Fills mk->in.done with the share of each part that is already recorded. With `whole` it starts
 * from the source and also finds the base and the plan (mk->n_files, mk->plan.made); otherwise it
 * starts after the forecast. Writes nothing. */
void make_count(struct make *mk, bool whole);
/* Returns whether every part of the plan is recorded as done. */
bool make_nothing_left(const struct make *mk);
#define MAKE_SENSITIVITY JOB_WORK "sens.json"

enum quantize_resume make_resume(const struct make *mk);
/* Tells whether the record of a step can be used instead of doing it again, which it also logs.
 * *result is then what the step found, which cJSON_Delete frees; else NULL. */
bool make_reuse(struct make *mk, struct step *s, cJSON **result);
/* Replaces *to by `result`, which it then owns. */
void make_keep(cJSON **to, cJSON *result);
/* Adds to cut_short a sentence about what could not be done, once. No later plan takes it back. */
void make_left_out(struct make *mk, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Adds a sentence to the notes of results.json. */
void make_note(struct make *mk, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct made *make_add_file(struct make *mk, const char *recipe, char *path, bool outside);

struct eval_kld_run;
/* Measures f[1..n) against f[0], the base, in one pass, and records every file's numbers; see may
 * look at the run (NULL: nothing more is needed). */
typedef void (*make_see)(void *ctx, const struct eval_kld_run *r);
int make_measure(struct make *mk, struct made *const *f, int n, make_see see, void *ctx,
                 struct err *e);
/* Returns the share of f's windows that an earlier run measured and kept; the file that keeps them
 * must be open (mk->w->kept). */
double make_measured(struct make *mk, const struct made *f);
/* Writes the record of f's numbers again, under the name that the file has now. */
int make_keep_eval(struct make *mk, const struct made *f, struct err *e);
void made_release(struct made *f);
/* Removes the file that was added last from the list of files, and frees what it holds. */
void made_drop(struct make *mk);

struct ids;
struct step;

/* Repairs the chat template of the base for all other files, and notes it. */
int make_template(struct make *mk, struct err *e);
/* Adds the repaired template, if any, to the key of a step that writes a file. */
void make_key_template(const struct make *mk, struct step *s);

/* Refuses, before any work, wrong facts, notes that are not there, and, without --allow-requantize,
 * an SRC that is quantized already. */
int make_check_base(struct make *mk, struct err *e);
/* Refuses files of others that are in the way, unless -f was given; the folder must be open. */
int make_check_folder(struct make *mk, struct err *e);
/* Renames, with -f, models of others in the folder to NAME.orig, so that they are not published. */
int make_set_aside(const struct make *mk, struct err *e);
/* Writes all that is for readers, with results.json as it is to be. */
int make_publish(struct make *mk, const cJSON *results, struct err *e);

/* Takes --pre from the state of the job in the folder `out`, where an earlier call wrote it, when
 * this call was given none. It is called before anything is checked. */
int make_pre_recall(struct make *mk, const char *out, struct err *e);
/* Writes --pre into the state of the job, which must be open, for later calls. */
int make_pre_keep(const struct make *mk, struct err *e);
/* Checks what was asked for, and fills recipes and classes. `recipes` is the text of --recipe;
 * NULL: it was not given. */
int make_ask(struct make *mk, const char *recipes, struct err *e);
/* Sets mk->name, from which the names of all files are made. */
int make_name(struct make *mk, struct err *e);
/* Refuses (place.c) with ERR_USAGE an output folder that is the source folder, inside it or above
 * it, that holds original weights of any model, or that is inside another job's results or state.
 */
int make_check_place(const char *src, const char *out, struct err *e);
/* Refuses with ERR_USAGE an output folder that holds the job of another model; mk->name must be
 * set. Once mk->weights is set, two sources of one name are told apart too. */
int make_check_earlier(const struct make *mk, const char *out, struct err *e);
/* Takes mk->weights from the record of a source whose content has not changed. */
bool make_known_weights(struct make *mk);
/* Refuses what stands against work in the folder `out`, before anything is written, in a dry run
 * too: its place, other files in the way, the job of another model. */
int make_check_before(struct make *mk, const char *out, struct err *e);
/* Records name, path and hash of the source in DIR.work/source.json. */
int make_keep_source(const struct make *mk, struct err *e);
/* Returns the name of the base's file in a type, "NAME-BF16.gguf". The caller frees it with
 * free(). */
char *make_base_file(const struct make *mk, const char *type);
/* Computes src_hash and weights, hashes of what SRC holds, and refuses a folder that another source
 * owns. */
int make_source(struct make *mk, struct err *e);
/* Converts a folder, or takes a GGUF file as it is: file[0], with its hash. */
int make_convert(struct make *mk, struct err *e);
/* Takes the built-in texts where none were named. */
int make_texts(struct make *mk, struct err *e);
/* Forecasts what the job will take, and makes the plan that keeps to --time. */
int make_forecast(struct make *mk, struct err *e);
/* Returns whether the plan takes longer than --time although nothing more can be left out, and
 * then writes a warning to out. */
bool make_too_long(const struct make *mk, char out[512]);
int make_dry_run(struct make *mk, const char *out, struct emit *m, struct err *e);
/* Forecasts again what is left after the part `done`, and fits the plan to the time that is
 * left. */
int make_replan(struct make *mk, enum plan_part done, struct err *e);
struct shapes;
/* Returns the memory of the job, in bytes, that is not in large buffers. */
double make_other_memory(void);
/* Measures the numbers that a plan is made from. `base` is the path of the converted model; NULL:
 * there is none yet. */
int make_measure_plan(struct make *mk, const struct shapes *s, const char *base, struct err *e);
int make_imatrix(struct make *mk, struct err *e);
/* Returns the path of the file of second moments, which the caller frees with free(); NULL when
 * none were collected. */
char *make_gram(const struct make *mk);
/* Makes the files that are presets by request: file[1..]. */
int make_quantize(struct make *mk, struct err *e);
/* Measures what each type costs each part of the model, once for all sizes, and writes it to
 * MAKE_SENSITIVITY. */
int make_sensitivity(struct make *mk, struct err *e);
/* Makes a file for each size class. */
int make_ladder(struct make *mk, struct err *e);
/* Makes a file for each --budget. */
int make_mix(struct make *mk, struct err *e);
/* Makes the file of one preset with the job's importance matrix, and records the step. */
int make_preset(struct make *mk, const char *recipe, struct err *e);
/* Fills *out with the exact bytes of a preset's file, before anything is encoded. */
int make_class_bytes(const struct make *mk, const char *name, uint64_t *out, struct err *e);
/* Returns the name of the encoders' search for mixes. */
const char *make_mix_search(const struct make *mk);
/* Returns the seconds that are left for probes; 0: there is no limit. */
double make_time_for_probes(const struct make *mk);
/* Looks for an evaluation text that also took part in importance or probes, and sets *same to its
 * path; NULL: none did. */
int make_texts_apart(struct make *mk, const char **same, struct err *e);
int make_eval(struct make *mk, struct err *e);
int make_speed(struct make *mk, struct err *e);
int make_tools(struct make *mk, struct err *e);
/* Appends to the files of `now`, the new results.json, the rows of an earlier one (`old`) for files
 * that are still in the folder and that this run did not make. One whose numbers cannot be compared
 * with the new ones is left out with a warning. */
void make_earlier(struct make *mk, const cJSON *old, cJSON *now);
int make_report(struct make *mk, struct err *e);
/* Fills m with the table of the files and the answer; adds to `after` what people are told below.
 */
int make_show(struct make *mk, double seconds, struct emit *m, struct buf *after, struct err *e);
#include "commands/members.h"
struct make_opts {
    struct make mk;
#include "commands/make.def"
};
extern const struct make make_usual; /* what holds where nothing was asked for */
/* Does the whole job: fills `m` with its result, and `after` with sentences that follow it on a
 * terminal. mk holds what was asked for; nothing of it is needed afterwards. `recipes` has names
 * with commas between them; NULL: the usual ones. */
int make_run(struct make *mk, const char *recipes, const char *out, struct emit *m,
             struct buf *after, struct err *e);

/* Checks SRC before any work (check.c): a GGUF file must be of a known architecture and
 * tokenizer, a folder one that can be converted. */
int make_check_source(const char *src, const char *pre, struct err *e);
/* Checks before any work that every file of l is a text (check.c). */
int make_check_texts(const struct str_list *l, struct err *e);

#endif
