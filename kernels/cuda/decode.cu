// SPDX-License-Identifier: MIT
/* kernels/cuda/decode.cu - decoding of blocks to f32: embeddings, small tensors. Not a hot path:
 * a thread decodes 32 weights (one, for float types) and writes them one by one. */
#include "kernels/cuda/group.cuh"

struct rows_job {
    const uint8_t *blk;
    int64_t k, ld;
    uint64_t row_bytes;
    const int32_t *ids; /* or NULL */
    float scale;
    float *dst;
    const struct kern_grid *grid;
};

template <class B> CU_KERNEL decode_groups(struct rows_job j) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i >= j.k / 32) return;
    const uint64_t row = (uint64_t)(j.ids ? j.ids[r] : r);
    struct cu_group o;
    cu_row_group<B>(j.blk + row * j.row_bytes, i, j.grid, &o);
    float *dst = j.dst + r * j.ld + 32 * i;
    CU_UNROLL
    for (int l = 0; l < 32; l++) dst[l] = j.scale * cu_weight(&o, l);
}

template <class B> CU_KERNEL decode_floats(struct rows_job j) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i >= j.k) return;
    const uint64_t row = (uint64_t)(j.ids ? j.ids[r] : r);
    j.dst[r * j.ld + i] = j.scale * cu_float((const B *)(j.blk + row * j.row_bytes), i);
}

typedef void (*rows_fn)(struct rows_job);
struct rows_kernel {
    enum qtype type;
    int per_thread;
    rows_fn fn;
};
static const struct rows_kernel table[] = {
#define ROW(T) {QT_##T, 32, decode_groups<struct blk_##T>},
    CU_GROUP_TYPES(ROW)
#undef ROW
#define ROW(T) {QT_##T, 1, decode_floats<struct blk_##T>},
        CU_FLOAT_TYPES(ROW)
#undef ROW
};

/* Decodes rows to dst, times scale; ids NULL: rows in order, otherwise rows ids[i] of the table. */
int cu_decode_rows(struct cu_stream *s, enum qtype t, const void *blk, int64_t k,
                   const int32_t *ids, int64_t n_rows, float scale, float *dst, int64_t ld,
                   struct err *e) {
    const struct rows_kernel *kern = NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == t) kern = &table[i];
    if (!kern) return err_set(e, ERR_USAGE, "CUDA: no decoder for %s", qtype_name(t));
    struct rows_job j = {
        (const uint8_t *)blk, k, ld, qtype_row_bytes(t, k), ids, scale, dst, s->c->grid};
    const rows_fn fn = kern->fn;
    while (n_rows > 0) { /* a grid has at most 65535 rows */
        const int64_t n = min_i64(n_rows, 65535);
        const dim3 grid((unsigned)div_up(k / kern->per_thread, 128), (unsigned)n);
        CU_LAUNCH(e, fn, grid, 128, 0, s, j);
        if (j.ids)
            j.ids += n;
        else
            j.blk += (uint64_t)n * j.row_bytes;
        j.dst += n * ld;
        n_rows -= n;
    }
    return 0;
}
