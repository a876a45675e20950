// SPDX-License-Identifier: MIT
/* base/checkpoint.c - checkpoint files: 16 bytes of MAGIC, 32 hex digits of the key, the state, and
 * 32 hex digits of the XXH3-128 of all preceding bytes. */
#include "base/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/io.h"
#include "base/map.h"
#include "base/out.h"

enum { MAGIC_BYTES = 16, HEX = 32, HEAD = MAGIC_BYTES + HEX, PIECE = 64 << 20 };
static const char magic[MAGIC_BYTES + 1] = "hone-snap-v1\r\n\x1a\n";

struct checkpoint_w {
    struct out *o;
    struct xxh128 *hash;
};

/* Sets hex to the checkpoint's key: a hash of the program's version and `what`. */
static void key_of(const char *what, char hex[HEX + 1]) {
    struct buf b = {0};
    buf_fmt(&b, "hone %s;%s", HONE_VERSION, what);
    hash_xxh128_hex(hex, b.data, b.len);
    buf_release(&b);
}

int checkpoint_begin(struct checkpoint_w **out, const char *path, const char *what, struct err *e) {
    char hex[HEX + 1];
    struct checkpoint_w *w = *out = xcalloc(1, sizeof *w);
    w->hash = xxh128_new();
    key_of(what, hex);
    TRY(out_open(&w->o, path, true, e));
    TRY(checkpoint_put(w, magic, MAGIC_BYTES, e));
    return checkpoint_put(w, hex, HEX, e);
}

int checkpoint_put(struct checkpoint_w *w, const void *p, uint64_t n, struct err *e) {
    xxh128_add(w->hash, p, (size_t)n);
    return out_write(w->o, p, n, e);
}

int checkpoint_commit(struct checkpoint_w *w, struct err *e) {
    char hex[HEX + 1];
    xxh128_hex(w->hash, hex);
    TRY(out_write(w->o, hex, HEX, e));
    return out_commit(w->o, e);
}

void checkpoint_end(struct checkpoint_w *w) {
    if (!w) return;
    out_close(w->o);
    xxh128_free(w->hash);
    free(w);
}

/* Returns whether the hash at the end of the file matches the contents. */
static bool is_whole(const struct map *m) {
    char hex[HEX + 1];
    const uint64_t end = m->size - HEX;
    struct xxh128 *x = xxh128_new();
    for (uint64_t at = 0; at < end; at += PIECE)
        xxh128_add(x, m->data + at, (size_t)(end - at < PIECE ? end - at : PIECE));
    xxh128_hex(x, hex);
    xxh128_free(x);
    return memcmp(hex, m->data + end, HEX) == 0;
}

enum checkpoint_found checkpoint_open(struct checkpoint_r *r, const char *path, const char *what) {
    struct err e;
    char hex[HEX + 1];
    memset(r, 0, sizeof *r);
    if (!io_exists(path)) return SNAP_NONE;
    if (map_open(&r->map, path, &e) != 0) {
        log_warn("%s; this run keeps no checkpoint", e.msg);
        return SNAP_FOREIGN;
    }
    const uint64_t size = r->map.size;
    if (size < MAGIC_BYTES || memcmp(r->map.data, magic, MAGIC_BYTES) != 0) {
        log_warn("%s is not a hone checkpoint: left unchanged; this run keeps no checkpoint", path);
        return SNAP_FOREIGN;
    }
    key_of(what, hex);
    if (size < HEAD + HEX || !is_whole(&r->map)) {
        log_warn("%s is damaged: starting afresh", path);
        return SNAP_OTHER;
    }
    if (memcmp(r->map.data + MAGIC_BYTES, hex, HEX) != 0) {
        log_warn("%s is for another input, other options, another instruction set or another "
                 "version: starting afresh",
                 path);
        return SNAP_OTHER;
    }
    r->at = HEAD;
    r->end = size - HEX;
    return SNAP_SAME;
}

bool checkpoint_get(struct checkpoint_r *r, void *p, uint64_t n) {
    if (n > r->end - r->at) return false;
    if (n) memcpy(p, r->map.data + r->at, (size_t)n);
    r->at += n;
    return true;
}

uint64_t checkpoint_left(const struct checkpoint_r *r) {
    return r->end - r->at;
}

void checkpoint_close(struct checkpoint_r *r) {
    map_close(&r->map);
    memset(r, 0, sizeof *r);
}

bool checkpoint_is(const char *path) {
    struct map m = {0};
    struct err e;
    if (!io_exists(path) || map_open(&m, path, &e) != 0) return false;
    const bool ours = m.size >= MAGIC_BYTES && memcmp(m.data, magic, MAGIC_BYTES) == 0;
    map_close(&m);
    return ours;
}

void checkpoint_remove(const char *path) {
    if (checkpoint_is(path)) (void)os_unlink(path);
}

bool checkpoint_due(struct checkpoint_clock *c) {
    const double now = progress_now_s(), every = c->every > 0 ? c->every : SNAP_S;
    if (c->last <= 0) {
        c->last = now;
        return false;
    }
    return now - c->last >= (25 * c->took > every ? 25 * c->took : every);
}

void checkpoint_wrote(struct checkpoint_clock *c, double began) {
    c->last = progress_now_s();
    c->took = c->last - began;
}
