// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq1_m.c - IQ1_M by NEON with FEAT_DotProd: rows as the file has them, and packed,
 * 8 at a time. */
#include "kernels/neon/iq1_m.h"

IQ_OPS(dotprod, IQ1_M);
