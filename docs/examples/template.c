// SPDX-License-Identifier: MIT
/* template.c - renders a JSON conversation with a model's chat template.
 *
 *     cc template.c $(pkg-config --cflags --libs hone) -o template
 *     ./template MODEL.gguf CONVERSATION.json */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    size_t n = 0, cap = 1 << 20;
    char *s = f ? malloc(cap) : NULL;
    if (s) {
        n = fread(s, 1, cap - 1, f);
        s[n] = 0;
    }
    if (f) fclose(f);
    return s;
}

int main(int argc, char **argv) {
    struct hone_error e = {0};
    struct hone_gguf *g = NULL;
    struct hone_template *t = NULL;
    struct hone_tokenizer *tok = NULL;
    char *text = NULL, *conversation = argc == 3 ? read_file(argv[2]) : NULL;
    int32_t *ids = NULL;
    int64_t n = 0;
    if (!conversation) return fprintf(stderr, "usage: %s MODEL.gguf FILE.json\n", argv[0]), 2;
    int rc = hone_gguf_open(&g, argv[1], NULL, &e);
    if (!rc) rc = hone_template_from_gguf(&t, g, &e);
    if (!rc) rc = hone_tokenizer_from_gguf(&tok, g, &e);
    if (!rc) rc = hone_template_render(t, conversation, NULL, 1, &text, NULL, &e);
    if (!rc) rc = hone_template_tokens(t, tok, conversation, NULL, 1, &ids, &n, &e);
    if (rc)
        fprintf(stderr, "template: %s\n", e.message);
    else
        printf("%s\n", text);
    if (!rc) fprintf(stderr, "%lld tokens\n", (long long)n);
    hone_free(text);
    hone_free(ids);
    free(conversation);
    hone_tokenizer_close(tok);
    hone_template_free(t);
    hone_gguf_close(g);
    return rc;
}
