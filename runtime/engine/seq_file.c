// SPDX-License-Identifier: MIT
/* runtime/engine/seq_file.c - file format of a saved sequence.
 *
 *     char magic[8] "honeseq\n", u32 version 3 or 4, u32 slots, i64 tokens, u64 floats of states
 *     char model[32]: hash of model_id, and of whether rotary angles are those of long contexts
 *     version 4, after images: u64 n, then n times i64 from, i64 by (seq.shift)
 *     per slot: char key type[16], value type[16], i64 heads, key width, value width, first
 *     per slot and head: rows of keys, then of values, of the positions [first, tokens)
 *     states of recurrent layers
 *     u64 checksum of all parts in order
 *
 * Numbers are little-endian. States and rows have the layout of main memory; those of a device are
 * converted, so a file does not depend on where it was written. A slot with a window has the
 * positions that its next query may see and those that share a page with them. The file does not
 * record the division of sequences into pages.
 *
 * Versions 1 and 2 are the same, but their rows of quantized types are not rotated as now: only
 * files without such types can be read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

enum {
    VERSION = 3,
    VERSION_SHIFTS = 4,
    VERSION_OLD = 1, /* as 3 and 4, before rotation */
    VERSION_OLD_SHIFTS = 2,
    MAX_SHIFTS = 1 << 20,
    HEAD_BYTES = 64,
    SLOT_BYTES = 64,
    NAME_BYTES = 16
};
static const char magic[8] = {'h', 'o', 'n', 'e', 's', 'e', 'q', '\n'};

/* ---- sequential parts, to a file or from a map ---- */

struct stream {
    struct out *out;       /* file being written */
    const struct map *map; /* file being read */
    uint64_t at;           /* bytes read so far */
    uint64_t sum;
};

/* Returns the checksum `sum` extended by one more part. */
static uint64_t add_sum(uint64_t sum, const void *p, uint64_t n) {
    const uint64_t two[2] = {sum, hash_u64(p, (size_t)n)};
    return hash_u64(two, sizeof two);
}

/* Writes or reads n bytes, depending on the stream's direction, and adds them to its checksum. */
static int read_or_write(struct stream *f, void *p, uint64_t n, struct err *e) {
    if (f->out) {
        TRY(out_write(f->out, p, n, e));
    } else {
        if (n > f->map->size - f->at) return err_set(e, ERR_DATA, "%s is truncated", f->map->path);
        memcpy(p, f->map->data + f->at, (size_t)n);
        f->at += n;
    }
    f->sum = add_sum(f->sum, p, n);
    return 0;
}

/* ---- header ---- */

/* Copies a name to a zeroed field of NAME_BYTES, truncated if it is too long. */
static void put_name(uint8_t *to, const char *name) {
    size_t n = strlen(name);
    memcpy(to, name, n < NAME_BYTES ? n : NAME_BYTES);
}

/* Returns the number of floats of the states in main memory; on a device there are a few more. */
static int64_t n_states(const struct session *s) {
    int64_t n = 0;
    for (int i = 0; i < s->g->n_rec_slots; i++)
        n += s->g->facts.rec[i].n_conv + s->g->facts.rec[i].n_scan;
    return n;
}

/* Writes 32 hex digits that are the same if the values of keys and states are. */
static void hash_rows(const struct session *s, char out[33]) {
    struct buf b = {0};
    char id[33];
    model_id(s->m, id);
    buf_fmt(&b, "%s %d", id, exec_rope_far(s));
    hash_xxh128_hex(out, b.data, b.len);
    buf_release(&b);
}

void session_rows(const struct session *s, struct buf *out) {
    char id[33];
    hash_rows(s, id);
    buf_fmt(out, "%s %s %d %d", id, s->be->name, (int)s->o.act, (int)s->o.isa);
    for (int i = 0; i < s->cache.kv.n_slots; i++) {
        const struct kv_slot *k = &s->cache.kv.slot[i];
        buf_fmt(out, " %s/%s", k->n_heads ? k->kt->name : "-", k->n_heads ? k->vt->name : "-");
    }
}

