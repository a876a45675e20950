// SPDX-License-Identifier: MIT
/* kernels/cuda/cuda.h - C interface to the GPU: devices, memory, streams, captured graphs, and one
 * launcher per kernel (launch.def). Builds without nvcc use none.c instead; tests link the same .cu
 * sources compiled for the CPU (tests/cuda-emu).
 *
 * A `device pointer` comes from cu_buf_ptr and may be offset but not dereferenced. Work on a stream
 * runs in order. Launchers return once the work is queued, and report only errors of the launch
 * itself; errors of running kernels appear at the next cu_sync. A context is used by one thread at
 * a time; a thread may use several contexts in turn. */
#ifndef HONE_KERNELS_CUDA_H
#define HONE_KERNELS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/qtype.h"
#include "kernels/cuda/args.h"

struct cu_ctx;    /* an open device */
struct cu_stream; /* ordered work queue of a device */
struct cu_buf;    /* device memory */
struct cu_graph;  /* work captured once, run often */
struct cu_event;  /* a point in a stream's work */

struct cu_info {
    char name[256];
    int index, cc;                                      /* cc 90: compute capability 9.0 */
    int n_sm;                                           /* multiprocessors */
    uint64_t mem_total, mem_free, l2_bytes, smem_bytes; /* smem: most per block */
    uint64_t bandwidth;                                 /* memory bandwidth, bytes per second */
    bool emulated;                                      /* the tests' CPU emulation */
};

/* Returns the toolkit version of the build, such as "13.0", or "emulated"; NULL: built without
 * CUDA. */
const char *cu_built(void);
/* Returns whether an error occurred that makes all later calls of this process fail. */
bool cu_lost(void);
/* Counts the devices: 0 without a driver or device. Returns ERR_SYS if the driver fails, or is
 * older than this build needs; the message then names both versions and what to do. */
int cu_devices(int *n, struct err *e);
/* Returns the number of devices; 0 if the driver fails. */
int cu_count(void);
/* Opens a device. Returns ERR_SYS if it does not exist or is older than compute capability 8.0. */
int cu_open(struct cu_ctx **out, int device, struct err *e);
void cu_close(struct cu_ctx *c); /* after releasing everything created from it; c may be NULL */
/* Describes the device, with the current mem_free. */
int cu_get_info(struct cu_ctx *c, struct cu_info *out, struct err *e);

/* Allocates device memory, 256-byte aligned and not cleared. ERR_SYS names `what` and the bytes
 * needed and free. Plans leave CU_KEEP_FREE of the free memory to other programs and the driver;
 * unplanned allocations may use it down to CU_KEEP_LEAST. */
#define CU_KEEP_FREE (UINT64_C(768) << 20)
#define CU_KEEP_LEAST (UINT64_C(256) << 20)
int cu_buf_new(struct cu_buf **out, struct cu_ctx *c, uint64_t n_bytes, const char *what,
               struct err *e);
/* Returns the maximum device memory, in bytes, that a buffer of n_bytes can occupy. */
uint64_t cu_alloc_bytes(uint64_t n_bytes);
bool cu_was_full(const struct cu_ctx *c); /* whether cu_buf_new failed for lack of memory */
void cu_buf_free(struct cu_buf *b);       /* b may be NULL */
void *cu_buf_ptr(const struct cu_buf *b); /* device pointer */
uint64_t cu_buf_bytes(const struct cu_buf *b);
/* Allocates pinned host memory, for copies at full speed. */
int cu_host_new(void **out, struct cu_ctx *c, uint64_t n_bytes, const char *what, struct err *e);
/* Frees memory from cu_host_new(); p may be NULL. */
void cu_host_free(struct cu_ctx *c, void *p);
/* Returns whether p is in pinned main memory. */
bool cu_is_pinned(struct cu_ctx *c, const void *p);

/* Creates a stream, a queue of work on the device; release it with cu_stream_free(). */
int cu_stream_new(struct cu_stream **out, struct cu_ctx *c, struct err *e);
void cu_stream_free(struct cu_stream *s);
int cu_sync(struct cu_stream *s, struct err *e); /* waits until the stream is empty */
/* Copies and fills in stream order. Pageable source memory of an upload may be reused on return;
 * a download is complete after cu_sync. */
int cu_upload(struct cu_stream *s, void *dst, const void *host, uint64_t n_bytes, struct err *e);
/* Queues a copy from the device; the host memory is valid after cu_sync(). */
int cu_download(struct cu_stream *s, void *host, const void *src, uint64_t n_bytes, struct err *e);
/* Queues a copy within the device. */
int cu_copy(struct cu_stream *s, void *dst, const void *src, uint64_t n_bytes, struct err *e);
/* Queues filling n_bytes with a byte. */
int cu_fill(struct cu_stream *s, void *dst, int byte, uint64_t n_bytes, struct err *e);
/* Copies from the device of another stream, after all work already queued on that stream and before
 * any work queued on `to` later. Copies directly if the two devices can, otherwise through main
 * memory. Not allowed during capture. */
