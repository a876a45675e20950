// SPDX-License-Identifier: MIT
/* quantize/batch.h - rows of one tensor to the bytes of its new type, a batch at a time, by threads
 * or by a device. */
#ifndef HONE_QUANTIZE_BATCH_H
#define HONE_QUANTIZE_BATCH_H

#include "containers/gguf.h"
#include "kernels/kern.h"
#include "quantize/enc/raw.h"
#include "quantize/fb_tensor.h"
#include "quantize/qdev.h"

struct batch_fault { /* first weight of a worker's rows that cannot be encoded */
    int64_t row, col;
    bool finite; /* it is too large for the type */
};
struct batch_job {
    /* The caller sets these. */
    const struct gguf_tensor *t;
    enum qtype to; /* t's: its rows are copied */
    enum search search;
    bool keep;        /* rows keep their sums (enc_row_balanced, enc_grid_balance) */
    const float *imp; /* [n_mat][ne0] or NULL */
    struct pool *pool;
    /* batch_open sets these. */
    const struct enc *enc;                                             /* NULL: copy */
    void (*decode)(const void *restrict, float *restrict, int64_t);    /* of t's type */
    void (*decode_to)(const void *restrict, float *restrict, int64_t); /* of the new one */
    uint64_t src_row, dst_row;                                         /* bytes */
    int64_t first, n; /* rows of the tensor that make the batch */
    int64_t stage;    /* first row of the batch that is not encoded yet, with fb */
    uint8_t *out;
    float **scratch;             /* per worker, FEEDBACK_ROWS * ne0 weights */
    const struct enc_blocks *eb; /* NULL: the plain encoder only */
    bool balance;                /* of eb */
    bool raise;                  /* the same for grid types */
    struct enc_raw **open;       /* per worker, the blocks of a row */
    struct batch_fault *fault;
    struct fb_tensor *fb; /* NULL, or error feedback: by the caller, batch_close frees it */
    struct qdev *dev;     /* batch_device; NULL: the CPU encodes */
};

/* Allocates room for rows; decoders come from ref. batch_close must be called also after an
 * error. */
int batch_open(struct batch_job *j, const struct kern *ref, struct err *e);
void batch_close(struct batch_job *j);
/* Lets a device encode the rows, if it can and there is no error feedback. d NULL: none. */
int batch_device(struct batch_job *j, struct qdev *d, struct err *e);
/* Decodes, checks and encodes n rows of a tensor from `first` on into j->out, each on its own,
 * or in groups with error feedback. `path` names the file in errors. ERR_DATA when a weight is
 * NaN, infinite or too large for the type. When a device's first row is not what the CPU makes of
 * it, a warning says so, the CPU encodes the batch and all that follow, and j->dev becomes NULL. */
int batch_encode(struct batch_job *j, int64_t first, int64_t n, const char *path, struct err *e);
/* Decodes a row to f32. Returns false when it is not finite. */
bool batch_load(const struct batch_job *j, int64_t row, float *x);

#endif
