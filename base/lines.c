// SPDX-License-Identifier: MIT
/* base/lines.c - line-oriented log file shared by threads. */
#include "base/lines.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"

struct lines {
    const char *path, *what; /* borrowed */
    bool secret, torn;       /* torn: the last line is incomplete */
    bool stalled;            /* the pipe's reader has stopped, and a line was lost */
    int fd;
    pthread_mutex_t lock;
};

/* Removes the file's permissions for group and others. */
static int take_rights(const struct lines *l, int fd, const struct os_stat *st, struct err *e) {
    if (!l->secret || st->kind != OS_FILE || !(st->mode & 077)) return 0;
    if (st->uid != os_uid() || os_fchmod(fd, st->mode & 0700) != 0)
        return err_set(e, ERR_SYS,
                       "%s %s: others can read or write this file, and its permissions cannot be "
                       "changed; name another, since it will hold what clients send",
                       l->what, l->path);
    log_warn("%s %s: others could read or write this file (mode %03o); now only its owner can",
             l->what, l->path, (unsigned)(st->mode & 0777));
    return 0;
}

/* Examines an existing file of n bytes and sets *torn if it ends in the middle of a line.
 * ERR_USAGE: it does not hold JSON lines, so it belongs to another program. Files that cannot be
 * read pass. */
static int examine(const struct lines *l, uint64_t n, bool *torn, struct err *e) {
    const int fd = n > 0 ? os_open(l->path, OS_READ | OS_NO_WAIT, 0) : -1;
    char first = '{', last = '\n';
    *torn = false;
    if (fd < 0) return 0;
    if (os_pread(fd, &first, 1, 0) == 1 && os_pread(fd, &last, 1, n - 1) == 1) *torn = last != '\n';
    os_close(fd);
    if (first == '{' || first == '\n') return 0;
    return err_set(e, ERR_USAGE, "%s %s: this file exists and holds no JSON lines; name another",
                   l->what, l->path);
}

/* Opens the file for appending and sets *out to the descriptor; unchanged on error. */
static int open_file(struct lines *l, int *out, struct err *e) {
    struct os_stat st;
    bool torn = false;
    /* A pipe may have no reader, or a stalled one; neither may block the server. */
    const int fd =
        os_open(l->path, OS_WRITE | OS_CREATE | OS_APPEND | OS_NO_WAIT, l->secret ? 0600 : 0666);
    if (fd < 0 && errno == ENXIO)
        return err_set(e, ERR_SYS, "%s %s: nothing reads this pipe; start its reader first",
                       l->what, l->path);
    if (fd < 0) return err_path(e, "%s %s", l->what, l->path);
    int rc = os_fstat(fd, &st) != 0 ? err_path(e, "%s %s", l->what, l->path) : 0;
    if (!rc && st.kind == OS_FILE) rc = examine(l, st.size, &torn, e);
    if (!rc) rc = take_rights(l, fd, &st, e);
    if (rc) {
        os_close(fd);
        return rc;
    }
    l->torn = torn;
    *out = fd;
    return 0;
}

int lines_open(struct lines **out, const char *path, const char *what, bool secret, struct err *e) {
    struct lines *l = xcalloc(1, sizeof *l);
    l->path = path;
    l->what = what;
    l->secret = secret;
    pthread_mutex_init(&l->lock, NULL);
    *out = NULL;
    const int rc = open_file(l, &l->fd, e);
    if (rc) {
        pthread_mutex_destroy(&l->lock);
        free(l);
        return rc;
    }
    *out = l;
    return 0;
}

/* Opens the path again if it names another file now; keeps the old file on failure. */
static void follow_rotation(struct lines *l) {
    struct os_stat is, named;
    struct err ignored;
    int fd;
    if (os_fstat(l->fd, &is)) return;
    if (os_stat(l->path, &named) == 0 && os_same_file(&is, &named)) return;
    if (open_file(l, &fd, &ignored)) return; /* continue with the old file */
    os_close(l->fd);
    l->fd = fd;
}

/* Waits up to a second for the pipe's reader; once a wait has failed, later calls do not wait.
 * Returns false if the pipe is still not writable. */
static bool wait_writable(struct lines *l) {
    l->stalled = l->stalled || os_wait_writable(l->fd, 1000) == 0;
    return !l->stalled;
}

/* Writes n bytes. Returns the number written. */
static size_t write_all(struct lines *l, const char *s, size_t n) {
    size_t done = 0;
    while (done < n) {
        const int64_t k = os_write(l->fd, s + done, n - done);
        if (k < 0 && (errno == EINTR || (errno == EAGAIN && wait_writable(l)))) continue;
        if (k <= 0) break;
        done += (size_t)k;
    }
    return done;
}

bool lines_put(struct lines *l, const char *line) {
    struct buf b = {0};
    pthread_mutex_lock(&l->lock);
    follow_rotation(l);
    buf_fmt(&b, "%s%s\n", l->torn ? "\n" : "", line);
    const size_t done = write_all(l, b.data, b.len);
    if (done) l->torn = done < b.len;
    const bool whole = done == b.len;
    if (whole) l->stalled = false;
    pthread_mutex_unlock(&l->lock);
    buf_release(&b);
    return whole;
}

void lines_close(struct lines *l) {
    if (!l) return;
    os_close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
