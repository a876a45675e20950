// SPDX-License-Identifier: MIT
/* kernels/neon/iq3_xxs.c - IQ3_XXS by NEON, as the file has it. */
#include "kernels/neon/iq3_xxs.h"

IQ_OPS(neon, IQ3_XXS);
