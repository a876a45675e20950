// SPDX-License-Identifier: MIT
/* kernels/neon/iq1_s.c - IQ1_S by NEON: rows as the file has them, and packed, 8 at a time. */
#include "kernels/neon/iq1_s.h"

IQ_OPS(neon, IQ1_S);
