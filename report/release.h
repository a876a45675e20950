// SPDX-License-Identifier: MIT
/* report/release.h - a folder of GGUF files as something to publish: what is in it and what its
 * files say of themselves. Reads headers only. Numbers that need a model's architecture (memory,
 * advice, the rendered prompt) are put in by the caller. */
#ifndef HONE_REPORT_RELEASE_H
#define HONE_REPORT_RELEASE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "containers/gguf.h"

/* Finds the encoding in a file's name by the field's convention, in capitals: the part behind the
 * last '-' or '.' before the shard number, or all of the name, such as "Q4_K_M", "Q4_K_XL" or
 * "BF16". Returns false when the Hub would not recognise one. */
bool release_encoding(const char *file, char out[32]);
/* Returns a name without its ending and shard number, "M-Q4_K_M" for "M-Q4_K_M.gguf" and for
 * "M-Q4_K_M-00001-of-00003.gguf". The caller frees it with free(). */
char *release_stem(const char *file);

struct release_file { /* one model: a file or a split set */
    const char *file; /* name; of a set the first shard's */
    const char *stem;
    char encoding[32]; /* "": not recognised */
    int n_shards;
    uint64_t size_bytes;
    int64_t n_params, file_type; /* file_type -1: not said */
    double bpw;
    bool is_float;    /* nothing quantized: what the others were made from */
    uint64_t need[2]; /* bytes on a GPU with 8192 and 32768 tokens; 0: not known */
};
/* Advice for a size of memory, for each context of struct release. */
enum release_memory { RELEASE_GPU, RELEASE_UNIFIED, RELEASE_RAM, RELEASE_MEMORIES };
enum { RELEASE_CONTEXTS = 3 };
struct release_fit {
    enum release_memory kind;
    int gib;
    int file[RELEASE_CONTEXTS];    /* index; -1: none fits */
    int cpu_moe[RELEASE_CONTEXTS]; /* blocks whose experts stay in main memory (--n-cpu-moe); 0 */
};
enum { RELEASE_MAX_STOPS = 16, RELEASE_MAX_FITS = 40, RELEASE_MAX_LIST = 256 };
struct release {
    const char *dir;
    struct release_file *file;
    int n_files;       /* models, in order of size from the largest */
    const char **name; /* every regular file's name, sorted */
    int n_names;
    bool has_imatrix;
    /* from the first model's keys; "" when absent */
    const char *title, *arch, *size_label, *license, *license_name, *license_link, *base_model;
    const char *template, *bos;
    const char *language[RELEASE_MAX_LIST], *tag[RELEASE_MAX_LIST], *stop[RELEASE_MAX_STOPS];
    int n_languages, n_tags, n_stops;
    int64_t ctx, n_params;
    double temp, top_p, min_p, repeat; /* NaN: not said */
    int64_t top_k;                     /* -1: not said */
    /* put in by the caller; NULL or 0 otherwise */
    const char *quantized_by, *repo;
    bool unknown;       /* hone cannot compute with these models: nothing of them is measured */
    const char *prompt; /* a short conversation as the model sees it */
    int64_t fit_ctx[RELEASE_CONTEXTS];        /* tokens; 0: no more contexts */
    struct release_fit fit[RELEASE_MAX_FITS]; /* by kind and size; only rows that say something */
    int recommended;                          /* file that the measurements recommend; -1: none */
    int n_fits, fit_best; /* fit_best: the file to take when memory does not count; -1: none */
    int enough_gib[RELEASE_MEMORIES]; /* memory from which the best file fits with every context; 0:
                                         more than we look at, or not known */
    struct arena arena;
};
/* Reads the models of a folder. Returns ERR_USAGE for a folder without any GGUF model, ERR_DATA for
 * a damaged file. */
int release_open(struct release *r, const char *dir, struct err *e);
void release_close(struct release *r);
/* Tells whether the folder has a file of this name. */
bool release_has(const struct release *r, const char *name);
/* Returns the index of the file that instructions name: the recommended one, else Q4_K_M, else the
 * smallest; -1 when there is none. */
int release_pick(const struct release *r);

/* Appends the text of Ollama's Modelfile (report/release_text.c). */
void release_modelfile(const struct release *r, struct buf *out);
/* Appends the text of the file "params" of the Hub's bridge to Ollama. */
void release_params(const struct release *r, struct buf *out);
/* Appends the text of model.yaml, for LM Studio. */
void release_model_yaml(const struct release *r, struct buf *out);
/* Ollama's names; both end with NULL. */
extern const char *const ollama_commands[], *const ollama_params[], *const ollama_deprecated[];

#endif
