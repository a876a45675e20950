// SPDX-License-Identifier: MIT
/* runtime/engine/pack_cache.c - on-disk cache of packed rows (pack_cache.h).
 *
 * To avoid races, a file is opened first, and the attributes of the open file are checked. Files
 * that another user could have written are not used, and symbolic links are not followed when a
 * file is created. */
#include "runtime/engine/pack_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "runtime/engine/pack_file.h"

enum {
    MODELS = 8,        /* maximum number of models with equal contents in a seal */
    SEAL_BYTES = 4096, /* exclusive upper bound on the size of a seal */
};
static const int64_t second = 1000000000;

struct cache {
    const struct model *of;
    const char *dir;
    struct pack_list list;
    struct pool *pool;
    char *base; /* name of the file of rows, without its folder */
    char *rows, *seal, *lock;
};

/* ---- seals ----
 *
 * A seal is text: a title, the identity of the file of rows, the models, and a hash of these
 * lines. */

struct seal {
    struct file_id rows;
    /* Stamps of models with these rows, most recently verified last. */
    char model[MODELS][33];
    int n;
};

/* Writes a stamp that identifies the model's files as they were when opened. */
static void model_stamp(const struct model *m, char out[33]) {
    struct buf b = {0};
    for (int i = 0; i < gguf_n_shards(m->gguf); i++) {
        const struct file_id *f = gguf_shard_id(m->gguf, i);
        buf_fmt(&b, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 ";", f->size, f->inode,
                f->modified, f->changed);
    }
    hash_xxh128_hex(out, b.data, b.len);
    buf_release(&b);
}

/* Returns whether a file of the model was changed so recently that another write might leave its
 * timestamps unchanged, given their resolution. */
static bool is_fresh(const struct model *m) {
    struct timespec t;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0) return true;
    const int64_t now = (int64_t)t.tv_sec * second + t.tv_nsec;
    for (int i = 0; i < gguf_n_shards(m->gguf); i++) {
        const struct file_id *f = gguf_shard_id(m->gguf, i);
        const int64_t last = f->changed > f->modified ? f->changed : f->modified;
        const int64_t step = last % second ? second / 10 : 3 * second;
        if (now - last < step) return true;
    }
    return false;
}

/* Appends the text of a seal file: the rows' file identity, model stamps and a checksum. */
static void seal_text(const struct seal *s, struct buf *out) {
    char hex[33];
    buf_fmt(out, "hone pack seal 1\nrows %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n",
            s->rows.size, s->rows.inode, s->rows.modified, s->rows.changed);
    for (int i = 0; i < s->n; i++) buf_fmt(out, "model %s\n", s->model[i]);
    hash_xxh128_hex(hex, out->data, out->len);
    buf_fmt(out, "check %s\n", hex);
}

/* Returns whether only this user and root could have written the file. */
static bool is_ours(const struct file_id *f) {
    return (f->owner == os_uid() || f->owner == 0) && !(f->mode & 02);
}

/* Reads a seal into *s. Returns false and zeroes *s if it is missing or damaged. */
static bool seal_read(const char *path, struct seal *s) {
    struct map m;
    struct err e;
    struct buf again = {0};
    char text[SEAL_BYTES];
    const char *at;
    int used = 0;
    memset(s, 0, sizeof *s);
    if (!io_exists(path) || map_open(&m, path, &e)) return false;
    const size_t n = m.size < sizeof text ? (size_t)m.size : 0;
    if (n) memcpy(text, m.data, n);
    text[n] = 0;
    const bool ours = is_ours(&m.id);
    map_close(&m);
    if (!ours || !n ||
        sscanf(text, "hone pack seal 1\nrows %" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 "\n%n",
               &s->rows.size, &s->rows.inode, &s->rows.modified, &s->rows.changed, &used) != 4)
        return false;
    for (at = text + used; s->n < MODELS && strncmp(at, "model ", 6) == 0; at += 39) {
        if (strlen(at) < 39) break;
        memcpy(s->model[s->n++], at + 6, 32);
    }
    seal_text(s, &again); /* the parsed seal must reproduce the file exactly */
    const bool right = again.len == n && memcmp(again.data, text, n) == 0;
    buf_release(&again);
    if (!right) memset(s, 0, sizeof *s);
    return right;
}

