// SPDX-License-Identifier: MIT
/* mix/sens.h - cost of each type for each part of a model: groups of tensors that share a type, the
 * error of the actual encoder on sampled rows (stage 0), measured divergences (stages 2 and 3,
 * supplied by the caller), and the table of predicted losses for the solver. Runs no model.
 * See docs/design/mix.md and docs/formats/sensitivity.md. */
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

enum { SENS_MAX_ITEMS = 8, SENS_MAX_PROBES = 16, SENS_MAX_STEPS = 64, SENS_MAX_JOINT = 1024 };
enum { SENS_EVERY = -2 }; /* block of a joint probe that covers all blocks and the globals */
struct sens_joint {       /* divergence with several groups quantized, each in its joint_type */
    enum role role;       /* ROLE_OTHER: all roles */
    int block;
    double kld, kld_stderr;
    int64_t n_windows; /* 0: unknown */
};
struct sens_probe { /* divergence if only this group is quantized */
    enum qtype type;
    double kld, kld_stderr;
    int64_t n_windows; /* 0: unknown */
};
struct sens_step { /* change of a mix's divergence if the group's type changes */
    uint64_t budget;
    enum qtype from, to;
    double diff, diff_stderr;
};
#define SENS_NOT_JOINT QT_F32
struct sens_group {
    char name[64]; /* name of its first tensor */
    enum role role;
    int block;                    /* -1: global */
    int64_t item[SENS_MAX_ITEMS]; /* tensor indices of the file */
    int n_items;
    int64_t n_weights;
    bool can[QT_COUNT];
    uint64_t bytes[QT_COUNT]; /* padded size in the file */
    double read;              /* share of its bytes that is read per decoded token */
    bool host;                /* stays in main memory if the model is on a GPU */
    double err[QT_COUNT];     /* relative weighted squared error; < 0: unknown */
    double gain[QT_COUNT];    /* factor on err due to error feedback; 1: no feedback */
    double slope;             /* ratio of divergence to error, from gradients; 0: unknown */
    enum qtype joint_type;    /* type in joint probes; SENS_NOT_JOINT: not part of any */
    double fit, fit_sd; /* ratio of divergence to error, fitted to joint probes (mix/joint.h), and
                           the standard deviation of its log; 0: not fitted */
    struct sens_probe probe[SENS_MAX_PROBES];
    int n_probes;
    struct sens_step step[SENS_MAX_STEPS];
    int n_steps;
};
struct sens {
    struct sens_group *group;
    int n_groups;
    struct recipe_model model;
    int64_t n_weights;    /* weights of all groups */
    uint64_t kept_bytes;  /* padded size of the tensors that are in no group */
    double kept_read;     /* bytes of these tensors that are read per decoded token */
    char header_hash[33]; /* XXH3-128 of the file up to its tensor data */
    uint64_t model_bytes;
    char imatrix_hash[33]; /* hash of the file's content; "": none */
    char probe_hash[33];   /* hash of the probe tokens; "": none */
    int64_t ctx, n_chunks;
    enum search search;
    bool low; /* IQ1_S and IQ1_M are candidates */
    struct sens_joint joint[SENS_MAX_JOINT];
    int n_joint;
};
/* Builds the groups and their candidate types from a file's tensors. Grouped together are: gate and
 * up of a layer's experts (or of its dense block), the three tensors of the shared expert, and
 * ssm_alpha with ssm_beta. */
int sens_init(struct sens *s, const struct gguf *g, struct err *e);
void sens_release(struct sens *s);
/* Returns the bytes that a tensor of `bytes` bytes takes in a file. */
uint64_t sens_padded(uint64_t bytes);
/* Returns the type of a group with a weight that is too large for all candidates: the smallest
 * float type that holds any weight. */
enum qtype sens_spare(void);
/* Marks the types that a mix may give a tensor. */
void sens_candidates(const struct recipe_item *it, bool can[QT_COUNT]);
/* Announces a budget in bytes (0: none); call before sens_errors. If it is below 2.6 bits per
 * weight, IQ1 types become candidates, which doubles the time of sens_errors. */
void sens_set_low(struct sens *s, uint64_t budget);

struct sens_source { /* weights to encode, and how */
    const struct gguf *g;
    const struct imat *imat; /* NULL: none */
    struct pool *pool;
    struct qdev *dev; /* NULL: CPU only; the results are the same */
    const struct results_cache_of
        *keep; /* cache of errors, with model and importance as key; NULL: none */
};
/* Fills group.err for every candidate type. Rows are sampled evenly from every expert, with the
 * same importance as in the quantizer; experts are weighted by their tokens. imat NULL: all columns
 * count the same. Types that require importance are removed from groups without it, and types that
 * cannot hold the largest weight from all groups, whose tensors are read whole for that. */
int sens_errors(struct sens *s, const struct sens_source *from, struct err *e);
/* Broadcasts rank 0's groups to the other ranks (base/ranks.h), after the ranks have shared the
 * work of sens_errors. No effect with one rank. */
