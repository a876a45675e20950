// SPDX-License-Identifier: MIT
/* quantize/requant.h - check for models that have already been quantized. Quantizing them again
 * keeps their errors, which a divergence measured against that input does not show. */
#ifndef HONE_QUANTIZE_REQUANT_H
#define HONE_QUANTIZE_REQUANT_H

#include <stdbool.h>

#include "containers/gguf.h"

/* Metadata key for the type of a quantized input. */
#define REQUANT_KEY "hone.base_type"

struct requant {
    /* Whether any tensor has fewer than 8 bits. Two kinds do not count: blocks in which the
     * checkpoint was released (`hone convert --keep-mxfp4`), and Q8_0, in which conversions are
     * stored. */
    bool quantized;
    bool spelled; /* the tensors are not quantized, but were made from a quantized file */
    bool q8;      /* the coarsest type is Q8_0 */
    /* Type of this file or, if `spelled`, of the file that it was made from: general.file_type
     * ("Q4_K_M"), or else the type with the most bytes. */
    char type[32];
};
/* Determines whether, and how, a file is already quantized. */
void requant_look(const struct gguf *g, struct requant *r);
/* Opens the file and fails with ERR_USAGE if it is quantized; the message names
 * --allow-requantize. */
int requant_check(const char *path, struct requant *r, struct err *e);

#endif
