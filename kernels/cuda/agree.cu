// SPDX-License-Identifier: MIT
/* kernels/cuda/agree.cu - test of wgmma before its first use: whether the build has code for it,
 * and whether its results are correct on this device. kernels/agree.c tests AMX likewise.
 *
 * Compares with sums in double on the host: rows of each type that fill one warpgroup and part of a
 * second, columns that use each slot of the ring twice, tokens for every width of the product, and
 * blocks of every size. Takes 0.6 MiB of device memory during the test. */
#include <pthread.h>

#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/gpu_sm90.cuh"
#include "kernels/cuda/pack.cuh"

extern "C" {
#include "base/fp.h"
#include "base/log.h"
#include "base/mem.h"
#define restrict __restrict__
#include "kernels/bench.h"
#undef restrict
}

enum { ROWS = 80, K = 512, TOKENS = 128 };
static const enum qtype types[] = {
#define TYPE(T) QT_##T,
    CU_PACK_TYPES(TYPE)
#undef TYPE
};
static const int tokens[] = {13, 32, 57, 96, 128}, warpgroups[] = {1, 2, 4};
enum { N_TYPES = sizeof types / sizeof types[0], N_SIZES = sizeof tokens / sizeof tokens[0] };

struct trial {
    struct rng rng;
    struct cu_weight w;
    float *d_dec, *d_x, *d_y;            /* on the device */
    float w_host[ROWS][K], x[TOKENS][K]; /* as the product rounds them */
    float y[TOKENS][ROWS];
    double want[TOKENS][ROWS], tol[TOKENS][ROWS];
    uint8_t blocks[ROWS * 2 * K]; /* no packed type has 2 bytes per weight */
};

/* Sets *yes to whether the code that runs on this device was compiled with wgmma; the build may
 * also contain code without it. */
CU_KERNEL has_wgmma(int32_t *yes) {
#ifdef CU_HAS_WGMMA
    *yes = 1;
#else
    *yes = 0;
#endif
}

static void round16(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = fp_bf16_to_f32(fp_f32_to_bf16(x[i]));
}

/* Creates weights of type t: packed on the device, and as bf16 on the host. */
static int make_weights(struct cu_stream *s, struct trial *x, enum qtype t, struct err *e) {
    x->w.type = t;
    x->w.k = K;
    x->w.rows = ROWS;
    x->w.mats = 1;
    x->w.row_bytes = qtype_row_bytes(t, K);
    x->w.mat_bytes = x->w.row_bytes * ROWS;
    kern_random_blocks(t, &x->rng, x->blocks, ROWS * K / qtype_info(t)->block_elems);
    TRY(cu_upload(s, (void *)(uintptr_t)x->w.data, x->blocks, x->w.mat_bytes, e));
    TRY(cu_pack_weight(s, &x->w, e));
    TRY(cu_unpack_weight(s, &x->w, x->d_dec, e));
    TRY(cu_download(s, x->w_host, x->d_dec, sizeof x->w_host, e));
    TRY(cu_sync(s, e));
    round16(x->w_host[0], ROWS * K);
    return 0;
}

/* Computes the expected results of n tokens and their tolerances. Each product is exact; each
 * addition may truncate instead of round, so it may be off by two units of 2^-24. */
static void expect(struct trial *x, int n) {
    for (int t = 0; t < n; t++)
        for (int r = 0; r < ROWS; r++) {
            double sum = 0, mag = 0;
            for (int i = 0; i < K; i++) {
                const double p = (double)x->w_host[r][i] * (double)x->x[t][i];
                sum += p;
                mag += fabs(p);
            }
            x->want[t][r] = sum;
            x->tol[t][r] = (2 * K + 16) * 0x1p-24 * mag;
        }
}

/* Compares the results of n tokens, with this number of warpgroups per block. */
static int compare(struct cu_stream *s, struct trial *x, int n, int groups, bool *ok,
                   struct err *e) {
    s->warpgroups = groups;
    TRY(cu_fill(s, x->d_y, 0xff, sizeof x->y, e));
    TRY(cu_matmul(s, &x->w, x->d_x, K, n, x->d_y, ROWS, false, e));
    TRY(cu_download(s, x->y, x->d_y, sizeof x->y, e));
    TRY(cu_sync(s, e));
    for (int t = 0; t < n; t++)
        for (int r = 0; r < ROWS; r++)
            *ok = *ok && fabs((double)x->y[t][r] - x->want[t][r]) <= x->tol[t][r];
    return 0;
}

