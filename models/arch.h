// SPDX-License-Identifier: MIT
/* models/arch.h - an architecture is a table. Conversion, shape checks, quantization roles, weight
 * binding, graph building and `inspect` all read the same rows; adding one touches its own file and
 * a line in registry.c.
 *
 * Shapes are symbolic: each dimension names a slot of struct hparams, filled from config.json or
 * from GGUF keys, the derived ones by the architecture's derive(). */
#ifndef HONE_MODELS_ARCH_H
#define HONE_MODELS_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/gguf.h"

struct decoder_spec; /* models/spec.h */
struct graph;        /* models/graph.h */
struct hfdir;        /* containers/hfdir.h */
struct json;         /* base/json.h */

/* Numbers of a model. Integers live in h->d[], reals in h->f[]. Slots an architecture lacks are 0.
 */
enum hp_dim {
    HD_NONE,
    HD_ONE,
#define DIM(slot) HD_##slot,
#define LAYER(slot, field) HD_##slot,
#define SIZE(slot, formula) HD_##slot,
#include "models/hp_dim.def"
#undef DIM
#undef LAYER
#undef SIZE
    HD_COUNT
};
// clang-format off
enum hp_real {
    HF_RMS_EPS,
    HF_ROPE_BASE,      /* layer */
    HF_SOFTCAP,        /* of the head's logits */
    HF_ATTN_SOFTCAP,   /* of attention scores; 0: none */
    HF_ATTN_SCALE,     /* of attention scores; 0: 1 / sqrt(head_dim) */
    HF_VALUE_SCALE,    /* of attention's values; 0: 1 */
    HF_CLAMP_QKV,      /* queries, keys and values lie between -it and it; 0: anywhere */
    HF_EMBD_SCALE,     /* of embeddings, of what a block adds, of logits; 0: 1 */
    HF_RESIDUAL_SCALE,
    HF_LOGIT_SCALE,
    HF_ROPE_FACTOR,    /* positions are divided by it; 0: 1 */
    HF_ROPE_M,         /* factor of cos and sin; 0: 1 */
    HF_EXPERT_SCALE,   /* of the weights of chosen experts; 0: 1 */
    HF_YARN_FACTOR,    /* YaRN context extension; factor 0: none (models/yarn.c) */
    HF_YARN_ATTN,
    HF_YARN_FAST,
    HF_YARN_SLOW,
    HF_YARN_LOG,       /* mscale_all_dim of config.json; 0: none */
    HF_TEMPER,         /* how queries grow with their position (OP_TEMPER); 0: they do not */
    HF_LLAMA3_FACTOR,  /* Llama 3's divisors of rotary angles (models/llama3.c); known while converting only */
    HF_LLAMA3_LOW,
    HF_LLAMA3_HIGH,
    HF_COUNT
};
// clang-format on
/* Factors that conversion folds into weights, because GGUF has no key for them. */
enum hp_mul {
    MUL_NONE,
    MUL_EMBD,
    MUL_HEAD,
    MUL_Q,
    MUL_QV,
    MUL_K,
    MUL_ATTN_OUT,
    MUL_GATE,
    MUL_DOWN,
    MUL_SSM_OUT,
    MUL_Z,
    MUL_X,
    MUL_B,
    MUL_C,
    MUL_DT,
    MUL_COUNT
};
enum { HP_MAX_LAYERS = 512, HP_MAX_PAIRS = 256 };
enum mix_kind {
    MIX_ATTN,
    MIX_DELTA,
    MIX_MAMBA1,
    MIX_MAMBA2,
    MIX_BOTH, /* attention and Mamba 2 side by side, of the same input */
    MIX_CONV, /* short convolution */
    MIX_KDA,
    MIX_NONE, /* the block is a feed-forward only */
    MIX_COUNT
};
enum ffn_kind { FFN_DENSE, FFN_MOE, FFN_NONE };
/* What may differ between layers. layers.c fills it; whoever knows better changes it before
 * (layers_own) or after. */
