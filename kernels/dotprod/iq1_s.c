// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq1_s.c - IQ1_S by NEON with FEAT_DotProd: rows as the file has them, and packed,
 * 8 at a time. */
#include "kernels/neon/iq1_s.h"

IQ_OPS(dotprod, IQ1_S);
