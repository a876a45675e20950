// SPDX-License-Identifier: MIT
/* tests/fuzz/folder.h - files for fuzz targets that need real file names: one folder per process,
 * removed when it ends, and inputs that concatenate several files, separated by a zero byte. */
#ifndef HONE_TESTS_FUZZ_FOLDER_H
#define HONE_TESTS_FUZZ_FOLDER_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "containers/gguf.h"
#include "tests/fuzz/fuzz.h"

static char fuzz_dir[64];
static const char *const *fuzz_names; /* files to remove at the end, terminated by NULL */

static inline void fuzz_dir_end(void) {
    char path[200];
    for (int i = 0; fuzz_names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", fuzz_dir, fuzz_names[i]);
        unlink(path);
    }
    rmdir(fuzz_dir);
}
/* Creates the folder on the first call. `names` lists all files that it will ever contain. */
static inline void fuzz_dir_begin(const char *const *names) {
    if (fuzz_dir[0]) return;
    snprintf(fuzz_dir, sizeof fuzz_dir, "%s/fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(fuzz_dir)) abort();
    fuzz_names = names;
    atexit(fuzz_dir_end);
}
static inline void fuzz_dir_put(const char *name, const uint8_t *data, size_t n) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", fuzz_dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n) abort();
    close(fd);
}
/* Writes to each file the bytes up to the next zero byte, and to the last one all remaining
 * bytes. */
static inline void fuzz_dir_fill(const uint8_t *data, size_t size) {
    for (int i = 0; fuzz_names[i]; i++) {
        const uint8_t *nul = size && fuzz_names[i + 1] ? memchr(data, 0, size) : NULL;
        size_t n = nul ? (size_t)(nul - data) : size;
        fuzz_dir_put(fuzz_names[i], data, n);
        data += n, size -= n;
        if (nul) data++, size--;
    }
}

/* Returns the path of a small model of one block, for plans and sensitivities. */
static inline const char *fuzz_model(char path[200]) {
    static const struct {
        const char *name;
        int64_t ne[2];
    } t[] = {{"token_embd.weight", {256, 512}},        {"output_norm.weight", {256, 0}},
             {"blk.0.attn_norm.weight", {256, 0}},     {"blk.0.attn_q.weight", {256, 256}},
             {"blk.0.attn_k.weight", {256, 128}},      {"blk.0.attn_v.weight", {256, 128}},
             {"blk.0.attn_output.weight", {256, 256}}, {"blk.0.ffn_gate.weight", {256, 512}},
             {"blk.0.ffn_up.weight", {256, 512}},      {"blk.0.ffn_down.weight", {512, 256}}};
    static const float zeros[512];
    struct err e;
    snprintf(path, 200, "%s/model.gguf", fuzz_dir);
    if (access(path, R_OK) == 0) return path;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "qwen3");
    gguf_w_u32(w, "qwen3.block_count", 1);
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        if (gguf_w_tensor(w, t[i].name, QT_F32, t[i].ne[1] ? 2 : 1, t[i].ne, &e) < 0) abort();
    if (gguf_w_begin(w, path, false, &e)) abort();
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        for (int64_t r = 0; r < (t[i].ne[1] ? t[i].ne[1] : 1); r++)
            if (gguf_w_data(w, zeros, (uint64_t)t[i].ne[0] * 4, &e)) abort();
    if (gguf_w_commit(w, &e)) abort();
    gguf_w_free(w);
    return path;
}

#endif
