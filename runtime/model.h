// SPDX-License-Identifier: MIT
/* runtime/model.h - a GGUF bound to its architecture's graph: every weight found, shapes checked,
 * unexpected tensors named. Weights stay in the mapped file. */
#ifndef HONE_RUNTIME_MODEL_H
#define HONE_RUNTIME_MODEL_H

#include "core/err.h"
#include "core/gguf.h"
#include "core/pool.h"
#include "kernels/kern.h"
#include "models/arch.h"
#include "models/graph.h"
#include "text/tok.h"

struct weight {       /* index: gr_w */
    const void *data; /* GGUF blocks, borrowed from the map or from model_set_weight */
    enum qtype type;
    int64_t ne[4];
    uint64_t row_bytes;
    uint64_t mat_bytes; /* from one matrix (expert) to the next: ne[1] rows */
    uint64_t n_bytes;
    uint8_t *packed; /* the same as packed rows (model_pack), or NULL; owned unless lent */
    int pack_rows;
    bool lent;        /* packed is another model's */
    uint64_t version; /* changes when model_set_weight replaces it: devices keep copies */
};
struct model {              /* read-only after open; shared by sessions */
    const struct model *of; /* NULL, or whose file, tokenizer and packed rows this one borrows */
    struct gguf *gguf;
    const struct arch *arch;
    struct hparams hp;
    struct graph graph;
    struct weight *weight;      /* [graph.n_weights] */
    struct weight *file_weight; /* as the file has them, for model_set_weight */
    int *source; /* [graph.n_weights] the weight whose tensor is used (tied output: token_embd) */
    struct tok *tok;   /* NULL when the file has no tokenizer, or one we do not know */
    struct err no_tok; /* why; code 0: it has none */
};
/* The data of weight w of the graph. Everything outside model.c and pack.c reads weights by this.
 */
static inline const struct weight *model_weight(const struct model *m, gr_w w) {
    return &m->weight[w];
}
int model_open(struct model **out, const char *path, struct err *e);
void model_close(struct model *m);
/* ERR_DATA with the reason when m->tok is NULL: for whoever reads or writes text. */
int model_need_tok(const struct model *m, struct err *e);
/* The same file once more, as in its first binding, with weights that can be replaced on their own.
 * Borrows the file and the tokenizer of `of`, which must stay open. */
int model_open_again(struct model **out, const struct model *of, struct err *e);
/* The MTP block of an open model as a model of its own: its graph drafts one token further
 * (models/part_mtp.c). Borrows from `of`, which must stay open, and whose weights must not be
 * replaced meanwhile. ERR_DATA when there is no such block. */
int model_open_draft(struct model **out, const struct model *of, struct err *e);
/* Replaces a weight's data in this process (probes): same shape, any type; packed rows are freed.
 * data is borrowed until the next call; NULL restores the file's. ERR_DATA when the name is
 * unknown. No session may be running. */
int model_set_weight(struct model *m, const char *name, const void *data, enum qtype type,
                     struct err *e);

/* Moves the weights of matrix products into the packed rows that `isa` computes with
 * (kernels/pack.h) and gives the file's pages back: memory stays as large as the weights. For
 * sessions with ACT_Q8; others read the file as before. only: NULL, or one flag per weight of the
 * graph. Nothing happens, and a line is logged, when memory is short. No session may be running. */
int model_pack(struct model *m, const bool *only, enum kern_isa isa, struct pool *pool,
               struct err *e);
uint64_t model_packed_bytes(const struct model *m);
void model_unpack(struct model *m); /* frees the packed rows; model_close does it too */

#endif
