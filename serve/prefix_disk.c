// SPDX-License-Identifier: MIT
/* serve/prefix_disk.c - on-disk prefix cache: files of the entries, eviction and lookup.
 *
 * NAME.ids, little-endian:
 *
 *     char magic[8] "honepfx\n", u64 key, u64 tokens, u64 last eight bytes of NAME.seq (its
 *     checksum), i32 token ids[tokens], u64 xxh64 of all before
 *
 * NAME.seq is written first. An entry that lacks one of the files is incomplete. */
#include "serve/prefix_disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/out.h"

enum { HEAD = 32, LEAST = 512, MOST = 4096, NAME = 33, KEEP_DAYS = 30 };
static const char magic[8] = {'h', 'o', 'n', 'e', 'p', 'f', 'x', '\n'};

struct entry {
    char name[NAME];
    int32_t *ids; /* [n] */
    int64_t n;
    uint64_t key, sum; /* sum: checksum of the .seq file */
    uint64_t n_bytes;  /* size of both files */
    int64_t used_s;    /* time of the last use */
};
struct prefix_disk {
    struct session *s;
    char *dir;
    int lock;
    uint64_t max_bytes;
    int64_t n_vocab, n_ctx;
    bool can_trim;
    struct entry *entry;
    int n, cap;
    struct prefix_disk_counts count;
};

/* Returns the path of an entry's file, freed by the caller. */
static char *path_of(const struct prefix_disk *f, const char *name, const char *ending) {
    struct buf b = {0};
    buf_fmt(&b, "%s/%s%s", f->dir, name, ending);
    return buf_take(&b);
}

/* Writes the name of an entry's files: a hash of its tokens and key. */
static void hash_name(const int32_t *ids, int64_t n, uint64_t key, char name[NAME]) {
    struct xxh128 *x = xxh128_new();
    xxh128_add(x, &key, sizeof key);
    xxh128_add(x, ids, (size_t)n * sizeof *ids);
    xxh128_hex(x, name);
    xxh128_free(x);
}

/* ---- entries ---- */

/* Deletes the files of an entry; ignores errors. */
static void remove_files(const struct prefix_disk *f, const char *name) {
    static const char *const ending[] = {".ids", ".seq"};
    for (int i = 0; i < 2; i++) {
        char *path = path_of(f, name, ending[i]);
        (void)os_unlink(path);
        free(path);
    }
}

/* Deletes entry i and its files; the last entry takes its place. */
static void remove_entry(struct prefix_disk *f, int i) {
    remove_files(f, f->entry[i].name);
    f->count.n_bytes -= f->entry[i].n_bytes;
    free(f->entry[i].ids);
    f->entry[i] = f->entry[--f->n];
}

/* Adds an entry and takes ownership of its ids. */
static void add_entry(struct prefix_disk *f, const struct entry *x) {
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 16;
        f->entry = xreallocarray(f->entry, (size_t)f->cap, sizeof *f->entry);
    }
    f->entry[f->n++] = *x;
    f->count.n_bytes += x->n_bytes;
}

/* Returns the index of the entry with exactly these tokens; -1: not found. */
static int find_entry(const struct prefix_disk *f, const int32_t *ids, int64_t n, uint64_t key) {
    for (int i = 0; i < f->n; i++)
        if (f->entry[i].n == n && f->entry[i].key == key &&
            memcmp(f->entry[i].ids, ids, (size_t)n * sizeof *ids) == 0)
            return i;
    return -1;
}

/* Removes the least recently used entries until n more bytes fit. False: they can never fit. */
static bool make_room(struct prefix_disk *f, uint64_t n) {
    while (f->n && (f->count.n_bytes + n > f->max_bytes || f->n >= MOST)) {
        int oldest = 0;
        for (int i = 1; i < f->n; i++)
            if (f->entry[i].used_s < f->entry[oldest].used_s) oldest = i;
        remove_entry(f, oldest);
        f->count.n_dropped++;
    }
    return n <= f->max_bytes;
}

