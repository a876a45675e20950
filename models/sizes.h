// SPDX-License-Identifier: MIT
/* models/sizes.h - exact memory requirements of a model, from its hyperparameters: weights by block
 * and function, keys and values by context and type, recurrent state, activations. Independent of
 * architectures: shapes come from the forward graph, functions from the tensor rows. */
#ifndef HONE_MODELS_SIZES_H
#define HONE_MODELS_SIZES_H

#include "base/err.h"
#include "containers/qtype.h"
#include "models/arch.h"

struct block_size {
    uint64_t dense, experts; /* bytes of weights; experts: routed experts, dense: all others */
    int64_t kv_heads;        /* key rows (and value rows) per token; 0: none of its own */
    int64_t k_dim, v_dim;    /* values per row of keys and of values */
    int64_t window;          /* 0: no window */
    int64_t index_dim,
        index_top; /* an indexer's keys, kept by contexts of more than index_top tokens */
    int64_t state; /* f32 values of recurrent state per sequence */
};
struct sizes {
    int n_blocks; /* blocks of the trunk */
    int n_mtp;    /* blocks after the trunk, which block_count includes */
    struct block_size block[HP_MAX_LAYERS];
    uint64_t embd;      /* bytes of token and per-layer embeddings, kept in main memory */
    uint64_t output;    /* bytes of head and norms; a GPU needs them in addition to the blocks */
    uint64_t tied_head; /* bytes of embeddings that are also the head: a GPU gets a copy */
    uint64_t mtp;       /* bytes of blocks after the trunk, used only for drafting */
    int64_t reg_floats; /* activations: f32 values per token of a pass */
    int64_t n_vocab, n_embd, n_ctx_train;
    bool tied;
};
/* Fills *z from the hyperparameters, without weights; add those with sizes_add. */
int sizes_init(struct sizes *z, const struct arch *a, const struct hparams *h, struct err *e);
/* Adds a tensor of n_bytes. A name that matches no row counts towards `output`. */
void sizes_add(struct sizes *z, const struct arch *a, const char *name, uint64_t n_bytes);

uint64_t sizes_weights(const struct sizes *z); /* total of the added weights */
/* Returns the size of the weights on a GPU that holds every block; embeddings stay in main
 * memory. */
uint64_t sizes_device(const struct sizes *z);
struct kv_rows { /* storage of a row of keys and a row of values */
    uint64_t (*bytes)(const void *type, int64_t n); /* bytes for n values; 0: impossible row */
    const void *k, *v;
};
/* Compute the bytes of keys and values of blocks [first, n_blocks) for n_seqs sequences of n_ctx
 * tokens. With short_windows, blocks with a window cache only the window and one pass of 512 tokens
 * per sequence, as in llama.cpp; otherwise all blocks cache n_ctx tokens. sizes_kv_rows takes row
 * sizes instead of a type. Return false if a head's values are not whole blocks of the type, or on
 * overflow. */
bool sizes_kv(const struct sizes *z, int first, int64_t n_seqs, int64_t n_ctx, enum qtype type,
              bool short_windows, uint64_t *n_bytes);
/* Computes the cache bytes of layers from `first` to the last. False: overflow. */
bool sizes_kv_rows(const struct sizes *z, int first, int64_t n_seqs, int64_t n_ctx,
                   const struct kv_rows *rows, bool short_windows, uint64_t *n_bytes);
/* hone's cache layout: pages of KV_PAGE positions. A block with a window keeps the pages that the
 * window touches, plus those that the window can move past during a pass. */
enum { KV_PAGE = 256 };
/* Returns the number of pages that a sequence of n_tok tokens occupies between passes in a block
 * with this window (0: none), at page_tok positions per page. */
int64_t sizes_pages(int64_t window, int64_t n_tok, int64_t page_tok);
/* Returns the number of additional pages for a pass of n_rows tokens, once for all sequences of at
 * most n_ctx tokens; 0 without a window. */
int64_t sizes_pass_pages(int64_t window, int64_t n_ctx, int64_t n_rows, int64_t page_tok);
/* Computes the size of the keys and values of n_seqs sequences with n_ctx tokens reserved for each,
 * and passes of n_rows tokens. Returns false as sizes_kv does. */
bool sizes_kv_paged(const struct sizes *z, int64_t n_seqs, int64_t n_ctx, int64_t n_rows,
                    const struct kv_rows *rows, uint64_t *n_bytes);
/* Returns the size of one sequence's recurrent state in blocks [first, n_blocks). */
uint64_t sizes_state(const struct sizes *z, int first);
int sizes_n_kv(const struct sizes *z);    /* blocks with their own keys and values */
int sizes_n_state(const struct sizes *z); /* recurrent blocks */
bool sizes_has_experts(const struct sizes *z);

#endif
