// SPDX-License-Identifier: MIT
/* models/arch.h - architecture descriptions as tables. Conversion, shape checks, quantization
 * roles, weight binding, graph building and `inspect` all read the same rows; a new architecture
 * needs only its own file and a line in registry.c.
 *
 * Shapes are symbolic: each dimension names a slot of struct hparams. Slots are filled from
 * config.json or from GGUF keys, derived ones by the architecture's derive(). */
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

/* Hyperparameters of a model: integers in h->d[], reals in h->f[]. Slots that an architecture does
 * not use are 0. */
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
    HF_ROPE_BASE,      /* of a layer */
    HF_SOFTCAP,        /* soft cap of the head's logits */
    HF_ATTN_SOFTCAP,   /* soft cap of attention scores; 0: none */
    HF_ATTN_SCALE,     /* scale of attention scores; 0: 1 / sqrt(head_dim) */
    HF_VALUE_SCALE,    /* scale of attention values; 0: 1 */
    HF_CLAMP_QKV,      /* bound on the magnitude of queries, keys and values; 0: none */
    HF_EMBD_SCALE,     /* scale of the embeddings, of what blocks add, of the logits; 0: 1 */
    HF_RESIDUAL_SCALE,
    HF_LOGIT_SCALE,
    HF_ROPE_FACTOR,    /* divisor of positions; 0: 1 */
    HF_ROPE_M,         /* factor of cos and sin; 0: 1 */
    HF_EXPERT_SCALE,   /* scale of the weights of selected experts; 0: 1 */
    HF_YARN_FACTOR,    /* YaRN context extension; factor 0: none (models/yarn.c) */
    HF_YARN_ATTN,
    HF_YARN_FAST,
    HF_YARN_SLOW,
    HF_YARN_LOG,       /* mscale_all_dim of config.json; 0: none */
    HF_DECAY_BOUND,    /* smallest logarithm of a decay in Kimi delta attention; 0: none */
    HF_HC_EPS,         /* added to the weights of hyper-connections */
    HF_COMPRESS_BASE,  /* RoPE base of compressed keys */
    HF_SWIGLU_LIMIT,   /* limit of SwiGLU in all layers; 0: none */
    HF_SITU_BETA,      /* bounds of the SiTU activation */
    HF_SITU_LINEAR,
    HF_TEMPER,         /* scaling of queries by their position (OP_TEMPER); 0: none */
    HF_LLAMA3_FACTOR,  /* Llama 3's RoPE scaling (models/llama3.c); set only during conversion */
    HF_LLAMA3_LOW,
    HF_LLAMA3_HIGH,
    HF_COUNT
};
// clang-format on
/* Factors that conversion folds into weights, because there is no GGUF key for them. */
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
enum {
    HP_MAX_LAYERS = 512,
    HP_MAX_PAIRS = 256,
    HP_MAX_NGRAM = 8,
    HP_MAX_HASHES = 64,
    HP_MAX_TARGETS = 16
};
enum mix_kind {
    MIX_ATTN,
    MIX_DELTA,
    MIX_MAMBA1,
    MIX_MAMBA2,
    MIX_BOTH, /* parallel attention and Mamba 2 with the same input */
    MIX_CONV, /* short convolution */
    MIX_KDA,
    MIX_NONE, /* the block is only a feed-forward */
    MIX_COUNT
};
enum ffn_kind { FFN_DENSE, FFN_MOE, FFN_NONE };
/* Hyperparameters that may differ between layers. layers.c fills them; an architecture may override
 * them before that (layers_own) or afterwards. */
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
    bool index_shared;    /* reuses the selected keys of a preceding layer */
    bool keys_are_values; /* no value projection: values are the keys before norm and RoPE */
    float xielu[4];       /* alpha_p, alpha_n, beta, eps of the activation, as in checkpoints */
    /* Limits of SwiGLU, applied after silu (OP_MOE `late`), for routed experts and for other
     * feed-forwards; 0: none. */
    float limit_exp, limit;
    /* Gate values less than this many standard deviations above the mean become 0; -INFINITY: none
     * do. */
    float peaks;
    int kv_of; /* layer whose keys and values this one reads: itself, or an earlier one */
};
struct hparams {
    int64_t d[HD_COUNT];
    double f[HF_COUNT];
    bool tied;       /* no output.weight: token_embd is the head */
    bool not_causal; /* tokens also attend to later ones, as in embedding models */
    /* YaRN parameters present in config.json, as bits defined in yarn.c; set only during
     * conversion. */
    unsigned yarn_given;
    /* Values for sliding-window layers, from rows with HPF_WINDOWED; 0: as in d[] and f[]. */
    int64_t d_windowed[HD_COUNT];
    double f_windowed[HF_COUNT];
    bool own[HD_COUNT];                   /* layer[] has individual values for this slot */
    struct layer_hp layer[HP_MAX_LAYERS]; /* trunk, then MTP blocks */
    float far[HP_MAX_PAIRS],
        near[HP_MAX_PAIRS]; /* longrope's divisors (HD_LONG); set only during conversion */
    float mul[MUL_COUNT];   /* set only during conversion */
    /* Drafts: layers of the model, from 0, whose inputs the draft reads; the number of layers means
     * the output of the last one. */
    int32_t target[HP_MAX_TARGETS];
    /* Hash of n-grams: factors per position; first row and number of rows per head. Set only during
     * conversion. */
    uint64_t hash_factor[HP_MAX_NGRAM], hash_first[HP_MAX_HASHES], hash_rows[HP_MAX_HASHES];
};

