// SPDX-License-Identifier: MIT
/* quantize/recipe.h - which tensor gets which type: presets over roles, without touching data. */
#ifndef HONE_QUANTIZE_RECIPE_H
#define HONE_QUANTIZE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/gguf.h"
#include "containers/qtype.h"
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
    /* recipe_roles fills these. */
    enum role role;
    int block;  /* -1: global */
    bool fine;  /* the role is by a name that the field's presets do not know */
    bool quant; /* may be quantized: a matrix that is not a norm, router, convolution, ... */
    /* recipe_apply fills these. */
    enum qtype type;
    bool fallback; /* its rows do not fit the wanted type's blocks */
};
/* Reads the keys of a file; keys that it lacks are zeros. */
void recipe_model_from(struct recipe_model *m, const struct gguf *g);
/* Sets role, block and quant of each item. */
void recipe_roles(const struct recipe_model *m, struct recipe_item *it, int64_t n);
/* Sets types by a preset; items that are not quant keep theirs. `recipe` is a canonical name.
 * NULL: every item gets the type `uniform` (also for --pure, where that is the recipe's
 * default). */
void recipe_apply(const char *recipe, enum qtype uniform, const struct recipe_model *m,
                  struct recipe_item *it, int64_t n);
/* Returns the default type of a recipe (canonical name). */
enum qtype recipe_default(const char *recipe);
/* Tells whether an item of this type must not be quantized without importance in this recipe,
 * which may be NULL. */
bool recipe_needs_imatrix(const char *recipe, const struct recipe_item *it);
/* Returns general.file_type for a mix in which most weights have type t. */
int recipe_ftype_of_type(enum qtype t);

#endif
