// SPDX-License-Identifier: MIT
/* base/results_cache.c - append-only file of measurement results: 16 bytes of MAGIC, then records:
 *
 *   16 bytes  XXH3-128 of version, what and which
 *    8 bytes  length n of the value, at most MAX_VALUE
 *    8 bytes  XXH64 of the preceding 24 bytes and of the value's XXH64
 *    n bytes  the value
 *
 * A record is written in a single call, so a killed process leaves it complete or truncated, never
 * mixed with another. The file is synced at most every SYNC_S seconds, so a power failure can lose
 * more records than a killed process. */
#include "base/results_cache.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"

enum { MAGIC_BYTES = 16, HEAD = 32, ID = 16, MAX_VALUE = 1 << 30, LOCK_TRIES = 50 };
static const char magic[MAGIC_BYTES + 1] = "hone-kept-v1\r\n\x1a\n";
static const double SYNC_S = 10;

struct rec {
    uint8_t id[ID];
    uint64_t at; /* file offset of the value */
    uint64_t n;
};
struct results_cache {
    char *path;
    int fd;
    uint64_t end; /* end of the valid records */
    struct rec *rec;
    size_t n, cap;
    /* Hash table [n_slots], keyed by the first bytes of the id. Values are indices into rec; -1:
     * free. */
    int32_t *slot;
    size_t n_slots;
    bool broken; /* a write failed */
    double synced;
};

/* ---- the index ------------------------------------------------------------------------------- */

/* Returns the slot of the id, or the free slot where it belongs. */
static size_t slot_of(const struct results_cache *k, const uint8_t id[ID]) {
    size_t i = (size_t)load_u64(id) & (k->n_slots - 1);
    while (k->slot[i] >= 0 && memcmp(k->rec[k->slot[i]].id, id, ID) != 0)
        i = (i + 1) & (k->n_slots - 1);
    return i;
}

/* Doubles the room for records and rebuilds the slots. */
static void grow_records(struct results_cache *k) {
    k->cap = k->cap ? 2 * k->cap : 256;
    k->rec = xreallocarray(k->rec, k->cap, sizeof *k->rec);
    free(k->slot);
    k->n_slots = 2 * k->cap;
    k->slot = xmalloc(k->n_slots * sizeof *k->slot);
    for (size_t i = 0; i < k->n_slots; i++) k->slot[i] = -1;
    for (size_t i = 0; i < k->n; i++) k->slot[slot_of(k, k->rec[i].id)] = (int32_t)i;
}

/* Adds a record of n bytes at `at`, or moves the id's record there. */
static void remember_record(struct results_cache *k, const uint8_t id[ID], uint64_t at,
                            uint64_t n) {
    if (k->n == k->cap) grow_records(k);
    const size_t s = slot_of(k, id);
    if (k->slot[s] < 0) k->slot[s] = (int32_t)k->n++;
    struct rec *r = &k->rec[k->slot[s]];
    memcpy(r->id, id, ID);
    r->at = at;
    r->n = n;
}

