// SPDX-License-Identifier: MIT
/* make/ownership.c - records of which files in its results folder a job owns. */
#include "make/ownership.h"

#include <stdlib.h>
#include <string.h>

#include "make/file_guard.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/mem.h"
#include "quantize/resume.h"
#include "report/manifest.h"

enum { MAX_OWN = 1 << 16, MAX_MANIFEST = 256 << 20 };

/* Returns the path of the record that the job owns the file `name`; freed by the caller. */
static char *own_path(const struct job *j, const char *name) {
    char *file = xasprintf("own-%s.json", name), *path = io_join(j->state, file);
    free(file);
    return path;
}

/* Hashes the header of a GGUF file; false: not a readable GGUF file. */
static bool header_hash(const char *path, char hex[33]) {
    struct gguf *g;
    struct err ignored;
    uint64_t n;
    if (gguf_open(&g, path, GGUF_ONE_FILE | GGUF_TOLERANT, &ignored)) return false;
    const uint8_t *header = gguf_shard_header(g, 0, &n);
    hash_xxh128_hex(hex, header, (size_t)n);
    gguf_close(g);
    return true;
}

/* Returns whether the file at path has the size and header hash of the entry. Does not check its
 * data. */
static bool is_that(const char *path, const cJSON *entry) {
    char hex[33];
    int64_t want;
    uint64_t size;
    struct err ignored;
    const char *header = doc_str(entry, "header_xxh128");
    bool same_size = doc_i64(entry, "size_bytes", &want) &&
                     io_file_size(path, &size, &ignored) == 0 && size == (uint64_t)want;
    if (!same_size) return false;
    return !header || !header_hash(path, hex) || strcmp(hex, header) == 0;
}

/* Returns whether the folder's manifest lists the file as it is now. */
static bool in_manifest(const struct job *j, const char *name, const char *path) {
    cJSON *root = doc_find(j->dir, MANIFEST_NAME, MAX_MANIFEST);
    bool found = false;
    for (const cJSON *f = doc_first(doc_get(root, "files")); f && !found; f = f->next)
        found = doc_is(f, "file", name) && doc_get(f, "header_xxh128") && is_that(path, f);
    cJSON_Delete(root);
    return found;
}

/* Returns the state of the file: free to be replaced (missing, or ours and unchanged), edited
 * since, or foreign. */
static enum guard_state owner_state(const struct job *j, const char *name) {
    char *path = job_path(j, name), *own = own_path(j, name);
    cJSON *root = NULL;
    struct err ignored;
    enum guard_state state = GUARD_FREE;
    if (io_exists(path)) {
        if (io_exists(own)) (void)doc_read(&root, own, MAX_OWN, &ignored);
        if (!root)
            state = in_manifest(j, name, path) ? GUARD_FREE : GUARD_FOREIGN;
        else if (doc_get(root, "xxh128") && !step_intact(path, root) && !is_that(path, root))
            state = GUARD_EDITED;
    }
    cJSON_Delete(root);
    free(own);
    free(path);
    return state;
}

bool claim_is_foreign(const struct job *j, const char *name) {
    return owner_state(j, name) == GUARD_FOREIGN;
}

/* Sets the error for a file in the way. */
static int in_the_way(const struct job *j, const char *name, enum guard_state state,
                      struct err *e) {
    return err_set(e, ERR_USAGE,
                   "%s/%s is in the way and %s: move it, choose another folder with -o, or use -f, "
                   "which keeps it as %s.orig",
                   j->dir, name,
                   state == GUARD_EDITED ? "was changed since hone made it"
                                         : "was not made by this job",
                   name);
}

int claim_check(const struct job *j, const char *name, struct err *e) {
    enum guard_state state = owner_state(j, name);
    return state == GUARD_FREE ? 0 : in_the_way(j, name, state, e);
}

/* Returns the name of a partial output or its log that another program wrote, freed by the caller;
 * NULL: neither exists. */
static char *foreign_part(const struct job *j, const char *name) {
    char *path = job_path(j, name), *found = resume_foreign(path, 1);
    char *part = found ? xstrdup(io_base(found)) : NULL;
    free(found);
    free(path);
    return part;
}

int claim_check_part(const struct job *j, const char *name, struct err *e) {
    char *part = foreign_part(j, name);
    const int rc = part ? in_the_way(j, part, GUARD_FOREIGN, e) : 0;
    free(part);
    return rc;
}

int claim_take_part(const struct job *j, const char *name, struct err *e) {
    int rc = 0;
    for (char *part; !rc && (part = foreign_part(j, name));) {
        rc = guard_keep(j->dir, part, e);
        free(part);
    }
    return rc;
}

/* Writes the record that the job owns the file `name`. */
static int write_own(const struct job *j, const char *name, const cJSON *about, struct err *e) {
    char *path = own_path(j, name);
    const int rc = doc_write(about, path, true, e);
    free(path);
    return rc;
}

int claim_take(const struct job *j, const char *name, struct err *e) {
    if (owner_state(j, name) != GUARD_FREE) TRY(guard_keep(j->dir, name, e));
    cJSON *about = doc_new();
    doc_put_str(about, "file", name);
    const int rc = write_own(j, name, about, e);
    cJSON_Delete(about);
    return rc;
}

int claim_done(const struct job *j, const char *name, const cJSON *entry, struct err *e) {
    cJSON *about = cJSON_Duplicate(entry, true);
    char hex[33], *path = job_path(j, name);
    if (header_hash(path, hex)) doc_put_str(about, "header_xxh128", hex);
    const int rc = write_own(j, name, about, e);
    cJSON_Delete(about);
    free(path);
    return rc;
}