/* Writes the head of the file: version, sizes, position and model. */
static void describe_seq(const struct session *s, const struct seq *q, uint8_t head[HEAD_BYTES]) {
    char id[33];
    memset(head, 0, HEAD_BYTES);
    memcpy(head, magic, sizeof magic);
    store_u32(head + 8, q->n_shifts ? VERSION_SHIFTS : VERSION);
    store_u32(head + 12, (uint32_t)q->cache->kv.n_slots);
    store_u64(head + 16, (uint64_t)q->pos);
    store_u64(head + 24, (uint64_t)n_states(s));
    hash_rows(s, id);
    memcpy(head + 32, id, 32);
}

/* Writes the description of slot i: cache types, shape and first kept position. */
static void describe_slot(const struct seq *q, int i, uint8_t d[SLOT_BYTES]) {
    const struct kv_slot *s = &q->cache->kv.slot[i];
    memset(d, 0, SLOT_BYTES);
    if (!s->n_heads) return;
    put_name(d, s->kt->name);
    put_name(d + 16, s->vt->name);
    store_u64(d + 32, (uint64_t)s->n_heads);
    store_u64(d + 40, (uint64_t)s->k_dim);
    store_u64(d + 48, (uint64_t)s->v_dim);
    store_u64(d + 56, (uint64_t)(q->slot[i].first * q->cache->page_tok));
}

/* Reads or writes the rows of a slot, by head and then by page. The pages are at `pages`,
 * page_bytes apart, or in the sequence itself if `pages` is NULL. */
static int rows_of(struct stream *f, struct seq *q, int slot, int64_t first, uint8_t *pages,
                   struct err *e) {
    const struct cache *c = q->cache;
    const struct kv_slot *s = &c->kv.slot[slot];
    for (int64_t h = 0; h < s->n_heads; h++)
        for (int64_t p = first, end; p < q->pos; p = end) {
            const int64_t page = p / c->page_tok - q->slot[slot].first;
            const uint8_t *own = q->slot[slot].v[page]->data;
            uint8_t *at = pages ? pages + (uint64_t)page * c->pool[slot].page_bytes : NULL;
            uint8_t *key = seq_key(q, slot, h, p), *value = seq_value(q, slot, h, p);
            end = min_i64((p / c->page_tok + 1) * c->page_tok, q->pos);
            const uint64_t n = (uint64_t)(end - p);
            TRY(read_or_write(f, at ? at + (key - own) : key, n * s->k_row, e));
            TRY(read_or_write(f, at ? at + (value - own) : value, n * s->v_row, e));
        }
    return 0;
}

/* Reads or writes the rows of a slot through a copy of a device's pages. */
static int rows_there(const struct session *s, struct stream *f, struct seq *q, int slot,
                      int64_t first, struct err *e) {
    const struct seq_pages *p = &q->slot[slot];
    const uint64_t size = q->cache->pool[slot].page_bytes;
    void *pages = NULL;
    int rc = mem_alloc(&pages, (uint64_t)p->n * size + 1, "a sequence's keys and values", e);
    uint8_t *at = pages;
    for (int i = 0; i < p->n && !rc && f->out; i++)
        rc = s->be->get_page(s, slot, p->v[i], at + (uint64_t)i * size, e);
    if (!rc) rc = rows_of(f, q, slot, first, pages, e);
    for (int i = 0; i < p->n && !rc && !f->out; i++)
        rc = s->be->put_page(s, slot, p->v[i], at + (uint64_t)i * size, e);
    mem_free(pages);
    return rc;
}

/* Reads or writes the recurrent states of q, depending on f->out. */
static int transfer_states(const struct session *s, struct stream *f, struct seq *q,
                           struct err *e) {
    const uint64_t n = (uint64_t)n_states(s) * sizeof(float);
    void *x = NULL;
    if (!n) return 0;
    if (!s->be->get_states) return read_or_write(f, q->mem[0].state, n, e);
    int rc = mem_alloc(&x, n, "recurrent state", e);
    if (!rc && f->out) rc = s->be->get_states(s, q, x, e);
    if (!rc) rc = read_or_write(f, x, n, e);
    if (!rc && !f->out) rc = s->be->put_states(s, q, x, e);
    mem_free(x);
    return rc;
}

