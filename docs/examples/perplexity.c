// SPDX-License-Identifier: MIT
/* perplexity.c - measures the perplexity of a model on a text.
 *
 *     cc perplexity.c $(pkg-config --cflags --libs hone) -o perplexity
 *     ./perplexity MODEL.gguf TEXT.txt [WINDOWS] */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static char text[4 << 20];
    struct hone_error e = {0};
    struct hone_model *m = NULL;
    struct hone_session *s = NULL;
    const struct hone_tokenizer *tok;
    struct hone_perplexity p = {.size = sizeof p};
    /* exact: activations stay f32, so that only the weights' error is seen */
    const struct hone_session_opts so = {.size = sizeof so, .n_ctx = 512, .exact = 1};
    int32_t *ids = NULL;
    int64_t n;
    FILE *f = argc > 2 ? fopen(argv[2], "rb") : NULL;
    if (!f) return fprintf(stderr, "usage: %s MODEL.gguf TEXT [WINDOWS]\n", argv[0]), 2;
    const size_t len = fread(text, 1, sizeof text, f);
    fclose(f);
    int rc = hone_model_open(&m, argv[1], NULL, &e);
    if (!rc) rc = hone_model_tokenizer(m, &tok, &e);
    if (!rc) rc = hone_tokenize(tok, text, len, HONE_BOS | HONE_CONTROL, &ids, &n, &e);
    if (!rc) rc = hone_session_new(&s, m, &so, NULL, &e);
    if (!rc) rc = hone_perplexity(s, ids, n, 512, argc > 3 ? atoi(argv[3]) : 0, &p, &e);
    if (rc)
        fprintf(stderr, "perplexity: %s\n", e.message);
    else
        printf("%.4f +- %.4f over %lld tokens\n", p.value, p.error, (long long)p.n_tokens);
    hone_free(ids);
    hone_session_free(s);
    hone_model_close(m);
    return rc;
}
