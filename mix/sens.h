// SPDX-License-Identifier: MIT
/* mix/sens.h - what each type costs each part of a model: groups of tensors that share a type,
 * the error of the real encoder on sampled rows (stage 0), measured divergences (stages 2 and 3,
 * put in by the caller), and the table of predicted losses the solver works on. docs/design/mix.md,
 * docs/formats/sensitivity.md. Executes no model. */
#ifndef HONE_MIX_SENS_H
#define HONE_MIX_SENS_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/gguf.h"
#include "quantize/hessian_file.h"
#include "quantize/imat_file.h"
#include "base/results_cache.h"
#include "base/pool.h"
#include "quantize/enc/enc.h"
#include "mix/mix.h"
#include "quantize/qdev.h"
#include "quantize/recipe.h"

enum { SENS_MAX_ITEMS = 8, SENS_MAX_PROBES = 16, SENS_MAX_STEPS = 64 };
struct sens_probe { /* measured with the group alone in this type and the rest unquantized */
    enum qtype type;
    double kld, kld_stderr;
};
struct sens_step { /* the group's type changed within a mix: the change of the mix's divergence */
    uint64_t budget;
    enum qtype from, to;
    double diff, diff_stderr;
};
struct sens_group {
    char name[64]; /* of its first tensor */
    enum role role;
    int block;                    /* -1: global */
    int64_t item[SENS_MAX_ITEMS]; /* tensor indices of the file */
    int n_items;
    int64_t n_weights;
    bool can[QT_COUNT];
    uint64_t bytes[QT_COUNT]; /* in the file, padded */
    double read;              /* share of its bytes that one decoded token reads */
    bool host;                /* stays in main memory when the model is on a GPU */
    double err[QT_COUNT];     /* relative weighted squared error; < 0: not known */
    double gain[QT_COUNT];    /* of it, what error feedback leaves; 1 without */
    double slope;             /* divergence over error, by gradients; 0: not known */
    struct sens_probe probe[SENS_MAX_PROBES];
    int n_probes;
    struct sens_step step[SENS_MAX_STEPS];
    int n_steps;
};
struct sens {
    struct sens_group *group;
    int n_groups;
    struct recipe_model model;
    int64_t n_weights;    /* of all groups */
    uint64_t kept_bytes;  /* of tensors in no group, padded */
    double kept_read;     /* bytes of them that one decoded token reads */
    char header_hash[33]; /* XXH3-128 of the file before its tensor data */
    uint64_t model_bytes;
    char imatrix_hash[33]; /* of the file's content; "" none */
    char probe_hash[33];   /* of the probe tokens; "" none */
    int64_t ctx, n_chunks;
    enum search search;
    bool low; /* IQ1_S and IQ1_M are candidates */
};
/* Makes groups and their candidate types from a file's tensors. One group are gate and up of a
 * layer's experts (or of its dense block), the shared expert's three, ssm_alpha and ssm_beta. */
int sens_init(struct sens *s, const struct gguf *g, struct err *e);
void sens_release(struct sens *s);
/* Announces a budget in bytes before sens_errors is called; 0: none. Below 2.6 bits per weight
 * IQ1 types are candidates too, which doubles the time of sens_errors. */
void sens_set_low(struct sens *s, uint64_t budget);

struct sens_source { /* whose weights are encoded, and by what */
    const struct gguf *g;
    const struct imat *imat; /* NULL: none */
    struct pool *pool;
    struct qdev *dev; /* NULL: the CPU alone; the numbers are the same */
    const struct results_cache_of
        *keep; /* errors as they come; says model and importance. NULL: none */
};
/* Fills group.err of every candidate type: rows sampled evenly, every expert, importance as the
 * quantizer has it, experts weighted by their tokens. imat NULL: columns count the same. Types
 * that quantization refuses without importance are taken from groups that have none. */
int sens_errors(struct sens *s, const struct sens_source *from, struct err *e);
/* Broadcasts what rank 0 knows of the groups to the other ranks (base/ranks.h), which have shared
 * out the groups in sens_errors. One rank: nothing is done. */
