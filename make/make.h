// SPDX-License-Identifier: MIT
/* make/make.h - state and steps of `hone make`. Each file in make/ has one or a few steps; make.c
 * puts them in order. File names are relative to the job (job_path). */
#ifndef HONE_MAKE_MAKE_H
#define HONE_MAKE_MAKE_H

#include "make/plan.h"
#include "make/estimate.h"
#include "work/work.h"
#include "make/publish.h"
#include "make/step.h"
#include "quantize/quantize.h"
#include "quantize/requant.h"
#include "convert/mmproj.h"
#include "runtime/measure/vision.h"

/* Suites that every file answers: single calls, or any suite of the user; and two built-in ones. */
enum suite_kind { SUITE_TOOLS, SUITE_LOOPS, SUITE_CHECKS, SUITE_KINDS };
struct made { /* one GGUF file of the folder */
    char recipe[64];
    char *file;    /* name in the folder */
    char *path;    /* full path (the base may be outside the folder) */
    char hash[33]; /* hash of the content */
    bool is_base, outside;
    cJSON *eval, *speed, *drafts, *images; /* results of the steps, owned; NULL: none */
    cJSON *tools[SUITE_KINDS];             /* likewise */
    char sha256[65];
    char sample[33], weights[33]; /* gguf_sample_hash, gguf_weights_hash */
    double bpw;
    int64_t size_bytes;
    uint64_t type_bytes[QT_COUNT]; /* bytes of its tensors, by type */
    bool is_mix;                   /* types chosen for its size; false: a preset */
    bool feedback;                 /* encoded with error feedback */
    bool by_block;                 /* made block by block */
    int64_t n_unlike; /* of a preset: tensors with another type than llama.cpp gives them */
    /* Files of the ladder only: */
    char size_class[32];   /* "Q4_K_M"; "": none */
    double preset_kld;     /* mean divergence of llama.cpp's preset of this size; 0: not measured */
    double preset_sure;    /* then: standard errors between the two; NaN: unknown */
    int64_t preset_chunks; /* windows on which that preset was measured; 0: unknown */
    char *why;             /* owned; NULL: no comparison */
};
/* File that other programs load together with any of the job's models. */
enum extra_kind { EXTRA_TOWER, EXTRA_DRAFT };
struct extra {
    enum extra_kind kind;
    char *file; /* name in the output folder, owned */
    char *from; /* file that it copies, owned; NULL: it is converted */
    char type[16];
    uint64_t bytes;
    cJSON *images; /* of a projector: the base with it, over questions about images; owned */
};
struct make {
    struct work *w;
    struct job job;
    const char *src;
    struct str_list recipes; /* presets and recipes that are made under their own name */
    struct str_list classes; /* size classes of the ladder, largest first; none with --plain */
    struct str_list asked;   /* the classes that --recipe names, or all of them */
    bool named;              /* --recipe was given, so all of these are made */
    struct str_list same;    /* sentences about classes that have the size of another one */
    struct str_list calib, eval, budget, probe;
    double probe_seconds; /* limit for probing; 0: no limit */
    double seconds;       /* --time, for the whole job; 0: no limit */
    double t0;            /* start of the job */
    bool plain, dry_run;
    bool consume;            /* --consume: delete the source's shards once they are converted */
    const char *consumed;    /* the folder before the source became its file; NULL: none */
    int64_t n_tower;         /* tensors of its vision tower; 0: unknown */
    bool unmeasured;         /* hone cannot run the model */
    const char *draft;       /* kind of draft that the source is; NULL: a model of its own */
    const char *target;      /* --target-model-dir */
    const char *target_file; /* a GGUF file in it, to measure drafts with; NULL: none */
    struct speeds speeds;    /* of this machine; product 0: not known yet */
    double busy;             /* share of processor time that other processes take */
    struct rates rates;      /* forecast rates of this machine for this model */
    struct plan_in in;       /* forecast */
    struct make_plan plan;   /* the steps that fit time and memory */
    int64_t calib_ctx, calib_chunks, eval_ctx, pp, tg, reps;
    int64_t eval_chunks, asked_chunks; /* from the plan; from --chunks */
    const char *type, *depths;
    const char *search;      /* NULL: fast for presets, best for the ladder */
    const char *effort_text; /* text of --effort; NULL: normal */
    enum effort effort;
    bool by_depth;
    const char *tools; /* suites (make_suites) or "none"; NULL: that of the source folder, if any */
    int64_t tools_cases;
    const char *images; /* questions about images; NULL: none */
    struct vision_facts image_facts;
    bool redo;   /* -f: ignore all records */
    bool resume; /* resume interrupted quantization even of small files */
    char *name;
    char src_hash[33];
    char weights[33];  /* hash of the weights in SRC alone; "": unknown */
    struct made *file; /* [0] is the base */
    int n_files;
    char *imatrix; /* path; NULL: none */
    char imatrix_hash[33];
    struct eval_rows *rows; /* the base's hidden rows, for later comparisons; NULL: none yet */
    cJSON *about_imatrix, *about_eval; /* objects for results.json, owned; NULL: unknown */
    struct str_list notes;
    struct publish_facts given; /* facts for the card, from the options */
    const char *words;          /* path given by --notes */
    const char *tmpl_how;       /* --template: "keep", or NULL */
    const char *tmpl;           /* repaired chat template; NULL: the base's */
    char tmpl_hash[33];
    const char *tmpl_fault;   /* why no conversation can use the files' template; NULL: no fault */
    struct mmproj_look tower; /* vision tower of the source */
    struct extra extra[3];    /* files of the tower, then of the MTP block */
    int n_extras;
    bool drafts;               /* hone can draft with the source's MTP block */
    int64_t n_draft_tensors;   /* tensors of the source's MTP block */
    bool extra_missing;        /* while counting: one of the files is not recorded */
    bool requantize;           /* --allow-requantize */
    struct requant base;       /* prior quantization of the base */
    struct str_list left_out;  /* parts that the plan skips: first for memory, then for --time */
    int n_no_memory;           /* number of entries of left_out that are due to memory */
    struct str_list cut_short; /* other work that could not be done */
    bool forgot;               /* entries of cut_short were removed */
    bool counting;          /* make_count is running: steps only look up records and do no work */
    int n_found, n_missing; /* records of the current step, while counting */
    double n_begun;         /* progress on the missing records; 1 is a whole record */
    const char *text_dir;   /* folder where the built-in texts are stored; NULL: the state folder */
    bool checked;           /* --consume has checked the options and --time */
    bool said_late;         /* the warning that --time is too short has been logged */
    bool kept_plan;         /* the plan comes from an earlier run's record */
};
/* Returns whether make_count is running; steps must then do no work. */
bool make_counts(const struct make *mk);
/* Records, while counting, that `found` of `of` files of a part are done, in addition to the
 * `before` files recorded earlier. */
