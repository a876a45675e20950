// SPDX-License-Identifier: MIT
/* tests/cuda-emu/emu.cpp - runs the threads of a block as fibers: see emu.hpp; runtime.cpp
 * plays the runtime.
 *
 * A block runs in rounds: each warp in turn runs each of its lanes until that lane ends or must
 * wait for its warp (emu_meet) or its block (emu_barrier); the last to arrive frees the others.
 * Nothing happens in parallel, so a global "current fiber" is enough. Stacks are kept and used
 * again. */
#include "tests/cuda-emu/block.hpp"

#include <stdio.h>
#include <sys/mman.h>

#include "tests/cuda-emu/control.h"

enum { MAX_THREADS = 1024, STACK = 256 << 10, MAX_SHARED = 16 };
enum state { ST_RUN, ST_WARP, ST_BLOCK, ST_BEFORE, ST_DONE }; /* before: at cu_wait_before */

struct emu_thread {
    uint3 tid;
    state st;
    unsigned n_meets, n_meets8;
    bool waited; /* at cu_wait_before */
};
struct meeting { /* of lanes in one operation; the half is that of the next but one */
    const char *kind;
    emu_site at;
    int n_arrived;
    alignas(64) unsigned char deposit[2][32][64];
};
struct warp {
    int n_lanes;
    meeting all, eight[4];
};

uint3 emu_thread_idx;
dim3 emu_block_idx, emu_block_dim, emu_grid_dim;
static emu_thread threads[MAX_THREADS], *cur;
static warp warps[MAX_THREADS / 32];
static const emu_launch *launch;
static int n_threads;
static struct {
    const void *key;
    size_t n_bytes;
    void *p, *room;
} shared[MAX_SHARED];
static int n_shared;
static void *dyn_shared;
static size_t dyn_bytes;
static uint64_t order;

extern "C" void emu_shuffle(uint64_t o) {
    order = o;
}

#define die emu_die
void emu_die(const char *what) {
    fprintf(stderr, "cuda-emu: %s, block (%u,%u,%u) thread %u: %s\n", launch ? launch->name : "?",
            emu_block_idx.x, emu_block_idx.y, emu_block_idx.z, cur ? cur->tid.x : 0, what);
    abort();
}

// ---- switching stacks -------------------------------------------------------------------------
static void fiber_main(void);

#if defined(__x86_64__) && !defined(EMU_UCONTEXT)
typedef void *context; /* a stack pointer, to six saved registers and the return address */
extern "C" void emu_switch(context *save, context to);
__asm__(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n.size emu_switch,.-emu_switch\n");
static void switch_to(context *save, context *to) {
    emu_switch(save, *to);
}
/* A function starts with its stack 8 off a multiple of 16. */
static void first_context(context *c, char *stack) {
    void **sp = (void **)(void *)(stack + STACK) - 1;
    *--sp = (void *)fiber_main;
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    *c = sp;
}
#else
#include <ucontext.h>
typedef ucontext_t context;
static void switch_to(context *save, context *to) {
    swapcontext(save, to);
}
static void first_context(context *c, char *stack) {
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = STACK;
    c->uc_link = nullptr;
    makecontext(c, fiber_main, 0);
}
#endif

static context main_context, contexts[MAX_THREADS];
static char *stacks[MAX_THREADS];

/* The address sanitizer, where it is linked, looks at shadow memory and does not care whose stack
 * an access is on, unless it keeps frames after their return (detect_stack_use_after_return): then
 * it is told of every switch, before (where to) and after (where from). */
extern "C" {
__attribute__((weak)) void *__asan_get_current_fake_stack(void);
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *fake, const void **bottom,
                                                           size_t *size);
}
static bool tell, from_main;
static const void *main_bottom;
static size_t main_size;
static void *main_fake, *fakes[MAX_THREADS];
static void before_fiber(int i) {
    if (tell) __sanitizer_start_switch_fiber(&main_fake, stacks[i], STACK);
}
static void in_fiber(void *fake) {
    if (!tell) return;
    if (from_main)
        __sanitizer_finish_switch_fiber(fake, &main_bottom, &main_size);
    else
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
}
static void before_main(int i) {
    if (tell) __sanitizer_start_switch_fiber(&fakes[i], main_bottom, main_size);
}
static void in_main(void) {
    if (tell) __sanitizer_finish_switch_fiber(main_fake, nullptr, nullptr);
}

