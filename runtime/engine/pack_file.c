// SPDX-License-Identifier: MIT
/* runtime/engine/pack_file.c - reader and writer of a file of packed rows (pack_file.h).
 *
 * Offsets follow from the pack_list, so the file has no index: a header, then each weight's rows,
 * page aligned. The work is split into leaves: runs of row groups of about 1 MiB. One thread packs,
 * hashes and writes a leaf. The file's two hashes (of the rows, and of the blocks they were made
 * from) are computed over the leaves' hashes in order, so they do not depend on the number of
 * threads. */
#include "runtime/engine/pack_file.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/map.h"
#include "base/out.h"

enum {
    VERSION = 1,
    HEAD = 256,
    HASHED = 192,   /* bytes of the header before its hash */
    PAGE = 16384,   /* largest page size of common machines */
    LEAF = 1 << 20, /* approximate bytes of a leaf */
    ROUND = 256,    /* leaves between checks of progress and interruption */
    SAMPLE = 4096,  /* bytes of each weight that enter the key */
    HEX = 32
};
static const char magic[8] = {'H', 'O', 'N', 'E', 'P', 'A', 'C', 'K'};
/* Offsets of header fields in bytes. */
enum { AT_VERSION = 8, AT_COUNT = 12, AT_BYTES = 16, AT_KEY = 32, AT_SOURCE = 64, AT_ROWS = 96 };

struct pack_file {
    atomic_int n_refs;
    struct map map;
    uint64_t *off; /* [items] offset of each item's rows in the file */
};

/* ---- layout ---- */

/* Returns the file size. Unless off is NULL, sets off[i] to the offset of item i's rows. */
static uint64_t lay_out(const struct pack_list *l, uint64_t *off) {
    uint64_t at = round_up(HEAD, PAGE);
    for (int i = 0; i < l->n; i++) {
        if (off) off[i] = at;
        at += round_up(l->item[i].w->n_bytes, PAGE);
    }
    return at;
}

uint64_t pack_file_bytes(const struct pack_list *l) {
    return lay_out(l, NULL);
}

void pack_file_key(const struct pack_list *l, char key[33]) {
    struct buf b = {0};
    char hex[33];
    buf_fmt(&b, "packed rows %d;", VERSION);
    for (int i = 0; i < l->n; i++) {
        const struct weight *w = l->item[i].w;
        const uint64_t n = w->n_bytes < SAMPLE ? w->n_bytes : SAMPLE;
        hash_xxh128_hex(hex, (const uint8_t *)w->data + (w->n_bytes - n) / 2, (size_t)n);
        buf_fmt(&b, "%s %d %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s;", l->item[i].name,
                (int)w->type, l->item[i].rows, w->ne[0], w->ne[1], w->ne[2], w->ne[3], hex);
    }
    hash_xxh128_hex(key, b.data, b.len);
    buf_release(&b);
}

/* ---- leaves ---- */

struct leaf {
    int item;
    int64_t g0, g1; /* groups of rows [g0, g1) of the item */
    char source[33], rows[33];
};
struct leaves {
    const struct pack_list *l;
    struct leaf *leaf;
    /* Number of leaves; first leaf of the current round. */
    int64_t n, first;
    /* [items] offsets of the rows in the file; bytes of the largest leaf. */
    uint64_t *off, most;
    /* File being written, from the buffers in `work`; NULL: compares `file` instead. */
    struct out *out;
    uint8_t **work; /* one buffer per thread */
    const struct pack_file *file;
    /* 1 + index of the first leaf that failed so far; its error is in e; 0: none. */
    atomic_int failed;
    struct err *e;
};

/* Returns the number of groups of rows in a leaf, the unit of writing and hashing. */
static int64_t leaf_groups(const struct pack_item *it) {
    return max_i64(1, LEAF / (int64_t)pack_group_bytes(it));
}

/* Lists the leaves of all weights in l. */
static void leaves_init(struct leaves *v, const struct pack_list *l) {
    *v = (struct leaves){.l = l};
    for (int i = 0; i < l->n; i++)
        v->n += div_up(pack_groups(&l->item[i]), leaf_groups(&l->item[i]));
    v->leaf = xcalloc((size_t)v->n + 1, sizeof *v->leaf);
    v->off = xcalloc((size_t)l->n + 1, sizeof *v->off);
    (void)lay_out(l, v->off);
    int64_t at = 0;
    for (int i = 0; i < l->n; i++) {
        const struct pack_item *it = &l->item[i];
        const int64_t n = pack_groups(it), step = leaf_groups(it);
        v->most = max_u64(v->most, (uint64_t)min_i64(step, n) * pack_group_bytes(it));
        for (int64_t g = 0; g < n; g += step)
            v->leaf[at++] = (struct leaf){.item = i, .g0 = g, .g1 = min_i64(g + step, n)};
    }
}

