// SPDX-License-Identifier: MIT
/* kernels/packed.c - packed products of one type for one instruction set. Compiled for each
 * KERN_PACKED row of ops.def, whose columns are PACKED_ISA, _TYPE, _FILE (the type in lower
 * case), _STEPS and _PRODUCTS, with PACKED_BY_<products> defined (mk/isa.mk). */
/* clang-format would insert spaces into the paths. */
// clang-format off
#define STR_(path) #path
#define STR(path) STR_(path)
#define OPS_(isa, type) kern_##isa##_##type
#define OPS(isa, type) OPS_(isa, type)

#include STR(kernels/PACKED_STEPS.h)
#include "kernels/ops.h"
#if defined(PACKED_BY_grid)
#define GRID_OPS(isa, type) IQ_OPS(isa, type)
GRID_OPS(PACKED_ISA, PACKED_TYPE);
#else
#include STR(kernels/rows/PACKED_FILE.h)
#if defined(PACKED_BY_gemm)
const struct kern_ops OPS(PACKED_ISA, PACKED_TYPE) = {.gemm = gemm, .rows = LANES};
#elif defined(PACKED_BY_vbmi)
const struct kern_ops OPS(PACKED_ISA,
                          PACKED_TYPE) = {.gemm = gemm, .rows = LANES, .needs_vbmi = true};
#else
/* The kernel for too few tokens to fill a tile. */
#define FEW OPS(PACKED_FEW, PACKED_TYPE)
#include STR(kernels/PACKED_ISA/PACKED_PRODUCTS.h)
const struct kern_ops OPS(PACKED_ISA, PACKED_TYPE) = {.gemm = gemm_tiles, .rows = LANES};
#endif
#endif
