// SPDX-License-Identifier: MIT
/* convert/dq_pack.c - dequantization of integers with scales and zero points: int8, the packed
 * words of compressed-tensors, GPTQ, AWQ. w = (q - z) * scale, with a zero point z and a scale per
 * group.
 *
 * Words have 32 bits and hold values of b bits, lowest bits first. Dense: value k starts at bit k*b
 * and may straddle words. Padded (older packers, b = 3, 5, 6, 7): 32/b values per word. A row's
 * scales and zero points are gathered first, because with a group index (g_idx) adjacent columns
 * may belong to different groups. */
#include "convert/dq_int.h"

/* Returns the number of words for n values of `bits` bits. */
static int64_t words_for(int64_t n, int bits, bool dense) {
    return dense ? div_up(n * bits, 32) : div_up(n, 32 / bits);
}

/* Returns value k of a stream whose words are `step` bytes apart. */
static unsigned value_at(const uint8_t *p, int64_t step, int64_t k, int bits, bool dense) {
    int64_t per = 32 / bits, at = k * bits;
    int64_t w = dense ? at / 32 : k / per;
    int sh = (int)(dense ? at % 32 : k % per * bits);
    uint32_t v = load_u32(p + w * step) >> sh;
    if (sh + bits > 32) v |= load_u32(p + (w + 1) * step) << (32 - sh);
    return v & ((1u << bits) - 1);
}

/* Returns the group of column i; -1: out of range. */
static int64_t group_at(const struct dq *q, const struct st_tensor *g_idx, int64_t i) {
    if (!g_idx) return i / q->scale.per_col;
    int64_t g =
        g_idx->dtype == ST_I64 ? load_i64(g_idx->data + 8 * i) : load_i32(g_idx->data + 4 * i);
    return g >= 0 && g < q->scale.n_cols ? g : -1;
}

/* Checks part i, the optional group index of each column. */
static int check_g_idx(struct dq *q, int i, struct err *e) {
    if (!q->part[i]) return 0;
    if (q->mats != 1 || q->part[i]->n_elems != q->cols || q->scale.n_cols < 1)
        return dq_bad(q, i, e, "should have one group per column (%lld)", (long long)q->cols);
    return 0;
}

/* Checks that scratch has room for a row's scales and zero points: 2 * groups values. */
static int check_groups(struct dq *q, struct err *e) {
    if (!q->scale.n_rows) q->scale.n_rows = q->scale.n_cols = 1; /* a single one */
    if (2 * q->scale.n_cols <= q->cols) return 0;
    return dq_bad(q, 1, e, "has more than one scale per two columns");
}

/* Scales a row: dst[i] = (dst[i] - zero[g]) * scale[g], where g is the group of column i. False: a
 * column's group is out of range. */
static bool scale_row(const struct dq *q, const struct st_tensor *g_idx, const float *scale,
                      const float *zero, float *dst) {
    bool ok = true;
    for (int64_t i = 0; i < q->cols; i++) {
        int64_t g = group_at(q, g_idx, i);
        ok = ok && g >= 0;
        dst[i] = g < 0 ? 0 : (dst[i] - zero[g]) * scale[g];
    }
    return ok;
}

/* ---- compressed-tensors ---- */

/* Maps scales to a grid over rows and columns. With a group index, the columns that share a scale
 * need not be adjacent. */
static int fit_scales(struct dq *q, const struct dq_config *c, int g_idx, struct err *e) {
    TRY(dq_grid_fit(q, 1, c, e));
    TRY(check_groups(q, e));
    return check_g_idx(q, g_idx, e);
}

/* Returns the index of a row's first scale. */
static int64_t scale_base(const struct dq *q, int64_t mat, int64_t row) {
    return (mat * q->scale.n_rows + row / q->scale.per_row) * q->scale.n_cols;
}

int dq_int8_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    TRY(dq_shape(q, 0, q->rows, q->cols, e));
    TRY(fit_scales(q, c, 3, e));
    if (q->part[2] && q->part[2]->n_elems != q->part[1]->n_elems)
        return dq_bad(q, 2, e, "should have one zero point per scale");
    return 0;
}
bool dq_int8_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    int64_t n = q->scale.n_cols, base = scale_base(q, mat, row);
    const uint8_t *p = q->part[0]->data + (mat * q->rows + row) * q->cols;
    for (int64_t g = 0; g < n; g++) {
        scratch[g] = dq_scale_at(q->part[1], base + g);
        scratch[n + g] = q->part[2] ? (float)(int8_t)q->part[2]->data[base + g] : 0;
    }
    for (int64_t i = 0; i < q->cols; i++) dst[i] = (float)(int8_t)p[i];
    return scale_row(q, q->part[3], scratch, scratch + n, dst);
}