struct layer_hp {
    enum mix_kind mixer;
    enum ffn_kind ffn;
#define DIM(slot)
#define LAYER(slot, field) int64_t field;
#define SIZE(slot, formula)
#include "models/hp_dim.def"
#undef DIM
#undef LAYER
#undef SIZE
    double rope_base;
    bool no_rope;
    bool index_shared;    /* takes the choice of keys of a layer before it */
    bool keys_are_values; /* no projection of values: they are the keys before norm and rope */
    float xielu[4]; /* alpha_p, alpha_n, beta, eps of the activation, as checkpoints have them */
    /* Limits of SwiGLU, behind silu, of experts and of others (OP_MOE `late`); 0: none. */
    float limit_exp, limit;
    float peaks; /* of the gate, what is not so many deviations above the mean is 0; -INFINITY: all
                    stays */
    int kv_of;   /* the layer whose keys and values are read: this one, or one before it */
};
struct hparams {
    int64_t d[HD_COUNT];
    double f[HF_COUNT];
    bool tied; /* no output.weight: token_embd is used */
    /* The numbers of YaRN that config.json gives, as bits of yarn.c; known while converting only.
     */
    unsigned yarn_given;
    /* The same of layers with a window, where rows with HPF_WINDOWED gave them; 0: as d[], f[]. */
    int64_t d_windowed[HD_COUNT];
    double f_windowed[HF_COUNT];
    bool own[HD_COUNT];                   /* layer[] got the numbers of this slot one by one */
    struct layer_hp layer[HP_MAX_LAYERS]; /* trunk, then MTP blocks */
    float far[HP_MAX_PAIRS],
        near[HP_MAX_PAIRS]; /* HD_LONG's divisors; known while converting only */
    float mul[MUL_COUNT];   /* known while converting only */
};

/* Where an hparam comes from, in both worlds. */
enum hp_flag {
    HPF_REQUIRED = 1,
    HPF_REAL = 2,
    HPF_NO_KEY = 4 /* config only, no GGUF key */,
    HPF_ZERO_OK = 8,
    HPF_KEEP_ZERO = 16 /* the key is written even when 0 */,
    HPF_WINDOWED = 32 /* of the layers with a window */,
    HPF_BOOL = 128 /* true or false in both worlds */,
    HPF_LAYERS = 64 /* one number, or one for each trunk layer, in both worlds */,
    HPF_UNUSUAL = 256 /* the key is written only if the number is not the default */
};
struct hp_row {
    const char *key; /* GGUF key behind "<arch>.": "block_count"; NULL with HPF_NO_KEY */
    const char *
        hf; /* config spellings "a|b" (dots descend: "rope_parameters.rope_theta"); NULL: derived */
    int slot; /* enum hp_dim, or enum hp_real with HPF_REAL */
    unsigned flags;
    double otherwise; /* default when absent and not required */
};

/* Value transforms of conversion, applied in f32 (outer-to-inner HF shape in, GGUF row-major out).
 */
