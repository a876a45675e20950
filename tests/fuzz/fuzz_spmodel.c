// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_spmodel.c - SentencePiece files: the input is a byte with the length of a text,
 * the text, and a tokenizer.model. Builds the tokenizer, encodes and decodes the text, and repeats
 * that with a tokenizer built from the GGUF keys of the first. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "containers/gguf.h"
#include "tests/fuzz/fuzz.h"
#include "tok/tok.h"

/* Lets the driver of `make test` also mutate the files. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    (void)seed;
    return LLVMFuzzerMutate(data, size, max);
}

static void use(const struct tok *t, const char *text, size_t n) {
    struct ids ids = {0};
    struct buf out = {0};
    struct err e;
    if (tok_encode(t, text, n, true, true, &ids, &e) == 0)
        tok_decode_text(t, ids.v, ids.n, true, &out);
    ids_release(&ids);
    buf_release(&out);
}

static void through_keys(const struct tok *t, const char *text, size_t n) {
    char path[] = "/tmp/hone-fuzz-sp-XXXXXX";
    struct gguf_w *w = gguf_w_new();
    struct gguf *g = NULL;
    struct tok *back = NULL;
    struct err e;
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    tok_to_gguf(t, w);
    gguf_w_str(w, "general.architecture", "none");
    int rc = gguf_w_begin(w, path, true, &e);
    if (!rc) rc = gguf_w_commit(w, &e);
    if (!rc) rc = gguf_open(&g, path, 0, &e);
    if (!rc) rc = tok_from_gguf(&back, g, &e);
    if (!rc) use(back, text, n);
    tok_free(back);
    gguf_close(g);
    gguf_w_free(w);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t n = size ? data[0] : 0;
    struct tok *t;
    struct err e;
    if (n + 1 > size) return 0;
    const char *text = (const char *)data + 1;
    const struct tok_files f = {.sp = text + n, .sp_len = size - n - 1};
    if (tok_from_files(&t, &f, 0, NULL, &e)) return 0;
    use(t, text, n);
    if (size % 16 == 0) through_keys(t, text, n); /* writing files takes time */
    tok_free(t);
    return 0;
}
