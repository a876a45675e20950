// SPDX-License-Identifier: MIT
/* runtime/engine/pack.h - list and layout of packed weights (kernels/pack.h), shared by the files
 * that create or store packed rows. Internal to runtime/; callers elsewhere use model_pack
 * (model.h). */
#ifndef HONE_RUNTIME_ENGINE_PACK_H
#define HONE_RUNTIME_ENGINE_PACK_H

#include "runtime/engine/model.h"

/* A weight to be packed in groups of `rows`. The name is the tensor's name in its file. */
struct pack_item {
    const char *name;
    const struct weight *w;
    int rows;
};
struct pack_list {
    struct pack_item *item;
    int n;
};

/* Returns the number of row groups of the whole weight. pack_group_bytes returns the bytes per
 * group. */
int64_t pack_groups(const struct pack_item *it);
/* Returns the size of one group of packed rows. */
uint64_t pack_group_bytes(const struct pack_item *it);
/* Packs groups [g0, g1) into dst. */
void pack_range(const struct pack_item *it, int64_t g0, int64_t g1, uint8_t *dst);

/* Lists every weight of the file that enters matrix products of the model or its MTP block, in file
 * order. `of` is the model that opened the file. The caller frees l->item with free(). */
int pack_list(struct pack_list *l, const struct model *of, const struct kern *k, struct err *e);

#endif
