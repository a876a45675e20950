// SPDX-License-Identifier: MIT
/* kernels/cuda/ctx.cu - CUDA devices, memory, streams, copies and captured graphs: all of cuda.h
 * but the kernels. Each function is a thin wrapper around one or two runtime calls and their
 * errors. */
#include "kernels/cuda/gpu.cuh"

#include <stdio.h>

extern "C" {
#include "base/log.h"
#include "base/mem.h"
#define _Noreturn [[noreturn]] /* C++ has no _Noreturn */
#include "base/os.h"
#undef _Noreturn
}

struct cu_buf {
    int device; /* may outlive its context */
    void *p;
    uint64_t n_bytes;
};
struct cu_graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};
struct cu_event {
    struct cu_ctx *c;
    cudaEvent_t v;
};

struct cu_scratch {
    struct cu_buf *buf;
    struct cu_scratch *next;
};

/* Errors that a process cannot recover from: every later call fails as well. Listed by number,
 * because older toolkits have no name for some: uninitialized device, uncorrectable ECC and
 * NVLink, bus, illegal address, timeout, the five kinds of program faults, launch failure,
 * contained, external and unknown. */
static const int for_good[] = {3,   46,  201, 214, 220, 221, 226, 700, 702, 714, 715,
                               716, 717, 718, 719, 721, 722, 723, 724, 725, 999};
enum { BUSY = 46 };     /* cudaErrorDevicesUnavailable */
static int lost;        /* atomic */
static uint64_t opened; /* atomic: a bit per device (modulo 64) that was opened */

bool cu_lost(void) {
    return __atomic_load_n(&lost, __ATOMIC_ACQUIRE) != 0;
}

/* Returns what to do about an error that makes all later calls fail. A process that has opened no
 * device has none to lose. */
static const char *advice(cudaError_t rc, bool had_device) {
    if (had_device)
        return ": this process has lost the device. Run the same command again: it reuses the "
               "results kept on disk";
    return (int)rc == BUSY
               ? ": another program uses the device exclusively, its compute mode forbids programs "
                 "(nvidia-smi -q -d COMPUTE), or MIG is on without instances"
               : "";
}

/* Fills *e for a failed CUDA call `what` and clears CUDA's error; returns the status. */
int cu_fail(struct err *e, cudaError_t rc, const char *what) {
    cudaGetLastError(); /* clear it, so that the next launch does not report it */
    const bool had_device = __atomic_load_n(&opened, __ATOMIC_ACQUIRE) != 0;
    bool now = false;
    for (size_t i = 0; i < sizeof for_good / sizeof for_good[0]; i++) now |= (int)rc == for_good[i];
    if (now && had_device) __atomic_store_n(&lost, 1, __ATOMIC_RELEASE);
    return err_set(e, ERR_SYS, "CUDA: %s (%.120s)%s", cudaGetErrorString(rc), what,
                   now ? advice(rc, had_device) : "");
}

/* Selects c's device for the calling thread. Every function calls it; otherwise a thread's first
 * runtime call would create an unwanted context of about 300 MB on device 0. */
cudaError_t cu_on(const struct cu_ctx *c) {
    return cudaSetDevice(c->info.index);
}

const char *cu_built(void) {
#ifdef CU_EMU
    return "emulated";
#else
#define CU_STR2(x) #x
#define CU_STR(x) CU_STR2(x)
    return CU_STR(__CUDACC_VER_MAJOR__) "." CU_STR(__CUDACC_VER_MINOR__);
#endif
}

/* First driver of each major toolkit version. A build needs the driver of its toolkit or a newer
 * one. */
static const struct first_driver {
    int major, driver;
} first_drivers[] = {{11, 450}, {12, 525}, {13, 580}};

/* Fills *e with how to update a driver that is too old; returns the status. */
static int old_driver(struct err *e, int driver, int runtime) {
    char newer[64] = "to a newer one";
    for (size_t i = 0; i < sizeof first_drivers / sizeof first_drivers[0]; i++)
        if (first_drivers[i].major == runtime / 1000)
            snprintf(newer, sizeof newer, "to %d or newer", first_drivers[i].driver);
    return err_set(
        e, ERR_SYS,
        "the NVIDIA driver of this machine supports CUDA %d.%d at most, but this hone was "
        "built with CUDA %d.%d: update the driver %s, or build with CUDA %d",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, newer,
        driver / 1000);
}

