// SPDX-License-Identifier: MIT
/* bench/cuda.c - times individual CUDA kernels: products with weights, and attention.
 *
 * Prints one JSON document: times, bytes of weights per second along with the copy bandwidth of the
 * same run, multiply-adds per second, and the cost of launching an empty kernel in a captured
 * graph. Products of many tokens use mma and, where the device has it, wgmma. Attention for few
 * tokens over a long context runs with and without tensor cores. Run `make bench-cuda` on a machine
 * with a GPU.
 *
 * Shapes are taken from Qwen3.5-35B-A3B. A figure is the median of REPS replays of a graph of CALLS
 * calls, each on a different copy of the weights, so that no cache holds them. Without a device,
 * the exit status is 77. The argument `small` runs one row group of everything, to test the program
 * itself (under the tests' emulation); those figures mean nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "kernels/bench.h"
#include "kernels/cuda/cuda.h"

enum { REPS = 21, WARM = 3, CALLS = 8, USED = 8 };
static int n_experts = 256;
static struct cu_ctx *ctx;
static struct cu_stream *st;
static struct err e;
static bool small;
static const char *comma = "";

/* Exits with 1 after printing e if rc is an error. */
static void must(int rc) {
    if (rc) {
        fprintf(stderr, "bench/cuda: %s\n", e.msg);
        exit(1);
    }
}

/* Returns n bytes of device memory, kept until the program ends. */
static void *new_buffer(uint64_t n) {
    struct cu_buf *b; /* kept until the end of the program */
    must(cu_buf_new(&b, ctx, n, "benchmark", &e));
    return cu_buf_ptr(b);
}

/* A stack of random packed matrices with the same blocks. */
static struct cu_weight weight(enum qtype t, int64_t k, int64_t rows, int64_t mats) {
    struct cu_weight w = {.type = t, .k = k, .rows = rows, .mats = 1};
    struct rng r;
    rng_seed(&r, 1);
    w.row_bytes = qtype_row_bytes(t, k);
    w.mat_bytes = w.row_bytes * (uint64_t)rows;
    void *host = xmalloc((size_t)w.mat_bytes);
    kern_random_blocks(t, &r, host, k * rows / qtype_info(t)->block_elems);
    void *data = new_buffer(w.mat_bytes);
    must(cu_upload(st, data, host, w.mat_bytes, &e));
    w.data = data;
    const uint64_t one = cu_packed_bytes(&w);
    uint8_t *packed = new_buffer(one * (uint64_t)mats);
    for (int64_t m = 0; m < mats; m++) {
        w.packed = packed + one * (uint64_t)m;
        must(cu_pack_weight(st, &w, &e));
    }
    must(cu_sync(st, &e));
    free(host);
    w.packed = packed;
    w.mats = mats;
    return w;
}

/* Returns n normally distributed floats in device memory. */
static void *random_floats(int64_t n) {
    struct rng r;
    rng_seed(&r, 2);
    float *host = xmalloc((size_t)n * sizeof *host);
    for (int64_t i = 0; i < n; i++) host[i] = rng_normal(&r);
    void *p = new_buffer((uint64_t)n * 4);
    must(cu_upload(st, p, host, (uint64_t)n * 4, &e));
    must(cu_sync(st, &e));
    free(host);
    return p;
}

/* Returns n random expert numbers in device memory. */
static int32_t *random_experts(int64_t n) {
    struct rng r;
    rng_seed(&r, 3);
    int32_t *host = xmalloc((size_t)n * sizeof *host), *p = new_buffer((uint64_t)n * 4);
    for (int64_t i = 0; i < n; i++) host[i] = (int32_t)(rng_u64(&r) % (uint64_t)n_experts);
    must(cu_upload(st, p, host, (uint64_t)n * 4, &e));
    must(cu_sync(st, &e));
    free(host);
    return p;
}

