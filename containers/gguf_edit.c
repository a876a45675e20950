// SPDX-License-Identifier: MIT
/* containers/gguf_edit.c - in-place edit of metadata in a GGUF file.
 *
 * If the new header ends before the same data offset, only the differing bytes of the header are
 * written; tensors are neither read nor moved. A change in length is absorbed by the zeros before
 * the data and by the key "hone.padding", a string of spaces. Such a key is the only slack that the
 * format allows, because data begin at the first multiple of the alignment after the header. If
 * there is too little of it, the file system makes room (gguf_room.c), or a new file is written
 * next to the old one; both add such padding for the next edit.
 *
 * A write of several pages can be interrupted, so it is journalled: PATH.hone-journal holds the old
 * and the new bytes and is synced before the first byte is written. gguf_open looks for it and
 * restores the old bytes. A journal that does not match the file byte for byte is refused, so one
 * left over from a different file does no harm. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "containers/gguf.h"
#include "containers/gguf_edit.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"

enum {
    FIXED = 24, /* magic, version and two counts */
    DEFAULT_ALIGN = 32,
    PAGE = 4096,        /* bytes of the header per write */
    SECTOR = 512,       /* bytes written atomically */
    RESERVE = 16 << 10, /* padding for a rewritten file */
    /* Journal header: "HONEJRN1", file size, offset, length, and xxh64 of the remaining journal. */
    JOURNAL_HEAD = 40,
    PIECE = 64 << 20
};
static const char pad_key[] = "hone.padding", journal_magic[] = "HONEJRN1";
static const uint64_t journal_max = (uint64_t)2 << 30;

void (*gguf_edit_hook)(int step);
void gguf_edit_step(int i) {
    if (gguf_edit_hook) gguf_edit_hook(i);
}

/* ---- the new header -------------------------------------------------------------------------- */

static void add_u32(struct buf *b, uint32_t v) {
    uint8_t raw[4];
    store_u32(raw, v);
    buf_add(b, raw, 4);
}
static void add_u64(struct buf *b, uint64_t v) {
    uint8_t raw[8];
    store_u64(raw, v);
    buf_add(b, raw, 8);
}
/* Appends a key record in the file's format. */
static void add_kv(struct buf *b, const struct gguf_kv *kv) {
    add_u64(b, strlen(kv->key));
    buf_str(b, kv->key);
    add_u32(b, kv->type);
    if (kv->type == GV_ARR) add_u32(b, kv->elem);
    if (kv->type == GV_ARR || kv->type == GV_STR) add_u64(b, kv->count);
    buf_add(b, kv->data, kv->n_bytes);
}

/* An edit: the file, the changes, and the parts of its new header. */
struct edit {
    const struct gguf *g;
    const struct gguf_kv *set;
    int n_set;
    /* head ends with the last changed key; tail has the other keys and the tensor records. */
    struct buf head, tail;
    /* Number of keys without those that will be padding, and current offset of the data. */
    uint64_t n_kv, old_off;
    uint64_t size, align;
};

/* Returns the size of all tensor records in the header. */
static uint64_t infos_bytes(const struct gguf *g) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        sum += 8 + strlen(t->name) + 4 + 8 * (uint64_t)t->n_dims + 4 + 8;
    }
    return sum;
}

/* Returns the new value of a key; NULL: unchanged. */
static const struct gguf_kv *change_of(const struct edit *d, const char *key) {
    for (int i = 0; i < d->n_set; i++)
        if (strcmp(d->set[i].key, key) == 0) return &d->set[i];
    return NULL;
}

/* Returns the index of the last existing key that the edit changes; -1: it only adds keys. Sets
 * *sized to whether every change keeps the size of the value that it replaces. */
