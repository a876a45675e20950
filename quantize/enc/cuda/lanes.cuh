// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/lanes.cuh - eight lanes as eight consecutive device threads.
 *
 * Defines the names of lanes_cpu.h, so the searches (../lanes_*.h) compile from the same source. No
 * operations are fused and each rounds as IEEE requires, so the device writes the same bytes as the
 * CPU.
 *
 * The eight threads of a group take the same branches; the four groups of a warp may differ.
 * Weights are in shared memory with one word of padding per run, so that eight lanes access
 * different banks, whether they read element i of their runs or eight elements of one run; the
 * other groups access different banks as well. */
#ifndef HONE_QUANTIZE_ENC_CUDA_LANES_CUH
#define HONE_QUANTIZE_ENC_CUDA_LANES_CUH

#include "kernels/cuda/gpu.cuh"

#define restrict __restrict__
extern "C" {
#include "base/bytes.h"
#include "base/fp.h"
}
/* Device versions of the functions that the shared source calls. */
#define fp_f32_to_f16 cu_f32_to_f16
#define fp_f16_to_f32 cu_f16_to_f32
#define fp_bits cu_bits
#define fp_from_bits cu_from_bits
#define store_u32 cu_store_u32
CU_DEV void cu_store_u32(void *p, uint32_t v) {
    memcpy(p, &v, sizeof v);
}
extern "C" {
#include "quantize/enc/super.h"
}
#define enc_iq4_level cu_iq4_level
static __device__ const float cu_iq4_level[512] = {
#include "quantize/enc/iq4_level.def"
};
CU_TABLE(float, cu_iq4_values, [16]) = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
CU_DEV int cu_level_index(float level) {
    int i = 0;
    for (int k = 1; k < 16; k++) i += cu_iq4_values[k] <= level;
    return i;
}
#define enc_level_index cu_level_index
#include "quantize/enc/pack.h"

#define LANE_FN static __device__ inline
#define INLINE CU_DEV
#define LANE_TABLE(T, name, dims) CU_TABLE(T, name, dims)
#define LANE_UNROLL(n) CU_UNROLL

enum { LANES = 8 };
typedef float vf;
typedef int vi;
typedef double vd;

