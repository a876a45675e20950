// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/families.cuh - the searches and packers of raw blocks as template arguments,
 * for rows.cu and feedback.cu. */
#ifndef HONE_QUANTIZE_ENC_CUDA_FAMILIES_CUH
#define HONE_QUANTIZE_ENC_CUDA_FAMILIES_CUH

#include "quantize/enc/cuda/lanes.cuh"

#include "quantize/enc/lanes_aff.h"
#include "quantize/enc/lanes_b32.h"
#include "quantize/enc/lanes_sym.h"

/* How a family searches its part of a row: search(how, mem, x, imp, number of blocks, open). */
struct aff_family {
    CU_DEV void search(const struct enc_how *h, const struct lanes_mem *m, const float *x,
                       const float *imp, int, struct enc_raw *o) {
        aff_block(h, m, x, imp, o);
    }
};
struct sym_family {
    CU_DEV void search(const struct enc_how *h, const struct lanes_mem *m, const float *x,
                       const float *imp, int, struct enc_raw *o) {
        sym_block(h, m, x, imp, o);
    }
};
struct b32_family {
    CU_DEV void search(const struct enc_how *h, const struct lanes_mem *m, const float *x,
                       const float *imp, int n, struct enc_raw *o) {
        b32_tile(h, m, x, imp, n, o);
    }
};

#define CLOSER(T)                                                                                  \
    struct close_##T {                                                                             \
        CU_DEV void pack(const struct enc_raw *o, uint8_t *blk) {                                  \
            enc_pack_##T(o, blk);                                                                  \
        }                                                                                          \
    };
ENC_RAW_TYPES(CLOSER)
#undef CLOSER

#endif