/* How a hyperparameter is stored in GGUF and in config.json. */
enum hp_flag {
    HPF_REQUIRED = 1,
    HPF_REAL = 2,
    HPF_NO_KEY = 4 /* config only, no GGUF key */,
    HPF_ZERO_OK = 8,
    HPF_KEEP_ZERO = 16 /* write the key even if 0 */,
    HPF_WINDOWED = 32 /* for sliding-window layers */,
    HPF_BOOL = 128 /* a boolean in GGUF and config.json */,
    HPF_LAYERS = 64 /* one number or one per trunk layer, in GGUF and config.json */,
    HPF_UNUSUAL = 256 /* write the key only if the number is not the default */
};
struct hp_row {
    const char *key; /* GGUF key after "<arch>.": "block_count"; NULL with HPF_NO_KEY */
    const char *
        /* Alternative config keys "a|b" (dots descend: "rope_parameters.rope_theta"); NULL:
         * derived. */
        hf;
    int slot; /* enum hp_dim, or enum hp_real with HPF_REAL */
    unsigned flags;
    double otherwise; /* default if absent and not required */
};

/* Transforms that conversion applies to values, in f32, on the way from Hugging Face to GGUF
 * tensors. */
enum xform {
    XF_COPY,
    XF_ADD1,         /* w + 1, times hparams.mul[group] if group is set */
    XF_NEG_EXP,      /* -exp(w), with fp_exp in double, rounded once */
    XF_EXP,          /* exp(w), likewise */
    XF_V_ROWS,       /* regroup V-head row groups of `group` rows: new[r*Hk + k] = old[k*R + r] */
    XF_V_ROWS_TAIL,  /* same, but the first 2*Hk*Dk rows (q and k) stay */
    XF_V_COLS,       /* same on columns */
    XF_NEG_EXP_V,    /* -exp, then V_ROWS with groups of 1 */
    XF_SPLIT_FIRST,  /* first half of the rows of each matrix (fused gate_up: gate) */
    XF_SPLIT_SECOND, /* second half (up) */
    XF_ROPE_PAIRS,  /* first `rot` rows of each head of `group`: new[2i + b] = old[i + b * rot/2] */
    XF_ROPE_HALVES, /* for RoPE with sections: new[i + b * rot/2] = old[2i + b] */
    /* From wqkv, which contains for each key head its queries, then the key and the value: the
     * queries, regrouped as with XF_ROPE_PAIRS. */
    XF_QKV_Q,
    XF_QKV_K, /* ... keys, likewise */
    XF_QKV_V,
    XF_QKV_ALL,     /* ... all queries, all keys, all values, unchanged; also for biases */
    XF_EVEN,        /* even rows of each matrix, stored transposed; for vectors, even values */
    XF_ODD,         /* odd rows */
    XF_TURN,        /* each matrix, stored transposed */
    XF_TURN_FIRST,  /* ... first half of its rows */
    XF_TURN_SECOND, /* ... second half */
    /* From a matrix with q, k, v and z grouped by key head: all q, all k, all v. */
    XF_QKVZ_QKV,
    XF_QKVZ_Z,      /* ... all z */
    XF_MULTIPLY,    /* w * hparams.mul[group] */
    XF_MULTIPLY_IN, /* rows z, x, B, C, dt of Mamba's ssm_in times hparams.mul[MUL_Z ..] */
    XF_ROPE_FREQS,  /* computed: 1 for the first HD_ROT/2 entries, then 1e30 (no rotation) */
    XF_ROPE_LLAMA3, /* computed: llama3_divisor of each pair */
    /* From kv_b [heads * (nope + value)][rank]: per head, its first nope rows transposed. */
    XF_LATENT_K,
    XF_LATENT_V,  /* ... its last `value` rows */
    XF_ROPE_FAR,  /* computed: struct hparams.far */
    XF_ROPE_NEAR, /* computed: struct hparams.near */
    XF_FILL_Q,    /* computed: hparams.mul[MUL_Q] in each place */
    XF_FILL_ONE,  /* computed: 1 in each place */
    XF_PRODUCT,   /* "a&b": elementwise product of two vectors */
    XF_SHARDS,    /* "%e": the rows of all shards */
    XF_INDEX_Q,   /* from the indexer's fused projection: queries, its first HD_INDEX_Q rows */
    XF_INDEX_K,   /* ... keys, the rest */
    XF_TOKEN_IDS, /* integers: value i + i, a draft's token as one of its model */
    XF_STRIPE_Q,  /* from HD_QKV_STRIPES stripes of q, k and v: all queries */
    XF_STRIPE_K,  /* ... all keys */
    XF_STRIPE_V,  /* ... all values */
    XF_COUNT
};
/* Function of a tensor, for recipes, floors and reports. */
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
    ROLE_ATTN_LATENT, /* projections to and from low ranks */
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
bool role_is_routed(enum role r);   /* matrices of experts, of which a token uses only a few */

