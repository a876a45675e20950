// SPDX-License-Identifier: MIT
/* command.c - commands of the program as calls: a Hugging Face folder to a quantized, verified
 * file.
 *
 *     cc command.c $(pkg-config --cflags --libs hone) -o command
 *     ./command FOLDER OUT.gguf Q4_K_M */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)user;
    if (total) fprintf(stderr, "%s: %.0f %%\n", stage, 100.0 * (double)done / (double)total);
    return 0; /* anything else would cancel */
}

static int step(int rc, struct hone_result *r, const char *what) {
    if (rc != HONE_OK)
        fprintf(stderr, "%s: %s\n", what, r->message);
    else
        puts(r->text); /* JSON */
    hone_result_free(r);
    return rc;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s FOLDER OUT.gguf RECIPE\n", argv[0]);
        return 2;
    }
    char base[4096];
    snprintf(base, sizeof base, "%s.base.gguf", argv[2]);
    const char *convert[] = {argv[1], "-o", base, "-f", NULL};
    const char *quantize[] = {base, "-o", argv[2], "--recipe", argv[3], NULL};
    const char *verify[] = {argv[2], "--deep", NULL};
    struct hone_opts o = {.size = sizeof o, .progress = on_progress};
    struct hone_result r;
    int rc = step(hone_call("convert", convert, &o, &r), &r, "convert");
    if (!rc) rc = step(hone_call("quantize", quantize, &o, &r), &r, "quantize");
    if (!rc) rc = step(hone_call("verify", verify, &o, &r), &r, "verify");
    remove(base);
    return rc;
}
