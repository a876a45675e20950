// SPDX-License-Identifier: MIT
/* chat.c - asks a chat model one question and streams the answer.
 *
 *     cc chat.c $(pkg-config --cflags --libs hone) -o chat
 *     ./chat MODEL.gguf "Why is the sky blue?" [TOKENS] */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>

static int show(void *user, int64_t which, const char *text, size_t len) {
    (void)user, (void)which;
    fwrite(text, 1, len, stdout);
    return fflush(stdout) != 0; /* anything but 0 ends the answer */
}

/* Writes a text as a JSON string, well enough for command-line arguments. */
static void quote(char *out, size_t size, const char *s) {
    size_t n = 0;
    for (; *s && n + 8 < size; s++)
        if ((unsigned char)*s < ' ')
            n += (size_t)snprintf(out + n, size - n, "\\u%04x", (unsigned)*s);
        else
            n += (size_t)snprintf(out + n, size - n, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
}

int main(int argc, char **argv) {
    static char said[16000], conversation[16100];
    struct hone_error e;
    struct hone_model *m = NULL;
    struct hone_session *s = NULL;
    const struct hone_tokenizer *tok;
    const struct hone_template *tmpl;
    int32_t *prompt = NULL;
    int64_t n;
    if (argc < 3) return fprintf(stderr, "usage: %s MODEL.gguf TEXT [TOKENS]\n", argv[0]), 2;
    quote(said, sizeof said, argv[2]);
    snprintf(conversation, sizeof conversation, "[{\"role\": \"user\", \"content\": \"%s\"}]",
             said);
    const struct hone_generate_opts o = {.size = sizeof o,
                                         .max_tokens = argc > 3 ? atoi(argv[3]) : 200,
                                         .temperature = 0.7,
                                         .top_p = 0.9,
                                         .text = show};
    struct hone_answer a = {.size = sizeof a};
    int rc = hone_model_open(&m, argv[1], NULL, &e);
    if (!rc) rc = hone_model_tokenizer(m, &tok, &e);
    if (!rc) rc = hone_model_template(m, &tmpl, &e);
    if (!rc) rc = hone_session_new(&s, m, NULL, NULL, &e);
    if (!rc) rc = hone_template_tokens(tmpl, tok, conversation, NULL, 1, &prompt, &n, &e);
    if (!rc) rc = hone_generate(s, prompt, n, &o, &a, &e);
    if (rc)
        fprintf(stderr, "chat: %s\n", e.message);
    else
        fprintf(stderr, "\n%lld tokens, ended by: %s\n", (long long)a.n_ids, a.stop);
    hone_answer_free(&a);
    hone_free(prompt);
    hone_session_free(s);
    hone_model_close(m);
    return rc;
}
