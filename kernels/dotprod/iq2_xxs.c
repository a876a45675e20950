// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq2_xxs.c - IQ2_XXS by NEON with FEAT_DotProd: rows as the file has them, and
 * packed, 8 at a time. */
#include "kernels/neon/iq2_xxs.h"

IQ_OPS(dotprod, IQ2_XXS);
