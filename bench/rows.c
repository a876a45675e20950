// SPDX-License-Identifier: MIT
/* bench/rows.c - measures the gain from computing rows of several sequences in one pass on the CPU.
 *
 * rows MODEL.gguf THREADS REPS decode|windows SECONDS: prints tokens per second as JSON. `decode`:
 * total speed of 1, 4 and 16 sequences decoded together, with 8-bit activations. `windows`:
 * perplexity and divergence at ctx 512 with f32 activations, each window alone in passes of 512
 * rows, and several windows together. The variants take turns; figures are medians over REPS
 * rounds, or over fewer if time runs out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/rng.h"
#include "runtime/measure/eval.h"
#include "runtime/generate/windows.h"

enum { CTX = 512, N_TOKENS = 24, N_WINDOWS = 4, MOST_REPS = 32 };
static const int counts[] = {1, 4, 16};

struct figure {
    double rate[MOST_REPS];
    int n;
};

/* Orders doubles, for qsort. */
static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Returns the median of the measured rates, which it sorts. */
static double median_rate(struct figure *f) {
    qsort(f->rate, (size_t)f->n, sizeof *f->rate, by_size);
    return f->n % 2 ? f->rate[f->n / 2] : (f->rate[f->n / 2 - 1] + f->rate[f->n / 2]) / 2;
}

/* Prints the error and exits with 1. */
static void stop_with(const struct err *e) {
    fprintf(stderr, "rows: %s\n", e->msg);
    exit(1);
}

/* Returns a random token id of the model. */
static int32_t random_id(struct rng *r, const struct model *m) {
    return (int32_t)(rng_u64(r) % (uint64_t)m->hp.d[HD_VOCAB]);
}

/* Returns tokens per second over all n sequences. */
static double decode(struct session *s, int n, struct rng *r, float *logits) {
    const struct model *m = session_model(s);
    struct seq *q[16];
    struct session_row row[16];
    struct err e;
    for (int i = 0; i < n; i++)
        if (session_new_seq(s, 64, &q[i], &e)) stop_with(&e);
    double t0 = 0;
    for (int t = -2; t < N_TOKENS; t++) {
        if (t == 0) t0 = progress_now_s();
        for (int i = 0; i < n; i++)
            row[i] = (struct session_row){.id = random_id(r, m), .seq = q[i], .want = WANT_LOGITS};
        if (session_pass(s, &(struct session_pass){.row = row, .n = n, .logits = logits}, &e))
            stop_with(&e);
    }
    const double rate = n * N_TOKENS / (progress_now_s() - t0);
    for (int i = 0; i < n; i++) seq_free(q[i]);
    return rate;
}

/* Opens a session with packed weights; exits on failure. */
static struct session *open_session(const struct model *m, struct pool *p, enum act_mode act,
                                    int64_t n_ubatch) {
    struct session *s = NULL;
    struct err e;
    const struct session_opts o = {.n_ctx = CTX,
                                   .n_ubatch = n_ubatch,
                                   .isa = kern_isa_best(),
                                   .act = act,
                                   .pack = true,
                                   .kv_type = QT_F16,
                                   .pool = p};
    if (session_new(&s, m, &o, &e)) stop_with(&e);
    return s;
}

/* Returns whether the next round would end in time; the first one always runs. */
static bool in_time(int done, double t0, double limit_s) {
    const double spent = progress_now_s() - t0;
    return !done || spent + spent / done < limit_s;
}

/* Measures and prints tokens per second of 1, 4 and 16 sequences at once. */
static void do_sequences(const struct model *m, struct pool *p, int reps, double limit_s) {
    struct figure f[COUNT_OF(counts)] = {0};
    struct rng r;
    rng_seed(&r, 1);
    float *logits = xcalloc((size_t)(16 * m->hp.d[HD_VOCAB]), sizeof *logits);
    struct session *s = open_session(m, p, ACT_Q8, 64);
    const double t0 = progress_now_s();
    for (int k = 0; k < reps && in_time(k, t0, limit_s); k++)
        for (size_t i = 0; i < COUNT_OF(counts); i++)
            f[i].rate[f[i].n++] = decode(s, counts[i], &r, logits);
    session_free(s);
    free(logits);
    printf(" \"reps\": %d,\n \"decode_tok_per_s\": {", f[0].n);
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        printf("%s\"%d\": %.2f", i ? ", " : "", counts[i], median_rate(&f[i]));
    printf("},\n \"decode_over_one\": {\"4\": %.2f, \"16\": %.2f}\n}\n",
           median_rate(&f[1]) / median_rate(&f[0]), median_rate(&f[2]) / median_rate(&f[0]));
}

/* Prints the rates of windows run one by one and together. */
static void say_windows(const char *name, struct figure f[2], const char *end) {
    printf(" \"%s_tok_per_s\": {\"one_by_one\": %.1f, \"together\": %.1f, \"ratio\": %.2f}%s\n",
           name, median_rate(&f[0]), median_rate(&f[1]), median_rate(&f[1]) / median_rate(&f[0]),
           end);
}

/* Measures perplexity and divergence, window by window and together. */
static void do_windows(const struct model *m, struct pool *p, int reps, double limit_s) {
    struct figure ppl[2] = {0}, kld[2] = {0};
    struct session *base[2], *cand[2];
    struct ids ids = {0};
    struct rng r;
    rng_seed(&r, 1);
    for (int64_t i = 0; i < N_WINDOWS * CTX; i++) ids_add(&ids, random_id(&r, m));
    for (int i = 0; i < 2; i++) {
        base[i] = open_session(m, p, ACT_F32, i ? windows_rows(CTX) : CTX);
        cand[i] = open_session(m, p, ACT_F32, i ? windows_rows(CTX) : CTX);
    }
    const double t0 = progress_now_s();
    for (int k = 0; k < reps && in_time(k, t0, limit_s); k++)
        for (int i = 0; i < 2; i++) {
            struct eval_ppl a;
            struct eval_kld b;
            struct err e;
            if (eval_ppl(base[i], &ids, CTX, 0, 0, NULL, &a, &e)) stop_with(&e);
            if (eval_kld(base[i], &cand[i], 1, &ids, CTX, 0, &b, NULL, &e)) stop_with(&e);
            ppl[i].rate[ppl[i].n++] = a.tok_per_s;
            kld[i].rate[kld[i].n++] = b.tok_per_s;
        }
    printf(" \"reps\": %d,\n", ppl[0].n);
    say_windows("ppl", ppl, ",");
    say_windows("kld", kld, "\n}");
    for (int i = 0; i < 2; i++) {
        session_free(cand[i]);
        session_free(base[i]);
    }
    ids_release(&ids);
}

int main(int argc, char **argv) {
    struct model *m = NULL;
    struct pool *p = NULL;
    struct err e;
    if (argc != 6) return 2;
    const int reps = (int)max_i64(1, min_i64(atoi(argv[3]), MOST_REPS));
    if (model_open(&m, argv[1], &e) || pool_new(&p, atoi(argv[2]), &e)) stop_with(&e);
    printf("{\n \"threads\": %s, \"isa\": \"%s\",\n", argv[2], kern_isa_name(kern_isa_best()));
    if (strcmp(argv[4], "decode") == 0)
        do_sequences(m, p, reps, atof(argv[5]));
    else
        do_windows(m, p, reps, atof(argv[5]));
    pool_free(p);
    model_close(m);
    return 0;
}
