// SPDX-License-Identifier: MIT
/* quantize/batch.c - decoding, checking and encoding of the rows of a batch, on threads or on a
 * device. */
#include "quantize/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "quantize/enc/cuda/rows.h"
#include "quantize/enc/gridq.h"
#include "quantize/exact.h"
#include "quantize/feedback.h"

/* Returns the first column whose value is not finite; -1: there is no such column. */
static int64_t not_finite(const float *x, int64_t n) {
    for (int64_t at = 0; at < n; at += 32) {
        /* Largest exponent bits so far, tested once per 32 weights. */
        uint32_t top = 0;
        if (at + 32 <= n)
            for (int i = 0; i < 32; i++) {
                uint32_t e = fp_bits(x[at + i]) & 0x7f800000u;
                top = e > top ? e : top;
            }
        if (at + 32 <= n && top != 0x7f800000u) continue;
        for (int64_t i = at; i < min_i64(n, at + 32); i++)
            if (!isfinite(x[i])) return i;
    }
    return -1;
}

/* Returns the first column whose weight is too large for the new type; -1: there is no such column.
 * Encoders would cut it without an error. */
static int64_t too_large(const struct batch_job *j, const float *x) {
    for (int64_t i = 0; i < j->t->ne[0]; i++)
        if (fabsf(x[i]) > j->largest) return i;
    return -1;
}

/* Records the fault with the lowest row. finite: the value overflows only when quantized. */
static void note_fault(struct batch_fault *f, int64_t row, int64_t col, bool finite) {
    if (f->row < 0 || row < f->row) *f = (struct batch_fault){row, col, finite};
}

/* Loads, converts and encodes rows [begin, end) of the batch; records faults per worker. */
static void requant_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct batch_job *j = ctx;
    float *x = j->scratch[worker];
    struct batch_fault *f = &j->fault[worker];
    int64_t ne0 = j->t->ne[0];
    for (int64_t i = begin; i < end; i++) {
        int64_t row = j->first + i;
        const uint8_t *src = j->t->data + (uint64_t)row * j->src_row;
        uint8_t *dst = j->out + (uint64_t)i * j->dst_row;
        int64_t col = -1;
        if (j->decode) {
            j->decode(src, x, ne0);
            col = not_finite(x, ne0);
        }
        if (col >= 0) {
            note_fault(f, row, col, false);
            continue;
        }
        if (!j->enc) {
            memcpy(dst, src, j->src_row);
            continue;
        }
        if (j->exact && exact_row(j->to, j->t->type, x, ne0, dst)) continue;
        col = too_large(j, x);
        if (col >= 0) {
            note_fault(f, row, col, true);
            continue;
        }
        const float *imp = j->imp ? j->imp + row / j->t->ne[1] * ne0 : NULL;
        if (j->balance)
            enc_row_balanced(j->eb, x, imp, ne0, dst, j->search, j->open[worker]);
        else
            j->enc->row(x, imp, ne0, dst, j->search);
        if (j->raise) enc_grid_balance(j->enc->type, x, imp, ne0, dst);
    }
}

/* Decodes a row for error feedback. If it has a weight that cannot be encoded, records that and
 * makes all of them zeros. */
static void load_row(const struct batch_job *j, struct batch_fault *f, int64_t row, float *x) {
    const bool finite = batch_load(j, row, x);
    const int64_t col = finite ? too_large(j, x) : not_finite(x, j->t->ne[0]);
    if (col < 0) return;
    note_fault(f, row, col, finite);
    memset(x, 0, (size_t)j->t->ne[0] * sizeof *x);
}

/* Encodes groups [begin, end) of the stage; a group is j->group rows of one matrix. */
static void do_groups(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct batch_job *j = ctx;
    for (int64_t g = begin; g < end && !progress_interrupted(); g++) {
        int64_t i = j->stage + g * j->group, n = min_i64(j->group, j->stage_end - i);
        for (int64_t k = 0; k < n; k++)
            load_row(j, &j->fault[worker], j->first + i + k, j->scratch[worker] + k * j->t->ne[0]);
        fb_tensor_rows(j->fb, worker, (j->first + i) % j->t->ne[1], j->scratch[worker], (int)n,
                       j->out + (uint64_t)i * j->dst_row, j->dst_row);
    }
}

/* Encodes rows [j->stage, j->stage_end) of the batch, which are in one stage, on threads. */
static void stage_by_cpu(struct batch_job *j) {
    const int64_t n = j->stage_end - j->stage;
    j->group = feedback_group(n, pool_size(j->pool));
    pool_for(j->pool, div_up(n, j->group), 1, do_groups, j);
}

/* Decodes rows [begin, end) of the chunk to the device's targets and shifts them. */
static void aim_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct batch_job *j = ctx;
    const int64_t ne0 = j->t->ne[0], first = j->first + j->stage + begin;
    float *x = fb_tensor_targets(j->fb) + begin * ne0;
    for (int64_t i = 0; i < end - begin; i++)
        load_row(j, &j->fault[worker], first + i, x + i * ne0);
    for (int64_t i = begin, n; i < end; i += n, x += n * ne0) {
        n = min_i64(end - i, FEEDBACK_GROUP);
        fb_tensor_aim(j->fb, worker, (j->first + j->stage + i) % j->t->ne[1], x, (int)n);
    }
}