/* Orders doubles, for qsort. */
static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median microseconds of a call; call(ctx, i) for i < n. */
static double time_us(void (*call)(const void *, int), const void *arg, int n) {
    struct cu_graph *g;
    call(arg, 0); /* grow scratch outside the capture */
    must(cu_sync(st, &e));
    must(cu_graph_begin(st, &e));
    for (int i = 0; i < n; i++) call(arg, i);
    must(cu_graph_end(st, &g, &e));
    double t[REPS];
    for (int i = -WARM; i < (small ? 1 : REPS); i++) {
        double ms;
        must(cu_mark(st, 0, &e));
        must(cu_graph_run(st, g, &e));
        must(cu_mark(st, 1, &e));
        must(cu_marked_ms(st, &ms, &e));
        if (i >= 0) t[i] = 1e3 * ms / n;
    }
    cu_graph_free(g);
    const int reps = small ? 1 : REPS;
    qsort(t, (size_t)reps, sizeof *t, by_value);
    return t[reps / 2];
}

struct job {
    struct cu_weight w, up;
    const float *x, *p;
    float *y;
    const int32_t *ids;
    int64_t n_tok, n_bytes;
};

/* Copies the job's bytes once, as the upper bound of bandwidth. */
static void call_copy(const void *arg, int i) {
    const struct job *j = arg;
    (void)i;
    must(cu_copy(st, j->y, j->x, (uint64_t)j->n_bytes, &e));
}
/* Runs the smallest kernel once: the cost of a call. */
static void call_nothing(const void *arg, int i) {
    const struct job *j = arg;
    (void)i;
    must(cu_decode_rows(st, QT_F32, j->x, 1, NULL, 1, 1, j->y, 1, &e));
}
/* Returns matrix i of w, in turn, so that repeated calls do not hit the cache. */
static struct cu_weight copy_of(const struct cu_weight *w, int i) {
    struct cu_weight one = *w;
    one.mats = 1;
    one.packed = (uint8_t *)w->packed + cu_packed_bytes(&one) * (uint64_t)(i % w->mats);
    return one;
}
static void call_dense(const void *arg, int i) {
    const struct job *j = arg;
    const struct cu_weight w = copy_of(&j->w, i);
    must(cu_matmul(st, &w, j->x, w.k, j->n_tok, j->y, w.rows, false, &e));
}
/* Runs one gated product of experts. */
static void call_glu(const void *arg, int i) {
    const struct job *j = arg;
    must(cu_glu(st, &j->w, &j->up, j->x, j->w.k, j->n_tok, j->ids + (j->n_tok == 1 ? i * USED : 0),
                USED, false, j->y, false, &e));
}
/* Runs one down product of experts. */
static void call_down(const void *arg, int i) {
    const struct job *j = arg;
    must(cu_moe_down(st, &j->w, j->x, j->n_tok, j->ids + (j->n_tok == 1 ? i * USED : 0), j->p, USED,
                     j->y, j->w.rows, false, &e));
}

/* Prints a line. bytes: weights that a call must read; products: its multiply-adds. */
static void line(const char *what, const struct job *j, double us, double bytes, double products) {
    const char *by = j->n_tok <= CU_FEW ? "dp4a" : cu_uses_wgmma(st) ? "wgmma" : "mma";
    printf("%s\n  {\"kernel\": \"%s\", \"by\": \"%s\", \"type\": \"%s\", \"k\": %" PRId64
           ", \"rows\": %" PRId64 ", \"tokens\": %" PRId64
           ", \"us\": %.3f, \"weight_gb_per_s\": %.1f, \"tflop_per_s\": %.2f}",
           comma, what, by, qtype_name(j->w.type), j->w.k, j->w.rows, j->n_tok, us,
           bytes / us * 1e-3, 2 * products / us * 1e-6);
    comma = ",";
}

