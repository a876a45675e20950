// SPDX-License-Identifier: MIT
/* base/out.c - output files that appear complete or not at all.
 *
 * Bytes go to PATH.tmp-<pid>-<n> next to the target, or to PATH.part if a later run may resume it;
 * commit syncs the file, renames it and syncs the folder. A fixed table holds the names of open
 * temporaries, so that out_abort_all can walk it in a signal handler: a slot is filled before its
 * state becomes LIVE, and its memory is never freed. The table belongs to the process, since a
 * signal has no context. Temporaries of killed processes are removed when the same output is
 * written again. Sequential writes are buffered in units of 1 MiB; out_pwrite writes directly to
 * the file and is thread-safe. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "base/map.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/str.h"

enum { OUT_BUF_BYTES = 1 << 20, TEMP_MAX = 512, TEMP_FREE = 0, TEMP_CLAIMED, TEMP_LIVE };

/* Open temporaries. temp_count numbers them, so that two outputs of a process never have the same
 * name. */
static struct {
    atomic_int state;
    char path[OS_PATH_MAX];
} temps[TEMP_MAX];
static atomic_uint temp_count;

struct out {
    char *path;       /* final name, with links resolved */
    const char *temp; /* current name: the name of temps[slot], or `part` */
    char *part;       /* owned; NULL: the file is a temporary */
    int slot, fd;     /* slot: -1 for a part; fd: -1 once committed */
    bool overwrite, keep;
    uint64_t pos;    /* position of sequential writes, including buffered bytes */
    size_t n_buffed; /* bytes in buf, which precede pos */
    uint8_t *buf;
    pthread_mutex_t lock; /* guards pos, n_buffed and buf */
};

/* Reserves a temporary name next to path in the table that signal handlers clean up. */
static int claim_slot(int *slot, const char *path, struct err *e) {
    for (int i = 0; i < TEMP_MAX; i++) {
        int want = TEMP_FREE;
        if (!atomic_compare_exchange_strong(&temps[i].state, &want, TEMP_CLAIMED)) continue;
        unsigned count = atomic_fetch_add(&temp_count, 1);
        int n = snprintf(temps[i].path, OS_PATH_MAX, "%s.tmp-%ld-%u", path, (long)os_pid(), count);
        *slot = i;
        if (n > 0 && n < OS_PATH_MAX) return 0;
        atomic_store(&temps[i].state, TEMP_FREE);
        return err_set(e, ERR_USAGE, "the output path %.80s... is too long", path);
    }
    return err_set(e, ERR_SYS, "cannot create %s: %d output files are open already", path,
                   TEMP_MAX);
}

/* Sets the error for a failed write, from errno; n_left: bytes still to be written. */
static int write_failed(const struct out *o, uint64_t n_left, struct err *e) {
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
        const char *why = errno == ENOSPC   ? "no space left on the device"
                          : errno == EDQUOT ? "the disk quota is exhausted"
                                            : "the file size limit is reached";
        unsigned long long left = n_left;
        return err_set(e, ERR_SYS,
                       "cannot write %s: %s with %llu more bytes to write; free %llu bytes or "
                       "choose another folder",
                       o->path, why, left, left);
    }
    return err_sys(e, "cannot write %s", o->path);
}

/* Writes all n bytes at the offset, continuing after partial writes. */
static int write_at(struct out *o, const uint8_t *p, uint64_t n, uint64_t off, struct err *e) {
    while (n) {
        size_t piece = n < (UINT64_C(1) << 30) ? (size_t)n : (size_t)1 << 30;
        int64_t k = os_pwrite(o->fd, p, piece, off);
        if (k < 0 && errno == EINTR) continue;
        if (k == 0) errno = EIO;
        if (k <= 0) return write_failed(o, n, e);
        p += k, off += (uint64_t)k, n -= (uint64_t)k;
    }
    return 0;
}

/* Writes the buffered bytes; the caller holds o->lock. */
static int flush_locked(struct out *o, struct err *e) {
    if (!o->n_buffed) return 0;
    TRY(write_at(o, o->buf, o->n_buffed, o->pos - o->n_buffed, e));
    o->n_buffed = 0;
    return 0;
}

/* Rejects a target that must not be replaced. Resolves links, so that commit replaces the file that
 * a link points to. */
