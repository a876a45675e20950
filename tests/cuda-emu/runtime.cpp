// SPDX-License-Identifier: MIT
/* tests/cuda-emu/runtime.cpp - the CUDA runtime as emu.hpp declares it: streams, events, copies,
 * captured graphs; devices.cpp has devices and their memory. A stream, an event, a graph belong to
 * the device that was set when they were made, and work, copies and waits are refused elsewhere: a
 * real one would do copies and waits, and first make a context on whatever device is set.
 *
 * Work runs when it is queued, unless emu_defer holds its stream back: then it runs when something
 * waits for it, a synchronisation or an event. So with one of two streams held back the other runs
 * as far ahead as events allow, and a missing one shows. */
#include <stdio.h>
#include <time.h>

#include "tests/cuda-emu/block.hpp"
#include "tests/cuda-emu/control.h"
#include "tests/cuda-emu/devices.hpp"

enum { MAX_THREADS = 1024 };

struct emu_op { /* a launch; a copy (src) or fill of n bytes; waiting for n operations of a stream
                 */
    emu_launch l;
    void *dst;
    const void *src;
    int byte;
    uint64_t wait_for; /* a stream's id */
    int device;        /* whose memory it may touch */
    size_t n;
    void *own; /* freed afterwards */
    emu_op *next;
};
struct emu_queue {
    emu_op *first, **end;
};
struct emu_graph {
    emu_queue ops;
    int device;
    int refs; /* graph and executable share it */
};
struct emu_stream {
    uint64_t id;
    int device;
    emu_graph *capture;
    emu_queue ops; /* not run yet */
    uint64_t n_queued, n_run;
    emu_stream *next; /* by age */
};
struct emu_event {
    double ms;
    int device;
    uint64_t stream, n; /* number of its operations; stream 0: never recorded */
};
struct pinned {
    char *p;
    size_t n;
    pinned *next;
};
static emu_stream *streams;
static pinned *pinned_list;
static unsigned held;
static emu_counts counts;
extern "C" void emu_count(emu_counts *out) {
    *out = counts;
}
static struct {
    const void *kernel;
    int device;
    size_t n_bytes;
} optin[256];
static int n_optin;

/* Waits until the devices fail, -1: they have; 0: they will not. */
static int until_lost;
extern "C" void emu_lose(int after) {
    until_lost = after;
}
static bool lost(bool waits) {
    static bool read;
    const char *asked = read ? nullptr : getenv("CUDA_EMU_LOST");
    read = true;
    if (asked) until_lost = atoi(asked);
    if (waits && until_lost > 0 && --until_lost == 0) until_lost = -1;
    return until_lost < 0;
}

static void push(emu_queue *q, const emu_op &op) {
    emu_op *kept = new emu_op(op);
    kept->next = nullptr;
    if (!q->first) q->end = &q->first;
    *q->end = kept;
    q->end = &kept->next;
}

static void catch_up(emu_stream *s, uint64_t n);
static void catch_up(uint64_t stream, uint64_t n) {
    for (emu_stream *s = streams; s; s = s->next)
        if (s->id == stream) return catch_up(s, n);
}
static void do_op(const emu_op *op) {
    if (!op->wait_for) emu_enter(op->device);
    if (!op->l.run) emu_late_other();
    if (op->l.run)
        emu_run(&op->l);
    else if (op->wait_for)
        catch_up(op->wait_for, op->n);
    else if (op->src)
        memmove(op->dst, op->src, op->n);
    else
        memset(op->dst, op->byte, op->n);
}
static void drop_op(emu_op *op) {
    if (op->l.run) op->l.drop(op->l.args);
    free(op->own);
    delete op;
}
/* Returns whether the stream's first n operations are done. */
static void catch_up(emu_stream *s, uint64_t n) {
    while (s->n_run < n) {
        emu_op *op = s->ops.first;
        s->ops.first = op->next;
        s->n_run++;
        do_op(op);
        drop_op(op);
    }
}
static void finish_all(void) {
    for (emu_stream *s = streams; s; s = s->next) catch_up(s, s->n_queued);
}
static bool holds_back(const emu_stream *s) {
    int age = 0;
    for (const emu_stream *o = streams; o != s; o = o->next) age++;
    return age < 32 && held >> age & 1;
}
extern "C" void emu_defer(unsigned which) {
    finish_all();
    held = which;
}

static cudaError_t submit(emu_op op, cudaStream_t s) {
    if (lost(false)) return emu_error(cudaErrorLaunchFailure);
    if (op.device != EMU_EVERY) op.device = s->device;
    if (s->capture) {
        push(&s->capture->ops, op);
        return cudaSuccess;
    }
    push(&s->ops, op);
    s->n_queued++;
    if (!holds_back(s)) catch_up(s, s->n_queued);
    return cudaSuccess;
}

