// SPDX-License-Identifier: MIT
/* quantize/requant.h - check for models that are quantized already. Quantizing them again keeps
 * their errors, which a divergence measured against that input does not show. */
#ifndef HONE_QUANTIZE_REQUANT_H
#define HONE_QUANTIZE_REQUANT_H

#include <stdbool.h>

#include "containers/gguf.h"

/* Metadata key for the type of a quantized input. */
#define REQUANT_KEY "hone.base_type"

struct requant {
    /* Whether any tensor has fewer than 8 bits. Does not count blocks that the checkpoint was
     * released in (`hone convert --keep-mxfp4`) or Q8_0, which conversions are stored in. */
    bool quantized;
    bool spelled; /* own tensors are not quantized, but were made from a quantized file */
    bool q8;      /* the coarsest type is Q8_0 */
    /* Type of this file or, if `spelled`, of the file it was made from: general.file_type
     * ("Q4_K_M"), else the type with most bytes. */
    char type[32];
};
void requant_look(const struct gguf *g, struct requant *r);
/* Opens the file and fails with ERR_USAGE, naming --allow-requantize, if it is quantized. */
int requant_check(const char *path, struct requant *r, struct err *e);

#endif
