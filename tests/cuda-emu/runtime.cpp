// SPDX-License-Identifier: MIT
/* tests/cuda-emu/runtime.cpp - the CUDA runtime as emu.hpp declares it: memory that is counted,
 * streams, events, captured graphs.
 *
 * Work runs when it is queued, unless emu_defer holds its stream back: then it runs when something
 * waits for it, a synchronisation or an event. So with one of two streams held back the other runs
 * as far ahead as events allow, and a missing one shows. */
#include <stdio.h>
#include <time.h>

#include "emu.hpp"
#include "tests/cuda-emu/control.h"

enum { MAX_THREADS = 1024, SMEM_DEFAULT = 48 << 10 };

struct emu_op { /* a launch; a copy (src) or fill of n bytes; waiting for n operations of a stream
                 */
    emu_launch l;
    void *dst;
    const void *src;
    int byte;
    uint64_t wait_for; /* a stream's id */
    size_t n;
    void *own; /* freed afterwards */
    emu_op *next;
};
struct emu_queue {
    emu_op *first, **end;
};
struct emu_graph {
    emu_queue ops;
    int refs; /* graph and executable share it */
};
struct emu_stream {
    uint64_t id;
    emu_graph *capture;
    emu_queue ops; /* not run yet */
    uint64_t n_queued, n_run;
    emu_stream *next; /* by age */
};
struct emu_event {
    double ms;
    uint64_t stream, n; /* so many of its operations; stream 0: never recorded */
};
struct pinned {
    char *p;
    size_t n;
    pinned *next;
};
static emu_stream *streams;
static pinned *pinned_list;
static unsigned held;
static struct {
    const void *kernel;
    size_t n_bytes;
} optin[64];
static int n_optin;

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
/* The stream's first n operations are done. */
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

static cudaError_t submit(const emu_op &op, cudaStream_t s) {
    if (s->capture) {
        push(&s->capture->ops, op);
        return cudaSuccess;
    }
    push(&s->ops, op);
    s->n_queued++;
    if (!holds_back(s)) catch_up(s, s->n_queued);
    return cudaSuccess;
}

static int cc = 90;
/* Most shared memory of a block, by compute capability. */
static size_t smem_max() {
    return (size_t)(cc == 90 ? 227 : cc == 80 ? 163 : 99) << 10;
}
extern "C" void emu_card(int capability) {
    cc = capability;
    n_optin = 0;
}

cudaError_t emu_smem_optin(const void *kernel, size_t n_bytes) {
    if (n_bytes > smem_max()) return cudaErrorInvalidValue;
    for (int i = 0; i < n_optin; i++)
        if (optin[i].kernel == kernel) {
            optin[i].n_bytes = n_bytes;
            return cudaSuccess;
        }
    if (n_optin == 64) {
        fputs("cuda-emu: more kernels with large shared memory than there is room for\n", stderr);
        abort();
    }
    optin[n_optin].kernel = kernel;
    optin[n_optin++].n_bytes = n_bytes;
    return cudaSuccess;
}

/* What the hardware would refuse. */
static bool can_launch(const emu_launch &l) {
    size_t limit = SMEM_DEFAULT;
    for (int i = 0; i < n_optin; i++)
        if (optin[i].kernel == l.kernel) limit = optin[i].n_bytes;
    const uint64_t n = (uint64_t)l.block.x * l.block.y * l.block.z;
    return n >= 1 && n <= MAX_THREADS && l.block.z <= 64 && l.grid.x >= 1 && l.grid.y >= 1 &&
           l.grid.z >= 1 && l.grid.x <= 0x7fffffffu && l.grid.y <= 65535 && l.grid.z <= 65535 &&
           l.smem <= limit;
}

cudaError_t emu_submit(const emu_launch &l, cudaStream_t s) {
    if (!can_launch(l)) {
        l.drop(l.args);
        return cudaErrorInvalidConfiguration;
    }
    emu_op op = {};
    op.l = l;
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
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    }
    return "?";
}
cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return device ? cudaErrorInvalidDevice : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "CPU emulation");
    p->major = cc / 10;
    p->minor = cc % 10;
    p->multiProcessorCount = 4; /* few: grids that loop over the device do loop */
    p->l2CacheSize = 1 << 20;
    p->sharedMemPerBlockOptin = smem_max();
    return cudaSuccess;
}

/* A device of 16 GiB, as far as counting goes. */
static const size_t mem_total = (size_t)16 << 30;
static size_t mem_used;
enum { HEAD = 256 }; /* bytes before an allocation: its size; keeps the alignment */

cudaError_t cudaMemGetInfo(size_t *mem_free, size_t *total) {
    *total = mem_total;
    *mem_free = mem_total - mem_used;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **p, size_t n) {
    if (n > mem_total - mem_used) return cudaErrorMemoryAllocation;
    void *raw;
    if (posix_memalign(&raw, HEAD, HEAD + n)) return cudaErrorMemoryAllocation;
    *(size_t *)raw = n;
    mem_used += n;
    *p = (char *)raw + HEAD;
    memset(*p, 0xff, n);
    return cudaSuccess;
}
cudaError_t cudaFree(void *p) {
    if (!p) return cudaSuccess;
    finish_all();
    void *raw = (char *)p - HEAD;
    mem_used -= *(size_t *)raw;
    free(raw);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t n) {
    *p = malloc(n);
    if (!*p) return cudaErrorMemoryAllocation;
    pinned_list = new pinned{(char *)*p, n, pinned_list};
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
cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind) {
    finish_all();
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
    if (flip_from && n >= flip_from && kind == cudaMemcpyDeviceToHost)
        *(unsigned char *)src ^= 1; /* in device memory, before it is fetched */
    emu_op op = {};
    op.dst = dst;
    op.src = src;
    op.n = n;
    if (n && kind == cudaMemcpyHostToDevice && !s->capture && holds_back(s) && !is_pinned(src)) {
        op.src = op.own = malloc(n);
        memcpy(op.own, src, n);
    }
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
    if (s->capture) return cudaErrorInvalidValue;
    catch_up(s, s->n_queued);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, int) {
    if (s->capture) return cudaErrorInvalidValue;
    s->capture = new emu_graph();
    s->capture->refs = 1;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
    if (!s->capture) return cudaErrorInvalidValue;
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
    if (s->capture) return cudaErrorInvalidValue;
    catch_up(s, s->n_queued); /* graphs are not held back */
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
    clock_gettime(CLOCK_MONOTONIC, &ts);
    ev->ms = 1e3 * (double)ts.tv_sec + 1e-6 * (double)ts.tv_nsec;
    ev->stream = s->id;
    ev->n = s->n_queued;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t ev) {
    catch_up(ev->stream, ev->n);
    return cudaSuccess;
}
/* What is queued on s from now on runs after what was queued before the event was recorded. */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t ev, unsigned) {
    if (s->capture) return cudaErrorInvalidValue; /* hone captures single streams */
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
