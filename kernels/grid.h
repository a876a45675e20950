// SPDX-License-Identifier: MIT
/* kernels/grid.h - the level vectors of the IQ1, IQ2 and IQ3 formats, and their 7-bit sign index.
 */
#ifndef HONE_KERNELS_GRID_H
#define HONE_KERNELS_GRID_H

#include <stdint.h>

enum { KERN_IQ1 = 2048 }; /* The vectors of IQ1 before they are shifted. */
struct kern_grid {
    uint8_t iq2_xxs[256][8], iq2_xs[512][8], iq2_s[1024][8];
    uint8_t iq3_xxs[256][4], iq3_s[512][4];
    /* -1, 0 and 1 in eighths: first all vectors shifted up by one, then all shifted down. */
    int8_t iq1[2 * KERN_IQ1][8];
    /* The 8 sign bits (set: negative) for 7 of them; bit 7 makes their number even. */
    uint8_t sign[128];
    /* The numbers of the levels, element 0 lowest. IQ2 has 2 bits for each: first elements 0 to
     * 3 of a vector, then 4 to 7. IQ3 has nibbles: first elements 0 and 1, then 2 and 3. */
    uint8_t iq2_xxs_no[2][256], iq2_xs_no[2][512], iq2_s_no[2][1024];
    uint8_t iq3_xxs_no[2][256], iq3_s_no[2][512];
};
/* Returns the tables, which the first caller expands; any thread may call it. It is never NULL
 * and always the same, so a compiler may call it once for a loop. */
__attribute__((const)) const struct kern_grid *kern_grid_get(void);

#endif