int cu_devices(int *n, struct err *e) {
    int driver = 0, runtime = 0;
    *n = 0;
    const cudaError_t rc = cudaGetDeviceCount(n);
    if (rc == cudaSuccess) return 0;
    *n = 0;
    cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess || cudaRuntimeGetVersion(&runtime))
        cudaGetLastError();
    if (driver == 0 || rc == cudaErrorNoDevice) return 0;
    if (rc == cudaErrorInsufficientDriver) return old_driver(e, driver, runtime);
    return cu_fail(e, rc, "looking for devices");
}

int cu_count(void) {
    struct err ignored;
    int n;
    return cu_devices(&n, &ignored) ? 0 : n;
}

int cu_get_info(struct cu_ctx *c, struct cu_info *out, struct err *e) {
    size_t mem_free, mem_total;
    CU_TRY(e, cu_on(c));
    CU_TRY(e, cudaMemGetInfo(&mem_free, &mem_total));
    /* On integrated GPUs, cudaMemGetInfo counts the page cache as used, but the system can reclaim
     * it. */
    if (c->integrated) mem_free = (size_t)min_u64(mem_total, max_u64(mem_free, os_free_memory()));
    c->info.mem_free = mem_free;
    c->info.mem_total = mem_total;
    *out = c->info;
    return 0;
}

/* Returns the memory bandwidth, counting both clock edges. 0: the driver does not report it, or it
 * reports that of a whole card of which `name` is a part (MIG). */
static uint64_t bandwidth(int device, const char *name) {
    int khz = 0, bits = 0;
    if (strstr(name, " MIG ")) return 0;
    if (cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess) {
        cudaGetLastError(); /* clear it for the next launch */
        return 0;
    }
    return 2 * 1000 * (uint64_t)khz * (uint64_t)(bits / 8);
}

/* Fills in the properties of a device. ERR_SYS: the device is too old or does not respond. */
static int fill_info(struct cu_info *i, int device, struct err *e) {
    struct cudaDeviceProp p;
    CU_TRY(e, cudaSetDevice(device));
    CU_TRY(e, cudaGetDeviceProperties(&p, device));
    memset(i, 0, sizeof *i);
    memcpy(i->name, p.name, sizeof i->name);
    i->name[sizeof i->name - 1] = 0;
    i->index = device;
    i->cc = 10 * p.major + p.minor;
    i->n_sm = p.multiProcessorCount;
    i->l2_bytes = (uint64_t)p.l2CacheSize;
    i->smem_bytes = p.sharedMemPerBlockOptin;
    i->bandwidth = bandwidth(device, i->name);
#ifdef CU_EMU
    i->emulated = true;
#endif
    if (i->cc < 80)
        return err_set(e, ERR_SYS, "device %d (%s) has compute capability %d.%d; 8.0 is needed",
                       device, i->name, p.major, p.minor);
    return 0;
}

/* Uploads the level vectors of the IQ formats (23 KiB) for all kernels that decode them. */
static int load_grid(struct cu_ctx *c, struct err *e) {
    CU_TRY(e, cu_on(c));
    CU_TRY(e, cudaMalloc((void **)&c->grid, sizeof *c->grid));
    CU_TRY(e, cudaMemcpy(c->grid, kern_grid_get(), sizeof *c->grid, cudaMemcpyHostToDevice));
    CU_TRY(e, cudaDeviceSynchronize()); /* a copy from pageable memory may still run */
    return 0;
}

CU_KERNEL nothing(int32_t *p) {
    if (p) *p = 0;
}

/* Determines which code of this build the device runs: code for this device, code for an older card
 * of its generation, or PTX compiled by the driver, which is logged if `first`. */
static int ask_code(struct cu_ctx *c, bool first, struct err *e) {
    struct cudaFuncAttributes a;
    int pageable = 0, integrated = 0;
    CU_TRY(e, cudaFuncGetAttributes(&a, (const void *)nothing));
    CU_TRY(e, cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, c->info.index));
    CU_TRY(e, cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, c->info.index));
    c->code = a.ptxVersion;
    c->reads_pageable = pageable != 0;
    c->integrated = integrated != 0;
    if (first && a.ptxVersion < a.binaryVersion)
        log_info(
            "%s: the driver compiles PTX for it at the first use, which can take minutes; a build "
            "with CUDA_ARCHS=%d has native code",
            c->info.name, c->info.cc);
    return 0;
}

