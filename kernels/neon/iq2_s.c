// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_s.c - IQ2_S by NEON: rows as the file has them, and packed, 8 at a time. */
#include "kernels/neon/iq2_s.h"

IQ_OPS(neon, IQ2_S);
