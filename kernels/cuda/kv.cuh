// SPDX-License-Identifier: MIT
/* kernels/cuda/kv.cuh - rows of a planar cache (args.h) as kernels see them: 8 values at a time. */
#ifndef HONE_KERNELS_CUDA_KV_CUH
#define HONE_KERNELS_CUDA_KV_CUH

#include "kernels/cuda/gpu.cuh"

enum kv_form { KV_F32, KV_F16, KV_Q8, KV_Q4, KV_ANY }; /* KV_ANY: decided at run time */

struct kv_plane {
    int form;
    uint8_t *codes;
    uint16_t *scales; /* NULL: none */
    int dim;
};

static bool kv_form_of(enum qtype t, int *form) {
    static const struct {
        enum qtype t;
        int form;
    } row[] = {{QT_F32, KV_F32}, {QT_F16, KV_F16}, {QT_Q8_0, KV_Q8}, {QT_Q4_0, KV_Q4}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].t == t) {
            *form = row[i].form;
            return true;
        }
    return false;
}
static int64_t kv_code_bytes(int form, int64_t n) {
    return form == KV_F32 ? 4 * n : form == KV_F16 ? 2 * n : form == KV_Q8 ? n : n / 2;
}
static int kv_open(struct kv_plane *p, const struct cu_kv *kv, const struct cu_attn *a,
                   struct err *e) {
    if (!kv_form_of(kv->type, &p->form))
        return err_set(e, ERR_USAGE, "CUDA: a KV cache of type %s: use f32, f16, q8_0 or q4_0",
                       qtype_name(kv->type));
    if (a->head_dim % (p->form >= KV_Q8 ? 32 : 8) || a->head_dim > 512)
        return err_set(
            e, ERR_USAGE,
            "CUDA: a KV cache of type %s needs heads of a multiple of %d values, at most "
            "512; these have %lld",
            qtype_name(kv->type), p->form >= KV_Q8 ? 32 : 8, (long long)a->head_dim);
    const int64_t rows = a->n_kv_heads * a->n_ctx;
    p->dim = (int)a->head_dim;
    p->codes = (uint8_t *)kv->data;
    p->scales = NULL;
    if (p->form >= KV_Q8)
        p->scales = (uint16_t *)(void *)(p->codes + kv_code_bytes(p->form, rows * a->head_dim));
    return 0;
}

/* Values [8u, 8u + 8) of a row (kv head * n_ctx + position). */
template <int FORM> CU_DEV void kv_load8(const struct kv_plane &p, int64_t row, int u, float v[8]) {
    const int64_t at = row * p.dim + 8 * u;
    const int form = FORM == KV_ANY ? p.form : FORM;
    if (form == KV_F32) {
        const float4 *x = (const float4 *)(const void *)p.codes + at / 4;
        const float4 a = x[0], b = x[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else if (form == KV_F16) {
        const uint4 x = ((const uint4 *)(const void *)p.codes)[at / 8];
        const uint32_t w[4] = {x.x, x.y, x.z, x.w};
        CU_UNROLL
        for (int i = 0; i < 4; i++) {
            v[2 * i] = cu_f16_to_f32((uint16_t)w[i]);
            v[2 * i + 1] = cu_f16_to_f32((uint16_t)(w[i] >> 16));
        }
    } else {
        const float d = cu_f16_to_f32(p.scales[at / 32]);
        if (form == KV_Q8) {
            const uint2 x = ((const uint2 *)(const void *)p.codes)[at / 8];
            CU_UNROLL
            for (int i = 0; i < 8; i++) {
                const uint32_t w = i < 4 ? x.x : x.y;
                v[i] = d * (float)(int8_t)(w >> (8 * (i % 4)));
            }
        } else {
            const uint32_t x = ((const uint32_t *)(const void *)p.codes)[at / 8];
            CU_UNROLL
            for (int i = 0; i < 8; i++) v[i] = d * (float)((int)((x >> (4 * i)) & 15u) - 8);
        }
    }
}

#endif
