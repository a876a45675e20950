// SPDX-License-Identifier: MIT
/* tests/kern/isa_emu.c - the checks of tests/kern/check for the kernels of instruction sets that
 * this machine may lack, compiled from the same sources against tests/isa-emu/emu.h. Every check
 * must actually have executed emulated instructions of its set. Skipped without AVX2. */
#include "kernels/kern.h"
#include "tests/check.h"

#if !defined(__x86_64__)
int main(void) {
    return check_skip("the emulation is made of AVX2, and this is not an x86-64 machine");
}
#else
#pragma GCC diagnostic ignored "-Wunused-function" /* only some of the checks */
#include "kernels/ops.h"
#include "tests/isa-emu/emu.h"
#include "tests/kern/check_ops.h"
#include "tests/kern/check_pack.h"

static void test_emulation(void) {
    CHECK_EQ_I64(emu_wrong(), 0);
}

/* instructions that a check must have emulated; resets the counts */
static void played(const char *what, uint64_t count) {
    if (!count) CHECK_FAIL("no %s was emulated: something else was tested", what);
    emu_count = (struct emu_count){0};
}

static void test_products(void) {
    for (int isa = (int)isa_first; isa <= KERN_AMX; isa++)
        for (int t = 0; t < QT_COUNT; t++) {
            struct kern k;
            kern_init(&k, (enum kern_isa)isa);
            CHECK_EQ_I64(k.isa, isa);
            struct kern avx2;
            kern_init(&avx2, KERN_AVX2);
            if (!k.op[t].gemm || k.op[t].gemm == avx2.op[t].gemm) continue; /* tests/kern/check */
            emu_count = (struct emu_count){0};
            check_packed_type(&k, (enum qtype)t);
            struct kern avx512;
            kern_init(&avx512, KERN_AVX512);
            const bool no_tiles = k.op[t].gemm == avx512.op[t].gemm;
            played(kern_isa_name(k.isa), k.isa == KERN_AVXVNNI ? emu_count.dot256
                                         : no_tiles            ? emu_count.dot512
                                                               : emu_count.tile);
        }
}

/* Checks that the trial before AMX is used detects a processor with wrong results. */
static void test_trial(void) {
    struct kern amx, avx512;
    kern_init(&amx, KERN_AMX);
    kern_init(&avx512, KERN_AVX512);
    bool agree = false;
    struct err e;
    CHECK(kern_agree(&amx, &avx512, &agree, &e) == 0 && agree);
    emu_break_tiles = true;
    CHECK(kern_agree(&amx, &avx512, &agree, &e) == 0 && !agree);
    emu_break_tiles = false;
}

static void test_f32(void) {
    emu_count = (struct emu_count){0};
    test_gemm();
    played("512-bit product", emu_count.fma512);
    test_short_conv();
    test_mamba();
    test_kda();
    test_delta();
    test_delta_back();
    played("512-bit delta rule", emu_count.fma512);
}

int main(void) {
    isa_first = KERN_AVX2 + 1;
    if (kern_isa_best() == KERN_REF) return check_skip("the emulation is made of AVX2");
    RUN(test_emulation);
    RUN(test_products);
    RUN(test_packed_same);
    RUN(test_trial);
    RUN(test_f32);
    return check_done();
}
#endif
