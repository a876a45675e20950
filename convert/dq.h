// SPDX-License-Identifier: MIT
/* convert/dq.h - quantized checkpoints: rows of f32 out of the tensors that store a matrix. One row
 * of the table in dq.c per form, found by the tensors that are there; its arithmetic is defined in
 * docs/formats/convert.md and computed in f32 in the order of the form's own tools, so rows equal
 * theirs bit for bit. Plain floats are the first form. Inner to convert/. */
#ifndef HONE_CONVERT_DQ_H
#define HONE_CONVERT_DQ_H

#include <stdbool.h>

#include "containers/hfdir.h"

enum { DQ_PARTS = 6, DQ_NAME = 512 };

/* quantization_config, as far as the stored tensors do not say it. */
struct dq_config {
    char method[32];                /* "": no quantization_config */
    int64_t bits;                   /* compressed-tensors: of all groups; 0: none or several */
    int64_t group;                  /* columns per scale; 0: not given */
    int64_t block_rows, block_cols; /* per scale; 0: not given */
    bool gptq_v2;                   /* zero points are stored as they are */
};
int dq_config_read(struct dq_config *c, struct hfdir *dir, struct err *e);

/* Which scale belongs to which element: t[(mat*n_rows + row/per_row)*n_cols + col/per_col]. */
struct dq_grid {
    const struct st_tensor *t;
    int64_t n_rows, n_cols; /* scales per matrix; both 0: one for all */
    int64_t per_row, per_col;
};

/* One stored tensor: `mats` matrices [rows][cols]. */
struct dq {
    const struct dq_form *form;
    const struct st_tensor *part[DQ_PARTS]; /* [0] holds the values; NULL: not there */
    int64_t mats, rows, cols;
    struct dq_grid scale;
    int bits;
    bool dense, zero_dense;   /* values straddle words */
    int64_t group;            /* bitsandbytes: elements per absmax */
    int64_t nested;           /* absmax entries per nested one; 0: absmax is f32 */
    float offset;             /* of nested absmax */
    bool zero_plus1;          /* GPTQ: stored zero points are one too small */
    struct lora_delta *delta; /* added to the rows by the caller, or NULL (lora.h) */
    bool foreign;             /* part[0] is stored in an adapter, not in the folder */
};

/* Finds a source tensor by name, and marks it as used; NULL when absent. */
typedef const struct st_tensor *(*dq_find)(void *ud, const char *name);

/* Recognises the form of the tensor `name` ("....weight", or a fused "....experts.down_proj") whose
 * unquantized shape is want[n] (outer to inner). *found stays false when no form's main tensor is
 * there. A form with parts that are missing, of another shape or dtype is an error. One extra
 * dimension of 1 in second place is fine for plain floats (conv1d). turned: those that have three
 * dimensions have the last two swapped. */
int dq_open(struct dq *q, const struct dq_config *c, const char *name, const int64_t *want, int n,
            bool turned, dq_find find, void *ud, bool *found, struct err *e);
bool dq_is_plain(const struct dq *q);

/* Computes one row of any form but plain into dst [cols]; scratch [cols] is overwritten. Returns
 * false when a group index (g_idx) is out of range; the row is zero then. */
bool dq_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch);
/* Tells whether the form is MXFP4, which is also a GGUF type: the same codes and scales in another
 * order. */
bool dq_is_mxfp4(const struct dq *q);
/* Writes one row of MXFP4 as blocks of the GGUF type, 17 bytes for 32 values. Returns false when a
 * scale is not a number, which the blocks cannot hold. */
bool dq_mxfp4_blocks(const struct dq *q, int64_t mat, int64_t row, uint8_t *dst);
/* Releases cached pages of all parts. */
void dq_drop(const struct dq *q, const struct hfdir *dir);

#endif
