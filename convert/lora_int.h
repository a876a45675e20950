// SPDX-License-Identifier: MIT
/* convert/lora_int.h - declarations shared by lora.c and lora_bind.c. */
#ifndef HONE_CONVERT_LORA_INT_H
#define HONE_CONVERT_LORA_INT_H

#include <string.h>

#include "convert/lora.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/printable.h"

struct lora {
    char *dir, *path; /* the folder, and its adapter_config.json */
    struct json *cfg;
    struct st *st;
    struct strmap *by_name; /* plain name -> index in the file */
    const char **module;    /* [n] names in the model, without "base_model.model." */
    const char **plain;     /* [n] names as spelled in the tables */
    bool *used;             /* [n] */
    int64_t n;
    double alpha, rank; /* of modules in no pattern */
    bool no_rank;       /* r is missing: rank is peft's default */
    bool rslora, has_tokenizer;
    bool rows_first;    /* peft before 0.19.1: A of fused experts spans dimension 0 */
    bool swapped_0;     /* 0.19.0: A of transposed experts spans the last */
    struct arena arena; /* holds names and deltas */
};

#define LORA_SHOW(name) (show_n((name), strlen(name)).s)
#define LORA_MERGE "merge the adapter with peft and convert the result"

/* Sets *out to a module's number in `pattern`, alpha_pattern or rank_pattern: that of the first key
 * that matches as in peft. Leaves it unchanged if none does. */
int lora_pattern(const struct lora *l, const char *pattern, const char *module, double *out,
                 struct err *e);

#endif
