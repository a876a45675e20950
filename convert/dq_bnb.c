// SPDX-License-Identifier: MIT
/* convert/dq_bnb.c - dequantization of the bitsandbytes formats: int8 rows, each with its absolute
 * maximum, and 4-bit indices into a 16-entry table (nf4, fp4) with an absolute maximum per block of
 * consecutive elements. The maxima may themselves be stored as 8-bit codes (nested). Two codes per
 * byte, the first in the high nibble. */
#include <math.h>
#include <string.h>

#include "convert/dq_int.h"

int dq_bnb8_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    UNUSED(c);
    TRY(dq_shape(q, 0, q->rows, q->cols, e));
    if (q->part[1]->n_elems != q->mats * q->rows)
        return dq_bad(q, 1, e, "should have one number per row");
    const struct st_tensor *layout = q->part[2];
    if (layout && (layout->n_elems != 1 || layout->data[0] != 0))
        return dq_bad(q, 2, e,
                      "has rows tiled for one kind of GPU: save the model again "
                      "with a newer bitsandbytes");
    return 0;
}
bool dq_bnb8_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    UNUSED(scratch);
    int64_t r = mat * q->rows + row;
    const uint8_t *p = q->part[0]->data + r * q->cols;
    float s = load_f32(q->part[1]->data + 4 * r);
    for (int64_t i = 0; i < q->cols; i++) /* 1/127 as rounded by the tool that wrote the file */
        dst[i] = (float)(int8_t)p[i] * s * 7.874015718698502e-3f;
    return true;
}

/* Reads quant_state, which is JSON. */
static int read_state(struct dq *q, struct err *e) {
    const struct st_tensor *t = q->part[3];
    struct json *j = NULL;
    TRY(json_parse(&j, (const char *)t->data, (size_t)t->n_bytes, t->name, e));
    bool ok = json_i64(json_get(j, "blocksize"), &q->group) && q->group > 0 && q->group % 2 == 0;
    const bool nested = json_get(j, "nested_blocksize") != NULL;
    if (nested) ok = ok && json_i64(json_get(j, "nested_blocksize"), &q->nested) && q->nested > 0;
    q->offset = nested ? (float)json_num(json_get(j, "nested_offset"), (double)NAN) : 0;
    json_free(j);
    if (!ok) return dq_bad(q, 3, e, "does not specify positive block sizes");
    return isfinite(q->offset) ? 0 : dq_bad(q, 3, e, "has no nested_offset that is a number");
}

int dq_bnb4_fit(struct dq *q, const struct dq_config *c, struct err *e) {
    UNUSED(c);
    int64_t n = 0;
    if (!mul_ok_i64(q->mats, q->rows, &n) || !mul_ok_i64(n, q->cols, &n) || q->cols % 2)
        return dq_bad(q, 0, e, "needs rows of even length");
    if (q->part[0]->n_bytes != (uint64_t)n / 2)
        return dq_bad(q, 0, e, "should have %lld bytes", (long long)n / 2);
    TRY(read_state(q, e));
    int64_t blocks = div_up(n, q->group);
    bool nested = q->part[1]->dtype == ST_U8;
    if (q->part[1]->n_elems != blocks || nested != (q->nested > 0))
        return dq_bad(q, 1, e, "should have %lld entries", (long long)blocks);
    if (q->part[2]->n_elems != 16) return dq_bad(q, 2, e, "should have 16 entries");
    if (!nested) return 0;
    if (!q->part[4] || !q->part[5])
        return dq_bad(q, 1, e, "lacks nested_absmax or nested_quant_map");
    if (q->part[4]->n_elems != div_up(blocks, q->nested))
        return dq_bad(q, 4, e, "should have %lld entries", (long long)div_up(blocks, q->nested));
    return q->part[5]->n_elems == 256 ? 0 : dq_bad(q, 5, e, "should have 256 entries");
}

/* Returns the scale of a block, which may itself be quantized. */
static float absmax_at(const struct dq *q, int64_t block) {
    const struct st_tensor *t = q->part[1];
    if (!q->nested) return load_f32(t->data + 4 * block);
    float code = load_f32(q->part[5]->data + 4 * (int64_t)t->data[block]);
    return code * load_f32(q->part[4]->data + 4 * (block / q->nested)) + q->offset;
}

bool dq_bnb4_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    UNUSED(scratch);
    float map[16];
    int64_t at = (mat * q->rows + row) * q->cols, block = -1;
    float s = 0;
    memcpy(map, q->part[2]->data, sizeof map);
    for (int64_t i = 0; i < q->cols; i++, at++) {
        if (at / q->group != block) s = absmax_at(q, block = at / q->group);
        uint8_t b = q->part[0]->data[at / 2];
        dst[i] = map[at % 2 ? b & 15 : b >> 4] * s;
    }
    return true;
}
