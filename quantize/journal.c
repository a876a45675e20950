// SPDX-License-Identifier: MIT
/* quantize/journal.c - reading, checking and writing of the journal of an interrupted output. */
#include "quantize/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/os.h"

#define HEAD "hone-part "
enum { LINE = 160, FORMAT = 1, MAX_JOURNAL = 256 << 20, MAX_FILES = 65535 };

/* ---- lines ----------------------------------------------------------------------------------- */

/* Appends " <check>\n" to the line and returns its length. */
static size_t seal(char line[LINE], size_t n) {
    int k = snprintf(line + n, LINE - n, " %016" PRIx64 "\n", hash_u64(line, n));
    return n + (size_t)k;
}

/* Copies the text before the checksum to `line`. Sets *n to the length of the line including
 * checksum and newline. Returns false if the checksum does not match. */
static bool unseal(char line[LINE], const char *text, size_t left, size_t *n) {
    char want[LINE];
    const char *nl = memchr(text, '\n', left < LINE ? left : LINE - 1);
    *n = nl ? (size_t)(nl - text) + 1 : 0;
    if (*n < 19) return false;
    memcpy(line, text, *n - 18); /* the checksum takes 18 bytes: space, 16 digits, newline */
    memcpy(want, line, *n - 18);
    line[*n - 18] = 0;
    return seal(want, *n - 18) == *n && memcmp(want, text, *n) == 0;
}

/* Returns whether s is 32 lower-case hexadecimal digits. */
static bool is_hash(const char *s) {
    return strspn(s, "0123456789abcdef") == 32 && !s[32];
}

/* Returns the length of the journal up to its n-th tensor, in bytes. */
static uint64_t end_of(const struct journal *j, int64_t n) {
    return n ? j->end[n - 1] : j->head;
}

/* Appends a finished tensor; n_bytes: length of its line in the file. */
static void remember_tensor(struct journal *j, const char hash[33], double alpha,
                            uint64_t n_bytes) {
    if (j->n == j->cap) {
        j->cap = j->cap ? 2 * j->cap : 64;
        j->line = xreallocarray(j->line, (size_t)j->cap, sizeof *j->line);
        j->end = xreallocarray(j->end, (size_t)j->cap, sizeof *j->end);
    }
    memcpy(j->line[j->n].hash, hash, 33);
    j->line[j->n].alpha = alpha;
    j->end[j->n] = end_of(j, j->n) + n_bytes;
    j->n++;
}

