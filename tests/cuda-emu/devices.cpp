// SPDX-License-Identifier: MIT
/* tests/cuda-emu/devices.cpp - the devices of the emulation, one at first, and their memory, which
 * is counted.
 *
 * Of several devices each allocation is pages of its own, and the pages of all devices but the one
 * that works are taken away while it does: a kernel or a copy that touches another device's memory,
 * by whatever way it got the address, stops there. On real cards it would work or fail depending on
 * what peers are allowed. */
#include "tests/cuda-emu/devices.hpp"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/cuda-emu/block.hpp"
#include "tests/cuda-emu/control.h"

enum { MAX_DEVICES = 8, ALIGN = 256, PAGE = 4096 };

/* A device allocates in whole blocks; requests of at most half a block share blocks with others of
 * their kind, in multiples of 512 bytes. */
static const size_t LARGE = 2 << 20;
static size_t block_size = 1, grain = 1; /* to the byte, unless emu_blocks says otherwise */
enum { MAX_SHARED_BLOCKS = 4096 };
struct memory {
    char *p;
    int block;        /* -1: blocks of its own */
    size_t n, mapped; /* mapped 0: of malloc, which the address sanitizer guards to the byte */
    int device;
    memory *next;
};
static emu_device card[MAX_DEVICES] = {{(size_t)16 << 30, 384}};
static size_t used[MAX_DEVICES]; /* whole blocks, and what other programs have */
static size_t shared_used[MAX_DEVICES][MAX_SHARED_BLOCKS];
static struct {
    int after; /* allocations; 0: never */
    size_t n;
} other;
static int n_cards = 1, entered = EMU_EVERY;
static memory *first;
static thread_local int current;

int emu_capability = 90;

// ---- whose memory can be touched ----------------------------------------------------------------
static memory *find(const void *p) {
    for (memory *m = first; m; m = m->next)
        if ((const char *)p >= m->p && (const char *)p < m->p + (m->n ? m->n : 1)) return m;
    return nullptr;
}
bool emu_lies_on(const void *p, size_t n, int device) {
    const memory *m = find(p);
    return m && m->device == device && (size_t)((const char *)p - m->p) + n <= m->n;
}

static void show(const memory *m) {
    const bool yes = entered == EMU_EVERY || m->device == entered;
    if (m->mapped && mprotect(m->p, m->mapped, yes ? PROT_READ | PROT_WRITE : PROT_NONE)) abort();
}
void emu_enter(int device) {
    if (n_cards == 1 || device == entered) return;
    entered = device;
    for (const memory *m = first; m; m = m->next) show(m);
}

static const memory *find_page(const void *p) {
    for (const memory *m = first; m; m = m->next)
        if ((const char *)p >= m->p && (const char *)p < m->p + m->mapped) return m;
    return nullptr;
}

static bool pages_only;
static void watch_faults(void);
void emu_pages_only(bool yes) {
    if (first) abort();
    pages_only = yes;
    if (yes) watch_faults();
}
void emu_protect(bool yes) {
    for (const memory *m = first; m; m = m->next)
        if (m->mapped && mprotect(m->p, m->mapped, yes ? PROT_READ : PROT_READ | PROT_WRITE))
            abort();
}

static void on_fault(int, siginfo_t *info, void *) {
    const memory *m = find_page(info->si_addr);
    if (m && m->mapped && emu_late_fault(info->si_addr)) return;
    if (!m || !m->mapped) {
        signal(SIGSEGV, SIG_DFL); /* not ours: again, and for good */
        return;
    }
    char text[96];
    snprintf(text, sizeof text, "device %d touches memory of device %d", entered, m->device);
    emu_die(text);
}

static void watch_faults(void) {
    struct sigaction act = {};
    act.sa_sigaction = on_fault;
    act.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &act, nullptr);
}

extern "C" void emu_devices(int n, const emu_device *d) {
    static const emu_device one = {(size_t)16 << 30, 384};
    if (first || n < 1 || n > MAX_DEVICES) abort(); /* there is memory of those before */
    n_cards = n;
    memset(used, 0, sizeof used); /* also of other programs */
    for (int i = 0; i < n; i++) card[i] = d ? d[i] : one;
    current = 0;
    entered = EMU_EVERY;
    if (n > 1) watch_faults();
}

/* CUDA_EMU_DEVICES: MiB of each device and, after a slash, the width of its memory in bits. */
static void read_environment(void) {
    static bool done;
    const char *at = done ? nullptr : getenv("CUDA_EMU_DEVICES");
    emu_device d[MAX_DEVICES];
    int n = 0;
    done = true;
    while (at && *at && n < MAX_DEVICES) {
        char *end;
        d[n].n_bytes = (size_t)strtoul(at, &end, 10) << 20;
        d[n].bus = *end == '/' ? (int)strtol(end + 1, &end, 10) : 384;
        n++;
        at = *end == ',' ? end + 1 : nullptr;
    }
    if (n) emu_devices(n, d);
}

