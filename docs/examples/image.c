// SPDX-License-Identifier: MIT
/* image.c - asks a model with a vision tower about an image. Its projector file (mmproj-*.gguf) is
 * next to it.
 *
 *     cc image.c $(pkg-config --cflags --libs hone) -o image
 *     ./image MODEL.gguf PHOTO.jpg [TOKENS] */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>

static const char conversation[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, "
                                   "{\"type\": \"text\", \"text\": \"What is this?\"}]}]";

/* Reads a file of at most 16 MiB. */
static void *read_all(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *data = f ? malloc(16 << 20) : NULL;
    *n = data ? fread(data, 1, 16 << 20, f) : 0;
    if (f) fclose(f);
    return data;
}

int main(int argc, char **argv) {
    struct hone_error e;
    struct hone_model *m = NULL;
    struct hone_session *s = NULL;
    int32_t *prompt = NULL;
    int64_t n;
    size_t len;
    if (argc < 3) return fprintf(stderr, "usage: %s MODEL.gguf PHOTO [TOKENS]\n", argv[0]), 2;
    void *photo = read_all(argv[2], &len);
    const void *const image[] = {photo};
    const struct hone_generate_opts o = {.size = sizeof o,
                                         .max_tokens = argc > 3 ? atoi(argv[3]) : 200};
    struct hone_answer a = {.size = sizeof a};
    int rc = hone_model_open(&m, argv[1], NULL, &e);
    if (!rc) rc = hone_session_new(&s, m, NULL, NULL, &e);
    if (!rc) rc = hone_session_prompt(s, conversation, NULL, 1, image, &len, 1, &prompt, &n, &e);
    if (!rc) rc = hone_generate(s, prompt, n, &o, &a, &e);
    if (rc)
        fprintf(stderr, "image: %s\n", e.message);
    else
        printf("%s\n", a.text);
    hone_answer_free(&a);
    hone_free(prompt);
    hone_session_free(s);
    hone_model_close(m);
    free(photo);
    return rc;
}
