// SPDX-License-Identifier: MIT
/* kernels/cuda/limits.h - the sizes that the CUDA kernels support. A session checks every node when
 * it opens; launchers check again. The kernels take their constants from the same rows. */
#ifndef HONE_KERNELS_CUDA_LIMITS_H
#define HONE_KERNELS_CUDA_LIMITS_H

#include "base/err.h"
#include "containers/qtype.h"

/* LIMIT(ID, what a size counts, a divisor of all supported sizes, the largest one) */
#define CU_LIMITS(LIMIT)                                                                           \
    LIMIT(HEAD, "values per head in a cache of f32 or f16", 8, 512)                                \
    LIMIT(HEAD_CODES, "values per head in a cache of q8_0 or q4_0", 32, 512)                       \
    LIMIT(HEAD_MATRIX, "values per head that has a matrix of its own", 1, 3072)                    \
    LIMIT(TAPS, "taps of a convolution", 1, 8)                                                     \
    LIMIT(DELTA_KEY, "values per key of the delta rule", 4, 256)                                   \
    LIMIT(STATE, "values per row of a recurrent state", 1, 256)                                    \
    LIMIT(EXPERTS, "experts", 1, 1024)                                                             \
    LIMIT(GROUPS, "groups of experts", 1, 256)

enum cu_limit {
#define ROW(id, what, of, most) CU_##id,
    CU_LIMITS(ROW)
#undef ROW
};
enum {
#define ROW(id, what, of, most) CU_MOST_##id = most,
    CU_LIMITS(ROW)
#undef ROW
};

/* Returns ERR_USAGE unless n is a supported size. */
static inline int cu_check(enum cu_limit l, int64_t n, struct err *e) {
    static const struct {
        const char *what, *rule;
        int of, most;
    } row[] = {
#define ROW(id, what, of, most) {what, (of) > 1 ? ", a multiple of " #of : "", of, most},
        CU_LIMITS(ROW)
#undef ROW
    };
    if (n >= 1 && n <= row[l].most && n % row[l].of == 0) return 0;
    return err_set(e, ERR_USAGE, "CUDA has no kernels for %lld %s (at most %d%s): use --device cpu",
                   (long long)n, row[l].what, row[l].most, row[l].rule);
}
/* Returns the limit of heads in a cache of this type. */
static inline enum cu_limit cu_head_limit(enum qtype t) {
    return qtype_info(t)->block_elems > 1 ? CU_HEAD_CODES : CU_HEAD;
}

#endif
