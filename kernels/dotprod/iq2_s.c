// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq2_s.c - IQ2_S by NEON with FEAT_DotProd: rows as the file has them, and packed,
 * 8 at a time. */
#include "kernels/neon/iq2_s.h"

IQ_OPS(dotprod, IQ2_S);
