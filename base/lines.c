// SPDX-License-Identifier: MIT
/* base/lines.c - line-oriented log file shared by threads. */
#include "base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"

struct lines {
    const char *path, *what; /* borrowed */
    bool secret, torn;       /* torn: the last line is incomplete */
    bool stalled;            /* the pipe's reader has stopped, and a line was lost */
    int fd;
    pthread_mutex_t lock;
};

/* Removes the file's permissions for group and others. */
static int take_rights(const struct lines *l, int fd, const struct stat *st, struct err *e) {
    if (!l->secret || !S_ISREG(st->st_mode) || !(st->st_mode & 077)) return 0;
    if (st->st_uid != geteuid() || fchmod(fd, st->st_mode & 0700) != 0)
        return err_set(e, ERR_SYS,
                       "%s %s: others can read or write this file, and its permissions cannot be "
                       "changed; name another, since it will hold what clients send",
                       l->what, l->path);
    log_warn("%s %s: others could read or write this file (mode %03o); now only its owner can",
             l->what, l->path, (unsigned)(st->st_mode & 0777));
    return 0;
}

/* Examines an existing file of n bytes and sets *torn if it ends in the middle of a line.
 * ERR_USAGE: it does not hold JSON lines, so it belongs to another program. Files that cannot be
 * read pass. */
static int examine(const struct lines *l, off_t n, bool *torn, struct err *e) {
    const int fd = n > 0 ? open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    char first = '{', last = '\n';
    *torn = false;
    if (fd < 0) return 0;
    if (pread(fd, &first, 1, 0) == 1 && pread(fd, &last, 1, n - 1) == 1) *torn = last != '\n';
    close(fd);
    if (first == '{' || first == '\n') return 0;
    return err_set(e, ERR_USAGE, "%s %s: this file exists and holds no JSON lines; name another",
                   l->what, l->path);
}

/* Opens the file for appending and sets *out to the descriptor; unchanged on error. */
static int open_file(struct lines *l, int *out, struct err *e) {
    struct stat st;
    bool torn = false;
    /* A pipe may have no reader, or a stalled one; neither may block the server. */
    const int fd = open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK,
                        l->secret ? 0600 : 0666);
    if (fd < 0 && errno == ENXIO)
        return err_set(e, ERR_SYS, "%s %s: nothing reads this pipe; start its reader first",
                       l->what, l->path);
    if (fd < 0) return err_path(e, "%s %s", l->what, l->path);
    int rc = fstat(fd, &st) != 0 ? err_path(e, "%s %s", l->what, l->path) : 0;
    if (!rc && S_ISREG(st.st_mode)) rc = examine(l, st.st_size, &torn, e);
    if (!rc) rc = take_rights(l, fd, &st, e);
    if (rc) {
        close(fd);
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
    struct stat is, named;
    struct err ignored;
    int fd;
    if (fstat(l->fd, &is)) return;
    if (stat(l->path, &named) == 0 && is.st_dev == named.st_dev && is.st_ino == named.st_ino)
        return;
    if (open_file(l, &fd, &ignored)) return; /* continue with the old file */
    close(l->fd);
    l->fd = fd;
}

/* Waits up to a second for the pipe's reader; once a wait has failed, later calls do not wait.
 * Returns false if the pipe is still not writable. */
static bool wait_writable(struct lines *l) {
    struct pollfd p = {.fd = l->fd, .events = POLLOUT};
    l->stalled = l->stalled || poll(&p, 1, 1000) == 0;
    return !l->stalled;
}

/* Writes n bytes. Returns the number written. */
static size_t write_all(struct lines *l, const char *s, size_t n) {
    size_t done = 0;
    while (done < n) {
        const ssize_t k = write(l->fd, s + done, n - done);
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
    close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
