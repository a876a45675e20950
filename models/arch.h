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

#include "core/err.h"
#include "core/gguf.h"

struct graph; /* models/graph.h */
struct hfdir; /* core/hfdir.h */

/* Numbers of a model. Integers live in h->d[], reals in h->f[]. Slots an architecture lacks are 0.
 */
enum hp_dim {
    HD_NONE,
    HD_ONE,
    HD_VOCAB,
    HD_LAYERS /* trunk layers */,
    HD_MTP /* MTP layers in the file */,
    HD_CTX,
    HD_EMBD,
    HD_EMBD2 /* 2 * embd */,
    HD_HEADS,
    HD_KV_HEADS,
    HD_HEAD_DIM,
    HD_ROT /* rotated dims */,
    HD_FF,
    HD_EXPERTS,
    HD_EXPERTS_USED,
    HD_FF_EXP,
    HD_FF_EXP2 /* fused gate+up rows */,
    HD_FF_SHEXP,
    HD_Q_OUT /* rows of attn_q */,
    HD_KV_OUT /* rows of attn_k, attn_v */,
    HD_ATTN_OUT /* heads * head_dim */,
    HD_FULL_INTERVAL,
    HD_LIN_K_HEADS,
    HD_LIN_V_HEADS,
    HD_LIN_K_DIM,
    HD_LIN_V_DIM,
    HD_CONV_K,
    HD_LIN_INNER /* v heads * v dim */,
    HD_CONV_CH /* conv channels */,
    HD_ROPE_SEC0,
    HD_ROPE_SEC1,
    HD_ROPE_SEC2,
    HD_ROPE_SEC3,
    /* Of sliding-window layers where they differ from full ones. */
    HD_WINDOW,
    HD_HEAD_DIM_W,
    HD_KV_HEADS_W,
    HD_Q_OUT_W,
    HD_KV_OUT_W,
    HD_FULL_V /* full layers have a value projection (else values are the raw keys) */,
    HD_KV_SHARED /* last layers that read another layer's keys and values */,
    HD_FF_SHARED /* their width */,
    HD_FREQS /* divisors of rotary angles (rope_freqs.weight) of full layers: head_dim / 2 */,
    HD_PLE /* per-layer embedding width */,
    HD_PLE_ALL /* of all layers */,
    HD_PLE_VOCAB,
    HD_YARN_CTX /* context before the extension, YaRN or Llama 3 */,
    HD_COUNT
};
enum hp_real {
    HF_RMS_EPS,
    HF_ROPE_BASE,
    HF_ROPE_BASE_W,
    HF_SOFTCAP,
    /* YaRN context extension; factor 0: none (models/yarn.c) */
    HF_YARN_FACTOR,
    HF_YARN_ATTN,
    HF_YARN_FAST,
    HF_YARN_SLOW,
    /* Llama 3's divisors of rotary angles (models/llama3.c); known while converting only */
    HF_LLAMA3_FACTOR,
    HF_LLAMA3_LOW,
    HF_LLAMA3_HIGH,
    HF_COUNT
};
enum { HP_MAX_LAYERS = 512 };
struct hparams {
    int64_t d[HD_COUNT];
    double f[HF_COUNT];
    bool tied; /* no output.weight: token_embd is used */
    uint8_t
        recurrent[HP_MAX_LAYERS];  /* 1: linear-attention layer (trunk and MTP, by block index) */
    uint8_t window[HP_MAX_LAYERS]; /* 1: attention over the last HD_WINDOW tokens only */
    uint8_t shared_kv[HP_MAX_LAYERS]; /* 1: reads the keys and values of an earlier layer */
};

