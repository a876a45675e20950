// SPDX-License-Identifier: MIT
/* bench/tower.c - time and memory of a vision tower of Qwen3-VL's published shape (27 blocks of
 * 1152, 0.4 B weights) with random BF16 weights.
 *
 *   tower FILE WIDTH HEIGHT [THREADS]    writes the projector file FILE if it does not exist */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/io.h"
#include "runtime/vision/tower.h"

enum { C = 1152, FF = 4304, BLOCKS = 27, PATCH = 16, POS = 48 * 48, MERGED = 4 * C, TEXT = 2048 };

/* Returns the clock's time in seconds. */
static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct part {
    char name[64];
    int64_t in, out, more; /* [out][more][in], [out][in] or [in] */
};
static struct part part[16 * BLOCKS + 16];
static int n_parts;

/* Adds a tensor to be written; block -1: outside the blocks; out 0: a vector. */
static void add(const char *name, int block, const char *end, int64_t in, int64_t out) {
    struct part *p = &part[n_parts++];
    if (block < 0)
        snprintf(p->name, sizeof p->name, "%s%s", name, end);
    else
        snprintf(p->name, sizeof p->name, "v.blk.%d.%s%s", block, name, end);
    p->in = in;
    p->out = out;
}
/* Adds the weight and the bias of a linear layer. */
static void linear(const char *name, int block, int64_t in, int64_t out) {
    add(name, block, ".weight", in, out);
    add(name, block, ".bias", out, 0);
}

/* Writes a tower with random weights. */
static int write_file(const char *path, struct err *e) {
    struct gguf_w *w = gguf_w_new();
    const float half[3] = {.5f, .5f, .5f};
    add("v.patch_embd", -1, ".weight", 3 * PATCH * PATCH, C);
    add("v.position_embd", -1, ".weight", C, POS);
    add("v.post_ln", -1, ".weight", C, 0);
    linear("mm.0", -1, MERGED, MERGED);
    linear("mm.2", -1, MERGED, TEXT);
    for (int b = 0; b < BLOCKS; b++) {
        add("ln1", b, ".weight", C, 0);
        add("ln2", b, ".weight", C, 0);
        linear("attn_qkv", b, C, 3 * C);
        linear("attn_out", b, C, C);
        linear("ffn_up", b, C, FF);
        linear("ffn_down", b, FF, C);
    }
    gguf_w_str(w, "general.architecture", "clip");
    gguf_w_str(w, "clip.projector_type", "qwen3vl_merger");
    gguf_w_u32(w, "clip.vision.patch_size", PATCH);
    gguf_w_u32(w, "clip.vision.image_size", 768);
    gguf_w_u32(w, "clip.vision.block_count", BLOCKS);
    gguf_w_u32(w, "clip.vision.attention.head_count", 16);
    gguf_w_arr(w, "clip.vision.image_mean", GV_F32, half, 3);
    gguf_w_arr(w, "clip.vision.image_std", GV_F32, half, 3);
    for (int i = 0; i < n_parts; i++) {
        const int64_t ne[4] = {part[i].in, part[i].out ? part[i].out : 1, 1, 1};
        TRY(gguf_w_tensor(w, part[i].name, part[i].out ? QT_BF16 : QT_F32, part[i].out ? 2 : 1, ne,
                          e));
    }
    TRY(gguf_w_begin(w, path, true, e));
    uint64_t state = 1;
    for (int i = 0; i < n_parts; i++)
        for (int64_t k = 0; k < part[i].in * (part[i].out ? part[i].out : 1); k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const float x = ((float)(state >> 40) / 8388608 - 1) * .03f;
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            const uint16_t top = (uint16_t)(bits >> 16);
            TRY(gguf_w_data(w, part[i].out ? (const void *)&top : &x, part[i].out ? 2 : 4, e));
        }
    TRY(gguf_w_commit(w, e));
    gguf_w_free(w);
    return 0;
}

/* Opens the tower, computes an image and prints time and memory. */
static int run(char **arg, int n_threads, struct err *e) {
    struct pool *pool = NULL;
    struct vision_tower *v = NULL;
    struct vision_rows rows;
    struct rusage use;
    const int w = atoi(arg[2]), h = atoi(arg[3]);
    if (!io_exists(arg[1])) TRY(write_file(arg[1], e));
    TRY(pool_new(&pool, n_threads, e));
    TRY(vision_open(&v, arg[1], pool, kern_isa_best(), e));
    float *image = calloc((size_t)(3 * w * h), sizeof *image);
    for (int i = 0; i < 3 * w * h; i++) image[i] = (float)(i % 509) / 254 - 1;
    const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    TRY(vision_encode(v, image, w, h, &rows, e));
    const double n = (double)w * h / (PATCH * PATCH);
    const double flop = n * 2 * BLOCKS * (4.0 * C * C + 2.0 * C * FF) + 4 * n * n * C * BLOCKS;
    const double spent = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    getrusage(RUSAGE_SELF, &use);
    printf("%d x %d: %lld tokens, %.2f s, %.2f s of CPU, %.0f GFLOP/s per thread, peak %ld MiB\n",
           w, h, (long long)rows.n, seconds(CLOCK_MONOTONIC) - wall, spent, flop / spent / 1e9,
           use.ru_maxrss / 1024);
    vision_rows_release(&rows);
    vision_close(v);
    pool_free(pool);
    free(image);
    return 0;
}

int main(int argc, char **argv) {
    struct err e;
    if (argc < 4) {
        fprintf(stderr, "usage: %s FILE WIDTH HEIGHT [THREADS]\n", argv[0]);
        return 2;
    }
    if (run(argv, argc > 4 ? atoi(argv[4]) : 0, &e) == 0) return 0;
    fprintf(stderr, "%s\n", e.msg);
    return 1;
}
