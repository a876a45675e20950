// SPDX-License-Identifier: MIT
/* kernels/neon/iq1_m.c - IQ1_M by NEON, as the file has it. */
#include "kernels/neon/iq1_m.h"

IQ_OPS(neon, IQ1_M);
