// SPDX-License-Identifier: MIT
/* base/io.c - whole-file input, folder listings and paths. Mapping is in map.c, writing in out.c.
 *
 * Inputs are opened read-only and non-blocking, so that a pipe in place of a model gives an error,
 * not a hang. Messages name the path and the remedy. */
#include "base/io.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/os.h"

int io_open_input(int *fd, struct os_stat *st, const char *path, struct err *e) {
    *fd = os_open(path, OS_READ | OS_NO_WAIT, 0);
    if (*fd < 0) return err_path(e, "cannot open %s", path);
    int rc = 0;
    if (os_fstat(*fd, st) != 0)
        rc = err_sys(e, "cannot examine %s", path);
    else if (st->kind == OS_FOLDER)
        rc = err_set(e, ERR_USAGE, "%s is a folder; name a file", path);
    if (rc) os_close(*fd);
    return rc;
}

/* Sets and returns ERR_DATA for a file above the limit of max_bytes. */
static int too_large(const char *path, uint64_t max_bytes, struct err *e) {
    return err_set(e, ERR_DATA, "%s is larger than the limit of %llu bytes for such a file", path,
                   (unsigned long long)max_bytes);
}

/* Reads to the end of the file, because pipes and files in /proc do not report their size. */
static int read_all(int fd, struct buf *b, const char *path, uint64_t max_bytes, struct err *e) {
    for (;;) {
        TRY(buf_try_reserve(b, 64 << 10, path, e));
        uint64_t room = b->cap - b->len - 1, left = max_bytes - b->len;
        if (room > left) room = left + 1; /* one extra byte detects a file that is too long */
        int64_t n = os_read(fd, b->data + b->len, (size_t)room);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_sys(e, "cannot read %s", path);
        if (n == 0) break;
        b->len += (size_t)n;
        if (b->len > max_bytes) return too_large(path, max_bytes, e);
    }
    b->data[b->len] = 0;
    return 0;
}

int io_read_file(char **out, size_t *len, const char *path, uint64_t max_bytes, struct err *e) {
    bool from_stdin = strcmp(path, "-") == 0;
    const char *shown = from_stdin ? "standard input" : path;
    int fd = 0, rc = 0;
    *out = NULL;
    *len = 0;
    if (max_bytes > SIZE_MAX / 4) max_bytes = SIZE_MAX / 4;
    struct buf b = {0};
    if (!from_stdin) {
        struct os_stat st;
        TRY(io_open_input(&fd, &st, path, e));
        if (st.kind == OS_FILE && st.size > max_bytes)
            TRY_GOTO(done, rc, too_large(path, max_bytes, e));
        if (st.kind == OS_FILE)
            rc = buf_try_reserve(&b, (size_t)st.size + (64 << 10), path, e);
        else
            (void)os_set_wait(fd);
    }
    if (!rc) rc = read_all(fd, &b, shown, max_bytes, e);
    if (rc) goto done;
    *len = b.len;
    *out = buf_take(&b);
done:
    buf_release(&b);
    if (!from_stdin) os_close(fd);
    return rc;
}

/* Returns whether stat()'s errno means that the file does not exist; other values only mean that it
 * could not be checked. */
static bool is_absent(int error) {
    return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG;
}

bool io_exists(const char *path) {
    struct os_stat st;
    if (os_stat(path, &st) == 0) return true;
    /* stat failed for some other reason. Check in a second way, so that a missing file never counts
     * as present. */
    return !is_absent(errno) && (os_exists(path) || !is_absent(errno));
}

/* Calls stat, and sets *there to whether the path exists. Fails for errors other than a missing
 * file. */
static int stat_path(bool *there, struct os_stat *st, const char *path, struct err *e) {
    *there = os_stat(path, st) == 0;
    return *there || is_absent(errno) ? 0 : err_sys(e, "cannot examine %s", path);
}
int io_there(bool *yes, const char *path, struct err *e) {
    struct os_stat st;
    return stat_path(yes, &st, path, e);
}

bool io_is_dir(const char *path) {
    struct os_stat st;
    if (os_stat(path, &st) == 0) return st.kind == OS_FOLDER;
    if (is_absent(errno)) return false;
    /* A folder that cannot be inspected must not be mistaken for a file, or it would be refused for
     * the wrong reason. */
    int fd = os_open(path, OS_READ | OS_DIR, 0);
    if (fd >= 0) os_close(fd);
    return fd >= 0;
}

int io_is_file(bool *yes, const char *path, struct err *e) {
    struct os_stat st;
    TRY(stat_path(yes, &st, path, e));
    *yes = *yes && st.kind == OS_FILE;
    return 0;
}

int io_file_size(const char *path, uint64_t *size, struct err *e) {
    struct os_stat st;
    if (os_stat(path, &st) != 0) return err_path(e, "cannot open %s", path);
    if (st.kind != OS_FILE) return err_set(e, ERR_USAGE, "%s is not a regular file", path);
    *size = st.size;
    return 0;
}

