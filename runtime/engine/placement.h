// SPDX-License-Identifier: MIT
/* runtime/engine/placement.h - explicit placement of blocks and experts on devices (--place
 * FILE). */
#ifndef HONE_RUNTIME_ENGINE_PLACEMENT_H
#define HONE_RUNTIME_ENGINE_PLACEMENT_H

#include <stdint.h>

#include "base/err.h"

enum { PLACE_BLOCKS = 512, PLACE_ANY = -1 };
enum placement_at {
    PLACE_FREE,
    PLACE_CPU,
    PLACE_DEVICE
}; /* free: the session decides, depending on available memory */

struct placement {
    uint8_t experts[PLACE_BLOCKS]; /* enum placement_at, by block */
    int16_t layer[PLACE_BLOCKS];   /* CUDA device, by block; PLACE_ANY: not specified */
};

/* Reads a file of lines "experts FIRST[-LAST] cpu", "... device" and "layers FIRST[-LAST] cuda:N".
 * Later lines override earlier ones; "#" starts a comment; blocks without a line are free.
 * ERR_DATA, with the line number, on a syntax error. */
int placement_read(struct placement *p, const char *path, struct err *e);
/* Returns the CUDA device of a block; PLACE_ANY: not specified, or p is NULL. */
int placement_layer(const struct placement *p, int block);
/* Returns the placement of a block's experts; PLACE_FREE if p is NULL. */
enum placement_at placement_experts(const struct placement *p, int block);

#endif