int cu_open(struct cu_ctx **out, int device, struct err *e) {
    int n;
    TRY(cu_devices(&n, e));
    if (device < 0 || device >= n)
        return err_set(e, ERR_SYS,
                       n ? "there is no CUDA device %d: %d found, numbered from 0"
                         : "no CUDA device was found (%d requested, %d present); use --device cpu",
                       device, n);
    struct cu_ctx *c = (struct cu_ctx *)xcalloc(1, sizeof *c);
    const uint64_t bit = UINT64_C(1) << device % 64;
    int rc;
    struct cu_info now;
    TRY_GOTO(fail, rc, fill_info(&c->info, device, e));
    TRY_GOTO(fail, rc, ask_code(c, !(__atomic_load_n(&opened, __ATOMIC_ACQUIRE) & bit), e));
    TRY_GOTO(fail, rc, load_grid(c, e));
    TRY_GOTO(fail, rc, cu_get_info(c, &now, e));
    __atomic_fetch_or(&opened, bit, __ATOMIC_RELEASE);
    *out = c;
    return 0;
fail:
    cu_close(c);
    return rc;
}

void cu_close(struct cu_ctx *c) {
    if (!c) return;
    cudaFree(c->grid);
    free(c);
}

/* Lets `from` access the memory of `to` directly, if the machine can do that. */
static void enable_peer(const struct cu_ctx *from, const struct cu_ctx *to) {
    int yes = 0;
    if (cu_on(from) != cudaSuccess ||
        cudaDeviceCanAccessPeer(&yes, from->info.index, to->info.index) != cudaSuccess || !yes ||
        cudaDeviceEnablePeerAccess(to->info.index, 0) != cudaSuccess)
        cudaGetLastError(); /* already enabled, or copies use another path */
}

void cu_pair(struct cu_ctx *a, struct cu_ctx *b) {
    enable_peer(a, b);
    enable_peer(b, a);
}

int cu_buf_new(struct cu_buf **out, struct cu_ctx *c, uint64_t n_bytes, const char *what,
               struct err *e) {
    struct cu_info i;
    TRY(cu_get_info(c, &i, e));
    void *p = NULL;
    cudaError_t rc = cudaErrorMemoryAllocation;
    const uint64_t usable = i.mem_free > CU_KEEP_LEAST ? i.mem_free - CU_KEEP_LEAST : 0;
    if (n_bytes <= usable) rc = cudaMalloc(&p, n_bytes ? (size_t)n_bytes : 1);
    if (rc == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        c->full = true;
        return err_memory(e,
                          "%s: %.1f MiB of device memory needed, %.1f MiB free on %s (%.0f MiB "
                          "are kept free)",
                          what, (double)n_bytes / 1048576.0, (double)i.mem_free / 1048576.0, i.name,
                          (double)CU_KEEP_LEAST / 1048576.0);
    }
    CU_TRY(e, rc);
    struct cu_buf *b = (struct cu_buf *)xcalloc(1, sizeof *b);
    b->device = c->info.index;
    b->p = p;
    b->n_bytes = n_bytes;
    *out = b;
    return 0;
}

bool cu_was_full(const struct cu_ctx *c) {
    return c && c->full;
}

/* Allocations of up to 1 MiB share blocks of 2 MiB. Each can cost at most its size rounded up to
 * a power of two. */
uint64_t cu_alloc_bytes(uint64_t n_bytes) {
    const uint64_t whole = UINT64_C(2) << 20;
    uint64_t n = 512;
    if (n_bytes > whole / 2) return round_up(n_bytes, whole);
    while (n < n_bytes) n *= 2;
    return n;
}

void cu_buf_free(struct cu_buf *b) {
    if (!b) return;
    cudaSetDevice(b->device);
    cudaFree(b->p);
    free(b);
}

void *cu_buf_ptr(const struct cu_buf *b) {
    return b->p;
}

uint64_t cu_buf_bytes(const struct cu_buf *b) {
    return b->n_bytes;
}

