// SPDX-License-Identifier: MIT
/* models/sizes.c - memory requirements of a model: sums over blocks of weights, KV cache and
 * state. */
#include "models/sizes.h"

#include <string.h>

#include "base/num.h"
#include "models/graph.h"

/* A sliding-window cache holds the window and one pass, rounded up to 256 (llama.cpp's rule). */
enum { PASS_TOKENS = 512, CELL_STEP = 256 };

/* Returns the sizes of a layer; NULL: the tensor is not in a layer. */
static struct block_size *block_at(struct sizes *z, int layer) {
    return layer >= 0 && layer < z->n_blocks ? &z->block[layer] : NULL;
}

/* Copies the shapes of KV caches and recurrent states from the graph. */
static void take_slots(struct sizes *z, const struct graph *g) {
    for (int i = 0; i < g->n_attn_slots; i++) {
        const struct gr_kv *kv = &g->facts.kv[i];
        struct block_size *b = block_at(z, kv->layer);
        if (!b) continue;
        if (kv->top) {
            b->index_dim = kv->k_dim;
            b->index_top = kv->top;
            continue;
        }
        b->kv_heads = kv->n_heads;
        b->k_dim = kv->k_dim;
        b->v_dim = kv->v_dim;
        b->window = kv->window;
    }
    for (int i = 0; i < g->n_rec_slots; i++) {
        const struct gr_rec *r = &g->facts.rec[i];
        struct block_size *b = block_at(z, r->layer);
        if (b) b->state += r->n_conv + r->n_scan;
    }
}

int sizes_init(struct sizes *z, const struct arch *a, const struct hparams *h, struct err *e) {
    struct graph g;
    memset(z, 0, sizeof *z);
    graph_init(&g);
    int rc = arch_build(a, h, &g, e);
    if (rc == 0) {
        z->n_blocks = (int)h->d[HD_LAYERS];
        z->n_mtp = (int)h->d[HD_MTP];
        z->n_vocab = h->d[HD_VOCAB];
        z->n_embd = h->d[HD_EMBD];
        z->n_ctx_train = h->d[HD_CTX];
        z->tied = h->tied;
        take_slots(z, &g);
        for (int i = 0; i < g.n_regs; i++) z->reg_floats += (g.reg_width[i] + 15) / 16 * 16;
    }
    graph_release(&g);
    return rc;
}

void sizes_add(struct sizes *z, const struct arch *a, const char *name, uint64_t n_bytes) {
    int block = -1;
    const struct tensor_row *r = arch_row(a, name, &block);
    enum role role = r ? r->role : ROLE_OTHER;
    if (block >= z->n_blocks) {
        z->mtp += n_bytes;
    } else if (block >= 0) {
        *(role_is_routed(role) ? &z->block[block].experts : &z->block[block].dense) += n_bytes;
    } else if (role == ROLE_TOKEN_EMBD || role == ROLE_PLE_EMBD) {
        z->embd += n_bytes;
        if (role == ROLE_TOKEN_EMBD) z->tied_head = z->tied ? n_bytes : 0;
    } else {
        z->output += n_bytes;
    }
}

/* Returns the total size of the weights of all layers. */
static uint64_t blocks_bytes(const struct sizes *z) {
    uint64_t sum = 0;
    for (int i = 0; i < z->n_blocks; i++) sum += z->block[i].dense + z->block[i].experts;
    return sum;
}

uint64_t sizes_device(const struct sizes *z) {
    return blocks_bytes(z) + z->output + z->tied_head + z->mtp;
}

/* Returns the size of n values of a tensor type (enum qtype). */
static uint64_t block_rows(const void *type, int64_t n) {
    const enum qtype *t = type;
    return qtype_row_bytes(*t, n);
}

/* Returns the bytes that an indexer keeps per token, in 16 bits, in a context of n_ctx tokens. */
static uint64_t index_bytes(const struct block_size *b, int64_t n_ctx) {
    return n_ctx > b->index_top ? 2 * (uint64_t)b->index_dim : 0;
}

bool sizes_kv(const struct sizes *z, int first, int64_t n_seqs, int64_t n_ctx, enum qtype type,
              bool short_windows, uint64_t *n_bytes) {
    return sizes_kv_rows(z, first, n_seqs, n_ctx, &(struct kv_rows){block_rows, &type, &type},
                         short_windows, n_bytes);
}

