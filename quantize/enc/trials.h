// SPDX-License-Identifier: MIT
/* quantize/enc/trials.h - the vector loops of the trial searches, for several instruction sets. The
 * including file of trials_tmpl.h defines the width; every lane computes what a scalar loop would,
 * in the same order and without fused operations, so all widths give the same bits
 * (tests/unit/test_enc.c). search.h documents what the searches are for. */
#ifndef HONE_QUANTIZE_ENC_TRIALS_H
#define HONE_QUANTIZE_ENC_TRIALS_H

#include "kernels/kern.h"
#include "quantize/enc/search.h"

struct aff_start { /* starts of an affine search: codes (x - lo) * iscale */
    const float *iscale, *lo;
    int n, iters;
    bool abs_err, free_min;
};
struct enc_trials {
    struct sym_fit (*sym)(const struct levels *lv, int n_x, const float *x, const float *w,
                          const float *iscale, int n, int iters);
    void (*sym_errors)(const struct levels *lv, int n_x, const float *x, const float *w,
                       const float *d, int n, float *err);
    struct aff_fit (*aff)(int n_x, const float *x, const float *w, int qmax,
                          const struct aff_start *st);
    void (*aff_errors)(int n_x, const float *x, const float *w, int qmax, const float *d,
                       const float *m, int n, float *err);
};
extern const struct enc_trials enc_trials_base, enc_trials_avx2, enc_trials_avx512;
extern const float enc_iq4_level[512]; /* the level nearest to v, at trunc(256 - 2v) */

#endif