enum xform {
    XF_COPY,
    XF_ADD1,         /* w + 1, times hparams.mul[group] where there is a group */
    XF_NEG_EXP,      /* -exp(w), by fp_exp in double, rounded once */
    XF_V_ROWS,       /* regroup V-head row groups of `group` rows: new[r*Hk + k] = old[k*R + r] */
    XF_V_ROWS_TAIL,  /* same, only rows after the first 2*Hk*Dk (q and k parts stay) */
    XF_V_COLS,       /* same on columns */
    XF_NEG_EXP_V,    /* -exp, then V_ROWS with groups of 1 */
    XF_SPLIT_FIRST,  /* first half of the rows of each matrix (fused gate_up: gate) */
    XF_SPLIT_SECOND, /* second half (up) */
    XF_ROPE_PAIRS,  /* first `rot` rows of each head of `group`: new[2i + b] = old[i + b * rot/2] */
    XF_ROPE_HALVES, /* where rope has sections: new[i + b * rot/2] = old[2i + b] */
    XF_QKV_Q, /* wqkv, for each key head its queries, the key, the value: queries, as XF_ROPE_PAIRS
               */
    XF_QKV_K, /* ... keys, as XF_ROPE_PAIRS */
    XF_QKV_V,
    XF_QKV_ALL,     /* ... all queries, all keys, all values, as they are; of biases too */
    XF_EVEN,        /* even rows of each matrix, stored transposed; of vectors, even values */
    XF_ODD,         /* odd ones */
    XF_TURN,        /* each matrix, stored transposed */
    XF_TURN_FIRST,  /* ... the first half of its rows */
    XF_TURN_SECOND, /* ... the second half */
    XF_QKVZ_QKV, /* rows of a matrix that has q, k, v and z of each key head together: all q, all k,
                    all v */
    XF_QKVZ_Z,   /* ... all z */
    XF_MULTIPLY, /* w * hparams.mul[group] */
    XF_MULTIPLY_IN, /* rows z, x, B, C, dt of Mamba's ssm_in times hparams.mul[MUL_Z ..] */
    XF_ROPE_FREQS, /* made, not read: 1 for the first HD_ROT/2 entries, 1e30 (no rotation) behind */
    XF_ROPE_LLAMA3, /* made, not read: llama3_divisor of each pair */
    XF_LATENT_K, /* of kv_b [heads * (nope + value)][rank]: per head, its first nope rows transposed
                  */
    XF_LATENT_V, /* ... its last `value` rows */
    XF_ROPE_FAR, /* made, not read: struct hparams.far */
    XF_ROPE_NEAR, /* ... .near */
    XF_COUNT
};
/* What a tensor is, for recipes, floors and reports. */
enum role {
    ROLE_OTHER /* never quantized: norms, conv, scalars, router */,
    ROLE_TOKEN_EMBD,
    ROLE_OUTPUT,
    ROLE_ATTN_Q,
    ROLE_ATTN_K,
    ROLE_ATTN_V,
    ROLE_ATTN_QKV,
    ROLE_ATTN_GATE,
    ROLE_ATTN_OUTPUT,
    ROLE_ATTN_LATENT, /* products into and out of low ranks */
    ROLE_SSM_ALPHA,
    ROLE_SSM_BETA,
    ROLE_SSM_IN,
    ROLE_SSM_OUT,
    ROLE_FFN_GATE,
    ROLE_FFN_UP,
    ROLE_FFN_DOWN,
    ROLE_EXP_GATE,
    ROLE_EXP_UP,
    ROLE_EXP_DOWN,
    ROLE_EXP_GATE_UP,
    ROLE_SHEXP_GATE,
    ROLE_SHEXP_UP,
    ROLE_SHEXP_DOWN,
    ROLE_MTP_PROJ,
    ROLE_PLE_EMBD,
    ROLE_PLE_GATE,
    ROLE_PLE_PROJ,
    ROLE_COUNT
};
const char *role_name(enum role r); /* "ffn_down_exps" */
bool role_is_routed(enum role r);   /* matrices of experts of which a token uses some */

/* Which blocks have the row. %d in names is the block index (MTP blocks follow the trunk). */
enum where {
    W_GLOBAL,
    W_ALL /* trunk and MTP blocks */,
    W_ATTN /* attention is the mixer or part of it, as in every MTP block */,
    W_VALUES /* attention with a projection of values */,
    W_WINDOW /* attention with a window */,
    W_DELTA /* a gated delta net is the mixer */,
    W_MAMBA /* ... Mamba 1 or 2 is, or is part of it */,
    W_CONV /* ... a short convolution */,
    W_KDA /* ... Kimi delta attention */,
    W_DENSE /* the feed-forward is dense */,
    W_MOE /* ... has routed experts */,
    W_MTP
};
enum {
    TR_OPTIONAL = 1,
    TR_F32 = 2 /* stored as F32 whatever the output type */,
    TR_TIED = 4 /* absent when tied */,
    TR_KV = 8 /* optional in layers that share another's keys and values */,
    TR_FOUND = 16 /* the slot of TR_IF is set where the file or folder has such a tensor */,
    TR_IF_SHIFT = 8
};
/* The row exists only in models whose slot is not 0. Several rows may have one name: at most one of
 * them holds for a block. */
