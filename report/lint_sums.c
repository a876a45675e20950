// SPDX-License-Identifier: MIT
/* report/lint_sums.c - the linter's checks of SHA256SUMS and manifest.json: every listed file
 * exists and matches, every model is listed. Reads every listed file once unless `quick` is set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/doc.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"
#include "report/folder_lint.h"
#include "report/manifest.h"
#include "report/result.h"

#define SUMS "SHA256SUMS"

/* Returns whether the name stays inside the folder. */
static bool safe_name(const char *s) {
    return *s && *s != '/' && *s != '\\' && !strstr(s, "..");
}

/* Splits a line into checksum and file name. Returns false if the line has a different form. */
static bool sum_line(char *line, const char **name) {
    if (strlen(line) < 67 || strspn(line, "0123456789abcdefABCDEF") != 64 || line[64] != ' ' ||
        (line[65] != ' ' && line[65] != '*'))
        return false;
    line[64] = 0;
    *name = line + 66;
    return safe_name(*name);
}

/* Reports a file that is missing or has a different SHA-256. */
static int check_sum(struct lint *l, const char *hex, const char *name, struct err *e) {
    char *path = io_join(l->dir, name), is[65];
    int rc = 0;
    if (!io_exists(path)) {
        lint_add(l, true, "sums-missing", name, "listed in SHA256SUMS but not in the folder");
    } else if (!l->quick) {
        rc = sha256_file(path, is, e);
        if (rc == 0 && strcasecmp(is, hex) != 0)
            lint_add(l, true, "sums-wrong", name, "its SHA-256 differs from SHA256SUMS");
    }
    free(path);
    if (rc == 0 && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    return rc;
}

/* Reports models that SHA256SUMS does not list. */
static int check_unlisted(struct lint *l, const struct strmap *listed, struct err *e) {
    struct io_names all;
    int rc = io_list(&all, l->dir, e);
    for (int i = 0; i < all.n && rc == 0; i++) {
        size_t n = strlen(all.v[i]);
        if (n > 5 && strcmp(all.v[i] + n - 5, ".gguf") == 0 && strmap_get(listed, all.v[i], n) < 0)
            lint_add(l, true, "sums-unlisted", all.v[i], "not listed in SHA256SUMS");
    }
    io_names_release(&all);
    return rc;
}

/* Reports files that SHA256SUMS lists wrongly or not at all. */
static int check_sums(struct lint *l, struct err *e) {
    size_t len;
    char *text = lint_text(l, SUMS, &len);
    int rc = 0, line = 0;
    if (!text) {
        lint_add(l, false, "sums-none", SUMS, "there is no SHA256SUMS");
        return 0;
    }
    struct strmap *listed = strmap_new(64);
    for (char *s = text, *next; s && *s && rc == 0; s = next) {
        const char *name = NULL;
        next = strchr(s, '\n');
        if (next) *next++ = 0;
        s[strcspn(s, "\r")] = 0;
        line++;
        if (!sum_line(s, &name))
            lint_add(l, true, "sums-line", SUMS, "line %d is not \"SHA-256  NAME\"", line);
        else if (!strmap_add(listed, name, strlen(name), line))
            lint_add(l, true, "sums-twice", name, "listed twice in SHA256SUMS");
        else
            rc = check_sum(l, s, name, e);
    }
    if (rc == 0) rc = check_unlisted(l, listed, e);
    strmap_free(listed);
    free(text);
    return rc;
}

/* ---- manifest -------------------------------------------------------------------------------- */

/* Reports the first tensor whose hash differs from the manifest's. */
static int check_hashes(struct lint *l, const char *name, const cJSON *f, struct err *e) {
    struct gguf *g;
    struct err ignored;
    char *path = io_join(l->dir, name), hex[33];
    int rc = gguf_open(&g, path, GGUF_ONE_FILE | GGUF_TOLERANT, &ignored);
    free(path);
    if (rc) return 0; /* already reported */
    uint64_t n;
    const uint8_t *header = gguf_shard_header(g, 0, &n);
    const char *claimed = doc_str(f, "header_xxh128");
    hash_xxh128_hex(hex, header, (size_t)n);
    if (!claimed || strcmp(hex, claimed) != 0)
        lint_add(l, true, "manifest-header", name, "its header differs from " MANIFEST_NAME);
    rc = 0;
    for (const cJSON *t = doc_first(doc_get(f, "tensors")); t && rc == 0 && !l->quick;
         t = t->next) {
        const char *tn = doc_str(t, "name");
        const struct gguf_tensor *x = tn ? gguf_find_tensor(g, tn) : NULL;
        claimed = doc_str(t, "xxh128");
        if (x) rc = manifest_hash(g, x, hex, NULL, e);
        if (rc == 0 && (!x || !claimed || strcmp(hex, claimed) != 0)) {
            lint_add(l, true, "manifest-tensor", name, "tensor %.64s differs from " MANIFEST_NAME,
                     tn ? tn : "?");
            break; /* one finding per file is enough */
        }
    }
    gguf_close(g);
    return rc;
}

/* Reports a file that differs from its entry in the manifest. */
static int check_entry(struct lint *l, const cJSON *f, struct err *e) {
    const char *name = doc_str(f, "file");
    struct os_stat st;
    int64_t size;
    if (!name || !safe_name(name) || !doc_i64(f, "size_bytes", &size)) {
        lint_add(l, true, "manifest-form", MANIFEST_NAME, "an entry without file or size_bytes");
        return 0;
    }
    char *path = io_join(l->dir, name);
    bool there = os_stat(path, &st) == 0;
    free(path);
    if (!there)
        lint_add(l, true, "manifest-missing", name,
                 "listed in " MANIFEST_NAME ", not in the folder");
    else if ((int64_t)st.size != size)
        lint_add(l, true, "manifest-size", name, "has %lld bytes, not %lld as in " MANIFEST_NAME,
                 (long long)st.size, (long long)size);
    else if (doc_get(f, "tensors"))
        return check_hashes(l, name, f, e);
    return 0;
}

/* Reports files that differ from the manifest. */
static int check_manifest(struct lint *l, struct err *e) {
    size_t len;
    cJSON *root = NULL;
    struct err bad;
    char *text = lint_text(l, MANIFEST_NAME, &len);
    int rc = 0;
    if (!text) return 0;
    if (doc_parse(&root, text, len, MANIFEST_NAME, &bad)) {
        lint_add(l, true, "manifest-form", MANIFEST_NAME, "%s", bad.msg);
    } else {
        if (!doc_is(root, "format", "hone-manifest"))
            lint_add(l, false, "manifest-form", MANIFEST_NAME, "not a hone manifest");
        else
            for (const cJSON *f = doc_first(doc_get(root, "files")); f && rc == 0; f = f->next)
                rc = check_entry(l, f, e);
        cJSON_Delete(root);
    }
    free(text);
    return rc;
}

/* Reports files whose weights are not those that were measured. */
static void check_measured(struct lint *l) {
    struct result r;
    struct err ignored;
    char *path = io_join(l->dir, "results.json");
    if (io_exists(path) && result_open(&r, path, &ignored) == 0) {
        for (int i = 0; i < r.n_files; i++)
            if (result_match(&r.file[i], l->dir) == RESULT_OTHER)
                lint_add(l, true, "results-other", r.file[i].file,
                         "its weights are not those whose numbers results.json has");
        result_close(&r);
    }
    free(path);
}

int lint_sums(struct lint *l, struct err *e) {
    check_measured(l);
    TRY(check_sums(l, e));
    return check_manifest(l, e);
}