// ---- devices ------------------------------------------------------------------------------------
static bool is_integrated, is_mig;
extern "C" void emu_integrated(int yes) {
    is_integrated = yes != 0;
}
extern "C" void emu_mig(int yes) {
    is_mig = yes != 0;
}
cudaError_t cudaGetDeviceCount(int *n) {
    read_environment();
    *n = n_cards;
    return emu_driver_fits();
}
int emu_current(void) {
    return current;
}
static cudaError_t refusal;
extern "C" void emu_refuse(int error) {
    refusal = (cudaError_t)error;
}
cudaError_t cudaSetDevice(int device) {
    if (refusal != cudaSuccess) return emu_error(refusal);
    if (device < 0 || device >= n_cards) return emu_error(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
    memset(p, 0, sizeof *p);
    if (device < 0 || device >= n_cards) return emu_error(cudaErrorInvalidDevice);
    const int cc = emu_capability;
    snprintf(p->name, sizeof p->name, "CPU emulation%s", is_mig ? " MIG 1g.10gb" : "");
    p->major = cc / 10;
    p->minor = cc % 10;
    p->multiProcessorCount = 4; /* few: grids that loop over the device do loop */
    p->l2CacheSize = 1 << 20;
    p->sharedMemPerBlockOptin = (size_t)(cc == 90 ? 227 : cc == 80 ? 163 : 99) << 10;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr what, int device) {
    if (device < 0 || device >= n_cards) return emu_error(cudaErrorInvalidDevice);
    *v = what == cudaDevAttrMemoryClockRate        ? 10000000 /* kHz */
         : what == cudaDevAttrPageableMemoryAccess ? emu_pageable_is_read()
         : what == cudaDevAttrIntegrated           ? is_integrated
                                                   : card[device].bus; /* bits */
    return cudaSuccess;
}
/* The first two reach each other, as cards of one bridge do; the others go through the host. */
cudaError_t cudaDeviceCanAccessPeer(int *yes, int device, int peer) {
    *yes = device < 2 && peer < 2 && device != peer;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
    static bool on[MAX_DEVICES][MAX_DEVICES];
    int yes = 0;
    cudaDeviceCanAccessPeer(&yes, current, peer);
    if (!yes) return emu_error(cudaErrorPeerAccessUnsupported);
    if (on[current][peer]) return emu_error(cudaErrorPeerAccessAlreadyEnabled);
    on[current][peer] = true;
    return cudaSuccess;
}

// ---- memory -------------------------------------------------------------------------------------
cudaError_t cudaMemGetInfo(size_t *mem_free, size_t *total) {
    *total = card[current].n_bytes;
    *mem_free = *total - used[current];
    return cudaSuccess;
}
/* Takes n bytes of this device's memory. Returns false if it has less. */
static bool take(int device, size_t n, int *block) {
    const size_t left = card[device].n_bytes - used[device];
    const size_t grains = (n + grain - 1) / grain * grain,
                 whole = (n + block_size - 1) / block_size * block_size;
    *block = -1;
    if (n > block_size / 2) {
        if (whole > left) return false;
        used[device] += whole;
        return true;
    }
    size_t *in = shared_used[device];
    int i = 0;
    while (i < MAX_SHARED_BLOCKS && (!in[i] || in[i] + grains > block_size)) i++;
    if (i == MAX_SHARED_BLOCKS) { /* a new one */
        for (i = 0; in[i];)
            if (++i == MAX_SHARED_BLOCKS) return false;
        if (block_size > left) return false;
        used[device] += block_size;
    }
    in[i] += grains ? grains : grain;
    *block = i;
    return true;
}
static void give_back(const memory *m) {
    const size_t grains = (m->n + grain - 1) / grain * grain;
    if (m->block < 0) {
        used[m->device] -= (m->n + block_size - 1) / block_size * block_size;
        return;
    }
    size_t *in = &shared_used[m->device][m->block];
    *in -= grains ? grains : grain;
    if (!*in) used[m->device] -= block_size;
}
extern "C" void emu_blocks(int yes) {
    if (first) abort();
    block_size = yes ? LARGE : 1;
    grain = yes ? 512 : 1;
}
extern "C" void emu_other(int after, size_t n_bytes) {
    other = {after, n_bytes};
    if (!after) used[current] += n_bytes;
}

cudaError_t cudaMalloc(void **p, size_t n) {
    void *at = nullptr;
    size_t mapped = 0;
    int block;
    if (emu_capturing()) return emu_error(cudaErrorStreamCaptureUnsupported);
    if (other.after && !--other.after) used[current] += other.n;
    if (!take(current, n, &block)) return emu_error(cudaErrorMemoryAllocation);
    if (n_cards == 1 && !pages_only) {
        if (posix_memalign(&at, ALIGN, n)) return emu_error(cudaErrorMemoryAllocation);
    } else {
        mapped = (n + PAGE) / PAGE * PAGE;
        at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return emu_error(cudaErrorMemoryAllocation);
    }
    memset(at, 0xff, n);
    first = new memory{(char *)at, block, n, mapped, current, first};
    show(first);
    *p = at;
    return cudaSuccess;
}
void emu_forget(void *p) {
    for (memory **at = &first; *at; at = &(*at)->next) {
        memory *m = *at;
        if (m->p != p) continue;
        *at = m->next;
        give_back(m);
        if (m->mapped)
            munmap(m->p, m->mapped);
        else
            free(m->p);
        delete m;
        return;
    }
    emu_die("memory is freed that is not there");
}
