// SPDX-License-Identifier: MIT
/* base/map.c - read-only file mappings, and detection of changes to a mapped file.
 *
 * Another program can truncate or overwrite a mapped file at any time. Reading past its new end
 * raises SIGBUS; a change inside it goes unnoticed. Every map therefore has an entry in a fixed
 * table with the file's state when it was opened. map_fault finds the file of a faulting address
 * (async-signal-safe, for the handler in cli/main.c); map_unchanged compares all states with the
 * file system, and out_commit calls it before an output gets its name. The lock guards the table.
 * The handler does not take it: the map that it looks for is in use, so no thread is closing it.
 *
 * The table belongs to the process, because a signal has no context (base/ctx.h). A job checks only
 * its own maps and those of the process's context. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/io.h"
#include "base/map.h"
#include "base/os.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/num.h"

enum {
    LIVE_MAX = 8192
}; /* A folder has at most 4096 shards. Maps beyond the table's end are not watched. */

static struct live {
    const uint8_t *begin; /* NULL: free entry */
    uint64_t size;
    char *path; /* owned by the map */
    struct os_stat st;
    const struct ctx *owner; /* the job that opened it */
} live[LIVE_MAX];
static int n_live; /* entries used so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Registers the mapping so that a fault in it can be attributed to its file. */
static void watch_map(const struct map *m, const struct os_stat *st) {
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < n_live && live[i].begin) i++;
    if (i < LIVE_MAX) {
        live[i] = (struct live){
            .begin = m->data, .size = m->size, .path = m->path, .st = *st, .owner = ctx_current()};
        if (i == n_live) n_live++;
    }
    pthread_mutex_unlock(&lock);
}

/* Removes the mapping from the registry. */
static void unwatch_map(const struct map *m) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_live; i++)
        if (live[i].begin == m->data) live[i].begin = NULL;
    pthread_mutex_unlock(&lock);
}

int map_open(struct map *m, const char *path, struct err *e) {
    *m = (struct map){0};
    int fd;
    struct os_stat st;
    TRY(io_open_input(&fd, &st, path, e));
    int rc = 0;
    if (st.kind != OS_FILE)
        rc = err_set(e, ERR_USAGE,
                     "%s is not a regular file (a pipe or device cannot be mapped); copy it to a "
                     "file first",
                     path);
    else if (st.size > 0) {
        void *p = os_map(fd, st.size);
        if (!p)
            rc = err_sys(e, "cannot map %s", path);
        else
            m->data = p, m->size = st.size;
    }
    os_close(fd);
    if (rc) return rc;
    m->path = xstrdup(path);
    m->id = (struct file_id){
        .size = st.size,
        .inode = st.ino,
        .modified = st.mtime_s * 1000000000 + st.mtime_ns,
        .changed = st.ctime_s * 1000000000 + st.ctime_ns,
        .owner = st.uid,
        .mode = st.mode,
    };
    if (m->data) watch_map(m, &st);
    return 0;
}

static void *writable(const void *p) { /* casts const away for os_unmap */
    void *q;
    memcpy(&q, &p, sizeof q);
    return q;
}

void map_detach(struct map *m) {
    if (m->data) {
        unwatch_map(m);
        os_unmap(writable(m->data), m->size);
    }
    m->data = NULL;
}

void map_close(struct map *m) {
    map_detach(m);
    free(m->path);
    *m = (struct map){0};
}

void map_drop(const struct map *m, uint64_t off, uint64_t len) {
    uint64_t page = os_page_bytes();
    if (!m->data || off >= m->size) return;
    if (len > m->size - off) len = m->size - off;
    uint64_t begin = round_up(off, page), end = off + len;
    /* Drop only whole pages inside the range, so that neighbouring data stay resident. */
    if (end != m->size) end &= ~(page - 1);
    if (begin < end) os_map_drop(writable(m->data + begin), end - begin);
}

/* ---- changes by other programs -------------------------------------------------------------- */

int map_unchanged(struct err *e) {
    int rc = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_live && !rc; i++) {
        const struct os_stat *was = &live[i].st;
        struct os_stat now;
        if (live[i].owner != ctx_current() && live[i].owner != ctx_process()) continue;
        /* The name is gone or refers to a different file; the mapped file is unchanged. */
        if (!live[i].begin || os_stat(live[i].path, &now) != 0) continue;
        if (!os_same_file(&now, was)) continue;
        if (now.size != was->size || now.mtime_s != was->mtime_s || now.mtime_ns != was->mtime_ns)
            rc = err_set(e, ERR_DATA,
                         "%s was changed by another program while it was read; run the command "
                         "again when nothing writes to it",
                         live[i].path);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int map_fault(const void *addr, char *msg, size_t cap) {
    static const char cut[] =
        " was truncated by another program while it was read; run the command again "
        "when it is complete",
                      broken[] = ": the device or file system failed to read it";
    const uint8_t *at = addr;
    for (int i = 0; i < n_live; i++) {
        const struct live *l = &live[i];
        if (!l->begin || at < l->begin || (uint64_t)(at - l->begin) >= l->size) continue;
        struct os_stat now;
        bool is_cut = os_stat(l->path, &now) == 0 && now.size < l->st.size;
        const char *part[] = {l->path, is_cut ? cut : broken};
        size_t n = 0; /* a signal handler may not use stdio */
        for (int k = 0; k < 2; k++)
            for (const char *s = part[k]; *s && n + 1 < cap; s++) msg[n++] = *s;
        msg[n] = 0;
        return is_cut ? ERR_DATA : ERR_SYS;
    }
    return 0;
}
