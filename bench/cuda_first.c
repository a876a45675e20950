// SPDX-License-Identifier: MIT
/* bench/cuda_first.c - measures, within seconds on a GPU, whether the estimates of
 * docs/notebook/cuda-counts.md hold.
 *
 * Times, for a single token, a projection, the norm after it, the delta rule, the choice of experts
 * and the best tokens; for a prompt, the convolution, the router and the delta rule; then exact
 * products (f32 activations), the main work of evaluations. Prints one JSON document. Shapes are
 * those of Qwen3.5-35B-A3B. `tmacs`: 10^12 multiply-adds per second. `estimate_us`: the estimate of
 * bench/sass_latency.py for an H200, if it has one. Without a device, the exit status is 77. The
 * argument `small` tests the program itself on small sizes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "kernels/bench.h"
#include "kernels/cuda/cuda.h"

enum {
    CALLS = 20,
    REPS = 11,
    EXACT_REPS = 3,
    EMBD = 2048,
    HEADS = 32,
    KEY_HEADS = 16,
    DIM = 128,
    EXPERTS = 256
};
static struct cu_ctx *ctx;
static struct cu_stream *st;
static struct err e;
static int64_t n_tok = 2048, vocab = 248320;
static bool small;
static const char *comma = "";

/* Exits with 1 after printing e if rc is an error. */
static void must(int rc) {
    if (!rc) return;
    fprintf(stderr, "bench/cuda_first: %s\n", e.msg);
    exit(1);
}
/* Returns n bytes of device memory filled with `byte`, kept until the program ends. */
static void *new_buffer(uint64_t n, int byte) {
    struct cu_buf *b; /* kept until the end of the program */
    must(cu_buf_new(&b, ctx, n, "benchmark", &e));
    must(cu_fill(st, cu_buf_ptr(b), byte, n, &e));
    return cu_buf_ptr(b);
}
/* Returns n normally distributed floats in device memory. */
static float *random_floats(int64_t n) {
    struct rng r;
    rng_seed(&r, 2);
    float *host = xmalloc((size_t)n * sizeof *host), *p = new_buffer((uint64_t)n * 4, 0);
    for (int64_t i = 0; i < n; i++) host[i] = rng_normal(&r);
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
/* Returns the median microseconds of a call: `reps` captured runs of n calls in a row. */
static double time_us(void (*call)(void *), void *arg, int n, int reps) {
    struct cu_graph *g;
    double t[REPS];
    reps = small ? 1 : reps;
    n = small ? 1 : n;
    call(arg); /* grow scratch outside the capture */
    must(cu_sync(st, &e));
    must(cu_graph_begin(st, &e));
    for (int i = 0; i < n; i++) call(arg);
    must(cu_graph_end(st, &g, &e));
    for (int i = 0; i < reps; i++) {
        must(cu_mark(st, 0, &e));
        must(cu_graph_run(st, g, &e));
        must(cu_mark(st, 1, &e));
        must(cu_marked_ms(st, &t[i], &e));
    }
    cu_graph_free(g);
    qsort(t, (size_t)reps, sizeof *t, by_value);
    return 1e3 * t[reps / 2] / n;
}
/* Measures and prints the microseconds of a call; estimate 0: none is printed. */
static void report_time(const char *what, double estimate, void (*call)(void *), void *arg, int n) {
    const double us = time_us(call, arg, n, REPS);
    printf("%s\n  {\"what\": \"%s\", \"us\": %.3f", comma, what, us);
    if (estimate > 0) printf(", \"estimate_us\": %.1f", estimate);
    printf("}");
    comma = ",";
}

static void call_products(void *a) {
    must(cu_products(st, a, &e));
}
static void call_norm(void *a) {
    must(cu_norm_rows(st, a, 1, &e));
}
static void call_delta(void *a) {
    must(cu_delta_token(st, a, &e));
}
static void call_route(void *a) {
    must(cu_route(st, a, 1, &e));
}
static void call_conv(void *a) {
    must(cu_conv_silu(st, a, 2 * KEY_HEADS * DIM + HEADS * DIM, &e));
}
static void call_chunks(void *a) {
    must(cu_delta_rows(st, a, &e));
}
struct best {
    float *x;
    void *work;
    struct cu_best *out;
};
static void call_best(void *a) {
    struct best *b = a;
    must(cu_best_logits(st, b->x, vocab, 1, b->work, b->out, &e));
}
struct router {
    struct cu_weight w;
    float *x, *y;
};
static void call_router(void *a) {
    struct router *r = a;
    must(cu_matmul(st, &r->w, r->x, EMBD, n_tok, r->y, EXPERTS, true, &e));
}

/* Measures the parts of generating one token. */
static void bench_token(void) {
    enum { K = HEADS * DIM };
    struct rng r;
    struct cu_weight w = {.type = QT_Q4_K, .k = K, .rows = EMBD, .mats = 1};
    rng_seed(&r, 1);
    w.row_bytes = qtype_row_bytes(w.type, K);
    w.mat_bytes = w.row_bytes * EMBD;
    void *host = xmalloc((size_t)w.mat_bytes), *data = new_buffer(w.mat_bytes, 0);
    kern_random_blocks(w.type, &r, host, EMBD * K / 256);
    must(cu_upload(st, data, host, w.mat_bytes, &e));
    must(cu_sync(st, &e));
    free(host);
    w.data = data;
    w.packed = new_buffer(cu_packed_bytes(&w), 0);
    must(cu_pack_weight(st, &w, &e));
    float *out = random_floats(EMBD);
    struct cu_norm n = {.a = out,
                        .res = random_floats(EMBD),
                        .sum = random_floats(EMBD),
                        .w = random_floats(EMBD),
                        .y = random_floats(EMBD),
                        .yq = new_buffer(CU_ACT_BYTES(EMBD), 0),
                        .n = EMBD,
                        .eps = 1e-6f};
    struct cu_products p = {.n = 1};
    p.part[0] = (struct cu_term){.w = &w,
                                 .x = new_buffer(CU_ACT_BYTES(K), 0),
                                 .n_in = 1,
                                 .x_div = 1,
                                 .n_sum = 1,
                                 .y = out,
                                 .ldy = EMBD};
    report_time("projection 4096 to 2048, Q4_K", 0, call_products, &p, CALLS);
    report_time("norm of 2048 values", 3.9, call_norm, &n, CALLS);
    struct cu_choice c = {.logits = random_floats(EXPERTS),
                          .n_experts = EXPERTS,
                          .n_used = 8,
                          .expert = new_buffer(64, 0),
                          .weight = random_floats(8)};
    report_time("choice of 8 of 256 experts", 5.0, call_route, &c, CALLS);
    struct best b = {random_floats(vocab), new_buffer(CU_BEST_WORK, 0),
                     new_buffer(sizeof *b.out, 0)};
    report_time("best tokens", 0, call_best, &b, CALLS);
}

/* Times the recurrent layer: one token, then a pass. */
static void of_a_delta_net(void) {
    const int64_t ch = 2 * KEY_HEADS * DIM + HEADS * DIM, no = HEADS * DIM;
    const int64_t state = HEADS * DIM * DIM;
    struct cu_seg seg[2] = {{.state = random_floats(state + 4 * ch), .pos = 77, .n = 1}};
    seg[1] = seg[0];
    seg[1].n = (int32_t)n_tok;
    struct cu_seg *at = new_buffer(sizeof seg, 0);
    must(cu_upload(st, at, seg, sizeof seg, &e));
    must(cu_sync(st, &e));
    struct cu_delta a = {.rows = {at, 1, 1},
                         .n_v_heads = HEADS,
                         .n_k_heads = KEY_HEADS,
                         .k_dim = DIM,
                         .v_dim = DIM,
                         .eps = 1e-6f,
                         .scale = 0.0884f,
                         .u = random_floats(n_tok * ch),
                         .beta = random_floats(n_tok * HEADS),
                         .alpha = random_floats(n_tok * HEADS),
                         .a = new_buffer(HEADS * 4, 0),
                         .dt = random_floats(HEADS),
                         .out = random_floats(n_tok * no),
                         .conv = random_floats(ch * 4),
                         .ring_at = state,
                         .taps = 4,
                         .z = random_floats(no),
                         .norm = random_floats(DIM),
                         .norm_eps = 1e-6f,
                         .arrived = new_buffer(HEADS * 4, 0),
                         .yq = new_buffer(CU_ACT_BYTES(no), 0),
                         .chunked = true};
    report_time("delta rule of a token", 7.6, call_delta, &a, CALLS);
    a.rows = (struct cu_rows_of){at + 1, 1, n_tok};
    report_time("convolution of a pass", 10.6, call_conv, &a, 2);
    report_time("delta rule of a pass", 7.2 * (double)n_tok / CU_CHUNK, call_chunks, &a, 2);
}

/* Exact products with one matrix, or with 8 of `mats` per token. */
struct exact {
    struct cu_weight w;
    const int32_t *ids;
    const float *x, *p;
    float *y;
    int64_t n_tok;
};
enum { USED = 8 };
static void call_dense(void *a) {
    const struct exact *x = a;
    must(cu_matmul(st, &x->w, x->x, x->w.k, x->n_tok, x->y, x->w.rows, true, &e));
}
static void call_up(void *a) {
    const struct exact *x = a;
    must(cu_moe_rows(st, &x->w, x->x, x->w.k, x->n_tok, x->ids, USED, x->y, true, &e));
}
static void call_down(void *a) {
    const struct exact *x = a;
    must(cu_moe_down(st, &x->w, x->x, x->n_tok, x->ids, x->p, USED, x->y, x->w.rows, true, &e));
}
/* Measures and prints an exact product of `tokens` tokens, `used` experts each. */
static void report_exact(const char *what, struct exact *x, void (*call)(void *), int64_t tokens,
                         int64_t used) {
    x->n_tok = tokens;
    const double us = time_us(call, x, 1, EXACT_REPS);
    printf("%s\n  {\"what\": \"exact %s, %s %lld to %lld\", \"tokens\": %lld, \"us\": %.1f, "
           "\"tmacs\": %.2f}",
           comma, what, qtype_name(x->w.type), (long long)x->w.k, (long long)x->w.rows,
           (long long)tokens, us,
           1e-6 * (double)x->w.k * (double)x->w.rows * (double)(tokens * used) / us);
    comma = ",";
}
/* Fills `data` with a matrix of a few random rows that repeat. */
static struct cu_weight shape(enum qtype t, int64_t k, int64_t rows, int64_t mats, uint8_t *data) {
    enum { SOME = 64 };
    struct cu_weight w = {.type = t, .k = k, .rows = rows, .mats = mats, .data = data};
    w.row_bytes = qtype_row_bytes(t, k);
    w.mat_bytes = w.row_bytes * (uint64_t)rows;
    const uint64_t all = w.mat_bytes * (uint64_t)mats, some = SOME * w.row_bytes;
    struct rng r;
    rng_seed(&r, 1);
    void *host = xmalloc((size_t)some);
    kern_random_blocks(t, &r, host, SOME * k / qtype_info(t)->block_elems);
    must(cu_upload(st, data, host, some, &e));
    must(cu_sync(st, &e));
    free(host);
    for (uint64_t at = some; at < all; at *= 2)
        must(cu_copy(st, data + at, data, at < all - at ? at : all - at, &e));
    return w;
}
/* Measures the exact products of several types. */
static void exact_products(void) {
    static const enum qtype types[] = {QT_Q4_K, QT_Q6_K, QT_Q3_K, QT_IQ3_S, QT_BF16};
    const int64_t wide = small ? 192 : 12352, mats = small ? 8 : EXPERTS, f = small ? 256 : 512;
    const int64_t k = small ? 256 : EMBD, many = small ? 9 : 2048, some = small ? 5 : 512;
    const int64_t heads = small ? 4096 : 248320, head_rows = small ? 8 : 64;
    const int64_t pairs = some * USED, most = max_i64(many * wide, head_rows * heads);
    struct exact x = {.x = random_floats(max_i64(many * k, pairs * f)), .p = random_floats(pairs)};
    struct rng r;
    rng_seed(&r, 3);
    int32_t *host = xmalloc((size_t)pairs * sizeof *host);
    for (int64_t i = 0; i < pairs; i++) host[i] = (int32_t)(rng_u64(&r) % (uint64_t)mats);
    int32_t *ids = new_buffer((uint64_t)pairs * sizeof *ids, 0);
    must(cu_upload(st, ids, host, (uint64_t)pairs * sizeof *ids, &e));
    must(cu_sync(st, &e));
    free(host);
    x.ids = ids;
    x.y = new_buffer((uint64_t)most * 4, 0);
    uint8_t *data = new_buffer((uint64_t)(mats * f * k) * 2, 0);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        x.w = shape(types[i], k, wide, 1, data);
        report_exact("dense", &x, call_dense, some, 1);
        report_exact("dense", &x, call_dense, many, 1);
        report_exact("dense", &x, call_dense, 1, 1);
        report_exact("dense", &x, call_dense, 3, 1);
        x.w = shape(types[i], k, f, mats, data);
        report_exact("experts", &x, call_up, some, USED);
        x.w = shape(types[i], f, k, mats, data);
        report_exact("experts, added up", &x, call_down, some, USED);
    }
    x.w = shape(QT_Q6_K, k, heads, 1, data);
    report_exact("head", &x, call_dense, head_rows, 1);
}

