// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq3_xxs.c - IQ3_XXS by NEON with FEAT_DotProd: rows as the file has them, and
 * packed, 8 at a time. */
#include "kernels/neon/iq3_xxs.h"

IQ_OPS(dotprod, IQ3_XXS);
