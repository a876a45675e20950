// SPDX-License-Identifier: MIT
/* convert/lora_int.h - what the files of lora.h share. */
#ifndef HONE_CONVERT_LORA_INT_H
#define HONE_CONVERT_LORA_INT_H

#include <string.h>

#include "convert/lora.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/printable.h"

struct lora {
    char *dir, *path; /* the folder; its adapter_config.json */
    struct json *cfg;
    struct st *st;
    struct strmap *by_name; /* a plain name -> index in the file */
    const char **module;    /* [n] as the model calls the tensor, without "base_model.model." */
    const char **plain;     /* [n] as the tables spell it */
    bool *used;             /* [n] */
    int64_t n;
    double alpha;
    bool rslora, has_tokenizer;
    bool rows_first;    /* peft before 0.19.1: A of fused experts is over the first dimension */
    bool swapped_0;     /* 0.19.0: of experts that are stored transposed, over the last */
    struct arena arena; /* names and deltas */
};

#define LORA_SHOW(name) (show_n((name), strlen(name)).s)
#define LORA_MERGE "merge the adapter with peft and convert the result"

/* Gives alpha of a module by alpha_pattern, matched as peft does, else the common one. */
int lora_alpha(const struct lora *l, const char *module, double *alpha, struct err *e);

#endif