void io_names_add(struct io_names *l, const char *name) {
    if ((l->n & (l->n - 1)) == 0) /* the capacity is 1, 2, 4, ... */
        l->v = xreallocarray(l->v, l->n ? 2 * (size_t)l->n : 1, sizeof *l->v);
    l->v[l->n++] = xstrdup(name);
}

void io_names_release(struct io_names *l) {
    for (int i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
    *l = (struct io_names){0};
}

/* Orders two `char *` by bytes, for qsort. */
static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void io_names_sort(struct io_names *l) {
    if (l->n) qsort(l->v, (size_t)l->n, sizeof *l->v, by_bytes);
}

int io_list(struct io_names *l, const char *dir, struct err *e) {
    uint64_t max = limit_of(LIM_DIR_NAMES);
    int rc = 0;
    *l = (struct io_names){0};
    struct os_dir *d = os_dir_open(dir);
    if (!d) return err_path(e, "cannot open %s", dir);
    while (rc == 0) {
        const char *name = os_dir_next(d);
        if (!name && errno) rc = err_sys(e, "cannot read the folder %s", dir);
        if (!name) break;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if ((uint64_t)l->n == max)
            rc = err_set(e, ERR_DATA, "%s: more than %llu names in one folder", dir,
                         (unsigned long long)max);
        else
            io_names_add(l, name);
    }
    os_dir_close(d);
    io_names_sort(l);
    return rc;
}

int io_make_dir(const char *path, struct err *e) {
    char *p = xstrdup(path);
    int rc = 0;
    for (char *s = p; !rc; s++) {
        if (*s && (!os_is_slash(*s) || s == p)) continue;
        char was = *s;
        *s = 0;
        if (os_mkdir(p, 0777) != 0 && !(errno == EEXIST && io_is_dir(p))) {
            if (errno == EEXIST)
                rc =
                    err_set(e, ERR_USAGE, "cannot create folder %s: a file of that name exists", p);
            else
                rc = err_sys(e, "cannot create folder %s", p);
        }
        *s = was;
        if (!was) break;
    }
    free(p);
    return rc;
}

int io_need_space(const char *path, uint64_t n_bytes, struct err *e) {
    char *p = xstrdup(path);
    while (p[0] && !io_is_dir(p)) { /* find the nearest existing folder */
        char *slash = io_last_slash(p);
        if (!slash)
            p[0] = 0;
        else
            slash[slash == p && slash[1] ? 1 : 0] = 0;
    }
    const char *dir = p[0] ? p : (os_is_slash(path[0]) ? "/" : ".");
    uint64_t have;
    int rc = 0;
    if (os_free_space(dir, &have) != 0)
        rc = err_sys(e, "cannot examine the file system of %s", path);
    else if (have < n_bytes)
        rc = err_set(e, ERR_SYS,
                     "not enough space for %s: %llu bytes needed, %llu free in %s; free %llu "
                     "bytes or choose another folder",
                     path, (unsigned long long)n_bytes, (unsigned long long)have, dir,
                     (unsigned long long)(n_bytes - have));
    free(p);
    return rc;
}

char *io_join(const char *dir, const char *name) {
    size_t n = strlen(dir);
    if (!n) return xstrdup(name);
    return xasprintf("%s%s%s", dir, os_is_slash(dir[n - 1]) ? "" : "/", name);
}

char *io_real(const char *path) {
    return os_real(path);
}

char *io_last_slash(const char *path) {
    size_t n = strlen(path);
    while (n && !os_is_slash(path[n - 1])) n--;
    return n ? (char *)(uintptr_t)(path + n - 1) : NULL;
}

const char *io_base(const char *path) {
    const char *slash = io_last_slash(path);
    return slash ? slash + 1 : path;
}

/* Returns the last folder and the name of a path. */
static const char *with_folder(const char *path) {
    const char *p = io_base(path);
    if (p == path) return p;
    for (p--; p > path && !os_is_slash(p[-1]);) p--;
    return p;
}

/* Counts the different paths that have the same end as path i, and sets *nth to the position of
 * path i among them, from 1. end: returns the end of a path. */
static int n_alike(const char *const *path, int n, int i, const char *(*end)(const char *),
                   int *nth) {
    int count = 0;
    for (int k = 0; k < n; k++) {
        bool seen = strcmp(end(path[i]), end(path[k])) != 0;
        for (int j = 0; j < k && !seen; j++) seen = strcmp(path[j], path[k]) == 0;
        if (seen) continue;
        count++;
        if (strcmp(path[i], path[k]) == 0) *nth = count;
    }
    return count;
}

void io_short_names(const char *const *path, int n, char **name) {
    for (int i = 0; i < n; i++) {
        int nth = 0;
        if (n_alike(path, n, i, io_base, &nth) == 1)
            name[i] = xstrdup(io_base(path[i]));
        else if (n_alike(path, n, i, with_folder, &nth) == 1)
            name[i] = xstrdup(with_folder(path[i]));
        else
            name[i] = xasprintf("%d/%s", nth, with_folder(path[i]));
    }
}
