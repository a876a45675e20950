// SPDX-License-Identifier: MIT
/* kernels/neon/neon.h - small helpers for the ARM64 kernels. Every ARM64 processor has NEON. Static
 * inline functions only. */
#ifndef HONE_KERNELS_NEON_NEON_H
#define HONE_KERNELS_NEON_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#define ROLLED _Pragma("GCC unroll 1")
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE float half(uint16_t h) {
    float16_t v;
    memcpy(&v, &h, sizeof v);
    return (float)v;
}
/* Loads four half-precision values. */
INLINE float32x4_t halves(const void *p) {
    uint16x4_t v;
    memcpy(&v, p, sizeof v);
    return vcvt_f32_f16(vreinterpret_f16_u16(v));
}

#endif
