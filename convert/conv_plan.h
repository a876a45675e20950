// SPDX-License-Identifier: MIT
/* convert/conv_plan.h - conversion plan, made by the first pass: for each output tensor its sources
 * and transform, determined from headers alone. Internal to convert/. */
#ifndef HONE_CONVERT_PLAN_H
#define HONE_CONVERT_PLAN_H

#include "convert/convert.h"
#include "convert/lora.h"
#include "convert/hf_names.h"
#include "base/arena.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/arch.h"

struct item { /* an output tensor */
    struct tensor_inst inst;
    enum qtype type;
    enum xform xf; /* adjusted to the name and layout found */
    uint64_t n_bytes;
    int64_t src, n_src; /* range of plan->src; n_src > 1: stacked along ne[2]; 0: computed */
    bool scales;        /* the scales of the NVFP4 matrices with these sources */
    int64_t *shard_row; /* [n_src] first row of each shard (XF_SHARDS); NULL: not in shards */
};
struct conv_plan {
    struct hfdir *dir;
    const struct arch *arch;
    struct hparams hp, hp_src; /* of output and folder; they differ if widths are padded */
    enum qtype type;           /* for matrices */
    struct hf_names names;     /* tensor names of the folder, spelled as in the tables */
    struct item *item;
    int64_t n_items;
    struct dq *src;
    int64_t n_src, cap_src;
    struct dq_config quant;
    struct lora *lora; /* NULL: none */
    bool embeds;       /* the folder has modules.json: an embedding model */
    bool *keeps;       /* [files] the file has tensors that the output leaves out */
    int64_t n_mtp_tensors, n_vision, n_params, n_kept, n_nvfp4;
    struct arena arena;
};

/* Opens the folder and determines its architecture, and the output type unless o->type is auto. */
int plan_open(struct conv_plan *p, const struct convert_opts *o, struct err *e);
/* Calls plan_open, then completes the plan. p must be zeroed. All structural errors are reported
 * here. Call plan_release afterwards, even after an error. */
int plan_make(struct conv_plan *p, const struct convert_opts *o, struct err *e);
void plan_release(struct conv_plan *p);
/* Fails with ERR_DATA for a model class without a table (unknown.c); the message names the most
 * similar known architecture, and the tensors that it lacks. */
int unknown_class(const struct hfdir *dir, const char *cls, struct err *e);

/* Returns whether all tensors of the folder are named as in the architecture's table
 * (unknown.c). */
bool named_as(const struct hfdir *dir, const struct arch *a);

/* Binds the folder's tensors to the expected ones (name_map.c). Every source tensor must be used or
 * accounted for. */
int map_tensors(struct conv_plan *p, const struct convert_opts *o, struct err *e);

/* Returns whether tensor i of the folder belongs to its vision tower or projector, which mmproj.c
 * converts. */
bool plan_is_tower(const struct conv_plan *p, int64_t i);
/* Returns the number of such tensors. */
int64_t plan_count_tower(const struct conv_plan *p);

/* Unusual values in the output, counted by xform.c. */
struct tally {
    int64_t n_nan, n_inf, n_overflow;
    int64_t n_zeroed;     /* values that became 0 */
    const struct dq *bad; /* a source with invalid group indices or scales */
};
struct xform_buf; /* slab and per-worker rows, reused across tensors */
struct xform_buf *xform_buf_new(void);
void xform_buf_free(struct xform_buf *b);
/* Callback after each slab, with the number of bytes written; an error stops the conversion. */
typedef int (*xform_step)(void *ud, uint64_t n_bytes, struct err *e);
/* Converts a tensor and writes it; counts its NaN, infinite and overflowing values in *tally. */
int xform_item(const struct conv_plan *p, const struct item *it, struct pool *pool,
               struct xform_buf *b, struct gguf_w *w, struct tally *tally, xform_step step,
               void *ud, struct err *e);
/* Encodes a row of n values as `type`, one of F32, F16, BF16 and Q8_0; counts in t the values that
 * are NaN or overflow. */
void xform_encode(enum qtype type, const float *x, uint8_t *dst, int64_t n, struct tally *t);
/* Sets want[] to the shape (outer to inner) that the item's source must have at least. */
void xform_want(const struct hparams *h, const struct item *it, int64_t want[4]);
/* Returns whether a transform reads sources that are stored transposed (if they are plain
 * floats). */
bool xform_turns(enum xform xf);
/* Sets want[] to the source shape (outer to inner) of XF_LATENT_K and XF_LATENT_V and returns its
 * number of dimensions. */
int xform_latent_source(const struct hparams *h, int64_t want[4]);
/* Returns whether a transform computes the tensor from hyperparameters, without a source. */
bool xform_makes(enum xform xf);
/* Computes the mean of all elements, for a check of stored norms. */
int xform_mean(const struct st_tensor *t, double *mean, struct err *e);

/* Writes the metadata of the output file (meta.c): general.*, architecture and tokenizer keys, and
 * the chat templates. */
int meta_write(struct conv_plan *p, const struct convert_opts *o, struct gguf_w *w, struct err *e);
/* Writes the metadata from the model card (card.c): name, license, base models, tags and so on. */
int card_write(struct conv_plan *p, const struct convert_opts *o, struct gguf_w *w, struct err *e);

#endif
