// SPDX-License-Identifier: MIT
/* report/manifest.c - per-tensor hashes: computes, writes and looks them up. Memory: one chunk of
 * tensor data and the manifest's text. */
#include "report/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

enum { MAX_MANIFEST = 256 << 20 };

int manifest_walk(const struct gguf *g, const struct gguf_tensor *t, manifest_piece_fn fn, void *ud,
                  struct progress *p, struct err *e) {
    struct gguf_tensor part = *t; /* gguf_drop uses only offset and size */
    for (uint64_t at = 0; at < t->n_bytes; at += part.n_bytes) {
        uint64_t left = t->n_bytes - at;
        part.off = t->off + at;
        part.n_bytes = left < MANIFEST_PIECE ? left : MANIFEST_PIECE;
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        TRY(fn(ud, t->data + at, part.n_bytes, e));
        gguf_drop(g, &part);
        if (p) progress_update(p, p->done + part.n_bytes);
    }
    return 0;
}

/* Adds a piece to the hash `ud`, a struct xxh128. */
static int hash_piece(void *ud, const uint8_t *data, uint64_t n, struct err *e) {
    (void)e;
    struct xxh128 *x = ud;
    xxh128_add(x, data, (size_t)n);
    return 0;
}

int manifest_hash(const struct gguf *g, const struct gguf_tensor *t, char hex[33],
                  struct progress *p, struct err *e) {
    struct xxh128 *x = xxh128_new();
    int rc = manifest_walk(g, t, hash_piece, x, p, e);
    xxh128_hex(x, hex);
    xxh128_free(x);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct both {
    struct xxh128 *x;
    struct sha256 *s;
};
/* Adds a piece to both hashes of `ud`, a struct both. */
static int both_piece(void *ud, const uint8_t *data, uint64_t n, struct err *e) {
    (void)e;
    struct both *b = ud;
    xxh128_add(b->x, data, (size_t)n);
    sha256_add(b->s, data, (size_t)n);
    return 0;
}

static int by_offset(const void *a, const void *b) {
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a;
    const struct gguf_tensor *y = *(const struct gguf_tensor *const *)b;
    return x->off < y->off ? -1 : x->off > y->off;
}

/* Adds a tensor's entry with its hash in hex. */
static void add_tensor(cJSON *tensors, const struct gguf_tensor *t, const char *hex) {
    cJSON *o = doc_obj(tensors, NULL);
    doc_put_str(o, "name", t->name);
    doc_put_str(o, "type", qtype_name(t->type));
    cJSON *shape = doc_arr(o, "shape");
    for (int d = 0; d < t->n_dims; d++) doc_put_i64(shape, NULL, t->ne[d]);
    doc_put_i64(o, "size_bytes", (int64_t)t->n_bytes);
    doc_put_str(o, "xxh128", hex);
}

/* Reads the file once, from start to end: the header, then tensors and the gaps between them. */
static int add_tensors(cJSON *to, const struct gguf *g, char sha256[65], struct progress *p,
                       struct err *e) {
    int64_t n = gguf_n_tensors(g);
    const struct gguf_tensor **t = xcalloc((size_t)n + 1, sizeof *t);
    struct sha256 sha;
    struct both b = {xxh128_new(), &sha};
    uint64_t header, at, end = gguf_shard_bytes(g, 0);
    const uint8_t *base = gguf_shard_header(g, 0, &header);
    int rc = 0;
    for (int64_t i = 0; i < n; i++) t[i] = gguf_tensor_at(g, i);
    if (n) qsort(t, (size_t)n, sizeof *t, by_offset);
    sha256_init(&sha);
    sha256_add(&sha, base, (size_t)header);
    at = header;
    cJSON *tensors = doc_arr(to, "tensors");
    for (int64_t i = 0; i < n && rc == 0; i++) {
        char hex[33];
        uint64_t off = (uint64_t)(t[i]->data - base);
        sha256_add(&sha, base + at, (size_t)(off - at));
        xxh128_reset(b.x);
        rc = manifest_walk(g, t[i], both_piece, &b, p, e);
        xxh128_hex(b.x, hex);
        add_tensor(tensors, t[i], hex);
        at = off + t[i]->n_bytes;
    }
    if (rc == 0) sha256_add(&sha, base + at, (size_t)(end - at));
    sha256_hex(&sha, sha256);
    xxh128_free(b.x);
    free(t);
    return rc;
}

int manifest_add_gguf(cJSON *files, const char *path, char sha256[65], struct progress *p,
                      struct err *e) {
    struct gguf *g;
    char hex[33];
    uint64_t n;
    TRY(gguf_open(&g, path, GGUF_ONE_FILE | GGUF_TOLERANT, e));
    const uint8_t *header = gguf_shard_header(g, 0, &n);
    hash_xxh128_hex(hex, header, (size_t)n);
    cJSON *o = doc_obj(files, NULL);
    doc_put_str(o, "file", io_base(path));
    doc_put_i64(o, "size_bytes", (int64_t)gguf_shard_bytes(g, 0));
    doc_put_i64(o, "header_bytes", (int64_t)n);
    doc_put_str(o, "header_xxh128", hex);
    int rc = add_tensors(o, g, sha256, p, e);
    doc_put_str(o, "sha256", sha256);
    gguf_close(g);
    return rc;
}

int manifest_add_file(cJSON *files, const char *path, const char *written, char sha256[65],
                      struct err *e) {
    uint64_t n;
    TRY(sha256_file(path, sha256, e));
    TRY(io_file_size(path, &n, e));
    cJSON *o = doc_obj(files, NULL);
    doc_put_str(o, "file", io_base(path));
    doc_put_i64(o, "size_bytes", (int64_t)n);
    doc_put_str(o, "sha256", sha256);
    if (written) doc_put_str(o, "written_sha256", written);
    return 0;
}

/* ---- finding --------------------------------------------------------------------------------- */

struct manifest {
    cJSON *root;
    struct strmap *hash; /* tensor name -> index of hex */
    const char **hex;
    int64_t n, cap;
};

void manifest_free(struct manifest *m) {
    if (!m) return;
    strmap_free(m->hash);
    free(m->hex);
    cJSON_Delete(m->root);
    free(m);
}

/* Returns the entry of a file; NULL: not found. */
static const cJSON *find_entry(const cJSON *files, const char *name) {
    for (const cJSON *f = doc_first(files); f; f = f->next)
        if (doc_is(f, "file", name)) return f;
    return NULL;
}

/* Takes the hashes of a shard from its entry. Returns false if the entry describes a different
 * file. */
static bool take_shard(struct manifest *m, const struct gguf *g, int shard) {
    const cJSON *f = find_entry(doc_get(m->root, "files"), io_base(gguf_shard_path(g, shard)));
    const char *claimed = doc_str(f, "header_xxh128");
    char hex[33];
    uint64_t n;
    int64_t size;
    if (!claimed || !doc_i64(f, "size_bytes", &size)) return false;
    if ((uint64_t)size != gguf_shard_bytes(g, shard)) return false;
    const uint8_t *header = gguf_shard_header(g, shard, &n);
    hash_xxh128_hex(hex, header, (size_t)n);
    if (strcmp(hex, claimed) != 0) return false;
    for (const cJSON *t = doc_first(doc_get(f, "tensors")); t; t = t->next) {
        const char *name = doc_str(t, "name"), *h = doc_str(t, "xxh128");
        if (!name || !h || strlen(h) != 32) return false;
        if (m->n == m->cap) {
            m->cap = m->cap ? 2 * m->cap : 256;
            m->hex = xreallocarray(m->hex, (size_t)m->cap, sizeof *m->hex);
        }
        if (!strmap_add(m->hash, name, strlen(name), m->n)) return false;
        m->hex[m->n++] = h;
    }
    return true;
}

void manifest_of(struct manifest **out, const struct gguf *g) {
    const char *path = gguf_path(g);
    struct err e = {0};
    *out = NULL;
    char *name = xasprintf("%.*s" MANIFEST_NAME, (int)(io_base(path) - path), path);
    struct manifest *m = xcalloc(1, sizeof *m);
    m->hash = strmap_new((size_t)gguf_n_tensors(g));
    bool ok = io_exists(name) && doc_read(&m->root, name, MAX_MANIFEST, &e) == 0;
    if (e.msg[0]) log_debug("%s: not used: %s", name, e.msg);
    ok = ok && doc_is(m->root, "format", "hone-manifest");
    for (int i = 0; ok && i < gguf_n_shards(g); i++) ok = take_shard(m, g, i);
    if (ok && gguf_n_tensors(g) == m->n)
        *out = m;
    else
        manifest_free(m);
    free(name);
}

const char *manifest_tensor(const struct manifest *m, const char *name) {
    int64_t i = m ? strmap_get(m->hash, name, strlen(name)) : -1;
    return i < 0 ? NULL : m->hex[i];
}
