// SPDX-License-Identifier: MIT
/* Tests of quantize/synth_blocks.c: random blocks of every type, as used in synthetic models. */
#include <math.h>
#include <stdlib.h>

#include "base/fp.h"
#include "base/mem.h"
#include "kernels/kern.h"
#include "quantize/enc/enc.h"
#include "quantize/synth.h"
#include "tests/check.h"

enum { BLOCKS = 2000 };

/* Checks that every weight is finite and that their root mean square is 0.02 within 4 %, since
 * scales vary by a quarter (1 %), few of them are drawn (1 %), and FP4 exponents are powers of two
 * (5 %). */
static void check_type(const struct kern *k, enum qtype t) {
    const struct qtype_info *info = qtype_info(t);
    int64_t n = (int64_t)BLOCKS * info->block_elems;
    uint8_t *blk = xcalloc(BLOCKS, (size_t)info->block_bytes);
    float *x = xcalloc((size_t)n, sizeof *x);
    struct rng r;
    rng_seed(&r, 7);
    CHECK(synth_blocks(t, &r, blk, BLOCKS));
    k->op[t].decode(blk, x, n);
    double sum = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        finite = finite && isfinite(x[i]);
        sum += (double)x[i] * (double)x[i];
    }
    CHECK(finite);
    double rms = sqrt(sum / (double)n), tolerance = t == QT_MXFP4 || t == QT_NVFP4 ? 0.06 : 0.04;
    if (!(fabs(rms / 0.02 - 1) < tolerance)) fprintf(stderr, "%s: rms %g\n", info->name, rms);
    CHECK(fabs(rms / 0.02 - 1) < tolerance);
    free(blk);
    free(x);
}

static void test_all_types_that_can_be_written(void) {
    struct kern k;
    kern_init(&k, KERN_REF);
    int n = 0;
    for (int t = 0; t < QT_COUNT; t++) {
        const struct qtype_info *info = qtype_info(t);
        if (!info || !(info->flags & (QF_QUANT | QF_FLOAT)) || !enc_find((enum qtype)t)) continue;
        check_type(&k, (enum qtype)t);
        n++;
    }
    CHECK_EQ_I64(n, 28);
}

static void test_refuses_what_it_cannot_make(void) {
    struct rng r = {1};
    uint8_t out[512];
    CHECK(!synth_blocks(QT_Q8_1, &r, out, 1));
}

int main(void) {
    RUN(test_all_types_that_can_be_written);
    RUN(test_refuses_what_it_cannot_make);
    return check_done();
}
