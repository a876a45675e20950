// SPDX-License-Identifier: MIT
/* runtime/engine/model.h - a GGUF file bound to its architecture's graph: every weight has been
 * found, its shape checked, and no tensor is left over. Weights stay in the mapped file.
 *
 * A model is immutable, so any number of sessions in any threads may share it. model_with returns a
 * new model that replaces a few weights and shares the rest. */
#ifndef HONE_RUNTIME_ENGINE_MODEL_H
#define HONE_RUNTIME_ENGINE_MODEL_H

#include "base/err.h"
#include "containers/gguf.h"
#include "base/pool.h"
#include "kernels/kern.h"
#include "models/arch.h"
#include "models/graph.h"
#include "runtime/engine/weight.h"
#include "tok/tok.h"

/* Weight that the file stores in a different form and that is derived from it (model_old.c). */
struct made_weight {
    char name[64];
    struct gguf_tensor t; /* as if the file had it */
    struct weight w;
};

struct model {
    const struct model *of; /* model that opened the file; NULL: this model */
    /* For a draft file: the model that it drafts for, whose embeddings and head it uses if it lacks
     * its own. Borrowed. */
    const struct model *target;
    struct gguf *gguf;
    const struct arch *arch;
    struct hparams hp;
    struct graph graph;
    bool has_graph;        /* owns graph and source instead of sharing them with `of` */
    struct weight *weight; /* [graph.n_weights] */
    struct weight
        *tensor; /* [tensors of the file], in the model that opened the file; NULL in others */
    struct made_weight *made; /* [n_made], in the model that opened the file */
    int n_made;
    int *source;       /* [graph.n_weights] weight whose tensor is used (tied output: token_embd) */
    struct tok *tok;   /* NULL: the file has no tokenizer or an unsupported one */
    struct err no_tok; /* why tok is NULL; code 0: the file has no tokenizer */
};
/* Opens a model for inference. On error *out is unchanged; the message names the file. */
int model_open(struct model **out, const char *path, struct err *e);
/* Returns 0 if hone supports inference with this file: a known architecture whose hyperparameters
 * and tensors fit its graph. Otherwise ERR_DATA with the reason. Reads headers only and ignores the
 * tokenizer. */
int model_computes(struct gguf *g, struct err *e);
/* Derives the weights that the file stores in a different form; without `data` only their shapes
 * and types. Called by model.c once tensors are bound. */
int model_make_weights(struct model *m, bool data, struct err *e);
/* Appends what the file can still be used for to the reason in e; returns the code. */
int model_refuse(struct err *e);
/* Fails if the file is an importance matrix or an adapter; the message names the option that takes
 * one. */
int model_check_kind(const struct gguf *g, struct err *e);
/* Closes the model. Models made from it and their sessions must be closed first. */
void model_close(struct model *m);
/* Reloads the tokenizer with the pre-tokenizer of this name instead of the file's; NULL: no-op.
 * Call before m->tok is used. */
int model_use_pre(struct model *m, const char *pre, struct err *e);
/* Writes 32 hex digits that identify the model: a hash of its architecture's keys, of the names,
 * shapes and types of all weights and of a sample of their data. */
void model_id(const struct model *m, char out[33]);
/* Fails with ERR_DATA and the reason if m->tok is NULL. For callers that need text. */
int model_need_tok(const struct model *m, struct err *e);
/* Returns weight w of the graph. Outside model.c and pack.c, this is the only access to weights. */
static inline const struct weight *model_weight(const struct model *m, gr_w w) {
    return &m->weight[w];
}
/* Returns the weight bound to the tensor of this name, borrowed until close, or NULL if the graph
 * uses none. */
const struct weight *model_find_weight(const struct model *m, const char *name);

/* Returns the head's matrix, borrowed, under the name of its tensor (the embeddings, if they are
 * tied). */
static inline const struct gr_weight *model_head(const struct model *m) {
    return &m->graph.weight[m->source[m->graph.output]];
}

/* Returns the number of logits per row: the rows of the head. */
static inline int64_t model_n_logits(const struct model *m) {
    return m->weight[m->graph.output].ne[1];
}

/* Opens the MTP block of an open model as a draft model, whose graph predicts one token further
 * ahead (models/block_mtp.c). Both share the weights that both use. ERR_DATA: no MTP block. */
int model_open_draft(struct model **out, const struct model *of, struct err *e);

/* Opens a draft file, an EAGLE-3 draft or an MTP block without its model, for `target`, which must
 * outlive it. ERR_DATA: the file is not a draft, hone cannot draft with its kind, or it belongs to
 * another model; the message names both files. */
int model_open_draft_file(struct model **out, const char *path, const struct model *target,
                          struct err *e);

/* Replacement of one weight in model_with. */
struct model_change {
    const char *name;        /* the replaced tensor */
    const struct weight *to; /* same shape; the new model holds a reference */
};
/* Creates a model with these changes and the same graph and tokenizer. ERR_DATA: unknown name or
 * different shape. */
int model_with(struct model **out, const struct model *of, const struct model_change *change, int n,
               struct err *e);
/* Returns the first block in which two models of one graph differ, or the number of layers if they
 * can differ only after the last block. */
int model_first_change(const struct model *a, const struct model *b);

/* Options of model_pack, which packs the weights of matrix products into the row groups that `isa`
 * computes with (kernels/pack.h), for sessions with ACT_Q8. Rows are packed once, belong to the
 * weight and serve every later model that shares it. The file's pages are released, so memory use
 * stays near the size of the weights. If memory is short, the remaining weights stay in the mapped
 * file, unpacked, and a line is logged. */
struct pack_opts {
    const bool *only; /* one flag per weight of the graph; NULL: all */
    enum kern_isa isa;
    struct pool *pool;
    uint64_t keep_free; /* bytes of memory to leave free */
    /* Folder of packed rows (pack_cache.h) or NULL. All rows are stored there; with `only`,
     * existing ones are used but none are stored. */
    const char *cache;
};
int model_pack(struct model **out, const struct model *of, const struct pack_opts *o,
               struct err *e);
/* Returns the size of all packed rows, in memory or in mapped files. */
uint64_t model_packed_bytes(const struct model *m, bool mapped);

/* Returns a model of the same graph with references to all weights, for functions that then replace
 * some. Internal. */
struct model *model_copy(const struct model *of);

#endif
