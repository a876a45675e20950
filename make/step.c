// SPDX-License-Identifier: MIT
/* make/step.c - job folders and step records. A record is a small JSON file, written completely or
 * not at all. */
#include "make/step.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/ownership.h"
#include "base/checkpoint.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "mix/sequential.h"
#include "quantize/journal.h"

enum { MAX_RECORD = 64 << 20 };
static const int64_t soon_hashed = (int64_t)64 << 20; /* bytes hashed quickly enough */

/* Returns whether the i-th name is that of a temporary file, TARGET.tmp-PID-N (base/out.c), where
 * TARGET may itself be temporary (mix/sequential.c). The lock is held, so its writer has ended.
 * Other names that contain ".tmp-" are the user's. */
static bool is_temporary(const char *dir, const struct io_names *all, int i) {
    (void)dir;
    const char *p = NULL, *digits = "0123456789";
    for (const char *at = all->v[i]; (at = strstr(at, ".tmp-")); at++) p = at;
    if (!p) return false;
    size_t pid = strspn(p += 5, digits), n = pid && p[pid] == '-' ? strspn(p + pid + 1, digits) : 0;
    return n && !p[pid + 1 + n];
}

/* Returns whether the log of an interrupted model is hone's. */
static bool is_log(const char *dir, const char *name) {
    char *path = io_join(dir, name);
    const bool is = !journal_is_foreign(path);
    free(path);
    return is;
}

/* Returns whether a file is a checkpoint. */
static bool is_checkpoint(const char *dir, const char *name) {
    char *path = io_join(dir, name);
    const bool is = checkpoint_is(path);
    free(path);
    return is;
}

/* Returns whether name i holds the finished blocks of an interrupted model (mix/sequential.h). */
static bool is_blocks(const char *dir, const struct io_names *all, int i) {
    return str_ends(all->v[i], ".gguf" SEQUENTIAL_PART) && is_checkpoint(dir, all->v[i]);
}

/* Returns whether name i is an interrupted model: a TARGET.part that has a TARGET.part.log. A part
 * without hone's log may be a user's download. */
static bool is_part(const char *dir, const struct io_names *all, int i) {
    const char *s = all->v[i];
    if (str_ends(s, ".gguf.part.log")) return is_log(dir, s);
    size_t n = strlen(s);
    return str_ends(s, ".gguf.part") && i + 1 < all->n && strncmp(all->v[i + 1], s, n) == 0 &&
           strcmp(all->v[i + 1] + n, ".log") == 0 && is_log(dir, all->v[i + 1]);
}

/* Deletes the files in a folder for which `which` returns true. */
static int remove_leftovers(const char *dir,
                            bool (*which)(const char *dir, const struct io_names *all, int i),
                            struct err *e) {
    struct io_names all;
    int rc = io_list(&all, dir, e);
    for (int i = 0; i < all.n && rc == 0; i++) {
        if (!which(dir, &all, i)) continue;
        char *path = io_join(dir, all.v[i]);
        if (os_unlink(path) == 0) log_debug("removed leftover %s", path);
        free(path);
    }
    io_names_release(&all);
    return rc;
}

char *job_work(const char *dir) {
    size_t n = strlen(dir);
    while (n > 1 && os_is_slash(dir[n - 1])) n--;
    char *plain = xstrndup(dir, n), *real = NULL;
    const char *last = io_base(plain);
    struct os_stat st;
    if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0 ||
        (os_lstat(plain, &st) == 0 && st.kind == OS_LINK))
        real = io_real(plain);
    char *work =
        strcmp(real ? real : plain, "/") == 0 ? NULL : xasprintf("%s.work", real ? real : plain);
    free(plain);
    free(real);
    return work;
}

/* Returns whether a folder holds a job's state: its lock, or, if that was lost, its first record.
 */
