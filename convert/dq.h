// SPDX-License-Identifier: MIT
/* convert/dq.h - dequantization of Hugging Face checkpoints: computes f32 rows from the tensors
 * that store a matrix. The table in dq.c has one row per storage format, recognised by the tensors
 * present. docs/formats/convert.md defines the arithmetic. It is done in f32, in the order of the
 * tool that defines the format, so rows match that tool's bit for bit. Plain floats are the first
 * format. Internal to convert/. */
#ifndef HONE_CONVERT_DQ_H
#define HONE_CONVERT_DQ_H

#include <stdbool.h>

#include "containers/hfdir.h"

enum { DQ_PARTS = 6, DQ_NAME = 512 };

/* The facts of quantization_config that the stored tensors do not show. */
struct dq_config {
    char method[32];                /* "": no quantization_config */
    unsigned widths;                /* compressed-tensors: bit b: a group has b bits; 0: unknown */
    int64_t group;                  /* columns per scale; 0: unspecified */
    int64_t block_rows, block_cols; /* elements per scale; 0: unspecified */
    const char *bad_block;          /* key of an unreadable block size; NULL: none */
    bool gptq_v2;                   /* zero points are stored without an offset of 1 */
    bool gptq_words;                /* that offset was subtracted from words, not from values */
    bool act_order;                 /* GPTQ: the columns of a group need not be adjacent */
    bool inverse;                   /* FP8: weights are divided by their scales */
    int64_t stripes; /* of each qkv_proj, with scale blocks of their own; 0: not in stripes */
};
/* Reads quantization_config. ERR_DATA: a method or form that is not supported. */
int dq_config_read(struct dq_config *c, struct hfdir *dir, struct err *e);

/* Mapping from elements to scales: t[(mat*n_rows + row/per_row)*n_cols + col/per_col], with the
 * rows of scales counted per stripe if there are any. */
struct dq_grid {
    const struct st_tensor *t;
    int64_t n_rows, n_cols; /* scales per matrix; both 0: a single one */
    int64_t per_row, per_col;
    int64_t stripe; /* rows after which the blocks of rows restart; 0: never */
    bool turned; /* stored [n_cols][n_rows]: t[(mat*n_cols + col/per_col)*n_rows + row/per_row] */
};

/* A tensor as stored: `mats` matrices [rows][cols]. */
struct dq {
    const struct dq_form *form;
    const struct st_tensor *part[DQ_PARTS]; /* [0] holds the values; NULL: absent */
    int64_t mats, rows, cols;
    struct dq_grid scale;
    int bits;
    bool turned;              /* FP8: stored as [cols][rows] */
    bool dense, zero_dense;   /* values straddle words */
    int64_t group;            /* bitsandbytes: elements per absmax */
    int64_t nested;           /* absmax entries per nested absmax; 0: absmax is f32 */
    float offset;             /* added to the nested absmax */
    bool divides;             /* FP8: scales divide */
    bool zero_plus1;          /* GPTQ: stored zero points are 1 too small */
    bool zero_words;          /* GPTQ: add that 1 to all values of a word at once */
    struct lora_delta *delta; /* added to rows by the caller (lora.h); NULL: none */
    bool foreign;             /* part[0] comes from an adapter, not from the folder */
};

/* Finds a source tensor by name and marks it as used; NULL: absent. */
typedef const struct st_tensor *(*dq_find)(void *ud, const char *name);

/* Recognises the storage format of tensor `name` ("....weight", or a fused "....experts.down_proj")
 * with the unquantized shape want[n] (outer to inner). *found stays false if no form's main tensor
 * exists. Missing parts, and parts of the wrong shape or dtype, are errors. Plain floats may have
 * an additional second dimension of 1 (conv1d). turned: the last two dimensions of
 * three-dimensional tensors of plain floats and FP8 are swapped. */
int dq_open(struct dq *q, const struct dq_config *c, const char *name, const int64_t *want, int n,
            bool turned, dq_find find, void *ud, bool *found, struct err *e);
/* Opens a table of integers, t, of shape want[n]. */
int dq_open_integers(struct dq *q, const char *name, const struct st_tensor *t, const int64_t *want,
                     int n, struct err *e);
/* Returns whether the source is not quantized. */
bool dq_is_plain(const struct dq *q);

/* Dequantizes a row of any format except plain into dst [cols]; scratch [cols] is overwritten.
 * Returns false if a group index (g_idx) is out of range; dst is then all zero. */
bool dq_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Returns whether the format is MXFP4. GGUF has the same type, but orders codes and scales
 * differently. */
bool dq_is_mxfp4(const struct dq *q);
/* Writes a row of MXFP4 as GGUF blocks, 17 bytes per 32 values. Returns false if a scale is NaN,
 * which blocks cannot represent. */
bool dq_mxfp4_blocks(const struct dq *q, int64_t mat, int64_t row, uint8_t *dst);
/* Returns whether the format is NVFP4. GGUF has the same type, but orders codes differently, and
 * stores the scale of a matrix as a tensor of its own. */
bool dq_is_nvfp4(const struct dq *q);
/* Writes a row of NVFP4, of a multiple of 64 values, as GGUF blocks, 36 bytes per 64 values: the
 * same codes and scales. Returns false if a scale is negative or NaN, which blocks cannot
 * represent. */
bool dq_nvfp4_blocks(const struct dq *q, int64_t mat, int64_t row, uint8_t *dst);
/* Returns the scale by which the blocks of a matrix are multiplied. */
float dq_nvfp4_scale(const struct dq *q, int64_t mat);
/* Releases the mapped pages of all parts. */
void dq_drop(const struct dq *q, const struct hfdir *dir);

#endif
