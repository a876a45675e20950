// SPDX-License-Identifier: MIT
/* quantize/recipe.h - which tensor gets which type: presets over roles, without touching data. */
#ifndef HONE_QUANTIZE_RECIPE_H
#define HONE_QUANTIZE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/gguf.h"
#include "core/qtype.h"
#include "models/arch.h"

struct recipe_model {        /* what the rules ask about a model */
    const struct arch *arch; /* NULL: unknown, roles come from names */
    int64_t n_blocks;        /* MTP blocks included */
    int64_t n_mtp;           /* of them, the last */
    int64_t heads, kv_heads, experts, experts_used;
    bool tied, imatrix;
};
struct recipe_item {
    const char *name; /* borrowed */
    int64_t ne[4];
    enum qtype from;
    /* filled by recipe_roles */
    enum role role;
    int block;  /* -1: global */
    bool fine;  /* the role is by a name that the field's presets do not know */
    bool quant; /* may be quantized: a matrix that is not a norm, router, convolution, ... */
    /* filled by recipe_apply */
    enum qtype type;
    bool fallback; /* its rows do not fit the wanted type's blocks */
};
/* From the keys of a file; absent keys are zeros. */
void recipe_model_from(struct recipe_model *m, const struct gguf *g);
/* Role, block and quant of each item. */
void recipe_roles(const struct recipe_model *m, struct recipe_item *it, int64_t n);
/* Types by preset; items that are not quant keep their type. `recipe` is a canonical name, or NULL
 * with a `uniform` type for every item (also --pure: uniform = the recipe's default). */
void recipe_apply(const char *recipe, enum qtype uniform, const struct recipe_model *m,
                  struct recipe_item *it, int64_t n);
/* Default type of a recipe (canonical name). */
enum qtype recipe_default(const char *recipe);
/* An item (with its type) that must not be quantized without importance in this recipe (NULL:
 * none). */
bool recipe_needs_imatrix(const char *recipe, const struct recipe_item *it);
/* general.file_type for a mix whose most frequent type (by weights) is t. */
int recipe_ftype_of_type(enum qtype t);

#endif
