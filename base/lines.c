// SPDX-License-Identifier: MIT
/* base/lines.c - a file that gets lines (lines.h). */
#include "base/lines.h"

#include <errno.h>
#include <fcntl.h>
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
    bool secret, torn;       /* torn: the file ends within a line */
    int fd;
    pthread_mutex_t lock;
};

/* Leaves the file to its owner alone. */
static int take_rights(const struct lines *l, int fd, const struct stat *st, struct err *e) {
    if (!l->secret || !S_ISREG(st->st_mode) || !(st->st_mode & 077)) return 0;
    if (st->st_uid != geteuid() || fchmod(fd, st->st_mode & 0700) != 0)
        return err_set(
            e, ERR_SYS,
            "%s %s: others can read or write this file, and its rights cannot be changed; name "
            "another, since it will hold what clients send",
            l->what, l->path);
    log_warn("%s %s: others could read or write this file (mode %03o); now only its owner can",
             l->what, l->path, (unsigned)(st->st_mode & 0777));
    return 0;
}

/* Tells whether a file of n bytes ends within a line. */
static bool ends_torn(const char *path, off_t n) {
    const int fd = n > 0 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    char last = '\n';
    if (fd < 0) return false;
    if (pread(fd, &last, 1, n - 1) != 1) last = '\n';
    close(fd);
    return last != '\n';
}

static int open_file(struct lines *l, int *out, struct err *e) {
    struct stat st;
    const int fd =
        open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, l->secret ? 0600 : 0666);
    if (fd < 0) return err_path(e, "%s %s", l->what, l->path);
    int rc =
        fstat(fd, &st) != 0 ? err_path(e, "%s %s", l->what, l->path) : take_rights(l, fd, &st, e);
    if (rc) {
        close(fd);
        return rc;
    }
    l->torn = S_ISREG(st.st_mode) && ends_torn(l->path, st.st_size);
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

static void follow(struct lines *l) {
    struct stat is, named;
    struct err ignored;
    int fd;
    if (fstat(l->fd, &is)) return;
    if (stat(l->path, &named) == 0 && is.st_dev == named.st_dev && is.st_ino == named.st_ino)
        return;
    if (open_file(l, &fd, &ignored)) return; /* better there than nowhere */
    close(l->fd);
    l->fd = fd;
}

/* Writes n bytes. Returns how many came through. */
static size_t write_all(int fd, const char *s, size_t n) {
    size_t done = 0;
    while (done < n) {
        const ssize_t k = write(fd, s + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        done += (size_t)k;
    }
    return done;
}

bool lines_put(struct lines *l, const char *line) {
    struct buf b = {0};
    pthread_mutex_lock(&l->lock);
    follow(l);
    buf_fmt(&b, "%s%s\n", l->torn ? "\n" : "", line);
    const size_t done = write_all(l->fd, b.data, b.len);
    if (done) l->torn = done < b.len;
    const bool whole = done == b.len;
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