/* Returns whether both describe the same unchanged file. */
static bool same_file(const struct file_id *a, const struct file_id *b) {
    return a->size == b->size && a->inode == b->inode && a->modified == b->modified &&
           a->changed == b->changed;
}

/* Returns whether the seal confirms that f has the rows of this model. */
static bool is_sealed(const struct cache *c, const struct pack_file *f) {
    struct seal s;
    char stamp[33];
    if (!seal_read(c->seal, &s) || !same_file(&s.rows, pack_file_id(f))) return false;
    model_stamp(c->of, stamp);
    for (int i = 0; i < s.n; i++)
        if (strcmp(s.model[i], stamp) == 0) return true;
    return false;
}

/* Returns whether the path itself is a symbolic link. */
static bool is_link(const char *path) {
    struct os_stat st;
    return os_lstat(path, &st) == 0 && st.kind == OS_LINK;
}

/* Records that these rows match this model. If that fails, the next start compares them again. */
static void put_seal(const struct cache *c, const struct pack_file *f) {
    struct seal s;
    struct buf b = {0};
    struct err e;
    if (is_fresh(c->of) || is_link(c->seal)) return;
    if (!seal_read(c->seal, &s) || !same_file(&s.rows, pack_file_id(f))) s.n = 0;
    s.rows = *pack_file_id(f);
    if (s.n == MODELS) memmove(s.model, s.model + 1, sizeof s.model[0] * (size_t)--s.n);
    model_stamp(c->of, s.model[s.n++]);
    seal_text(&s, &b);
    if (out_write_file(c->seal, b.data, b.len, true, &e)) log_debug("%s", e.msg);
    buf_release(&b);
}

/* ---- one file ---- */

/* Opens the file of rows. *f is NULL if it is missing (e->code is 0) or unusable (e has the
 * reason). *sealed: no comparison is needed. */
static void open_rows(const struct cache *c, struct pack_file **f, bool *sealed, struct err *e) {
    *f = NULL;
    *sealed = false;
    e->code = ERR_OK;
    if (!io_exists(c->rows)) return;
    if (pack_file_open(f, c->rows, &c->list, e)) {
        *f = NULL;
        return;
    }
    *sealed = is_ours(pack_file_id(*f)) && is_sealed(c, *f);
    if (is_ours(pack_file_id(*f))) return;
    err_set(e, ERR_DATA, "%s is writable by other users", c->rows);
    pack_file_drop(*f);
    *f = NULL;
}

/* Takes the lock of this model's files; os_close(*fd) releases it. *fd is -1 if the file system has
 * no locks or is read-only. */
static int take_lock(const struct cache *c, int *fd, struct err *e) {
    *fd = os_open(c->lock, OS_READ | OS_WRITE | OS_CREATE | OS_NO_LINK, 0666);
    for (int i = 0; *fd >= 0 && os_lock(*fd, false) != 0; i++) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return 0;
        if (!i) log_info("waiting for another hone process that is packing this model");
        if (progress_interrupted()) {
            os_close(*fd);
            return err_set(e, ERR_INTR, "interrupted");
        }
        os_sleep_ms(20);
    }
    return 0;
}

/* Removes files left over by killed processes. The caller holds the lock, so no other process is
 * writing. */
static void remove_rests(const struct cache *c) {
    struct io_names l = {0};
    struct err e;
    char *prefix = xasprintf("%s.tmp-", c->base);
    if (!io_list(&l, c->dir, &e))
        for (int i = 0; i < l.n; i++) {
            if (strncmp(l.v[i], prefix, strlen(prefix)) != 0) continue;
            char *path = io_join(c->dir, l.v[i]);
            (void)os_unlink(path);
            free(path);
        }
    io_names_release(&l);
    free(prefix);
}

/* Returns whether the file system enforces permissions. Some file systems report every file as
 * writable by all users; a cache there would be rejected and recreated at each start. fd: the open
 * lock file. */
static bool protects(int fd) {
    struct os_stat st;
    if (fd < 0 || os_fstat(fd, &st) != 0) return true;
    (void)os_fchmod(fd, st.mode & 0755);
    return os_fstat(fd, &st) == 0 && is_ours(&(struct file_id){.owner = st.uid, .mode = st.mode});
}

/* Creates the file of rows and opens it, unless the disk would then have less than an eighth of the
 * file's size free. */