/* Times the three products, each with its job's number of tokens. */
static void bench_products(const struct job *dense, const struct job *glu, const struct job *down) {
    const int64_t n = dense->n_tok, f = down->w.k, d = dense->w.k;
    const int64_t used =
        n * USED < n_experts ? n * USED : n_experts; /* largest number of matrices read */
    const struct cu_weight one = copy_of(&dense->w, 0);
    const double expert = (double)cu_packed_bytes(&glu->w) / n_experts;
    line("dense", dense, time_us(call_dense, dense, CALLS), (double)cu_packed_bytes(&one),
         (double)(n * d * dense->w.rows));
    line("experts gate, up", glu, time_us(call_glu, glu, CALLS), 2 * expert * (double)used,
         2 * (double)(n * USED * d * f));
    line("experts down", down, time_us(call_down, down, CALLS), expert * (double)used,
         (double)(n * USED * d * f));
}

/* Measures and prints the products of a type. */
static void bench_type(enum qtype t) {
    const int64_t d = small ? 256 : 2048, f = small ? 256 : 512, rows = small ? 16 : 12352;
    const int64_t most = small ? 9 : 2048, tokens[] = {1, most / 4, most};
    struct job dense = {.w = weight(t, d, rows, small ? 1 : 16), .x = random_floats(most * d)};
    struct job glu = {
        .w = weight(t, d, f, n_experts), .x = dense.x, .ids = random_experts(most * USED)};
    struct job down = {
        .w = weight(t, f, d, n_experts), .x = random_floats(most * USED * f), .ids = glu.ids};
    glu.up = weight(t, d, f, n_experts);
    down.p = down.x;
    dense.y = new_buffer((uint64_t)(most * rows) * 4);
    glu.y = new_buffer((uint64_t)(most * USED * f) * 4);
    down.y = new_buffer((uint64_t)(most * d) * 4);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        dense.n_tok = glu.n_tok = down.n_tok = tokens[i];
        must(cu_use_wgmma(st, false, &e));
        bench_products(&dense, &glu, &down);
        if (tokens[i] > CU_FEW) must(cu_use_wgmma(st, true, &e)); /* again with wgmma */
        if (cu_uses_wgmma(st)) bench_products(&dense, &glu, &down);
    }
}

/* ---- attention for few tokens ---- */

