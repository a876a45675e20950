// SPDX-License-Identifier: MIT
/* kernels/cuda/cuda.h - the GPU, as C sees it: devices, memory, streams, captured graphs, and one
 * launcher per kernel (launch.def). Without nvcc none.c answers every call with "not built"; the
 * tests link the same .cu sources compiled for the CPU (tests/cuda-emu).
 *
 * Pointers called `device pointer` come from cu_buf_ptr and may be offset, never dereferenced.
 * Everything on one stream runs in order; launchers return when the work is queued, and report
 * what the launch itself refused. Errors of running kernels appear at the next cu_sync. One thread
 * at a time per context; a thread may use several contexts in turn. */
#ifndef HONE_KERNELS_CUDA_H
#define HONE_KERNELS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/qtype.h"
#include "kernels/cuda/args.h"

struct cu_ctx;    /* a device in use */
struct cu_stream; /* an ordered queue of work on it */
struct cu_buf;    /* device memory */
struct cu_graph;  /* work captured once, run often */
struct cu_event;  /* a point in a stream's work */

struct cu_info {
    char name[256];
    int index, cc;                                      /* cc 90: compute capability 9.0 */
    int n_sm;                                           /* multiprocessors */
    uint64_t mem_total, mem_free, l2_bytes, smem_bytes; /* smem: most that one block can have */
    uint64_t bandwidth;                                 /* of its memory, bytes per second */
    bool emulated;                                      /* the CPU emulation of the tests */
};

/* Returns "13.0", the toolkit this was built with; "emulated"; or NULL when it was built without
 * CUDA. */
const char *cu_built(void);
/* Tells whether a call failed in a way that this process does not get over: all later ones fail. */
bool cu_lost(void);
/* Counts the devices: 0 without a driver or a device. ERR_SYS when there is a driver that does
 * not work: it is older than this build needs, which names both versions and what to do, or it
 * fails. */
int cu_devices(int *n, struct err *e);
/* Returns that number; 0 also when the driver fails. */
int cu_count(void);
/* Opens a device. ERR_SYS when there is no such one or it is older than compute capability 8.0. */
int cu_open(struct cu_ctx **out, int device, struct err *e);
void cu_close(struct cu_ctx *c); /* after everything made from it; NULL is fine */
/* Describes the device; mem_free is asked of it now. */
int cu_get_info(struct cu_ctx *c, struct cu_info *out, struct err *e);

/* Device memory, 256-byte aligned, not cleared. ERR_SYS names `what`, the bytes needed and free.
 * Plans leave CU_KEEP_FREE of what is free, so that other programs and the driver live; it may be
 * used down to CU_KEEP_LEAST, for what came between. */
#define CU_KEEP_FREE (UINT64_C(768) << 20)
#define CU_KEEP_LEAST (UINT64_C(256) << 20)
int cu_buf_new(struct cu_buf **out, struct cu_ctx *c, uint64_t n_bytes, const char *what,
               struct err *e);
/* Returns the most bytes that a buffer of n_bytes takes of a device. */
uint64_t cu_alloc_bytes(uint64_t n_bytes);
bool cu_was_full(const struct cu_ctx *c); /* cu_buf_new has refused for want of memory */
void cu_buf_free(struct cu_buf *b);       /* NULL is fine */
void *cu_buf_ptr(const struct cu_buf *b); /* device pointer */
uint64_t cu_buf_bytes(const struct cu_buf *b);
/* Allocates pinned host memory, which copies run from and to at full speed. */
int cu_host_new(void **out, struct cu_ctx *c, uint64_t n_bytes, const char *what, struct err *e);
void cu_host_free(struct cu_ctx *c, void *p);
bool cu_is_pinned(struct cu_ctx *c, const void *p);

int cu_stream_new(struct cu_stream **out, struct cu_ctx *c, struct err *e);
void cu_stream_free(struct cu_stream *s);
int cu_sync(struct cu_stream *s, struct err *e); /* waits until the stream is empty */
/* Copies and fills in stream order. Pageable host memory of an upload may be reused at return; a
 * download is complete after cu_sync. */
int cu_upload(struct cu_stream *s, void *dst, const void *host, uint64_t n_bytes, struct err *e);
int cu_download(struct cu_stream *s, void *host, const void *src, uint64_t n_bytes, struct err *e);
int cu_copy(struct cu_stream *s, void *dst, const void *src, uint64_t n_bytes, struct err *e);
int cu_fill(struct cu_stream *s, void *dst, int byte, uint64_t n_bytes, struct err *e);
/* Copies from the device of another stream, behind all that is queued on that stream now and
 * before what is queued on `to` from now on. It goes directly where the two devices can,
 * otherwise through main memory. Not while a stream is captured. */
