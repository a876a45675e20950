// SPDX-License-Identifier: MIT
/* runtime/engine/pack.h - what the files share that make packed rows (kernels/pack.h): which
 * weights have some, and their bytes. Internal to runtime/; others call model_pack (model.h). */
#ifndef HONE_RUNTIME_ENGINE_PACK_H
#define HONE_RUNTIME_ENGINE_PACK_H

#include "runtime/engine/model.h"

/* Packed rows that a file may hold: of a weight, in groups of `rows`. */
struct pack_item {
    const char *name;
    const struct weight *w;
    int rows;
};
/* The name is that of the weight in its file. */
struct pack_list {
    struct pack_item *item;
    int n;
};

/* Returns the number of groups of neighbouring rows of the whole weight. pack_group_bytes
 * returns the bytes of one. */
int64_t pack_groups(const struct pack_item *it);
uint64_t pack_group_bytes(const struct pack_item *it);
/* Packs groups [g0, g1) to dst. */
void pack_range(const struct pack_item *it, int64_t g0, int64_t g1, uint8_t *dst);

/* Lists every weight of the model's file that enters matrix products, of the model or of its MTP
 * block, in the file's order. `of` is the model that opened the file. The caller frees l->item
 * with free(). */
int pack_list(struct pack_list *l, const struct model *of, const struct kern *k, struct err *e);

#endif
