// SPDX-License-Identifier: MIT
/* toolcall.c - parses a model's answer on standard input into content, reasoning and tool calls,
 * using the call syntax of its template.
 *
 *     cc toolcall.c $(pkg-config --cflags --libs hone) -o toolcall
 *     ./toolcall MODEL.gguf < ANSWER.txt */
#include <hone.h>
#include <stdio.h>

int main(int argc, char **argv) {
    static char answer[1 << 20];
    static const char tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": "
        "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": "
        "{\"type\": \"integer\"}}}}}]"; /* they say that `days` is a number */
    struct hone_error e = {0};
    struct hone_gguf *g = NULL;
    struct hone_template *t = NULL;
    char *json = NULL;
    if (argc != 2) return fprintf(stderr, "usage: %s MODEL.gguf < ANSWER\n", argv[0]), 2;
    const size_t n = fread(answer, 1, sizeof answer, stdin);
    int rc = hone_gguf_open(&g, argv[1], NULL, &e);
    if (!rc) rc = hone_template_from_gguf(&t, g, &e);
    if (!rc) rc = hone_template_read_answer(t, tools, answer, n, &json, &e);
    if (rc)
        fprintf(stderr, "toolcall: %s\n", e.message);
    else
        puts(json);
    hone_free(json);
    hone_template_free(t);
    hone_gguf_close(g);
    return rc;
}