void sens_tell(struct sens *s);
/* Fills group.gain: probes and errors stay those of the plain encoders, predicted losses are
 * multiplied. A matter of seconds per type and tensor. */
struct sens_feedback {
    const struct gram *gram;
    const struct imat *imat; /* NULL: none */
    enum search search;
    unsigned without; /* FEEDBACK_... */
    struct pool *pool;
    const struct results_cache_of *keep; /* as in sens_source, and the moments */
};
int sens_gains(struct sens *s, const struct gguf *g, const struct sens_feedback *f, struct err *e);
/* Sets *out to the importance that quantization would use for a tensor; the caller frees it with
 * mem_free. NULL when there is none. */
int sens_importance(const struct imat *imat, const struct gguf_tensor *t, float **out,
                    struct err *e);
/* Encodes a whole tensor in a type; the caller frees *out with mem_free. */
int sens_encode(const struct sens_source *from, int64_t index, enum qtype type, enum search search,
                void **out, struct err *e);

/* Predicts the divergence that the group costs in a type: as probed; else by gradients, corrected
 * as probes of its role around it say; else between probes of its role, else as its role costs.
 * Steps are left out. */
double sens_loss(const struct sens *s, int group, enum qtype type);
/* How far predictions can be trusted, as relative standard errors. Between probes: every probed
 * group is predicted from the others of its role, as if it had no probe, and compared. */
struct sens_accuracy {
    int n_probed;    /* groups with probes of their own */
    double probed;   /* sampling error of a probe */
    double between;  /* of a group without probes; 1 while no role has two probed layers */
    double mix;      /* predicted divergence of the whole model at about 4.25 bits */
    double complete; /* the same if every group were probed */
};
void sens_accuracy(const struct sens *s, struct sens_accuracy *a);
/* Returns the factor on a group's losses that follows from the steps measured around mixes of
 * about this budget. A group without steps of its own gets that of the layers of its role around
 * it. */
double sens_factor(const struct sens *s, int group, uint64_t budget);
/* Returns false when a type is below what the group may have at a budget (docs/design/mix.md,
 * "Floors"). */
bool sens_allowed(const struct sens *s, int group, enum qtype type, uint64_t budget);

struct sens_ask {          /* the limits of a mix, and what it shall be good at */
    uint64_t tensor_bytes; /* of all tensors, padded; UINT64_MAX: any */
    uint64_t device_bytes; /* of those on a GPU; 0: any */
    uint64_t budget;       /* decides floors, and which steps count */
    double speed;          /* weight of decode time: 0 none; see sens_solve */
    bool floors;
    bool avoid[QT_COUNT]; /* types not to use where there is another */
};
struct sens_mix {
    enum qtype *type;      /* [n_groups] */
    uint64_t bytes;        /* of all tensors, padded */
    uint64_t device_bytes; /* of those on a GPU */
    double loss;           /* predicted divergence */
    double decode_bytes;   /* of weights, read per decoded token */
    double price;          /* what a byte read per token was taken to cost, as divergence */
    double gap;            /* at most so much above the optimum of loss + price * decode_bytes */
    bool exact;
};
/* Minimises loss + price * decode_bytes. price = speed * (loss / decode_bytes of the best mix at
 * price 0): with speed 1 a hundredth of the time is worth a hundredth of the divergence, whatever
 * the bandwidth. Exact with both limits: the choices of the few groups in main memory are tried one
 * by one, what is left has one limit. */
int sens_solve(const struct sens *s, const struct sens_ask *ask, struct sens_mix *m, struct err *e);
void sens_mix_release(struct sens_mix *m);
/* Returns the candidate type of the group that is next to t in bytes, smaller when dir < 0; t
 * itself when there is none. */
enum qtype sens_next(const struct sens *s, int group, enum qtype t, int dir);

/* Writes the file of docs/formats/sensitivity.md. sens_read takes errors, probes and steps for a
 * structure that sens_init made of the same model; ERR_DATA when the file is of another one. */
int sens_write(const struct sens *s, const struct gguf *g, const char *path, bool overwrite,
               struct err *e);
int sens_read(struct sens *s, const char *path, struct err *e);

#endif
