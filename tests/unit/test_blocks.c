// SPDX-License-Identifier: MIT
/* tests/unit/test_blocks.c - every ISA's decode against weights decoded by an independent program
 * (tests/golden/blocks/how.md), bit for bit: products of a half, a small scale and a small code are
 * exact in f32, so only the subtraction of a minimum rounds, once, and all correct decoders agree.
 */
#include "base/bytes.h"
#include "containers/qtype.h"
#include "kernels/kern.h"
#include "tests/check.h"

static const enum qtype types[] = {QT_Q4_0,  QT_Q4_1,  QT_Q5_0,    QT_Q5_1,   QT_Q8_0,  QT_IQ4_NL,
                                   QT_Q2_K,  QT_Q3_K,  QT_Q4_K,    QT_Q5_K,   QT_Q6_K,  QT_IQ4_XS,
                                   QT_MXFP4, QT_NVFP4, QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S, QT_IQ3_XXS,
                                   QT_IQ3_S, QT_BF16,  QT_TQ1_0,   QT_TQ2_0,  QT_IQ1_S, QT_IQ1_M};

static unsigned char *slurp(const char *path, long *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    unsigned char *p = NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (*n = ftell(f)) > 12) {
        rewind(f);
        p = malloc((size_t)*n);
        if (p && fread(p, 1, (size_t)*n, f) != (size_t)*n) {
            free(p);
            p = NULL;
        }
    }
    fclose(f);
    return p;
}

static void check_type(enum qtype t, const unsigned char *file, long size) {
    const struct qtype_info *q = qtype_info(t);
    const int64_t n_blk = load_u32(file), bytes = load_u32(file + 4), per = load_u32(file + 8);
    CHECK_EQ_I64(bytes, q->block_bytes);
    CHECK_EQ_I64(per, q->block_elems);
    CHECK_EQ_I64(size, 12 + n_blk * (bytes + 4 * per));
    if (check_failed_here) return;
    const int64_t n = n_blk * per;
    const unsigned char *want = file + 12 + n_blk * bytes;
    float *got = malloc((size_t)n * sizeof *got);
    for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++) {
        struct kern k;
        kern_init(&k, (enum kern_isa)isa);
        if (!kern_has(&k, t)) {
            CHECK_FAIL("%s is not decoded", q->name);
            break;
        }
        for (int64_t i = 0; i < n; i++) got[i] = NAN;
        k.op[t].decode(file + 12, got, n);
        for (int64_t i = 0; i < n; i++)
            if (got[i] != load_f32(want + 4 * i)) { /* -0 and 0 are the same weight */
                CHECK_FAIL("%s %s weight %" PRId64 " of block %" PRId64 " is %.9g, expected %.9g",
                           q->name, kern_isa_name((enum kern_isa)isa), i % per, i / per,
                           (double)got[i], (double)load_f32(want + 4 * i));
                break;
            }
    }
    free(got);
}

static const char *folder = "tests/golden/blocks";

static void test_decode(void) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char path[512];
        long size = 0;
        snprintf(path, sizeof path, "%s/%s.bin", folder, qtype_name(types[i]));
        unsigned char *file = slurp(path, &size);
        if (file)
            check_type(types[i], file, size);
        else
            CHECK_FAIL("cannot read %s", path);
        free(file);
    }
}

/* Argument: a different folder of such vectors (tests/oracle/blocks.py FOLDER 2000). */
int main(int argc, char **argv) {
    if (argc > 1) folder = argv[1];
    RUN(test_decode);
    return check_done();
}