#define TR_IF(slot) ((unsigned)(slot) << TR_IF_SHIFT)
struct tensor_row {
    const char *gguf; /* "blk.%d.ffn_down_exps.weight" */
    /* HF spellings "a|b" after removal of "language_model."; %d: layer number within the trunk, or
     * within mtp.layers for names that start with "mtp."; %e: expert number (then the sources are
     * stacked, and XF_SPLIT_* and XF_TURN* do not apply; "%e.a&b": the rows of a, then those of b).
     * NULL: never made by conversion. */
    const char *hf;
    uint8_t dim[4]; /* enum hp_dim, outer to inner, after the transform; HD_NONE ends */
    enum xform xf;
    uint8_t group; /* XF_V_*, XF_ROPE_PAIRS: enum hp_dim of rows (or columns) per head; HD_ONE for
                      scalars; XF_MULTIPLY, XF_ADD1: enum hp_mul */
    enum role role;
    enum where where;
    unsigned flags;
};

struct arch {
    const char *name;                 /* general.architecture: "qwen35moe" */
    const char *const *hf_classes;    /* NULL-terminated */
    const char *family;               /* as people say it: "Qwen 3.5" */
    const char *size_note;            /* for inspect: "hybrid gated-delta-net MoE" */
    const struct hp_row *hp;          /* ends with slot -1 */
    const struct tensor_row *tensors; /* ends with gguf NULL */
    const char *const
        *skip; /* HF name parts left out of a text conversion ("visual."),
                  NULL-terminated; with "="          in front they are no vision tower's */
    /* Fills derived dims and layer[] from the primary ones, however often; checks consistency. */
    int (*derive)(struct hparams *h, struct err *e);
    /* Reads what rows cannot say from config.json (layer_types, ...); may be NULL. */
    int (*from_hf)(struct hparams *h, const struct hfdir *dir, struct err *e);
    /* Extra GGUF keys that are not one number (rope sections); may be NULL. Called with hparams
     * complete. */
    void (*write_keys)(const struct hparams *h, struct gguf_w *w);
    int (*read_keys)(struct hparams *h, const struct gguf *g,
                     struct err *e); /* before derive; may be NULL */
    /* Where the model has a window: all layers but every so many-th have it, unless layer_types or
     * a pattern key says otherwise. 0: windows are the architecture's own business. */
    int window_period;
    bool window_keys; /* the pattern is written as a key; otherwise only that period can be held */
    const struct decoder_spec *decoder; /* what the forward graph computes (models/spec.h) */
    bool yarn_smooth;                   /* the ramp of YaRN is not rounded; no key says so */
    double yarn_log;  /* of HF_YARN_LOG in the key yarn_log_multiplier; 0: no such key */
    bool mxfp4;       /* published in MXFP4, which conversion keeps */
    bool ple_rows;    /* per-layer embeddings have rows of zeros up to the vocabulary */
    bool layer_sizes; /* per_layer_config of config.json is read */
    bool drafts;      /* files may have an MTP block, which drafts a token more (block_mtp.c) */
    /* Another architecture that models of the same class have, or this one; may be NULL. */
    const struct arch *(*which)(const struct hfdir *dir);
    /* Syntaxes of tool calls that templates of published models ask for (chat/tool_formats.c),
     * separated by blanks; NULL: none is known. */
    const char *tools;
};

/* registry.c */
const struct arch *arch_find(const char *gguf_name); /* NULL: unknown */
/* Returns the architecture of a class, whatever the case of its letters; of a bare model, such as
 * LlamaModel or Gemma3TextModel, that of the class with a head. NULL: unknown. */