extern "C" void emu_card(int capability) {
    emu_capability = capability;
    n_optin = 0;
}
/* Most shared memory of a block, by compute capability. */
size_t emu_smem_max(void) {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, emu_current());
    return p.sharedMemPerBlockOptin;
}

cudaError_t emu_smem_optin(const void *kernel, size_t n_bytes) {
    if (n_bytes > emu_smem_max()) return emu_error(cudaErrorInvalidValue);
    for (int i = 0; i < n_optin; i++)
        if (optin[i].kernel == kernel && optin[i].device == emu_current()) {
            optin[i].n_bytes = n_bytes;
            return cudaSuccess;
        }
    if (n_optin == 256) {
        fputs("cuda-emu: more kernels with large shared memory than there is room for\n", stderr);
        abort();
    }
    optin[n_optin].kernel = kernel;
    optin[n_optin].device = emu_current();
    optin[n_optin++].n_bytes = n_bytes;
    return cudaSuccess;
}

size_t emu_smem_of(const void *kernel) {
    for (int i = 0; i < n_optin; i++)
        if (optin[i].kernel == kernel && optin[i].device == emu_current()) return optin[i].n_bytes;
    return 0;
}

/* Checks the limits of the hardware. */
static bool can_launch(const emu_launch &l) {
    const size_t asked = emu_smem_of(l.kernel), limit = asked ? asked : (size_t)EMU_SMEM_DEFAULT;
    const uint64_t n = (uint64_t)l.block.x * l.block.y * l.block.z;
    return n >= 1 && n <= MAX_THREADS && l.block.z <= 64 && l.grid.x >= 1 && l.grid.y >= 1 &&
           l.grid.z >= 1 && l.grid.x <= 0x7fffffffu && l.grid.y <= 65535 && l.grid.z <= 65535 &&
           l.smem <= limit;
}

static bool next_early;
void emu_next_is_early(bool yes) {
    next_early = yes;
}
cudaError_t emu_submit(const emu_launch &l, cudaStream_t s) {
    const bool elsewhere = s->device != emu_current();
    if (elsewhere || !can_launch(l)) {
        l.drop(l.args);
        return emu_error(elsewhere ? cudaErrorInvalidResourceHandle
                                   : cudaErrorInvalidConfiguration);
    }
    emu_op op = {};
    counts.launches++;
    op.l = l;
    op.l.asked = emu_smem_of(l.kernel) > 0;
    op.l.early = next_early;
    next_early = false;
    return submit(op, s);
}

