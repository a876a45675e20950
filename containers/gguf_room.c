// SPDX-License-Identifier: MIT
/* containers/gguf_room.c - insertion of space before the tensor data of a GGUF file, done by the
 * file system.
 *
 * ext4, XFS and f2fs can insert whole blocks into a file: the data after them get new offsets, but
 * are neither read nor written. PATH.hone-journal announces the edit and holds the complete new
 * header. Until the blocks are inserted, the file is the old one. Then the new header is written,
 * and written again after an interruption. If the machine stops while the file system moves
 * extents, the hole is left at a different offset, and only the data after it have moved; recovery
 * removes the hole there.
 *
 * Offsets change for every process that has the file open, so this is done only if no other process
 * has. */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/num.h"
#include "base/os.h"
#include "base/out.h"
#include "containers/gguf_edit.h"

/* Journal header: magic, size of the old file, offset and size of the inserted blocks, and xxh64 of
 * the GGUF header that follows. */
enum { HEAD = 40 };
static const char magic[] = "HONEJRN2";

bool gguf_room_is(const char *journal, size_t len) {
    return len >= HEAD && memcmp(journal, magic, 8) == 0;
}

bool gguf_room_plan(int fd, uint64_t data_off, uint64_t align, uint64_t need,
                    struct gguf_room *room) {
    uint64_t block;
    struct os_stat st;
    if (os_block_size(fd, &block) != 0 || os_fstat(fd, &st) != 0 || block == 0) return false;
    uint64_t unit = block > align ? block : align;
    if ((block & (block - 1)) != 0 || st.size <= data_off) return false;
    room->size = st.size;
    room->at = data_off - data_off % block;
    room->n = round_up(need, unit);
    if (room->at == 0) return false; /* the magic must stay first until the header is written */
    /* A hole that the file already has could not be distinguished from one left by an
     * interruption. */
    const int64_t hole = os_next_hole(fd, room->at);
    return hole >= 0 && (uint64_t)hole >= room->size;
}

/* Writes the header's n bytes, those before r->at last. */
static int write_header(int fd, const char *path, const struct gguf_room *r, const char *header,
                        uint64_t n, struct err *e) {
    TRY(gguf_write_range(fd, path, header + r->at, n - r->at, r->at, e));
    return r->at ? gguf_write_range(fd, path, header, r->at, 0, e) : 0;
}

int gguf_room_make(int fd, const char *path, const char *journal, const struct gguf_room *r,
                   const struct buf *header, bool *done, struct err *e) {
    struct buf b = {0};
    uint8_t head[HEAD];
    *done = false;
    if (!os_lease(fd)) return 0;
    memcpy(head, magic, 8);
    store_u64(head + 8, r->size);
    store_u64(head + 16, r->at);
    store_u64(head + 24, r->n);
    store_u64(head + 32, hash_u64(header->data, header->len));
    buf_add(&b, head, HEAD);
    buf_add(&b, header->data, header->len);
    gguf_edit_step(0);
    int rc = out_write_file(journal, b.data, b.len, false, e);
    buf_release(&b);
    gguf_edit_step(1);
    if (!rc && os_insert_range(fd, r->at, r->n) == 0) {
        *done = true;
        gguf_edit_step(7);
        if (os_sync(fd) != 0) rc = err_sys(e, "cannot write %s", path);
        if (!rc) rc = write_header(fd, path, r, header->data, header->len, e);
        gguf_edit_step(4);
    }
    if (!rc) rc = gguf_journal_remove(journal, e);
    os_end_lease(fd);
    return rc;
}

int gguf_room_recover(int fd, const char *path, const char *name, const char *journal, size_t len,
                      struct err *e) {
    const uint8_t *raw = (const uint8_t *)journal;
    const struct gguf_room r = {load_u64(raw + 8), load_u64(raw + 16), load_u64(raw + 24)};
    struct os_stat st;
    if (os_fstat(fd, &st) != 0) return err_sys(e, "cannot read %s", path);
    const uint64_t size = st.size, n = len - HEAD;
    bool whole = load_u64(raw + 32) == hash_u64(journal + HEAD, n) && r.at < r.size &&
                 r.n < UINT64_MAX - r.size && n >= r.at + r.n && n <= r.size + r.n;
    if (!whole || (size != r.size && size != r.size + r.n))
        return gguf_journal_foreign(path, name, e);
    if (size == r.size) return gguf_journal_remove(name, e);
    const int64_t hole = os_next_hole(fd, r.at);
    const int64_t end =
        hole < 0 || (uint64_t)hole >= size ? hole : os_next_data(fd, (uint64_t)hole);
    if (end > 0 && (uint64_t)hole < size && (uint64_t)end > r.at + r.n) {
        if (os_remove_range(fd, (uint64_t)end - r.n, r.n) != 0)
            return err_sys(e, "%s: an edit of its metadata was interrupted and cannot be undone",
                           path);
        log_warn("%s: undid an edit of its metadata that was interrupted", path);
    } else {
        TRY(write_header(fd, path, &r, journal + HEAD, n, e));
        log_warn("%s: finished an edit of its metadata that was interrupted", path);
    }
    return gguf_journal_remove(name, e);
}