static bool is_state(const char *dir) {
    char *lock = io_join(dir, "lock");
    cJSON *first = io_exists(lock) ? NULL : doc_find(dir, "convert.json", MAX_RECORD);
    const bool is = io_exists(lock) || doc_is(first, "step", "convert");
    cJSON_Delete(first);
    free(lock);
    return is;
}

/* Returns an error if there is a folder of that name that is not a job's. */
static int check_work(const struct job *j, struct err *e) {
    struct io_names all;
    if (!io_is_dir(j->state) || is_state(j->state)) return 0;
    int rc = io_list(&all, j->state, e);
    if (rc == 0 && all.n)
        rc = err_set(e, ERR_USAGE,
                     "%s is needed for the state of the job but holds other files: move it, or "
                     "choose another folder with -o",
                     j->state);
    io_names_release(&all);
    return rc;
}

/* Creates the folders. Files are made in DIR.work and then renamed into DIR, so both must be on one
 * file system. */
static int make_folders(struct job *j, struct err *e) {
    struct os_stat a, b;
    bool was = io_is_dir(j->state);
    TRY(io_make_dir(j->state, e));
    int rc = io_make_dir(j->dir, e);
    if (rc == 0 && (os_stat(j->dir, &a) != 0 || os_stat(j->state, &b) != 0))
        rc = err_sys(e, "%s: cannot examine", j->dir);
    if (rc == 0 && a.dev != b.dev)
        rc = err_set(e, ERR_USAGE,
                     "%s is a separate file system, so the state of the job cannot be next to it: "
                     "name a folder in it with -o",
                     j->dir);
    if (rc && !was) os_rmdir(j->state);
    return rc;
}

/* Fails like job_open if the parent folder of `path` does not exist and cannot be created. */
static int can_make(const char *path, struct err *e) {
    char *dir = xstrdup(path), *probe;
    size_t n = strlen(dir);
    while (n && !io_exists(dir)) { /* up to an existing folder */
        while (n && os_is_slash(dir[n - 1])) dir[--n] = 0;
        while (n && !os_is_slash(dir[n - 1])) dir[--n] = 0;
        while (n > 1 && os_is_slash(dir[n - 1])) dir[--n] = 0;
    }
    int rc = 0;
    probe = xasprintf("%s/.hone-probe-XXXXXX", n ? dir : ".");
    if (n && !io_is_dir(dir))
        rc = err_set(e, ERR_USAGE, "cannot create folder %s: a file of that name exists", dir);
    else if (!os_mkdtemp(probe))
        rc = err_sys(e, "%s: cannot write into this folder", n ? dir : ".");
    else
        os_rmdir(probe);
    free(probe);
    free(dir);
    return rc;
}

int job_look(struct job *j, const char *dir, struct err *e) {
    *j =
        (struct job){.dir = xstrdup(dir), .state = job_work(dir), .lock_fd = -1, .read_only = true};
    if (!j->state) return err_set(e, ERR_USAGE, "%s: name a folder with -o", dir);
    TRY(check_work(j, e));
    TRY(can_make(dir, e));
    return can_make(j->state, e);
}

int job_lock(int fd, const char *dir, struct err *e) {
    if (os_lock(fd, false) == 0) return 0;
    if (errno == EWOULDBLOCK)
        return err_set(e, ERR_SYS,
                       "%s: another hone job is writing here; wait for it, or choose "
                       "another folder with -o",
                       dir);
    log_warn("%s cannot be locked (%s): do not start a second job here", dir, strerror(errno));
    return 0;
}

int job_open(struct job *j, const char *dir, struct err *e) {
    memset(j, 0, sizeof *j);
    j->lock_fd = -1;
    j->dir = xstrdup(dir);
    j->state = job_work(dir);
    if (!j->state) return err_set(e, ERR_USAGE, "%s: name a folder with -o", dir);
    TRY(check_work(j, e));
    TRY(make_folders(j, e));
    char *lock = io_join(j->state, "lock");
    j->lock_fd = os_open(lock, OS_READ | OS_WRITE | OS_CREATE, 0666);
    free(lock);
    if (j->lock_fd < 0) return err_sys(e, "%s: cannot write into this folder", j->state);
    if (job_lock(j->lock_fd, dir, e)) {
        os_close(j->lock_fd);
        j->lock_fd = -1; /* nothing to release */
        return ERR_SYS;
    }
    TRY(job_take_old(j, e));
    TRY(remove_leftovers(dir, is_temporary, e));
    return remove_leftovers(j->state, is_temporary, e);
}