static void new_stack(int i);
static int next_lane(void);

static void make_current(int i) {
    cur = &threads[i];
    emu_thread_idx = cur->tid;
    if (!stacks[i]) new_stack(i);
}

/* Suspends the running fiber: continues with the next runnable lane of its warp, else with the
 * scheduler. */
static void pause_fiber(void) {
    emu_late_pause();
    const int i = (int)(cur - threads), next = next_lane();
    if (next < 0) {
        before_main(i);
        switch_to(&contexts[i], &main_context);
    } else {
        make_current(next);
        from_main = false;
        if (tell) __sanitizer_start_switch_fiber(&fakes[i], stacks[next], STACK);
        switch_to(&contexts[i], &contexts[next]);
    }
    in_fiber(fakes[i]);
}

static void fiber_main(void) {
    in_fiber(nullptr);
    for (;;) {
        launch->run(launch->args);
        if (emu_late_is_early())
            die("a thread of a launch that may begin early does not wait for the one before");
        cur->st = ST_DONE;
        pause_fiber();
    }
}

static void new_stack(int i) {
    const size_t guard = 4096; /* below the stack, faults */
    char *p = (char *)mmap(nullptr, STACK + guard, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, guard, PROT_NONE)) die("no memory for a stack");
    stacks[i] = p + guard;
    first_context(&contexts[i], stacks[i]);
}

static void resume(int i) {
    make_current(i);
    from_main = true;
    before_fiber(i);
    switch_to(&main_context, &contexts[i]);
    in_main();
    cur = nullptr;
}

// ---- waiting for others -----------------------------------------------------------------------
int emu_lane(void) {
    return (int)(cur - threads) % 32;
}

int emu_thread_index(void) {
    return (int)(cur - threads);
}
bool emu_products_at_once(void) {
    return order == 0;
}

void emu_wait_before(void) {
    cur->waited = true;
    if (!emu_late_is_early() || emu_code_runs() < 90) return;
    cur->st = ST_BEFORE;
    pause_fiber();
}

void emu_barrier(void) {
    cur->st = ST_BLOCK;
    pause_fiber();
}

/* Threads first .. first + n_lanes - 1 meet in m. */
static const unsigned char *meet(meeting *m, unsigned *n_meets, int first, int n_lanes,
                                 const char *kind, const void *mine, size_t n, emu_site at) {
    const int i = (int)(cur - threads);
    const unsigned half = (*n_meets)++ & 1;
    if (m->n_arrived && (m->at.line != at.line || strcmp(m->kind, kind) != 0 ||
                         (m->at.file != at.file && strcmp(m->at.file, at.file) != 0))) {
        char text[256];
        snprintf(text, sizeof text,
                 "lanes of a warp in different operations: %s at %s:%d, %s at %s:%d", m->kind,
                 m->at.file, m->at.line, kind, at.file, at.line);
        die(text);
    }
    m->kind = kind;
    m->at = at;
    if (n == 4) /* the usual one; a constant is not a call */
        memcpy(m->deposit[half][i - first], mine, 4);
    else if (n)
        memcpy(m->deposit[half][i - first], mine, n);
    if (++m->n_arrived < n_lanes) {
        cur->st = ST_WARP;
        pause_fiber();
    } else {
        m->n_arrived = 0;
        for (int l = first; l < first + n_lanes; l++) threads[l].st = ST_RUN;
    }
    return m->deposit[half][0];
}

const unsigned char *emu_meet(const char *kind, const void *mine, size_t n, emu_site at) {
    const int i = (int)(cur - threads);
    warp *w = &warps[i / 32];
    if (w->n_lanes != 32) die("a warp operation in a block that is not a multiple of 32");
    return meet(&w->all, &cur->n_meets, i / 32 * 32, 32, kind, mine, n, at);
}