static void leaves_release(struct leaves *v) {
    free(v->leaf);
    free(v->off);
}

/* Hashes the rows of leaf x. Packs and writes them first, unless a file is being checked. */
static void do_leaf(struct leaves *v, struct leaf *x, int64_t i, int worker) {
    const struct pack_item *it = &v->l->item[x->item];
    const uint64_t group = pack_group_bytes(it), at = (uint64_t)x->g0 * group;
    const size_t n = (size_t)((uint64_t)(x->g1 - x->g0) * group);
    const uint8_t *rows = v->file ? pack_file_rows(v->file, x->item) + at : v->work[worker];
    struct err e;
    hash_xxh128_hex(x->source, (const uint8_t *)it->w->data + at, n);
    if (!v->file) pack_range(it, x->g0, x->g1, v->work[worker]);
    hash_xxh128_hex(x->rows, rows, n);
    if (v->file || !out_pwrite(v->out, rows, n, v->off[x->item] + at, &e)) return;
    int none = 0;
    if (atomic_compare_exchange_strong(&v->failed, &none, (int)min_i64(i, INT32_MAX - 1) + 1))
        *v->e = e;
}
/* Processes leaves of the packed file; a pool_fn that stops after a failure. */
static void leaf_task(void *ctx, int64_t begin, int64_t end, int worker) {
    struct leaves *v = ctx;
    for (int64_t i = v->first + begin; i < v->first + end && !atomic_load(&v->failed); i++)
        do_leaf(v, &v->leaf[i], i, worker);
}

