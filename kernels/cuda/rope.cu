// SPDX-License-Identifier: MIT
/* kernels/cuda/rope.cu - rotary position embeddings.
 *
 * Angles are computed in double, as on the CPU: rounding position * frequency to float visibly
 * changes the angle at long contexts. One table per pass and kind of RoPE serves all heads and
 * layers; it has a few hundred values per token. */
#include "kernels/cuda/gpu.cuh"

enum { BLOCK = 128 };

/* Returns which of a token's positions pair i rotates by (graph.section). */
CU_DEV int section_of(const struct cu_sections &s, int64_t i) {
    if (s.mixed) return i % 3 && i < 3 * s.n[i % 3] ? (int)(i % 3) : 0;
    if (i < s.n[0] || !(s.n[1] + s.n[2])) return 0;
    return i < s.n[0] + s.n[1] ? 1 : 2;
}
/* Fills cs[t][i] = m * (cos, sin)(pos[t] * freq[i]). */
CU_KERNEL __launch_bounds__(BLOCK)
    fill_table(const double *freq, double m, const int32_t *pos, struct cu_sections sections,
               int64_t total, int64_t half, float *cs) {
    const int64_t at = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= total) return;
    const int64_t t = at / half, i = at % half;
    const int32_t p = sections.any ? pos[3 * t + section_of(sections, i)] : pos[t];
    const double a = (double)p * freq[i];
    cs[2 * at] = (float)(m * cos(a));
    cs[2 * at + 1] = (float)(m * sin(a));
}
/* Computes cosine and sine of every angle, times m, for n_tok tokens. */
int cu_rope_table(struct cu_stream *s, const double *freq, double m, const int32_t *pos,
                  struct cu_sections sections, int64_t n_tok, int64_t half, float *cs,
                  struct err *e) {
    const int64_t total = n_tok * half;
    if (total > 0)
        CU_LAUNCH(e, fill_table, (unsigned)div_up(total, BLOCK), BLOCK, 0, s, freq, m, pos,
                  sections, total, half, cs);
    return 0;
}

/* Rotates heads, a thread per pair. */
CU_KERNEL __launch_bounds__(BLOCK) rotate(float *x, const float *cs, int64_t total, int64_t n_heads,
                                          int64_t head_dim, int half, bool adjacent) {
    const int64_t at = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= total) return;
    const int64_t i = at % half, head = at / half; /* over all tokens */
    const float *c = cs + 2 * (head / n_heads * half + i);
    float *p = x + head * head_dim + (adjacent ? 2 * i : i), *q = p + (adjacent ? 1 : half);
    const float a = *p, b = *q;
    *p = a * c[0] - b * c[1];
    *q = a * c[1] + b * c[0];
}
/* Rotates the first n_rot values of each head; adjacent: a pair is two consecutive values. */
int cu_rope(struct cu_stream *s, float *x, const float *cs, int64_t n_tok, int64_t n_heads,
            int64_t head_dim, int64_t n_rot, bool adjacent, struct err *e) {
    const int64_t total = n_tok * n_heads * (n_rot / 2);
    if (total > 0)
        CU_LAUNCH(e, rotate, (unsigned)div_up(total, BLOCK), BLOCK, 0, s, x, cs, total, n_heads,
                  head_dim, (int)(n_rot / 2), adjacent);
    return 0;
}

CU_KERNEL __launch_bounds__(BLOCK) temper(float *x, int64_t total, int64_t n, const int32_t *pos,
                                          float scale, int64_t step, int64_t offset) {
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= total) return;
    const int64_t steps = ((int64_t)pos[i / n] + offset) / step;
    x[i] *= (float)(1 + (double)scale * log((double)(steps + 1)));
}
/* Scales each row by the factor of its position. */
int cu_temper(struct cu_stream *s, float *x, int64_t n_rows, int64_t n, const int32_t *pos,
              float scale, int64_t step, int64_t offset, struct err *e) {
    const int64_t total = n_rows * n;
    if (total > 0)
        CU_LAUNCH(e, temper, (unsigned)div_up(total, BLOCK), BLOCK, 0, s, x, total, n, pos, scale,
                  step, offset);
    return 0;
}
