// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq2_xs.c - IQ2_XS by NEON with FEAT_DotProd: rows as the file has them, and
 * packed, 8 at a time. */
#include "kernels/neon/iq2_xs.h"

IQ_OPS(dotprod, IQ2_XS);
