// SPDX-License-Identifier: MIT
/* tests/unit/micro.h - the micro checkpoints of tests/golden/archs (tests/oracle/archs.py), whose
 * weights are made, not stored, and their recorded logits. */
#ifndef HONE_TESTS_MICRO_H
#define HONE_TESTS_MICRO_H

#include "base/bytes.h"
#include "base/fp.h"
#include "base/rng.h"
#include "base/io.h"
#include "tests/unit/golden.h"
#include "tests/unit/st_build.h"

/* Returns element i of a mask that marks every -spread-th element from `mean` on. */
static inline uint8_t marked(int64_t i, double mean, double spread) {
    return (double)i >= mean && (i - (int64_t)mean) % (int64_t)-spread == 0;
}

/* Creates the weights of tensors.txt like archs.py. */
static inline void micro_weights(const char *dir, const char *path) {
    char *file = xasprintf("%s/tensors.txt", dir), *text = NULL, *line, *next;
    size_t n = 0;
    struct err e = {0};
    struct st_build b = {0};
    CHECK_OK(io_read_file(&text, &n, file, 1 << 20, &e));
    for (line = text; line && *line; line = next) {
        char name[128], dtype[8], dims[64];
        double mean, spread;
        next = strchr(line, '\n');
        next = next ? next + 1 : line + strlen(line);
        if (sscanf(line, "%127s %7s %63s %lf %lf", name, dtype, dims, &mean, &spread) != 5) {
            CHECK_FAIL("%s: not a valid line", file);
            break;
        }
        int64_t shape[4], total = 1;
        int n_dims = 0;
        for (char *p = *dims == '-' ? dims + 1 : dims; n_dims < 4 && *p; p += *p == 'x') {
            shape[n_dims] = strtoll(p, &p, 10);
            total *= shape[n_dims++];
        }
        struct rng rng = {0xcbf29ce484222325u};
        for (const char *c = name; *c; c++) rng.s = (rng.s ^ (uint8_t)*c) * 0x100000001b3u;
        const bool wide = strcmp(dtype, "I64") == 0, bytes = !wide && strcmp(dtype, "BF16") != 0;
        const size_t size = wide ? 8 : bytes ? 1 : 2;
        uint8_t *v = xcalloc((size_t)total, size);
        for (int64_t i = 0; i < total; i++) {
            const uint64_t bits = rng_u64(&rng) >> 40;
            const double u = (double)bits * 0x1p-23 - 1;
            const double step = spread < 0 ? (double)i * -spread
                                           : (double)(bits % (uint64_t)(spread < 1 ? 1 : spread));
            const double whole = mean + step;
            if (wide)
                store_u64(v + 8 * i, (uint64_t)(int64_t)whole);
            else if (bytes)
                v[i] = strcmp(dtype, "BOOL") ? (uint8_t)whole : marked(i, mean, spread);
            else
                store_u16(v + 2 * i, fp_f32_to_bf16((float)(mean + spread * u)));
        }
        st_add(&b, name, dtype, n_dims, shape, v, (size_t)total * size);
        free(v);
    }
    st_finish(&b, path);
    free(text);
    free(file);
}

/* Creates the folder of a micro checkpoint with edits to config.json. */
static inline const char *micro_folder(const char *dir, const char *const *edit) {
    const char *folder = golden_edited(dir, "tests/golden/models/qwen3", edit);
    char *path = xasprintf("%s/model.safetensors", folder);
    unlink(path);
    micro_weights(dir, path);
    free(path);
    return folder;
}

/* Returns the largest difference from the recorded logits of the first n positions (3, 7, ...;
 * entries 0, 4, ...).
 */
static inline double micro_diff(const struct golden *g, const float *l, int64_t n, int64_t v) {
    double diff = 0;
    for (int64_t p = 0; 4 * p + 3 < n; p++)
        for (int64_t i = 0; i < v / 4; i++) {
            const double d =
                fabs((double)l[(4 * p + 3) * v + 4 * i] - (double)g->logits[p * (v / 4) + i]);
            if (!(d <= diff)) diff = d;
        }
    return diff;
}

#endif