static int64_t last_change(const struct edit *d, bool *sized) {
    int64_t last = -1;
    int n_same = 0;
    for (int64_t i = 0; i < gguf_n_kv(d->g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(d->g, i), *c = change_of(d, kv->key);
        if (!c) continue;
        last = i;
        n_same += c->data && (c->type == GV_ARR) == (kv->type == GV_ARR) &&
                  (c->type == GV_STR) == (kv->type == GV_STR) && c->n_bytes == kv->n_bytes;
    }
    *sized = n_same == d->n_set;
    return last;
}

/* Appends the new value of a change, if it has one. */
static void apply_change(struct edit *d, const struct gguf_kv *c) {
    if (!c->data) return;
    add_kv(&d->head, c);
    d->n_kv++;
    if (strcmp(c->key, "general.alignment") == 0 && c->type == GV_U32) d->align = load_u32(c->data);
}

/* Appends the keys that the file lacks. */
static void add_new_keys(struct edit *d) {
    for (int k = 0; k < d->n_set; k++)
        if (!gguf_find(d->g, d->set[k].key)) apply_change(d, &d->set[k]);
}

/* Splits the header of d->g after the last changed key into d->head and d->tail, and applies the
 * changes. Drops the padding key, unless all sizes stay the same: then every byte keeps its
 * place. */
static void take_apart(struct edit *d) {
    uint64_t at = FIXED;
    bool sized;
    const uint8_t *raw = gguf_shard_header(d->g, 0, &d->old_off);
    const int64_t last = last_change(d, &sized);
    const struct gguf_kv *align = change_of(d, "general.alignment");
    d->size = gguf_shard_bytes(d->g, 0);
    d->align = align && !align->data ? DEFAULT_ALIGN : gguf_alignment(d->g);
    buf_add(&d->head, raw, FIXED);
    for (int64_t i = 0; i < gguf_n_kv(d->g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(d->g, i), *c = change_of(d, kv->key);
        const uint64_t end = (uint64_t)(kv->data - raw) + kv->n_bytes;
        if (c) {
            apply_change(d, c);
        } else if (sized || strcmp(kv->key, pad_key) != 0) {
            buf_add(last >= 0 && i > last ? &d->tail : &d->head, raw + at, end - at);
            d->n_kv++;
        }
        if (i == last) add_new_keys(d);
        at = end;
    }
    if (last < 0) add_new_keys(d);
    buf_add(&d->tail, raw + at, infos_bytes(d->g));
}

/* Assembles the header, with a padding key of n_pad bytes (UINT64_MAX: none) and zeros up to
 * `off`. */
static void assemble(struct edit *d, uint64_t n_pad, uint64_t off, struct buf *out) {
    static const uint8_t zeros[64];
    bool pad = n_pad != UINT64_MAX;
    buf_add(out, d->head.data, d->head.len);
    store_u64((uint8_t *)out->data + 16, d->n_kv + pad);
    if (pad) {
        uint8_t *spaces = xmalloc(n_pad + 1);
        memset(spaces, ' ', n_pad);
        add_kv(out, &(struct gguf_kv){pad_key, GV_STR, GV_STR, n_pad, spaces, n_pad});
        free(spaces);
    }
    buf_add(out, d->tail.data, d->tail.len);
    while (out->len < off) {
        uint64_t left = off - out->len;
        buf_add(out, zeros, left < sizeof zeros ? left : sizeof zeros);
    }
}

/* Returns the size of the header in bytes with a padding key whose value is empty. */
static uint64_t bytes_with_pad(const struct edit *d) {
    return d->head.len + d->tail.len + 8 + strlen(pad_key) + 4 + 8;
}

/* Assembles the header if it fits before the data. Returns whether it does. */
static bool try_in_place(struct edit *d, struct buf *out) {
    uint64_t bare = d->head.len + d->tail.len, with_pad = bytes_with_pad(d);
    if (d->old_off > d->size || d->old_off % d->align) return false;
    if (round_up(bare, d->align) == d->old_off)
        assemble(d, UINT64_MAX, d->old_off, out);
    else if (with_pad <= d->old_off)
        assemble(d, d->old_off - with_pad, d->old_off, out);
    else
        return false;
    return true;
}

/* ---- writing in place ------------------------------------------------------------------------ */

/* Returns the path of the file's journal, freed by the caller. */
static char *journal_of(const char *path) {
    size_t n = strlen(path);
    char *name = xmalloc(n + sizeof ".hone-journal");
    memcpy(name, path, n);
    memcpy(name + n, ".hone-journal", sizeof ".hone-journal");
    return name;
}

int gguf_write_range(int fd, const char *path, const char *p, uint64_t n, uint64_t off,
                     struct err *e) {
    while (n) {
        uint64_t to_page = PAGE - off % PAGE;
        size_t m = (size_t)(n < to_page ? n : to_page);
        gguf_edit_step(2);
        int64_t k = os_pwrite(fd, p, m, off);
        if (k < 0 && errno == EINTR) continue;
        if (k == 0) errno = EIO;
        if (k <= 0) return err_sys(e, "cannot write %s", path);
        p += k, off += (uint64_t)k, n -= (uint64_t)k;
    }
    gguf_edit_step(3);
    return os_sync(fd) == 0 || errno == EINVAL ? 0 : err_sys(e, "cannot write %s", path);
}

int gguf_journal_remove(const char *name, struct err *e) {
    return os_unlink(name) == 0 || errno == ENOENT
               ? 0
               : err_sys(e, "cannot remove the journal %s", name);
}

int gguf_journal_foreign(const char *path, const char *name, struct err *e) {
    return err_set(e, ERR_DATA,
                   "%s: the journal %s of an interrupted edit does not belong to this file; "
                   "remove the journal if the file was replaced since then",
                   path, name);
}

/* Writes the n old and n new bytes at offset `off` to a journal, so that an edit can be undone or
 * finished. */
static int write_journal(const char *name, const struct edit *d, const char *old, const char *new,
                         uint64_t n, uint64_t off, struct err *e) {
    struct buf b = {0};
    buf_add(&b, journal_magic, 8);
    add_u64(&b, d->size);
    add_u64(&b, off);
    add_u64(&b, n);
    add_u64(&b, 0);
    buf_add(&b, old, n);
    buf_add(&b, new, n);
    store_u64((uint8_t *)b.data + 32, hash_u64(b.data + JOURNAL_HEAD, b.len - JOURNAL_HEAD));
    int rc = out_write_file(name, b.data, b.len, false, e);
    buf_release(&b);
    return rc;
}

/* Flushes the file's folder to disk, if the file system supports that. */
static void sync_folder_of(const char *path) {
    const char *slash = io_last_slash(path);
    char *dir = slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
    int fd = os_open(dir, OS_READ | OS_DIR, 0);
    free(dir);
    if (fd < 0) return;
    (void)os_sync(fd); /* best effort: some file systems refuse it */
    os_close(fd);
}

/* Overwrites the bytes of the header that differ, with a journal if needed. */
static int write_in_place(const char *path, int fd, const struct edit *d, const struct buf *header,
                          uint64_t *n_written, struct err *e) {
    uint64_t n_old;
    const char *old = (const char *)gguf_shard_header(d->g, 0, &n_old), *new = header->data;
    uint64_t from = 0, to = header->len;
    while (from < to && old[from] == new[from]) from++;
    while (to > from && old[to - 1] == new[to - 1]) to--;
    *n_written = to - from;
    if (from == to) return 0;
    char *name = journal_of(path);
    /* A write within one sector is atomic. */
    bool one_sector = from / SECTOR == (to - 1) / SECTOR;
    int rc = 0;
    gguf_edit_step(0);
    if (!one_sector) rc = write_journal(name, d, old + from, new + from, to - from, from, e);
    gguf_edit_step(1);
    if (!rc) {
        rc = gguf_write_range(fd, path, new + from, to - from, from, e);
        gguf_edit_step(4);
        if (!rc && !one_sector && os_unlink(name) != 0)
            rc = err_sys(e, "cannot remove the journal %s", name);
        sync_folder_of(path);
        gguf_edit_step(5);
    }
    free(name);
    return rc;
}

/* ---- making room ----------------------------------------------------------------------------- */

/* Lets the file system insert blocks before the data; sets how->in_place if it did. */
static int make_room(const char *path, int fd, struct edit *d, struct gguf_edit *how,
                     struct err *e) {
    struct gguf_room room;
    struct buf header = {0};
    uint64_t with_pad = bytes_with_pad(d);
    if (with_pad + RESERVE <= d->old_off || d->old_off % d->align ||
        !gguf_room_plan(fd, d->old_off, d->align, with_pad + RESERVE - d->old_off, &room))
        return 0;
    char *name = journal_of(path);
    assemble(d, d->old_off + room.n - with_pad, d->old_off + room.n, &header);
    int rc = gguf_room_make(fd, path, name, &room, &header, &how->in_place, e);
    if (how->in_place) how->n_bytes = header.len;
    if (how->in_place) how->n_room = room.n;
    if (!rc) sync_folder_of(path);
    gguf_edit_step(5);
    buf_release(&header);
    free(name);
    return rc;
}

/* ---- rewriting the file ---------------------------------------------------------------------- */

/* Copies the file's bytes starting at `from` to o. */
static int copy_data(struct out *o, struct map *m, uint64_t from, struct err *e) {
    for (uint64_t at = from, n; at < m->size; at += n) {
        n = m->size - at < PIECE ? m->size - at : PIECE;
        TRY(out_write(o, m->data + at, n, e));
        map_drop(m, at, n);
    }
    return 0;
}

/* Rewrites the whole file, with spare room for later edits. */
static int rewrite_file(const char *path, struct edit *d, struct err *e) {
    uint64_t with_pad = bytes_with_pad(d);
    uint64_t off = round_up(with_pad + RESERVE, d->align);
    struct buf header = {0};
    struct map m = {0};
    struct out *o = NULL;
    int rc;
    assemble(d, off - with_pad, off, &header);
    TRY_GOTO(done, rc, map_open(&m, path, e));
    TRY_GOTO(done, rc, io_need_space(path, m.size - d->old_off + off, e));
    TRY_GOTO(done, rc, out_open(&o, path, true, e));
    TRY_GOTO(done, rc, out_write(o, header.data, header.len, e));
    TRY_GOTO(done, rc, copy_data(o, &m, d->old_off, e));
    gguf_edit_step(6);
    map_close(&m); /* Windows replaces no file that is mapped */
    TRY_GOTO(done, rc, out_commit(o, e));
done:
    out_close(o);
    map_close(&m);
    buf_release(&header);
    return rc;
}

/* Recovers a pending journal, then opens the file and locks it against other editors. Returns the
 * descriptor; -1: failed. */
static int lock_file(const char *path, struct err *e) {
    char *name = journal_of(path);
    int fd = -1;
    while (fd < 0 && gguf_recover(path, e) == 0) {
        struct os_stat mine, now;
        fd = os_open(path, OS_READ | OS_WRITE, 0);
        if (fd < 0) {
            err_sys(e, "cannot open %s for writing", path);
            break;
        }
        (void)os_lock(fd, true); /* some file systems have no locks */
        if (!os_exists(name) && os_fstat(fd, &mine) == 0 && os_stat(path, &now) == 0 &&
            mine.ino == now.ino)
            break;
        os_close(fd); /* another editor has replaced the file or given up */
        fd = -1;
    }
    free(name);
    return fd;
}

/* Runs the caller's check on the file with its new header, without padding. */
static int check_edit(const char *path, struct edit *d, gguf_edit_check *check, void *arg,
                      struct err *e) {
    struct buf header = {0};
    struct gguf *g;
    const uint64_t off = round_up(d->head.len + d->tail.len, d->align);
    assemble(d, UINT64_MAX, off, &header);
    /* The data must follow one another as packed by a new alignment. */
    const unsigned flags = d->align == gguf_alignment(d->g) ? GGUF_TOLERANT : 0;
    int rc = gguf_open_edited(&g, path, &header, d->size - d->old_off + off, flags, e);
    if (!rc) rc = check(g, arg, e);
    gguf_close(g);
    buf_release(&header);
    if (rc != ERR_DATA && rc != ERR_USAGE) return rc;
    e->code = ERR_USAGE; /* the file is valid, the request is not */
    return err_wrap(e, "the edit would break the file, which is unchanged");
}

/* Examines the edit and, if the new header fits before the data, writes it. */
static int edit_open_file(const char *path, int fd, struct edit *d, gguf_edit_check *check,
                          void *arg, struct gguf_edit *how, struct err *e) {
    struct gguf *g;
    struct buf header = {0};
    TRY(gguf_open(&g, path, GGUF_TOLERANT | GGUF_ONE_FILE, e));
    d->g = g;
    take_apart(d);
    int rc = check ? check_edit(path, d, check, arg, e) : 0;
    if (!rc) how->in_place = try_in_place(d, &header);
    if (how->in_place) rc = write_in_place(path, fd, d, &header, &how->n_bytes, e);
    buf_release(&header);
    gguf_close(g); /* making room requires that no process, including this one, has the file open */
    return rc;
}

int gguf_edit_keys(const char *path, const struct gguf_kv *set, int n, gguf_edit_check *check,
                   void *arg, struct gguf_edit *how, struct err *e) {
    struct edit d = {.set = set, .n_set = n};
    /* The journal is next to the file, not next to a link to it. */
    char *real = io_real(path);
    *how = (struct gguf_edit){0};
    if (!real) return err_sys(e, "cannot open %s", path);
    int fd = lock_file(real, e), rc = fd < 0 ? (int)e->code : 0;
    struct os_stat st;
    if (!rc && os_fstat(fd, &st) == 0) how->n_links = st.n_links;
    if (!rc) rc = edit_open_file(real, fd, &d, check, arg, how, e);
    if (!rc && !how->in_place) rc = make_room(real, fd, &d, how, e);
    if (!rc && !how->in_place) rc = rewrite_file(real, &d, e);
    buf_release(&d.head);
    buf_release(&d.tail);
    if (fd >= 0) os_close(fd);
    free(real);
    return rc;
}

int gguf_edit_str(const char *path, const char *key, const char *text, uint64_t len,
                  struct gguf_edit *how, struct err *e) {
    const struct gguf_kv kv = {key, GV_STR, GV_STR, len, (const uint8_t *)(len ? text : ""), len};
    return gguf_edit_keys(path, &kv, 1, NULL, NULL, how, e);
}

/* ---- recovery -------------------------------------------------------------------------------- */

struct journal {
    uint64_t off, n;
    const char *old, *new;
};

/* Parses a journal. False: it is damaged or belongs to a file of a different size. */
static bool journal_read(struct journal *j, const char *text, size_t len, uint64_t file_size) {
    if (len < JOURNAL_HEAD || memcmp(text, journal_magic, 8) != 0) return false;
    const uint8_t *raw = (const uint8_t *)text;
    uint64_t size = load_u64(raw + 8);
    j->off = load_u64(raw + 16);
    j->n = load_u64(raw + 24);
    if (size != file_size || j->n > len || 2 * j->n != len - JOURNAL_HEAD || j->off > size ||
        j->n > size - j->off)
        return false;
    j->old = text + JOURNAL_HEAD;
    j->new = j->old + j->n;
    return load_u64(raw + 32) == hash_u64(j->old, len - JOURNAL_HEAD);
}

/* Returns 2 if all bytes are old or all are new, 1 if they are mixed, and 0 if some are neither. */
static int compare_bytes(const struct journal *j, const char *now) {
    if (memcmp(now, j->old, j->n) == 0 || memcmp(now, j->new, j->n) == 0) return 2;
    for (uint64_t i = 0; i < j->n; i++)
        if (now[i] != j->old[i] && now[i] != j->new[i]) return 0;
    return 1;
}

/* Undoes an interrupted edit, or finishes it if all new bytes are there. */
static int undo_edit(int fd, const char *path, const char *name, const char *text, size_t len,
                     struct err *e) {
    struct journal j;
    struct map m;
    TRY(map_open(&m, path, e));
    bool ok = journal_read(&j, text, len, m.size);
    int state = ok ? compare_bytes(&j, (const char *)m.data + j.off) : 0, rc = 0;
    map_close(&m);
    if (!state) return gguf_journal_foreign(path, name, e);
    if (state == 1) rc = gguf_write_range(fd, path, j.old, j.n, j.off, e);
    if (!rc) rc = gguf_journal_remove(name, e);
    if (!rc && state == 1) log_warn("%s: undid an edit of its metadata that was interrupted", path);
    return rc;
}

int gguf_recover(const char *path, struct err *e) {
    char *real = io_real(path), *name = real ? journal_of(real) : NULL, *text = NULL;
    size_t len = 0;
    int rc = 0;
    if (name && os_exists(name)) {
        int fd = os_open(real, OS_READ | OS_WRITE, 0);
        if (fd < 0) {
            rc = err_sys(e, "%s: an edit of its metadata was interrupted and cannot be undone",
                         path);
        } else {
            (void)os_lock(fd, true); /* waits for an edit in progress */
            if (os_exists(name)) rc = io_read_file(&text, &len, name, journal_max, e);
            if (!rc && text && gguf_room_is(text, len))
                rc = gguf_room_recover(fd, real, name, text, len, e);
            else if (!rc && text)
                rc = undo_edit(fd, real, name, text, len, e);
            os_close(fd);
        }
    }
    free(text);
    free(name);
    free(real);
    return rc;
}
