// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq1_s.c - IQ1_S by NEON with FEAT_DotProd, as the file has it. */
#include "kernels/neon/iq1_s.h"

IQ_OPS(dotprod, IQ1_S);