/* Where an hparam comes from, in both worlds. */
enum hp_flag {
    HPF_REQUIRED = 1,
    HPF_REAL = 2,
    HPF_NO_KEY = 4 /* config only, no GGUF key */,
    HPF_ZERO_OK = 8,
    HPF_KEEP_ZERO = 16 /* the key is written even when 0 */
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
    XF_ADD1,         /* w + 1 */
    XF_NEG_EXP,      /* -exp(w), by fp_exp in double, rounded once */
    XF_V_ROWS,       /* regroup V-head row groups of `group` rows: new[r*Hk + k] = old[k*R + r] */
    XF_V_ROWS_TAIL,  /* same, only rows after the first 2*Hk*Dk (q and k parts stay) */
    XF_V_COLS,       /* same on columns */
    XF_NEG_EXP_V,    /* -exp, then V_ROWS with groups of 1 */
    XF_SPLIT_FIRST,  /* first half of the rows of each matrix (fused gate_up: gate) */
    XF_SPLIT_SECOND, /* second half (up) */
    XF_ROPE_PAIRS,   /* rows of each head of `group`: new[2i + b] = old[i + b * group/2] */
    XF_ROPE_FREQS, /* made, not read: 1 for the first HD_ROT/2 entries, 1e30 (no rotation) behind */
    XF_ROPE_LLAMA3, /* made, not read: llama3_divisor of each pair */
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
    ROLE_SSM_ALPHA,
    ROLE_SSM_BETA,
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

/* Which blocks have the row. %d in names is the block index (MTP blocks follow the trunk). */
enum where {
    W_GLOBAL,
    W_ALL /* trunk and MTP blocks */,
    W_TRUNK,
    W_FULL /* full attention, MTP included */,
    W_LINEAR,
    W_MTP,
    W_WINDOW /* sliding-window attention */,
    W_OWN_KV,
    W_SHARED_KV
};
enum {
    TR_OPTIONAL = 1,
    TR_F32 = 2 /* stored as F32 whatever the output type */,
    TR_TIED = 4 /* absent when tied */,
    TR_KV = 8 /* optional in layers that share another's keys and values */,
    TR_IF_SHIFT = 8
};
/* The row exists only in models whose slot is not 0. Several rows may have one name: at most one of
 * them holds for a block. */
#define TR_IF(slot) ((unsigned)(slot) << TR_IF_SHIFT)
struct tensor_row {
    const char *gguf; /* "blk.%d.ffn_down_exps.weight" */
    /* HF spellings "a|b" after removal of "language_model."; %d: layer number within the trunk, or
     * within mtp.layers for names that start with "mtp."; %e: expert number (then the sources are
     * stacked, and XF_SPLIT_* does not apply). NULL: never made by conversion. */
    const char *hf;
    uint8_t dim[4]; /* enum hp_dim, outer to inner, after the transform; HD_NONE ends */
    enum xform xf;
    uint8_t group; /* XF_V_*, XF_ROPE_PAIRS: enum hp_dim of rows (or columns) per head; HD_ONE for
                      scalars */
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
        *skip; /* HF name parts left out of a text conversion ("visual."), NULL-terminated */
    /* Fills derived dims, recurrent[] and tied from the primary ones; checks consistency. */
    int (*derive)(struct hparams *h, struct err *e);
    /* Reads what rows cannot say from config.json (layer_types, ...); may be NULL. */
    int (*from_hf)(struct hparams *h, const struct hfdir *dir, struct err *e);
    /* Extra GGUF keys that are not one number (rope sections); may be NULL. Called with hparams
     * complete. */
    void (*write_keys)(const struct hparams *h, struct gguf_w *w);
    int (*read_keys)(struct hparams *h, const struct gguf *g,
                     struct err *e); /* before derive; may be NULL */
    /* Builds the forward graph (no execution). */
    int (*build)(const struct hparams *h, struct graph *g, struct err *e);
    /* The graph of the MTP block, which drafts the token after next (models/part_mtp.c); NULL: the
     * architecture has none. */
    int (*build_draft)(const struct hparams *h, struct graph *g, struct err *e);
};

/* registry.c */
const struct arch *arch_find(const char *gguf_name);   /* NULL: unknown */
const struct arch *arch_find_hf(const char *hf_class); /* NULL: unknown */
const struct arch *arch_at(int i);                     /* NULL past the end */
/* ERR_DATA: `name`, a model class or an architecture as `kind` says, is none of these, and which
 * families are. */
int arch_refuse(const char *path, const char *kind, const char *name, struct err *e);
/* Builds the forward graph of a model, or of its MTP block, with all its facts. The graph must have
 * been initialised; it is released by the caller, also after an error. arch_build_draft needs an
 * architecture that has build_draft. */
int arch_build(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);
int arch_build_draft(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);

/* Reads all hp rows of an architecture from GGUF keys and derives the rest; checks ranges (>0
 * unless HPF_ZERO_OK, <= 2^31, layers <= HP_MAX_LAYERS). */
int hparams_from_gguf(struct hparams *h, const struct arch *a, const struct gguf *g, struct err *e);
/* The same from a folder's config.json. HD_MTP is what the config says: the caller corrects it by
 * the tensors that are there, and then calls a->derive again. */
int hparams_from_hf(struct hparams *h, const struct arch *a, const struct hfdir *dir,
                    struct err *e);
/* Every GGUF key of the rows (and a->write_keys), behind "<arch>.". */
void hparams_write(const struct hparams *h, const struct arch *a, struct gguf_w *w);
/* d[slot] = a * b with the overflow check of sizes that come from files. */
int hparams_mul(struct hparams *h, int slot, int64_t a, int64_t b, struct err *e);

/* yarn.c: the context extension of any architecture, read and written by the functions above. */
int yarn_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Reads rope_type "llama3" of config.json, if that is what it asks for: fills HF_LLAMA3_*, and sets
 * HD_FREQS to 1 so that derive() knows of the tensor. ERR_DATA when its numbers make no sense. */
int llama3_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Returns the divisor of the angle of pair i of head_dim/2 in a model whose config asks for it. */
double llama3_divisor(const struct hparams *h, int64_t i);
int yarn_from_gguf(struct hparams *h, const char *arch, const struct gguf *g, struct err *e);
void yarn_write(const struct hparams *h, const char *arch, struct gguf_w *w);

/* One expected tensor: the instance of a row for a block. */
struct tensor_inst {
    const struct tensor_row *row;
    int block; /* -1: global */
    char name[64];
    int n_dims;
    int64_t ne[4]; /* GGUF order */
    bool optional;
};
/* Every tensor a model with these hparams has, layer order: token_embd, blk.0.*, ..., output_norm,
 * output. *out is free()d by the caller. Optional rows are included (flag tells). */
int arch_tensors(const struct arch *a, const struct hparams *h, struct tensor_inst **out,
                 int64_t *n, struct err *e);
/* Shape of a row in GGUF order; returns the number of dimensions. Missing ones are 1. */
int arch_shape(const struct tensor_row *row, const struct hparams *h, int64_t ne[4]);
/* Writes `pat` (len bytes) with %d and %e replaced; false when it does not fit. */
bool arch_name(char *out, size_t cap, const char *pat, size_t len, int64_t d, int64_t e);
/* The row a GGUF tensor name is an instance of, and its block (-1: global); NULL: no row. */
const struct tensor_row *arch_row(const struct arch *a, const char *gguf_name, int *block);
/* The same among the rows that this model has: with its shape. */
const struct tensor_row *arch_row_of(const struct arch *a, const struct hparams *h,
                                     const char *gguf_name, int *block);

#endif
