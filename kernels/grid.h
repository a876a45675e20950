// SPDX-License-Identifier: MIT
/* kernels/grid.h - level vectors of the IQ1, IQ2 and IQ3 formats, and their 7-bit sign index. */
#ifndef HONE_KERNELS_GRID_H
#define HONE_KERNELS_GRID_H

#include <stdint.h>

enum { KERN_IQ1 = 2048 }; /* vectors of IQ1 before shifting */
struct kern_grid {
    uint8_t iq2_xxs[256][8], iq2_xs[512][8], iq2_s[1024][8];
    uint8_t iq3_xxs[256][4], iq3_s[512][4];
    /* -1, 0 and 1 in eighths: first all vectors shifted up by one eighth, then all vectors shifted
     * down. */
    int8_t iq1[2 * KERN_IQ1][8];
    /* 8 sign bits (set: negative) per 7-bit index; bit 7 makes the number of set bits even. */
    uint8_t sign[128];
    /* Level numbers, element 0 in the lowest bits. IQ2 has 2 bits per element: [0] for elements
     * 0 to 3 of a vector, [1] for 4 to 7. IQ3 has nibbles: [0] for elements 0 and 1, [1] for 2
     * and 3. */
    uint8_t iq2_xxs_no[2][256], iq2_xs_no[2][512], iq2_s_no[2][1024];
    uint8_t iq3_xxs_no[2][256], iq3_s_no[2][512];
};
/* Returns the tables, which the first call expands. Thread-safe. The pointer is never NULL and
 * never changes, so a compiler may hoist the call out of a loop. */
__attribute__((const)) const struct kern_grid *kern_grid_get(void);

#endif