/* Reads or writes the rows of every slot, then the states. */
static int transfer_contents(const struct session *s, struct stream *f, struct seq *q,
                             const int64_t *first, struct err *e) {
    for (int i = 0; i < q->cache->kv.n_slots; i++)
        TRY(s->be->get_page ? rows_there(s, f, q, i, first[i], e)
                            : rows_of(f, q, i, first[i], NULL, e));
    return transfer_states(s, f, q, e);
}

/* Reads or writes the shifts of rotary positions that images cause. */
static int transfer_shifts(const struct session *s, struct stream *f, struct seq *q,
                           struct err *e) {
    uint8_t b[16];
    store_u64(b, (uint64_t)q->n_shifts);
    TRY(read_or_write(f, b, 8, e));
    const uint64_t n = load_u64(b);
    if (f->map && (n < 1 || n > MAX_SHIFTS))
        return err_set(e, ERR_DATA, "%s: %" PRIu64 " images: the file is damaged", f->map->path, n);
    for (uint64_t i = 0; i < n; i++) {
        if (f->out) {
            store_u64(b, (uint64_t)q->shift[i].from);
            store_u64(b + 8, (uint64_t)q->shift[i].by);
        }
        TRY(read_or_write(f, b, 16, e));
        if (!f->map) continue;
        const int64_t at = (int64_t)load_u64(b), by = (int64_t)load_u64(b + 8);
        if (at <= (i ? q->shift[i - 1].from : 0) || at > s->o.n_ctx || by < -at || by > INT32_MAX)
            return err_set(e, ERR_DATA,
                           "%s: image %" PRIu64 " is out of place: the file is damaged",
                           f->map->path, i);
        seq_add_shift(q, at, by);
    }
    return 0;
}

int session_save_seq(const struct session *s, const struct seq *q, const char *path, bool overwrite,
                     struct err *e) {
    /* transfer_contents() does not modify the sequence when it writes a file. */
    struct seq *from = q ? (struct seq *)(uintptr_t)q : s->own;
    struct stream f = {0};
    uint8_t head[HEAD_BYTES], d[SLOT_BYTES];
    TRY(out_open(&f.out, path, overwrite, e));
    int64_t *first = calloc((size_t)s->cache.kv.n_slots + 1, sizeof *first);
    describe_seq(s, from, head);
    int rc = first ? read_or_write(&f, head, sizeof head, e) : err_set(e, ERR_SYS, "out of memory");
    if (from->n_shifts && !rc) rc = transfer_shifts(s, &f, from, e);
    for (int i = 0; i < s->cache.kv.n_slots && !rc; i++) {
        describe_slot(from, i, d);
        first[i] = from->slot[i].first * s->cache.page_tok;
        rc = read_or_write(&f, d, sizeof d, e);
    }
    if (!rc) rc = transfer_contents(s, &f, from, first, e);
    store_u64(d, f.sum);
    if (!rc) rc = out_write(f.out, d, 8, e);
    if (!rc) rc = out_commit(f.out, e);
    out_close(f.out);
    free(first);
    return rc;
}

/* ---- reading ---- */

static bool has_shifts(uint32_t version) {
    return version == VERSION_SHIFTS || version == VERSION_OLD_SHIFTS;
}

/* Fails unless the header is the one that this session would write for the same number of
 * tokens. */
static int check_head(const struct session *s, const uint8_t *have, int64_t *n_tok,
                      const char *path, struct err *e) {
    uint8_t want[HEAD_BYTES];
    struct seq like = *s->own;
    if (memcmp(have, magic, sizeof magic) != 0)
        return err_set(e, ERR_DATA, "%s is not a saved sequence", path);
    const uint32_t version = load_u32(have + 8);
    if (version < VERSION_OLD || version > VERSION_SHIFTS)
        return err_set(e, ERR_DATA,
                       "%s has version %" PRIu32
                       ", but hone reads versions up to %d: save it again",
                       path, version, VERSION_SHIFTS);
    const uint64_t n = load_u64(have + 16);
    if (n > (uint64_t)s->o.n_ctx)
        return err_set(e, ERR_USAGE,
                       "%s has %" PRIu64 " tokens, but the context only %" PRId64
                       ": use a larger --ctx",
                       path, n, s->o.n_ctx);
    *n_tok = like.pos = (int64_t)n;
    like.n_shifts = has_shifts(version);
    describe_seq(s, &like, want);
    store_u32(want + 8, version);
    if (memcmp(have, want, HEAD_BYTES) == 0) return 0;
    return err_set(e, ERR_DATA,
                   "%s was saved with a different model than %s, or with a context for which its "
                   "rotary angles differ: save it again",
                   path, gguf_path(s->m->gguf));
}

