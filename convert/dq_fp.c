// SPDX-License-Identifier: MIT
/* convert/dq_fp.c - dequantization of small floats with scales: FP8 with a scale per tensor, row,
 * block or group (including MXFP8), NVFP4, MXFP4. Two FP4 codes per byte, the first in the low
 * nibble. */
#include "convert/dq_int.h"

int dq_fp8_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    const struct st_tensor *t = q->part[0];
    const bool as_is = t->n_dims == 3 && t->shape[1] == q->rows && t->shape[2] == q->cols;
    q->turned = q->turned && (!as_is || q->rows == q->cols);
    q->divides = c->inverse;
    TRY(dq_shape(q, 0, q->turned ? q->cols : q->rows, q->turned ? q->rows : q->cols, e));
    return dq_grid_fit(q, 1, c, e);
}
bool dq_fp8_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    UNUSED(scratch);
    const struct st_tensor *t = q->part[0];
    const int64_t step = q->turned ? q->rows : 1;
    const uint8_t *p = t->data + mat * q->rows * q->cols + row * (q->turned ? 1 : q->cols);
    if (t->dtype == ST_F8_E4M3)
        for (int64_t i = 0; i < q->cols; i++) dst[i] = fp_f8e4m3_to_f32(p[i * step]);
    else
        for (int64_t i = 0; i < q->cols; i++) dst[i] = fp_f8e5m2_to_f32(p[i * step]);
    dq_grid_scale(q, mat, row, dst);
    return true;
}

/* Decodes n E2M1 values, the low half of each byte first. */
static void unpack_fp4(const uint8_t *p, int64_t n, float *dst) {
    for (int64_t i = 0; i < n; i += 2) {
        dst[i] = fp_e2m1_to_f32(p[i / 2] & 15);
        dst[i + 1] = fp_e2m1_to_f32(p[i / 2] >> 4);
    }
}

/* ---- NVFP4: 16 values per E4M3 scale, and one f32 scale per matrix ---- */

int dq_nvfp4_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    const struct st_tensor *t = q->part[0];
    UNUSED(c);
    if (q->cols % 16) return dq_bad(q, 0, e, "needs a row length divisible by 16");
    if (t->n_dims == 3 && t->shape[1] == q->cols / 2 && t->shape[2] == q->rows &&
        q->rows != q->cols / 2)
        return dq_bad(q, 0, e,
                      "holds transposed matrices, which is not supported in this format: convert "
                      "the unquantized (BF16) release");
    TRY(dq_shape(q, 0, q->rows, q->cols / 2, e));
    TRY(dq_shape(q, 1, q->rows, q->cols / 16, e));
    if (q->part[2]->n_elems == 1 || q->part[2]->n_elems == q->mats) return 0;
    return dq_bad(q, 2, e, "should be one number per matrix");
}
/* Decodes a row of NVFP4 weights; divide: divide by the global scale instead of multiplying. */
static void nvfp4_row(const struct dq *q, int64_t mat, int64_t row, float *dst, bool divide) {
    int64_t r = mat * q->rows + row;
    const uint8_t *sc = q->part[1]->data + r * (q->cols / 16);
    float whole = dq_scale_at(q->part[2], q->part[2]->n_elems == 1 ? 0 : mat);
    unpack_fp4(q->part[0]->data + r * (q->cols / 2), q->cols, dst);
    for (int64_t i = 0; i < q->cols; i++) {
        float s = fp_f8e4m3_to_f32(sc[i / 16]);
        /* Adding 0 turns -0 into 0, as in modelopt. */
        dst[i] = divide ? dst[i] * (s / whole) : dst[i] * (s * whole) + 0.0f;
    }
}
bool dq_nvfp4_mul_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    UNUSED(scratch);
    nvfp4_row(q, mat, row, dst, false);
    return true;
}
bool dq_nvfp4_div_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    UNUSED(scratch);
    nvfp4_row(q, mat, row, dst, true);
    return true;
}

float dq_nvfp4_scale(const struct dq *q, int64_t mat) {
    const float whole = dq_scale_at(q->part[2], q->part[2]->n_elems == 1 ? 0 : mat);
    return q->form->row == dq_nvfp4_div_row ? 1 / whole : whole;
}

/* Writes GGUF's blocks: in the folder adjacent values share a byte, in GGUF's blocks values 8
 * positions apart do. */
bool dq_nvfp4_blocks(const struct dq *q, int64_t mat, int64_t row, uint8_t *dst) {
    const int64_t r = mat * q->rows + row;
    const uint8_t *sc = q->part[1]->data + r * (q->cols / 16);
    const uint8_t *src = q->part[0]->data + r * (q->cols / 2);
    bool ok = true;
    for (int64_t b = 0; b < q->cols / 64; b++, dst += 36)
        for (int k = 0; k < 4; k++, sc++, src += 8) {
            dst[k] = *sc;
            ok = ok && *sc < 127;
            for (int i = 0; i < 4; i++) {
                dst[4 + 8 * k + 2 * i] = (uint8_t)((src[i] & 15) | (src[i + 4] & 15) << 4);
                dst[5 + 8 * k + 2 * i] = (uint8_t)(src[i] >> 4 | (src[i + 4] & 240));
            }
        }
    return ok;
}

/* ---- MXFP4: 32 values per power of two ---- */

/* Checks the shapes of MXFP4 codes, stored as [.., cols/2] or in blocks as [.., cols/32, 16], and
 * of their scales. */
int dq_mxfp4_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    UNUSED(c);
    const struct st_tensor *t = q->part[0];
    int n = t->n_dims;
    if (q->cols % 32) return dq_bad(q, 0, e, "needs a row length divisible by 32");
    TRY(dq_shape(q, 1, q->rows, q->cols / 32, e));
    bool blocks = n >= 3 && t->shape[n - 1] == 16 && t->shape[n - 2] == q->cols / 32 &&
                  t->shape[n - 3] == q->rows && t->n_elems == 16 * q->part[1]->n_elems;
    return blocks ? 0 : dq_shape(q, 0, q->rows, q->cols / 2, e);
}
bool dq_mxfp4_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    UNUSED(scratch);
    int64_t r = mat * q->rows + row;
    const uint8_t *sc = q->part[1]->data + r * (q->cols / 32);
    unpack_fp4(q->part[0]->data + r * (q->cols / 2), q->cols, dst);
    for (int64_t i = 0; i < q->cols; i++) dst[i] *= fp_e8m0_to_f32(sc[i / 32]);
    return true;
}

/* Writes GGUF's blocks: in the folder adjacent values share a byte, in GGUF's blocks values 16
 * positions apart do. */
bool dq_mxfp4_blocks(const struct dq *q, int64_t mat, int64_t row, uint8_t *dst) {
    int64_t r = mat * q->rows + row;
    const uint8_t *sc = q->part[1]->data + r * (q->cols / 32);
    const uint8_t *src = q->part[0]->data + r * (q->cols / 2);
    bool ok = true;
    for (int64_t b = 0; b < q->cols / 32; b++, src += 16, dst += 17) {
        dst[0] = sc[b];
        ok = ok && sc[b] != 255;
        for (int i = 0; i < 8; i++) {
            dst[1 + 2 * i] = (uint8_t)((src[i] & 15) | (src[i + 8] & 15) << 4);
            dst[2 + 2 * i] = (uint8_t)(src[i] >> 4 | (src[i + 8] & 240));
        }
    }
    return ok;
}
