// SPDX-License-Identifier: MIT
/* kernels/neon/iq3_xxs.c - IQ3_XXS by NEON: rows as the file has them, and packed, 8 at a time. */
#include "kernels/neon/iq3_xxs.h"

IQ_OPS(neon, IQ3_XXS);
