// SPDX-License-Identifier: MIT
/* runtime/engine/model.h - a GGUF bound to its architecture's graph: every weight found, shapes
 * checked, unexpected tensors named. Weights stay in the mapped file.
 *
 * A model never changes after it was made, so any number of sessions may use it at the same time,
 * from any threads. What differs in a few weights is another model (model_with), which shares all
 * other weights with the first one. */
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

/* A weight that the file has in another form (model_old.c). */
struct made_weight {
    char name[64];
    struct gguf_tensor t; /* as if it were there */
    struct weight w;
};

struct model {
    const struct model *of; /* the model that opened the file; NULL: this one did */
    struct gguf *gguf;
    const struct arch *arch;
    struct hparams hp;
    struct graph graph;
    bool has_graph;        /* graph and source are its own, not those of the model it was made of */
    struct weight *weight; /* [graph.n_weights] */
    struct weight *tensor; /* [tensors of the file], of the model that opened it; NULL in others */
    struct made_weight *made; /* [n_made], of the model that opened the file */
    int n_made;
    int *source; /* [graph.n_weights] the weight whose tensor is used (tied output: token_embd) */
    struct tok *tok;   /* NULL when the file has no tokenizer, or one we do not know */
    struct err no_tok; /* why; code 0: it has none */
};
int model_open(struct model **out, const char *path, struct err *e);
/* Returns 0 when hone can compute with this file: its architecture is known, and its numbers and
 * tensors are those of a graph. Otherwise ERR_DATA with the reason. It reads headers only and
 * says nothing of the tokenizer. */
int model_computes(struct gguf *g, struct err *e);
/* Makes the weights that the file has in another form; without `data` only their shapes and types.
 * Of model.c, once tensors are there. */
int model_make_weights(struct model *m, bool data, struct err *e);
/* Adds to such a reason what can be done with the file all the same; returns the code. */
int model_refuse(struct err *e);
/* Fails when the file is an importance matrix, and says where to give it instead. */
int model_no_imatrix(const struct gguf *g, struct err *e);
/* Models that were made of this one, and their sessions, must be closed before it. */
void model_close(struct model *m);
/* Reads the tokenizer again with the pre-tokenizer of this name, whatever the file names; NULL:
 * nothing happens. Before anything uses m->tok. */
int model_use_pre(struct model *m, const char *pre, struct err *e);
/* Writes 32 hex digits that stand for the model's numbers and weights: of names, shapes and types
 * of all weights, and of a sample of each one's data. */
void model_id(const struct model *m, char out[33]);
/* Fails for those who read or write text: ERR_DATA with the reason when m->tok is NULL. */
int model_need_tok(const struct model *m, struct err *e);
/* Returns weight w of the graph. Everything outside model.c and pack.c reads weights by this. */
static inline const struct weight *model_weight(const struct model *m, gr_w w) {
    return &m->weight[w];
}
/* Returns the weight that a tensor of this name is, borrowed until close, or NULL when the graph
 * uses none. */
const struct weight *model_find_weight(const struct model *m, const char *name);

/* Returns the weight that the head multiplies hidden rows with, borrowed, under the name of its
 * tensor, which is that of the embeddings where these are tied. */
static inline const struct gr_weight *model_head(const struct model *m) {
    return &m->graph.weight[m->source[m->graph.output]];
}

/* Opens the MTP block of an open model as a model of its own, whose graph drafts one token
 * further (models/block_mtp.c). It shares the weights that both have. ERR_DATA when there is no
 * such block. */
int model_open_draft(struct model **out, const struct model *of, struct err *e);

/* The same model with other weights in a few places: same graph, same tokenizer. */
struct model_change {
    const char *name;        /* of the tensor that is replaced */
    const struct weight *to; /* of the same shape; the new model holds it too */
};
/* Makes a model with the changes. ERR_DATA when a name is unknown or a shape is another. */
int model_with(struct model **out, const struct model *of, const struct model_change *change, int n,
               struct err *e);
/* Returns the first block in which two models of one graph differ, or the number of layers when
 * they may differ only behind the last block. */
int model_first_change(const struct model *a, const struct model *b);

/* The same model with the weights of matrix products as the packed rows that `isa` computes with
 * (kernels/pack.h): for sessions with ACT_Q8. Rows are made once, belong to the weight, and serve
 * every later model that has it; the file's pages are given back, so memory stays as large as the
 * weights. When memory is short, a line is logged and the weights that have no rows yet stay as
 * they lie in the file, paged by the system. */
struct pack_opts {
    const bool *only; /* NULL, or one flag per weight of the graph */
    enum kern_isa isa;
    struct pool *pool;
    uint64_t keep_free; /* bytes of memory that are wanted for other things */
    const char *cache;  /* NULL, or the folder where packed rows are kept (pack_cache.h): all are
                           put there, or with `only` those that are there are used */
};
int model_pack(struct model **out, const struct model *of, const struct pack_opts *o,
               struct err *e);
/* Returns the bytes that packed rows of its weights take, in memory or in mapped files. */
uint64_t model_packed_bytes(const struct model *m, bool mapped);

/* Returns a model of the same graph with copies of all weights, for functions that then change
 * some; internal. */
struct model *model_copy(const struct model *of);

#endif
