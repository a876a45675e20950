// SPDX-License-Identifier: MIT
/* quantize/recipe_use.c - the purpose of each recipe, the list of size classes, and recipe names in
 * file names. */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "quantize/quantize.h"

static const struct {
    const char *name, *use;
} uses[] = {
#define RECIPE(name, type)
#define NAMED(name, type, base, about)
#define RULE(recipe, cls, cond, arg, type)
#define USE(name, phrase) {name, phrase},
#include "quantize/recipes.def"
};
static const struct {
    const char *name;
    int rank;
} ladder[] = {
#define LADDER(name, rank) {name, rank},
#include "quantize/recipes.def"
#undef RULE
#undef NAMED
#undef RECIPE
};

const char *recipe_use(const char *name) {
    for (size_t i = 0; i < COUNT_OF(uses); i++)
        if (strcmp(uses[i].name, name) == 0) return uses[i].use;
    return NULL;
}

const char *recipe_ladder(int i) {
    return i >= 0 && (size_t)i < COUNT_OF(ladder) ? ladder[i].name : NULL;
}

int recipe_rank(const char *name) {
    for (size_t i = 0; i < COUNT_OF(ladder); i++)
        if (strcmp(ladder[i].name, name) == 0) return ladder[i].rank;
    return 0;
}

void recipe_file(const char *name, char out[RECIPE_FILE]) {
    bool named = false;
    for (int i = 0; recipe_named(i); i++) named |= strcmp(recipe_named(i), name) == 0;
    bool other = named && strncmp(name, "hone-", 5) != 0;
    snprintf(out, RECIPE_FILE, "%s%s", other ? "like-" : "", name);
}