/* Which blocks have the row. %d in names is the block index (MTP blocks follow the trunk). */
enum where {
    W_GLOBAL,
    W_ALL /* trunk and MTP blocks */,
    W_ATTN /* attention is the mixer or part of it; includes all MTP blocks */,
    W_VALUES /* attention with a value projection */,
    W_WINDOW /* attention with a sliding window */,
    W_DELTA /* gated delta net as mixer */,
    W_MAMBA /* Mamba 1 or 2 as mixer or part of it */,
    W_CONV /* short convolution as mixer */,
    W_KDA /* Kimi delta attention as mixer */,
    W_TRUNK /* not MTP blocks */,
    W_COMPRESS /* attention also reads keys compressed by HD_RATIO */,
    W_INDEXER /* an indexer selects these keys */,
    W_HASHED /* experts chosen by the token's id */,
    W_SCORED /* experts chosen by the router's scores */,
    W_NGRAM /* adds embeddings of n-grams */,
    W_DENSE /* dense feed-forward */,
    W_MOE /* routed experts */,
    W_MTP
};
enum {
    TR_OPTIONAL = 1,
    TR_F32 = 2 /* stored as F32 regardless of the output type */,
    TR_TIED = 4 /* absent when tied */,
    TR_KV = 8 /* optional in layers that read another layer's keys and values */,
    TR_FOUND = 16 /* the slot of TR_IF is set if the file or folder has such a tensor */,
    TR_I32 = 32 /* a table of integers, stored as I32 */,
    TR_SELECT =
        64 /* optional in layers that reuse another layer's selection of keys, and in MTP */,
    TR_I64 = 128, /* the same, stored as I64 */
    TR_IF_SHIFT = 8
};
/* Restricts a row to models in which the slot is not 0. Several rows may have the same name; at
 * most one of them applies to a block. */
#define TR_IF(slot) ((unsigned)(slot) << TR_IF_SHIFT)
struct tensor_row {
    const char *gguf; /* "blk.%d.ffn_down_exps.weight" */
    /* Alternative HF names "a|b" without "language_model."; %d: layer number within the trunk, or
     * within mtp.layers for names that start with "mtp."; %e: expert number (the sources are then
     * stacked, and XF_SPLIT_* and XF_TURN* do not apply; "%e.a&b": the rows of a, then those of b).
     * NULL: never produced by conversion. */
    const char *hf;
    uint8_t dim[4]; /* enum hp_dim, outer to inner, after the transform; HD_NONE ends */
    enum xform xf;
    /* XF_V_*, XF_ROPE_PAIRS: enum hp_dim of rows (or columns) per head; HD_ONE for scalars;
     * XF_MULTIPLY, XF_ADD1: enum hp_mul. */
    uint8_t group;
    enum role role;
    enum where where;
    unsigned flags;
};

