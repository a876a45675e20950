// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq2_s.c - IQ2_S by NEON with FEAT_DotProd, as the file has it. */
#include "kernels/neon/iq2_s.h"

IQ_OPS(dotprod, IQ2_S);
