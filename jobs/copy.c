// SPDX-License-Identifier: MIT
/* jobs/copy.c - verified copy of a GGUF (copy.h). Memory: keys, 33 bytes per tensor, one chunk of
 * data. */
#include "jobs/copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/progress.h"
#include "report/manifest.h"

/* Returns whether the key describes a shard; these keys differ after a split. */
static bool is_split_key(const char *key) {
    return strncmp(key, "split.", 6) == 0;
}

/* Returns whether the keys have the same type and value. */
static bool same_key(const struct gguf_kv *a, const struct gguf_kv *b) {
    return a->type == b->type && a->elem == b->elem && a->n_bytes == b->n_bytes &&
           memcmp(a->data, b->data, (size_t)a->n_bytes) == 0;
}

/* Warns about later files of a set with a key that the first one lacks or has with another value,
 * once for each file. */
static void warn_lost_keys(const struct gguf *g) {
    for (int i = 1; i < gguf_n_shards(g); i++) {
        const struct gguf_kv *k;
        for (int64_t n = 0; (k = gguf_shard_kv_at(g, i, n)); n++) {
            const struct gguf_kv *first = gguf_find(g, k->key);
            if (is_split_key(k->key) || (first && same_key(first, k))) continue;
            log_warn("%s: key \"%s\" %s; only the keys of the first file are copied",
                     gguf_shard_path(g, i), show_n(k->key, strlen(k->key)).s,
                     first ? "has another value than in the first file"
                           : "is not in the first file");
            break;
        }
    }
}

int copy_declare(const struct gguf *g, struct gguf_w *w, struct err *e) {
    warn_lost_keys(g);
    for (int64_t i = 0; i < gguf_n_kv(g); i++) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        TRY(gguf_w_tensor(w, t->name, t->type, t->n_dims, t->ne, e));
    }
    return 0;
}

struct sink {
    struct gguf_w *w;
    struct xxh128 *x;
};
/* Hashes a piece of a tensor and writes it. */
static int put_piece(void *ud, const uint8_t *data, uint64_t n, struct err *e) {
    struct sink *s = ud;
    xxh128_add(s->x, data, (size_t)n);
    return gguf_w_data(s->w, data, n, e);
}

/* Copies all tensors. hex receives their hashes, which are compared with a manifest's. */
static int put_tensors(const struct gguf *g, struct gguf_w *w, char (*hex)[33],
                       struct copy_report *r, struct err *e) {
    struct manifest *known;
    struct sink s = {w, xxh128_new()};
    struct progress p;
    int rc = 0;
    manifest_of(&known, g);
    if (known) log_debug("%s: checked against its manifest", gguf_path(g));
    progress_begin(&p, "copying", PROG_BYTES, gguf_file_bytes(g));
    for (int64_t i = 0; i < gguf_n_tensors(g) && rc == 0; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        xxh128_reset(s.x);
        rc = manifest_walk(g, t, put_piece, &s, &p, e);
        xxh128_hex(s.x, hex[i]);
        const char *want = manifest_tensor(known, t->name);
        if (rc == 0 && want && strcmp(want, hex[i]) != 0)
            rc = err_set(e, ERR_DATA,
                         "%s: the data of tensor \"%s\" do not match manifest.json; download "
                         "the file again",
                         gguf_shard_path(g, t->shard), t->name);
        r->n_known += want != NULL;
        r->n_bytes += t->n_bytes;
        r->n_tensors++;
    }
    progress_end(&p);
    manifest_free(known);
    xxh128_free(s.x);
    return rc;
}

/* ---- reading back ---------------------------------------------------------------------------- */

/* Sets and returns the error for data that differs when read back. */
static int fail_different(const char *path, const char *what, const char *name, struct err *e) {
    return err_set(e, ERR_SYS,
                   "%s: %s \"%s\" reads back different from the data written; the disk or the "
                   "memory is faulty, do not use the file",
                   path, what, name);
}

/* Returns an error unless b has the keys of a, except those of shards. */
static int compare_keys(const struct gguf *a, const struct gguf *b, struct err *e) {
    for (int64_t i = 0; i < gguf_n_kv(a); i++) {
        const struct gguf_kv *k = gguf_kv_at(a, i);
        const struct gguf_kv *o = gguf_find(b, k->key);
        if (is_split_key(k->key)) continue;
        if (!o || !same_key(k, o)) return fail_different(gguf_path(b), "metadata key", k->key, e);
    }
    return 0;
}

/* Returns an error unless the tensors of b have these hashes. */
static int compare_tensors(const struct gguf *a, const struct gguf *b, char (*hex)[33],
                           struct err *e) {
    struct progress p;
    int rc = 0;
    progress_begin(&p, "checking", PROG_BYTES, gguf_file_bytes(b));
    if (gguf_n_tensors(a) != gguf_n_tensors(b))
        rc = fail_different(gguf_path(b), "number of tensors of", gguf_path(b), e);
    for (int64_t i = 0; i < gguf_n_tensors(a) && rc == 0; i++) {
        const struct gguf_tensor *s = gguf_tensor_at(a, i), *t = gguf_tensor_at(b, i);
        char h[33];
        if (strcmp(s->name, t->name) != 0 || s->type != t->type || s->n_dims != t->n_dims ||
            memcmp(s->ne, t->ne, sizeof s->ne) != 0)
            rc = fail_different(gguf_path(b), "tensor", s->name, e);
        if (rc == 0) rc = manifest_hash(b, t, h, &p, e);
        if (rc == 0 && strcmp(h, hex[i]) != 0)
            rc = fail_different(gguf_path(b), "tensor", t->name, e);
    }
    progress_end(&p);
    return rc;
}

/* Reads the written files and compares them with the copied bytes. */
static int read_back(const struct gguf *g, const char *first, char (*hex)[33], struct err *e) {
    struct gguf *b;
    TRY(gguf_open(&b, first, 0, e));
    int rc = compare_keys(g, b, e);
    if (rc == 0) rc = compare_tensors(g, b, hex, e);
    gguf_close(b);
    return rc;
}

int copy_write(const struct gguf *g, struct gguf_w *w, const char *path, const char *first,
               bool overwrite, struct copy_report *r, struct err *e) {
    double t0 = progress_now_s();
    char(*hex)[33] = xcalloc((size_t)gguf_n_tensors(g) + 1, sizeof *hex);
    memset(r, 0, sizeof *r);
    int rc = gguf_w_apart(w, path, g, e);
    if (rc == 0) rc = gguf_w_begin(w, path, overwrite, e);
    if (rc == 0) rc = put_tensors(g, w, hex, r, e);
    if (rc == 0) rc = gguf_w_commit(w, e);
    if (rc == 0) rc = read_back(g, first, hex, e);
    r->seconds = progress_now_s() - t0;
    free(hex);
    return rc;
}