void sens_tell(struct sens *s);
/* Fills group.gain. Probes and errors remain those of the plain encoders; predicted losses are
 * multiplied by the gain. Takes seconds per type and tensor. */
struct sens_feedback {
    const struct gram *gram;
    const struct imat *imat; /* NULL: none */
    enum search search;
    unsigned without; /* FEEDBACK_... */
    struct pool *pool;
    const struct results_cache_of
        *keep; /* as in sens_source; the moments are also part of the key */
};
/* Estimates the gain of error feedback for all groups. */
int sens_gains(struct sens *s, const struct gguf *g, const struct sens_feedback *f, struct err *e);
/* Sets *out to the importance that quantization would use for a tensor, or to NULL if the tensor
 * has none. The caller frees it with mem_free. */
int sens_importance(const struct imat *imat, const struct gguf_tensor *t, float **out,
                    struct err *e);
/* Encodes a whole tensor in a type; the caller frees *out with mem_free. */
int sens_encode(const struct sens_source *from, int64_t index, enum qtype type, enum search search,
                void **out, struct err *e);

/* Predicts the divergence that the group costs in a type. If there are joint probes, uses the fit
 * to all probes. Otherwise uses the first of these that exists: the group's own probes; gradients,
 * corrected by nearby probes of its role; probes of its role in other layers; the prior of its
 * role. Steps are not applied. */
double sens_loss(const struct sens *s, int group, enum qtype type);
/* Returns the prior for a group's ratio of divergence to error, by role and depth. */
double sens_prior(const struct sens *s, const struct sens_group *g);
/* Sets *out to log(divergence / error) at an error, interpolated between the group's own probes.
 * Returns false if the group has none. */
bool sens_own_ratio(const struct sens_group *g, double err, double *out);
/* Reliability of predictions, as relative standard errors. `between`: every probed group is
 * predicted from the other groups of its role as if it had no probe, and compared with its
 * probe. */
struct sens_accuracy {
    int n_probed;    /* groups that have probes */
    double probed;   /* sampling error of a probe */
    double between;  /* error for a group without probes; 1 until two layers of a role have been
                        probed; with joint probes, that of the fit */
    double mix;      /* for the predicted divergence of the whole model at about 4.25 bits */
    double complete; /* the same if every group were probed */
};
/* Computes how accurate predicted losses are, as relative errors. */
void sens_accuracy(const struct sens *s, struct sens_accuracy *a);
/* Returns a factor on the group's losses, from steps measured around mixes of about this budget. A
 * group without steps gets the factor of nearby layers with the same role. */
double sens_factor(const struct sens *s, int group, uint64_t budget);
/* Returns false if the type is below the group's floor at this budget (docs/design/mix.md,
 * "Floors"). */
bool sens_allowed(const struct sens *s, int group, enum qtype type, uint64_t budget);

struct sens_ask {          /* limits and objective for a mix */
    uint64_t tensor_bytes; /* limit for all tensors, padded; UINT64_MAX: none */
    uint64_t device_bytes; /* limit for the tensors on the GPU; 0: none */
    uint64_t budget;       /* determines the floors and which steps apply */
    double speed;          /* weight of decode time; 0: none; see sens_solve */
    bool floors;
    bool avoid[QT_COUNT]; /* types to use only for groups that have no other type */
};
struct sens_mix {
    enum qtype *type;      /* [n_groups] */
    uint64_t bytes;        /* padded size of all tensors */
    uint64_t device_bytes; /* size of tensors on the GPU */
    double loss;           /* predicted divergence */
    double decode_bytes;   /* weight bytes read per decoded token */
    double price;          /* price used, as divergence per byte read per token */
    double gap;            /* upper bound on the distance from the optimum of the objective */
    bool exact;
};
/* Minimizes loss + price * decode_bytes, with price = speed * (loss / decode_bytes of the best mix
 * at price 0): at speed 1, 1 % of the time is worth 1 % of the divergence, whatever the bandwidth.
 * Exact even with both limits: the choices for the few groups in main memory are enumerated, which
 * leaves one limit. */
int sens_solve(const struct sens *s, const struct sens_ask *ask, struct sens_mix *m, struct err *e);
void sens_mix_release(struct sens_mix *m);
/* Returns the candidate type of the group that is next in size to t, smaller if dir < 0; t itself
 * if there is no such type. */
enum qtype sens_next(const struct sens *s, int group, enum qtype t, int dir);

/* Write or read the file of docs/formats/sensitivity.md. sens_read adds errors, probes and steps to
 * a structure that sens_init has built from the same model; ERR_DATA if the file is for another
 * model. */
int sens_write(const struct sens *s, const struct gguf *g, const char *path, bool overwrite,
               struct err *e);
/* Reads a sensitivity file into the groups of the model. */
int sens_read(struct sens *s, const char *path, struct err *e);

#endif
