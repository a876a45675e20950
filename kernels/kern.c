// SPDX-License-Identifier: MIT
/* kernels/kern.c - the kernel table: one row per type, filled from ops.def, lowest ISA first. It
 * does not depend on the build host: cpu.c detects the machine's features at run time. */
#include "kernels/kern.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "kernels/ops.h"
#include "kernels/pack.h"

static const struct {
    const char *name;
    enum kern_isa below; /* largest instruction set that this one contains */
} isas[KERN_ISA_COUNT] = {
    [KERN_REF] = {"ref", KERN_REF},          [KERN_AVX2] = {"avx2", KERN_REF},
    [KERN_AVXVNNI] = {"avxvnni", KERN_AVX2}, [KERN_AVX512] = {"avx512", KERN_AVX2},
    [KERN_AMX] = {"amx", KERN_AVX512},       [KERN_NEON] = {"neon", KERN_REF},
    [KERN_DOTPROD] = {"dotprod", KERN_NEON}, [KERN_I8MM] = {"i8mm", KERN_DOTPROD},
};

/* Index of each instruction set named in ops.def. */
enum {
    ISA_ref = KERN_REF,
    ISA_avx2 = KERN_AVX2,
    ISA_avxvnni = KERN_AVXVNNI,
    ISA_avx512 = KERN_AVX512,
    ISA_amx = KERN_AMX,
    ISA_neon = KERN_NEON,
    ISA_dotprod = KERN_DOTPROD,
    ISA_i8mm = KERN_I8MM,
};
static const struct {
    enum kern_isa isa;
    enum qtype type;
    const struct kern_ops *ops;
} table[] = {
#define KERN_OPS(isa, T) {(enum kern_isa)ISA_##isa, QT_##T, &kern_##isa##_##T},
#include "kernels/ops.def"
#undef KERN_OPS
};

const char *kern_isa_name(enum kern_isa isa) {
    return (unsigned)isa < KERN_ISA_COUNT ? isas[isa].name : "?";
}

bool kern_isa_parse(const char *name, enum kern_isa *out) {
    if (strcasecmp(name, "auto") == 0) {
        *out = kern_isa_best();
        return true;
    }
    for (int i = 0; i < KERN_ISA_COUNT; i++)
        if (strcasecmp(name, isas[i].name) == 0) {
            *out = (enum kern_isa)i;
            return true;
        }
    return false;
}

/* Returns the instruction set that `isa` extends; KERN_REF: the lowest. */
static enum kern_isa next_lower(enum kern_isa isa) {
    return (unsigned)isa < KERN_ISA_COUNT ? isas[isa].below : KERN_REF;
}

static void fill_table(struct kern *k, enum kern_isa isa);
static pthread_once_t amx_once = PTHREAD_ONCE_INIT;
static bool amx_agrees;
/* Compares AMX with AVX-512 and sets amx_agrees to whether their results are the same. */
static void try_amx(void) {
    struct kern k[2];
    struct err e = {0};
    fill_table(&k[0], KERN_AMX);
    fill_table(&k[1], KERN_AVX512);
    if (kern_agree(&k[0], &k[1], &amx_agrees, &e))
        log_warn("not enough memory to test AMX: prompts use AVX-512");
    else if (!amx_agrees)
        log_warn("AMX gives wrong results on this processor: prompts use AVX-512");
}

bool kern_isa_has(enum kern_isa isa) {
    if (isa == KERN_REF) return true;
    if (!kern_cpu_has(isa) || !kern_isa_has(next_lower(isa))) return false;
    if (isa == KERN_AMX) pthread_once(&amx_once, try_amx);
    return isa != KERN_AMX || amx_agrees;
}

enum kern_isa kern_isa_best(void) {
    int i = KERN_ISA_COUNT - 1;
    while (!kern_isa_has((enum kern_isa)i)) i--;
    return (enum kern_isa)i;
}

/* Returns whether a machine with `isa` also has `part`. */
static bool isa_contains(enum kern_isa isa, enum kern_isa part) {
    while (isa > part) isa = next_lower(isa);
    return isa == part;
}

void kern_init(struct kern *k, enum kern_isa isa) {
    while (!kern_isa_has(isa)) isa = next_lower(isa);
    fill_table(k, isa);
}

/* Fills in the best kernels that `isa` allows. */
static void fill_table(struct kern *k, enum kern_isa isa) {
    memset(k, 0, sizeof *k);
    k->isa = isa;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!isa_contains(isa, table[i].isa) || (table[i].ops->needs_vbmi && !kern_cpu_has_vbmi()))
            continue;
        struct kern_ops *op = &k->op[table[i].type];
        if (table[i].ops->decode) op->decode = table[i].ops->decode;
        if (table[i].ops->dot) {
            op->dot = table[i].ops->dot;
            op->dots = table[i].ops->dots;
        }
        if (table[i].ops->gemm) {
            op->gemm = table[i].ops->gemm;
            op->rows = table[i].ops->rows;
        }
    }
    kern_ref_act(k);
    kern_ref_f32(k);
#if defined(__x86_64__)
    if (isa_contains(isa, KERN_AVX2)) {
        kern_avx2_act(k);
        kern_avx2_f32(k);
        kern_avx2_gemm(k);
        kern_avx2_seq(k);
    }
    if (isa_contains(isa, KERN_AVX512)) {
        kern_avx512_gemm(k);
        kern_avx512_seq(k);
    }
#elif defined(__aarch64__)
    if (isa_contains(isa, KERN_NEON)) {
        kern_neon_act(k);
        kern_neon_f32(k);
        kern_neon_gemm(k);
        kern_neon_seq(k);
    }
#endif
}

enum qtype kern_dot_partner(enum qtype weight) {
    const struct qtype_info *q = qtype_info((int64_t)weight);
    return q ? q->dot : QT_F32;
}

bool kern_has(const struct kern *k, enum qtype t) {
    return (unsigned)t < QT_COUNT && k->op[t].decode;
}

int64_t kern_gemm_scratch(int rows, int64_t k) {
    return (k + QK - 1) / QK * ROWS_PANEL * rows;
}
