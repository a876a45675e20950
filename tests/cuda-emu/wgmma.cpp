// SPDX-License-Identifier: MIT
/* tests/cuda-emu/wgmma.cpp - warpgroup products (kernels/cuda/gpu_sm90.cuh) as the PTX ISA
 * documents them: fragments of m64nNk16, matrix descriptors, the asynchronous proxy.
 *
 * A product is computed as late as possible, when a wait covers it, from A's registers and from
 * shared memory at that time, so touching either too early spoils the result. Its sums are NaN
 * until then. In the first order of threads it is computed when issued, before pending copies. The
 * four warps do not wait for each other, but must call the same operations with the same
 * descriptors. Reading 16 bytes that an asynchronous copy wrote, and whose thread has not called
 * cu_fence_async since, aborts; ordinary stores are not tracked. */
#include "tests/cuda-emu/block.hpp"
#include "tests/cuda-emu/control.h"

enum { MAX_WARPS = 32, MAX_OPS = 8, MAX_N = 256, MAX_EVENTS = 1 << 16, SHARED_BYTES = 1 << 18 };
static const uint32_t POISON = 0x7fc0dea1;

struct deposit { /* what a lane brings to an operation */
    float *d;
    const uint32_t *a;
    uint64_t desc;
    int n;
};
struct sums { /* the lanes' accumulators, hidden while products on them are under way */
    float *d[32];
    int n, n_ops;
    float v[32][MAX_N / 2];
};
struct product {
    const uint32_t *a[32];
    sums *to;
    uint64_t desc;
    unsigned group;
};
struct event {
    const char *kind;
    int n;
    uint64_t desc;
};
static struct {
    product op[MAX_OPS];
    sums acc[MAX_OPS];
    int n_ops, n_events;
    unsigned n_groups, n_done; /* operations that were applied */
    bool fenced;
    const uint32_t *fenced_a[32];
    uint32_t fenced_v[32][4];
} warps[MAX_WARPS];
static event *events[MAX_WARPS / 4]; /* of a warpgroup, by its first warp */
static int n_events[MAX_WARPS / 4], n_warps;
static unsigned n_calls[32 * MAX_WARPS], n_fences[32 * MAX_WARPS];
static struct {
    int thread; /* + 1 */
    unsigned fences;
} * wrote; /* per 16 bytes of shared memory: the writer and its number of fences */
static size_t n_wrote;

void emu_wgmma_begin(int n_threads) {
    n_warps = n_threads / 32;
    for (int w = 0; w < n_warps; w++) {
        warps[w].n_ops = warps[w].n_events = 0;
        warps[w].n_groups = warps[w].n_done = 0;
        warps[w].fenced = false;
        n_events[w / 4] = 0;
    }
    memset(n_calls, 0, sizeof n_calls);
    memset(n_fences, 0, sizeof n_fences);
    if (n_wrote) memset(wrote, 0, n_wrote * sizeof *wrote);
    n_wrote = 0;
}

void emu_wgmma_end(void) {
    for (int w = 0; w < n_warps; w++) {
        if (warps[w].n_ops) emu_die("a block ended with products under way");
        if (warps[w].n_events != n_events[w / 4]) emu_die("a warp left its warpgroup alone");
    }
}

// ---- shared memory as the tensor cores see it -------------------------------------------------
uint32_t emu_shared_address(const void *p) {
    size_t n;
    const unsigned char *base = emu_dyn_range(&n);
    const uintptr_t at = (uintptr_t)p - (uintptr_t)base;
    if (at >= n) emu_die("the shared address of something outside dynamic shared memory");
    return EMU_SHARED_AT + (uint32_t)at;
}

void emu_wgmma_wrote(const void *dst, int thread) {
    size_t n;
    const uintptr_t at = (uintptr_t)dst - (uintptr_t)emu_dyn_range(&n);
    if (at >= n) return;
    if (!wrote) wrote = (decltype(wrote))calloc(SHARED_BYTES / 16, sizeof *wrote);
    wrote[at / 16].thread = thread + 1;
    wrote[at / 16].fences = n_fences[thread];
    if (n_wrote <= at / 16) n_wrote = at / 16 + 1;
}

void emu_fence_async(void) {
    n_fences[emu_thread_index()]++;
}

