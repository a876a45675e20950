// SPDX-License-Identifier: MIT
/* convert/dq_int.h - declarations shared by the dq_*.c files: table rows and common steps. */
#ifndef HONE_CONVERT_DQ_INT_H
#define HONE_CONVERT_DQ_INT_H

#include "convert/dq.h"
#include "base/bytes.h"
#include "base/fp.h"
#include "base/num.h"

#define DQ_T(dtype) (1u << (dtype))
#define DQ_FLOATS (DQ_T(ST_F32) | DQ_T(ST_F16) | DQ_T(ST_BF16))
#define DQ_INTS (DQ_T(ST_I32) | DQ_T(ST_I64))
#define DQ_OPTIONAL (1u << 31)

struct dq_part {
    const char *name; /* suffixes "a|b" of the tensor's name; "^x": x replaces "weight" */
    unsigned dtypes;  /* allowed dtypes, ored with DQ_OPTIONAL */
};
struct dq_form {
    const char *name;
    const char *method; /* required quant_method; NULL: any */
    struct dq_part part[DQ_PARTS];
    int (*fit)(struct dq *q, const struct dq_config *c, struct err *e); /* checks the shapes */
    bool (*row)(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
};

/* Checks that the last dimensions of part i are [rows, cols], and that the product of the others is
 * q->mats. */
int dq_shape(const struct dq *q, int i, int64_t rows, int64_t cols, struct err *e);
/* Uses part i as the scales of q's matrices: checks its shape and fills q->scale. */
int dq_grid_fit(struct dq *q, int i, const struct dq_config *c, struct err *e);
float dq_scale_at(const struct st_tensor *t, int64_t i); /* U8: an exponent (E8M0) */
/* Multiplies (q->divides: divides) each of the q->cols values in dst by its scale. */
void dq_grid_scale(const struct dq *q, int64_t mat, int64_t row, float *dst);
/* Sets e to ERR_DATA and returns it. The message names the tensor of part i with its dtype, shape
 * and form, and ends with the formatted text. */
int dq_bad(const struct dq *q, int i, struct err *e, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Check the parts of a matrix (..._fit) or compute a row (..._row) for the formats FP8, NVFP4 and
 * MXFP4 (dq_fp.c). */
int dq_fp8_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of FP8 weights with their scales. */
bool dq_fp8_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Checks the parts of NVFP4 weights against the matrix's shape. */
int dq_nvfp4_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of NVFP4 weights whose global scale multiplies. */
bool dq_nvfp4_mul_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Decodes a row of NVFP4 weights whose global scale divides. */
bool dq_nvfp4_div_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
int dq_mxfp4_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of MXFP4 weights. */
bool dq_mxfp4_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Check or compute int8, packed integers, GPTQ and AWQ (dq_pack.c). */
int dq_int8_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of 8-bit integers with scales and zero points. */
bool dq_int8_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Checks packed integers and determines their number of bits. */
int dq_pack_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of packed integers. */
bool dq_pack_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Checks GPTQ weights and determines their number of bits. */
int dq_gptq_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of GPTQ weights, which are stored by column. */
bool dq_gptq_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Checks the parts of AWQ weights against the matrix's shape. */
int dq_awq_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of AWQ weights, whose nibbles are interleaved. */
bool dq_awq_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Check or compute int8 and 4-bit codes of bitsandbytes (dq_bnb.c). */
int dq_bnb8_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of 8-bit bitsandbytes weights. */
bool dq_bnb8_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Checks the parts of 4-bit bitsandbytes weights against the matrix's shape. */
int dq_bnb4_fit(struct dq *q, const struct dq_config *c, struct err *e);
/* Decodes a row of 4-bit bitsandbytes weights. */
bool dq_bnb4_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);

#endif
