// SPDX-License-Identifier: MIT
/* kernels/neon/iq1_m.c - IQ1_M by NEON: rows as the file has them, and packed, 8 at a time. */
#include "kernels/neon/iq1_m.h"

IQ_OPS(neon, IQ1_M);
