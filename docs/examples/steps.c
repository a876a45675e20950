// SPDX-License-Identifier: MIT
/* steps.c - converts a Hugging Face folder, quantizes the result and verifies it.
 *
 *     cc steps.c $(pkg-config --cflags --libs hone) -o steps
 *     ./steps FOLDER OUT.gguf Q4_K_M */
#include <hone.h>
#include <stdio.h>

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)user;
    if (total) fprintf(stderr, "%s: %.0f %%\n", stage, 100.0 * (double)done / (double)total);
    return 0; /* anything else would cancel */
}

static int print_result(int rc, char *json, const struct hone_error *e) {
    if (rc != HONE_OK)
        fprintf(stderr, "%s\n", e->message);
    else
        puts(json);
    hone_free(json);
    return rc;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s FOLDER OUT.gguf RECIPE\n", argv[0]);
        return 2;
    }
    char base[4096], *json;
    snprintf(base, sizeof base, "%s.base.gguf", argv[2]);
    const struct hone_opts o = {.size = sizeof o, .progress = on_progress};
    const struct hone_convert_opts to = {.size = sizeof to, .overwrite = 1};
    const struct hone_quantize_opts how = {.size = sizeof how, .recipe = argv[3]};
    struct hone_error e;
    int rc = hone_convert(argv[1], base, &to, &o, &json, &e);
    rc = print_result(rc, json, &e);
    if (!rc) {
        rc = hone_quantize(base, argv[2], &how, &o, &json, &e);
        rc = print_result(rc, json, &e);
    }
    if (!rc) {
        rc = hone_verify(argv[2], 1, NULL, &o, &json, &e);
        rc = print_result(rc, json, &e);
    }
    remove(base);
    return rc;
}
