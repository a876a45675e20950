// SPDX-License-Identifier: MIT
/* jobs/bench_job.c - speed of individual kernels on one thread, per tensor type and instruction
 * set, with the ratio to `ref`. Data stays in cache: the numbers show compute speed, not memory
 * bandwidth. */
#include "jobs/bench_job.h"
#include "base/attr.h"
#include "base/progress.h"
#include "kernels/bench.h"

enum { ISAS = KERN_ISA_COUNT };

/* Sets the types to measure; text NULL: all that have kernels. ERR_USAGE: unknown type. */
static int pick_types(struct work *w, const char *text, bool wanted[QT_COUNT], struct err *e) {
    struct kern ref;
    kern_init(&ref, KERN_REF);
    struct str_list names = {0};
    if (text) work_split(w, text, &names);
    for (int t = 0; t < QT_COUNT; t++) wanted[t] = !text && kern_has(&ref, (enum qtype)t);
    for (int i = 0; i < names.n; i++) {
        enum qtype t;
        if (!qtype_parse(names.v[i], &t) || !kern_has(&ref, t))
            return err_set(e, ERR_USAGE, "--types: '%s' is not a type with kernels, such as Q4_K",
                           names.v[i]);
        wanted[t] = true;
    }
    return 0;
}

/* Begins the table of kernels by type and adds its columns. */
static void type_columns(struct emit *m) {
    emit_table(m, "types", "Kernels by type, one thread");
    emit_col(m, "type", "type");
    emit_col(m, "isa", "isa");
    emit_col(m, "decode_gb_s", "decode GB/s");
    emit_col(m, "decode_gweights_s", "Gweights/s");
    emit_col(m, "decode_ratio", "x ref");
    emit_col(m, "dot_gb_s", "dot GB/s");
    emit_col(m, "dot_ratio", "x ref");
    emit_col(m, "packed_gb_s", "packed GB/s");
    emit_col(m, "packed4_gb_s", "4 tokens");
    emit_col(m, "packed_gmac_s", "GMAC/s");
}

/* Writes a rate; an empty cell if it was not measured (0). */
static void rate_cell(struct emit *m, double v, int decimals) {
    if (v > 0)
        emit_cell_num(m, v, decimals);
    else
        emit_cell_none(m);
}

/* Writes the row of a type: its rates, and how they compare with those of the reference kernels. */
static void type_row(struct emit *m, enum qtype t, enum kern_isa isa, const struct kern_rate *r,
                     const struct kern_rate *ref) {
    emit_row(m);
    emit_cell_str(m, qtype_name(t));
    emit_cell_str(m, kern_isa_name(isa));
    emit_cell_num(m, r->decode_gbs, 2);
    emit_cell_num(m, r->decode_gws, 2);
    emit_cell_num(m, r->decode_gbs / ref->decode_gbs, 1);
    rate_cell(m, r->dot_gbs, 2); /* 0: this type has no dot product */
    rate_cell(m, ref->dot_gbs > 0 ? r->dot_gbs / ref->dot_gbs : 0, 1);
    rate_cell(m, r->packed_gbs, 2);
    rate_cell(m, r->packed4_gbs, 2);
    rate_cell(m, r->packed_gmacs, 1);
}

/* Measures the kernels of all wanted types; `seconds`: time per measurement. */
static int bench_types(struct emit *m, const struct kern *k, int n_isa, const bool *wanted,
                       double seconds, struct err *e) {
    type_columns(m);
    for (int t = 0; t < QT_COUNT; t++) {
        if (!wanted[t]) continue;
        struct kern_rate ref = {0};
        for (int isa = 0; isa < n_isa; isa++) {
            if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
            const struct kern_ops *op = &k[isa].op[t], *below = &k[isa ? isa - 1 : 0].op[t];
            if (isa && op->decode == below->decode && op->dot == below->dot &&
                op->gemm == below->gemm)
                continue; /* no kernel for this type */
            struct kern_rate r;
            kern_bench_type(&k[isa], (enum qtype)t, seconds, &r);
            if (isa == 0) ref = r;
            type_row(m, (enum qtype)t, k[isa].isa, &r, &ref);
        }
    }
    return 0;
}

/* Measures the float product; `seconds`: time per measurement. */
static int bench_gemm(struct emit *m, const struct kern *k, int n_isa, double seconds,
                      struct err *e) {
    static const int64_t tokens[] = {1, 2, 4, 8, 16, 64, 512};
    emit_table(m, "gemm", "f32 matrix product, 32 rows of 2048 weights, one thread");
    emit_col(m, "tokens", "tokens");
    emit_col(m, "isa", "isa");
    emit_col(m, "gflop_s", "GFLOP/s");
    emit_col(m, "ratio", "x ref");
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        double ref = 0;
        for (int isa = 0; isa < n_isa; isa++) {
            if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
            const double rate = kern_bench_gemm(&k[isa], tokens[i], 32, 2048, seconds);
            if (isa == 0) ref = rate;
            emit_row(m);
            emit_cell_i64(m, tokens[i]);
            emit_cell_str(m, kern_isa_name(k[isa].isa));
            emit_cell_num(m, rate, 1);
            emit_cell_num(m, rate / ref, 1);
        }
    }
    return 0;
}

const struct bench_kernels_opts bench_kernels_usual = {.seconds = 0.03};

int bench_job_run(struct work *w, const struct bench_kernels_opts *o, struct emit *m,
                  struct err *e) {
    const double seconds = o->seconds;
    if (!(seconds > 0 && seconds <= 60))
        return err_set(e, ERR_USAGE, "--seconds: %g is not in 0..60", seconds);
    bool wanted[QT_COUNT];
    struct kern k[ISAS];
    int n_isa = 0;
    TRY(pick_types(w, o->types, wanted, e));
    for (int isa = KERN_REF; isa <= (int)w->isa; isa++)
        if (kern_isa_has((enum kern_isa)isa)) kern_init(&k[n_isa++], (enum kern_isa)isa);
    emit_str(m, "isa", "instruction set", kern_isa_name(kern_isa_best()));
    TRY(bench_types(m, k, n_isa, wanted, seconds, e));
    return bench_gemm(m, k, n_isa, seconds, e);
}