/* Records the errors of rows [begin, end) of the chunk for the next stage. */
static void keep_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct batch_job *j = ctx;
    float *x = j->scratch[worker];
    for (int64_t i = j->stage + begin; i < j->stage + end; i++) {
        load_row(j, &j->fault[worker], j->first + i, x);
        fb_tensor_keep(j->fb, worker, (j->first + i) % j->t->ne[1], x, 1,
                       j->out + (uint64_t)i * j->dst_row, j->dst_row);
    }
}

/* Encodes the batch's first row on the CPU as well. Returns whether the bytes are equal. */
static int same_as_cpu(const struct batch_job *j, bool *same, struct err *e) {
    struct batch_job one = *j;
    void *p;
    TRY(mem_alloc(&p, j->dst_row, "a row of blocks", e));
    one.out = p;
    one.stage_end = 1;
    stage_by_cpu(&one);
    *same = memcmp(p, j->out, j->dst_row) == 0;
    mem_free(p);
    return 0;
}

/* Encodes rows [j->stage, j->stage_end), which are in one stage, on the device. Checks the batch's
 * first row against the CPU, and stops using the device if the bytes differ. *done is false if the
 * CPU must encode the rows. */
static int stage_by_device(struct batch_job *j, bool *done, struct err *e) {
    const int64_t n = j->stage_end - j->stage;
    *done = true;
    pool_for(j->pool, n, FEEDBACK_ROWS, aim_rows, j);
    const int rc = fb_tensor_encode(j->fb, n, j->out + (uint64_t)j->stage * j->dst_row, e);
    if (rc) {
        *done = false;
        TRY(qdev_failed(j->dev, rc, e));
        fb_tensor_give_up(j->fb);
        return 0;
    }
    if (j->stage == 0) TRY(same_as_cpu(j, done, e));
    if (!*done) {
        log_warn("tensor %s, row %lld: the device and the CPU wrote different bytes; continuing on "
                 "the CPU alone",
                 j->t->name, (long long)(j->first + j->stage));
        fb_tensor_give_up(j->fb);
        return 0;
    }
    if (fb_tensor_keeps(j->fb)) pool_for(j->pool, n, FEEDBACK_ROWS, keep_rows, j);
    return 0;
}

/* Encodes the batch's rows up to `end`, which are in one stage, in chunks of the device's size. */
static int do_stage(struct batch_job *j, int64_t end, struct err *e) {
    for (; j->stage < end && !progress_interrupted(); j->stage = j->stage_end) {
        const bool device = fb_tensor_has_device(j->fb);
        bool done = false;
        j->stage_end = device ? min_i64(end, j->stage + fb_tensor_most(j->fb)) : end;
        if (device) TRY(stage_by_device(j, &done, e));
        if (!done) stage_by_cpu(j);
    }
    return 0;
}

/* Encodes the batch with error feedback, stage by stage. */
static int do_stages(struct batch_job *j, struct err *e) {
    const int64_t rows = j->t->ne[1], step = fb_tensor_stage_rows(j->fb);
    while (j->stage < j->n && !progress_interrupted()) {
        const int64_t row = (j->first + j->stage) % rows;
        fb_tensor_stage(j->fb, row);
        TRY(do_stage(j, min_i64(j->n, j->stage + step - row % step), e));
    }
    if (!fb_tensor_has_device(j->fb)) j->dev = NULL;
    return 0;
}

/* Returns ERR_DATA for the first faulty row of all workers, or 0. */
static int check_faults(const struct batch_job *j, int n_workers, const char *path, struct err *e) {
    struct batch_fault f = {-1, -1, false};
    for (int k = 0; k < n_workers; k++)
        if (j->fault[k].row >= 0 && (f.row < 0 || j->fault[k].row < f.row)) f = j->fault[k];
    if (f.row < 0) return 0;
    if (f.finite)
        err_set(e, ERR_DATA,
                "%s: tensor %s: the weight at row %lld, column %lld is too large for %s: keep it "
                "with --tensor %s=bf16",
                path, j->t->name, (long long)f.row, (long long)f.col, qtype_name(j->to),
                j->t->name);
    else
        err_set(
            e, ERR_DATA,
            "%s: tensor %s holds NaN or infinity at row %lld, column %lld; it cannot be quantized, "
            "repair or convert the model again",
            path, j->t->name, (long long)f.row, (long long)f.col);
    return err_about(e, path, j->t->name);
}

/* Encodes a row that the device leaves to the CPU. */
static void do_row(void *ctx, int64_t row) {
    const struct batch_job *j = ctx;
    requant_rows(ctx, row - j->first, row - j->first + 1, 0);
}

/* Encodes the batch on the device. Encodes the tensor's first row on the CPU as well, and stops
 * using the device if its bytes differ. */
