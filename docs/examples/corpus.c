// SPDX-License-Identifier: MIT
/* corpus.c - writes a text file as 32-bit tokens, and prints both sizes.
 *
 *     cc corpus.c $(pkg-config --cflags --libs hone) -o corpus
 *     ./corpus MODEL.gguf TEXT.txt OUT.i32        (MODEL may be a Hugging Face folder) */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE = 1 << 20 };

int main(int argc, char **argv) {
    struct hone_error e = {0};
    struct hone_tokenizer *tok = NULL;
    static char text[PIECE];
    size_t have = 0, got;
    long long n_bytes = 0, n_tokens = 0;
    if (argc != 4) return fprintf(stderr, "usage: %s MODEL TEXT OUT\n", argv[0]), 2;
    FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
    if (!in || !out) return perror("corpus"), 4;
    int rc = hone_tokenizer_open(&tok, argv[1], NULL, &e);
    while (!rc && (got = fread(text + have, 1, sizeof text - have, in)) + have > 0) {
        /* pieces end after a line, so that no word is cut in two */
        size_t end = have += got;
        while (end && text[end - 1] != '\n') end--;
        if (!got || !end) end = have;
        int32_t *ids;
        int64_t n;
        rc = hone_tokenize(tok, text, end, 0, &ids, &n, &e);
        if (rc) break;
        if (fwrite(ids, sizeof *ids, (size_t)n, out) != (size_t)n) rc = HONE_SYSTEM;
        hone_free(ids);
        n_tokens += n;
        n_bytes += (long long)end;
        for (size_t i = end; i < have; i++) text[i - end] = text[i];
        have -= end;
    }
    if (fclose(out) != 0 && !rc) rc = HONE_SYSTEM;
    fclose(in);
    if (rc)
        fprintf(stderr, "corpus: %s\n", e.message[0] ? e.message : "cannot write");
    else
        printf("%lld bytes, %lld tokens\n", n_bytes, n_tokens);
    hone_tokenizer_close(tok);
    return rc;
}