/* 16 bytes at a shared address. */
static const unsigned char *chunk(uint32_t at) {
    size_t n;
    const unsigned char *base = emu_dyn_range(&n);
    if (at < EMU_SHARED_AT || at + 16 > EMU_SHARED_AT + n)
        emu_die("a product reads outside dynamic shared memory");
    const uint32_t i = (at - EMU_SHARED_AT) / 16;
    if (i < n_wrote && wrote[i].thread && wrote[i].fences == n_fences[wrote[i].thread - 1])
        emu_die("a product reads a copy that no cu_fence_async follows");
    return base + (at - EMU_SHARED_AT);
}

/* Row n (a token), columns 8c .. 8c + 7 of a K-major B. In units of 16 bytes rows of the canonical
 * layouts are 1 (no swizzle), 8, 4, 2 apart for modes 0 to 3, groups of 8 rows by the stride
 * offset; the swizzle replaces address bits 4 and up by their sum with those from 7 on. */
static const unsigned char *element(uint64_t desc, int n, int c) {
    static const uint32_t row[4] = {16, 128, 64, 32}, bits[4] = {0, 7, 3, 1};
    const uint32_t start = (uint32_t)(desc & 0x3fff) << 4, lead = (uint32_t)(desc >> 16 & 0x3fff),
                   stride = (uint32_t)(desc >> 32 & 0x3fff) << 4, mode = (uint32_t)(desc >> 62);
    if (desc & ~(UINT64_C(3) << 62 | UINT64_C(0xe3fff) << 32 | 0x3fff3fffu))
        emu_die("a descriptor with reserved bits");
    if (desc >> 49 & 7) emu_die("a descriptor with a base offset, which is not emulated");
    if (mode && lead != 1) emu_die("a swizzled descriptor whose leading offset is not 1");
    if (start >> 7 & bits[mode]) emu_die("a descriptor in the middle of the swizzle's pattern");
    const uint32_t across = mode ? 16 : lead << 4;
    uint32_t at =
        start + (uint32_t)n / 8 * stride + (uint32_t)n % 8 * row[mode] + (uint32_t)c * across;
    at ^= (at >> 7 & bits[mode]) << 4;
    return chunk(at);
}

// ---- products ---------------------------------------------------------------------------------
static double bf16(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return (double)cu_from_bits((uint32_t)h << 16);
}

static bool wrong;
void emu_wgmma_wrong(int yes) {
    wrong = yes != 0;
}

/* The warp's 16 rows. Register i of the lane of row r and column pair c holds A[r + 8 (i % 2)][2c +
 * 8 (i / 2)] and the column after it; sum i of tile j D[r + 8 (i / 2)][8j + 2c + i % 2]. */
static void compute(const product *p) {
    static double a[16][16], b[MAX_N][16];
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++)
            a[lane / 4 + 8 * (i / 2 % 2)][2 * (lane % 4) + 8 * (i / 4) + i % 2] =
                bf16((const char *)&p->a[lane][wrong ? "\0\2\1\3"[i / 2] : i / 2] + 2 * (i % 2));
    for (int n = 0; n < p->to->n; n++)
        for (int c = 0; c < 2; c++) {
            const unsigned char *from = element(p->desc, n, c);
            for (int i = 0; i < 8; i++) b[n][8 * c + i] = bf16(from + 2 * i);
        }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < p->to->n / 2; i++) {
            const double *row = a[lane / 4 + 8 * (i / 2 % 2)];
            const double *col = b[i / 4 * 8 + 2 * (lane % 4) + i % 2];
            double sum = (double)p->to->v[lane][i];
            for (int k = 0; k < 16; k++) sum += row[k] * col[k];
            p->to->v[lane][i] = (float)sum;
        }
}

static void hide(sums *s) {
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < s->n / 2; i++) {
            s->v[l][i] = s->d[l][i];
            memcpy(&s->d[l][i], &POISON, 4);
        }
}
static void show(const sums *s) {
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < s->n / 2; i++) {
            if (memcmp(&s->d[l][i], &POISON, 4) != 0)
                emu_die("sums were written while a product on them was under way");
            s->d[l][i] = s->v[l][i];
        }
}