/* The run of one lane. */
struct tile {
    float *x, *w;
};
#define LOCAL_TILE(t)                                                                              \
    float t##_x[ENC_SUB], t##_w[ENC_SUB];                                                          \
    struct tile t = {t##_x, t##_w}

CU_DEV int lane_of(void) {
    return (int)threadIdx.x % LANES;
}
CU_DEV int at(int i, int n) {
    return i + i / n;
}
/* Floats per group: 256 weights in padded runs of 16, plus an offset between the four groups. */
enum { LANES_ROOM = QK + QK / 16 + 8 };
CU_DEV void lanes_sync(void) {
    cu_sync8();
}

CU_DEV vf splat(float a) {
    return a;
}
CU_DEV vf loadv(const float *p) {
    return p[lane_of()];
}
CU_DEV void storev(float *p, vf v) {
    p[lane_of()] = v;
}
CU_DEV vf from_bytes(const int8_t *p) {
    return (float)p[lane_of()];
}
CU_DEV vf pick(vi mask, vf a, vf b) {
    return mask ? a : b;
}
CU_DEV vf maxv(vf v, vf lo) {
    return v > lo ? v : lo;
}
CU_DEV vf minv(vf v, vf hi) {
    return v < hi ? v : hi;
}
CU_DEV vf sqrtv(vf v) {
    return sqrtf(v);
}
CU_DEV vf lookup(const float *table, vi j) {
    return table[j];
}
CU_DEV vf absv(vf v) {
    return fabsf(v);
}
CU_DEV vi truncv(vf v) {
    return (int)v;
}
CU_DEV vd to_double(vf v) {
    return (double)v;
}
CU_DEV vf f16v(vf x) {
    return enc_f16(x) + 0.0f; /* -0 becomes 0 */
}

CU_DEV float lane_get(vf v, int k) {
    return cu_shfl8(v, k);
}
CU_DEV vf spread_sum(vf v) {
    v += cu_shfl8(v, lane_of() ^ 4);
    v += cu_shfl8(v, lane_of() ^ 2);
    return v + cu_shfl8(v, lane_of() ^ 1);
}
/* Returns ((0 + 4) + (1 + 5)) + ((2 + 6) + (3 + 7)); each addition is commutative, so all lanes
 * agree. */
CU_DEV double total(vd v) {
    v += cu_shfl8(v, lane_of() ^ 4);
    v += cu_shfl8(v, lane_of() ^ 1);
    return v + cu_shfl8(v, lane_of() ^ 2);
}
CU_DEV void store_ints(int16_t *p, vf v) {
    p[lane_of()] = (int16_t)v;
}
CU_DEV vf load_ints(const int16_t *p) {
    return (float)p[lane_of()];
}
CU_DEV vf load_codes(const uint8_t *p) {
    return (float)p[lane_of()];
}
CU_DEV void store_codes(int8_t *q, int stride, int runs, const vf l[4]) {
    uint32_t c = 0;
    for (int k = 0; k < 4; k++) c |= (uint32_t)(truncv(l[k]) & 255) << (8 * k);
    if (lane_of() < runs) cu_store_u32(q + stride * lane_of(), c);
}
CU_DEV void store_level(int8_t (*l)[ENC_SUB], int i, vf v) {
    l[lane_of()][i] = (int8_t)v;
}
CU_DEV void store_doubles(double *p, vd v) {
    p[lane_of()] = v;
}
CU_DEV vf of_rows(const float *const row[LANES], bool one, int i) {
    return row[one ? 0 : lane_of()][i];
}
CU_DEV void axpyv(float *y, const float *x, float a, int n) {
    for (int i = lane_of(); i < n; i += LANES) y[i] += a * x[i];
}
CU_DEV void add_rows(float *y, const float *b, int64_t ldb, const float *a, int n, int cols) {
    for (int j = lane_of(); j < cols; j += LANES) {
        float sum = y[j];
        for (int i = 0; i < n; i++)
            if (a[i] != 0) sum += a[i] * b[i * ldb + j];
        y[j] = sum;
    }
}
#define LANE_EACH(lane) for (int lane = lane_of(), once_ = 1; once_; once_ = 0)
CU_DEV void copy_open(struct enc_raw *to, const struct enc_raw *from) {
    cu_sync8();
    for (size_t i = 4 * (size_t)lane_of(); i < sizeof *to; i += 4 * LANES)
        memcpy((char *)to + i, (const char *)from + i, 4);
    cu_sync8();
}

/* With a list of 256 grid entries, four groups fit into 10 KiB. */
enum { GRID_KEEPS = 0, GRID_LIST = 256 };
CU_DEV vi numbers(void) {
    return lane_of();
}
CU_DEV vi pick_int(vi mask, vi a, vi b) {
    return mask ? a : b;
}
CU_DEV unsigned bits(vi mask) {
    return cu_ballot8(mask != 0);
}
CU_DEV bool any(vi mask) {
    return bits(mask) != 0;
}
struct most {
    float v;
    int at;
};
CU_DEV struct most most(vf v, vi at) {
    struct most m = {v, at};
    for (int k = 4; k > 0; k >>= 1) {
        const float other = cu_shfl8(m.v, lane_of() ^ k);
        const int its = cu_shfl8(m.at, lane_of() ^ k);
        if (!(other > m.v || (other == m.v && its < m.at))) continue;
        m.v = other;
        m.at = its;
    }
    return m;
}
CU_DEV int append(uint16_t *list, float *lx, float *ly, int n, vi mask, int first, vf x, vf y) {
    const unsigned lanes = bits(mask);
    const int to = n + cu_popc(lanes & ((1u << lane_of()) - 1));
    if (mask) {
        list[to] = (uint16_t)(first + lane_of());
        lx[to] = x;
        ly[to] = y;
    }
    return n + cu_popc(lanes);
}
CU_DEV bool lane_one(void) {
    return lane_of() == 0;
}
/* A team is a warp. */
#define TEAM_EACH(i, n) for (int i = (int)threadIdx.x % 32; i < (n); i += 32)
CU_DEV bool team_one(void) {
    return threadIdx.x % 32 == 0;
}
CU_DEV void team_sync(void) {
    cu_syncwarp();
}

CU_DEV void tile_x(struct tile *t, float *p, int n) {
    t->x = p + at(lane_of() * n, n);
}
/* Points the tile's search weights at this lane's run of n in p. */
CU_DEV void tile_w(struct tile *t, float *p, int n) {
    t->w = p + at(lane_of() * n, n);
}

#endif