/* ---- reading ---- */

/* Sets *sum to the last eight bytes of a file, and *size to its size in bytes. */
static int tail(const char *path, uint64_t *sum, uint64_t *size, struct err *e) {
    uint8_t b[8];
    struct os_stat st;
    int fd;
    TRY(io_open_input(&fd, &st, path, e));
    const bool ok = st.kind == OS_FILE && st.size >= 8 && os_pread(fd, b, 8, st.size - 8) == 8;
    os_close(fd);
    if (!ok) return err_set(e, ERR_DATA, "%s: the file is damaged", path);
    *sum = load_u64(b);
    *size = st.size;
    return 0;
}

/* Parses the len bytes of an .ids file into x, except x->name; the caller frees x->ids. Returns
 * ERR_DATA if the file, `path` in messages, is damaged. */
static int parse(const struct prefix_disk *f, const uint8_t *p, size_t len, struct entry *x,
                 const char *path, struct err *e) {
    const uint64_t n = len >= HEAD + 8 ? load_u64(p + 16) : 0;
    if (!n || memcmp(p, magic, sizeof magic) != 0 || n > (uint64_t)f->n_ctx ||
        len != HEAD + 4 * n + 8 || load_u64(p + len - 8) != hash_u64(p, len - 8))
        return err_set(e, ERR_DATA, "%s: the file is damaged", path);
    x->key = load_u64(p + 8);
    x->n = (int64_t)n;
    x->sum = load_u64(p + 24);
    x->ids = xcalloc((size_t)n, sizeof *x->ids);
    for (int64_t i = 0; i < x->n; i++) {
        x->ids[i] = (int32_t)load_u32(p + HEAD + 4 * i);
        if (x->ids[i] >= 0 && x->ids[i] < f->n_vocab) continue;
        free(x->ids);
        return err_set(e, ERR_DATA, "%s: token id out of range", path);
    }
    return 0;
}

/* Reads an entry's files. ERR_DATA: damaged or incomplete. */
static int read_entry(const struct prefix_disk *f, const char *name, struct entry *x,
                      struct err *e) {
    char *ids = path_of(f, name, ".ids"), *seq = path_of(f, name, ".seq"), *text = NULL;
    char is[NAME];
    size_t len = 0;
    uint64_t sum = 0, size = 0;
    struct os_stat st = {0};
    *x = (struct entry){.n = 0};
    int rc = io_read_file(&text, &len, ids, HEAD + 4 * (uint64_t)f->n_ctx + 8, e);
    if (!rc) rc = parse(f, (const uint8_t *)text, len, x, ids, e);
    if (!rc) {
        hash_name(x->ids, x->n, x->key, is);
        rc = tail(seq, &sum, &size, e);
        if (!rc && (strcmp(is, name) != 0 || sum != x->sum))
            rc = err_set(e, ERR_DATA, "%s: name or checksum does not match", ids);
        if (rc) free(x->ids);
    }
    if (!rc && os_stat(ids, &st) == 0) x->used_s = st.mtime_s;
    x->n_bytes = size + len;
    memcpy(x->name, name, NAME - 1);
    free(text);
    free(ids);
    free(seq);
    return rc;
}

/* Returns whether a file name is that of an entry. */
static bool is_name(const char *s) {
    return strspn(s, "0123456789abcdef") == NAME - 1 &&
           (strcmp(s + NAME - 1, ".ids") == 0 || strcmp(s + NAME - 1, ".seq") == 0);
}

