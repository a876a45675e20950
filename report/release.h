// SPDX-License-Identifier: MIT
/* report/release.h - a folder of GGUF files to be published: its files and their metadata.
 *
 * Reads headers only. The caller supplies what requires the model's architecture: memory, advice,
 * the rendered prompt. */
#ifndef HONE_REPORT_RELEASE_H
#define HONE_REPORT_RELEASE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "containers/gguf.h"

struct release_file { /* one model: a file or a split set */
    const char *file; /* file name; of a split set, the first shard */
    const char *stem;
    char encoding[32]; /* "": not recognised */
    int n_shards;
    uint64_t size_bytes;
    int64_t n_params, file_type; /* file_type -1: missing */
    double bpw;
    bool is_float; /* not quantized: the base of the other files */
    uint64_t need; /* GPU memory in bytes with fit_ctx[0] tokens and the projector; 0: unknown */
    const char *compared; /* its name in the results of hone versus, set and owned by the caller;
                             NULL: they do not include it */
    double n_drafts;      /* drafts of a draft file that were measured, set by the caller */
    double acceptance, acceptance_stderr; /* share that matches the model's choice, if n_drafts */
};
struct release_mmproj { /* vision tower in a file of its own, for any of the models */
    const char *file, *projector;
    uint64_t size_bytes;
};
struct release_draft { /* MTP block or draft model in a file of its own, for any of the models */
    const char *file, *kind; /* kind: gguf_draft_kind */
    uint64_t size_bytes;
};
/* Which file to use with one memory size, for each context length of struct release. */
enum release_memory { RELEASE_GPU, RELEASE_UNIFIED, RELEASE_RAM, RELEASE_MEMORIES };
enum { RELEASE_CONTEXTS = 3 };
struct release_fit {
    enum release_memory kind;
    int gib;
    int file[RELEASE_CONTEXTS];    /* index; -1: none fits */
    int cpu_moe[RELEASE_CONTEXTS]; /* number of blocks whose experts stay in main memory
                                      (--n-cpu-moe); 0: none */
};
enum {
    RELEASE_MAX_STOPS = 16,
    RELEASE_MAX_FITS = 40,
    RELEASE_MAX_LIST = 256,
    RELEASE_MAX_MMPROJ = 8
};
struct release {
    const char *dir;
    struct release_file *file;
    int n_files;                                      /* models, largest first */
    struct release_mmproj mmproj[RELEASE_MAX_MMPROJ]; /* floats first */
    int n_mmproj;
    struct release_draft draft; /* file NULL: no draft file */
    bool has_mtp;               /* the models contain an MTP block */
    const char *drafts; /* kind of the files, which all are drafts for a model that is not in
                           the folder; NULL: they are models */
    const char **name;  /* names of all regular files, sorted */
    int n_names;
    bool has_imatrix;
    /* From the first model's metadata; "" if absent. */
    const char *title, *arch, *size_label, *license, *license_name, *license_link, *base_model;
    const char *template, *bos;
    const char *language[RELEASE_MAX_LIST], *tag[RELEASE_MAX_LIST], *stop[RELEASE_MAX_STOPS];
    int n_languages, n_tags, n_stops;
    int64_t ctx, n_params;
    double temp, top_p, min_p, repeat; /* NaN: not specified */
    int64_t top_k;                     /* -1: not specified */
    /* set by the caller; otherwise NULL or 0 */
    const char *quantized_by, *repo;
    const char *fault;  /* why no conversation can use the chat template */
    bool unknown;       /* hone does not know the architecture: nothing was measured */
    const char *prompt; /* a short conversation, rendered as the model's prompt */
    int64_t fit_ctx[RELEASE_CONTEXTS]; /* tokens; 0: end of the list */
    struct release_fit
        fit[RELEASE_MAX_FITS]; /* sorted by kind and size; rows without information are omitted */
    int recommended;           /* file recommended by the measurements; -1: none */
    int n_fits, fit_best;      /* fit_best: best file regardless of memory; -1: none */
    int enough_gib[RELEASE_MEMORIES]; /* memory from which the best file fits with every context of
                                         fit_ctx; 0: unknown, or more than the sizes considered */
    struct arena arena;
};
/* Reads the models of a folder. ERR_USAGE: the folder has no GGUF model. ERR_DATA: a file is
 * damaged. */
int release_open(struct release *r, const char *dir, struct err *e);
void release_close(struct release *r);
/* Returns whether the folder has a file of this name. */
bool release_has(const struct release *r, const char *name);
/* Returns the index of the file used in example commands: the recommended one, else Q4_K_M, else
 * the smallest; -1 if the folder has no models. */
int release_pick(const struct release *r);

/* Returns the size of the projector that the card's commands load; 0: none. */
uint64_t release_projector(const struct release *r);
/* Appends "its whole context", or "131,072 tokens" if the longest context of fit_ctx is shorter. */
void release_longest(const struct release *r, struct buf *out);

/* Appends Ollama's Modelfile (report/release_text.c). */
void release_modelfile(const struct release *r, struct buf *out);
/* Appends the file "params", read by the Hub's bridge to Ollama. */
void release_params(const struct release *r, struct buf *out);
/* Appends model.yaml for LM Studio. */
void release_model_yaml(const struct release *r, struct buf *out);
/* Commands and parameters known to Ollama, each list terminated by NULL. */
extern const char *const ollama_commands[], *const ollama_params[], *const ollama_deprecated[];

#endif