int cu_host_new(void **out, struct cu_ctx *c, uint64_t n_bytes, const char *what, struct err *e) {
    CU_TRY(e, cu_on(c));
    const cudaError_t rc = cudaMallocHost(out, n_bytes ? (size_t)n_bytes : 1);
    if (rc != cudaSuccess) {
        cudaGetLastError(); /* optional for callers: clear it for the next launch */
        return err_set(e, ERR_SYS, "%s: %.1f MiB of pinned host memory: %s", what,
                       (double)n_bytes / 1048576.0, cudaGetErrorString(rc));
    }
    return 0;
}

void cu_host_free(struct cu_ctx *, void *p) {
    if (p) cudaFreeHost(p);
}

bool cu_is_pinned(struct cu_ctx *c, const void *p) {
    struct cudaPointerAttributes at;
    if (cu_on(c) != cudaSuccess || cudaPointerGetAttributes(&at, p) != cudaSuccess) {
        cudaGetLastError(); /* not supported: clear it for the next launch */
        return false;
    }
    return at.type == cudaMemoryTypeHost;
}

int cu_stream_new(struct cu_stream **out, struct cu_ctx *c, struct err *e) {
    struct cu_stream *s = (struct cu_stream *)xcalloc(1, sizeof *s);
    s->c = c;
    cudaError_t rc = cu_on(c);
    if (rc == cudaSuccess) rc = cudaStreamCreateWithFlags(&s->q, cudaStreamNonBlocking);
    if (rc == cudaSuccess) rc = cudaEventCreateWithFlags(&s->moved, cudaEventDisableTiming);
    for (int i = 0; i < 2 && rc == cudaSuccess; i++) rc = cudaEventCreate(&s->mark[i]);
    if (rc != cudaSuccess) {
        cu_stream_free(s);
        return cu_fail(e, rc, "stream");
    }
    *out = s;
    return 0;
}

void cu_stream_free(struct cu_stream *s) {
    if (!s) return;
    while (s->scratch) {
        struct cu_scratch *next = s->scratch->next;
        cu_buf_free(s->scratch->buf);
        free(s->scratch);
        s->scratch = next;
    }
    for (int i = 0; i < 2; i++)
        if (s->mark[i]) cudaEventDestroy(s->mark[i]);
    if (s->moved) cudaEventDestroy(s->moved);
    if (s->q) cudaStreamDestroy(s->q);
    free(s);
}

/* Sets *p to scratch of at least n_bytes, which all kernels of the stream share. */
int cu_scratch(struct cu_stream *s, uint64_t n_bytes, void **p, struct err *e) {
    if (!s->scratch || cu_buf_bytes(s->scratch->buf) < n_bytes) {
        struct cu_buf *b;
        TRY(cu_buf_new(&b, s->c, n_bytes, "scratch of the kernels", e));
        struct cu_scratch *top = (struct cu_scratch *)xcalloc(1, sizeof *top);
        top->buf = b;
        top->next = s->scratch;
        s->scratch = top;
    }
    *p = cu_buf_ptr(s->scratch->buf);
    return 0;
}

int cu_reserve(struct cu_stream *s, uint64_t n_bytes, struct err *e) {
    void *p;
    return n_bytes ? cu_scratch(s, n_bytes, &p, e) : 0;
}

int cu_sync(struct cu_stream *s, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaStreamSynchronize(s->q));
    return 0;
}

int cu_upload(struct cu_stream *s, void *dst, const void *host, uint64_t n_bytes, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaMemcpyAsync(dst, host, (size_t)n_bytes, cudaMemcpyHostToDevice, s->q));
    if (!s->c->reads_pageable) return 0; /* else the device may read `host` after return */
    struct cudaPointerAttributes at;
    CU_TRY(e, cudaPointerGetAttributes(&at, host));
    if (at.type != cudaMemoryTypeHost) CU_TRY(e, cudaStreamSynchronize(s->q));
    return 0;
}

int cu_download(struct cu_stream *s, void *host, const void *src, uint64_t n_bytes, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaMemcpyAsync(host, src, (size_t)n_bytes, cudaMemcpyDeviceToHost, s->q));
    return 0;
}

int cu_copy(struct cu_stream *s, void *dst, const void *src, uint64_t n_bytes, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaMemcpyAsync(dst, src, (size_t)n_bytes, cudaMemcpyDeviceToDevice, s->q));
    return 0;
}

int cu_fill(struct cu_stream *s, void *dst, int byte, uint64_t n_bytes, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaMemsetAsync(dst, byte, (size_t)n_bytes, s->q));
    return 0;
}