/* Reads all entries of the folder. Removes those that are damaged or have expired. */
static int read_all(struct prefix_disk *f, struct err *e) {
    struct io_names l = {0};
    const int64_t old = (int64_t)time(NULL) - (int64_t)KEEP_DAYS * 24 * 3600;
    const int rc = io_list(&l, f->dir, e);
    for (int i = 0; i < l.n && !rc; i++) {
        struct entry x;
        struct err why = {0};
        char name[NAME] = {0};
        if (!is_name(l.v[i])) continue;
        memcpy(name, l.v[i], NAME - 1);
        const bool ids = l.v[i][NAME] == 'i';
        if (!ids && i && strncmp(l.v[i - 1], name, NAME - 1) == 0)
            continue; /* handled together with its .ids */
        const int bad = read_entry(f, name, &x, &why);
        if (bad) {
            log_warn("--cache-dir: %s; removed", why.msg);
            f->count.n_refused++;
        } else if (x.used_s >= old) {
            add_entry(f, &x);
            continue;
        } else
            free(x.ids);
        remove_files(f, name);
    }
    io_names_release(&l);
    (void)make_room(f, 0);
    return rc;
}

/* ---- opening ---- */

/* Returns the path of the folder for a model and the options it is computed with; the caller frees
 * it. Sequences cannot be used by any other model. */
static char *folder(const struct session *s, const char *dir) {
    struct buf b = {0}, path = {0};
    char name[33];
    buf_str(&b, "1 " HONE_VERSION " ");
    session_rows(s, &b);
    hash_xxh128_hex(name, b.data, b.len);
    buf_fmt(&path, "%s/%s", dir, name);
    buf_release(&b);
    return buf_take(&path);
}

/* Creates the folder, checks that only its owner can access it, and locks it. */
static int take_folder(struct prefix_disk *f, const char *dir, struct err *e) {
    struct os_stat st;
    TRY(io_make_dir(dir, e));
    if (os_mkdir(f->dir, 0700) && errno != EEXIST) return err_path(e, "cannot create %s", f->dir);
    if (os_lstat(f->dir, &st) || st.kind != OS_FOLDER || st.uid != os_uid() || (st.mode & 077))
        return err_set(e, ERR_SYS, "%s must be a folder that only its owner can use", f->dir);
    char *lock = path_of(f, "lock", "");
    f->lock = os_open(lock, OS_READ | OS_WRITE | OS_CREATE | OS_NO_LINK, 0600);
    int rc = 0;
    if (f->lock < 0)
        rc = err_path(e, "cannot open %s", lock);
    else if (os_lock(f->lock, false) && errno == EWOULDBLOCK)
        rc = err_set(e, ERR_SYS, "%s is in use by another server", f->dir);
    else if (os_lock(f->lock, false))
        log_warn("%s cannot be locked (%s): use it with one server only", f->dir, strerror(errno));
    free(lock);
    return rc;
}

