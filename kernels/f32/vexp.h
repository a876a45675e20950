// SPDX-License-Identifier: MIT
/* kernels/f32/vexp.h - exponential and sigmoid of 8 floats. Static inline functions, included
 * after an ISA's f8.h. */
#ifndef HONE_KERNELS_F32_VEXP_H
#define HONE_KERNELS_F32_VEXP_H

/* Returns e^x with a relative error of about 2e-7: for x = n ln2 + r with |r| <= ln2/2, a
 * polynomial of degree 6 in r is scaled by 2^n. Below -87.3 the result is 0, above 88.3 it is
 * e^88.3. NaN stays NaN. */
INLINE f8 vexp(f8 x) {
    const f8 v = f_min(f_set(88.3f), f_max(f_set(-87.3f), x));
    const f8 n = f_round(f_mul(v, f_set(0x1.715476p+0f)));
    /* ln2 in two parts. The first has few bits, so n times it is exact. */
    f8 r = f_fnma(n, f_set(0x1.62e4p-1f), v);
    r = f_fnma(n, f_set(0x1.7f7d1cp-20f), r);
    f8 p = f_set(1.0f / 720);
    p = f_fma(p, r, f_set(1.0f / 120));
    p = f_fma(p, r, f_set(1.0f / 24));
    p = f_fma(p, r, f_set(1.0f / 6));
    p = f_fma(p, r, f_set(0.5f));
    p = f_fma(p, r, f_set(1.0f));
    p = f_fma(p, r, f_set(1.0f));
    return f_zero_below(x, f_set(-87.3f), f_mul(p, f_power(n)));
}
INLINE f8 vsigmoid(f8 x) {
    const f8 one = f_set(1.0f);
    return f_div(one, f_add(one, vexp(f_sub(f_set(0), x))));
}

#endif