int cu_move(struct cu_stream *to, void *dst, struct cu_stream *from, const void *src,
            uint64_t n_bytes, struct err *e) {
    CU_TRY(e, cu_on(from->c));
    CU_TRY(e, cudaEventRecord(from->moved, from->q));
    CU_TRY(e, cudaStreamWaitEvent(to->q, from->moved, 0));
    CU_TRY(e, cu_on(to->c));
    CU_TRY(e, cudaMemcpyPeerAsync(dst, to->c->info.index, src, from->c->info.index, (size_t)n_bytes,
                                  to->q));
    return 0;
}

int cu_event_new(struct cu_event **out, struct cu_ctx *c, struct err *e) {
    struct cu_event *v = (struct cu_event *)xcalloc(1, sizeof *v);
    v->c = c;
    cudaError_t rc = cu_on(c);
    if (rc == cudaSuccess) rc = cudaEventCreateWithFlags(&v->v, cudaEventDisableTiming);
    if (rc != cudaSuccess) {
        free(v);
        return cu_fail(e, rc, "event");
    }
    *out = v;
    return 0;
}

void cu_event_free(struct cu_event *v) {
    if (!v) return;
    cudaEventDestroy(v->v);
    free(v);
}

int cu_event_record(struct cu_event *v, struct cu_stream *s, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaEventRecord(v->v, s->q));
    return 0;
}

int cu_event_wait(struct cu_event *v, struct cu_stream *s, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaStreamWaitEvent(s->q, v->v, 0));
    return 0;
}

int cu_event_sync(struct cu_event *v, struct err *e) {
    CU_TRY(e, cu_on(v->c));
    CU_TRY(e, cudaEventSynchronize(v->v));
    return 0;
}

int cu_graph_begin(struct cu_stream *s, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaStreamBeginCapture(s->q, cudaStreamCaptureModeThreadLocal));
    return 0;
}

int cu_graph_end(struct cu_stream *s, struct cu_graph **out, struct err *e) {
    struct cu_graph *g = (struct cu_graph *)xcalloc(1, sizeof *g);
    cudaError_t rc = cu_on(s->c);
    if (rc == cudaSuccess) rc = cudaStreamEndCapture(s->q, &g->graph);
    if (rc == cudaSuccess) rc = cudaGraphInstantiate(&g->exec, g->graph, 0);
    if (rc != cudaSuccess) {
        cudaGetLastError(); /* clear it for the next launch */
        cu_graph_free(g);
        return cu_fail(e, rc, "capturing a graph");
    }
    *out = g;
    return 0;
}

int cu_graph_run(struct cu_stream *s, struct cu_graph *g, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaGraphLaunch(g->exec, s->q));
    return 0;
}

void cu_graph_free(struct cu_graph *g) {
    if (!g) return;
    if (g->exec) cudaGraphExecDestroy(g->exec);
    if (g->graph) cudaGraphDestroy(g->graph);
    free(g);
}

/* Returns whether launches that begin early can be captured (CUDA 12.3 and newer). */
static bool captures_early(void) {
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || cudaRuntimeGetVersion(&runtime)) {
        cudaGetLastError();
        return false;
    }
    return driver >= 12030 && runtime >= 12030;
}

void cu_launch_early(struct cu_stream *s, bool yes) {
    s->early = yes && s->c->code >= 90 && captures_early();
}

/* Allows a kernel n_bytes of dynamic shared memory. */
int cu_smem(const void *kernel, uint64_t n_bytes, struct err *e) {
    struct cudaFuncAttributes a;
    CU_TRY(e, cudaFuncGetAttributes(&a, kernel));
    if (n_bytes <= (uint64_t)a.maxDynamicSharedSizeBytes) return 0;
    CU_TRY(e,
           cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes));
    return 0;
}

int64_t cu_launches(const struct cu_stream *s) {
    return s->n_launches;
}

int cu_mark(struct cu_stream *s, int which, struct err *e) {
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaEventRecord(s->mark[which != 0], s->q));
    return 0;
}

int cu_marked_ms(struct cu_stream *s, double *ms, struct err *e) {
    float f;
    CU_TRY(e, cu_on(s->c));
    CU_TRY(e, cudaEventSynchronize(s->mark[1]));
    CU_TRY(e, cudaEventElapsedTime(&f, s->mark[0], s->mark[1]));
    *ms = (double)f;
    return 0;
}
