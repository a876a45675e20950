// SPDX-License-Identifier: MIT
/* bench/gram.c - times the masks of constrained decoding: gram VOCAB CASES, run by bench/gram.py.
 *
 * VOCAB: per token 4 bytes of length, little-endian, then the bytes; the last token is empty and
 * ends a text. CASES: lines {"schema": ..., "ids": [...]}. Prints a line per case: microseconds to
 * compile, for the first mask, and for the mask before each token and at the end; the number of
 * accepted tokens, whether the text may end; bytes of the grammar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/io.h"
#include "base/mem.h"
#include "grammar/gram.h"

/* Returns a monotonic time in microseconds. */
static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Reads the vocabulary: tokens, each after its length (u32); the last one ends answers. */
static int read_vocab(struct gram_vocab **v, const char *path, struct err *e) {
    char *data;
    size_t len, n = 0, cap = 1 << 20;
    TRY(io_read_file(&data, &len, path, 1 << 30, e));
    const char **text = xcalloc(cap, sizeof *text);
    size_t *size = xcalloc(cap, sizeof *size);
    for (size_t i = 0; i + 4 <= len && n < cap; i += 4 + size[n++]) {
        size[n] = load_u32(data + i);
        text[n] = data + i + 4;
    }
    const int rc = gram_vocab_of(v, text, size, (int64_t)n, (int32_t)n - 1, e);
    free(text);
    free(size);
    free(data);
    return rc;
}

/* Compiles a case's schema; appends, as JSON, the times of compiling and of computing each token's
 * mask. */
static int run_case(const struct gram_vocab *v, const struct json *c, uint32_t *bits,
                    struct buf *out) {
    struct grammar *g = NULL;
    struct err e;
    struct jw w;
    int64_t n = 0, id = 0;
    const double t0 = now_us();
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    if (grammar_of_schema(&g, v, json_get(c, "schema"), NULL, &e)) {
        jw_str(&w, "error", e.msg);
        jw_end(&w);
        return 0;
    }
    jw_num(&w, "compile", now_us() - t0);
    struct gram_state *s = gram_begin(g);
    const struct json *x = json_first(json_get(c, "ids"));
    jw_arr(&w, "mask");
    bool ok = true;
    for (;; x = json_next(x)) {
        const double t = now_us();
        if (gram_mask(s, bits, &e)) break;
        jw_num(&w, NULL, now_us() - t);
        if (!x) break;
        ok = ok && json_i64(x, &id) && (bits[id / 32] >> id % 32 & 1) != 0 &&
             gram_accept(s, (int32_t)id, &e) == 0;
        if (!ok) break;
        n++;
    }
    jw_end(&w);
    jw_i64(&w, "accepted", n);
    jw_bool(&w, "ends", ok && gram_may_end(s));
    jw_u64(&w, "bytes", grammar_bytes(g));
    jw_end(&w);
    gram_end(s);
    grammar_free(g);
    return 0;
}

int main(int argc, char **argv) {
    struct gram_vocab *v = NULL;
    struct err e;
    char *text = NULL;
    size_t len = 0;
    if (argc != 3) return 2;
    const double t0 = now_us();
    int rc = read_vocab(&v, argv[1], &e);
    const double us = now_us() - t0;
    if (!rc) rc = io_read_file(&text, &len, argv[2], 1 << 30, &e);
    if (rc) {
        fprintf(stderr, "%s\n", e.msg);
        return rc;
    }
    printf("{\"vocab_us\": %.0f}\n", us);
    uint32_t *bits = xcalloc((size_t)gram_vocab_size(v) / 32 + 1, sizeof *bits);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        struct json *c = NULL;
        struct buf out = {0};
        if (json_parse(&c, line, strlen(line), "case", &e) == 0 && run_case(v, c, bits, &out) == 0)
            puts(out.data);
        json_free(c);
        buf_release(&out);
    }
    free(bits);
    free(text);
    gram_vocab_free(v);
    return 0;
}