/* Runs do_leaf() on all leaves and shows progress with the label `what`. */
static int run_leaves(struct leaves *v, const char *what, struct pool *pool, struct err *e) {
    struct progress prog = {0};
    int rc = 0;
    v->e = e;
    progress_begin(&prog, what, PROG_BYTES, pack_file_bytes(v->l));
    for (v->first = 0; v->first < v->n && !rc; v->first += ROUND) {
        pool_for(pool, min_i64(ROUND, v->n - v->first), 1, leaf_task, v);
        const struct leaf *last = &v->leaf[min_i64(v->first + ROUND, v->n) - 1];
        progress_update(&prog, v->off[last->item] +
                                   (uint64_t)last->g1 * pack_group_bytes(&v->l->item[last->item]));
        if (atomic_load(&v->failed)) rc = (int)e->code;
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    progress_end(&prog);
    return rc;
}

/* Computes the hashes of the source blocks and of the rows. */
static void sums(const struct leaves *v, char source[33], char rows[33]) {
    struct xxh128 *a = xxh128_new(), *b = xxh128_new();
    for (int64_t i = 0; i < v->n; i++) {
        xxh128_add(a, v->leaf[i].source, HEX);
        xxh128_add(b, v->leaf[i].rows, HEX);
    }
    xxh128_hex(a, source);
    xxh128_hex(b, rows);
    xxh128_free(a);
    xxh128_free(b);
}

/* ---- writing ---- */

/* Writes the header: version, sizes and hashes of sources and rows. */
static int write_head(struct out *o, const struct leaves *v, struct err *e) {
    uint8_t head[HEAD] = {0};
    char key[33], source[33], rows[33], hex[33];
    pack_file_key(v->l, key);
    sums(v, source, rows);
    memcpy(head, magic, sizeof magic);
    store_u32(head + AT_VERSION, VERSION);
    store_u32(head + AT_COUNT, (uint32_t)v->l->n);
    store_u64(head + AT_BYTES, pack_file_bytes(v->l));
    memcpy(head + AT_KEY, key, HEX);
    memcpy(head + AT_SOURCE, source, HEX);
    memcpy(head + AT_ROWS, rows, HEX);
    hash_xxh128_hex(hex, head, HASHED);
    memcpy(head + HASHED, hex, HEX);
    return out_pwrite(o, head, HEAD, 0, e);
}

/* Packs all weights, writes the head last and commits the file. */
static int write_all(struct leaves *v, struct pool *pool, struct err *e) {
    /* Reports a full disk before the work starts. */
    TRY(out_resize(v->out, pack_file_bytes(v->l), e));
    TRY(run_leaves(v, "packing", pool, e));
    TRY(write_head(v->out, v, e));
    return out_commit(v->out, e);
}

int pack_file_write(const char *path, const struct pack_list *l, struct pool *pool, struct err *e) {
    struct leaves v;
    leaves_init(&v, l);
    const int n = pool_size(pool);
    int rc = out_open(&v.out, path, true, e);
    v.work = xcalloc((size_t)n, sizeof *v.work);
    for (int i = 0; i < n && !rc; i++) {
        void *p = NULL;
        rc = mem_alloc(&p, v.most, "rows to be written", e);
        v.work[i] = p;
    }
    if (!rc) rc = write_all(&v, pool, e);
    out_close(v.out);
    for (int i = 0; i < n; i++) mem_free(v.work[i]);
    free(v.work);
    leaves_release(&v);
    return rc;
}

/* ---- reading ---- */

/* Returns ERR_DATA unless f has an intact header and the rows of the weights in l. */
static int check_head(const struct pack_file *f, const struct pack_list *l, struct err *e) {
    const uint8_t *head = f->map.data;
    char hex[33];
    if (f->map.size < HEAD || memcmp(head, magic, sizeof magic) != 0)
        return err_set(e, ERR_DATA, "%s is not a file of packed rows", f->map.path);
    hash_xxh128_hex(hex, head, HASHED);
    if (memcmp(head + HASHED, hex, HEX) != 0)
        return err_set(e, ERR_DATA, "%s: the header is damaged", f->map.path);
    pack_file_key(l, hex);
    if (load_u32(head + AT_VERSION) != VERSION || load_u32(head + AT_COUNT) != (uint32_t)l->n ||
        memcmp(head + AT_KEY, hex, HEX) != 0)
        return err_set(e, ERR_DATA, "%s holds the rows of another model", f->map.path);
    if (f->map.size != pack_file_bytes(l) || load_u64(head + AT_BYTES) != f->map.size)
        return err_set(e, ERR_DATA, "%s has %" PRIu64 " bytes but should have %" PRIu64,
                       f->map.path, f->map.size, pack_file_bytes(l));
    return 0;
}

int pack_file_open(struct pack_file **out, const char *path, const struct pack_list *l,
                   struct err *e) {
    struct pack_file *f = xcalloc(1, sizeof *f);
    atomic_init(&f->n_refs, 1);
    int rc = map_open(&f->map, path, e);
    if (!rc) rc = check_head(f, l, e);
    if (rc) {
        pack_file_drop(f);
        return rc;
    }
    f->off = xcalloc((size_t)l->n + 1, sizeof *f->off);
    (void)lay_out(l, f->off);
    *out = f;
    return 0;
}

void pack_file_keep(struct pack_file *f) {
    atomic_fetch_add_explicit(&f->n_refs, 1, memory_order_relaxed);
}

void pack_file_drop(void *file) {
    struct pack_file *f = file;
    if (!f || atomic_fetch_sub_explicit(&f->n_refs, 1, memory_order_acq_rel) != 1) return;
    map_close(&f->map);
    free(f->off);
    free(f);
}

int pack_file_check(const struct pack_file *f, const struct pack_list *l, struct pool *pool,
                    struct err *e) {
    struct leaves v;
    char source[33], rows[33];
    leaves_init(&v, l);
    v.file = f;
    int rc = run_leaves(&v, "checking packed rows", pool, e);
    if (!rc) {
        sums(&v, source, rows);
        if (memcmp(f->map.data + AT_ROWS, rows, HEX) != 0)
            rc = err_set(e, ERR_DATA, "%s is damaged", f->map.path);
        else if (memcmp(f->map.data + AT_SOURCE, source, HEX) != 0)
            rc = err_set(e, ERR_DATA, "%s was made from other weights", f->map.path);
    }
    leaves_release(&v);
    return rc;
}

const uint8_t *pack_file_rows(const struct pack_file *f, int i) {
    return f->map.data + f->off[i];
}
const struct file_id *pack_file_id(const struct pack_file *f) {
    return &f->map.id;
}