int prefix_disk_open(struct prefix_disk **out, struct session *s, const char *dir,
                     uint64_t max_bytes, struct err *e) {
    struct prefix_disk *f = xcalloc(1, sizeof *f);
    f->s = s;
    f->lock = -1;
    f->max_bytes = max_bytes;
    f->n_vocab = session_model(s)->hp.d[HD_VOCAB];
    f->n_ctx = session_get_opts(s)->n_ctx;
    f->can_trim = session_info(s).can_trim;
    f->dir = folder(s, dir);
    int rc = take_folder(f, dir, e);
    if (!rc) rc = read_all(f, e);
    if (rc) {
        prefix_disk_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

void prefix_disk_free(struct prefix_disk *f) {
    if (!f) return;
    for (int i = 0; i < f->n; i++) free(f->entry[i].ids);
    if (f->lock >= 0) os_close(f->lock);
    free(f->entry);
    free(f->dir);
    free(f);
}

/* ---- use ---- */

struct prefix_disk_found prefix_disk_match(const struct prefix_disk *f, const int32_t *ids,
                                           int64_t n, uint64_t key, int64_t more_than) {
    struct prefix_disk_found best = {.use = more_than};
    for (int i = 0; i < f->n; i++) {
        const struct entry *x = &f->entry[i];
        const int64_t most = min_i64(x->n, n - 1);
        int64_t same = 0;
        if (x->key != key || most <= best.use) continue;
        while (same < most && x->ids[same] == ids[same]) same++;
        if (same > best.use && (same == x->n || f->can_trim))
            best = (struct prefix_disk_found){x->ids, x->n, same};
    }
    return best;
}

int prefix_disk_load(struct prefix_disk *f, const struct prefix_disk_found *found, uint64_t key,
                     struct seq **out, struct err *e) {
    const int at = find_entry(f, found->ids, found->n, key);
    struct entry *x = at < 0 ? NULL : &f->entry[at];
    uint64_t sum = 0, size = 0;
    *out = NULL;
    if (!x) return err_set(e, ERR_DATA, "no such entry");
    char *path = path_of(f, x->name, ".seq");
    int rc = tail(path, &sum, &size, e);
    if (!rc && sum != x->sum) rc = err_set(e, ERR_DATA, "%s was changed", path);
    if (!rc) rc = session_new_seq(f->s, 0, out, e);
    if (!rc) rc = session_load_seq(f->s, *out, path, e);
    if (!rc && seq_pos(*out) != x->n) rc = err_set(e, ERR_DATA, "%s has other tokens", path);
    free(path);
    if (!rc) {
        char *is = path_of(f, x->name, ".ids");
        (void)os_touch(is); /* records that it was used just now */
        free(is);
        x->used_s = (int64_t)time(NULL);
        f->count.n_loaded++;
        return 0;
    }
    seq_free(*out);
    *out = NULL;
    if (rc == ERR_DATA) {
        log_warn("--cache-dir: %s; removed", e->msg);
        f->count.n_refused++;
        remove_entry(f, at);
    }
    return rc;
}

bool prefix_disk_wants(const struct prefix_disk *f, const int32_t *ids, int64_t n, uint64_t key) {
    return n >= LEAST && session_seq_bytes(f->s, n) <= f->max_bytes &&
           find_entry(f, ids, n, key) < 0;
}

/* Writes the tokens, the key and a checksum. */
static int write_ids(const struct entry *x, const char *path, struct err *e) {
    const size_t len = HEAD + 4 * (size_t)x->n + 8;
    uint8_t *p = xcalloc(len, 1);
    memcpy(p, magic, sizeof magic);
    store_u64(p + 8, x->key);
    store_u64(p + 16, (uint64_t)x->n);
    store_u64(p + 24, x->sum);
    for (int64_t i = 0; i < x->n; i++) store_u32(p + HEAD + 4 * i, (uint32_t)x->ids[i]);
    store_u64(p + len - 8, hash_u64(p, len - 8));
    const int rc = out_write_file(path, p, len, true, e);
    free(p);
    return rc;
}

int prefix_disk_save(struct prefix_disk *f, const int32_t *ids, int64_t n, uint64_t key,
                     const struct seq *q, struct err *e) {
    struct entry x = {.n = n, .key = key, .used_s = (int64_t)time(NULL)};
    if (!make_room(f, session_seq_bytes(f->s, n) + HEAD + 4 * (uint64_t)n + 8))
        return err_set(e, ERR_SYS, "--cache-disk is too small for %" PRId64 " tokens", n);
    hash_name(ids, n, key, x.name);
    x.ids = xcalloc((size_t)n, sizeof *ids);
    memcpy(x.ids, ids, (size_t)n * sizeof *ids);
    char *seq = path_of(f, x.name, ".seq"), *list = path_of(f, x.name, ".ids");
    int rc = session_save_seq(f->s, q, seq, true, e);
    if (!rc) rc = tail(seq, &x.sum, &x.n_bytes, e);
    if (!rc) rc = write_ids(&x, list, e);
    x.n_bytes += HEAD + 4 * (uint64_t)n + 8;
    if (rc) {
        remove_files(f, x.name);
        free(x.ids);
    } else {
        add_entry(f, &x);
        f->count.n_saved++;
    }
    free(seq);
    free(list);
    return rc;
}

struct prefix_disk_counts prefix_disk_counts(const struct prefix_disk *f) {
    struct prefix_disk_counts n = f->count;
    n.n = f->n;
    return n;
}