/* Parses a journal up to the first damaged line; key: of the job that is to be resumed. */
static enum journal_found parse_journal(struct journal *j, const char *text, size_t len,
                                        const char key[33]) {
    char line[LINE], word[34];
    size_t n;
    int format, n_files;
    if (!len) return JOURNAL_NONE;
    if (!unseal(line, text, len, &n) ||
        sscanf(line, HEAD "%d %33s %d", &format, word, &n_files) != 3 || n_files < 1 ||
        n_files > MAX_FILES)
        return JOURNAL_OTHER;
    j->n_files = n_files;
    j->head = n;
    if (format != FORMAT || strcmp(word, key) != 0) return JOURNAL_OTHER;
    for (size_t at = n; at < len && unseal(line, text + at, len - at, &n); at += n) {
        int64_t i;
        uint64_t bits;
        double alpha;
        if (sscanf(line, "%" SCNd64 " %33s %" SCNx64, &i, word, &bits) != 3 || i != j->n ||
            !is_hash(word))
            break;
        memcpy(&alpha, &bits, sizeof alpha);
        remember_tensor(j, word, alpha, n);
    }
    return JOURNAL_SAME;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Writes n bytes at an offset of the journal. */
static int write_at(struct journal *j, uint64_t off, const char *p, size_t n, struct err *e) {
    while (n) {
        int64_t k = os_pwrite(j->fd, p, n, off);
        if (k < 0 && errno == EINTR) continue;
        if (k == 0) errno = EIO;
        if (k <= 0) return err_sys(e, "cannot write %s", j->path);
        p += k, off += (uint64_t)k, n -= (size_t)k;
    }
    return 0;
}

/* Opens and locks the journal; retries if its owner has removed the file in the meantime. */
static int open_locked(struct journal *j, const char *out, struct err *e) {
    for (;;) {
        struct os_stat mine, there;
        j->fd = os_open(j->path, OS_READ | OS_WRITE | OS_CREATE | OS_NO_LINK | OS_NO_WAIT, 0666);
        if (j->fd < 0)
            return err_sys(e, "cannot create %s; choose a folder you may write to with -o",
                           j->path);
        int rc = 0;
        if (os_fstat(j->fd, &mine) != 0)
            rc = err_sys(e, "cannot examine %s", j->path);
        else if (mine.kind != OS_FILE)
            rc = err_set(e, ERR_USAGE, "%s exists and is not a regular file; remove it", j->path);
        /* On file systems without locks, continue unlocked. */
        else if (os_lock(j->fd, false) != 0 && errno == EWOULDBLOCK)
            rc = err_set(e, ERR_SYS,
                         "another hone is writing %s; wait for it, or choose another name with -o",
                         out);
        else if (os_stat(j->path, &there) == 0) {
            if (os_same_file(&there, &mine)) return 0;
        } else if (errno != ENOENT) {
            rc = err_sys(e, "cannot examine %s", j->path);
        }
        os_close(j->fd); /* belongs to another process, so it must not be removed */
        j->fd = -1;
        if (rc) return rc;
    }
}

/* Empties the journal and writes its first line. */
static int start_file(struct journal *j, const char key[33], int n_files, struct err *e) {
    char line[LINE];
    int k = snprintf(line, LINE, HEAD "%d %s %d", FORMAT, key, n_files);
    size_t n = seal(line, (size_t)k);
    if (os_truncate(j->fd, 0) != 0) return err_sys(e, "cannot write %s", j->path);
    j->head = n;
    return write_at(j, 0, line, n, e);
}

int journal_open(struct journal *j, const char *out, const char key[33], int n_files,
                 enum journal_found *found, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    *found = JOURNAL_NONE;
    *j = (struct journal){.path = xasprintf("%s.part.log", out), .fd = -1};
    TRY(open_locked(j, out, e));
    TRY(io_read_file(&text, &len, j->path, MAX_JOURNAL, e));
    *found = parse_journal(j, text, len, key);
    free(text);
    if (*found != JOURNAL_SAME) return start_file(j, key, n_files, e);
    return journal_cut(j, j->n, e);
}

bool journal_is_foreign(const char *path) {
    char head[sizeof HEAD - 1];
    const int fd = os_open(path, OS_READ | OS_NO_WAIT, 0);
    const int64_t n = fd >= 0 ? os_pread(fd, head, sizeof head, 0) : 0;
    if (fd >= 0) os_close(fd);
    return n > 0 && head[0] && memcmp(head, HEAD, (size_t)n) != 0;
}

int journal_cut(struct journal *j, int64_t n, struct err *e) {
    j->n = n;
    if (os_truncate(j->fd, end_of(j, n)) == 0) return 0;
    return err_sys(e, "cannot write %s", j->path);
}

int journal_add(struct journal *j, const char hash[33], double alpha, struct err *e) {
    char line[LINE];
    uint64_t bits;
    memcpy(&bits, &alpha, sizeof bits);
    int k = snprintf(line, LINE, "%" PRId64 " %s %016" PRIx64, j->n, hash, bits);
    size_t n = seal(line, (size_t)k);
    TRY(write_at(j, end_of(j, j->n), line, n, e));
    remember_tensor(j, hash, alpha, n);
    return 0;
}

void journal_close(struct journal *j, bool remove) {
    if (j->path && j->fd >= 0) {
        if (remove) (void)os_unlink(j->path);
        os_close(j->fd);
    }
    free(j->path);
    free(j->line);
    free(j->end);
    *j = (struct journal){.fd = -1};
}