void make_share(struct make *mk, enum plan_part part, double found, int of, int before);
/* Fills mk->in.done with the share of each part that is already recorded. With `whole`, it starts
 * from the source and also finds the base and the plan (mk->n_files, mk->plan.made); otherwise it
 * starts after the forecast. Writes nothing. */
void make_count(struct make *mk, bool whole);
/* Returns whether every part of the plan is recorded as done. */
bool make_nothing_left(const struct make *mk);
#define MAKE_SENSITIVITY JOB_WORK "sens.json"

/* Returns how quantizing treats unfinished files of an earlier run. */
enum quantize_resume make_resume(const struct make *mk);
/* Returns whether a step's record can be used instead of running the step, and if so logs this.
 * *result is then the step's result, owned by the caller (cJSON_Delete); otherwise NULL. */
bool make_reuse(struct make *mk, struct step *s, cJSON **result);
/* Replaces *to and takes ownership of `result`. */
void make_keep(cJSON **to, cJSON *result);
/* Adds a sentence to cut_short about work that could not be done, unless it is already there. Later
 * plans do not remove it. */
void make_left_out(struct make *mk, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Removes the sentences with this text from cut_short, because that work is done again. */
void make_forget(struct make *mk, const char *text);
/* Adds a sentence to the notes of results.json. */
void make_note(struct make *mk, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Adds a file to the job and takes ownership of `path`. outside: it is not in the output folder. */
struct made *make_add_file(struct make *mk, const char *recipe, char *path, bool outside);

struct eval_kld_run;
struct make_watch { /* what a caller of make_measure sees; functions may be NULL */
    /* See eval_look: stops files that need no more windows. */
    void (*look)(void *ctx, const struct eval_kld_run *r, bool *stop);
    const int64_t *looks;
    int n_looks;
    void (*end)(void *ctx, const struct eval_kld_run *r);
    void *ctx;
};
/* Measures f[1..n) against the base f[0] in one pass, on windows in a fixed random order, and
 * records the results of every file that was measured to the end. watch may be NULL. */
int make_measure(struct make *mk, struct made *const *f, int n, const struct make_watch *watch,
                 struct err *e);
/* Returns the share of f's windows that an earlier run has measured; the results cache must be open
 * (mk->w->kept). */
double make_measured(struct make *mk, const struct made *f);
/* Writes the record of f's results again, under the file's current name. */
int make_keep_eval(struct make *mk, const struct made *f, struct err *e);
void made_release(struct made *f);
/* Removes the last file from the list and releases it. */
void made_drop(struct make *mk);

struct ids;
struct step;

/* Repairs the base's chat template for all other files, and adds a note about it. */
int make_template(struct make *mk, struct err *e);
/* Warns before any work if no conversation can use the source's template. */
int make_look_at_template(struct make *mk, struct err *e);
/* Appends, if no conversation can use the files' template, that and what to do. */
void make_say_fault(const struct make *mk, struct buf *out);
/* Adds the repaired template, if there is one, to the key of a step that writes a file. */
void make_key_template(const struct make *mk, struct step *s);

/* Returns an error, before any work, for invalid facts, a missing --notes file, or a quantized SRC
 * without --allow-requantize. */
int make_check_base(struct make *mk, struct err *e);
/* Returns an error if files that the job did not make are in its way in the folder, unless -f was
 * given. The job must be open. */
int make_check_folder(struct make *mk, struct err *e);
/* Renames models in the folder that the job did not make to NAME.orig, if -f was given, so that
 * they are not published. */
int make_set_aside(const struct make *mk, struct err *e);
/* Describes the machine on which speeds are measured: "AMD EPYC, 2 threads, avx512, NVIDIA H200".
 */
void make_machine(const struct make *mk, char out[512]);
/* Writes the files that people read, from the given results.json. */
int make_publish(struct make *mk, const cJSON *results, struct err *e);

/* Sets --pre from the state of the job in the folder `out` if this call has none. Call it before
 * any check. */
int make_pre_recall(struct make *mk, const char *out, struct err *e);
/* Writes --pre to the state of the open job, for later calls. */
int make_pre_keep(const struct make *mk, struct err *e);
/* Checks the options, and fills recipes and classes. `recipes` is the text of --recipe; NULL: not
 * given. */
int make_ask(struct make *mk, const char *recipes, struct err *e);
/* Returns the size of a preset's file: exact if the base is known, otherwise from the shapes. */
uint64_t make_class_size(const struct make *mk, const struct shapes *s, const char *name);
/* Sets mk->classes to the classes asked for, by size. Without --recipe, leaves out those that have
 * the size of another one, and adds a sentence about each to mk->same. */
void make_order_classes(struct make *mk, const struct shapes *s);
/* Returns ERR_USAGE if the model has no mix as small as a --budget; the message gives the smallest
 * possible size. base: the converted model; NULL: not converted yet. */
int make_check_least(const struct make *mk, const struct shapes *s, const char *base,
                     struct err *e);
/* Sets mk->name, the prefix of all file names. */
int make_name(struct make *mk, struct err *e);
/* Returns ERR_USAGE for an output folder that is the source folder, inside it or above it, that
 * holds original weights of any model, or that is inside another job's results or state
 * (place.c). */
int make_check_place(const char *src, const char *out, struct err *e);
/* Returns ERR_USAGE for an output folder that holds another model's job. mk->name must be set; if
 * mk->weights is also set, sources with the same name are distinguished. */
int make_check_earlier(const struct make *mk, const char *out, struct err *e);
/* Sets mk->weights from the record of the source if the source is unchanged; otherwise returns
 * false. */
bool make_known_weights(struct make *mk);
/* Returns an error, before anything is written and even in a dry run, if the job cannot use the
 * folder `out`: because of its place, other files in the way, or another model's job. */
int make_check_before(struct make *mk, const char *out, struct err *e);
/* Records name, path and hash of the source in DIR.work/source.json. */
int make_keep_source(const struct make *mk, struct err *e);
/* Returns the name of the base's file in a type, e.g. "NAME-BF16.gguf"; the caller frees it. */
char *make_base_file(const struct make *mk, const char *type);
/* Computes src_hash and weights, the hashes of SRC. Returns an error if the folder belongs to
 * another source. */
int make_source(struct make *mk, struct err *e);
/* Sets file[0] with its hash: a folder is converted, a GGUF file is used unchanged. */
int make_convert(struct make *mk, struct err *e);
/* Writes the vision tower's files into the source folder, before --consume deletes its shards.
 * *kept: the folder has such files. */
int make_keep_tower(struct make *mk, bool *kept, struct err *e);
/* Finds the source's vision tower and MTP block from headers, and lists their files in mk->extra
 * (extra.c). */
int make_look_at_extras(struct make *mk, struct err *e);
void make_free_extras(struct make *mk);
struct vision_params;
/* Reads how images are prepared for projector x, which need not have been written yet. */
int make_projector_params(const struct make *mk, const struct extra *x, struct vision_params *p,
                          struct err *e);
/* Writes the projector files of a known vision tower; warns if the tower is unknown. */
int make_tower(struct make *mk, struct err *e);
/* Writes the draft file, which contains the MTP block and the tensors that it shares with the
 * model. */
int make_draft(struct make *mk, struct err *e);
/* Returns the name of the first file of a kind; NULL: no such file. */
const char *make_extra_file(const struct make *mk, enum extra_kind kind);
/* Returns whether the job writes a projector or draft file of this name. */
bool make_is_extra(const struct make *mk, const char *name);
/* Returns an error if projector or draft files that the job did not make are in the way. */
int make_check_extras(const struct make *mk, struct err *e);
/* Writes a sentence about a vision tower that is left out. Returns false if nothing is left out. */
bool make_mmproj_gap(const struct make *mk, char *out, size_t cap);
/* Adds rows about the files in mk->extra to the table of the files. */
void make_emit_extras(const struct make *mk, struct emit *m);
/* Adds "vision" and "draft" to results.json. */
int make_put_extras(struct make *mk, cJSON *to, struct err *e);
/* Sets the options for a model that hone cannot run (unmeasured.c), and *recipes if it is NULL.
 * ERR_USAGE: an option that needs measurements. */
int make_ask_unmeasured(struct make *mk, const char **recipes, struct err *e);
/* Returns ERR_SYS if the job's files do not fit on the disk. */
int make_space_unmeasured(const struct make *mk, const char *out, struct err *e);
/* Emits the files, their sizes and the space that the job takes; writes nothing. */
int make_dry_unmeasured(struct make *mk, const char *out, struct emit *m, struct err *e);
/* Emits the finished files; after: text to print at the end. */
int make_show_unmeasured(struct make *mk, double seconds, struct emit *m, struct buf *after,
                         struct err *e);
/* Uses the built-in texts if none were named. */
int make_texts(struct make *mk, struct err *e);
/* Forecasts the job's cost, and makes the plan that fits --time. */
int make_forecast(struct make *mk, struct err *e);
/* Checks whether mixes can be judged, which requires an evaluation text that was not used for any
 * choice. Otherwise presets are planned instead, or --budget is an error. */
int make_check_judge(struct make *mk, struct err *e);
/* Chooses the best plan whose remaining work fits --time or, if none does, the one with the least
 * left to do. Work that earlier runs recorded counts only for plans that use it. */
void make_fit(struct make *mk);
/* Returns whether the plan exceeds --time although nothing more can be left out; writes a warning
 * to out. */
bool make_too_long(const struct make *mk, char out[512]);
/* Emits what a job would make and how long it would take; writes nothing to `out`. */
int make_dry_run(struct make *mk, const char *out, struct emit *m, struct err *e);
/* Returns ERR_SYS, before anything is written, for a new job that does not fit on the disk, or
 * whose --time, if there is a limit, is too short even for presets, according to a forecast that
 * runs no passes of the model. With a GPU, it assumes the fastest one known. */
int make_check_time(struct make *mk, const char *out, struct err *e);
/* Reads the record of the --budget given as `text` from DIR.work. NULL: none. The caller frees
 * it. */
cJSON *make_budget_record(const char *state, const char *text);
/* Version of the encoders in the keys of steps: a new one makes every file again. */
#define MAKE_ENCODER "7"
struct make_disk {        /* bytes on disk, at most */
    uint64_t files, work; /* of the files in DIR, and of temporary ones in DIR.work */
    uint64_t left;        /* bytes of both that are still to be written */
};
/* Computes the space that the job takes in the folder `out`, which need not exist. */
void make_disk_of(const struct make *mk, const struct shapes *s, const char *out,
                  struct make_disk *disk);
/* Returns ERR_SYS if the rest of the job does not fit on the disk. */
int make_need_disk(const struct make *mk, const struct shapes *s, const char *out, struct err *e);
/* Like make_need_disk, once the plan is known. */
int make_check_disk(struct make *mk, struct err *e);
/* Updates the forecast after the part `done`, and fits the plan to the remaining time. */
int make_replan(struct make *mk, enum plan_part done, struct err *e);
/* Returns how much memory the job needs in addition to large buffers, in bytes. */
double make_other_memory(void);
/* Measures the inputs of the plan. `base` is the path of the converted model; NULL: not converted
 * yet. In that case `convert`, if not NULL, converts the model if timing its passes is worth it. */
typedef int (*make_provide)(void *ud, const char **base, struct err *e);
/* Measures the machine's speed and plans the job. convert: provides the base file, or NULL. */
int make_measure_plan(struct make *mk, const struct shapes *s, const char *base,
                      make_provide convert, void *ud, struct err *e);
/* Collects the importance matrix, or finds the recorded one. */
int make_imatrix(struct make *mk, struct err *e);
/* Returns the path of the file of second moments, freed by the caller; NULL: none were collected.
 */
char *make_gram(const struct make *mk);
/* Makes the files that were requested as presets: file[1..]. */
int make_quantize(struct make *mk, struct err *e);
/* Measures the cost of each type for each part of the model, once for all sizes, and writes
 * MAKE_SENSITIVITY. */
int make_sensitivity(struct make *mk, struct err *e);
/* Makes a file for each size class. */
int make_ladder(struct make *mk, struct err *e);
/* Makes a file for each --budget. */
int make_mix(struct make *mk, struct err *e);
/* Makes one preset's file with the job's importance matrix, and records the step. */
int make_preset(struct make *mk, const char *recipe, struct err *e);
/* Sets *out to the exact file size of a preset, without encoding anything. */
int make_class_bytes(const struct make *mk, const char *name, uint64_t *out, struct err *e);
/* Returns the name of the search that the encoders use for mixes, with or without error
 * feedback. */
const char *make_mix_search(const struct make *mk, bool feedback);
/* Returns the time left for probes, in seconds; 0: no limit. */
double make_time_for_probes(const struct make *mk);
/* Looks for an evaluation text that was also used for importance or probes, and sets *same to its
 * path; NULL: there is no such text. */
int make_texts_apart(struct make *mk, const char **same, struct err *e);
/* Evaluates the files that have no recorded result. */
int make_eval(struct make *mk, struct err *e);
enum { MAKE_DRAFT_WINDOWS = 16 }; /* windows of the evaluation text, at most */
/* Measures for each file how many drafts of its MTP block are accepted (acceptance.c). */
int make_acceptance(struct make *mk, struct err *e);
/* Finds the largest GGUF model in the folder of --target-model-dir, for which draft files that hone
 * can run are measured by make_acceptance. */
int make_draft_target(struct make *mk, struct err *e);
/* Reads the questions of --images; ERR_USAGE: the model cannot be asked any (images.c). */
int make_look_at_images(struct make *mk, struct err *e);
/* Returns an error, before the long steps, if the base cannot answer questions about images. */
int make_check_images(struct make *mk, struct err *e);
/* Measures all files and projectors on the questions about images. */
int make_images(struct make *mk, struct err *e);
/* Adds "images", the description of these questions, to results.json. */
void make_put_images(const struct make *mk, cJSON *to);
/* Measures the speed of all files. */
int make_speed(struct make *mk, struct err *e);
/* Runs the tool-calling cases on all files, or reuses the recorded results. */
int make_tools(struct make *mk, struct err *e);
/* Returns the kind's name, which begins the members of its results: "tools", "loops", "checks". */
const char *make_suite_name(enum suite_kind k);
/* Splits --tools into the suites of each kind, freed by the caller; NULL: not asked for. ERR_USAGE:
 * more than one suite of a kind. */
int make_suites(const struct make *mk, char *path[SUITE_KINDS], struct err *e);
/* Appends rows of `old`, an earlier results.json, to the files of `now`, the new one: those of
 * files that are still in the folder but were not made by this run. Files whose results are not
 * comparable are skipped with a warning. */
void make_earlier(struct make *mk, const cJSON *old, cJSON *now);
/* Writes the results. With a model, also publishes the folder with its card; otherwise writes only
 * the reports. */
int make_report(struct make *mk, struct err *e);
/* Computes the SHA-256 of an output, cached by the hash of its content. */
int make_checksum(struct make *mk, const char *path, const char *hash, char hex[65], struct err *e);
/* Fills m with the table of files and the answer; appends the closing sentences to `after`. */
int make_show(struct make *mk, double seconds, struct emit *m, struct buf *after, struct err *e);
#include "commands/members.h"
struct make_opts {
    struct make mk;
#include "commands/make.def"
};
extern const struct make make_usual; /* defaults */
/* Runs the whole job: fills `m` with its result, and `after` with the sentences that a terminal
 * shows after it. mk holds the options and is released. `recipes` are names separated by commas;
 * NULL: the size classes. */
int make_run(struct make *mk, const char *recipes, const char *out, struct emit *m,
             struct buf *after, struct err *e);

/* Converts the source folder if --consume was given, deleting its shards, and makes the GGUF file
 * the source (consume.c). If no shard is missing yet, it first calls make_ask and make_check_time,
 * and sets mk->checked. */
int make_consume(struct make *mk, const char *recipes, const char *out, struct err *e);
/* Checks SRC before any work (check.c): a GGUF file must have a known architecture and tokenizer; a
 * folder must be convertible. Sets *unmeasured if hone cannot run the model, and *draft to its kind
 * if it is a draft for another model (struct arch), otherwise to NULL. */
int make_check_source(const char *src, const char *pre, bool *unmeasured, const char **draft,
                      struct err *e);
/* Checks, before any work, that every file of l is a text (check.c). */
int make_check_texts(const struct str_list *l, struct err *e);

#endif