int cu_move(struct cu_stream *to, void *dst, struct cu_stream *from, const void *src,
            uint64_t n_bytes, struct err *e);
/* Lets two devices access each other's memory if possible, so that copies between them bypass
 * main memory. */
void cu_pair(struct cu_ctx *a, struct cu_ctx *b);

/* Creates an event, which orders the work of different streams. An event that was never recorded
 * counts as already reached. Not allowed during capture. */
int cu_event_new(struct cu_event **out, struct cu_ctx *c, struct err *e);
void cu_event_free(struct cu_event *v); /* v may be NULL */
/* Sets v to the end of the work queued on s so far. */
int cu_event_record(struct cu_event *v, struct cu_stream *s, struct err *e);
/* Makes work queued on s from now on wait for v. */
int cu_event_wait(struct cu_event *v, struct cu_stream *s, struct err *e);
int cu_event_sync(struct cu_event *v, struct err *e); /* blocks the caller until v is reached */

/* Begins capture: until cu_graph_end, launches, copies and fills of the stream are recorded with
 * their addresses instead of run. cu_graph_run queues all of them with one call. */
int cu_graph_begin(struct cu_stream *s, struct err *e);
/* Ends the capture and returns it as a graph to run again. */
int cu_graph_end(struct cu_stream *s, struct cu_graph **out, struct err *e);
/* Queues the work of a captured graph. */
int cu_graph_run(struct cu_stream *s, struct cu_graph *g, struct err *e);
void cu_graph_free(struct cu_graph *g);

/* Lets kernels for a single token begin before the preceding kernel ends (needs code for compute
 * capability 9.0, driver and runtime 12.3). Off by default. */
void cu_launch_early(struct cu_stream *s, bool yes);
/* Switches products for many tokens to Hopper's wgmma (compute capability 9.0), which sums in a
 * different order. Off by default. The first call for a device tests small products; wgmma stays
 * off, with a warning, if the device or this build lacks it or the results are wrong. Returns
 * ERR_SYS if the test itself crashed; the CUDA context is unusable after that. */
int cu_use_wgmma(struct cu_stream *s, bool yes, struct err *e);
/* Returns whether the stream's products use the Hopper instructions. */
bool cu_uses_wgmma(const struct cu_stream *s);
/* Returns the number of kernels launched or recorded on the stream so far. */
int64_t cu_launches(const struct cu_stream *s);

/* Marks the start (0) or end (1) of a timed section. cu_marked_ms waits for both and returns the
 * milliseconds between them. */
int cu_mark(struct cu_stream *s, int which, struct err *e);
/* Waits for the second mark and returns the time between the two marks in milliseconds. */
int cu_marked_ms(struct cu_stream *s, double *ms, struct err *e);

/* A matrix, or a stack of them (experts), on the device: GGUF blocks, row r of matrix m at data + m
 * * mat_bytes + r * row_bytes. Filled by the caller. data, and the end of its memory, are aligned
 * to 256 bytes. */
struct cu_weight {
    enum qtype type;
    int64_t k, rows, mats; /* ne[0], ne[1], ne[2] */
    uint64_t row_bytes, mat_bytes;
    const void *data;
    void *packed; /* same weights in the layout of pack.cuh, for fast products, or NULL */
};
/* Returns whether the launchers below support the type. */
bool cu_has_type(enum qtype t);
/* Returns the size of the packed layout, which must be aligned to 256 bytes; 0: not available
 * for the type or row length. */
uint64_t cu_packed_bytes(const struct cu_weight *w);
/* Returns whether a part of cu_products can use this weight. With `exact` it must be f32, f16 or
 * bf16. Otherwise it must be packed, or have a type that can be used unpacked and rows whose length
 * is a multiple of 64. */
bool cu_part_can(const struct cu_weight *w, bool exact);
/* Returns the maximum number of rows per segment that cu_attn_few supports. That is one, or CU_FEW
 * with fast_few, heads of 64, 128, 256 or 512 values, and a cache of f16, q8_0, q4_0, or q8_0 keys
 * with q4_0 values. */
int64_t cu_attn_few_rows(const struct cu_attn *a);
/* Grows the stream's scratch, which launchers use, to n_bytes. Scratch cannot grow during
 * capture: reserve the maximum first, or run each pass once before capturing, the largest n_tok
 * first. */
int cu_reserve(struct cu_stream *s, uint64_t n_bytes, struct err *e);
/* Returns the maximum scratch, in bytes, that a product with n_in rows needs, where x_div
 * consecutive rows share an input and n_sum consecutive rows add up. */
uint64_t cu_scratch_bytes(const struct cu_weight *w, int64_t n_in, int64_t x_div, int64_t n_sum,
                          bool exact);

#define CU_OP(name, ...) int name(struct cu_stream *s, __VA_ARGS__, struct err *e);
#include "kernels/cuda/launch.def"
#undef CU_OP

#endif
