// SPDX-License-Identifier: MIT
/* kernels/neon/iq3_s.c - IQ3_S by NEON, as the file has it. */
#include "kernels/neon/iq3_s.h"

IQ_OPS(neon, IQ3_S);
