// SPDX-License-Identifier: MIT
/* quantize/recipe.h - recipes: the type of each tensor by role and shape, without reading its
 * data. */
#ifndef HONE_QUANTIZE_RECIPE_H
#define HONE_QUANTIZE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/gguf.h"
#include "containers/qtype.h"
#include "models/arch.h"

/* Model properties that the rules test. */
struct recipe_model {
    const struct arch *arch; /* NULL: unknown; roles come from names */
    char name[24];           /* general.architecture; "": too long for any that has rules */
    int64_t n_blocks;        /* MTP blocks included */
    int64_t n_mtp;           /* MTP blocks, the last of n_blocks */
    int64_t heads, kv_heads; /* of block 0 */
    int64_t experts, experts_used;
    bool tied, imatrix;
};
struct recipe_item {
    const char *name; /* borrowed */
    int64_t ne[4];
    enum qtype from;
    /* Set by recipe_roles. */
    enum role role;
    int block;  /* -1: not in a block */
    bool fine;  /* llama.cpp's presets do not recognise the name */
    bool quant; /* quantizable: a matrix, and not a norm, router, convolution, ... */
    /* Set by recipe_apply. */
    enum qtype type;
    bool fallback; /* rows do not fit the requested type's blocks */
    bool ours;     /* llama.cpp's preset of the name quantizes it to another type */
};
/* Reads the model's metadata; missing keys count as 0. */
void recipe_model_from(struct recipe_model *m, const struct gguf *g);
/* Sets role, block, fine, quant and ours of each item. */
void recipe_roles(const struct recipe_model *m, struct recipe_item *it, int64_t n);
/* Sets the types of all quantizable items from a preset (canonical name). NULL: every item gets
 * the type `uniform`, which --pure sets to the recipe's default. */
void recipe_apply(const char *recipe, enum qtype uniform, const struct recipe_model *m,
                  struct recipe_item *it, int64_t n);
/* Keeps the items in the blocks in which a checkpoint was released (gpt-oss) unless the chosen type
 * is smaller; a larger type would only add error. Returns the number of items kept. */
int64_t recipe_keep_released(struct recipe_item *it, int64_t n);
/* Returns whether a recipe or a mix may give the tensor this type. Matrices of MTP blocks and of
 * draft files get at least as many bits as Q4_K, because drafts are accepted less often below it.
 */
bool recipe_allows(const struct recipe_model *m, const struct recipe_item *it, enum qtype t);
/* Returns whether draft files may have a type. */
bool recipe_suits_drafts(enum qtype t);
/* Returns the default type of a recipe, given its canonical name. */
enum qtype recipe_default(const char *recipe);
/* Returns whether this recipe (or NULL) needs importance to quantize an item of this type. */
bool recipe_needs_imatrix(const char *recipe, const struct recipe_item *it);
/* Returns the general.file_type of a mix in which most weights have type t. */
int recipe_ftype_of_type(enum qtype t);

#endif
