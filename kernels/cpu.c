// SPDX-License-Identifier: MIT
/* kernels/cpu.c - what the processor and the operating system offer. A file of its own, so that
 * tests/isa-emu/ can answer in its place. */
#include "kernels/ops.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Register state that the operating system saves: bit 1 SSE, 2 AVX, 5..7 AVX-512. */
static uint32_t os_state(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

bool kern_cpu_has(enum kern_isa isa) {
    /* leaf 1 ecx: FMA, OSXSAVE, AVX, F16C; leaf 7 ebx: AVX2, then F, DQ, BW, VL; leaf 7 ecx: VNNI
     */
    const uint32_t need_1c = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29, need_7b = 1u << 5;
    const uint32_t need_7b_512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, need_7c_512 = 1u << 11;
    uint32_t a, b, c, d;
    if (isa == KERN_REF) return true;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need_1c) != need_1c) return false;
    const uint32_t os = os_state();
    if ((os & 6u) != 6u) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & need_7b) != need_7b) return false;
    if (isa == KERN_AVX2) return true;
    return (os & 0xe6u) == 0xe6u && (b & need_7b_512) == need_7b_512 &&
           (c & need_7c_512) == need_7c_512;
}
#else
bool kern_cpu_has(enum kern_isa isa) {
    return isa == KERN_REF;
}
#endif
