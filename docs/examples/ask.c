// SPDX-License-Identifier: MIT
/* ask.c - messages of the library in one's own form, a check that may say no, and an answer.
 *
 *     cc ask.c $(pkg-config --cflags --libs hone) -o ask
 *     ./ask MODEL.gguf "Once upon a time" */
#include <hone.h>
#include <stdio.h>

static void on_log(void *user, enum hone_level level, const char *text) {
    fprintf(user, "[%d] %s\n", (int)level, text);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL.gguf TEXT\n", argv[0]);
        return 2;
    }
    const char *lint[] = {"lint", argv[1], NULL};
    const char *run[] = {argv[1], "-p", argv[2], "-n", "8", "--temp", "0", NULL};
    struct hone_opts o = {.size = sizeof o, .log = on_log, .user = stderr};
    struct hone_result r;
    fprintf(stderr, "hone %s\n", hone_version());
    int rc = hone_template(lint, &o, &r);
    if (rc == HONE_VERDICT) fprintf(stderr, "the chat template has faults: %s\n", r.message);
    hone_result_free(&r);
    if (rc > HONE_VERDICT) return rc;
    rc = hone_run(run, &o, &r);
    if (rc)
        fprintf(stderr, "%s\n", r.message);
    else
        puts(r.text); /* {"text": "...", ...} */
    hone_result_free(&r);
    return rc;
}