/* Finds the number of bits for which a row has `have` words, among those of config.json's groups if
 * it has any. Dense words are tried first: 8 bits have as many words as 7 padded ones. */
static int find_bits(struct dq *q, const struct dq_config *c, int64_t have, struct err *e) {
    for (int padded = 0; padded < 2 && !q->bits; padded++)
        for (int b = 1; b <= 8; b++) {
            if (have != words_for(q->cols, b, !padded)) continue;
            if (c->widths && !(c->widths >> b & 1)) continue;
            if (q->bits) return dq_bad(q, 0, e, "could have %d or %d bits", q->bits, b);
            q->bits = b;
            q->dense = !padded;
        }
    return q->bits ? 0
                   : dq_bad(q, 0, e, "has no width of 1 to 8 bits that fits %lld columns",
                            (long long)q->cols);
}

int dq_pack_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    const struct st_tensor *t = q->part[0], *z = q->part[2];
    int64_t have = t->n_dims ? t->shape[t->n_dims - 1] : 0;
    TRY(find_bits(q, c, have, e));
    TRY(dq_shape(q, 0, q->rows, have, e));
    TRY(fit_scales(q, c, 3, e));
    if (!z) return 0;
    if (z->dtype == ST_I8 && z->n_elems != q->part[1]->n_elems)
        return dq_bad(q, 2, e, "should have one zero point per scale");
    if (z->dtype == ST_I8) return 0;
    int64_t n = z->n_dims >= 2 ? z->shape[z->n_dims - 2] : 0;
    q->zero_dense = n == words_for(q->scale.n_rows, q->bits, true);
    return dq_shape(q, 2, words_for(q->scale.n_rows, q->bits, q->zero_dense), q->scale.n_cols, e);
}
/* Returns the zero point of group g in a row whose first scale is `base`. Packed zero points are
 * unsigned; the bytes of older packers are signed and relative to the middle of the range, which is
 * also the zero point of symmetric weights. */
static float zero_at(const struct dq *q, int64_t mat, int64_t row, int64_t base, int64_t g) {
    const struct st_tensor *z = q->part[2];
    const float middle = (float)(1u << (q->bits - 1));
    const int64_t n = q->scale.n_cols;
    if (!z) return middle;
    if (z->dtype == ST_I8) return middle + (float)(int8_t)z->data[base + g];
    /* Zero points per matrix, in words. */
    const int64_t per_mat = words_for(q->scale.n_rows, q->bits, q->zero_dense) * n;
    return (float)value_at(z->data + 4 * (mat * per_mat + g), 4 * n, row / q->scale.per_row,
                           q->bits, q->zero_dense);
}
bool dq_pack_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    int64_t n = q->scale.n_cols, base = scale_base(q, mat, row);
    for (int64_t g = 0; g < n; g++) {
        scratch[g] = dq_scale_at(q->part[1], base + g);
        scratch[n + g] = zero_at(q, mat, row, base, g);
    }
    int64_t n_words = words_for(q->cols, q->bits, q->dense);
    const uint8_t *p = q->part[0]->data + 4 * (mat * q->rows + row) * n_words;
    for (int64_t i = 0; i < q->cols; i++) dst[i] = (float)value_at(p, 4, i, q->bits, q->dense);
    return scale_row(q, q->part[3], scratch, scratch + n, dst);
}

/* ---- GPTQ: packed along the inputs, [inputs * bits / 32, outputs] ---- */

/* Maps scales [groups, outputs] to groups of inputs. */
static int fit_groups(struct dq *q, const struct dq_config *c, struct err *e) {
    const struct st_tensor *t = q->part[1];
    int64_t n = t->n_dims == 2 ? t->shape[0] : 0;
    if (q->mats != 1) return dq_bad(q, 0, e, "is one matrix, but several are expected");
    q->scale = (struct dq_grid){.t = t, .n_rows = q->rows, .n_cols = n, .per_row = 1};
    q->scale.per_col = c->group && n == div_up(q->cols, c->group) ? c->group
                       : n > 0 && q->cols % n == 0                ? q->cols / n
                                                                  : 0;
    TRY(dq_shape(q, 1, n, q->rows, e));
    TRY(check_groups(q, e));
    if (q->scale.per_col || q->part[3]) return 0; /* part 3 is g_idx */
    return dq_bad(q, 1, e, "has %lld groups, which neither divide %lld inputs nor fit group_size",
                  (long long)n, (long long)q->cols);
}

