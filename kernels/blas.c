// SPDX-License-Identifier: MIT
/* kernels/blas.c - loading, checking and timing of OpenBLAS, and products computed with it. */
#include "kernels/blas.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/rng.h"

static const double gain = 1.1, TRIAL_S = 0.05; /* TRIAL_S: per use */
enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };
enum { LEAST_N = 32, LEAST_K = 128 }; /* smaller products gain nothing */

const struct blas_use_info blas_uses[BLAS_USES] = {
    [BLAS_ROWS_16] = {"rows_16", 16, 64, 2048, false, false},
    [BLAS_ROWS_64] = {"rows_64", 64, 64, 2048, false, false},
    [BLAS_ROWS_512] = {"rows_512", 512, 64, 2048, false, false},
    [BLAS_BACK] = {"back", 128, 256, 512, true, true},
    [BLAS_MOMENTS] = {"moments", BLAS_TILE, BLAS_TILE, 512, false, true},
};
/* Fewest rows for each use of blas_product, in the order of the uses. */
static const int64_t least_rows[] = {16, 48, 256};

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);
/* The loaded library, set once per process and read-only afterwards. */
static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static struct {
    sgemm_fn sgemm;
    char config[256], why[256]; /* why: the reason not to use it; "": usable */
    int most_threads;
} blas_lib;

/* Computes a product with OpenBLAS for use u. */
static void sgemm_product(const struct blas_use_info *u, const float *a, int64_t lda,
                          const float *b, int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t n,
                          int64_t k) {
    blas_lib.sgemm(ROW_MAJOR, AS_IS, u->back ? AS_IS : TRANSPOSED, (int)m, (int)n, (int)k, 1, a,
                   (int)lda, b, (int)ldb, u->adds ? 1 : 0, c, (int)ldc);
}

/* ---- a check ---------------------------------------------------------------------------------
 *
 * Values are small integers, so every sum is exact in any order, and any difference is an error.
 * Values of A have 11 bits, more than fit in bfloat16. */

enum { PAD = 3, MOST_A = 2047, MOST_B = 3 };
struct trial { /* product of a use; rows of C have PAD extra values */
    float *a, *b, *c, *d;
    int64_t ldb;
};
/* Allocates random operands for a comparison. */
static int trial_new(struct trial *t, const struct blas_use_info *u, struct err *e) {
    const int64_t n_a = u->m * u->k, n_b = u->n * u->k, n_c = u->m * (u->n + PAD);
    void *p;
    struct rng r;
    TRY(mem_alloc(&p, (uint64_t)(n_a + n_b + 2 * n_c) * sizeof(float), "a trial of OpenBLAS", e));
    *t = (struct trial){.a = p, .ldb = u->back ? u->n : u->k};
    t->b = t->a + n_a;
    t->c = t->b + n_b;
    t->d = t->c + n_c;
    rng_seed(&r, 1);
    for (int64_t i = 0; i < n_a; i++) t->a[i] = roundf(rng_f32(&r, -MOST_A, MOST_A));
    for (int64_t i = 0; i < n_b; i++) t->b[i] = roundf(rng_f32(&r, -MOST_B, MOST_B));
    for (int64_t i = 0; i < n_c; i++) t->c[i] = t->d[i] = u->adds ? (float)(i % 7) : NAN;
    return 0;
}
/* Computes the trial's product with our kernel. */
static void run_ours(const struct kern *k, const struct blas_use_info *u, const struct trial *t,
                     float *c) {
    (u->back ? k->gemm_nn : k->gemm_f32)(t->a, u->k, t->b, t->ldb, c, u->n + PAD, u->m, u->n, u->k);
}
/* Computes the trial's product with OpenBLAS. */
static void run_theirs(const struct blas_use_info *u, const struct trial *t) {
    sgemm_product(u, t->a, u->k, t->b, t->ldb, t->d, u->n + PAD, u->m, u->n, u->k);
}