/* Fails if slot i has a type whose rows an earlier version stored differently. */
static int check_old(const struct seq *q, int i, const char *path, struct err *e) {
    const struct kv_slot *s = &q->cache->kv.slot[i];
    if (!s->n_heads || !(kv_type_is_blocks(s->kt) || kv_type_is_blocks(s->vt))) return 0;
    return err_set(e, ERR_DATA,
                   "%s was saved by an earlier version of hone, which stored %s/%s differently: "
                   "save it again",
                   path, s->kt->name, s->vt->name);
}

/* Fails if slot i was saved with a different shape. *first: first page in the file. */
static int check_slot(const struct seq *q, int i, const uint8_t *have, int64_t n_tok,
                      int64_t *first, const char *path, struct err *e) {
    const struct kv_slot *s = &q->cache->kv.slot[i];
    uint8_t want[SLOT_BYTES];
    describe_slot(q, i, want);
    const uint64_t from = load_u64(have + 56);
    if (memcmp(have, want, 56) != 0)
        return err_set(e, ERR_DATA, "%s was saved with a different cache type: use its --kv-type",
                       path);
    const int64_t needed = s->window > 0 ? max_i64(n_tok - s->window + 1, 0) : 0;
    if (from > (uint64_t)needed)
        return err_set(e, ERR_DATA, "%s: slot %d begins at %" PRIu64 ": the file is damaged", path,
                       i, from);
    *first = (int64_t)from;
    return 0;
}

/* Fails unless the last eight bytes of the file are the checksum of everything before them. */
static int check_sum(const struct stream *f, struct err *e) {
    if (f->map->size - f->at == 8 && load_u64(f->map->data + f->at) == f->sum) return 0;
    return err_set(e, ERR_DATA, "%s: checksum mismatch: the file is damaged", f->map->path);
}

/* Reads a sequence into q. first[]: the first page of each slot. */
static int load_seq(const struct session *s, struct seq *q, struct stream *f, int64_t *first,
                    struct err *e) {
    uint8_t head[HEAD_BYTES], d[SLOT_BYTES];
    int64_t n_tok = 0;
    TRY(read_or_write(f, head, sizeof head, e));
    TRY(check_head(s, head, &n_tok, f->map->path, e));
    const uint32_t version = load_u32(head + 8);
    if (has_shifts(version)) TRY(transfer_shifts(s, f, q, e));
    for (int i = 0; i < s->cache.kv.n_slots; i++) {
        TRY(read_or_write(f, d, sizeof d, e));
        TRY(check_slot(q, i, d, n_tok, &first[i], f->map->path, e));
        if (version < VERSION) TRY(check_old(q, i, f->map->path, e));
    }
    TRY(seq_make_room(q, n_tok, first, e));
    TRY(transfer_contents(s, f, q, first, e));
    return check_sum(f, e);
}

int session_load_seq(struct session *s, struct seq *q, const char *path, struct err *e) {
    struct map map = {0};
    struct stream f = {.map = &map};
    struct seq *fresh = NULL;
    TRY(map_open(&map, path, e));
    int64_t *first = calloc((size_t)s->cache.kv.n_slots + 1, sizeof *first);
    int rc = first ? seq_new(&fresh, &s->cache, 0, e) : err_set(e, ERR_SYS, "out of memory");
    if (!rc) rc = load_seq(s, fresh, &f, first, e);
    if (!rc) seq_restore(q ? q : s->own, fresh);
    seq_free(fresh);
    free(first);
    map_close(&map);
    return rc;
}
