// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_xs.c - IQ2_XS by NEON: rows as the file has them, and packed, 8 at a time. */
#include "kernels/neon/iq2_xs.h"

IQ_OPS(neon, IQ2_XS);
