// SPDX-License-Identifier: MIT
/* kernels/agree.c - before AMX is used: does this processor, with what the compiler made of the
 * tile instructions, compute what AVX-512 does? Other programs were seen to compute nonsense at
 * full speed when compiled by gcc 12, whose declarations of these instructions lack their operands
 * in memory. 16 rows of 512 weights and 33 tokens (two tiles and a third of one) of every type. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "kernels/bench.h"
#include "kernels/ops.h"
#include "kernels/pack.h"

enum { ROWS = 16, K = 2 * QK, TOKENS = 33 };

struct trial {
    struct kern_act act[TOKENS][K / QK];
    uint8_t w[ROWS * 2 * K], packed[ROWS * 2 * K]; /* No packed type has 2 bytes per weight. */
    float out[2][TOKENS][ROWS];
};

static bool same(struct trial *x, enum qtype t, const struct kern *a, const struct kern *b,
                 struct rng *r, void *scratch) {
    const int64_t n_blocks = K / qtype_info(t)->block_elems;
    float v[K];
    kern_random_blocks(t, r, x->w, ROWS * n_blocks);
    kern_pack(t, ROWS, x->w, qtype_row_bytes(t, K), n_blocks, x->packed);
    for (int i = 0; i < TOKENS; i++) {
        for (int j = 0; j < K; j++) v[j] = rng_normal(r);
        kern_act(b, t, v, K, x->act[i]);
    }
    a->op[t].gemm(x->packed, 1, x->act[0], K / QK, TOKENS, x->out[0][0], ROWS, K, scratch);
    b->op[t].gemm(x->packed, 1, x->act[0], K / QK, TOKENS, x->out[1][0], ROWS, K, scratch);
    return memcmp(x->out[0], x->out[1], sizeof x->out[0]) == 0;
}

bool kern_agree(const struct kern *a, const struct kern *b) {
    struct trial *x = xcalloc(1, sizeof *x);
    void *scratch = NULL;
    struct err e;
    struct rng r;
    rng_seed(&r, 1);
    bool ok = mem_alloc(&scratch, (uint64_t)kern_gemm_scratch(ROWS, K), "scratch", &e) == 0;
    for (int t = 0; t < QT_COUNT && ok; t++)
        if (a->op[t].rows == ROWS && b->op[t].rows == ROWS)
            ok = same(x, (enum qtype)t, a, b, &r, scratch);
    mem_free(scratch);
    free(x);
    return ok;
}
