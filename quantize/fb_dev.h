// SPDX-License-Identifier: MIT
/* quantize/fb_dev.h - error feedback of a tensor's rows on a CUDA device: memory and copies.
 *
 * Device memory: a factor (8 bytes per element of R), and for each row of a chunk its targets, its
 * blocks and work memory (enc_cuda_feedback_work). Chunks have at most 16 million weights. One
 * thread at a time, except for the rows in main memory, which threads fill concurrently. */
#ifndef HONE_QUANTIZE_FB_DEV_H
#define HONE_QUANTIZE_FB_DEV_H

#include "quantize/feedback.h"
#include "quantize/qdev.h"

struct fb_dev;
/* Reserves memory for rows of n columns, whose moments are in blocks of `block`; `rows` is the most
 * that one call encodes. *out is NULL if the device cannot encode the type, was given up, or, after
 * a warning, lacks memory. */
int fb_dev_new(struct fb_dev **out, struct qdev *q, enum qtype type, int64_t n, int64_t block,
               int64_t rows, struct err *e);
void fb_dev_free(struct fb_dev *d); /* d may be NULL */
/* Returns the number of rows of a chunk. */
int64_t fb_dev_most(const struct fb_dev *d);
/* Returns the targets of the chunk's rows, [fb_dev_most][n] in pinned main memory, for the caller
 * to fill. */
float *fb_dev_targets(struct fb_dev *d);
/* Uploads the column weights of the current matrix and, if `factor`, its factor. */
int fb_dev_matrix(struct fb_dev *d, const struct feedback *fb, bool factor, struct err *e);
/* Encodes the first `rows` rows of the targets to dst, as feedback_rows does. */
int fb_dev_encode(struct fb_dev *d, const struct feedback *fb, int64_t rows, uint8_t *dst,
                  struct err *e);

#endif
