// SPDX-License-Identifier: MIT
/* tests/isa-emu/cpu.c - the emulated processor: this one, if it has AVX2, plus every instruction
 * set in emu.h. Linked in place of kernels/cpu.c. */
#include "kernels/ops.h"
#include "tests/isa-emu/emu.h"

_Thread_local struct emu_count emu_count;

bool kern_cpu_has(enum kern_isa isa) {
    __builtin_cpu_init();
    return isa == KERN_REF ||
           (isa <= KERN_AMX && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}
bool kern_cpu_has_vbmi(void) {
    return true;
}