int cu_move(struct cu_stream *to, void *dst, struct cu_stream *from, const void *src,
            uint64_t n_bytes, struct err *e);
/* Lets the two devices reach each other's memory where they can: copies between them need not go
 * through main memory then. */
void cu_pair(struct cu_ctx *a, struct cu_ctx *b);

/* Makes an event, which orders streams. One that was never recorded is in the past. Not while a
 * stream is captured. */
int cu_event_new(struct cu_event **out, struct cu_ctx *c, struct err *e);
void cu_event_free(struct cu_event *v); /* NULL is fine */
/* Sets v to the point behind all that is queued on s now. */
int cu_event_record(struct cu_event *v, struct cu_stream *s, struct err *e);
/* Lets what is queued on s from now on begin after v. */
int cu_event_wait(struct cu_event *v, struct cu_stream *s, struct err *e);
int cu_event_sync(struct cu_event *v, struct err *e); /* the caller waits for v */

/* Begins to record. Until the end the stream's launches, copies and fills are recorded, not run,
 * and addresses are frozen. cu_graph_run queues all of them with one call. */
int cu_graph_begin(struct cu_stream *s, struct err *e);
int cu_graph_end(struct cu_stream *s, struct cu_graph **out, struct err *e);
int cu_graph_run(struct cu_stream *s, struct cu_graph *g, struct err *e);
void cu_graph_free(struct cu_graph *g);

/* Kernels of single tokens may begin while the one before ends (code for compute capability 9.0,
 * driver and runtime 12.3; off). */
void cu_launch_early(struct cu_stream *s, bool yes);
/* Switches products of many tokens to Hopper's wgmma (compute capability 9.0; off), which sums
 * in an order of its own. It stays off where the device or this build has none, or where it
 * computes wrongly: the first call for a device tries small products, and warns. ERR_SYS when
 * the trial itself failed, and the context with it. */
int cu_use_wgmma(struct cu_stream *s, bool yes, struct err *e);
bool cu_uses_wgmma(const struct cu_stream *s);
/* Returns how many kernels were launched or recorded on the stream so far. */
int64_t cu_launches(const struct cu_stream *s);

/* Times a stretch of a stream: mark 0 and 1 are its ends, cu_marked_ms waits for them and returns
 * the milliseconds between. */
int cu_mark(struct cu_stream *s, int which, struct err *e);
int cu_marked_ms(struct cu_stream *s, double *ms, struct err *e);

/* A matrix, or a stack of them (experts), on the device: GGUF blocks, row r of matrix m at data +
 * m * mat_bytes + r * row_bytes. Filled by the caller; data at a multiple of 256 bytes, and memory
 * up to one. */
struct cu_weight {
    enum qtype type;
    int64_t k, rows, mats; /* ne[0], ne[1], ne[2] */
    uint64_t row_bytes, mat_bytes;
    const void *data;
    void *packed; /* the same weights in the layout of pack.cuh, or NULL: fast products need it */
};
/* Returns true when the launchers below can compute with the type. */
bool cu_has_type(enum qtype t);
/* Returns the bytes of the packed layout, which lies at a multiple of 256 bytes; 0: the type or the
 * row length has none.
 */
uint64_t cu_packed_bytes(const struct cu_weight *w);
/* Returns true when a part of cu_products can have this weight: packed, or with rows of a multiple
 * of 64 of a type that is not always packed; exact: of type f32, f16 or bf16. */
bool cu_part_can(const struct cu_weight *w, bool exact);
/* Returns the most rows of a segment that cu_attn_few can do: one, or with fast_few CU_FEW with
 * heads of 64, 128, 256 or 512 values and a cache of f16, q8_0, q4_0, or q8_0 keys and q4_0 values.
 */
int64_t cu_attn_few_rows(const struct cu_attn *a);
/* Launchers that need scratch take it from the stream, which grows it outside of captures: reserve
 * the most before, or run a pass once before it is captured, with the largest n_tok first. */
int cu_reserve(struct cu_stream *s, uint64_t n_bytes, struct err *e);
/* Returns the most scratch that a product of n_in rows takes, of which x_div in turn are the same
 * input, and n_sum add up. */
uint64_t cu_scratch_bytes(const struct cu_weight *w, int64_t n_in, int64_t x_div, int64_t n_sum,
                          bool exact);

#define CU_OP(name, ...) int name(struct cu_stream *s, __VA_ARGS__, struct err *e);
#include "kernels/cuda/launch.def"
#undef CU_OP

#endif