int job_remove_parts(const struct job *j, struct err *e) {
    TRY(remove_leftovers(j->dir, is_part, e));
    TRY(remove_leftovers(j->state, is_part, e));
    /* those in the folder may be of the user's own `hone quantize` */
    return remove_leftovers(j->state, is_blocks, e);
}

/* Cleans up after a rejected job: removes the lock and empty folders. */
static void remove_empty(const struct job *j) {
    struct io_names all;
    struct err ignored;
    bool only = io_list(&all, j->state, &ignored) == 0;
    for (int i = 0; i < all.n && only; i++) {
        char *path = io_join(j->state, all.v[i]);
        only = strcmp(all.v[i], "lock") == 0 || (io_is_dir(path) && os_rmdir(path) == 0);
        free(path);
    }
    io_names_release(&all);
    char *lock = io_join(j->state, "lock");
    if (only && os_unlink(lock) == 0) os_rmdir(j->state);
    free(lock);
}

void job_close(struct job *j) {
    if (j->dir && j->lock_fd >= 0) {
        remove_empty(j);
        os_close(j->lock_fd);
    }
    free(j->dir);
    free(j->state);
    memset(j, 0, sizeof *j);
    j->lock_fd = -1;
}

const char *job_name(const char *name) {
    return strncmp(name, JOB_WORK, sizeof JOB_WORK - 1) == 0 ? name + sizeof JOB_WORK - 1 : name;
}

