// SPDX-License-Identifier: MIT
/* quantize/fb_dev.c - error feedback of a tensor's rows on a CUDA device: memory and copies. */
#include "quantize/fb_dev.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "quantize/enc/cuda/feedback.h"

/* Weights of a chunk, and the most rows that a launch takes. */
enum { CHUNK = 16 << 20, MOST_ROWS = 65535 };

/* Device buffers, in the order of `sizes`. */
enum part { R, M, DIAG, IMP, S, X, OUT, WORK, N_PARTS };
struct fb_dev {
    struct cu_ctx *c;
    struct cu_stream *s;
    enum qtype type;
    int64_t n, block, per_chunk;
    uint64_t dst_row;
    struct cu_buf *buf[N_PARTS];
    float *targets; /* pinned, [per_chunk][n] */
    uint8_t *out;   /* pinned, [per_chunk] rows */
};

/* Computes the sizes of the device buffers for chunks of `rows` rows; returns their sum. */
static uint64_t sizes(const struct fb_dev *d, int64_t rows, uint64_t size[N_PARTS]) {
    const uint64_t columns = (uint64_t)d->n * sizeof(float);
    uint64_t sum = 0;
    size[R] = size[M] = columns * (uint64_t)d->block;
    size[DIAG] = size[IMP] = size[S] = columns;
    size[X] = columns * (uint64_t)rows;
    size[OUT] = d->dst_row * (uint64_t)rows;
    size[WORK] = enc_cuda_feedback_work(d->type, rows, d->n);
    for (int i = 0; i < N_PARTS; i++) sum += cu_alloc_bytes(size[i]);
    return sum;
}

/* Chooses the number of rows of a chunk and allocates all memory. */
static int reserve(struct fb_dev *d, uint64_t max_bytes, int64_t rows, struct err *e) {
    uint64_t size[N_PARTS], most = max_bytes;
    struct cu_info info;
    void *p[2];
    if (!most) {
        TRY(cu_get_info(d->c, &info, e));
        most = info.mem_free > CU_KEEP_FREE ? info.mem_free - CU_KEEP_FREE : 0;
    }
    d->per_chunk = min_i64(min_i64(max_i64(1, CHUNK / d->n), MOST_ROWS), rows);
    while (d->per_chunk > FEEDBACK_ROWS && sizes(d, d->per_chunk, size) > most) d->per_chunk /= 2;
    const uint64_t need = sizes(d, d->per_chunk, size);
    if (need > most)
        return err_set(e, ERR_SYS,
                       "error feedback of %lld rows of %lld weights needs %llu bytes of device "
                       "memory, and %llu are available",
                       (long long)d->per_chunk, (long long)d->n, (unsigned long long)need,
                       (unsigned long long)most);
    for (int i = 0; i < N_PARTS; i++)
        TRY(cu_buf_new(&d->buf[i], d->c, size[i], "error feedback on the device", e));
    TRY(cu_host_new(&p[0], d->c, size[X], "targets of rows", e));
    d->targets = p[0];
    TRY(cu_host_new(&p[1], d->c, size[OUT], "encoded rows", e));
    d->out = p[1];
    return 0;
}

int fb_dev_new(struct fb_dev **out, struct qdev *q, enum qtype type, int64_t n, int64_t block,
               int64_t rows, struct err *e) {
    *out = NULL;
    if (!qdev_is_on(q) || !enc_cuda_feedback_can(type)) return 0;
    struct fb_dev *d = xcalloc(1, sizeof *d);
    int rc;
    d->c = qdev_ctx(q);
    d->type = type;
    d->n = n;
    d->block = block;
    d->dst_row = qtype_row_bytes(type, n);
    qdev_trim(q); /* the buffers of other tensors count towards the limit */
    TRY_GOTO(fail, rc, cu_stream_new(&d->s, d->c, e));
    TRY_GOTO(fail, rc, reserve(d, qdev_max_bytes(q), rows, e));
    *out = d;
    return 0;
fail:
    fb_dev_free(d);
    qdev_refused(q, "error feedback", e);
    return 0;
}

void fb_dev_free(struct fb_dev *d) {
    if (!d) return;
    for (int i = 0; i < N_PARTS; i++) cu_buf_free(d->buf[i]);
    cu_host_free(d->c, d->targets);
    cu_host_free(d->c, d->out);
    cu_stream_free(d->s);
    free(d);
}

int64_t fb_dev_most(const struct fb_dev *d) {
    return d->per_chunk;
}
float *fb_dev_targets(struct fb_dev *d) {
    return d->targets;
}

static int put(struct fb_dev *d, enum part to, const float *from, uint64_t n_bytes, struct err *e) {
    return cu_upload(d->s, cu_buf_ptr(d->buf[to]), from, n_bytes, e);
}

int fb_dev_matrix(struct fb_dev *d, const struct feedback *fb, bool factor, struct err *e) {
    const uint64_t columns = (uint64_t)d->n * sizeof(float), all = columns * (uint64_t)d->block;
    if (factor) {
        TRY(put(d, R, fb->f->r, all, e));
        TRY(put(d, M, fb->f->m, all, e));
        TRY(put(d, DIAG, fb->f->diag, columns, e));
    }
    TRY(put(d, IMP, fb->imp, columns, e));
    return put(d, S, fb->s, columns, e);
}

int fb_dev_encode(struct fb_dev *d, const struct feedback *fb, int64_t rows, uint8_t *dst,
                  struct err *e) {
    const uint64_t n_bytes = (uint64_t)rows * d->dst_row;
    const struct enc_cuda_feedback a = {.type = d->type,
                                        .search = fb->search,
                                        .steps = fb->steps,
                                        .rounds = fb->rounds,
                                        .rows = rows,
                                        .cols = {d->n, d->block, cu_buf_ptr(d->buf[R]),
                                                 cu_buf_ptr(d->buf[M]), cu_buf_ptr(d->buf[DIAG]),
                                                 cu_buf_ptr(d->buf[IMP]), cu_buf_ptr(d->buf[S])},
                                        .x = cu_buf_ptr(d->buf[X]),
                                        .out = cu_buf_ptr(d->buf[OUT]),
                                        .work = cu_buf_ptr(d->buf[WORK])};
    TRY(put(d, X, d->targets, (uint64_t)(rows * d->n) * sizeof(float), e));
    TRY(enc_cuda_feedback(d->s, &a, e));
    TRY(cu_download(d->s, d->out, a.out, n_bytes, e));
    TRY(cu_sync(d->s, e));
    memcpy(dst, d->out, n_bytes);
    return 0;
}