static int check_target(char **final, unsigned *mode, const char *path, bool overwrite,
                        struct err *e) {
    struct os_stat st;
    *mode = 0;
    *final = NULL;
    if (!path[0] || os_is_slash(path[strlen(path) - 1]))
        return err_set(e, ERR_USAGE, "the output path \"%s\" names no file", path);
    if (!os_can_be_name(path))
        return err_set(e, ERR_USAGE,
                       "the output %s cannot be a file on Windows: a name can be no device such as "
                       "NUL or COM1, end with no dot or blank, and have none of <>:\"|?*",
                       path);
    if (!strncmp(path, "/dev/std", 8) || !strncmp(path, "/dev/fd/", 8) ||
        !strncmp(path, "/proc/self/", 11))
        return err_set(
            e, ERR_USAGE,
            "the output %s is not a file: hone writes a file whole or not at all; name one", path);
    if (os_lstat(path, &st) == 0) {
        if (st.kind == OS_FOLDER || io_is_dir(path))
            return err_set(e, ERR_USAGE, "the output %s is a folder; name a file in it", path);
        /* A dangling link is not found. */
        const bool is_found = os_stat(path, &st) == 0;
        if (!is_found && errno != ENOENT && errno != ELOOP)
            return err_sys(e, "cannot examine %s", path);
        if (!is_found || st.kind != OS_FILE)
            return err_set(e, ERR_USAGE,
                           "the output %s exists and is not a regular file; name another", path);
        if (!overwrite)
            return err_set(e, ERR_USAGE, "%s exists already; use -f to replace it", path);
        *mode = st.mode & 0777;
        *final = io_real(path);
    }
    if (!*final) *final = xstrdup(path);
    return 0;
}

int out_check(const char *path, bool overwrite, struct err *e) {
    char *final;
    unsigned mode;
    int rc = check_target(&final, &mode, path, overwrite, e);
    free(final);
    return rc;
}

/* Returns the folder of a path (the caller frees it), and sets *base to its last component,
 * borrowed. */
static char *split_path(const char *path, const char **base) {
    const char *slash = io_last_slash(path);
    *base = slash ? slash + 1 : path;
    if (!slash) return xstrdup(".");
    return xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Sets and returns the error for a failed creation, from errno. */
static int cannot_create(const char *path, struct err *e) {
    const int why = errno;
    const char *base;
    char *dir = split_path(path, &base);
    const bool lacks_dir = !io_is_dir(dir);
    free(dir);
    errno = why;
    if (lacks_dir)
        return err_path(e, "cannot create %s; create its folder first, or choose another with -o",
                        path);
    return err_sys(e, "cannot create %s; choose a folder you may write to with -o", path);
}

/* Returns whether `name` is a temporary of `base`: BASE.tmp-DIGITS-DIGITS. */
static bool is_temp_of(const char *name, const char *base) {
    const size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, ".tmp-", 5) != 0) return false;
    const char *p = name + n + 5, *digits = "0123456789";
    const size_t pid = strspn(p, digits);
    if (!pid || p[pid] != '-') return false;
    const size_t count = strspn(p + pid + 1, digits);
    return count && !p[pid + 1 + count];
}

/* Returns whether `name` is a temporary of any model file, or of its moments (mix/sequential.c),
 * that hone wrote, whose process has ended. The next run may use a different output name. */
static bool is_orphan(const char *name, const struct os_stat *st) {
    static const char *const ends[] = {".gguf", ".gguf.moments"};
    static const char mark[] = ".tmp-";
    const char *at = NULL;
    bool temp = false;
    for (const char *p = name; (p = strstr(p, mark)); p++) at = p;
    if (!at || st->uid != os_uid()) return false;
    char *base = xstrndup(name, (size_t)(at - name));
    for (size_t i = 0; i < COUNT_OF(ends); i++) temp = temp || str_ends(base, ends[i]);
    temp = temp && is_temp_of(name, base);
    free(base);
    const long pid = temp ? strtol(at + sizeof mark - 1, NULL, 10) : 0;
    return os_process_ended(pid);
}

/* Removes temporaries of killed processes from the folder: all for this output, and those for other
 * models whose process has ended. A temporary in use is locked, which can be relied on for local
 * disks. On other file systems, locks may be visible on one machine only, so only temporaries of
 * the same output that have not been written to for a minute are removed. Failures are ignored. */
