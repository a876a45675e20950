// SPDX-License-Identifier: MIT
/* quantize/batch.h - a batch of rows of one tensor to the bytes of its new type, by threads or by a
 * device. */
#ifndef HONE_QUANTIZE_BATCH_H
#define HONE_QUANTIZE_BATCH_H

#include "core/gguf.h"
#include "quantize/enc/open.h"
#include "quantize/fb_tensor.h"
#include "quantize/qdev.h"

struct batch_fault { /* first weight of a worker's rows that is not finite */
    int64_t row, col;
};
struct batch_job {
    const struct gguf_tensor *t;
    const struct enc *enc; /* NULL: copy */
    void (*decode)(const void *restrict, float *restrict, int64_t);
    uint64_t src_row, dst_row; /* bytes */
    int64_t first, n;          /* rows of the tensor that make the batch */
    uint8_t *out;
    const float *imp; /* [n_mat][ne0] or NULL */
    enum search search;
    float **scratch;             /* per worker, FEEDBACK_ROWS * ne0 weights */
    const struct enc_blocks *eb; /* NULL: the plain encoder only */
    bool balance;                /* of eb */
    bool raise;                  /* the same for grid types */
    struct enc_open **open;      /* per worker, the blocks of a row */
    struct fb_tensor *fb;        /* NULL: no error feedback */
    struct qdev *dev;            /* NULL: the CPU encodes; qdev_tensor was called for it */
    struct batch_fault *fault;
};

/* A tensor's rows are decoded, checked and encoded each on its own, or in groups with error
 * feedback; `path` names the file in errors. n rows from `first` into j->out. ERR_DATA: a weight is
 * NaN or infinite. When a device's first row is not what the CPU makes of it, a warning says so,
 * the CPU encodes the batch, and j->dev becomes NULL. */
int batch_encode(struct batch_job *j, int64_t first, int64_t n, struct pool *pool, const char *path,
                 struct err *e);
/* A row as f32; false: not finite. */
bool batch_load(const struct batch_job *j, int64_t row, float *x);

#endif
