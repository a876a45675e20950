// SPDX-License-Identifier: MIT
/* mix/mixer.h - from a budget to a file: the types that lose least within it. */
#ifndef HONE_MIX_MIXER_H
#define HONE_MIX_MIXER_H

#include "work/work.h"
#include "containers/gguf.h"
#include "models/sizes.h"
#include "quantize/quantize.h"
#include "mix/sens.h"

struct mix_ask {
    uint64_t budget;        /* bytes of the file; 0: none */
    uint64_t vram, reserve; /* bytes of a card, and of them to keep free; vram 0: none */
    int64_t ctx, slots;     /* what the card must hold beside the weights */
    struct kv_rows kv;      /* rows of keys and values */
    const char *kv_type;    /* as it was asked for */
    double speed;           /* weight of decode time: mix/sens.h */
    bool floors;
    bool avoid[QT_COUNT];
};
struct mix_report {
    uint64_t budget, file_bytes, tensor_bytes;
    uint64_t vram_bytes; /* weights, KV, state and working memory on the card; 0: not asked */
    double loss, gap, bpw;
    double decode_bytes; /* of weights, per token */
    double price;        /* divergence per byte and token */
    bool exact, probed;  /* solved exactly; some probes were used */
    char *plan;          /* path of the plan, owned */
};
struct mix_point { /* of a front */
    double speed, loss, decode_bytes;
};
enum { MIX_FRONT = 16, MIX_NOTES = 6 };
struct mixer { /* a model, and what its types cost */
    struct work *w;
    struct gguf *g;
    struct sens s;
    char source[33]; /* hash of the sensitivity file; "none" */
    bool probed;
};
/* Opens a model and what its types cost by the file `sensitivity`. `least` is the bytes of the
 * smallest file that will be asked for (sens_set_low). mixer_close is called also after an error.
 * sensitivity NULL: errors are measured here, with q's importance and search, and weighted by
 * role. */
int mixer_open(struct mixer *x, struct work *w, const struct quantize_opts *q,
               const char *sensitivity, uint64_t least, struct err *e);
void mixer_close(struct mixer *x);

/* Writes to a file what load_gains found, a line per group and type, so that it need not be found
 * again. The file belongs to the same sensitivities, importance, moments and search; it does not
 * name them, so its caller has to know. */
int mixer_write_gains(const struct mixer *x, const char *path, struct err *e);
/* Takes again what mixer_write_gains wrote. */
int mixer_read_gains(struct mixer *x, const char *path, struct err *e);

struct mix_job { /* a mix that can be quantized: o is ready */
    struct quantize_opts o;
    struct mix_report m;
    char text[MIX_NOTES][40];
    struct quant_note note[MIX_NOTES];
    bool temporary; /* its plan */
};
/* Finds the best mix and makes j ready to be quantized. q->recipe is ignored; the plan goes to
 * q->plan_out, else to OUT.plan.tsv. *j may not be moved afterwards; mix_job_release is called also
 * after an error. */
int mix_solve_job(struct mixer *x, const struct quantize_opts *q, const struct mix_ask *ask,
                  struct mix_job *j, struct err *e);
void mix_job_release(struct mix_job *j);
/* Fills out[*n] with mixes within the job's limits, from quality to speed, none worse than another
 * in both. */
int mix_front(struct mixer *x, const struct mix_ask *ask, const struct mix_job *j,
              struct mix_point out[MIX_FRONT], int *n, struct err *e);

/* Finds a search by its name. name NULL: fast. */
int mix_search(const char *name, enum search *out, struct err *e);

#endif
