// SPDX-License-Identifier: MIT
/* mix/mixer.h - quantization job for a budget: the types with the least loss that fit it. */
#ifndef HONE_MIX_MIXER_H
#define HONE_MIX_MIXER_H

#include "work/work.h"
#include "containers/gguf.h"
#include "models/sizes.h"
#include "quantize/quantize.h"
#include "mix/sens.h"

struct mix_ask {
    uint64_t budget;        /* maximum size of the file in bytes; 0: no limit */
    uint64_t vram, reserve; /* memory of the card in bytes, and how much of it to keep free; vram 0:
                               no limit */
    int64_t ctx,
        slots; /* context and number of slots that must fit on the card next to the weights */
    struct kv_rows kv;   /* rows of keys and values */
    const char *kv_type; /* --kv-type, for messages */
    double speed;        /* weight of decode time: mix/sens.h */
    bool floors;
    bool can_lower; /* if no mix is small enough, IQ1_S and IQ1_M are measured and permitted */
    bool avoid[QT_COUNT];
};
struct mix_report {
    uint64_t budget, file_bytes, tensor_bytes;
    uint64_t vram_bytes;  /* weights, keys and values, state and working memory on the card; 0: not
                             requested */
    uint64_t device_room; /* maximum bytes of tensors on the card; 0: not requested */
    double loss, gap, bpw;
    double decode_bytes; /* weight bytes read per token */
    double price;        /* divergence per byte and token */
    bool exact, probed;  /* solved exactly; probes were used */
    char *plan;          /* path of the plan, owned */
};
struct mix_point { /* one point of the front between quality and speed */
    double speed, loss, decode_bytes;
};
enum { MIX_FRONT = 16, MIX_NOTES = 6 };
#define MIX_PLAN ".plan.tsv" /* ending of a plan next to its output */
struct mixer {               /* a model and the costs of its types */
    struct work *w;
    struct gguf *g;
    struct sens s;
    char source[33]; /* hash of the sensitivity file; "none" */
    bool probed;
    bool measured; /* the errors were measured here, not read from a file */
};
/* Opens a model and reads the costs of its types from the file `sensitivity`. NULL: errors are
 * measured here, with q's importance and search, and weighted by role. `least` is the smallest
 * budget, in bytes, that will be requested (sens_set_low). Call mixer_close even after an error. */
int mixer_open(struct mixer *x, struct work *w, const struct quantize_opts *q,
               const char *sensitivity, uint64_t least, struct err *e);
void mixer_close(struct mixer *x);

/* Writes the gains of error feedback to a file, one line per group and type, so that they need not
 * be measured again. The file is valid only for the same sensitivities, importance, moments and
 * search. It does not record these; the caller must keep track of them. */
int mixer_write_gains(const struct mixer *x, const char *path, struct err *e);
/* Reads a file that mixer_write_gains wrote. */
int mixer_read_gains(struct mixer *x, const char *path, struct err *e);

struct mix_job { /* a solved mix; o is ready for quantize_run */
    struct quantize_opts o;
    struct mix_report m;
    char text[MIX_NOTES][40];
    struct quant_note note[MIX_NOTES];
    bool temporary; /* the plan is a temporary file */
    bool new_plan;  /* no file had the plan's name before */
};
/* Finds the best mix and prepares j for quantize_run. q->recipe is ignored; the plan is written to
 * q->plan_out or, if that is NULL, to OUT.plan.tsv. *j must not be moved afterwards. Call
 * mix_job_release even after an error. */
int mix_solve_job(struct mixer *x, const struct quantize_opts *q, const struct mix_ask *ask,
                  struct mix_job *j, struct err *e);
/* Like mix_solve_job for a budget alone. If no choice satisfies the floors (minimum types), ignores
 * them, for mixes that are compared with presets anyway. */
int mix_solve_size(struct mixer *x, const struct quantize_opts *q, uint64_t budget,
                   struct mix_job *j, struct err *e);
/* Reads the notes that a mix's file has, for another file with the same types. They are owned by
 * *g, which the caller closes. *n: their number. */
int mix_read_notes(const char *path, struct gguf **g, struct quant_note note[MIX_NOTES], int *n,
                   struct err *e);
/* Returns the bytes of a quantized file's tensors that are on the card; r: its report, with rows.
 */
uint64_t mixer_device_bytes(const struct mixer *x, const struct quantize_report *r);
/* Frees the job, and deletes its plan if that is temporary. */
void mix_job_release(struct mix_job *j);
/* Fills out[*n] with mixes within the job's limits, from the best quality to the highest speed;
 * none is dominated by another. */
int mix_front(struct mixer *x, const struct mix_ask *ask, const struct mix_job *j,
              struct mix_point out[MIX_FRONT], int *n, struct err *e);

/* Finds a search by name. NULL: fast. */
int mix_search(const char *name, enum search *out, struct err *e);

#endif
