// SPDX-License-Identifier: MIT
/* work/isa_choice.c - timing of instruction sets, and the file that records the fastest one. */
#include "work/isa_choice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/out.h"
#include "kernels/bench.h"

static const double gain = 1.1;
enum { ROUNDS = 4 };

void choice_processor(char out[128]) {
    snprintf(out, 128, "unknown");
    FILE *f = os_fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        snprintf(out, 128, "%s", colon + 1 + strspn(colon + 1, " \t"));
        out[strcspn(out, "\n")] = 0;
        break;
    }
    if (f) fclose(f);
}

/* Returns the path of the file that records a choice; the caller frees it. The file name contains a
 * hash of version, processor and instruction sets. */
static char *path_of(const char *dir, const char *what) {
    char cpu[128], key[33];
    struct buf b = {0};
    choice_processor(cpu);
    buf_fmt(&b, "%s %s", HONE_VERSION, cpu);
    for (int i = 0; i < KERN_ISA_COUNT; i++) buf_fmt(&b, " %d", kern_isa_has((enum kern_isa)i));
    hash_xxh128_hex(key, b.data, b.len);
    buf_release(&b);
    return xasprintf("%s/%s-%s", dir, what, key);
}

char *choice_read(const char *dir, const char *what) {
    char *path = dir ? path_of(dir, what) : NULL, *text = NULL;
    size_t n;
    struct err ignored;
    if (path && io_exists(path)) (void)io_read_file(&text, &n, path, 1 << 14, &ignored);
    free(path);
    return text;
}

int choice_write(const char *dir, const char *what, const char *text, struct err *e) {
    if (!dir) return err_set(e, ERR_SYS, "there is no user folder");
    TRY(io_make_dir(dir, e));
    char *path = path_of(dir, what);
    const int rc = out_write_file(path, text, strlen(text), true, e);
    free(path);
    return rc;
}

enum kern_isa choice_isa(const char *dir) {
    enum kern_isa isa = kern_isa_best(), read;
    char *text = choice_read(dir, "isa");
    if (text) {
        text[strcspn(text, "\n")] = 0;
        const bool named = kern_isa_parse(text, &read) && strcmp(text, "auto") != 0;
        if (named && kern_isa_has(read)) isa = read;
    }
    free(text);
    return isa;
}

int choice_keep(const char *dir, enum kern_isa isa, struct err *e) {
    char text[32];
    snprintf(text, sizeof text, "%s\n", kern_isa_name(isa));
    return choice_write(dir, "isa", text, e);
}

enum kern_isa choice_of(const double speed[KERN_ISA_COUNT]) {
    int best = KERN_ISA_COUNT - 1;
    while (best > 0 && speed[best] <= 0) best--;
    for (int i = best - 1; i > 0; i--)
        if (speed[i] > gain * speed[best]) best = i;
    return (enum kern_isa)best;
}

/* Returns the speed of packed products: the geometric mean over types with both kinds of codes, for
 * 1, 4 and 64 tokens. */
static double speed_of(const struct kern *k) {
    static const enum qtype types[] = {QT_Q4_K, QT_IQ4_XS};
    double product = 1;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct kern_rate r;
        kern_bench_type(k, types[i], 0.002, &r);
        product *= r.packed_gbs * r.packed4_gbs * r.packed_gmacs;
    }
    return pow(product, 1.0 / (3 * COUNT_OF(types)));
}

void choice_measure(struct choice *c) {
    struct kern *k = xcalloc(1, sizeof *k);
    *c = (struct choice){.isa = KERN_REF};
    for (int round = 0; round < ROUNDS; round++)
        for (int i = KERN_REF + 1; i < KERN_ISA_COUNT; i++) {
            if (!kern_isa_has((enum kern_isa)i)) continue;
            kern_init(k, (enum kern_isa)i);
            c->speed[i] = fmax(c->speed[i], speed_of(k));
        }
    free(k);
    c->isa = choice_of(c->speed);
    const double most = c->speed[c->isa];
    for (int i = 0; i < KERN_ISA_COUNT && most > 0; i++) c->speed[i] /= most;
}