const struct arch *arch_find_hf(const char *hf_class);
/* Returns the architecture whose class a model_type of transformers names; NULL: unknown. */
const struct arch *arch_find_type(const char *model_type);
/* Returns the architecture of a folder: where several have the class hf_class, the one that its
 * config.json says. NULL: unknown. */
const struct arch *arch_find_dir(const char *hf_class, struct hfdir *dir);
const struct arch *arch_at(int i); /* NULL past the end */
/* What holds of every GGUF whose bytes are whole, whether hone can compute with it or not. */
#define ARCH_STILL                                                                                 \
    "it can be inspected, verified, quantized, split, merged, compared and published all the same"
/* Fails with ERR_DATA: the architecture `name` of the GGUF file at `path` is not known. */
int arch_refuse(const char *path, const char *name, struct err *e);
/* Fails with ERR_DATA: the model class `cls` of the config.json at `path` is not known. */
int arch_refuse_class(const char *path, const char *cls, struct err *e);
/* Builds the forward graph of a model, or of its MTP block, with all its facts. The graph must have
 * been initialised; it is released by the caller, also after an error. ERR_DATA when the model
 * asks for what is not computed yet, or has no MTP block. */
int arch_build(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);
int arch_build_draft(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);

/* Reads all hp rows of an architecture from GGUF keys and derives the rest; checks ranges (>0
 * unless HPF_ZERO_OK, <= 2^31, layers <= HP_MAX_LAYERS). */
int hparams_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e);
/* Reads all hp rows of an architecture from a folder's config.json and derives the rest. HD_MTP is
 * what the config says: the caller corrects it by the tensors that are there, and then calls
 * a->derive again. */
int hparams_from_hf(struct hparams *h, const struct arch *a, struct hfdir *dir, struct err *e);

/* Adds to the hyperparameters of a folder what config.json says by other names, and the defaults of
 * the model's class (config.c). Done once; arch_find_dir and hparams_from_hf do it first. */
void config_complete(struct hfdir *dir);
/* Logs, in one line, which defaults were taken for keys that config.json leaves out. */
void config_log_defaults(const struct hfdir *dir);
/* Returns the rope parameters of a kind of layers, "full_attention" or "sliding_attention",
 * complete and wherever config.json has them; of models that do not tell the kinds apart, those of
 * all. NULL: there are none. */
const struct json *hf_rope(const struct hfdir *dir, const char *kind);
#define ROPE_FULL "full_attention"
#define ROPE_SLIDING "sliding_attention"
/* Sets the slots of rows with TR_FOUND: 1 where `has` knows the row in some block, else 0. */
void hparams_found(struct hparams *h, const struct arch *a,
                   bool (*has)(const void *ud, const struct tensor_row *row, int64_t layer),
                   const void *ud);
/* Writes every GGUF key of the rows, with "<arch>." in front of it, and those of a->write_keys. */
void hparams_write(const struct hparams *h, const struct arch *a, struct gguf_w *w);
/* Sets d[slot] to a * b, with the overflow check that sizes from files need. */
int hparams_mul(struct hparams *h, int slot, int64_t a, int64_t b, struct err *e);
/* Returns the number of a block (-1: of none in particular), or of the model where all have one. */
int64_t hp_dim(const struct hparams *h, int block, int slot);

/* What differs between layers is in layers.c. derive() of an architecture calls layers_fill once
 * all numbers of d[] and f[] are known; then it may change layer[] further. */
/* Returns the place of the number of layer i for a slot marked "layer". The caller sets it for
 * every trunk layer, and layers_fill leaves it alone then. */
int64_t *layers_own(struct hparams *h, int slot, int64_t i);
int layers_fill(struct hparams *h, struct err *e);
/* Fills layer[] as layers_fill does, with `other` as the mixer of layers that have 0 key/value
 * heads. */
int layers_fill_hybrid(struct hparams *h, enum mix_kind other, struct err *e);
/* Gives key/value heads to layers whose entry of `types`, the layer_types of config.json, is
 * full_attention or attention, and 0 to those where it is `other` or linear_attention. */
