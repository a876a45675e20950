// SPDX-License-Identifier: MIT
/* quantize/batch.h - encoding of one tensor's rows, batch by batch, on threads or on a device. */
#ifndef HONE_QUANTIZE_BATCH_H
#define HONE_QUANTIZE_BATCH_H

#include "containers/gguf.h"
#include "kernels/kern.h"
#include "quantize/enc/raw.h"
#include "quantize/fb_tensor.h"
#include "quantize/qdev.h"

struct batch_fault { /* the first weight in a worker's rows that cannot be encoded */
    int64_t row, col;
    bool finite; /* the weight is finite, but too large for the type */
};
struct batch_job {
    /* Set by the caller. */
    const struct gguf_tensor *t;
    enum qtype to; /* new type; if it is t's own, rows are copied */
    enum search search;
    bool keep;        /* preserve the sums of each row (enc_row_balanced, enc_grid_balance) */
    bool feed;        /* rows may be encoded with error feedback */
    const float *imp; /* [n_mat][ne0] or NULL */
    struct pool *pool;
    /* Set by batch_open. */
    const struct enc *enc;                                          /* NULL: copy */
    float largest;                                                  /* enc_largest of the type */
    void (*decode)(const void *restrict, float *restrict, int64_t); /* from t's type */
    uint64_t src_row, dst_row;                                      /* bytes */
    int64_t first, n; /* the batch: first row in the tensor, number of rows */
    int64_t stage;    /* with fb: first row of the batch not encoded yet */
    uint8_t *out;
    int64_t stage_end, group;    /* with fb: end of the stage's rows; rows encoded together */
    float **scratch;             /* two rows per worker; with `feed`, FEEDBACK_GROUP rows */
    bool exact;                  /* rows may be exact in the new type (exact.h); tried first */
    const struct enc_blocks *eb; /* NULL: the type has only the plain encoder */
    bool balance;                /* balance rows with eb */
    bool raise;                  /* balance rows of grid types */
    struct enc_raw **open;       /* per worker: the blocks of a row */
    struct batch_fault *fault;
    struct fb_tensor *fb; /* error feedback, or NULL; set by the caller, freed by batch_close */
    struct qdev *dev;     /* set by batch_device; NULL: the CPU encodes */
};

/* Allocates the row buffers; ref supplies the decoders. Call batch_close even after an error. */
int batch_open(struct batch_job *j, const struct kern *ref, struct err *e);
void batch_close(struct batch_job *j);
/* Lets device d encode the rows, if it can; call once error feedback is set up. d NULL: the CPU
 * encodes them. */
int batch_device(struct batch_job *j, struct qdev *d, struct err *e);
/* Decodes, checks and encodes rows first .. first + n - 1 of the tensor into j->out, one at a
 * time or, with error feedback, in groups. `path` names the file in errors. Returns ERR_DATA if
 * a weight is NaN, infinite or too large for the type. If the device's first row differs from
 * the CPU's, logs a warning, encodes this batch and all later ones on the CPU, and sets j->dev
 * to NULL. */
int batch_encode(struct batch_job *j, int64_t first, int64_t n, const char *path, struct err *e);
/* Decodes a row to f32. Returns false if it has a NaN or an infinity. */
bool batch_load(const struct batch_job *j, int64_t row, float *x);

#endif