int main(int argc, char **argv) {
    struct cu_info i;
    small = argc > 1 && strcmp(argv[1], "small") == 0;
    if (small) {
        n_tok = 128;
        vocab = 4096;
    }
    if (!cu_built() || cu_count() == 0) {
        fprintf(stderr, "SKIP: %s\n", cu_built() ? "no CUDA device" : "built without CUDA");
        return 77;
    }
    must(cu_open(&ctx, 0, &e));
    must(cu_stream_new(&st, ctx, &e));
    must(cu_get_info(ctx, &i, &e));
    printf("{\"command\": \"make bench-cuda-first\", \"device\": \"%s\", \"emulated\": %s, "
           "\"times\": [",
           i.name, i.emulated ? "true" : "false");
    bench_token();
    of_a_delta_net();
    struct router r = {.w = {.type = QT_F32, .k = EMBD, .rows = EXPERTS, .mats = 1}};
    r.w.row_bytes = EMBD * 4;
    r.w.mat_bytes = r.w.row_bytes * EXPERTS;
    r.w.data = random_floats(EMBD * EXPERTS);
    r.x = random_floats(n_tok * EMBD);
    r.y = random_floats(n_tok * EXPERTS);
    report_time("router of a pass, exact", 0, call_router, &r, 2);
    exact_products();
    printf("]}\n");
    cu_stream_free(st);
    return 0;
}
