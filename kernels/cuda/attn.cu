// SPDX-License-Identifier: MIT
/* kernels/cuda/attn.cu - launchers of causal attention over the cache, which kv.cu fills. They
 * select a kernel (attn.cuh lists them).
 *
 * cu_attn_few: few tokens, with the keys split into parts (split.cuh), on tensor cores (few.cuh)
 * or, for one token, in f32 (cores.cuh). cu_attn_many: several tokens, on tensor cores (flash.cuh)
 * or in f32. */
#include "kernels/cuda/cores.cuh"
#include "kernels/cuda/few.cuh"
#include "kernels/cuda/flash.cuh"

/* Launches the kernel of few.cuh for this head size. */
template <int KF, int VF>
/* Launches the kernel for few rows with heads of this size. */
static int launch_few_of(struct cu_stream *s, const struct attn_job *j, struct err *e) {
    switch (j->k.dim) {
    case 64:
        return launch_few<KF, VF, 64>(s, j, e);
    case 128:
        return launch_few<KF, VF, 128>(s, j, e);
    case 256:
        return launch_few<KF, VF, 256>(s, j, e);
    default:
        return launch_few<KF, VF, 512>(s, j, e);
    }
}
/* Cache types that have their own tensor-core kernels. */
static const struct cache_form {
    enum qtype k, v;
    int (*few)(struct cu_stream *s, const struct attn_job *j, struct err *e);
    int (*many)(struct cu_stream *s, const struct attn_job *j, dim3 grid, struct err *e);
} cache_form[] = {
#define ROW(k, v, kf, vf)                                                                          \
    { k, v, launch_few_of<kf, vf>, launch_flash<kf, vf> }
    ROW(QT_F16, QT_F16, KV_F16, KV_F16),
    ROW(QT_Q8_0, QT_Q8_0, KV_Q8, KV_Q8),
    ROW(QT_Q4_0, QT_Q4_0, KV_Q4, KV_Q4),
    ROW(QT_Q8_0, QT_Q4_0, KV_Q8, KV_Q4),
#undef ROW
};
/* Returns the cache's row if heads have 64, 128, 256 or 512 values, else NULL. */
static const struct cache_form *cache_form_of(const struct cu_attn *a) {
    if (a->head_dim != 64 && a->head_dim != 128 && a->head_dim != 256 && a->head_dim != 512)
        return NULL;
    for (size_t i = 0; i < sizeof cache_form / sizeof *cache_form; i++)
        if (cache_form[i].k == a->k_type && cache_form[i].v == a->v_type) return &cache_form[i];
    return NULL;
}
int64_t cu_attn_few_rows(const struct cu_attn *a) {
    return a->fast_few && cache_form_of(a) ? CU_FEW : 1;
}

/* Computes attention for few rows, with each head's keys split into parts, and merges the parts. */
int cu_attn_few(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct attn_job j;
    if (a->rows.longest > cu_attn_few_rows(a))
        return err_set(e, ERR_USAGE, "CUDA: attention of %lld tokens in parts",
                       (long long)a->rows.longest);
    TRY(attn_open(&j, a, e));
    if (a->rows.n_segs < 1) return 0;
    const struct cache_form *form = a->fast_few ? cache_form_of(a) : NULL;
    TRY(form ? form->few(s, &j, e) : launch_cores(s, &j, e));
    const dim3 grid((unsigned)div_up(a->head_dim, 32), (unsigned)(a->rows.longest * a->n_heads),
                    (unsigned)a->rows.n_segs);
    const size_t smem = (size_t)a->n_splits * sizeof(float);
    CU_LAUNCH_EARLY(e, merge_parts, grid, MERGE_BLOCK, smem, s, j);
    return 0;
}

/* Computes attention for many rows of one prompt at a time. */
int cu_attn_many(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct attn_job j;
    TRY(attn_open(&j, a, e));
    const dim3 rows((unsigned)(a->rows.longest * j.group), (unsigned)a->n_kv_heads,
                    (unsigned)a->rows.n_segs); /* blocks of the launch, among which x is divided */
    if (a->rows.n_segs < 1) return 0;
    if (!a->fast || j.k.dim > 256 || j.k.dim % 16) return launch_tile(s, &j, rows, e);
    const struct cache_form *form = cache_form_of(a);
    return form ? form->many(s, &j, rows, e) : launch_flash_any(s, &j, rows, e);
}