struct arch {
    const char *name;                 /* general.architecture: "qwen35moe" */
    const char *const *hf_classes;    /* NULL-terminated */
    const char *family;               /* common name: "Qwen 3.5" */
    const char *size_note;            /* for inspect: "hybrid gated-delta-net MoE" */
    const struct hp_row *hp;          /* ends with slot -1 */
    const struct tensor_row *tensors; /* ends with gguf NULL */
    const char *const
        /* Parts of HF names that conversion of the language model skips ("visual."),
         * NULL-terminated; with the prefix "=", the tensors are not part of a vision tower. */
        *skip;
    /* Computes derived dimensions and layer[] from the primary ones, and checks consistency; may be
     * called repeatedly. */
    int (*derive)(struct hparams *h, struct err *e);
    /* Reads entries of config.json that rows cannot express (layer_types, ...); NULL: none. */
    int (*from_hf)(struct hparams *h, const struct hfdir *dir, struct err *e);
    /* Writes GGUF keys other than single numbers (RoPE sections), once hparams are complete; NULL:
     * none. */
    void (*write_keys)(const struct hparams *h, struct gguf_w *w);
    int (*read_keys)(struct hparams *h, const struct gguf *g,
                     struct err *e); /* called before derive; NULL: none */
    /* Default period of full attention in models with a sliding window: every n-th layer has no
     * window. Overridden by layer_types or a pattern key. 0: the architecture sets windows
     * itself. */
    int window_period;
    bool window_keys; /* write the pattern as a key; otherwise only this period can be stored */
    /* Forward graph (models/spec.h). NULL: conversion and quantization only. */
    const struct decoder_spec *decoder;
    bool yarn_smooth; /* YaRN's ramp is not rounded; there is no key for it */
    double yarn_log;  /* factor of HF_YARN_LOG in the key yarn_log_multiplier; 0: no such key */
    bool mxfp4;       /* published in MXFP4, which conversion keeps */
    bool ple_rows;    /* per-layer embeddings are zero-padded to the vocabulary */
    bool layer_sizes; /* read per_layer_config of config.json */
    bool drafts;      /* files may have an MTP block, for drafting one more token (block_mtp.c) */
    bool keeps_mtp;   /* files may have MTP blocks, which hone converts but does not compute */
    int mtp_parts;    /* layers of the checkpoint that form an MTP block; 0: 1 */
    /* Drafts tokens for another model, whose tokenizer its files have: llama.cpp's name for the
     * kind of draft (gguf_draft_kind). NULL: a model of its own. */
    const char *draft;
    /* Builds the graph of a draft for another model. NULL: hone cannot draft with it. */
    int (*draft_graph)(const struct arch *a, const struct hparams *h, struct graph *g,
                       struct err *e);
    /* Picks the architecture if several share a model class; NULL: only this one. */
    const struct arch *(*which)(const struct hfdir *dir);
    /* Tool call syntaxes in the templates of published models (names of chat/tool_formats.c),
     * separated by spaces; NULL: unknown. */
    const char *tools;
};

/* registry.c */
/* Returns the architecture of a GGUF name if hone can run it; NULL: it cannot. */
const struct arch *arch_find(const char *gguf_name);
/* Like arch_find, but also finds architectures that are only converted and quantized. */
const struct arch *arch_find_table(const char *gguf_name);
/* Returns whether hone drafts with draft models of this kind (struct arch); NULL: none. */
bool arch_runs_draft(const char *kind);
/* Returns the architecture of a class, ignoring case; for a bare model such as LlamaModel or
 * Gemma3TextModel, the architecture of the class with a head. NULL: unknown. */
const struct arch *arch_find_hf(const char *hf_class);
/* Returns the architecture for a model_type of transformers; NULL: unknown. */
const struct arch *arch_find_type(const char *model_type);
/* Returns the architecture of a folder. If several share the class hf_class, config.json decides.
 * NULL: unknown. */
const struct arch *arch_find_dir(const char *hf_class, struct hfdir *dir);
const struct arch *arch_at(int i); /* NULL past the end */
/* Hint in errors about models that hone cannot run; it applies to every intact GGUF file. */
#define ARCH_STILL                                                                                 \
    "it can be inspected, verified, quantized, split, merged, compared and published all the same"
