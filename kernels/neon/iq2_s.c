// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_s.c - IQ2_S by NEON, as the file has it. */
#include "kernels/neon/iq2_s.h"

IQ_OPS(neon, IQ2_S);
