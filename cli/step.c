// SPDX-License-Identifier: MIT
/* cli/step.c - see step.h. Records are small JSON files, written whole or not at all. */
#include "cli/step.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/str.h"

enum { MAX_RECORD = 64 << 20 };

/* Temporaries are named TARGET.tmp-PID-N (core/io.h), parts of interrupted models TARGET.part. We
 * hold the lock, so whoever made them is gone. */
static bool is_temporary(const char *name) {
    return strstr(name, ".tmp-") != NULL;
}

static bool is_part(const char *name) {
    return str_ends(name, ".gguf.part") || str_ends(name, ".gguf.part.log");
}

static int remove_leftovers(const char *dir, bool (*which)(const char *name), struct err *e) {
    struct io_names all;
    int rc = io_list(&all, dir, e);
    for (int i = 0; i < all.n && rc == 0; i++) {
        if (!which(all.v[i])) continue;
        char *path = io_join(dir, all.v[i]);
        if (unlink(path) == 0) log_debug("removed leftover %s", path);
        free(path);
    }
    io_names_release(&all);
    return rc;
}

int job_open(struct job *j, const char *dir, struct err *e) {
    memset(j, 0, sizeof *j);
    j->lock_fd = -1;
    j->dir = xstrdup(dir);
    j->state = io_join(dir, ".hone");
    TRY(io_make_dir(j->state, e));
    char *lock = io_join(j->state, "lock");
    j->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    free(lock);
    if (j->lock_fd < 0) return err_sys(e, "%s: cannot write into this folder", dir);
    if (flock(j->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(e, ERR_SYS,
                       "%s: another hone job is writing here; wait for it, or choose "
                       "another folder with -o",
                       dir);
    TRY(remove_leftovers(dir, is_temporary, e));
    return remove_leftovers(j->state, is_temporary, e);
}

int job_remove_parts(const struct job *j, struct err *e) {
    TRY(remove_leftovers(j->dir, is_part, e));
    return remove_leftovers(j->state, is_part, e);
}

void job_close(struct job *j) {
    if (j->dir && j->lock_fd >= 0) close(j->lock_fd);
    free(j->dir);
    free(j->state);
    memset(j, 0, sizeof *j);
    j->lock_fd = -1;
}

char *job_path(const struct job *j, const char *name) {
    return io_join(j->dir, name);
}

void step_init(struct step *s, const struct job *j, const char *name) {
    memset(s, 0, sizeof *s);
    s->job = j;
    snprintf(s->name, sizeof s->name, "%s", name);
    step_key(s, "step", "%s", name);
    step_key(s, "hone", "%s", HONE_VERSION);
}

void step_release(struct step *s) {
    buf_release(&s->key);
}

void step_key(struct step *s, const char *what, const char *fmt, ...) {
    char value[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    buf_fmt(&s->key, "%s=%s;", what, value);
}

static void key_hex(const struct step *s, char hex[33]) {
    hash_xxh128_hex(hex, s->key.data, s->key.len);
}

static char *record_path(const struct job *j, const char *name) {
    char *file = xasprintf("%s.json", name), *path = io_join(j->state, file);
    free(file);
    return path;
}

/* Nanoseconds since the epoch of the last change, and size; false when the file is not there. */
static bool file_stamp(const char *path, int64_t *size, char stamp[40]) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    *size = st.st_size;
    snprintf(stamp, 40, "%lld.%09ld", (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return true;
}

static int hash_content(const char *path, char hex[33], struct err *e) {
    struct map m;
    TRY(map_open(&m, path, e));
    hash_xxh128_hex(hex, m.data ? (const void *)m.data : "", m.size);
    map_close(&m);
    return 0;
}

int job_file_hash(const struct job *j, const char *path, char hex[33], struct err *e) {
    char stamp[40], id[33], *real = realpath(path, NULL);
    int64_t size;
    if (!real || !file_stamp(real, &size, stamp)) {
        free(real);
        return err_sys(e, "%s: cannot read", path);
    }
    /* remembered as hash-<hash of path, size, stamp>.json */
    struct buf key = {0}, text = {0};
    buf_fmt(&key, "%s;%" PRId64 ";%s", real, size, stamp);
    hash_xxh128_hex(id, key.data, key.len);
    char name[64];
    snprintf(name, sizeof name, "hash-%s", id);
    char *rec = record_path(j, name);
    struct json *root = NULL;
    struct err ignored;
    const char *known = NULL;
    int rc = 0;
    if (io_exists(rec) && json_read(&root, rec, MAX_RECORD, &ignored) == 0)
        known = json_str(json_get(root, "xxh128"));
    if (known && strlen(known) == 32) {
        memcpy(hex, known, 33);
    } else {
        rc = hash_content(real, hex, e);
        buf_fmt(&text, "{\"file\": ");
        json_quote(&text, io_base(real), strlen(io_base(real)));
        buf_fmt(&text, ", \"xxh128\": \"%s\"}\n", hex);
        if (rc == 0) rc = out_write_file(rec, text.data, text.len, true, e);
    }
    json_free(root);
    buf_release(&key);
    buf_release(&text);
    free(rec);
    free(real);
    return rc;
}

/* An output is intact when its size and time stamp are as recorded, or its content hashes the same.
 */
static bool intact(const struct job *j, const struct json *f) {
    const char *name = json_str(json_get(f, "file")), *stamp = json_str(json_get(f, "mtime")),
               *hash = json_str(json_get(f, "xxh128"));
    int64_t want, size;
    char now[40], hex[33];
    struct err ignored;
    if (!name || !stamp || !hash || !json_i64(json_get(f, "size_bytes"), &want)) return false;
    char *path = job_path(j, name);
    bool ok = file_stamp(path, &size, now) && size == want &&
              (strcmp(now, stamp) == 0 ||
               (hash_content(path, hex, &ignored) == 0 && strcmp(hex, hash) == 0));
    free(path);
    return ok;
}

bool step_done(struct step *s, struct json **root, const struct json **result) {
    char hex[33], *path = record_path(s->job, s->name);
    struct err ignored;
    bool ok = io_exists(path) && json_read(root, path, MAX_RECORD, &ignored) == 0;
    free(path);
    if (!ok) return false;
    key_hex(s, hex);
    const char *key = json_str(json_get(*root, "key"));
    ok = key && strcmp(key, hex) == 0;
    const struct json *files = json_get(*root, "files");
    for (const struct json *f = json_first(files); ok && f; f = json_next(f))
        ok = intact(s->job, f);
    *result = json_get(*root, "result");
    if (ok && *result) return true;
    json_free(*root);
    *root = NULL;
    return false;
}

int step_save(struct step *s, const char *const *files, int n_files, const char *result_json,
              struct err *e) {
    struct buf b = {0};
    struct jw w;
    char hex[33];
    int rc = 0;
    key_hex(s, hex);
    jw_init(&w, &b, true);
    jw_obj(&w, NULL);
    jw_str(&w, "step", s->name);
    jw_str(&w, "key", hex);
    jw_arr(&w, "files");
    for (int i = 0; i < n_files && rc == 0; i++) {
        char stamp[40], *path = job_path(s->job, files[i]);
        int64_t size = 0;
        rc = hash_content(path, hex, e);
        if (rc == 0 && !file_stamp(path, &size, stamp)) rc = err_sys(e, "%s: vanished", path);
        free(path);
        if (rc) break;
        jw_obj(&w, NULL);
        jw_str(&w, "file", files[i]);
        jw_i64(&w, "size_bytes", size);
        jw_str(&w, "mtime", stamp);
        jw_str(&w, "xxh128", hex);
        jw_end(&w);
    }
    jw_end(&w);
    jw_raw(&w, "result", result_json);
    jw_end(&w);
    buf_chr(&b, '\n');
    char *path = record_path(s->job, s->name);
    if (rc == 0) rc = out_write_file(path, b.data, b.len, true, e);
    free(path);
    buf_release(&b);
    return rc;
}
