// SPDX-License-Identifier: MIT
/* models/sizes.h - what a model takes in memory, exact, from its numbers alone: weights per block
 * and use, keys and values by context and type, recurrent state, activations. Nothing here knows an
 * architecture: shapes come from the forward graph, uses from the tensor rows. */
#ifndef HONE_MODELS_SIZES_H
#define HONE_MODELS_SIZES_H

#include "base/err.h"
#include "containers/qtype.h"
#include "models/arch.h"

struct block_size {
    uint64_t dense, experts; /* bytes of weights; experts: the routed ones */
    int64_t kv_heads;        /* rows of keys, and of values, per token; 0: keeps none of its own */
    int64_t k_dim, v_dim;    /* values of such a row */
    int64_t window;          /* 0: sees all tokens */
    int64_t state;           /* f32 values of recurrent state per sequence */
};
struct sizes {
    int n_blocks; /* of the trunk */
    struct block_size block[HP_MAX_LAYERS];
    uint64_t embd;      /* token embeddings (and per-layer ones): looked up, kept in main memory */
    uint64_t output;    /* head, norms: what a GPU needs beside the blocks */
    uint64_t tied_head; /* embeddings that are the head too: a GPU gets a copy */
    uint64_t mtp;       /* blocks behind the trunk, for drafts only */
    int64_t reg_floats; /* activations: f32 values per token of a pass */
    int64_t n_vocab, n_embd, n_ctx_train;
    bool tied;
};
/* Reads what follows from hparams; weights are added by sizes_add. */
int sizes_init(struct sizes *z, const struct arch *a, const struct hparams *h, struct err *e);
/* Adds one tensor of the file, n_bytes long. Names that no row knows count as output. */
void sizes_add(struct sizes *z, const struct arch *a, const char *name, uint64_t n_bytes);

uint64_t sizes_weights(const struct sizes *z); /* all that was added */
/* Returns the bytes of weights on a GPU that has every block: embeddings stay outside. */
uint64_t sizes_device(const struct sizes *z);
struct kv_rows { /* how a row of keys, and one of values, is stored */
    uint64_t (*bytes)(const void *type, int64_t n); /* of n values; 0: no such row */
    const void *k, *v;
};
/* Counts the bytes of keys and values of blocks [first, n_blocks) for n_ctx tokens. short_windows:
 * blocks with a window keep it and one pass of 512 tokens, as llama.cpp does, else all keep n_ctx.
 * sizes_kv_rows takes the rows' own sizes in place of a type. Returns false when a head's values
 * are not whole blocks of the type, or the sum overflows. */
bool sizes_kv(const struct sizes *z, int first, int64_t n_ctx, enum qtype type, bool short_windows,
              uint64_t *n_bytes);
bool sizes_kv_rows(const struct sizes *z, int first, int64_t n_ctx, const struct kv_rows *rows,
                   bool short_windows, uint64_t *n_bytes);
/* How hone keeps them: in pages of KV_PAGE positions. A block with a window keeps the pages that it
 * reaches into, and for the rows of a pass as many more as their sequence could leave behind. */
enum { KV_PAGE = 256 };
/* Returns the pages that a block with that window (0: none) needs for n_tok tokens of a sequence,
 * between passes; a page has page_tok positions. */
int64_t sizes_pages(int64_t window, int64_t n_tok, int64_t page_tok);
/* Returns the pages that passes of n_rows tokens need on top, once, where sequences have at most
 * n_ctx tokens; 0 where there is no window. */
int64_t sizes_pass_pages(int64_t window, int64_t n_ctx, int64_t n_rows, int64_t page_tok);
/* Counts the bytes of keys and values of n_seqs sequences for which n_ctx tokens each are set
 * aside, with passes of n_rows tokens. Returns false as sizes_kv does. */
bool sizes_kv_paged(const struct sizes *z, int64_t n_seqs, int64_t n_ctx, int64_t n_rows,
                    const struct kv_rows *rows, uint64_t *n_bytes);
/* Returns the bytes of recurrent state of one sequence in blocks [first, n_blocks). */
uint64_t sizes_state(const struct sizes *z, int first);
int sizes_n_kv(const struct sizes *z);    /* blocks with keys and values of their own */
int sizes_n_state(const struct sizes *z); /* recurrent blocks */
bool sizes_has_experts(const struct sizes *z);

#endif