bool sizes_kv_rows(const struct sizes *z, int first, int64_t n_seqs, int64_t n_ctx,
                   const struct kv_rows *type, bool short_windows, uint64_t *n_bytes) {
    uint64_t sum = 0;
    for (int i = first; i < z->n_blocks; i++) {
        const struct block_size *b = &z->block[i];
        int64_t cells = n_ctx;
        uint64_t k, v, rows, bytes;
        if (!b->kv_heads) continue;
        if (short_windows && b->window > 0)
            cells = min_i64(n_ctx, div_up(b->window + PASS_TOKENS, CELL_STEP) * CELL_STEP);
        k = type->bytes(type->k, b->k_dim);
        v = type->bytes(type->v, b->v_dim);
        if (!k || !v || cells < 0 || !mul_ok_i64(cells, n_seqs, &cells)) return false;
        if (!mul_ok((uint64_t)b->kv_heads, (uint64_t)cells, &rows) ||
            !mul_ok(rows, k + v, &bytes) || !add_ok(sum, bytes, &sum) || sum > INT64_MAX)
            return false;
        if (!mul_ok((uint64_t)cells, index_bytes(b, n_ctx), &bytes) || !add_ok(sum, bytes, &sum) ||
            sum > INT64_MAX)
            return false;
    }
    *n_bytes = sum;
    return true;
}

int64_t sizes_pages(int64_t window, int64_t n_tok, int64_t page_tok) {
    const int64_t all = div_up(n_tok, page_tok);
    return window > 0 ? min_i64(all, div_up(window, page_tok) + 1) : all;
}

int64_t sizes_pass_pages(int64_t window, int64_t n_ctx, int64_t n_rows, int64_t page_tok) {
    if (window <= 0) return 0;
    return min_i64(div_up(n_rows - 1, page_tok),
                   div_up(n_ctx, page_tok) - sizes_pages(window, n_ctx, page_tok));
}

bool sizes_kv_paged(const struct sizes *z, int64_t n_seqs, int64_t n_ctx, int64_t n_rows,
                    const struct kv_rows *type, uint64_t *n_bytes) {
    uint64_t sum = 0;
    for (int i = 0; i < z->n_blocks; i++) {
        const struct block_size *b = &z->block[i];
        int64_t pages;
        uint64_t bytes;
        if (!b->kv_heads) continue;
        const uint64_t k = type->bytes(type->k, b->k_dim), v = type->bytes(type->v, b->v_dim);
        if (!k || !v || n_ctx < 0) return false;
        if (!mul_ok_i64(n_seqs, sizes_pages(b->window, n_ctx, KV_PAGE), &pages)) return false;
        pages += sizes_pass_pages(b->window, n_ctx, n_rows, KV_PAGE);
        if (!mul_ok((uint64_t)pages, (uint64_t)b->kv_heads * KV_PAGE, &bytes) ||
            !mul_ok(bytes, k + v, &bytes) || !add_ok(sum, bytes, &sum) || sum > INT64_MAX)
            return false;
        if (!mul_ok((uint64_t)pages * KV_PAGE, index_bytes(b, n_ctx), &bytes) ||
            !add_ok(sum, bytes, &sum) || sum > INT64_MAX)
            return false;
    }
    *n_bytes = sum;
    return true;
}

uint64_t sizes_state(const struct sizes *z, int first) {
    uint64_t sum = 0;
    for (int i = first; i < z->n_blocks; i++) sum += (uint64_t)z->block[i].state * sizeof(float);
    return sum;
}

uint64_t sizes_weights(const struct sizes *z) {
    return blocks_bytes(z) + z->output + z->mtp + z->embd;
}

int sizes_n_kv(const struct sizes *z) {
    int n = 0;
    for (int i = 0; i < z->n_blocks; i++) n += z->block[i].kv_heads > 0;
    return n;
}
int sizes_n_state(const struct sizes *z) {
    int n = 0;
    for (int i = 0; i < z->n_blocks; i++) n += z->block[i].state > 0;
    return n;
}

bool sizes_has_experts(const struct sizes *z) {
    for (int i = 0; i < z->n_blocks; i++)
        if (z->block[i].experts) return true;
    return false;
}
