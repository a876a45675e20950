// SPDX-License-Identifier: MIT
/* report/supersede.c - list of the files of an earlier release that a folder replaces. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "report/manifest.h"

enum { MAX_MANIFEST = 256 << 20 };

/* Adds a row for a model that has changed since, or is no longer in the folder that `sums`
 * describes, with the file that now has its name. */
static void add_row(cJSON *rows, const cJSON *old, const char *sums) {
    const char *name = doc_str(old, "file"), *hex = doc_str(old, "sha256");
    size_t n = name ? strlen(name) : 0;
    bool model = n > 5 && strcmp(name + n - 5, ".gguf") == 0;
    if (!model || !hex || strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64) return;
    if (strstr(sums, hex)) return; /* still there, possibly renamed */
    char *line = xasprintf("  %s\n", name);
    const char *next = strstr(sums, line);
    free(line);
    char hex_now[65] = "";
    if (next) memcpy(hex_now, next - 64, 64);
    cJSON *row = doc_obj(rows, NULL);
    doc_put_str(row, "file", name);
    doc_put_str(row, "sha256", hex);
    doc_put_str(row, "by", next ? name : NULL);
    doc_put_str(row, "by_sha256", next ? hex_now : NULL);
}

int manifest_add_superseded(cJSON *to, const char *old, const char *sums, struct err *e) {
    cJSON *root;
    TRY(doc_read(&root, old, MAX_MANIFEST, e));
    if (!doc_is(root, "format", "hone-manifest")) {
        cJSON_Delete(root);
        return err_set(e, ERR_DATA, "%s: not a hone manifest", old);
    }
    const cJSON *lists[] = {doc_get(root, "files"), doc_get(root, "supersedes")};
    cJSON *rows = doc_arr(to, "supersedes");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const cJSON *f = doc_first(lists[i]); f; f = f->next) add_row(rows, f, sums);
    cJSON_Delete(root);
    return 0;
}
