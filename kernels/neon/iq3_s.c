// SPDX-License-Identifier: MIT
/* kernels/neon/iq3_s.c - IQ3_S by NEON: rows as the file has them, and packed, 8 at a time. */
#include "kernels/neon/iq3_s.h"

IQ_OPS(neon, IQ3_S);