const unsigned char *emu_meet8(const char *kind, const void *mine, size_t n, emu_site at) {
    const int i = (int)(cur - threads);
    warp *w = &warps[i / 32];
    if (w->n_lanes % 8) die("an operation of eight in a block that is not a multiple of 8");
    return meet(&w->eight[i % 32 / 8], &cur->n_meets8, i / 8 * 8, 8, kind, mine, n, at);
}

/* Asynchronous copies of a thread: they happen when it waits for them, and not before; in order 1
 * at once, which the hardware may do as well. */
enum { MAX_COPIES = 512 };
static struct {
    void *dst;
    const void *src;
    unsigned n, group;
} copies[MAX_THREADS][MAX_COPIES];
static int n_copies[MAX_THREADS];
static unsigned n_groups[MAX_THREADS]; /* closed so far */

static void copy_now(void *dst, const void *src, unsigned n, int thread) {
    memcpy(dst, src, n);
    emu_wgmma_wrote(dst, thread);
}
void emu_copy(void *dst, const void *src, unsigned n) {
    const int i = (int)(cur - threads);
    if (((uintptr_t)dst | (uintptr_t)src) % n)
        die("an asynchronous copy off a multiple of its size");
    if (order == 1) {
        copy_now(dst, src, n, i);
        return;
    }
    if (n_copies[i] == MAX_COPIES) die("more copies under way than emu.cpp provides for");
    copies[i][n_copies[i]].dst = dst;
    copies[i][n_copies[i]].src = src;
    copies[i][n_copies[i]].n = n;
    copies[i][n_copies[i]++].group = n_groups[i];
}
void emu_copy_commit(void) {
    n_groups[cur - threads]++;
}
void emu_copy_wait(unsigned n) {
    const int i = (int)(cur - threads);
    int kept = 0;
    for (int k = 0; k < n_copies[i]; k++)
        if (copies[i][k].group + n < n_groups[i])
            copy_now(copies[i][k].dst, copies[i][k].src, copies[i][k].n, i);
        else
            copies[i][kept++] = copies[i][k];
    n_copies[i] = kept;
}

/* Objects are aligned to their type's alignment and no more: a compiler may order them in any way.
 */
void *emu_shared(const void *key, size_t n_bytes, size_t align) {
    for (int i = 0; i < n_shared; i++)
        if (shared[i].key == key) return shared[i].p;
    if (n_shared == MAX_SHARED) die("more shared objects than emu.cpp provides for");
    if (align < 4) align = 4;
    void *room;
    if (posix_memalign(&room, 2 * align < 8 ? 8 : 2 * align, align + n_bytes)) die("no memory");
    void *p = (char *)room + align;
    memset(p, 0xff, n_bytes);
    shared[n_shared].key = key;
    shared[n_shared].n_bytes = n_bytes;
    shared[n_shared].room = room;
    shared[n_shared].p = p;
    return shared[n_shared++].p;
}
/* Shared memory of the block besides its dynamic part. */
static void check_shared(void) {
    size_t n = 0;
    for (int i = 0; i < n_shared; i++) n += (shared[i].n_bytes + 15) / 16 * 16;
    emu_smem_was(launch->kernel, n);
    if (n + dyn_bytes > (launch->asked ? emu_smem_max() : (size_t)EMU_SMEM_DEFAULT))
        die("more shared memory, static and dynamic, than the kernel may have");
}

void *emu_dyn_shared(void) {
    if (!dyn_shared) die("no dynamic shared memory was requested");
    return dyn_shared;
}
unsigned char *emu_dyn_range(size_t *n_bytes) {
    *n_bytes = dyn_bytes;
    return (unsigned char *)dyn_shared;
}

