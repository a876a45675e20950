// SPDX-License-Identifier: MIT
/* quantize/recipe_use.c - what each recipe is for, in a phrase; and how its files are called. */
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "quantize/quantize.h"

static const struct {
    const char *name, *use;
} uses[] = {
    // clang-format off
    {"IQ1_S", "smallest of all; for giant models that fit no other way"},
    {"IQ1_M", "a little better than IQ1_S; still a last resort"},
    {"IQ2_XXS", "2 bits for very large models; errors are plain to see"},
    {"IQ2_XS", "2 bits, one step better"},
    {"IQ2_S", "2 bits, two steps better"},
    {"IQ2_M", "the best of 2 bits; usable for large models"},
    {"Q2_K_S", "2 bits without lookup tables: quicker on a CPU, worse than IQ2"},
    {"IQ3_XXS", "3 bits for little memory"},
    {"Q2_K", "small and quick on a CPU; IQ3_XXS is better at the same size"},
    {"IQ3_XS", "3 bits, one step better"},
    {"Q3_K_S", "3 bits, quick on a CPU; IQ3_S is better at the same size"},
    {"IQ3_S", "3 bits that hold up well"},
    {"IQ3_M", "3 bits, the better parts larger"},
    {"Q3_K_M", "low memory; quick on a CPU"},
    {"Q3_K_L", "low memory; between Q3_K_M and IQ4_XS"},
    {"IQ4_XS", "nearly Q4_K_S in less memory: recommended where space is short"},
    {"MXFP4_MOE", "experts in MXFP4: for models released so (gpt-oss)"},
    {"IQ4_NL", "as IQ4_XS, for rows that do not divide by 256"},
    {"Q4_0", "4 bits, the oldest; for programs and chips that are quick with it"},
    {"Q4_K_S", "4 bits, a little smaller than Q4_K_M"},
    {"Q4_K_M", "the usual choice: most of the quality in a third of the size"},
    {"Q4_1", "an old form of 4 bits; Q4_K_M is better at the same size"},
    {"Q5_0", "an old form of 5 bits; Q5_K_M is better"},
    {"Q5_K_S", "5 bits: hard to tell from the original"},
    {"Q5_K_M", "5 bits, recommended where there is room"},
    {"Q5_1", "an old form of 5 bits; Q5_K_M is better"},
    {"Q6_K", "near perfect"},
    {"Q8_0", "as good as the original; more than most need"},
    {"BF16", "not quantized: for making other files"},
    {"F16", "not quantized, in half precision: for programs without BF16"},
    {"F32", "not quantized, in full precision: for comparisons"},
    {"hone-IQ2_M", "ours for mixtures of experts: 2 bits where it costs least"},
    {"hone-Q3_K_XL", "ours for mixtures of experts: 3 bits, what every token uses is spared"},
    {"hone-IQ4_XS", "ours for mixtures of experts: a little under 4 bits"},
    {"hone-Q4_K_XL", "ours for mixtures of experts: 4 bits, what every token uses is spared"},
    {"hone-Q5_K_XL", "ours for mixtures of experts: near perfect"},
    {"AA-IQ3", "shape of another publisher's: active parts in 8 bits, experts in 3"},
    {"AA-Q3", "shape of another publisher's: active parts in 8 bits, experts in 3"},
    {"AA-IQ4", "shape of another publisher's: active parts in 8 bits, experts in 4"},
    {"AA-Q4", "shape of another publisher's: active parts in 8 bits, experts in 4"},
    {"bartowski-Q3_K_XL", "shape of bartowski's: Q3_K_L with embeddings and output in 8 bits"},
    {"bartowski-Q4_K_L", "shape of bartowski's: Q4_K_M with embeddings and output in 8 bits"},
    {"bartowski-Q5_K_L", "shape of bartowski's: Q5_K_M with embeddings and output in 8 bits"},
    {"bartowski-Q6_K_L", "shape of bartowski's: Q6_K with embeddings and output in 8 bits"},
    {"UD-Q3_K_XL", "a guess at the shape of Unsloth's file of this name"},
    {"UD-Q4_K_XL", "a guess at the shape of Unsloth's file of this name"},
    {"APEX", "shape of another publisher's: experts coarser towards the middle"},
    // clang-format on
};

const char *recipe_use(const char *name) {
    for (size_t i = 0; i < COUNT_OF(uses); i++)
        if (strcmp(uses[i].name, name) == 0) return uses[i].use;
    return NULL;
}

void recipe_file(const char *name, char out[RECIPE_FILE]) {
    bool named = false;
    for (int i = 0; recipe_named(i); i++) named |= strcmp(recipe_named(i), name) == 0;
    bool other = named && strncmp(name, "hone-", 5) != 0;
    snprintf(out, RECIPE_FILE, "%s%s", other ? "like-" : "", name);
}
