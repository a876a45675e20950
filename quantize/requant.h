// SPDX-License-Identifier: MIT
/* quantize/requant.h - was a model quantized already? What a quantizer takes from a quant is its
 * error too: the divergence of the result from its input then says nothing about the original. */
#ifndef HONE_QUANTIZE_REQUANT_H
#define HONE_QUANTIZE_REQUANT_H

#include <stdbool.h>

#include "containers/gguf.h"

/* The key by which an output names the type of an input that was quantized. */
#define REQUANT_KEY "hone.base_type"

struct requant {
    /* Tells that something is in fewer than 8 bits. That does not count for the blocks that a
     * checkpoint was released in, as `hone convert --keep-mxfp4` keeps them, nor for Q8_0, in
     * which conversions are stored. */
    bool quantized;
    bool spelled;  /* its own tensors are not, but those of the file that it was made of */
    bool q8;       /* the coarsest type is Q8_0 */
    char type[32]; /* "Q4_K_M": general.file_type, else the type of most bytes; of the file that it
                      was made of where `spelled` */
};
void requant_look(const struct gguf *g, struct requant *r);
/* Fails with ERR_USAGE, which names --allow-requantize, when the file was quantized. The file is
 * opened for that. */
int requant_check(const char *path, struct requant *r, struct err *e);

#endif
