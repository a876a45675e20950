// SPDX-License-Identifier: MIT
/* tests/cuda-emu/late.cpp - delayed visibility of memory between blocks and launches of a device;
 * by default the emulation shows every store at once and runs launches one by one (emu_late).
 *
 * A block sees device memory as it was before its launch, plus its own stores. A thread's fence
 * publishes the thread's stores and those of its block before the last barrier; it also shows the
 * block what others have published. Atomic operations are visible at once. Unfenced stores become
 * visible when the launch has ended.
 *
 * A launch that may start early runs each block's first part, up to cu_wait_before, while memory
 * holds any mixture of the states before and after the previous launch; nothing may be stored
 * there, and each thread must reach the wait.
 *
 * Pages that a launch stores to are found by removing write permission. */
#include <stdio.h>
#include <sys/mman.h>

#include <unordered_map>

#include "tests/cuda-emu/block.hpp"
#include "tests/cuda-emu/control.h"
#include "tests/cuda-emu/devices.hpp"

enum {
    PAGE = 4096,
    NOBODY = 0,
    BLOCK = 0xffff,
    SHOWN = 0xfffe,
    FENCED = 0xfffd
}; /* else thread + 1 */

struct page {
    unsigned char base[PAGE];  /* before the launch, and atomic operations */
    unsigned char shown[PAGE]; /* including fenced stores */
    unsigned char last[PAGE];  /* with all stores of the blocks that ended */
    unsigned char seen[PAGE];  /* memory when it was last looked at */
    uint16_t by[PAGE];         /* who stored in this block */
};
typedef std::unordered_map<uintptr_t, page *> pages;

static bool on, running, met,
    acquired;             /* met: an atomic operation of this block told it of others */
static pages now, before; /* of this launch; of the one before it on its stream */
static const void *before_stream;
static bool early; /* this block has not waited yet */
static uint64_t dice;

bool emu_is_late(void) {
    return on;
}
extern "C" void emu_late(int yes) {
    emu_pages_only(yes != 0);
    on = yes != 0;
}

static void drop(pages *all) {
    for (auto &it : *all) delete it.second;
    all->clear();
}
static unsigned char *memory(uintptr_t at) {
    return (unsigned char *)at;
}

/* Handles a store to protected memory. */
bool emu_late_fault(void *at) {
    if (!running) return false;
    const uintptr_t a = (uintptr_t)at / PAGE * PAGE;
    if (now.count(a)) return false;
    if (early) emu_die("a store before cu_wait_before");
    if (mprotect(memory(a), PAGE, PROT_READ | PROT_WRITE)) return false;
    page *p = new page;
    memcpy(p->base, memory(a), PAGE);
    memcpy(p->shown, p->base, PAGE);
    memcpy(p->last, p->base, PAGE);
    memcpy(p->seen, p->base, PAGE);
    memset(p->by, 0, sizeof p->by);
    now[a] = p;
    return true;
}

/* Attributes changes since the last check to the running thread. */
static void look(void) {
    const uint16_t who = (uint16_t)(emu_thread_index() + 1);
    for (auto &it : now) {
        const unsigned char *m = memory(it.first);
        page *p = it.second;
        if (memcmp(m, p->seen, PAGE) == 0) continue;
        if (early) emu_die("a store before cu_wait_before");
        for (int i = 0; i < PAGE; i++)
            if (m[i] != p->seen[i]) p->by[i] = who;
        memcpy(p->seen, m, PAGE);
    }
}
void emu_late_pause(void) {
    if (running) look();
}
void emu_late_barrier(void) {
    if (!running) return;
    for (auto &it : now)
        for (uint16_t &by : it.second->by)
            if (by != NOBODY && by != SHOWN && by != FENCED) by = BLOCK;
}
void emu_late_fence(void) {
    if (!running) return;
    look();
    const uint16_t who = (uint16_t)(emu_thread_index() + 1);
    for (auto &it : now) {
        page *p = it.second;
        unsigned char *m = memory(it.first);
        for (int i = 0; i < PAGE; i++) {
            if (p->by[i] == who || p->by[i] == BLOCK) {
                p->by[i] = FENCED;
            } else if (p->by[i] == NOBODY && met && !acquired)
                m[i] = p->shown[i];
        }
        memcpy(p->seen, m, PAGE);
    }
    acquired |= met;
}
/* n bytes at p were changed by an atomic operation, which all see at once. */
void emu_late_atomic(const void *at, size_t n) {
    const uintptr_t a = (uintptr_t)at;
    const auto it = now.find(a / PAGE * PAGE);
    if (!running || it == now.end()) return;
    page *p = it->second;
    memcpy(p->base + a % PAGE, at, n);
    memcpy(p->shown + a % PAGE, at, n);
    memcpy(p->last + a % PAGE, at, n);
    memcpy(p->seen + a % PAGE, at, n);
}
void emu_late_before_atomic(void) {
    met = true;
    if (!running) return;
    look();
    for (auto &it : now)
        for (int i = 0; i < PAGE; i++)
            if (it.second->by[i] == FENCED) {
                it.second->shown[i] = memory(it.first)[i];
                it.second->by[i] = SHOWN;
            }
}

static uint64_t draw(void) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return dice >> 33;
}
static void put(uintptr_t at, const unsigned char *bytes) {
    const auto it = now.find(at);
    if (it == now.end()) mprotect(memory(at), PAGE, PROT_READ | PROT_WRITE);
    memcpy(memory(at), bytes, PAGE);
    if (it == now.end())
        mprotect(memory(at), PAGE, PROT_READ);
    else
        memcpy(it->second->seen, bytes, PAGE);
}
/* Shows or hides the previous launch's stores, page by page. */
static void mix(void) {
    const uint64_t kind = draw() % 4; /* nothing of it, all of it, or a part */
    for (auto &it : before) {
        const bool old = kind == 0 || (kind > 1 && draw() % 2);
        put(it.first, old ? it.second->base : it.second->last);
    }
}
void emu_late_waited(void) {
    look();
    for (auto &it : before) put(it.first, it.second->last);
    early = false;
}
bool emu_late_is_early(void) {
    return early;
}

void emu_late_block(bool begins_early) {
    if (!running) return;
    for (auto &it : now) {
        memcpy(memory(it.first), it.second->base, PAGE);
        memcpy(it.second->seen, it.second->base, PAGE);
        memset(it.second->by, 0, sizeof it.second->by);
    }
    met = acquired = false;
    early = begins_early;
    if (early) mix();
}
void emu_late_block_end(void) {
    if (!running) return;
    for (auto &it : now) {
        page *p = it.second;
        const unsigned char *m = memory(it.first);
        for (int i = 0; i < PAGE; i++)
            if (p->by[i] != NOBODY) p->last[i] = m[i];
    }
}

/* Returns whether the launch may start while the previous one ends: it is marked so, and the
 * previous launch is on the same stream. */
bool emu_late_launch(const void *stream, bool says_early) {
    if (!on) return false;
    drop(&now);
    emu_protect(true);
    running = true;
    dice += 0x9e3779b97f4a7c15u;
    if (before_stream != stream) drop(&before);
    before_stream = stream;
    return says_early;
}
void emu_late_launch_end(void) {
    if (!running) return;
    running = early = false;
    emu_protect(false);
    for (auto &it : now) memcpy(memory(it.first), it.second->last, PAGE);
    drop(&before);
    before.swap(now);
}
/* Other work: later work starts after it. */
void emu_late_other(void) {
    drop(&before);
}
