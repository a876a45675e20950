// SPDX-License-Identifier: MIT
/* kernels/grid.h - the level vectors of the IQ1, IQ2 and IQ3 formats, and their 7-bit sign index.
 */
#ifndef HONE_KERNELS_GRID_H
#define HONE_KERNELS_GRID_H

#include <stdint.h>

enum { KERN_IQ1 = 2048 }; /* vectors of IQ1 before shifting */
struct kern_grid {
    uint8_t iq2_xxs[256][8], iq2_xs[512][8], iq2_s[1024][8];
    uint8_t iq3_xxs[256][4], iq3_s[512][4];
    int8_t iq1[2 * KERN_IQ1][8]; /* -1, 0, 1 in eighths; first shifted up by one, then down */
    uint8_t sign[128];           /* 8 sign bits (set: negative); bit 7 makes their number even */
    /* The numbers of the levels, element 0 lowest: of IQ2 in 2 bits, elements 0..3 and 4..7 of a
     * vector; of IQ3 in nibbles, elements 0, 1 and 2, 3. */
    uint8_t iq2_xxs_no[2][256], iq2_xs_no[2][512], iq2_s_no[2][1024];
    uint8_t iq3_xxs_no[2][256], iq3_s_no[2][512];
};
/* Expanded once, by the first caller; any thread. Never NULL, and always the same: a compiler may
 * call it once for a loop. */
__attribute__((const)) const struct kern_grid *kern_grid_get(void);

#endif
