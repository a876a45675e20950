// SPDX-License-Identifier: MIT
/* quantize/enc/unpack.h - decoding of encoded blocks into raw blocks (raw.h) and grid blocks
 * (gridq.h): the inverse of pack.h for codes of up to five bits, and of grid_pack.h for IQ2 and
 * IQ3. */
#ifndef HONE_QUANTIZE_ENC_UNPACK_H
#define HONE_QUANTIZE_ENC_UNPACK_H

#include "containers/qtype.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/raw.h"

/* Returns whether enc_unpack knows the type. */
bool enc_can_unpack(enum qtype t);
/* Sets o to the block at `blk`, so that packing it gives the same bytes, and enc_raw_value the
 * decoded weights. */
void enc_unpack(enum qtype t, const void *restrict blk, struct enc_raw *restrict o);
/* Returns whether enc_unpack_grid knows the type. */
bool enc_can_unpack_grid(enum qtype t);
/* Sets o to the block of a grid type (gridq.h) at `blk`, so that packing it gives the same bytes.
 */
void enc_unpack_grid(enum qtype t, const void *restrict blk, struct grid_block *restrict o);
/* Packs a block of any grid type. */
void enc_pack_grid(enum qtype t, const struct grid_block *o, void *blk);

#endif
