// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_xxs.c - IQ2_XXS by NEON: rows as the file has them, and packed, 8 at a time. */
#include "kernels/neon/iq2_xxs.h"

IQ_OPS(neon, IQ2_XXS);
