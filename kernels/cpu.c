// SPDX-License-Identifier: MIT
/* kernels/cpu.c - detection of CPU features, and of operating system support for them. This is a
 * separate file so that tests/isa-emu/ can replace it. */
#include "base/os.h"
#include "kernels/ops.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Returns which registers the operating system saves. Bits: 1 SSE; 2 AVX; 5 to 7 AVX-512; 17, 18
 * tiles. */
static uint32_t os_state(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

bool kern_cpu_has(enum kern_isa isa) {
    uint32_t a, b, c, d, leaf1_c;
    if (!__get_cpuid(1, &a, &b, &leaf1_c, &d) || !(leaf1_c & 1u << 27)) return isa == KERN_REF;
    const uint32_t os = os_state(); /* the OSXSAVE bit allows the query */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return isa == KERN_REF;
    /* Leaf 1: FMA, AVX and F16C in ecx. Leaf 7: AVX2 and AVX-512 F, DQ, BW, VL in ebx; AVX-512
     * VNNI in ecx; AMX and its int8 in edx. */
    const uint32_t fma_f16c = 1u << 12 | 1u << 28 | 1u << 29, avx2 = 1u << 5;
    const uint32_t f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, vnni = 1u << 11;
    const uint32_t tiles = 1u << 24 | 1u << 25, tile_state = 3u << 17;
    if (isa == KERN_AVX2) return (os & 6u) == 6u && (leaf1_c & fma_f16c) == fma_f16c && (b & avx2);
    if (isa == KERN_AVXVNNI) return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
    if (isa == KERN_AVX512)
        return (os & 0xe6u) == 0xe6u && (b & f_dq_bw_vl) == f_dq_bw_vl && (c & vnni);
    if (isa == KERN_AMX)
        return (os & tile_state) == tile_state && (d & tiles) == tiles && os_use_tiles();
    return isa == KERN_REF;
}

/* Returns whether the processor has AVX-512 VBMI. */
bool kern_cpu_has_vbmi(void) {
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 1);
}
#else
bool kern_cpu_has_vbmi(void) {
    return false;
}
#if defined(__aarch64__)
bool kern_cpu_has(enum kern_isa isa) {
    if (isa == KERN_DOTPROD) return os_arm_dotprod();
    if (isa == KERN_I8MM) return os_arm_i8mm();
    return isa == KERN_REF || isa == KERN_NEON;
}
#else
bool kern_cpu_has(enum kern_isa isa) {
    return isa == KERN_REF;
}
#endif
#endif
