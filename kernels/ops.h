// SPDX-License-Identifier: MIT
/* kernels/ops.h - declarations of the kernels in ops.def, and of the functions that add an ISA's
 * operators to a struct kern. Private to kernels/. */
#ifndef HONE_KERNELS_OPS_H
#define HONE_KERNELS_OPS_H

#include "base/err.h"
#include "kernels/kern.h"

#define KERN_OPS(isa, T) extern const struct kern_ops kern_##isa##_##T;
#include "kernels/ops.def"
#undef KERN_OPS

bool kern_cpu_has(enum kern_isa isa); /* checks only the features that isa adds to its base */
bool kern_cpu_has_vbmi(
    /* Returns whether AVX-512's byte permutations (VBMI) are available; not all processors with
     * VNNI have them. */
    void);
/* Sets *agree to whether packed products of a and b give the same bits for all types that both
 * support in groups of 16 rows. Returns -1, with *e set, if out of memory. */
int kern_agree(const struct kern *a, const struct kern *b, bool *agree, struct err *e);

void kern_ref_act(struct kern *k); /* sets act_quant */
void kern_ref_f32(struct kern *k); /* sets everything else */
#if defined(__x86_64__)
/* Sets the functions of this file in *k. */
void kern_avx2_act(struct kern *k);
/* Sets the functions of this file in *k. */
void kern_avx2_f32(struct kern *k);
void kern_avx2_gemm(struct kern *k); /* sets gemm_f32 and dot_f32 */
void kern_avx2_seq(struct kern *k);  /* sets conv_silu, delta_rows and the rows of Mamba */
void kern_avx512_gemm(struct kern *k);
/* Sets the functions of this file in *k. */
void kern_avx512_seq(struct kern *k);
#elif defined(__aarch64__)
/* Sets the functions of this file in *k. */
void kern_neon_act(struct kern *k);
/* Sets the functions of this file in *k. */
void kern_neon_f32(struct kern *k);
/* Sets the functions of this file in *k. */
void kern_neon_gemm(struct kern *k);
/* Sets the functions of this file in *k. */
void kern_neon_seq(struct kern *k);
#endif

/* Checks that n rows of k floats, ld apart, are accessible, for loops built without the address
 * sanitizer (Makefile). */
#ifdef KERN_CHECK_ROWS
#include <sanitizer/asan_interface.h>
static inline void kern_check_rows(const float *p, int64_t ld, int64_t n, int64_t k) {
    void *frame = __builtin_frame_address(0);
    for (int64_t i = 0; i < n; i++) {
        void *row = (void *)(uintptr_t)(p + i * ld);
        void *bad = __asan_region_is_poisoned(row, (size_t)k * sizeof *p);
        if (bad) __asan_report_error(__builtin_return_address(0), frame, frame, bad, 0, sizeof *p);
    }
}
#else
static inline void kern_check_rows(const float *p, int64_t ld, int64_t n, int64_t k) {
    (void)p, (void)ld, (void)n, (void)k;
}
#endif

#endif
