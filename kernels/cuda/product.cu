// SPDX-License-Identifier: MIT
/* kernels/cuda/product.cu - products of float matrices in a fixed order of sums: the same bits for
 * any number of rows and on every device. For error feedback, second moments, gradients and
 * learning. Not run on a GPU yet. */
#include "kernels/cuda/gpu.cuh"

enum { TILE = 64, DEPTH = 16, MY = 4, THREADS = 256, MOST_TILES = 65535 };

/* Computes 64 x 64 elements in a block of threads, 4 x 4 in a thread. */
template <bool FUSED>
CU_KERNEL __launch_bounds__(THREADS) products(CU_PARAM(struct cu_multiply) p) {
    CU_SHARED(float, at, [DEPTH][TILE + 4]);
    CU_SHARED(float, bt, [DEPTH][TILE + 4]);
    const int t = (int)threadIdx.x, tj = t % 16 * MY, ti = t / 16 * MY;
    const int64_t i0 = (int64_t)blockIdx.y * TILE, j0 = (int64_t)blockIdx.x * TILE;
    float sum[MY][MY];
    if (p.lower && j0 >= i0 + TILE) return;
    for (int i = 0; i < MY; i++)
        for (int j = 0; j < MY; j++) {
            const bool in = i0 + ti + i < p.m && j0 + tj + j < p.n && !p.fresh;
            sum[i][j] = in ? p.c[(i0 + ti + i) * p.ldc + j0 + tj + j] : 0;
        }
    for (int64_t k0 = 0; k0 < p.k; k0 += DEPTH) {
        const int depth = (int)cu_min(DEPTH, p.k - k0);
        __syncthreads();
        for (int e = t; e < TILE * DEPTH; e += THREADS) {
            const int i = p.turned_a ? e % TILE : e / DEPTH, ka = p.turned_a ? e / TILE : e % DEPTH;
            const int j = p.turned_b ? e / DEPTH : e % TILE, kb = p.turned_b ? e % DEPTH : e / TILE;
            at[ka][i] = i0 + i >= p.m || ka >= depth ? 0
                        : p.turned_a                 ? p.a[(k0 + ka) * p.lda + i0 + i]
                                                     : p.a[(i0 + i) * p.lda + k0 + ka];
            bt[kb][j] = j0 + j >= p.n || kb >= depth ? 0
                        : p.turned_b                 ? p.b[(j0 + j) * p.ldb + k0 + kb]
                                                     : p.b[(k0 + kb) * p.ldb + j0 + j];
        }
        __syncthreads();
        for (int k = 0; k < depth; k++) {
            float av[MY], bv[MY];
            CU_UNROLL
            for (int i = 0; i < MY; i++) {
                av[i] = at[k][ti + i];
                bv[i] = bt[k][tj + i];
            }
            CU_UNROLL
            for (int i = 0; i < MY; i++) {
                CU_UNROLL
                for (int j = 0; j < MY; j++)
                    sum[i][j] = FUSED ? fmaf(av[i], bv[j], sum[i][j]) : sum[i][j] + av[i] * bv[j];
            }
        }
    }
    for (int i = 0; i < MY; i++)
        for (int j = 0; j < MY; j++)
            if (i0 + ti + i < p.m && j0 + tj + j < p.n)
                p.c[(i0 + ti + i) * p.ldc + j0 + tj + j] = sum[i][j];
}

/* Queues the product; see struct cu_multiply. */
int cu_multiply(struct cu_stream *s, const struct cu_multiply *a, struct err *e) {
    if (a->m <= 0 || a->n <= 0) return 0;
    if (div_up(a->m, TILE) > MOST_TILES)
        return err_set(e, ERR_USAGE, "CUDA: a product with %lld rows", (long long)a->m);
    const dim3 grid((unsigned)div_up(a->n, TILE), (unsigned)div_up(a->m, TILE));
    if (a->fused)
        CU_LAUNCH(e, products<true>, grid, THREADS, 0, s, *a);
    else
        CU_LAUNCH(e, products<false>, grid, THREADS, 0, s, *a);
    return 0;
}