char *job_path(const struct job *j, const char *name) {
    const char *s = job_name(name);
    return io_join(s == name ? j->dir : j->state, s);
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

/* Writes the hash of the step's key. */
static void key_hex(const struct step *s, char hex[33]) {
    hash_xxh128_hex(hex, s->key.data, s->key.len);
}

/* Returns the path of a step's record, freed by the caller. */
static char *record_path(const struct job *j, const char *name) {
    char *file = xasprintf("%s.json", name), *path = io_join(j->state, file);
    free(file);
    return path;
}

/* Sets *size to the size of a file in bytes, and stamp to the time of its last change: seconds
 * since the epoch, with nanoseconds, as text. Returns false if it is not a file. */
static bool file_stamp(const char *path, int64_t *size, char stamp[40]) {
    struct os_stat st;
    if (os_stat(path, &st) != 0 || st.kind != OS_FILE) return false;
    *size = (int64_t)st.size;
    snprintf(stamp, 40, "%lld.%09ld", (long long)st.mtime_s, st.mtime_ns);
    return true;
}

/* Writes the XXH128 hash of a file's content. */
static int hash_content(const char *path, char hex[33], struct err *e) {
    struct map m;
    TRY(map_open(&m, path, e));
    hash_xxh128_hex(hex, m.data ? (const void *)m.data : "", m.size);
    map_close(&m);
    return 0;
}

const char job_no_hash[33] = "00000000000000000000000000000000";

int job_file_hash(const struct job *j, const char *path, char hex[33], struct err *e) {
    char stamp[40], id[33], *real = io_real(path);
    int64_t size;
    if (!real || !file_stamp(real, &size, stamp)) {
        free(real);
        return err_sys(e, "%s: cannot read", path);
    }
    /* Cached in hash-<hash of path, size, stamp>.json. */
    struct buf key = {0};
    buf_fmt(&key, "%s;%" PRId64 ";%s", real, size, stamp);
    hash_xxh128_hex(id, key.data, key.len);
    char name[64];
    snprintf(name, sizeof name, "hash-%s", id);
    char *rec = record_path(j, name);
    cJSON *root = doc_find(j->state, io_base(rec), MAX_RECORD);
    const char *known = doc_str(root, "xxh128");
    int rc = 0;
    if (known && strlen(known) == 32) {
        memcpy(hex, known, 33);
    } else if (j->read_only && size > soon_hashed) {
        memcpy(hex, job_no_hash, 33);
    } else {
        rc = hash_content(real, hex, e);
        cJSON_Delete(root);
        root = doc_new();
        doc_put_str(root, "file", io_base(real));
        doc_put_str(root, "xxh128", hex);
        if (rc == 0 && !j->read_only) rc = doc_write(root, rec, true, e);
    }
    cJSON_Delete(root);
    buf_release(&key);
    free(rec);
    free(real);
    return rc;
}

bool step_intact(const char *path, const cJSON *file) {
    const char *stamp = doc_str(file, "mtime"), *hash = doc_str(file, "xxh128");
    int64_t want, size;
    char now[40], hex[33];
    struct err ignored;
    if (!stamp || !hash || !doc_i64(file, "size_bytes", &want)) return false;
    return file_stamp(path, &size, now) && size == want &&
           (strcmp(now, stamp) == 0 ||
            (hash_content(path, hex, &ignored) == 0 && strcmp(hex, hash) == 0));
}

/* Returns whether a recorded file still has its recorded size and time. */
static bool is_intact(const struct job *j, const cJSON *f) {
    const char *name = doc_str(f, "file");
    char *path = name ? job_path(j, name) : NULL;
    bool ok = path && step_intact(path, f);
    free(path);
    return ok;
}

bool step_done(struct step *s, cJSON **result) {
    char hex[33], *file = xasprintf("%s.json", s->name);
    cJSON *root = doc_find(s->job->state, file, MAX_RECORD);
    free(file);
    *result = NULL;
    if (!root) return false;
    key_hex(s, hex);
    bool ok = doc_is(root, "key", hex);
    for (const cJSON *f = doc_first(doc_get(root, "files")); ok && f; f = f->next)
        ok = is_intact(s->job, f);
    if (ok) *result = cJSON_DetachItemFromObjectCaseSensitive(root, "result");
    cJSON_Delete(root);
    return *result != NULL;
}

/* Appends the entry of a file to the list, and records that the job owns the file. */
static int add_entry(const struct step *s, cJSON *list, const char *file, struct err *e) {
    char hex[33], stamp[40], *path = job_path(s->job, file);
    int64_t size = 0;
    int rc = hash_content(path, hex, e);
    if (rc == 0 && !file_stamp(path, &size, stamp)) rc = err_sys(e, "%s: vanished", path);
    free(path);
    if (rc) return rc;
    cJSON *entry = doc_obj(list, NULL);
    doc_put_str(entry, "file", file);
    doc_put_i64(entry, "size_bytes", size);
    doc_put_str(entry, "mtime", stamp);
    doc_put_str(entry, "xxh128", hex);
    return job_name(file) == file ? claim_done(s->job, file, entry, e) : 0;
}

int step_save(struct step *s, const char *const *files, int n_files, const cJSON *result,
              struct err *e) {
    char hex[33];
    int rc = doc_check(result, e);
    cJSON *root = doc_new();
    key_hex(s, hex);
    doc_put_str(root, "step", s->name);
    doc_put_str(root, "key", hex);
    cJSON *list = doc_arr(root, "files");
    for (int i = 0; i < n_files && rc == 0; i++) rc = add_entry(s, list, files[i], e);
    doc_put_copy(root, "result", result);
    char *path = record_path(s->job, s->name);
    if (rc == 0) rc = doc_write(root, path, true, e);
    free(path);
    cJSON_Delete(root);
    return rc;
}

int step_save_files(struct step *s, const char *const *files, int n_files, struct err *e) {
    cJSON *none = doc_new();
    const int rc = step_save(s, files, n_files, none, e);
    cJSON_Delete(none);
    return rc;
}
