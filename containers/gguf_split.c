// SPDX-License-Identifier: MIT
/* containers/gguf_split.c - file names of split sets, PREFIX-00001-of-00003.gguf (counted from 1),
 * and the stamp that identifies a set without reading all of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/os.h"

enum { TAIL = 20 }; /* strlen("-00001-of-00003.gguf") */

/* Returns the number of five digits at s; -1: not digits. */
static int five_digits(const char *s) {
    int v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return -1;
        v = 10 * v + (s[i] - '0');
    }
    return v;
}

bool gguf_split_parse(const char *path, int *i, int *n, size_t *prefix_len) {
    size_t len = strlen(path);
    if (len <= TAIL) return false;
    const char *t = path + len - TAIL;
    if (t[0] != '-' || strncmp(t + 6, "-of-", 4) != 0 || strcmp(t + 15, ".gguf") != 0) return false;
    if (os_is_slash(t[-1])) return false;
    int a = five_digits(t + 1), b = five_digits(t + 10);
    if (a < 1 || b < 1 || a > b || b > 65535) return false;
    *i = a - 1;
    *n = b;
    *prefix_len = len - TAIL;
    return true;
}

char *gguf_split_name(const char *path, int i, int n) {
    int old_i, old_n;
    size_t len = strlen(path);
    if (!gguf_split_parse(path, &old_i, &old_n, &len) && len > 5 &&
        strcmp(path + len - 5, ".gguf") == 0)
        len -= 5;
    return xasprintf("%.*s-%05d-of-%05d.gguf", (int)len, path, i + 1, n);
}

void gguf_stamp(const struct gguf *g, struct buf *out) {
    for (int i = 0; i < gguf_n_shards(g); i++) {
        struct os_stat st = {0};
        char hex[33];
        uint64_t n = 0;
        const char *path = gguf_shard_path(g, i);
        const uint8_t *head = gguf_shard_header(g, i, &n);
        hash_xxh128_hex(hex, head, (size_t)n);
        /* Failure leaves zeros; the file is mapped, so it did exist. */
        (void)os_stat(path, &st);
        buf_fmt(out, "%s;%" PRIu64 ";%lld.%09ld;%s;", io_base(path), gguf_shard_bytes(g, i),
                (long long)st.mtime_s, st.mtime_ns, hex);
    }
}

/* Adds samples of a tensor's data. */
static void add_samples(struct xxh128 *x, const struct gguf_tensor *t) {
    enum { SAMPLE = 4096, SAMPLES = 3 }; /* bytes at the start, in the middle, at the end */
    const uint64_t n = t->n_bytes < SAMPLE ? t->n_bytes : SAMPLE;
    for (uint64_t k = 0; k < SAMPLES; k++)
        xxh128_add(x, t->data + (t->n_bytes - n) / (SAMPLES - 1) * k, (size_t)n);
}

void gguf_weights_hash(const struct gguf *g, char hex[33]) {
    struct xxh128 *x = xxh128_new();
    struct buf b = {0};
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        buf_reset(&b);
        buf_fmt(&b, "%s;%s;", t->name, qtype_name(t->type));
        for (int d = 0; d < t->n_dims; d++) buf_fmt(&b, "%" PRId64 ";", t->ne[d]);
        xxh128_add(x, b.data, b.len);
        add_samples(x, t);
    }
    buf_release(&b);
    xxh128_hex(x, hex);
    xxh128_free(x);
}

void gguf_sample_hash(const struct gguf *g, char hex[33]) {
    struct xxh128 *x = xxh128_new();
    for (int i = 0; i < gguf_n_shards(g); i++) {
        uint64_t n = 0;
        const uint8_t *head = gguf_shard_header(g, i, &n);
        xxh128_add(x, head, (size_t)n);
    }
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) add_samples(x, gguf_tensor_at(g, i));
    xxh128_hex(x, hex);
    xxh128_free(x);
}
