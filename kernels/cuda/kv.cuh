// SPDX-License-Identifier: MIT
/* kernels/cuda/kv.cuh - access to KV cache pages (args.h) in kernels: the location of a
 * position, and loads of 8 values of its row. */
#ifndef HONE_KERNELS_CUDA_KV_CUH
#define HONE_KERNELS_CUDA_KV_CUH

#include "kernels/cuda/gpu.cuh"
#include "kernels/cuda/limits.h"

enum kv_form { KV_F32, KV_F16, KV_Q8, KV_Q4, KV_ANY }; /* KV_ANY: decided at run time */

struct kv_plane { /* keys or values of a layer */
    int form, dim;
    uint32_t codes, scales; /* offsets in a page */
};

/* Sets *form to the kernels' format number for a cache type. False: not supported. */
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
/* Returns the size of the codes of n values in bytes, without scales. */
static int64_t kv_code_bytes(int form, int64_t n) {
    return form == KV_F32 ? 4 * n : form == KV_F16 ? 2 * n : form == KV_Q8 ? n : n / 2;
}
/* Describes a plane. *at is the offset of the plane in a page on entry, and that of its end on
 * return. */
static int kv_plane_at(struct kv_plane *p, enum qtype type, const struct cu_attn *a, int64_t dim,
                       int64_t *at, struct err *e) {
    if (!kv_form_of(type, &p->form))
        return err_set(e, ERR_USAGE, "CUDA: a KV cache of type %s: use f32, f16, q8_0 or q4_0",
                       qtype_name(type));
    TRY(cu_check(cu_head_limit(type), dim, e));
    const int64_t n = a->n_kv_heads * CU_PAGE * dim;
    p->dim = (int)dim;
    p->codes = (uint32_t)*at;
    *at += kv_code_bytes(p->form, n);
    p->scales = (uint32_t)*at;
    if (p->form >= KV_Q8) *at += n / 32 * (int64_t)sizeof(uint16_t);
    if (*at > INT32_MAX)
        return err_set(e, ERR_USAGE, "CUDA: a page of %lld bytes is too large", (long long)*at);
    return 0;
}
/* Finds the planes of keys and values. Fails for types that are not supported. */
static int kv_open(struct kv_plane *k, struct kv_plane *v, const struct cu_attn *a, struct err *e) {
    int64_t at = 0;
    TRY(kv_plane_at(k, a->k_type, a, a->head_dim - a->latent, &at, e));
    return kv_plane_at(v, a->v_type, a, a->latent ? a->latent : a->head_dim, &at, e);
}

/* The pages of a sequence in one layer: page[p / CU_PAGE * n_slots] holds position p. */
struct kv_table {
    void *const *page;
    int n_slots;
};
CU_DEV struct kv_table kv_table_of(const struct cu_seg &seg, int slot, int n_slots) {
    const struct kv_table t = {seg.page + slot, n_slots};
    return t;
}
CU_DEV uint8_t *kv_page(const struct kv_table &t, int64_t pos) {
    return (uint8_t *)t.page[pos / CU_PAGE * t.n_slots];
}

/* Location of n <= CU_PAGE consecutive keys: in one page, or in two adjacent ones. */
struct kv_span {
    const uint8_t *page, *next;
    int at; /* index of the first key in its page */
};
CU_DEV struct kv_span kv_span_of(const struct kv_table &t, int64_t first, int n) {
    struct kv_span s;
    s.page = s.next = kv_page(t, first);
    s.at = (int)(first % CU_PAGE);
    if (s.at + n > CU_PAGE) s.next = kv_page(t, first + CU_PAGE);
    return s;
}
CU_DEV const uint8_t *kv_page_of(const struct kv_span &s, int key) {
    return s.at + key < CU_PAGE ? s.page : s.next;
}
/* Returns the row of a key in the plane of a kv head. */
CU_DEV int kv_row_of(const struct kv_span &s, int head, int key) {
    return head * CU_PAGE + (s.at + key) % CU_PAGE;
}

/* Loads values [8u, 8u + 8) of a row (kv head * CU_PAGE + position in the page). */
template <int FORM>
CU_DEV void kv_load8(const struct kv_plane &p, const uint8_t *page, int row, int u, float v[8]) {
    const int at = row * p.dim + 8 * u;
    const int form = FORM == KV_ANY ? p.form : FORM;
    const uint8_t *codes = page + p.codes;
    if (form == KV_F32) {
        const float4 *x = (const float4 *)(const void *)codes + at / 4;
        const float4 a = x[0], b = x[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else if (form == KV_F16) {
        const uint4 x = ((const uint4 *)(const void *)codes)[at / 8];
        const uint32_t w[4] = {x.x, x.y, x.z, x.w};
        CU_UNROLL
        for (int i = 0; i < 4; i++) {
            v[2 * i] = cu_f16_to_f32((uint16_t)w[i]);
            v[2 * i + 1] = cu_f16_to_f32((uint16_t)(w[i] >> 16));
        }
    } else {
        const float d = cu_f16_to_f32(((const uint16_t *)(const void *)(page + p.scales))[at / 32]);
        if (form == KV_Q8) {
            const uint2 x = ((const uint2 *)(const void *)codes)[at / 8];
            CU_UNROLL
            for (int i = 0; i < 8; i++) {
                const uint32_t w = i < 4 ? x.x : x.y;
                v[i] = d * (float)(int8_t)(w >> (8 * (i % 4)));
            }
        } else {
            const uint32_t x = ((const uint32_t *)(const void *)codes)[at / 8];
            CU_UNROLL
            for (int i = 0; i < 8; i++) v[i] = d * (float)((int)((x >> (4 * i)) & 15u) - 8);
        }
    }
}

#endif
