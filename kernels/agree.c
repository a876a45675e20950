// SPDX-License-Identifier: MIT
/* kernels/agree.c - comparison of two instruction sets' packed products; AMX must pass it before it
 * is used.
 *
 * It detects processors or compilers with faulty tile instructions: gcc 12 declares these
 * instructions without their memory operands, and other programs compiled with it were seen to
 * compute nonsense at full speed. Each type is tested with 16 rows of 512 weights and 33 tokens:
 * three tiles, the last of which overlaps the second. */
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kernels/bench.h"
#include "kernels/ops.h"
#include "kernels/pack.h"

enum { ROWS = 16, K = 2 * QK, TOKENS = 33 };

struct trial {
    struct kern_act act[TOKENS][K / QK];
    uint8_t w[ROWS * 2 * K], packed[ROWS * 2 * K]; /* no packed type has 2 bytes per weight */
    float out[2][TOKENS][ROWS];
    _Alignas(64) uint8_t scratch[K / QK * ROWS_PANEL * ROWS];
};

/* Returns whether a and b compute the same bits for random packed rows of type t. */
static bool same_result(struct trial *x, enum qtype t, const struct kern *a, const struct kern *b,
                        struct rng *r) {
    const int64_t n_blocks = K / qtype_info(t)->block_elems;
    float v[K];
    kern_random_blocks(t, r, x->w, ROWS * n_blocks);
    kern_pack(t, ROWS, x->w, qtype_row_bytes(t, K), n_blocks, x->packed);
    for (int i = 0; i < TOKENS; i++) {
        for (int j = 0; j < K; j++) v[j] = rng_normal(r);
        kern_act(b, t, v, K, x->act[i]);
    }
    a->op[t].gemm(x->packed, 1, x->act[0], K / QK, TOKENS, x->out[0][0], ROWS, K, x->scratch);
    b->op[t].gemm(x->packed, 1, x->act[0], K / QK, TOKENS, x->out[1][0], ROWS, K, x->scratch);
    return memcmp(x->out[0], x->out[1], sizeof x->out[0]) == 0;
}

int kern_agree(const struct kern *a, const struct kern *b, bool *agree, struct err *e) {
    void *mem = NULL;
    struct rng r;
    if (mem_alloc(&mem, sizeof(struct trial), "a trial of AMX", e)) return -1;
    rng_seed(&r, 1);
    *agree = true;
    for (int t = 0; t < QT_COUNT && *agree; t++)
        if (a->op[t].rows == ROWS && b->op[t].rows == ROWS)
            *agree = same_result(mem, (enum qtype)t, a, b, &r);
    mem_free(mem);
    return 0;
}