static int by_device(struct batch_job *j, struct err *e) {
    const uint8_t *src = j->t->data + (uint64_t)j->first * j->src_row;
    struct batch_job one = *j;
    void *p;
    struct qdev_odd odd = {.large = do_row, .ctx = j};
    const int rc = qdev_rows(j->dev, src, j->first, j->n, j->out, &odd, e);
    if (rc) {
        TRY(qdev_failed(j->dev, rc, e));
        j->dev = NULL;
        return 0;
    }
    if (odd.row >= 0) note_fault(&j->fault[0], odd.row, odd.col, false);
    if (j->fault[0].row >= 0) return 0;
    TRY(mem_alloc(&p, j->dst_row, "a row of blocks", e));
    one.out = p;
    requant_rows(&one, 0, 1, 0);
    if (memcmp(p, j->out, j->dst_row) != 0) {
        log_warn("tensor %s, row %lld: the device and the CPU wrote different bytes; continuing on "
                 "the CPU alone",
                 j->t->name, (long long)j->first);
        qdev_give_up(j->dev);
        j->dev = NULL;
    }
    mem_free(p);
    return 0;
}

int batch_open(struct batch_job *j, const struct kern *ref, struct err *e) {
    const struct gguf_tensor *t = j->t;
    const int n_workers = pool_size(j->pool);
    void *p;
    j->enc = j->to != t->type ? enc_find(j->to) : NULL;
    j->largest = j->enc ? enc_largest(j->to) : 0;
    j->decode = ref->op[t->type].decode;
    j->src_row = qtype_row_bytes(t->type, t->ne[0]);
    j->dst_row = qtype_row_bytes(j->to, t->ne[0]);
    j->exact = j->enc && j->search != SEARCH_CONVENTIONAL && exact_seems(t, j->to);
    if (j->enc && j->search != SEARCH_CONVENTIONAL) {
        j->eb = enc_blocks_find(j->to);
        j->balance = j->eb && j->keep;
        j->raise = grid_spec_of(j->to) && j->keep;
    }
    j->open = xcalloc((size_t)n_workers, sizeof *j->open);
    j->scratch = xcalloc((size_t)n_workers, sizeof *j->scratch);
    j->fault = xcalloc((size_t)n_workers, sizeof *j->fault);
    for (int k = 0; k < n_workers; k++) {
        j->fault[k].row = -1;
        const uint64_t rows = j->feed ? FEEDBACK_GROUP : 2;
        TRY(mem_alloc(&p, rows * (uint64_t)t->ne[0] * sizeof(float), "rows of weights", e));
        j->scratch[k] = p;
        if (!j->eb) continue;
        uint64_t blocks = (uint64_t)t->ne[0] / (uint64_t)qtype_info(j->to)->block_elems;
        TRY(mem_alloc(&p, blocks * sizeof **j->open, "blocks of a row", e));
        j->open[k] = p;
    }
    return 0;
}

void batch_close(struct batch_job *j) {
    for (int k = 0; j->scratch && k < pool_size(j->pool); k++) {
        mem_free(j->scratch[k]);
        mem_free(j->open[k]);
    }
    free(j->open);
    free(j->scratch);
    free(j->fault);
    fb_tensor_free(j->fb);
}

int batch_device(struct batch_job *j, struct qdev *d, struct err *e) {
    const struct gguf_tensor *t = j->t;
    const struct qdev_tensor q = {.from = t->type,
                                  .to = j->to,
                                  .search = j->search,
                                  .balance = j->balance || j->raise,
                                  .k = t->ne[0],
                                  .rows = t->ne[1],
                                  .imp = j->imp,
                                  .n_mat = t->ne[2] * t->ne[3]};
    bool takes = false;
    if (j->fb) {
        TRY(fb_tensor_device(j->fb, d, e));
        takes = fb_tensor_has_device(j->fb);
    } else if (j->enc && !j->exact) {
        TRY(qdev_tensor(d, &q, &takes, e));
    }
    j->dev = takes ? d : NULL;
    return 0;
}

int batch_encode(struct batch_job *j, int64_t first, int64_t n, const char *path, struct err *e) {
    int64_t rows_of_matrix = j->t->ne[1];
    j->first = first;
    j->stage = 0;
    j->n = n;
    if (j->fb && first % rows_of_matrix == 0)
        TRY(fb_tensor_matrix(j->fb, first / rows_of_matrix, e));
    if (j->fb)
        TRY(do_stages(j, e));
    else if (j->dev)
        TRY(by_device(j, e));
    if (!j->fb && !j->dev) pool_for(j->pool, n, max_i64(1, 8192 / j->t->ne[0]), requant_rows, j);
    if (j->fb && progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
    return check_faults(j, pool_size(j->pool), path, e);
}

bool batch_load(const struct batch_job *j, int64_t row, float *x) {
    j->decode(j->t->data + (uint64_t)row * j->src_row, x, j->t->ne[0]);
    return not_finite(x, j->t->ne[0]) < 0;
}