const char *cudaGetErrorString(cudaError_t rc) {
    switch (rc) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorPeerAccessAlreadyEnabled:
        return "peer access is already enabled";
    case cudaErrorLaunchFailure:
        return "unspecified launch failure";
    case cudaErrorPeerAccessUnsupported:
        return "peer access is not supported between these two devices";
    }
    return "?";
}
cudaError_t cudaFree(void *p) {
    if (!p) return cudaSuccess;
    if (emu_capturing()) return emu_error(cudaErrorStreamCaptureUnsupported);
    finish_all();
    emu_forget(p);
    return cudaSuccess;
}
static bool no_pinned;
extern "C" void emu_no_pinned(int yes) {
    no_pinned = yes != 0;
}
/* Calls that could wait for work are refused while a stream of the thread is captured. */
bool emu_capturing(void) {
    for (const emu_stream *s = streams; s; s = s->next)
        if (s->capture) return true;
    return false;
}
cudaError_t cudaDeviceSynchronize(void) {
    if (emu_capturing()) return emu_error(cudaErrorStreamCaptureUnsupported);
    counts.waits++;
    finish_all();
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t n) {
    if (emu_capturing()) return emu_error(cudaErrorStreamCaptureUnsupported);
    *p = no_pinned ? nullptr : malloc(n);
    if (!*p) return emu_error(cudaErrorMemoryAllocation);
    pinned_list = new pinned{(char *)*p, n, pinned_list};
    counts.pins++;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p) {
    finish_all();
    for (pinned **at = &pinned_list; *at; at = &(*at)->next)
        if ((*at)->p == p) {
            pinned *gone = *at;
            *at = gone->next;
            delete gone;
            break;
        }
    free(p);
    return cudaSuccess;
}
static bool is_pinned(const void *p) {
    for (const pinned *o = pinned_list; o; o = o->next)
        if ((const char *)p >= o->p && (const char *)p < o->p + o->n) return true;
    return false;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p) {
    a->type = is_pinned(p) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind) {
    finish_all();
    emu_enter(emu_current());
    memcpy(dst, src, n);
    return cudaSuccess;
}
/* Pageable memory may be reused at return; pinned memory is read when the copy runs. */
static size_t flip_from;
extern "C" void emu_flip(size_t at_least) {
    flip_from = at_least;
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind kind,
                            cudaStream_t s) {
    if (s->device != emu_current()) return emu_error(cudaErrorInvalidResourceHandle);
    const bool up = kind == cudaMemcpyHostToDevice, down = kind == cudaMemcpyDeviceToHost;
    counts.up += up;
    counts.down += down;
    counts.pageable += down && !is_pinned(dst);
    (up ? counts.up_bytes : counts.down_bytes) += up || down ? (int64_t)n : 0;
    if (flip_from && n >= flip_from && kind == cudaMemcpyDeviceToHost)
        emu_enter(s->device),
            *(unsigned char *)src ^= 1; /* in device memory, before it is fetched */
    emu_op op = {};
    op.dst = dst;
    op.src = src;
    op.n = n;
    if (n && kind == cudaMemcpyHostToDevice && !s->capture && holds_back(s) && !is_pinned(src) &&
        !emu_pageable_is_read()) {
        op.src = op.own = malloc(n);
        memcpy(op.own, src, n);
    }
    return n ? submit(op, s) : cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n,
                                cudaStream_t s) {
    if (!emu_lies_on(dst, n, to) || !emu_lies_on(src, n, from))
        return emu_error(cudaErrorInvalidValue);
    emu_op op = {};
    op.dst = dst;
    op.src = src;
    op.n = n;
    op.device = EMU_EVERY;
    return n ? submit(op, s) : cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t n, cudaStream_t s) {
    emu_op op = {};
    op.dst = dst;
    op.byte = byte;
    op.n = n;
    return n ? submit(op, s) : cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
    static uint64_t last;
    emu_stream **at = &streams;
    while (*at) at = &(*at)->next;
    *s = *at = new emu_stream();
    (*s)->id = ++last;
    (*s)->device = emu_current();
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    catch_up(s, s->n_queued);
    emu_stream **at = &streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    delete s;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    if (s->capture) return emu_error(cudaErrorInvalidValue);
    if (s->device != emu_current()) return emu_error(cudaErrorInvalidResourceHandle);
    counts.waits++;
    if (lost(true)) return emu_error(cudaErrorLaunchFailure);
    catch_up(s, s->n_queued);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, int) {
    if (s->capture) return emu_error(cudaErrorInvalidValue);
    s->capture = new emu_graph();
    s->capture->refs = 1;
    s->capture->device = s->device;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
    if (!s->capture) return emu_error(cudaErrorInvalidValue);
    *g = s->capture;
    s->capture = nullptr;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long) {
    *x = g;
    g->refs++;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s) {
    if (s->capture) return emu_error(cudaErrorInvalidValue);
    if (s->device != x->device || s->device != emu_current())
        return emu_error(cudaErrorInvalidResourceHandle);
    counts.graphs++;
    if (lost(false)) return emu_error(cudaErrorLaunchFailure);
    catch_up(s, s->n_queued); /* graphs are not held back */
    for (const emu_op *op = x->ops.first; op; op = op->next)
        if (op->l.run && !can_launch(op->l)) return emu_error(cudaErrorInvalidConfiguration);
    for (const emu_op *op = x->ops.first; op; op = op->next) do_op(op);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
    if (--g->refs) return cudaSuccess;
    while (g->ops.first) {
        emu_op *next = g->ops.first->next;
        drop_op(g->ops.first);
        g->ops.first = next;
    }
    delete g;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
    return cudaGraphDestroy(x);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ev, unsigned) {
    *ev = new emu_event();
    (*ev)->device = emu_current();
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *ev) {
    return cudaEventCreateWithFlags(ev, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t ev) {
    delete ev;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t ev, cudaStream_t s) {
    struct timespec ts;
    if (ev->device != s->device) return emu_error(cudaErrorInvalidResourceHandle);
    clock_gettime(CLOCK_MONOTONIC, &ts);
    ev->ms = 1e3 * (double)ts.tv_sec + 1e-6 * (double)ts.tv_nsec;
    ev->stream = s->id;
    ev->n = s->n_queued;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t ev) {
    counts.waits++;
    catch_up(ev->stream, ev->n);
    return cudaSuccess;
}
/* Makes later work on s wait for the work queued before the event was recorded. */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t ev, unsigned) {
    if (s->capture) return emu_error(cudaErrorInvalidValue); /* hone captures single streams */
    if (!ev->stream) return cudaSuccess;
    emu_op op = {};
    op.wait_for = ev->stream;
    op.n = ev->n;
    return submit(op, s);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    *ms = (float)(b->ms - a->ms);
    return cudaSuccess;
}
