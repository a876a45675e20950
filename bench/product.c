// SPDX-License-Identifier: MIT
/* bench/product.c - repeats one kind of product, for tools that count instructions.
 *
 * product ISA TYPE TOKENS TIMES: multiplies 16 rows of 2048 weights by TOKENS activation rows, with
 * packed rows if this instruction set has them for the type, otherwise row by row. A TYPE of
 * decode:NAME decodes rows of type NAME instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kernels/bench.h"
#include "kernels/pack.h"

enum { ROWS = 16, K = 2048 };

struct product {
    struct kern k;
    enum qtype t;
    int64_t n_tok, row;
    uint8_t *w, *packed;
    void *act, *scratch;
    float *out;
};

/* Fills weights and inputs with random values and packs the weights. */
static void make_product(struct product *p) {
    struct rng r;
    struct kern_act *a = p->act;
    float x[K];
    rng_seed(&r, 1);
    kern_random_blocks(p->t, &r, p->w, ROWS * K / qtype_info(p->t)->block_elems);
    for (int64_t i = 0; i < p->n_tok; i++) {
        for (int j = 0; j < K; j++) x[j] = rng_normal(&r);
        if (p->k.op[p->t].gemm)
            kern_act(&p->k, p->t, x, K, a + i * kern_act_blocks(K));
        else
            p->k.act_quant(
                kern_dot_partner(p->t), x,
                (uint8_t *)p->act + i * (int64_t)qtype_row_bytes(kern_dot_partner(p->t), K), K);
    }
    const int rows = p->k.op[p->t].rows;
    for (int i = 0; rows && i < ROWS; i += rows)
        kern_pack(p->t, rows, p->w + i * p->row, (uint64_t)p->row,
                  K / qtype_info(p->t)->block_elems, p->packed + i * p->row);
}

/* Computes all products once, by decoding the weights if `decode` is set, otherwise by dot
 * products. */
static void run_once(const struct product *p, bool decode) {
    const struct kern_ops *op = &p->k.op[p->t];
    const enum qtype partner = kern_dot_partner(p->t);
    if (decode)
        for (int i = 0; i < ROWS; i++) op->decode(p->w + i * p->row, p->out, K);
    else if (op->gemm)
        op->gemm(p->packed, ROWS / op->rows, p->act, kern_act_blocks(K), p->n_tok, p->out, ROWS, K,
                 p->scratch);
    else
        for (int i = 0; i < ROWS; i++)
            for (int64_t t = 0; t < p->n_tok; t++)
                p->out[t * ROWS + i] =
                    op->dot(p->w + i * p->row,
                            (uint8_t *)p->act + t * (int64_t)qtype_row_bytes(partner, K), K);
}

int main(int argc, char **argv) {
    struct product p = {0};
    enum kern_isa isa;
    if (argc != 5 || !kern_isa_parse(argv[1], &isa)) return 2;
    const bool decode = strncmp(argv[2], "decode:", 7) == 0;
    p.n_tok = strtol(argv[3], NULL, 10);
    if (!qtype_parse(decode ? argv[2] + 7 : argv[2], &p.t) || p.n_tok < 1 || p.n_tok > 512)
        return 2;
    kern_init(&p.k, isa);
    if (p.k.isa != isa) return 77;
    p.row = (int64_t)qtype_row_bytes(p.t, K);
    p.w = xcalloc(ROWS, (size_t)p.row);
    p.packed = xcalloc(ROWS, (size_t)p.row);
    p.act = aligned_alloc(64, (size_t)p.n_tok * (K / 256 * sizeof(struct kern_act) + 4 * K));
    p.out = xcalloc((size_t)p.n_tok * ROWS + K, sizeof *p.out);
    p.scratch = aligned_alloc(64, (size_t)kern_gemm_scratch(16, K));
    make_product(&p);
    for (long i = strtol(argv[4], NULL, 10); i > 0; i--) run_once(&p, decode);
    printf("%g\n", (double)p.out[0]);
    return 0;
}