/* Compares all combinations of type, width and block size; in the slower emulation, each type,
 * width and size only once. */
static int compare_all(struct cu_stream *s, struct trial *x, bool *ok, struct err *e) {
    const bool all = !s->c->info.emulated;
    for (int i = 0; i < TOKENS * K; i++) x->x[i / K][i % K] = rng_normal(&x->rng);
    round16(x->x[0], TOKENS * K);
    TRY(cu_upload(s, x->d_x, x->x, sizeof x->x, e));
    *ok = true;
    for (int t = 0; t < N_TYPES; t++) {
        TRY(make_weights(s, x, types[t], e));
        expect(x, all ? TOKENS : tokens[t % N_SIZES]);
        for (int i = 0; i < 3 * N_SIZES; i++)
            if (all || i == t % N_SIZES + t % 3 * N_SIZES)
                TRY(compare(s, x, tokens[i % N_SIZES], warpgroups[i / N_SIZES], ok, e));
    }
    return 0;
}

/* Sets *ok to whether wgmma computes correctly; warns if it does not. */
static int try_wgmma(struct cu_stream *s, struct trial *x, bool *ok, struct err *e) {
    int32_t yes = 0;
    *ok = false;
    CU_LAUNCH(e, has_wgmma, 1, 1, 0, s, (int32_t *)(void *)x->d_y);
    TRY(cu_download(s, &yes, x->d_y, sizeof yes, e));
    TRY(cu_sync(s, e));
    if (!yes) {
        log_debug("wgmma: this build has no code for compute capability 9.0");
        return 0;
    }
    s->wgmma = true;
    const int rc = compare_all(s, x, ok, e);
    s->warpgroups = 0;
    TRY(rc);
    if (!*ok)
        log_warn("wgmma gives wrong results on %s: prompts use mma, which is slower",
                 s->c->info.name);
    return 0;
}

/* Runs the test with separate device memory. */
static int try_with_memory(struct cu_stream *s, bool *ok, struct err *e) {
    const uint64_t n_w = 2 * ROWS * K, n_dec = 4 * ROWS * K, n_x = 4 * TOKENS * K,
                   n_y = 4 * TOKENS * ROWS;
    struct cu_buf *b;
    TRY(cu_buf_new(&b, s->c, 2 * n_w + n_dec + n_x + n_y, "trial of wgmma", e));
    struct trial *x = (struct trial *)xcalloc(1, sizeof *x);
    uint8_t *p = (uint8_t *)cu_buf_ptr(b);
    rng_seed(&x->rng, 1);
    x->w.data = p;
    x->w.packed = p + n_w;
    x->d_dec = (float *)(void *)(p + 2 * n_w);
    x->d_x = (float *)(void *)(p + 2 * n_w + n_dec);
    x->d_y = (float *)(void *)(p + 2 * n_w + n_dec + n_x);
    struct err why;
    int rc = try_wgmma(s, x, ok, &why);
    if (rc) rc = err_set(e, ERR_SYS, "testing wgmma: %s; --device cuda/743 avoids it", why.msg);
    free(x);
    cu_buf_free(b);
    return rc;
}

int cu_use_wgmma(struct cu_stream *s, bool yes, struct err *e) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct { bool asked, ok; } known[256]; /* by device */
    s->wgmma = false;
    const int i = s->c->info.index;
    if (!yes || s->c->info.cc != 90 || i >= (int)(sizeof known / sizeof known[0])) return 0;
    int rc = 0;
    pthread_mutex_lock(&lock);
    if (!known[i].asked) rc = try_with_memory(s, &known[i].ok, e);
    known[i].asked = rc == 0;
    s->wgmma = known[i].asked && known[i].ok;
    pthread_mutex_unlock(&lock);
    return rc;
}

bool cu_uses_wgmma(const struct cu_stream *s) {
    return s->wgmma;
}
