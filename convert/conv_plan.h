// SPDX-License-Identifier: MIT
/* convert/conv_plan.h - the first pass of a conversion: which output tensor is made of which source
 * tensors by which transform, known from headers alone. Inner to convert/. */
#ifndef HONE_CONVERT_PLAN_H
#define HONE_CONVERT_PLAN_H

#include "convert/convert.h"
#include "convert/lora.h"
#include "convert/hf_names.h"
#include "base/arena.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/arch.h"

struct item { /* one output tensor */
    struct tensor_inst inst;
    enum qtype type;
    enum xform xf; /* as it applies to the spelling found */
    uint64_t n_bytes;
    int64_t src, n_src; /* into plan->src; n_src > 1: stacked along ne[2]; 0: made (xform_makes) */
};
struct conv_plan {
    struct hfdir *dir;
    const struct arch *arch;
    struct hparams hp, hp_src; /* of the output, of the folder: they differ by padding */
    enum qtype type;           /* of matrices */
    struct hf_names names;     /* of the folder's tensors, as the tables spell them */
    struct item *item;
    int64_t n_items;
    struct dq *src;
    int64_t n_src, cap_src;
    struct dq_config quant;
    struct lora *lora; /* NULL without */
    int64_t n_mtp_tensors, n_vision, n_params, n_kept;
    struct arena arena;
};

/* Opens the folder and finds its architecture and, as far as the option says it, the output type.
 */
int plan_open(struct conv_plan *p, const struct convert_opts *o, struct err *e);
/* Makes the whole plan in p, which was zeroed, beginning with plan_open: every structural error
 * shows here. The caller calls plan_release, also after an error. */
int plan_make(struct conv_plan *p, const struct convert_opts *o, struct err *e);
void plan_release(struct conv_plan *p);
/* Fails with ERR_DATA for a model class that has no table (unknown.c): the message names the
 * nearest known one and what it lacks. */
int unknown_class(const struct hfdir *dir, const char *cls, struct err *e);

/* Tells whether every tensor of the folder is named as in an architecture (unknown.c). */
bool named_as(const struct hfdir *dir, const struct arch *a);

/* Binds the tensors of the folder to the expected ones (name_map.c); every source is used or
 * accounted for. */
int map_tensors(struct conv_plan *p, const struct convert_opts *o, struct err *e);

/* xform.c: one output tensor in slabs through `w`. */
struct tally {
    int64_t n_nan, n_inf, n_overflow;
    const struct dq *bad; /* a source with wrong group indices or scales */
};
struct xform_buf; /* slab and per-worker rows, reused between tensors */
struct xform_buf *xform_buf_new(void);
void xform_buf_free(struct xform_buf *b);
/* *done advances by the bytes written; `step` is called after each slab and may stop the work. */
typedef int (*xform_step)(void *ud, uint64_t n_bytes, struct err *e);
int xform_item(const struct conv_plan *p, const struct item *it, struct pool *pool,
               struct xform_buf *b, struct gguf_w *w, struct tally *tally, xform_step step,
               void *ud, struct err *e);
/* Encodes a row of n values as `type`, one of F32, F16, BF16 and Q8_0; values that are NaN or too
 * large are counted in t. */
void xform_encode(enum qtype type, const float *x, uint8_t *dst, int64_t n, struct tally *t);
/* Makes want[], the shape of the item outer to inner, that of its source, which may hold more. */
void xform_want(const struct hparams *h, const struct item *it, int64_t want[4]);
/* Tells whether a transform stores plain floats with rows and columns swapped. */
bool xform_turns(enum xform xf);
/* Puts the shape of the source of XF_LATENT_K and XF_LATENT_V, outer to inner, into want[] and
 * returns its number of dimensions. */
int xform_latent_source(const struct hparams *h, int64_t want[4]);
/* Tells whether a transform makes the tensor out of hyperparameters, without a source. */
bool xform_makes(enum xform xf);
/* Computes the mean of all elements of a tensor, by which stored norms are checked. */
int xform_mean(const struct st_tensor *t, double *mean, struct err *e);

/* Writes the keys of the output file (meta.c): general.*, those of the architecture and of the
 * tokenizer, and the chat templates. */
int meta_write(struct conv_plan *p, const struct convert_opts *o, struct gguf_w *w, struct err *e);
/* Writes what the model card says (card.c): name, license, base models, tags and so on. */
int card_write(struct conv_plan *p, const struct convert_opts *o, struct gguf_w *w, struct err *e);

#endif
