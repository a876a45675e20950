// SPDX-License-Identifier: MIT
/* tests/kern/cuda_wgmma.c - the emulation of Hopper's warpgroup products: compares them with sums
 * in double, checks that each mistake in tests/cuda-emu/probe.cu ends the program or gives a wrong
 * result, and that products with wrong results are not used. Not for real devices: there,
 * cuda_weights compares whole products. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fp.h"
#include "base/log.h"
#include "base/rng.h"
#include "tests/kern/cuda_dev.h"

enum { ROWS = 128, COLS = 64 };

static uint16_t *bf16s(struct rng *r, int64_t n) {
    uint16_t *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = fp_f32_to_bf16(rng_normal(r));
    return v;
}

/* Compares f32 sums of 64 exact products; each of the 64 additions rounds once. */
static bool is_right(struct dev *d, int n, int mistake) {
    struct rng r;
    struct err e;
    rng_seed(&r, 11);
    uint16_t *a = bf16s(&r, ROWS * COLS), *b = bf16s(&r, 2 * n * COLS);
    float *y = malloc((size_t)(n * ROWS) * sizeof *y);
    const void *da = dev_put(d, a, ROWS * COLS * 2),
               *db = dev_put(d, b, (size_t)(2 * n * COLS) * 2);
    float *dy = dev_new(d, (size_t)(n * ROWS) * 4);
    CHECK_OK(emu_probe(d->s, n, mistake, da, db, dy, &e));
    dev_get(d, y, dy, (size_t)(n * ROWS) * 4);
    bool ok = true;
    for (int i = 0; i < n * ROWS && ok; i++) {
        double sum = 0, mag = 0;
        for (int k = 0; k < COLS; k++) {
            const double p = (double)fp_bf16_to_f32(a[i % ROWS * COLS + k]) *
                             (double)fp_bf16_to_f32(b[i / ROWS * COLS + k]);
            sum += p;
            mag += fabs(p);
        }
        ok = fabs((double)y[i] - sum) <= COLS * 0x1p-24 * mag;
    }
    free(a);
    free(b);
    free(y);
    return ok;
}

static void test_right(struct dev *d) {
    static const int sizes[] = {16, 32, 64, 96, 128};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        if (!is_right(d, sizes[i], PROBE_RIGHT)) CHECK_FAIL("%d columns: wrong", sizes[i]);
}

/* Runs a product with a mistake in a child process, which may abort. */
static bool is_noticed(struct dev *d, int mistake) {
    int status = -1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        signal(SIGABRT, SIG_DFL);
        _exit(is_right(d, 32, mistake) ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT
                              : WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return status != 0;
}

/* Checks that each mistake is noticed in at least one thread order. */
static void test_mistakes(struct dev *d) {
    for (int m = PROBE_RIGHT; m < PROBE_N; m++) {
        bool noticed = false;
        EACH_ORDER(o) noticed = is_noticed(d, m) || noticed;
        if (noticed != (m != PROBE_RIGHT)) CHECK_FAIL("mistake %d: noticed: %d", m, noticed);
    }
}

static char warned[256];
static void take_warning(void *ctx, enum log_level level, const char *text) {
    (void)ctx;
    if (level == LOG_WARN) snprintf(warned, sizeof warned, "%s", text);
}

/* Checks that tensor cores with wrong results are not used, that this is logged, and that the
 * verdict is cached. */
static void test_trial(struct dev *d) {
    struct err e;
    log_set_sink(take_warning, NULL);
    emu_wgmma_wrong(1);
    CHECK_OK(cu_use_wgmma(d->s, true, &e));
    log_set_sink(NULL, NULL);
    emu_wgmma_wrong(0);
    CHECK(!cu_uses_wgmma(d->s));
    CHECK(strstr(warned, "wgmma gives wrong results") != NULL);
    CHECK_OK(cu_use_wgmma(d->s, true, &e));
    CHECK(!cu_uses_wgmma(d->s));
}

int main(void) {
    struct dev d;
    if (!emu_probe || !dev_open(&d)) return check_skip("not the emulation");
    EACH_ORDER(o) RUN_DEV(test_right, &d);
    RUN_DEV(test_mistakes, &d);
    RUN_DEV(test_trial, &d);
    dev_close(&d);
    return check_done();
}
