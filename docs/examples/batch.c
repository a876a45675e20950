// SPDX-License-Identifier: MIT
/* batch.c - answers the prompts in a file, one per line, in the order of the lines. Eight
 * answers are computed at a time, so that weights are read once for all of them.
 *
 *     cc batch.c $(pkg-config --cflags --libs hone) -o batch
 *     ./batch MODEL.gguf PROMPTS.txt [TOKENS] */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000 };
static int32_t *prompt[MOST];
static int64_t len[MOST];
static struct hone_answer answer[MOST];

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)user;
    fprintf(stderr, "\r%s: %d of %d", stage, (int)done, (int)total);
    return 0;
}

int main(int argc, char **argv) {
    char line[8192];
    struct hone_error e = {0};
    struct hone_model *m = NULL;
    struct hone_session *s = NULL;
    const struct hone_tokenizer *tok;
    const struct hone_opts o = {.size = sizeof o, .progress = on_progress};
    int64_t n = 0;
    FILE *f = argc > 2 ? fopen(argv[2], "r") : NULL;
    if (!f) return fprintf(stderr, "usage: %s MODEL.gguf PROMPTS.txt [TOKENS]\n", argv[0]), 2;
    const struct hone_generate_opts go = {
        .size = sizeof go, .max_tokens = argc > 3 ? atoi(argv[3]) : 100, .temperature = 0.7};
    int rc = hone_model_open(&m, argv[1], &o, &e);
    if (!rc) rc = hone_model_tokenizer(m, &tok, &e);
    while (!rc && n < MOST && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (!line[0]) continue;
        answer[n].size = sizeof answer[n];
        rc = hone_tokenize(tok, line, strlen(line), HONE_BOS, &prompt[n], &len[n], &e);
        n++;
    }
    fclose(f);
    if (!rc) rc = hone_session_new(&s, m, NULL, &o, &e);
    if (!rc) rc = hone_generate_many(s, (const int32_t *const *)prompt, len, n, 8, &go, answer, &e);
    if (rc) fprintf(stderr, "batch: %s\n", e.message);
    for (int64_t i = 0; i < n; i++) {
        if (!rc) printf("%lld\t%s\t%s\n", (long long)i + 1, answer[i].stop, answer[i].text);
        hone_answer_free(&answer[i]);
        hone_free(prompt[i]);
    }
    hone_session_free(s);
    hone_model_close(m);
    return rc;
}
