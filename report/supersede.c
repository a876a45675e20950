// SPDX-License-Identifier: MIT
/* report/supersede.c - which files of an earlier release a folder replaces (manifest.h). */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "report/manifest.h"

enum { MAX_MANIFEST = 256 << 20 };

/* Adds a model that the folder of `sums` no longer holds as it was, with what stands there under
 * its name now. */
static void add_row(struct jw *w, const struct json *old, const char *sums) {
    const char *name = json_str(json_get(old, "file")), *hex = json_str(json_get(old, "sha256"));
    size_t n = name ? strlen(name) : 0;
    bool model = n > 5 && strcmp(name + n - 5, ".gguf") == 0;
    if (!model || !hex || strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64) return;
    if (strstr(sums, hex)) return; /* still here, perhaps with another name */
    char *line = xasprintf("  %s\n", name);
    const char *next = strstr(sums, line);
    free(line);
    jw_obj(w, NULL);
    jw_str(w, "file", name);
    jw_str(w, "sha256", hex);
    jw_str(w, "by", next ? name : NULL);
    if (next)
        jw_strn(w, "by_sha256", next - 64, 64);
    else
        jw_null(w, "by_sha256");
    jw_end(w);
}

int manifest_add_superseded(struct jw *w, const char *old, const char *sums, struct err *e) {
    struct json *root;
    TRY(json_read(&root, old, MAX_MANIFEST, e));
    const char *format = json_str(json_get(root, "format"));
    if (!format || strcmp(format, "hone-manifest") != 0) {
        json_free(root);
        return err_set(e, ERR_DATA, "%s: not a manifest of hone", old);
    }
    const struct json *lists[] = {json_get(root, "files"), json_get(root, "supersedes")};
    jw_arr(w, "supersedes");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct json *f = json_first(lists[i]); f; f = json_next(f)) add_row(w, f, sums);
    jw_end(w);
    json_free(root);
    return 0;
}
