// SPDX-License-Identifier: MIT
/* kernels/cuda/none.c - stubs of the functions of cuda.h for builds without CUDA. cu_devices and
 * cu_open fail with an error that explains how to build with CUDA, so no device is ever opened. */
#include "kernels/cuda/cuda.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Fills *e with how to build with CUDA; returns ERR_SYS. */
static int fail_not_built(struct err *e) {
    return err_set(
        e, ERR_SYS,
        "this hone was built without CUDA: build it again with 'make HAVE_CUDA=1' (needs "
        "nvcc of the CUDA toolkit), or use --device cpu");
}

const char *cu_built(void) {
    return NULL;
}
int cu_count(void) {
    return 0;
}
uint64_t cu_alloc_bytes(uint64_t n_bytes) {
    return n_bytes;
}
bool cu_was_full(const struct cu_ctx *c) {
    return false;
}
bool cu_has_type(enum qtype t) {
    return false;
}
bool cu_part_can(const struct cu_weight *w, bool exact) {
    return false;
}
int64_t cu_attn_few_rows(const struct cu_attn *a) {
    return 0;
}
uint64_t cu_packed_bytes(const struct cu_weight *w) {
    return 0;
}
uint64_t cu_scratch_bytes(const struct cu_weight *w, int64_t n_in, int64_t x_div, int64_t n_sum,
                          bool exact) {
    return 0;
}
void cu_close(struct cu_ctx *c) {
}
void cu_buf_free(struct cu_buf *b) {
}
void *cu_buf_ptr(const struct cu_buf *b) {
    return NULL;
}
uint64_t cu_buf_bytes(const struct cu_buf *b) {
    return 0;
}
void cu_host_free(struct cu_ctx *c, void *p) {
}
bool cu_lost(void) {
    return false;
}
bool cu_is_pinned(struct cu_ctx *c, const void *p) {
    return false;
}
void cu_stream_free(struct cu_stream *s) {
}
void cu_pair(struct cu_ctx *a, struct cu_ctx *b) {
}
void cu_event_free(struct cu_event *v) {
}
void cu_graph_free(struct cu_graph *g) {
}

void cu_launch_early(struct cu_stream *s, bool yes) {
}
bool cu_uses_wgmma(const struct cu_stream *s) {
    return false;
}
int64_t cu_launches(const struct cu_stream *s) {
    return 0;
}

/* Defines a function that fails with the error of fail_not_built(). */
#define NONE(name, ...)                                                                            \
    int name(__VA_ARGS__, struct err *e) {                                                         \
        return fail_not_built(e);                                                                  \
    }
NONE(cu_devices, int *n)
NONE(cu_open, struct cu_ctx **out, int device)
NONE(cu_get_info, struct cu_ctx *c, struct cu_info *out)
NONE(cu_buf_new, struct cu_buf **out, struct cu_ctx *c, uint64_t n_bytes, const char *what)
NONE(cu_host_new, void **out, struct cu_ctx *c, uint64_t n_bytes, const char *what)
NONE(cu_stream_new, struct cu_stream **out, struct cu_ctx *c)
NONE(cu_reserve, struct cu_stream *s, uint64_t n_bytes)
NONE(cu_sync, struct cu_stream *s)
NONE(cu_upload, struct cu_stream *s, void *dst, const void *host, uint64_t n_bytes)
NONE(cu_download, struct cu_stream *s, void *host, const void *src, uint64_t n_bytes)
NONE(cu_copy, struct cu_stream *s, void *dst, const void *src, uint64_t n_bytes)
NONE(cu_fill, struct cu_stream *s, void *dst, int byte, uint64_t n_bytes)
NONE(cu_move, struct cu_stream *to, void *dst, struct cu_stream *from, const void *src,
     uint64_t n_bytes)
NONE(cu_event_new, struct cu_event **out, struct cu_ctx *c)
NONE(cu_event_record, struct cu_event *v, struct cu_stream *s)
NONE(cu_event_wait, struct cu_event *v, struct cu_stream *s)
NONE(cu_event_sync, struct cu_event *v)
NONE(cu_graph_begin, struct cu_stream *s)
NONE(cu_graph_end, struct cu_stream *s, struct cu_graph **out)
NONE(cu_graph_run, struct cu_stream *s, struct cu_graph *g)
NONE(cu_use_wgmma, struct cu_stream *s, bool yes)
NONE(cu_mark, struct cu_stream *s, int which)
NONE(cu_marked_ms, struct cu_stream *s, double *ms)
#define CU_OP(name, ...) NONE(name, struct cu_stream *s, __VA_ARGS__)
#include "kernels/cuda/launch.def"
#undef CU_OP
