// SPDX-License-Identifier: MIT
/* models/tensors.c - tensor rows: lists all tensors of a model from its architecture's rows and
 * hyperparameters, and finds the row of a GGUF name. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "models/arch.h"

bool arch_name(char *out, size_t cap, const char *pat, size_t len, int64_t d, int64_t e) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char digits[24];
        size_t k = 0;
        if (pat[i] == '%' && i + 1 < len && (pat[i + 1] == 'd' || pat[i + 1] == 'e')) {
            int64_t v = pat[++i] == 'd' ? d : e;
            if (v < 0) return false;
            do digits[k++] = (char)('0' + v % 10);
            while (v /= 10);
        } else
            digits[k++] = pat[i];
        if (n + k >= cap) return false;
        while (k) out[n++] = digits[--k];
    }
    out[n] = 0;
    return true;
}

int arch_shape(const struct tensor_row *row, const struct hparams *h, int block, int64_t ne[4]) {
    int n = 0;
    while (n < 4 && row->dim[n] != HD_NONE) n++;
    for (int i = 0; i < 4; i++) ne[i] = i < n ? hp_dim(h, block, row->dim[n - 1 - i]) : 1;
    return n;
}

/* Returns whether the row's tensor occurs in a block. */
static bool in_block(const struct tensor_row *row, const struct hparams *h, int block) {
    const struct layer_hp *l = &h->layer[block];
    switch (row->where) {
    case W_GLOBAL:
        return false;
    case W_ALL:
        return true;
    case W_ATTN:
        return l->mixer == MIX_ATTN || l->mixer == MIX_BOTH;
    case W_VALUES:
        return (l->mixer == MIX_ATTN || l->mixer == MIX_BOTH) && !l->keys_are_values;
    case W_WINDOW:
        return l->mixer == MIX_ATTN && l->window > 0;
    case W_DELTA:
        return l->mixer == MIX_DELTA;
    case W_MAMBA:
        return l->mixer == MIX_MAMBA1 || l->mixer == MIX_MAMBA2 || l->mixer == MIX_BOTH;
    case W_CONV:
        return l->mixer == MIX_CONV;
    case W_KDA:
        return l->mixer == MIX_KDA;
    case W_TRUNK:
        return block < h->d[HD_LAYERS];
    case W_COMPRESS:
        return l->ratio > 0;
    case W_INDEXER:
        return l->ratio == 4;
    case W_HASHED:
        return l->ffn == FFN_MOE && block < h->d[HD_HASHED];
    case W_SCORED:
        return l->ffn == FFN_MOE && block >= h->d[HD_HASHED];
    case W_NGRAM:
        return l->ngram > 0;
    case W_DENSE:
        return l->ffn == FFN_DENSE;
    case W_MOE:
        return l->ffn == FFN_MOE;
    case W_MTP:
        return block >= h->d[HD_LAYERS];
    }
    return false;
}

/* Returns whether this model has the row in a block; -1: outside the blocks. */
static bool has_row(const struct tensor_row *row, const struct hparams *h, int block) {
    unsigned slot = row->flags >> TR_IF_SHIFT;
    if (slot && !h->d[slot]) return false;
    if (block < 0) return row->where == W_GLOBAL;
    return in_block(row, h, block);
}

struct list {
    struct tensor_inst *v;
    size_t n, cap;
};

/* Adds the tensor of a row; block -1: it is not in a block. */
static int add_row(struct list *l, const struct tensor_row *row, const struct hparams *h, int block,
                   struct err *e) {
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->v = xreallocarray(l->v, l->cap, sizeof *l->v);
    }
    struct tensor_inst *t = &l->v[l->n++];
    *t = (struct tensor_inst){.row = row, .block = block};
    t->optional = (row->flags & TR_OPTIONAL) ||
                  ((row->flags & TR_KV) && block >= 0 && h->layer[block].kv_of != block) ||
                  ((row->flags & TR_SELECT) && block >= 0 &&
                   (h->layer[block].index_shared || block >= h->d[HD_LAYERS]));
    t->n_dims = arch_shape(row, h, block, t->ne);
    for (int i = 0; i < 4; i++)
        if (t->ne[i] <= 0)
            return err_set(e, ERR_DATA, "%s needs a hyperparameter that the model does not give",
                           row->gguf);
    if (!arch_name(t->name, sizeof t->name, row->gguf, strlen(row->gguf), block < 0 ? 0 : block, 0))
        return err_set(e, ERR_DATA, "tensor name %s is too long for GGUF", row->gguf);
    return 0;
}

/* Adds the tensors outside blocks from rows [from, to); to NULL: up to the end. */
static int add_globals(struct list *l, const struct tensor_row *from, const struct tensor_row *to,
                       const struct hparams *h, struct err *e) {
    for (const struct tensor_row *r = from; r != to && r->gguf; r++)
        if (has_row(r, h, -1) && !((r->flags & TR_TIED) && h->tied)) TRY(add_row(l, r, h, -1, e));
    return 0;
}

/* Lists all tensors of the model in file order. */
static int fill_list(struct list *l, const struct arch *a, const struct hparams *h, struct err *e) {
    const struct tensor_row *first = a->tensors; /* first block row */
    while (first->gguf && first->where == W_GLOBAL) first++;
    TRY(add_globals(l, a->tensors, first, h, e));
    int n_blocks = (int)(h->d[HD_LAYERS] + h->d[HD_MTP]);
    for (int b = 0; b < n_blocks; b++)
        for (const struct tensor_row *r = first; r->gguf; r++)
            if (has_row(r, h, b)) TRY(add_row(l, r, h, b, e));
    return add_globals(l, first, NULL, h, e);
}

int arch_tensors(const struct arch *a, const struct hparams *h, struct tensor_inst **out,
                 int64_t *n, struct err *e) {
    struct list l = {0};
    int rc = fill_list(&l, a, h, e);
    if (rc) {
        free(l.v);
        return err_wrap(e, "%s", a->name);
    }
    *out = l.v;
    *n = (int64_t)l.n;
    return 0;
}

/* Matches a name against a pattern with at most one %d (no leading zeros, < HP_MAX_LAYERS) and sets
 * *block to its number. False: no match. */
static bool match_name(const char *pat, const char *name, int *block) {
    const char *p = strstr(pat, "%d");
    if (!p) return strcmp(pat, name) == 0;
    size_t head = (size_t)(p - pat);
    if (strncmp(pat, name, head) != 0) return false;
    const char *s = name + head;
    int v = 0, n_digits = 0;
    for (; *s >= '0' && *s <= '9'; s++, n_digits++) {
        v = 10 * v + (*s - '0');
        if (v >= HP_MAX_LAYERS) return false;
    }
    if (!n_digits || (n_digits > 1 && name[head] == '0')) return false;
    *block = v;
    return strcmp(p + 2, s) == 0;
}

/* Finds the row of a tensor's name among those that h allows; h NULL: among all. */
static const struct tensor_row *find_row(const struct arch *a, const struct hparams *h,
                                         const char *name, int *block) {
    for (const struct tensor_row *r = a->tensors; r->gguf; r++) {
        int b = -1;
        if (!match_name(r->gguf, name, &b) || (h && !has_row(r, h, b))) continue;
        if (block) *block = b;
        return r;
    }
    if (block) *block = -1;
    return NULL;
}
const struct tensor_row *arch_row(const struct arch *a, const char *gguf_name, int *block) {
    return find_row(a, NULL, gguf_name, block);
}
const struct tensor_row *arch_row_of(const struct arch *a, const struct hparams *h,
                                     const char *gguf_name, int *block) {
    return find_row(a, h, gguf_name, block);
}
