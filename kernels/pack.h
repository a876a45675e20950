// SPDX-License-Identifier: MIT
/* kernels/pack.h - packed rows: the blocks of `rows` adjacent weight rows are interleaved, so that
 * one vector holds the same few weights of every row, and no sum crosses lanes.
 *
 * If a type's blocks have B bytes, a packed group has rows * B bytes for every block along k, with
 * fields in file order. A field at offset o of the block, made of units of 1, 2 or 4 bytes, begins
 * at rows * o; unit u of row r is at rows * o + (u * rows + r) * size. Four codes (or eight
 * nibbles) of a row form a unit of 4. Q3_K, Q5_K and Q6_K, whose files store the low and high bits
 * of a code separately, and IQ2_XS are first rewritten block by block (pack.c), so that a product
 * reads a group once from start to end. The bits are only moved: the size is the same, and
 * unpacking restores the file's bytes. Groups follow one another in the order of the file's
 * rows. */
#ifndef HONE_KERNELS_PACK_H
#define HONE_KERNELS_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/qtype.h"

enum {
    ROWS_PANEL = 428
    /* Maximum size of an unpacked block of 256 weights of a row, in bytes: codes, scales and
     * minima. I8MM needs the most; AVX2 and AVX-512 need 364, AMX none. */
};

/* 256 activations as the packed kernels read them. d holds a scale for every 32 activations; all
 * are equal if the codes share one scale. s16 and s32 are sums of codes, abs the codes without
 * signs. Codes beyond the end of a row are 0. In an array aligned to cache lines the codes are
 * aligned too, so AMX reads them 1.5x as fast. */
struct kern_act {
    float d[8];
    int16_t s16[16], s32[8];
    uint8_t unused[48];
    int8_t qs[256];
    uint8_t abs[256];
};

/* Returns whether the type has a packed form. */
bool kern_packs(enum qtype t);
/* Packs one group: n_blocks blocks of each of `rows` rows. Rows are row_bytes apart in src; dst
 * receives rows * n_blocks blocks. kern_unpack does the reverse. */
void kern_pack(enum qtype t, int rows, const uint8_t *src, uint64_t row_bytes, int64_t n_blocks,
               uint8_t *dst);
/* Restores rows from a packed group; the inverse of kern_pack. */
void kern_unpack(enum qtype t, int rows, const uint8_t *src, int64_t n_blocks, uint8_t *dst,
                 uint64_t row_bytes);

struct kern;
/* Returns the number of kern_act blocks for n weights. kern_act() fills that many at dst with
 * the codes and scales of type t's dot partner; n is a multiple of the type's block size. */
int64_t kern_act_blocks(int64_t n);
/* Rounds n activations for packed products; dst has one struct per QK values. */
void kern_act(const struct kern *k, enum qtype t, const float *x, int64_t n, struct kern_act *dst);

#endif
