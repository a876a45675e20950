// SPDX-License-Identifier: MIT
/* tests/unit/test_choice.c - choice of the fastest instruction set (work/isa_choice.h) from given
 * speeds. tests/cli/choice.sh tests the stored choice. */
#include "work/isa_choice.h"
#include "tests/check.h"

static void test_fastest(void) {
    static const struct {
        double speed[KERN_ISA_COUNT];
        enum kern_isa want;
    } row[] = {
        {{0}, KERN_REF},
        {{[KERN_AVX2] = 1}, KERN_AVX2},
        {{[KERN_AVX2] = 1, [KERN_AVX512] = 1.6}, KERN_AVX512},
        /* a little faster is noise */
        {{[KERN_AVX2] = 1.05, [KERN_AVX512] = 1}, KERN_AVX512},
        {{[KERN_AVX2] = 1.2, [KERN_AVX512] = 1}, KERN_AVX2},
        {{[KERN_AVX2] = 1.2, [KERN_AVXVNNI] = 1.5, [KERN_AVX512] = 1}, KERN_AVXVNNI},
        {{[KERN_AVX2] = 1, [KERN_AVX512] = 1.5, [KERN_AMX] = 1.2}, KERN_AVX512},
        {{[KERN_NEON] = 1, [KERN_DOTPROD] = 2, [KERN_I8MM] = 1.95}, KERN_I8MM},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (choice_of(row[i].speed) != row[i].want)
            CHECK_FAIL("row %zu: %s", i, kern_isa_name(choice_of(row[i].speed)));
}

/* Checks that the chosen set is supported by this machine, and that exactly its sets have
 * speeds. */
static void test_measured(void) {
    struct choice c;
    choice_measure(&c);
    CHECK(kern_isa_has(c.isa));
    for (int i = KERN_REF + 1; i < KERN_ISA_COUNT; i++)
        CHECK((c.speed[i] > 0) == kern_isa_has((enum kern_isa)i));
}

int main(void) {
    RUN(test_fastest);
    RUN(test_measured);
    return check_done();
}
