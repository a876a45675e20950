// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_xxs.c - IQ2_XXS by NEON, as the file has it. */
#include "kernels/neon/iq2_xxs.h"

IQ_OPS(neon, IQ2_XXS);