/* Returns whether a product of this use matches ours and writes nothing outside its result. */
static bool agrees(const struct kern *k, const struct blas_use_info *u, struct err *e) {
    struct trial t;
    bool same = true;
    if (trial_new(&t, u, e)) return false;
    run_theirs(u, &t);
    run_ours(k, u, &t, t.c);
    for (int64_t i = 0; i < u->m && same; i++)
        for (int64_t j = 0; j < u->n + PAD && same; j++) {
            const int64_t at = i * (u->n + PAD) + j;
            const float before = u->adds ? (float)(at % 7) : NAN, d = t.d[at];
            const float set = !u->back && u->adds ? before : 0; /* only gemm_nn adds */
            if (j < u->n)
                same = d == t.c[at] + set;
            else
                same = u->adds ? d == before : isnan(d);
        }
    mem_free(t.a);
    return same;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Records why OpenBLAS cannot be used. */
__attribute__((format(printf, 1, 2))) static void refuse(const char *format, ...) {
    va_list v;
    va_start(v, format);
    vsnprintf(blas_lib.why, sizeof blas_lib.why, format, v);
    va_end(v);
}

/* Looks up a function of the library and stores its address in *f. If it is missing, records the
 * reason and returns false. */
static bool find(void *lib, const char *name, void *f) {
    void *at = os_symbol(lib, name);
    if (!at) refuse("it has no %s", name);
    memcpy(f, &at, sizeof at);
    return at;
}

/* Reads the build's properties. Rejects builds that our threads cannot call in parallel: with
 * OpenMP each thread has a separate thread count, and builds without threads have no locks. False:
 * notes the reason. */
static bool inspect(void *lib) {
    enum { PTHREADS = 1 };
    int (*parallel)(void);
    void (*set_threads)(int);
    char *(*config)(void), *(*core)(void);
    if (!find(lib, "cblas_sgemm", &blas_lib.sgemm) ||
        !find(lib, "openblas_get_parallel", &parallel) ||
        !find(lib, "openblas_set_num_threads", &set_threads) ||
        !find(lib, "openblas_get_config", &config) || !find(lib, "openblas_get_corename", &core))
        return false;
    snprintf(blas_lib.config, sizeof blas_lib.config, "%s", config());
    if (!strstr(blas_lib.config, core())) /* newer versions already include it */
        snprintf(blas_lib.config, sizeof blas_lib.config, "%s %s", config(), core());
    const char *most = strstr(blas_lib.config, "MAX_THREADS=");
    blas_lib.most_threads = most ? (int)strtol(most + strlen("MAX_THREADS="), NULL, 10) : 1;
    if (strstr(blas_lib.config, "USE64BITINT"))
        refuse("its integers have 64 bits");
    else if (parallel() != PTHREADS)
        refuse("it is not the build with POSIX threads");
    else
        set_threads(1);
    return !blas_lib.why[0];
}

/* Loads and tests OpenBLAS; on failure records why it is not used. */
static void load_library(void) {
    static const char *const names[] = {"libopenblas.so.0", "libopenblasp.so.0"};
    void *lib = NULL;
    if (os_memory_is_limited()) { /* it retries a failed allocation forever */
        refuse("the memory of the process is limited (ulimit), where it may hang");
        return;
    }
    for (size_t i = 0; i < COUNT_OF(names) && !lib; i++) {
        if (os_library(names[i], true)) {
            refuse("the process uses it already");
            return;
        }
        lib = os_library(names[i], false);
        if (!lib && !i) refuse("%s", os_library_error());
    }
    if (!lib) return;
    blas_lib.why[0] = 0;
    struct kern *k = calloc(1, sizeof *k);
    struct err e = {0};
    if (!k) refuse("out of memory");
    if (k && inspect(lib)) {
        kern_init(k, kern_isa_best());
        for (int u = 0; u < BLAS_USES && !blas_lib.why[0]; u++)
            if (!agrees(k, &blas_uses[u], &e))
                refuse("%s", e.msg[0] ? e.msg : "it computes wrongly on this processor");
    }
    free(k);
}

const char *blas_open(void) {
    pthread_once(&blas_once, load_library);
    return blas_lib.why[0] ? blas_lib.why : NULL;
}
const char *blas_config(void) {
    return blas_lib.config;
}
int blas_most_threads(void) {
    return blas_lib.most_threads;
}

/* ---- a trial --------------------------------------------------------------------------------- */

void blas_trial(const struct kern *k, double rate_ours[BLAS_USES], double rate_theirs[BLAS_USES]) {
    for (int i = 0; i < BLAS_USES; i++) {
        const struct blas_use_info *u = &blas_uses[i];
        const double gflop = 2e-9 * (double)u->m * (double)u->n * (double)u->k;
        struct trial t;
        struct err e;
        rate_ours[i] = rate_theirs[i] = 0;
        if (trial_new(&t, u, &e)) continue;
        /* Alternate, so that both see the same disturbances. */
        for (const double end = progress_now_s() + TRIAL_S; progress_now_s() < end;) {
            const double t0 = progress_now_s();
            run_ours(k, u, &t, t.c);
            const double t1 = progress_now_s();
            run_theirs(u, &t);
            const double t2 = progress_now_s();
            rate_ours[i] = fmax(rate_ours[i], gflop / fmax(t1 - t0, 1e-9));
            rate_theirs[i] = fmax(rate_theirs[i], gflop / fmax(t2 - t1, 1e-9));
        }
        mem_free(t.a);
    }
}

unsigned blas_faster(const double rate_ours[BLAS_USES], const double rate_theirs[BLAS_USES]) {
    unsigned uses = 0;
    for (int i = 0; i < BLAS_USES; i++)
        if (rate_theirs[i] > gain * rate_ours[i]) uses |= 1u << i;
    return uses;
}

/* ---- use ------------------------------------------------------------------------------------- */

unsigned blas_let(unsigned uses) {
    return uses && !blas_open() ? uses : 0;
}

void blas_product(const struct kern *k, unsigned uses, const float *a, int64_t lda, const float *b,
                  int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t n, int64_t kk) {
    int use = BLAS_ROWS_512;
    while (use > BLAS_ROWS_16 && m < least_rows[use]) use--;
    if (!blas_does(uses, (enum blas_use)use) || m < least_rows[use] || n < LEAST_N || kk < LEAST_K)
        k->gemm_f32(a, lda, b, ldb, c, ldc, m, n, kk);
    else
        sgemm_product(&blas_uses[use], a, lda, b, ldb, c, ldc, m, n, kk);
}

void blas_add(enum blas_use use, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
              int64_t ldc, int64_t m, int64_t n, int64_t kk) {
    sgemm_product(&blas_uses[use], a, lda, b, ldb, c, ldc, m, n, kk);
}