static void sweep_temps(const char *final) {
    const char *base;
    char *dir = split_path(final, &base);
    struct io_names l = {0};
    struct err ignored;
    struct os_stat st;
    (void)io_list(&l, dir, &ignored);
    for (int i = 0; i < l.n; i++) {
        if (!strstr(l.v[i], ".tmp-")) continue;
        char *path = xasprintf("%s/%s", dir, l.v[i]);
        const int fd = os_open(path, OS_READ | OS_WRITE | OS_NO_LINK | OS_NO_WAIT, 0);
        if (fd >= 0 && os_fstat(fd, &st) == 0 && st.kind == OS_FILE &&
            (is_temp_of(l.v[i], base) ? os_is_local(fd) || time(NULL) - st.mtime_s > 60
                                      : os_is_local(fd) && is_orphan(l.v[i], &st)) &&
            os_lock(fd, false) == 0)
            (void)os_unlink(path);
        if (fd >= 0) os_close(fd);
        free(path);
    }
    io_names_release(&l);
    free(dir);
}

/* Creates the struct, which takes ownership of `final`. */
static struct out *new_out(char *final, int fd, unsigned mode, bool overwrite) {
    struct out *o = xcalloc(1, sizeof *o);
    if (mode) (void)os_fchmod(fd, mode);
    o->path = final;
    o->slot = -1;
    o->fd = fd;
    o->overwrite = overwrite;
    o->buf = xmalloc(OUT_BUF_BYTES);
    pthread_mutex_init(&o->lock, NULL);
    return o;
}

/* Locks a new temporary. Returns 0 or an errno; EEXIST: another process took the file for a
 * leftover and removed it before it was locked. */
static int take_lock(int fd, const char *path) {
    struct os_stat is, named;
    if (os_lock(fd, false) != 0) return errno == EWOULDBLOCK ? EEXIST : 0;
    if (os_fstat(fd, &is) != 0) return errno;
    if (os_lstat(path, &named) != 0) return errno == ENOENT ? EEXIST : errno;
    return os_same_file(&is, &named) ? 0 : EEXIST;
}

int out_open(struct out **out, const char *path, bool overwrite, struct err *e) {
    *out = NULL;
    char *final;
    unsigned mode;
    TRY(check_target(&final, &mode, path, overwrite, e));
    int slot = -1, fd;
    sweep_temps(final);
    do { /* a killed process with our pid may have left this name */
        int rc = claim_slot(&slot, final, e);
        if (rc) {
            free(final);
            return rc;
        }
        fd = os_open(temps[slot].path, OS_READ | OS_WRITE | OS_NEW, 0666);
        const int why = fd >= 0 ? take_lock(fd, temps[slot].path) : 0;
        if (why) {
            if (why != EEXIST) (void)os_unlink(temps[slot].path); /* our own file */
            os_close(fd);
            fd = -1;
            errno = why;
        }
        atomic_store(&temps[slot].state, fd >= 0 ? TEMP_LIVE : TEMP_FREE);
    } while (fd < 0 && errno == EEXIST);
    if (fd < 0) {
        int rc = cannot_create(path, e);
        free(final);
        return rc;
    }
    *out = new_out(final, fd, mode, overwrite);
    (*out)->slot = slot;
    (*out)->temp = temps[slot].path;
    return 0;
}

int out_open_part(struct out **out, const char *path, bool overwrite, bool fresh, struct err *e) {
    *out = NULL;
    char *final;
    unsigned mode;
    struct os_stat st;
    TRY(check_target(&final, &mode, path, overwrite, e));
    char *part = xasprintf("%s.part", final);
    sweep_temps(final);
    int flags = OS_READ | OS_WRITE | OS_CREATE | OS_NO_LINK | OS_NO_WAIT | (fresh ? OS_EMPTY : 0);
    int fd = os_open(part, flags, 0666), rc = 0;
    if (fd < 0)
        rc = cannot_create(part, e);
    else if (os_fstat(fd, &st) != 0)
        rc = err_sys(e, "cannot examine %s", part);
    else if (st.kind != OS_FILE)
        rc = err_set(e, ERR_USAGE, "%s exists and is not a regular file; remove it", part);
    if (rc) {
        if (fd >= 0) os_close(fd);
        free(part);
        free(final);
        return rc;
    }
    *out = new_out(final, fd, mode, overwrite);
    (*out)->temp = (*out)->part = part;
    return 0;
}