int layers_mixers_hf(struct hparams *h, const struct json *types, const char *other, struct err *e);
/* Sets HD_FULL_INTERVAL to the interval at which full_attention comes among linear_attention in
 * `types`; other sequences cannot be said in GGUF. No array: it stays. */
int layers_interval_hf(struct hparams *h, const struct json *types, struct err *e);
/* Tells whether any two trunk layers differ in a slot. */
bool layers_differ(const struct hparams *h, int slot);
enum { WINDOW_EVERYWHERE = 1 << 30 }; /* as struct arch.window_period */
/* Sets the windows of the layers: those of `types`, the layer_types of config.json, which must be
 * sliding_attention or full_attention; or, where there are none, a window for all but every
 * period-th layer (0: for no layer). */
int layers_windows_hf(struct hparams *h, const struct json *types, int64_t period, struct err *e);
/* Refuses windows that do not follow the period. */
int layers_windows_check(const struct hparams *h, int64_t period, struct err *e);
/* Sets the windows of the layers from the key "<arch>.attention.sliding_window_pattern", which is
 * an array, or a period. `period` is that of files without the key; < 0: such files are refused. */
int layers_windows_gguf(struct hparams *h, const char *arch, const struct gguf *g, int64_t period,
                        struct err *e);
/* Writes that array. */
void layers_windows_write(const struct hparams *h, const char *arch, struct gguf_w *w);
/* Returns the period of full-attention layers: `usual` if it fits, else the smallest; 0: none. */
int64_t layers_windows_period(const struct hparams *h, int64_t usual);
/* Writes that period under the same key if it is not the usual one. */
void layers_windows_write_period(const struct hparams *h, const char *arch, int64_t usual,
                                 struct gguf_w *w);

/* Reads the context extension (YaRN) of any architecture from config.json (yarn.c). It,
 * yarn_from_gguf and yarn_write are called by the functions above. */
int yarn_from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir, struct err *e);
/* Reads rope_type "llama3" of config.json, if that is what it asks for: fills HF_LLAMA3_*, and sets
 * HD_FREQS to 1 so that derive() knows of the tensor. ERR_DATA when its numbers make no sense. */
int llama3_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Returns the divisor of the angle of pair i of head_dim/2 in a model whose config asks for it. */
double llama3_divisor(const struct hparams *h, int64_t i);
int yarn_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e);
void yarn_write(const struct hparams *h, const struct arch *a, struct gguf_w *w);

/* One expected tensor: the instance of a row for a block. */
struct tensor_inst {
    const struct tensor_row *row;
    int block; /* -1: global */
    char name[64];
    int n_dims;
    int64_t ne[4]; /* GGUF order */
    bool optional;
};
/* Lists every tensor that a model with these hparams has, in layer order: token_embd, blk.0.*, ...,
 * output_norm, output. Optional rows are included, and a flag tells them. The caller frees *out,
 * which has *n entries, with free(). */
int arch_tensors(const struct arch *a, const struct hparams *h, struct tensor_inst **out,
                 int64_t *n, struct err *e);
/* Puts the shape of a row in a block (-1: global) into ne[], in GGUF order, and returns the number
 * of dimensions. Missing ones are 1. */
int arch_shape(const struct tensor_row *row, const struct hparams *h, int block, int64_t ne[4]);
/* Writes `pat` (len bytes) with %d and %e replaced; false when it does not fit. */
bool arch_name(char *out, size_t cap, const char *pat, size_t len, int64_t d, int64_t e);
/* Returns the row that a GGUF tensor name is an instance of, and its block in *block (-1: global);
 * NULL: no row. */
const struct tensor_row *arch_row(const struct arch *a, const char *gguf_name, int *block);
/* Returns the row as arch_row does, but only among the rows that a model with these hparams has;
 * NULL: none. */
const struct tensor_row *arch_row_of(const struct arch *a, const struct hparams *h,
                                     const char *gguf_name, int *block);

#endif