static int make_file(const struct cache *c, int fd, struct pack_file **f, struct err *e) {
    const uint64_t n = pack_file_bytes(&c->list);
    struct os_stat st;
    remove_rests(c);
    if (is_link(c->rows)) return err_set(e, ERR_USAGE, "%s is a symbolic link; remove it", c->rows);
    if (!protects(fd))
        return err_set(e, ERR_USAGE, "%s: files there cannot be protected from other users",
                       c->dir);
    TRY(io_need_space(c->rows, n + n / 8, e));
    log_info("packing the weights into %s, once", c->rows);
    TRY(pack_file_write(c->rows, &c->list, c->pool, e));
    if (os_stat(c->rows, &st) == 0) (void)os_chmod(c->rows, st.mode & 0755);
    TRY(pack_file_open(f, c->rows, &c->list, e));
    put_seal(c, *f);
    return 0;
}

/* Sets *f to the file of rows: as it is, after comparing it with the model, or recreated if `make`
 * is set. NULL: none. The caller holds the lock. */
static int open_or_make(const struct cache *c, bool make, int fd, struct pack_file **f,
                        struct err *e) {
    bool sealed;
    open_rows(c, f, &sealed, e);
    if (*f && !sealed) {
        log_info("comparing %s with the model: one of them has changed since the last comparison",
                 c->rows);
        int rc = pack_file_check(*f, &c->list, c->pool, e);
        if (!rc) put_seal(c, *f);
        if (rc) {
            pack_file_drop(*f);
            *f = NULL;
        }
        if (rc == ERR_INTR) return rc;
    }
    if (*f) return 0;
    if (e->code) log_warn("%s: %s", e->msg, make ? "creating it again" : "ignoring it");
    return make ? make_file(c, fd, f, e) : 0;
}

/* Opens the file of packed rows, creating it if `make` is set. *f is NULL if it does not exist. */
static int open_sealed(const struct cache *c, bool make, struct pack_file **f, struct err *e) {
    bool sealed;
    int fd = -1;
    open_rows(c, f, &sealed, e);
    if (*f && sealed) return 0;
    pack_file_drop(*f);
    *f = NULL;
    if (!make && !e->code && !io_exists(c->rows)) return 0;
    TRY(take_lock(c, &fd, e));
    const int rc = open_or_make(c, make, fd, f, e);
    if (fd >= 0) os_close(fd);
    return rc;
}

static void release_file(void *f) {
    pack_file_drop(f);
}

/* Returns whether all rows of the list are already in memory. */
static bool has_all(const struct pack_list *l) {
    for (int i = 0; i < l->n; i++)
        if (!weight_rows(l->item[i].w, l->item[i].rows)) return false;
    return true;
}

/* Attaches packed rows from the cache to the weights, creating the file if `make` is set. */
static int attach_rows(struct cache *c, bool make, struct err *e) {
    struct pack_file *f = NULL;
    char key[33];
    pack_file_key(&c->list, key);
    c->base = xasprintf("hone-%s.pack", key);
    c->rows = io_join(c->dir, c->base);
    c->seal = xasprintf("%s.seal", c->rows);
    c->lock = xasprintf("%s.lock", c->rows);
    int rc = open_sealed(c, make, &f, e);
    if (rc && rc != ERR_INTR) {
        log_warn("%s: the weights are packed in memory", e->msg);
        rc = 0;
    }
    for (int i = 0; f && i < c->list.n; i++) {
        const struct weight_rows r = {.rows = c->list.item[i].rows,
                                      .data = pack_file_rows(f, i),
                                      .mapped = true,
                                      .own = f,
                                      .release = release_file};
        pack_file_keep(f);
        weight_add_rows(c->list.item[i].w, &r);
    }
    if (f) log_debug("using the packed rows of %s", c->rows);
    pack_file_drop(f);
    free(c->base);
    free(c->rows);
    free(c->seal);
    free(c->lock);
    return rc;
}

int pack_cache_attach(const struct model *of, const char *dir, const struct kern *k,
                      struct pool *pool, bool make, struct err *e) {
    struct cache c = {.of = of, .dir = dir, .pool = pool};
    int rc = io_make_dir(dir, e);
    if (rc)
        return err_set(e, ERR_USAGE, "--pack-cache: %s is not a folder and cannot be created", dir);
    rc = pack_list(&c.list, of, k, e);
    if (!rc && c.list.n && !has_all(&c.list)) rc = attach_rows(&c, make, e);
    free(c.list.item);
    return rc;
}
