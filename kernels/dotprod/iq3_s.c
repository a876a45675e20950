// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq3_s.c - IQ3_S by NEON with FEAT_DotProd: rows as the file has them, and packed,
 * 8 at a time. */
#include "kernels/neon/iq3_s.h"

IQ_OPS(dotprod, IQ3_S);
