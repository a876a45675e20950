// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/none.c - stubs of rows.h and feedback.h for builds without CUDA. Such builds
 * have no streams, so only the queries are ever called. */
#include "quantize/enc/cuda/feedback.h"
#include "quantize/enc/cuda/rows.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

bool enc_cuda_can(enum qtype t) {
    return false;
}
uint64_t enc_cuda_work(enum qtype t, enum search search, int64_t n, int64_t k) {
    return 0;
}
int enc_cuda_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e) {
    return err_set(e, ERR_SYS, "this hone was built without CUDA");
}
bool enc_cuda_feedback_can(enum qtype t) {
    return false;
}
uint64_t enc_cuda_feedback_work(enum qtype t, int64_t rows, int64_t n) {
    return 0;
}
int enc_cuda_feedback(struct cu_stream *s, const struct enc_cuda_feedback *a, struct err *e) {
    return err_set(e, ERR_SYS, "this hone was built without CUDA");
}
