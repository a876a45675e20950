// SPDX-License-Identifier: MIT
/* kernels/neon/iq1_s.c - IQ1_S by NEON, as the file has it. */
#include "kernels/neon/iq1_s.h"

IQ_OPS(neon, IQ1_S);