/* Fails with ERR_DATA: hone cannot run architecture `name` of the GGUF file at `path`. */
int arch_refuse(const char *path, const char *name, struct err *e);
/* Fails with ERR_DATA: unknown model class `cls` in the config.json at `path`. */
int arch_refuse_class(const char *path, const char *cls, struct err *e);
/* Build the forward graph of a model, or of its MTP block, including graph.facts. The graph must be
 * initialised; the caller releases it, even after an error. ERR_DATA: the model needs an
 * unsupported feature, is not causal, or has no MTP block. */
int arch_build(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);
/* Builds the graph that drafts: that of the MTP block, or of a draft for another model. */
int arch_build_draft(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);

/* Reads all hp rows of an architecture from GGUF keys and derives the rest; checks ranges (> 0
 * unless HPF_ZERO_OK, <= 2^31, layers <= HP_MAX_LAYERS). */
int hparams_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e);
/* Reads all hp rows of an architecture from a folder's config.json and derives the rest. HD_MTP is
 * taken from the config; the caller corrects it to match the tensors, then calls a->derive
 * again. */
int hparams_from_hf(struct hparams *h, const struct arch *a, struct hfdir *dir, struct err *e);

/* Completes a folder's hyperparameters (config.c): those that config.json stores under alternative
 * names, and the defaults of the model class. Runs once; arch_find_dir and hparams_from_hf call it
 * first. */
void config_complete(struct hfdir *dir);
/* Logs, in one line, the defaults used for keys that config.json omits. */
void config_log_defaults(const struct hfdir *dir);
/* Returns the complete RoPE parameters for layers of a kind, "full_attention" or
 * "sliding_attention", wherever config.json stores them. If the model does not distinguish kinds,
 * they apply to all layers. NULL: none. */
const struct json *hf_rope(const struct hfdir *dir, const char *kind);
/* Returns ERR_DATA if rope_scaling hides a base or a rotated part in rope_parameters. */
int hf_check_unread(const struct hfdir *dir, struct err *e);
#define ROPE_FULL "full_attention"
#define ROPE_SLIDING "sliding_attention"
/* Sets the slot of each row with TR_FOUND to 1 if `has` returns true for the row in any block, else
 * to 0. */
void hparams_found(struct hparams *h, const struct arch *a,
                   bool (*has)(const void *ud, const struct tensor_row *row, int64_t layer),
                   const void *ud);
/* Writes the GGUF keys of all rows, prefixed with "<arch>.", then calls a->write_keys. */
void hparams_write(const struct hparams *h, const struct arch *a, struct gguf_w *w);
/* Sets d[slot] to a * b, checked for overflow, since sizes come from files. */
int hparams_mul(struct hparams *h, int slot, int64_t a, int64_t b, struct err *e);
/* Returns the value of a slot for a block. For block -1, and for slots without per-layer values,
 * returns the model's value. */
int64_t hp_dim(const struct hparams *h, int block, int slot);

/* Per-layer hyperparameters (layers.c). An architecture's derive() calls layers_fill once d[] and
 * f[] are complete; afterwards it may change layer[]. */
/* Returns a pointer to layer i's value of a slot that has per-layer values. A caller that sets one
 * trunk layer must set all; layers_fill then does not overwrite them. */
int64_t *layers_own(struct hparams *h, int slot, int64_t i);
/* Fills the layers of a model that has attention in all of them. */
int layers_fill(struct hparams *h, struct err *e);
/* Like layers_fill, but layers with 0 key/value heads get `other` as their mixer. */
int layers_fill_hybrid(struct hparams *h, enum mix_kind other, struct err *e);
/* Sets each layer's key/value heads from `types`, the layer_types of config.json: unchanged for
 * "full_attention" and "attention", 0 for `other` and "linear_attention". */
int layers_mixers_hf(struct hparams *h, const struct json *types, const char *other, struct err *e);
/* Sets HD_FULL_INTERVAL to the period of "full_attention" in `types`, which otherwise must be
 * "linear_attention"; GGUF cannot express irregular sequences. Does nothing if `types` is not an
 * array. */
