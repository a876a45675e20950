// SPDX-License-Identifier: MIT
/* kernels/ops.h - private to kernels/: what each kernel file exports, declared from ops.def, and
 * the functions that put one ISA's operators into a struct kern. Nothing else may include it. */
#ifndef HONE_KERNELS_OPS_H
#define HONE_KERNELS_OPS_H

#include "kernels/kern.h"

#define KERN_OPS(isa, T) extern const struct kern_ops kern_##isa##_##T;
#include "kernels/ops.def"
#undef KERN_OPS

void kern_ref_act(struct kern *k); /* act_quant */
void kern_ref_f32(struct kern *k); /* everything else */
#if defined(__x86_64__)
void kern_avx2_act(struct kern *k);
void kern_avx2_f32(struct kern *k);
void kern_avx2_gemm(struct kern *k); /* gemm_f32, dot_f32 */
void kern_avx2_seq(struct kern *k);  /* conv_silu, delta_rows */
void kern_avx512_gemm(struct kern *k);
void kern_avx512_seq(struct kern *k);
#endif

#endif