/* Appends n bytes to the buffer or the file; the caller holds o->lock. */
static int write_locked(struct out *o, const uint8_t *p, uint64_t n, struct err *e) {
    if (n > (uint64_t)INT64_MAX - o->pos)
        return err_set(e, ERR_SYS, "cannot write %s: the file would be too large", o->path);
    if (n > OUT_BUF_BYTES - o->n_buffed) TRY(flush_locked(o, e));
    if (n >= OUT_BUF_BYTES)
        TRY(write_at(o, p, n, o->pos, e));
    else if (n) {
        memcpy(o->buf + o->n_buffed, p, (size_t)n);
        o->n_buffed += (size_t)n;
    }
    o->pos += n;
    return 0;
}

int out_write(struct out *o, const void *p, uint64_t n, struct err *e) {
    pthread_mutex_lock(&o->lock);
    int rc = write_locked(o, p, n, e);
    pthread_mutex_unlock(&o->lock);
    return rc;
}

int out_flush(struct out *o, struct err *e) {
    pthread_mutex_lock(&o->lock);
    int rc = flush_locked(o, e);
    pthread_mutex_unlock(&o->lock);
    return rc;
}

int out_pad(struct out *o, uint64_t n_zero_bytes, struct err *e) {
    static const uint8_t zeros[4096];
    while (n_zero_bytes) {
        uint64_t n = n_zero_bytes < sizeof zeros ? n_zero_bytes : sizeof zeros;
        TRY(out_write(o, zeros, n, e));
        n_zero_bytes -= n;
    }
    return 0;
}

int out_pwrite(struct out *o, const void *p, uint64_t n, uint64_t off, struct err *e) {
    if (off > INT64_MAX || n > (uint64_t)INT64_MAX - off)
        return err_set(e, ERR_SYS, "cannot write %s: the file would be too large", o->path);
    pthread_mutex_lock(&o->lock);
    bool overlap = off < o->pos && off + n > o->pos - o->n_buffed;
    /* First write the buffered bytes in this range, which would otherwise overwrite these bytes
     * later. */
    int rc = overlap ? flush_locked(o, e) : 0;
    pthread_mutex_unlock(&o->lock);
    return rc ? rc : write_at(o, p, n, off, e);
}

int out_resize(struct out *o, uint64_t size, struct err *e) {
    if (size > INT64_MAX)
        return err_set(e, ERR_SYS, "cannot write %s: the file would be too large", o->path);
    struct os_stat st;
    if (os_fstat(o->fd, &st) != 0) return err_sys(e, "cannot examine %s", o->path);
    uint64_t grows = size > st.size ? size - st.size : 0;
    int rc;
    do rc = grows ? os_reserve(o->fd, size) : os_truncate(o->fd, size);
    while (rc != 0 && errno == EINTR);
    if (rc == 0) return 0;
    if (!grows || (errno != EOPNOTSUPP && errno != ENOSYS)) return write_failed(o, grows, e);
    /* This file system cannot reserve space; at least check the free space. */
    TRY(io_need_space(o->path, grows, e));
    return os_truncate(o->fd, size) == 0 ? 0 : write_failed(o, grows, e);
}

int out_read_back(struct out *o, void *p, uint64_t n, uint64_t off, struct err *e) {
    uint8_t *at = p;
    while (n) {
        int64_t k = os_pread(o->fd, at, n < INT32_MAX ? (size_t)n : INT32_MAX, off);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return err_sys(e, "cannot read %s", o->temp);
        if (k == 0) return err_set(e, ERR_DATA, "%s ends too early", o->temp);
        at += k, off += (uint64_t)k, n -= (uint64_t)k;
    }
    return 0;
}

int out_cut(struct out *o, uint64_t size, struct err *e) {
    pthread_mutex_lock(&o->lock);
    int rc = flush_locked(o, e);
    if (!rc && os_truncate(o->fd, size) != 0) rc = write_failed(o, size, e);
    o->pos = size;
    pthread_mutex_unlock(&o->lock);
    return rc;
}

uint64_t out_size(const struct out *o) {
    struct os_stat st;
    return os_fstat(o->fd, &st) == 0 && st.size > 0 ? st.size : 0;
}

void out_keep(struct out *o) {
    o->keep = o->part != NULL;
}

int out_sync(struct out *o, struct err *e) {
    TRY(out_flush(o, e));
    return os_sync(o->fd) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : write_failed(o, 0, e);
}