/* Runs one attention, on slot i in turn. */
static void call_attn(const void *arg, int i) {
    struct cu_attn a = *(const struct cu_attn *)arg;
    a.slot = i % CALLS;
    must((a.rows.longest <= cu_attn_few_rows(&a) ? cu_attn_few : cu_attn_many)(st, &a, &e));
}
/* Writes the page table of one sequence of n tokens in CALLS layers with contiguous pages. */
static void put_pages(void **table, uint8_t *cache, int64_t n, uint64_t page_bytes) {
    const int64_t n_pages = div_up(n, CU_PAGE);
    void **host = xcalloc((size_t)(n_pages * CALLS), sizeof *host);
    for (int64_t i = 0; i < n_pages * CALLS; i++)
        host[i] = cache + (uint64_t)(i % CALLS * n_pages + i / CALLS) * page_bytes;
    must(cu_upload(st, table, host, (uint64_t)(n_pages * CALLS) * sizeof *host, &e));
    must(cu_sync(st, &e));
    free(host);
}
/* Times attention with the caches of eight layers and a session's number of parts. */
static void bench_attn(int n_sm) {
    const int64_t deep[] = {4096, 32768, 131072, 262144}, heads = 16, kv_heads = 2, dim = 256;
    static const enum qtype types[] = {QT_F16, QT_Q8_0, QT_Q4_0};
    const int64_t most = small ? 40 : deep[3], parts = n_sm / kv_heads;
    const int64_t n_pages = div_up(most, CU_PAGE);
    const uint64_t n_bytes =
        (uint64_t)(CALLS * 2 * kv_heads * n_pages * CU_PAGE) * qtype_row_bytes(QT_F16, dim);
    uint8_t *cache = new_buffer(n_bytes);
    void **table = new_buffer((uint64_t)(n_pages * CALLS) * sizeof *table);
    struct cu_seg *seg = new_buffer(sizeof *seg);
    struct cu_attn a = {.n_heads = heads,
                        .n_kv_heads = kv_heads,
                        .head_dim = dim,
                        .scale = 0.0625f,
                        .n_slots = CALLS,
                        .fast = true,
                        .q = random_floats(CU_FEW * heads * dim),
                        .out = new_buffer((uint64_t)(CU_FEW * heads * dim) * 4),
                        .n_splits = parts};
    a.part = new_buffer((uint64_t)(CU_FEW * heads * parts * (dim + 2)) * 4);
    must(cu_fill(st, cache, 0x31, n_bytes, &e)); /* ordinary codes and scales */
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t i = 0; i < (small ? 1 : sizeof deep / sizeof deep[0]); i++)
            for (int64_t n_tok = 1; n_tok <= 4; n_tok += 3)
                for (int few = 0; few < 2; few++) {
                    const int64_t n = small ? most : deep[i];
                    const struct cu_seg host = {
                        .page = table, .pos = (int32_t)(n - n_tok), .n = (int32_t)n_tok};
                    const uint64_t row = 2 * (uint64_t)kv_heads * qtype_row_bytes(types[t], dim);
                    put_pages(table, cache, n, CU_PAGE * row);
                    must(cu_upload(st, seg, &host, sizeof host, &e));
                    a.k_type = a.v_type = types[t];
                    a.rows = (struct cu_rows_of){seg, 1, n_tok};
                    a.fast_few = few;
                    const double us = time_us(call_attn, &a, CALLS);
                    printf("%s\n  {\"kernel\": \"attention\", \"by\": \"%s\", \"type\": \"%s\", "
                           "\"keys\": %" PRId64 ", \"tokens\": %" PRId64
                           ", \"us\": %.3f, \"cache_gb_per_s\": %.1f}",
                           comma,
                           few          ? "tensor cores in parts"
                           : n_tok == 1 ? "CUDA cores in parts"
                                        : "tensor cores, 64 rows",
                           qtype_name(types[t]), n, n_tok, us, (double)n * (double)row / us * 1e-3);
                }
}

int main(int argc, char **argv) {
    small = argc > 1 && strcmp(argv[1], "small") == 0;
    if (small) n_experts = 8;
    if (!cu_built() || cu_count() == 0) {
        fprintf(stderr, "SKIP: %s\n", cu_built() ? "no CUDA device" : "built without CUDA");
        return 77;
    }
    must(cu_open(&ctx, 0, &e));
    must(cu_stream_new(&st, ctx, &e));
    struct cu_info i;
    must(cu_get_info(ctx, &i, &e));
    struct job j = {.n_bytes = small ? 4096 : INT64_C(1) << 30};
    j.x = new_buffer((uint64_t)j.n_bytes);
    j.y = new_buffer((uint64_t)j.n_bytes);
    printf("{\"command\": \"make bench-cuda\", \"device\": \"%s\", \"compute_capability\": %d, "
           "\"multiprocessors\": "
           "%d, \"emulated\": %s,\n \"copy_gb_per_s\": %.1f, \"us_per_empty_launch\": %.3f, "
           "\"kernels\": [",
           i.name, i.cc, i.n_sm, i.emulated ? "true" : "false",
           2e-3 * (double)j.n_bytes / time_us(call_copy, &j, CALLS),
           time_us(call_nothing, &j, 243));
    static const enum qtype types[] = {QT_Q4_K, QT_Q5_K,   QT_Q6_K, QT_Q3_K,
                                       QT_Q2_K, QT_IQ4_XS, QT_Q8_0};
    for (size_t t = 0; t < (small ? 1 : sizeof types / sizeof types[0]); t++) bench_type(types[t]);
    bench_attn(i.n_sm);
    printf("]}\n");
    cu_stream_free(st);
    return 0;
}