// ---- running ----------------------------------------------------------------------------------
static uint64_t next_random(uint64_t *s) {
    uint64_t z = *s += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* perm[n]: the order of this round. */
static void draw_order(int *perm, int n, uint64_t *s) {
    for (int i = 0; i < n; i++) perm[i] = order == 1 ? n - 1 - i : i;
    if (order > 1)
        for (int i = n - 1; i > 0; i--) {
            const int j = (int)(next_random(s) % (unsigned)(i + 1)), t = perm[i];
            perm[i] = perm[j];
            perm[j] = t;
        }
}

static struct { /* the warp whose lanes run */
    int warp, at, lane[32];
    uint64_t *s;
} turn;

/* Returns the next runnable one in the order of this round, then of the next; -1: none. */
static int next_lane(void) {
    const int n = warps[turn.warp].n_lanes;
    for (int round = 0; round < 2; round++) {
        while (turn.at < n) {
            const int i = 32 * turn.warp + turn.lane[turn.at++];
            if (threads[i].st == ST_RUN) return i;
        }
        if (order > 1) draw_order(turn.lane, n, turn.s);
        turn.at = 0;
    }
    return -1;
}

/* Runs the lanes of warp w until none is runnable. */
static void run_warp(int w, uint64_t *s) {
    turn.warp = w;
    turn.at = 0;
    turn.s = s;
    draw_order(turn.lane, warps[w].n_lanes, s);
    for (int i; (i = next_lane()) >= 0;) resume(i);
}

static int count(state st) {
    int n = 0;
    for (int i = 0; i < n_threads; i++) n += threads[i].st == st;
    return n;
}

static void run_block(uint64_t *s) {
    const int n_warps = (n_threads + 31) / 32;
    for (int i = 0; i < n_threads; i++) {
        const unsigned x = emu_block_dim.x, y = emu_block_dim.y, u = (unsigned)i;
        threads[i] = {{u % x, u / x % y, u / x / y}, ST_RUN, 0, 0, false};
        n_copies[i] = 0;
        n_groups[i] = 0;
    }
    for (int w = 0; w < n_warps; w++) {
        warps[w].all.n_arrived = 0;
        for (meeting &m : warps[w].eight) m.n_arrived = 0;
        warps[w].n_lanes = n_threads - 32 * w < 32 ? n_threads - 32 * w : 32;
    }
    emu_wgmma_begin(n_threads);
    int perm[MAX_THREADS / 32];
    for (;;) {
        draw_order(perm, n_warps, s);
        for (int w = 0; w < n_warps; w++) run_warp(perm[w], s);
        const int n_done = count(ST_DONE);
        if (n_done == n_threads) break;
        if (count(ST_WARP)) die("lanes wait in a warp operation for lanes that do not come");
        if (count(ST_BEFORE)) {
            if (count(ST_BEFORE) + n_done < n_threads)
                die("threads at a barrier that others reach after cu_wait_before");
            emu_late_waited();
            for (int i = 0; i < n_threads; i++)
                if (threads[i].st == ST_BEFORE) threads[i].st = ST_RUN;
            continue;
        }
        emu_late_barrier();
        for (int i = 0; i < n_threads; i++)
            if (threads[i].st == ST_BLOCK) threads[i].st = ST_RUN;
    }
    emu_wgmma_end();
    check_shared();
    for (int i = 0; i < n_shared; i++) free(shared[i].room);
    n_shared = 0;
}

void emu_run(const emu_launch *l) {
    static bool busy;
    if (busy) die("a launch inside a kernel");
    busy = true;
    launch = l;
    tell = __asan_get_current_fake_stack && __asan_get_current_fake_stack();
    emu_grid_dim = l->grid;
    emu_block_dim = l->block;
    n_threads = (int)(l->block.x * l->block.y * l->block.z);
    uint64_t s = order;
    const uint64_t n_blocks = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
    const uint64_t turn = order > 1 ? next_random(&s) % n_blocks : 0;
    const bool begins_early = emu_late_launch(l->stream, l->early);
    for (uint64_t b = 0; b < n_blocks; b++) {
        const uint64_t u = order == 1 ? n_blocks - 1 - b : (b + turn) % n_blocks;
        emu_block_idx = dim3((unsigned)(u % l->grid.x), (unsigned)(u / l->grid.x % l->grid.y),
                             (unsigned)(u / l->grid.x / l->grid.y));
        dyn_bytes = l->smem;
        if (l->smem) {
            dyn_shared = aligned_alloc(16, (l->smem + 15) / 16 * 16);
            memset(dyn_shared, 0xff, l->smem);
        }
        emu_late_block(begins_early);
        run_block(&s);
        emu_late_block_end();
        free(dyn_shared);
        dyn_shared = nullptr;
    }
    emu_late_launch_end();
    launch = nullptr;
    busy = false;
}
