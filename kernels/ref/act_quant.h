// SPDX-License-Identifier: MIT
/* kernels/ref/act_quant.h - dispatch of activation quantization by format. Included once by an
 * ISA's act.c, after its quant_q8_0, quant_q8_1 and quant_q8_k. */
#include <string.h>

#include "containers/qtype.h"

/* Writes n values of x to dst as blocks of type t, or unchanged if t has no blocks. */
static void act_quant(enum qtype t, const float *restrict x, void *restrict dst, int64_t n) {
    if (t == QT_Q8_0)
        quant_q8_0(x, dst, n);
    else if (t == QT_Q8_1)
        quant_q8_1(x, dst, n);
    else if (t == QT_Q8_K)
        quant_q8_k(x, dst, n);
    else
        memcpy(dst, x, (size_t)n * sizeof *x);
}