/* Products of warp w of groups up to the n newest. */
static void finish(int w, unsigned n) {
    int kept = 0;
    for (int i = 0; i < warps[w].n_ops; i++) {
        product *p = &warps[w].op[i];
        if (p->group + n < warps[w].n_groups) {
            compute(p);
            if (--p->to->n_ops == 0) show(p->to);
        } else {
            if (kept != i) warps[w].op[kept] = *p;
            kept++;
        }
    }
    warps[w].n_ops = kept;
}

static void issue(int w, const unsigned char *all) {
    const deposit first = emu_from<deposit>(all, 0);
    if (warps[w].n_ops == MAX_OPS) emu_die("more products under way than wgmma.cpp provides for");
    if (!warps[w].fenced) emu_die("a product without cu_wgmma_fence before it");
    product *p = &warps[w].op[warps[w].n_ops++];
    p->desc = first.desc;
    p->group = warps[w].n_groups;
    p->to = nullptr;
    for (int i = 0; i < MAX_OPS && !p->to; i++)
        if (warps[w].acc[i].n_ops && warps[w].acc[i].d[0] == first.d) p->to = &warps[w].acc[i];
    const bool chained = p->to != nullptr;
    for (int i = 0; i < MAX_OPS && !p->to; i++)
        if (!warps[w].acc[i].n_ops) p->to = &warps[w].acc[i];
    if (chained && p->to->n != first.n) emu_die("products of other shapes on the same sums");
    p->to->n = first.n;
    p->to->n_ops++;
    for (int l = 0; l < 32; l++) {
        const deposit one = emu_from<deposit>(all, l);
        p->a[l] = one.a;
        p->to->d[l] = one.d;
        if (warps[w].fenced_a[l] != one.a || memcmp(warps[w].fenced_v[l], one.a, 16) != 0)
            emu_die("an operand that was written after cu_wgmma_fence");
    }
    if (!chained) hide(p->to);
}

// ---- operations: all lanes of a warp meet, the first to continue acts for all ------------------
static void operation(const char *kind, const deposit &mine) {
    const int thread = emu_thread_index(), w = thread / 32, g = w / 4;
    const unsigned char *all = emu_meet(kind, &mine, sizeof mine, {"wgmma", 0});
    if (n_calls[thread]++ != warps[w].n_done) return;
    warps[w].n_done++;
    if (n_warps % 4) emu_die("a warpgroup operation in a block that is not a multiple of 128");
    for (int l = 0; l < 32; l++) {
        const deposit one = emu_from<deposit>(all, l);
        if (one.n != mine.n || one.desc != mine.desc) emu_die("lanes disagree on a product");
    }
    if (!events[g]) events[g] = (event *)malloc(MAX_EVENTS * sizeof *events[g]);
    const int i = warps[w].n_events++;
    if (i == MAX_EVENTS) emu_die("more operations than wgmma.cpp provides for");
    if (i == n_events[g]) events[g][n_events[g]++] = {kind, mine.n, mine.desc};
    const event *e = &events[g][i];
    if (strcmp(e->kind, kind) != 0 || e->n != mine.n || e->desc != mine.desc)
        emu_die("warps of a warpgroup in different operations");
    if (strcmp(kind, "wgmma") == 0) {
        issue(w, all);
        if (emu_products_at_once()) {
            warps[w].n_groups++;
            finish(w, 0);
            warps[w].n_groups--;
        }
    } else if (strcmp(kind, "wgmma_fence") == 0) {
        warps[w].fenced = true;
        for (int l = 0; l < 32; l++) {
            warps[w].fenced_a[l] = emu_from<deposit>(all, l).a;
            memcpy(warps[w].fenced_v[l], warps[w].fenced_a[l], 16);
        }
    } else if (strcmp(kind, "wgmma_commit") == 0) {
        warps[w].n_groups++;
        warps[w].fenced = false;
    } else {
        finish(w, (unsigned)mine.n);
    }
}

void emu_wgmma(float *d, int n, const uint32_t *a, uint64_t desc) {
    operation("wgmma", {d, a, desc, n});
}
void emu_wgmma_fence(const uint32_t *a) {
    operation("wgmma_fence", {nullptr, a, 0, 0});
}
void emu_wgmma_commit(void) {
    operation("wgmma_commit", {nullptr, nullptr, 0, 0});
}
void emu_wgmma_wait(int n) {
    operation("wgmma_wait", {nullptr, nullptr, 0, n});
}
