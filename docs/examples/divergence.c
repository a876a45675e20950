// SPDX-License-Identifier: MIT
/* divergence.c - measures how far a quantized model is from its original: the Kullback-Leibler
 * divergence of the next token on a text.
 *
 *     cc divergence.c $(pkg-config --cflags --libs hone) -o divergence
 *     ./divergence ORIGINAL.gguf QUANTIZED.gguf TEXT.txt [WINDOWS] */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static char text[4 << 20];
    struct hone_error e = {0};
    struct hone_model *m[2] = {NULL, NULL};
    struct hone_session *s[2] = {NULL, NULL};
    const struct hone_tokenizer *tok;
    const struct hone_session_opts so = {.size = sizeof so, .n_ctx = 512, .exact = 1};
    struct hone_divergence d = {.size = sizeof d};
    int32_t *ids = NULL;
    int64_t n;
    FILE *f = argc > 3 ? fopen(argv[3], "rb") : NULL;
    if (!f) return fprintf(stderr, "usage: %s A.gguf B.gguf TEXT [WINDOWS]\n", argv[0]), 2;
    const size_t len = fread(text, 1, sizeof text, f);
    fclose(f);
    int rc = HONE_OK;
    for (int i = 0; i < 2 && !rc; i++) {
        rc = hone_model_open(&m[i], argv[1 + i], NULL, &e);
        if (!rc) rc = hone_session_new(&s[i], m[i], &so, NULL, &e);
    }
    if (!rc) rc = hone_model_tokenizer(m[0], &tok, &e);
    if (!rc) rc = hone_tokenize(tok, text, len, HONE_BOS | HONE_CONTROL, &ids, &n, &e);
    if (!rc) rc = hone_divergence(s[0], s[1], ids, n, 512, argc > 4 ? atoi(argv[4]) : 0, &d, &e);
    if (rc)
        fprintf(stderr, "divergence: %s%s%s\n", e.file, e.file[0] ? ": " : "", e.message);
    else
        printf("mean %.6f +- %.6f, 99 %% %.5f, same top token %.2f %%, perplexity %.4f from %.4f\n",
               d.mean, d.error, d.p99, 100 * d.same_top, d.perplexity, d.perplexity_base);
    hone_free(ids);
    for (int i = 0; i < 2; i++) {
        hone_session_free(s[i]);
        hone_model_close(m[i]);
    }
    return rc;
}