/* Writes the identifier: the hash of program version, work and `which`. */
static void make_id(const struct results_cache_of *w, const char *which, uint8_t id[ID]) {
    struct buf b = {0};
    char hex[33];
    buf_fmt(&b, "hone %s;%s;%s", HONE_VERSION, w->what, which);
    hash_xxh128_hex(hex, b.data, b.len);
    buf_release(&b);
    for (int i = 0; i < ID; i++) {
        const char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
        id[i] = (uint8_t)strtoul(two, NULL, 16);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Reads exactly n bytes at the offset; returns whether that succeeded. */
static bool read_at(const struct results_cache *k, void *p, uint64_t n, uint64_t off) {
    uint8_t *to = p;
    while (n) {
        const int64_t got = os_pread(k->fd, to, (size_t)n, off);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        to += got, off += (uint64_t)got, n -= (uint64_t)got;
    }
    return true;
}

/* Writes exactly n bytes at the offset; returns whether that succeeded, with errno set if not. */
static bool write_at(const struct results_cache *k, const void *p, uint64_t n, uint64_t off) {
    const uint8_t *from = p;
    while (n) {
        const int64_t put = os_pwrite(k->fd, from, (size_t)n, off);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = EIO;
        if (put <= 0) return false;
        from += put, off += (uint64_t)put, n -= (uint64_t)put;
    }
    return true;
}

/* Returns the checksum over a record's head and its value of n bytes. */
static uint64_t checksum_of(const uint8_t head[HEAD], const void *value, uint64_t n) {
    uint8_t all[ID + 16];
    memcpy(all, head, ID + 8);
    store_u64(all + ID + 8, hash_u64(value, (size_t)n));
    return hash_u64(all, sizeof all);
}

/* Reads records up to the first bad one; k->end is then its offset. */
static void load(struct results_cache *k, uint64_t size) {
    uint8_t head[HEAD];
    struct buf value = {0};
    k->end = MAGIC_BYTES;
    while (size - k->end >= HEAD && read_at(k, head, HEAD, k->end)) {
        const uint64_t n = load_u64(head + ID), at = k->end + HEAD;
        if (n > MAX_VALUE || n > size - at) break;
        buf_reset(&value);
        buf_reserve(&value, (size_t)n);
        if (!read_at(k, value.data, n, at)) break;
        if (checksum_of(head, value.data, n) != load_u64(head + ID + 8)) break;
        remember_record(k, head, at, n);
        k->end = at + n;
    }
    buf_release(&value);
}

/* Locks the file. Waits briefly, because a process that was just killed may still be exiting.
 * Succeeds on file systems without locks. False: another process has the lock. */
static bool take_lock(int fd) {
    for (int i = 0; os_lock(fd, false) != 0; i++) {
        if (errno != EWOULDBLOCK) return true;
        if (i == LOCK_TRIES) return false;
        os_sleep_ms(20);
    }
    return true;
}

/* Determines whether the file is new, a results cache, or foreign, which is an error. */
static int examine(struct results_cache *k, struct err *e) {
    struct os_stat st;
    char found[MAGIC_BYTES];
    if (os_fstat(k->fd, &st) != 0) return err_sys(e, "cannot examine %s", k->path);
    if (st.kind != OS_FILE)
        return err_set(e, ERR_USAGE, "%s is not a regular file; name another", k->path);
    if (!take_lock(k->fd))
        return err_set(e, ERR_SYS, "another hone is using %s; wait for it, or name another file",
                       k->path);
    const uint64_t size = st.size;
    if (size < MAGIC_BYTES) { /* a truncated results cache */
        if (!read_at(k, found, size, 0) || memcmp(found, magic, (size_t)size) != 0)
            return err_set(e, ERR_USAGE, "%s holds something else; name another file", k->path);
        k->end = MAGIC_BYTES;
        return write_at(k, magic, MAGIC_BYTES, 0) ? 0 : err_sys(e, "cannot write %s", k->path);
    }
    if (!read_at(k, found, MAGIC_BYTES, 0)) return err_sys(e, "cannot read %s", k->path);
    if (memcmp(found, magic, MAGIC_BYTES) != 0)
        return err_set(e, ERR_USAGE,
                       "%s holds something else, not measurements of this version; name "
                       "another file, or remove it",
                       k->path);
    load(k, size);
    if (k->end < size)
        log_warn("%s: %llu bytes at its end are damaged; the lost results are measured again",
                 k->path, (unsigned long long)(size - k->end));
    return os_truncate(k->fd, k->end) == 0 ? 0 : err_sys(e, "cannot write %s", k->path);
}

int results_cache_open(struct results_cache **out, const char *path, struct err *e) {
    struct results_cache *k = xcalloc(1, sizeof *k);
    *out = NULL;
    k->path = xstrdup(path);
    k->synced = progress_now_s();
    k->fd = os_open(path, OS_READ | OS_WRITE | OS_CREATE | OS_NO_WAIT, 0666);
    int rc = k->fd < 0 ? err_sys(e, "cannot create %s", path) : examine(k, e);
    if (!rc && !k->cap) grow_records(k);
    if (rc)
        results_cache_close(k, false);
    else
        *out = k;
    return rc;
}

struct results_cache *results_cache_look(const char *path) {
    struct os_stat st;
    char found[MAGIC_BYTES];
    struct results_cache *k = xcalloc(1, sizeof *k);
    k->path = xstrdup(path);
    k->broken = true; /* read-only */
    k->fd = os_open(path, OS_READ | OS_NO_WAIT, 0);
    const bool ours = k->fd >= 0 && os_fstat(k->fd, &st) == 0 && st.kind == OS_FILE &&
                      st.size >= MAGIC_BYTES && read_at(k, found, MAGIC_BYTES, 0) &&
                      memcmp(found, magic, MAGIC_BYTES) == 0;
    if (ours) {
        load(k, st.size);
        if (!k->cap) grow_records(k);
        return k;
    }
    results_cache_close(k, false);
    return NULL;
}

void results_cache_close(struct results_cache *k, bool remove) {
    if (!k) return;
    if (k->fd >= 0) {
        if (remove) (void)os_unlink(k->path);
        os_close(k->fd);
    }
    free(k->path);
    free(k->rec);
    free(k->slot);
    free(k);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Returns the record of the result, NULL if not stored or without a cache. */
static const struct rec *find_record(const struct results_cache_of *w, const char *which) {
    uint8_t id[ID];
    if (!w || !w->k) return NULL;
    make_id(w, which, id);
    const int32_t i = w->k->slot[slot_of(w->k, id)];
    return i < 0 ? NULL : &w->k->rec[i];
}

bool results_cache_get(const struct results_cache_of *w, const char *which, void *p, size_t n) {
    const struct rec *r = find_record(w, which);
    return r && r->n == n && read_at(w->k, p, n, r->at);
}

bool results_cache_get_buf(const struct results_cache_of *w, const char *which, struct buf *out) {
    const struct rec *r = find_record(w, which);
    if (!r) return false;
    buf_reserve(out, (size_t)r->n);
    if (!read_at(w->k, out->data + out->len, r->n, r->at)) return false;
    out->len += (size_t)r->n;
    out->data[out->len] = 0;
    return true;
}

void results_cache_put(const struct results_cache_of *w, const char *which, const void *p,
                       size_t n) {
    struct buf b = {0};
    uint8_t head[HEAD];
    if (!w || !w->k || w->k->broken || n > MAX_VALUE) return;
    struct results_cache *k = w->k;
    make_id(w, which, head);
    store_u64(head + ID, n);
    store_u64(head + ID + 8, checksum_of(head, p, n));
    buf_add(&b, head, HEAD);
    buf_add(&b, p, n);
    if (write_at(k, b.data, b.len, k->end)) {
        remember_record(k, head, k->end + HEAD, n);
        k->end += b.len;
    } else {
        log_warn("%s: %s; later measurements will be repeated if this is interrupted", k->path,
                 strerror(errno));
        k->broken = true;
        /* If this fails, reading still stops at that offset. */
        if (os_truncate(k->fd, k->end) != 0) k->broken = true;
    }
    buf_release(&b);
    if (progress_now_s() - k->synced < SYNC_S) return;
    (void)os_sync_data(k->fd);
    k->synced = progress_now_s();
}
