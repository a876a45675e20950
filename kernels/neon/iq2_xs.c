// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_xs.c - IQ2_XS by NEON, as the file has it. */
#include "kernels/neon/iq2_xs.h"

IQ_OPS(neon, IQ2_XS);
