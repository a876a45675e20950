// SPDX-License-Identifier: MIT
/* kernels/pack.h - packed rows: the blocks of `rows` neighbouring weight rows interleaved, so that
 * one vector holds the same few weights of every row and nothing is ever summed across lanes.
 *
 * A packed group of a type with blocks of B bytes: for every block along k, rows * B bytes, the
 * fields in the file's order. A field at offset o of the block, made of units of 1, 2 or 4 bytes,
 * begins at rows * o; unit u of row r lies at rows * o + (u * rows + r) * size. Four codes (or
 * eight nibbles) of a row are a unit of 4. Q3_K, Q5_K and Q6_K, whose files keep the low and high
 * bits of a code apart, and IQ2_XS are first rewritten block by block (pack.c), so that a product
 * walks a group once from its first byte to its last. The bits are the file's, only moved: same
 * size, and unpacking gives the file's bytes back. Groups follow one another as rows do in the
 * file. */
#ifndef HONE_KERNELS_PACK_H
#define HONE_KERNELS_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/qtype.h"

enum {
    ROWS_PANEL = 428
    /* A gemm may unpack a block of 256 weights of a row to so many bytes: codes, scales and
     * minima. I8MM takes most; AVX2 and AVX-512 take 364, AMX has no need of it. */
};

/* 256 activations as the packed kernels read them. d has the scale of every 32; they are all the
 * same when the codes share a scale. s16 and s32 are sums of the codes, abs the codes without
 * signs. Beyond the end of a row codes are 0. In an array that begins at a line of the cache codes
 * begin at one, too, which AMX reads half again as fast. */
struct kern_act {
    float d[8];
    int16_t s16[16], s32[8];
    uint8_t unused[48];
    int8_t qs[256];
    uint8_t abs[256];
};

/* Tells whether the type has a packed form. */
bool kern_packs(enum qtype t);
/* Packs one group, n_blocks blocks of each of `rows` rows. src has the rows at stride row_bytes;
 * dst gets rows * n_blocks * block bytes, contiguous. kern_unpack does the reverse. */
void kern_pack(enum qtype t, int rows, const uint8_t *src, uint64_t row_bytes, int64_t n_blocks,
               uint8_t *dst);
void kern_unpack(enum qtype t, int rows, const uint8_t *src, int64_t n_blocks, uint8_t *dst,
                 uint64_t row_bytes);

struct kern;
/* Activations of n weights of type t (n a multiple of its block): the codes and scales of the
 * type's dot partner. dst: kern_act_blocks(n) of them. */
int64_t kern_act_blocks(int64_t n);
void kern_act(const struct kern *k, enum qtype t, const float *x, int64_t n, struct kern_act *dst);

#endif