int layers_interval_hf(struct hparams *h, const struct json *types, struct err *e);
/* Returns whether any two trunk layers differ in a slot. */
bool layers_differ(const struct hparams *h, int slot);
enum { WINDOW_EVERYWHERE = 1 << 30 }; /* for struct arch.window_period */
/* Sets the layers' windows from `types`, the layer_types of config.json, which must be
 * sliding_attention or full_attention. If `types` is absent, all layers but every period-th get a
 * window (period 0: none do). */
int layers_windows_hf(struct hparams *h, const struct json *types, int64_t period, struct err *e);
/* Returns ERR_DATA if the layers' windows follow no period. Sets HD_WINDOW to 0 if the usual one is
 * WINDOW_EVERYWHERE, but no layer has a window. */
int layers_windows_check(struct hparams *h, int64_t usual, struct err *e);
/* Sets the layers' windows from the key "<arch>.attention.sliding_window_pattern", an array or a
 * period (layers_windows_hf; in the array true means a window). `period` is the default for files
 * without the key; < 0: such files are refused. HD_WINDOW must be set before. */
int layers_windows_gguf(struct hparams *h, const char *arch, const struct gguf *g, int64_t period,
                        struct err *e);
/* Writes the array that layers_windows_gguf reads. */
void layers_windows_write(const struct hparams *h, const char *arch, struct gguf_w *w);
/* Returns the period of full-attention layers: `usual` if the layers match it, otherwise the
 * smallest that they match; 0: none. */
int64_t layers_windows_period(const struct hparams *h, int64_t usual);
/* Writes the period under the key of layers_windows_gguf, unless it is `usual`. */
void layers_windows_write_period(const struct hparams *h, const char *arch, int64_t usual,
                                 struct gguf_w *w);

/* Reads the context extension (YaRN) of any architecture from config.json (yarn.c). The hparams_*
 * functions above call this, yarn_from_gguf and yarn_write. */
int yarn_from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir, struct err *e);
/* Reads RoPE type "llama3" from config.json, if present: fills HF_LLAMA3_*, and sets HD_FREQS to 1
 * to tell derive(). ERR_DATA: invalid numbers. */
int llama3_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Returns the divisor of the rotary angle of pair i (of head_dim/2), for RoPE type "llama3". */
double llama3_divisor(const struct hparams *h, int64_t i);
/* Reads rope scaling; without a type, it is "linear", whose factor is 1 if absent. */
int yarn_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e);
/* Refuses a key attn_factor that was not read: 1 changes nothing, and YaRN's usual factor, which
 * files of Olmo 3 state, is applied anyway. */
int yarn_check_factor(const struct hparams *h, const char *arch, const struct gguf *g,
                      struct err *e);
void yarn_write(const struct hparams *h, const struct arch *a, struct gguf_w *w);
/* Writes the rope scaling type "none" for architectures whose files always have the key, unless
 * positions are scaled. */
void yarn_write_none(const struct hparams *h, const char *arch, struct gguf_w *w);

/* A tensor that the model should have: a row, instantiated for a block. */
struct tensor_inst {
    const struct tensor_row *row;
    int block; /* -1: global */
    char name[64];
    int n_dims;
    int64_t ne[4]; /* GGUF order */
    bool optional;
};
/* Lists every tensor of a model with these hparams in layer order: token_embd, blk.0.*, ...,
 * output_norm, output. Includes optional tensors, which are flagged. The caller frees *out, an
 * array of *n entries, with free(). */
int arch_tensors(const struct arch *a, const struct hparams *h, struct tensor_inst **out,
                 int64_t *n, struct err *e);
/* Sets ne[] to the shape of a row's tensor in a block (-1: global), in GGUF order, with unused
 * dimensions set to 1. Returns the number of dimensions. */
int arch_shape(const struct tensor_row *row, const struct hparams *h, int block, int64_t ne[4]);
/* Expands %d and %e in `pat` (len bytes); returns false if the result does not fit. */
bool arch_name(char *out, size_t cap, const char *pat, size_t len, int64_t d, int64_t e);
/* Returns the row that matches a GGUF tensor name, and sets *block to the block (-1: global). NULL:
 * none. */
const struct tensor_row *arch_row(const struct arch *a, const char *gguf_name, int *block);
/* Like arch_row, limited to the rows that a model with these hparams has. */
const struct tensor_row *arch_row_of(const struct arch *a, const struct hparams *h,
                                     const char *gguf_name, int *block);

#endif
