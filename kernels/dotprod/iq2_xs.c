// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq2_xs.c - IQ2_XS by NEON with FEAT_DotProd, as the file has it. */
#include "kernels/neon/iq2_xs.h"

IQ_OPS(dotprod, IQ2_XS);
