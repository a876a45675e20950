// SPDX-License-Identifier: MIT
/* kernels/cuda/ctx.cu - devices, memory, streams, copies, captured graphs: cuda.h without its
 * kernels. Thin on purpose: each function is one or two calls of the runtime and their errors. */
#include "kernels/cuda/gpu.cuh"

extern "C" {
#include "core/mem.h"
}

struct cu_buf {
    void *p;
    uint64_t n_bytes;
};
struct cu_graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};
struct cu_event {
    cudaEvent_t v;
};

struct cu_scratch {
    struct cu_buf *buf;
    struct cu_scratch *next;
};

int cu_fail(struct err *e, cudaError_t rc, const char *what) {
    return err_set(e, ERR_SYS, "CUDA: %s (%.120s)", cudaGetErrorString(rc), what);
}

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

int cu_count(void) {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) {
        cudaGetLastError(); /* no driver is an answer, not an error to find later */
        return 0;
    }
    return n;
}

int cu_get_info(struct cu_ctx *c, struct cu_info *out, struct err *e) {
    size_t mem_free, mem_total;
    CU_TRY(e, cu_on(c));
    CU_TRY(e, cudaMemGetInfo(&mem_free, &mem_total));
    c->info.mem_free = mem_free;
    c->info.mem_total = mem_total;
    *out = c->info;
    return 0;
}

/* Both edges of the memory's clock carry data. 0: the driver does not say. */
static uint64_t bandwidth(int device) {
    int khz = 0, bits = 0;
    if (cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess) {
        cudaGetLastError(); /* not for the next launch to find */
        return 0;
    }
    return 2 * 1000 * (uint64_t)khz * (uint64_t)(bits / 8);
}

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
    i->bandwidth = bandwidth(device);
#ifdef CU_EMU
    i->emulated = true;
#endif
    if (i->cc < 80)
        return err_set(e, ERR_SYS, "device %d (%s) has compute capability %d.%d; 8.0 is needed",
                       device, i->name, p.major, p.minor);
    return 0;
}

/* The level vectors of the table formats, 23 KiB, for every kernel that decodes them. */
static int load_grid(struct cu_ctx *c, struct err *e) {
    CU_TRY(e, cu_on(c));
    CU_TRY(e, cudaMalloc((void **)&c->grid, sizeof *c->grid));
    CU_TRY(e, cudaMemcpy(c->grid, kern_grid_get(), sizeof *c->grid, cudaMemcpyHostToDevice));
    return 0;
}

int cu_open(struct cu_ctx **out, int device, struct err *e) {
    const int n = cu_count();
    if (device < 0 || device >= n)
        return err_set(e, ERR_SYS,
                       n ? "there is no CUDA device %d: %d found, numbered from 0"
                         : "no CUDA device was found (%d asked for, %d there); use --device cpu",
                       device, n);
    struct cu_ctx *c = (struct cu_ctx *)xcalloc(1, sizeof *c);
    int rc;
    struct cu_info now;
    TRY_GOTO(fail, rc, fill_info(&c->info, device, e));
    TRY_GOTO(fail, rc, load_grid(c, e));
    TRY_GOTO(fail, rc, cu_get_info(c, &now, e));
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

static void reach(const struct cu_ctx *from, const struct cu_ctx *to) {
    int yes = 0;
    if (cu_on(from) != cudaSuccess ||
        cudaDeviceCanAccessPeer(&yes, from->info.index, to->info.index) != cudaSuccess || !yes ||
        cudaDeviceEnablePeerAccess(to->info.index, 0) != cudaSuccess)
        cudaGetLastError(); /* it is on already, or copies go another way */
}

void cu_pair(struct cu_ctx *a, struct cu_ctx *b) {
    reach(a, b);
    reach(b, a);
}

int cu_buf_new(struct cu_buf **out, struct cu_ctx *c, uint64_t n_bytes, const char *what,
               struct err *e) {
    struct cu_info i;
    TRY(cu_get_info(c, &i, e));
    void *p = NULL;
    cudaError_t rc = cudaErrorMemoryAllocation;
    const uint64_t usable = i.mem_free > CU_KEEP_FREE ? i.mem_free - CU_KEEP_FREE : 0;
    if (n_bytes <= usable) rc = cudaMalloc(&p, n_bytes ? (size_t)n_bytes : 1);
    if (rc == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return err_set(e, ERR_SYS,
                       "%s: %.1f MiB of device memory needed, %.1f MiB free on %s (%.0f MiB are "
                       "kept free)",
                       what, (double)n_bytes / 1048576.0, (double)i.mem_free / 1048576.0, i.name,
                       (double)CU_KEEP_FREE / 1048576.0);
    }
    CU_TRY(e, rc);
    struct cu_buf *b = (struct cu_buf *)xcalloc(1, sizeof *b);
    b->p = p;
    b->n_bytes = n_bytes;
    *out = b;
    return 0;
}

void cu_buf_free(struct cu_buf *b) {
    if (!b) return;
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
    if (rc != cudaSuccess)
        return err_set(e, ERR_SYS, "%s: %.1f MiB of pinned host memory: %s", what,
                       (double)n_bytes / 1048576.0, cudaGetErrorString(rc));
    return 0;
}

void cu_host_free(struct cu_ctx *, void *p) {
    if (p) cudaFreeHost(p);
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
    CU_TRY(e, cudaStreamSynchronize(s->q));
    return 0;
}

int cu_upload(struct cu_stream *s, void *dst, const void *host, uint64_t n_bytes, struct err *e) {
    CU_TRY(e, cudaMemcpyAsync(dst, host, (size_t)n_bytes, cudaMemcpyHostToDevice, s->q));
    return 0;
}

int cu_download(struct cu_stream *s, void *host, const void *src, uint64_t n_bytes, struct err *e) {
    CU_TRY(e, cudaMemcpyAsync(host, src, (size_t)n_bytes, cudaMemcpyDeviceToHost, s->q));
    return 0;
}

int cu_copy(struct cu_stream *s, void *dst, const void *src, uint64_t n_bytes, struct err *e) {
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
    CU_TRY(e, cudaStreamWaitEvent(s->q, v->v, 0));
    return 0;
}

int cu_event_sync(struct cu_event *v, struct err *e) {
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
        cudaGetLastError(); /* not for the next launch to find */
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

void cu_launch_early(struct cu_stream *s, bool yes) {
    s->early = yes;
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
    CU_TRY(e, cudaEventSynchronize(s->mark[1]));
    CU_TRY(e, cudaEventElapsedTime(&f, s->mark[0], s->mark[1]));
    *ms = (double)f;
    return 0;
}
