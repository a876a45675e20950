// SPDX-License-Identifier: MIT
/* convert/xform_int.h - what a tensor transform does, for xform.c. Internal to convert/. */
#ifndef HONE_CONVERT_XFORM_INT_H
#define HONE_CONVERT_XFORM_INT_H

#include "convert/conv_plan.h"

/* A transform. h: the output's hyperparameters; t: the output tensor. */
struct xform_kind {
    /* Returns the source row of row r of a matrix; NULL: the same row. */
    int64_t (*row)(const struct hparams *h, const struct tensor_inst *t, int64_t r);
    /* Transforms the n values x of output row r; NULL: no arithmetic. */
    void (*value)(const struct hparams *h, const struct tensor_inst *t, int64_t r, float *x,
                  int64_t n);
    /* Computes value i of a tensor without a source; NULL: the tensor has a source. */
    float (*made)(const struct hparams *h, int64_t i);
    uint8_t half;  /* 1 or 2: selects the first or second half of each matrix's rows */
    uint8_t every; /* 1: selects even rows, or even values of a vector; 2: odd ones */
    bool turns;    /* each matrix of the source is transposed */
    bool elements; /* each element of a vector counts as a row */
    bool columns;  /* regroups columns */
    bool is_qkv, is_qkvz, is_latent, is_index; /* shape of the source (xform_want) */
};
/* Returns the row of the table for a transform. */
const struct xform_kind *xform_kind(enum xform xf);

/* Returns the number of rows or columns per V head; 0: no regrouping. */
int64_t xform_v_group(const struct hparams *h, const struct tensor_inst *t);
/* Returns the checkpoint's index of GGUF's index i, in groups of `g`: new[r*Hk + k] = old[k*R +
 * r]. */
int64_t xform_v_old(const struct hparams *h, int64_t g, int64_t i);
/* Returns the number of rows of a head in kv_b: key rows, then value rows. */
int64_t xform_latent_head(const struct hparams *h);

#endif