int dq_gptq_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    int64_t have = q->part[0]->n_dims == 2 ? q->part[0]->shape[0] : 0;
    for (int b = 2; b <= 8; b++)
        if ((b < 5 || b == 8) && q->cols * b % 32 == 0 && have == q->cols * b / 32) q->bits = b;
    if (!q->bits)
        return dq_bad(q, 0, e, "is not %lld inputs of 2, 3, 4 or 8 bits", (long long)q->cols);
    q->dense = true;
    q->zero_plus1 = !c->gptq_v2;
    q->zero_words = q->zero_plus1 && c->gptq_words;
    TRY(dq_shape(q, 0, have, q->rows, e));
    TRY(fit_groups(q, c, e));
    if (q->rows * q->bits % 32) return dq_bad(q, 2, e, "does not fill words");
    TRY(dq_shape(q, 2, q->scale.n_cols, q->rows * q->bits / 32, e));
    if (c->act_order && !q->part[3] && q->scale.n_cols > 1)
        return dq_bad(q, 0, e,
                      "has no g_idx, but config.json says desc_act: download the folder again");
    return check_g_idx(q, 3, e);
}

/* Returns the zero point of a row from its group's words. Stored zero points are 1 too small. Older
 * tools store 15 for 16. GPTQModel subtracts from whole words, so a zero point of 0 borrows from
 * the next value; with 3 bits, where values straddle words, it subtracts from each value. */
static unsigned gptq_zero(const struct dq *q, const uint8_t *words, int64_t row) {
    const uint32_t mask = (1u << q->bits) - 1;
    const unsigned z = value_at(words, 4, row, q->bits, true);
    if (!q->zero_words) return z + q->zero_plus1;
    if (32 % q->bits) return (z + 1) & mask;
    const int64_t at = row * q->bits;
    const uint32_t ones = 0xffffffffu / mask; /* 1 in each value */
    return (load_u32(words + at / 32 * 4) + ones) >> at % 32 & mask;
}
bool dq_gptq_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    UNUSED(mat);
    int64_t n = q->scale.n_cols, zero_bytes = q->rows * q->bits / 8;
    for (int64_t g = 0; g < n; g++) {
        scratch[g] = dq_scale_at(q->part[1], g * q->rows + row);
        scratch[n + g] = (float)gptq_zero(q, q->part[2]->data + g * zero_bytes, row);
    }
    const uint8_t *p = q->part[0]->data + 4 * row;
    for (int64_t i = 0; i < q->cols; i++)
        dst[i] = (float)value_at(p, 4 * q->rows, i, q->bits, true);
    return scale_row(q, q->part[3], scratch, scratch + n, dst);
}

/* ---- AWQ, GEMM layout: packed along the outputs, [inputs, outputs / 8], nibbles interleaved -- */

int dq_awq_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    if (q->rows % 8) return dq_bad(q, 0, e, "does not fill words");
    TRY(dq_shape(q, 0, q->cols, q->rows / 8, e));
    TRY(fit_groups(q, c, e));
    return dq_shape(q, 2, q->scale.n_cols, q->rows / 8, e);
}
bool dq_awq_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    /* Position of a row's nibble in its word, by row % 8. */
    static const uint8_t nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    UNUSED(mat);
    int64_t n = q->scale.n_cols, step = 4 * (q->rows / 8);
    int sh = 4 * nibble[row % 8];
    const uint8_t *w = q->part[0]->data + 4 * (row / 8), *z = q->part[2]->data + 4 * (row / 8);
    for (int64_t g = 0; g < n; g++) {
        scratch[g] = dq_scale_at(q->part[1], g * q->rows + row);
        scratch[n + g] = (float)(load_u32(z + g * step) >> sh & 15);
    }
    for (int64_t i = 0; i < q->cols; i++) dst[i] = (float)(load_u32(w + i * step) >> sh & 15);
    return scale_row(q, NULL, scratch, scratch + n, dst);
}