/* Flushes the folder of `path` to disk; failures are ignored. */
static void sync_folder(const char *path) {
    const char *base;
    char *dir = split_path(path, &base);
    int fd = os_open(dir, OS_READ | OS_DIR, 0);
    free(dir);
    if (fd < 0) return;
    (void)os_sync(fd); /* best effort: some file systems refuse it */
    os_close(fd);
}

/* Gives the temporary its final name. A file that appeared since out_open is replaced only with
 * `overwrite`. */
static int rename_temp(const struct out *o, struct err *e) {
    const char *temp = o->temp;
    int rc = -1;
    errno = ENOSYS;
    if (!o->overwrite) rc = os_rename_new(temp, o->path);
    if (rc != 0 && errno == EEXIST)
        return err_set(e, ERR_USAGE, "%s was created in the meantime; use -f to replace it",
                       o->path);
    if (rc != 0 && (errno == ENOSYS || errno == EINVAL)) rc = os_rename(temp, o->path);
    return rc == 0 ? 0 : err_sys(e, "cannot rename %s to %s", temp, o->path);
}

int out_commit(struct out *o, struct err *e) {
    TRY(out_flush(o, e));
    TRY(map_unchanged(e)); /* discards output whose inputs changed meanwhile */
    TRY(out_sync(o, e));
    TRY(rename_temp(o, e));
    if (o->slot >= 0) atomic_store(&temps[o->slot].state, TEMP_FREE);
    int rc = os_close(o->fd) == 0 ? 0 : err_sys(e, "cannot close %s", o->path);
    o->fd = -1;
    sync_folder(o->path);
    return rc;
}

void out_close(struct out *o) {
    if (!o) return;
    if (o->fd >= 0) {
        struct err ignored;
        if (o->keep) (void)flush_locked(o, &ignored);
        os_close(o->fd);
        if (!o->keep) (void)os_unlink(o->temp);
        if (o->slot >= 0) atomic_store(&temps[o->slot].state, TEMP_FREE);
    }
    pthread_mutex_destroy(&o->lock);
    free(o->buf);
    free(o->part);
    free(o->path);
    free(o);
}

int out_apart(const char *path, const char *const *in, size_t n, struct err *e) {
    struct os_stat a, b;
    if (os_stat(path, &a) != 0) return 0;
    for (size_t i = 0; i < n; i++)
        if (in[i] && os_stat(in[i], &b) == 0 && os_same_file(&a, &b))
            return err_set(e, ERR_USAGE, "%s: input and output are the same file", path);
    return 0;
}

int out_try(const char *path, bool overwrite, struct err *e) {
    struct out *o;
    TRY(out_open(&o, path, overwrite, e));
    out_close(o);
    return 0;
}

void out_abort_all(void) {
    for (int i = 0; i < TEMP_MAX; i++)
        if (atomic_load(&temps[i].state) == TEMP_LIVE) (void)os_unlink(temps[i].path);
}

/* Writes a file of n bytes; private: only its owner may read it. */
static int write_whole(const char *path, const void *p, size_t n, bool overwrite, bool private,
                       struct err *e) {
    struct out *o;
    TRY(out_open(&o, path, overwrite, e));
    int rc = private && os_fchmod(o->fd, 0600) != 0
                 ? err_sys(e, "cannot make %s readable by its owner only", path)
                 : out_write(o, p, n, e);
    if (!rc) rc = out_commit(o, e);
    out_close(o);
    return rc;
}

int out_write_file(const char *path, const void *p, size_t n, bool overwrite, struct err *e) {
    return write_whole(path, p, n, overwrite, false, e);
}

int out_write_private(const char *path, const void *p, size_t n, bool overwrite, struct err *e) {
    return write_whole(path, p, n, overwrite, true, e);
}

int out_write_again(const char *path, const void *p, size_t n, bool overwrite, struct err *e) {
    char *was = NULL;
    size_t len;
    struct err ignored;
    bool is_file = false;
    if (!overwrite && io_is_file(&is_file, path, &ignored) == 0 && is_file &&
        io_read_file(&was, &len, path, (uint64_t)n + 1, &ignored) == 0 && len == n &&
        memcmp(was, p, n) == 0)
        overwrite = true;
    free(was);
    return out_write_file(path, p, n, overwrite, e);
}
