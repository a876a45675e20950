// SPDX-License-Identifier: MIT
/* jobs/split_job.c - hone split and hone merge: a GGUF to shards and back.
 *
 * Unless --no-metadata-first is given, the first shard holds only the keys, so that a new chat
 * template needs only a small upload. `hone merge` restores the file byte for byte, if it has the
 * layout that the writer gives it; `hone split` warns otherwise. */
#include <stdlib.h>
#include <string.h>

#include "jobs/split_job.h"
#include "jobs/copy.h"
#include "base/log.h"
#include "base/num.h"
#include "base/mem.h"

/* Default limit of tensor bytes per shard: the Hub recommends files of at most 50 GB. The
 * difference leaves room for the header, which this limit does not count. */
static const uint64_t default_max = UINT64_C(49000000000);

/* Counts the shards as the writer distributes tensors: by padded bytes, without splitting a tensor.
 */
static int count_shards(const struct gguf *g, uint64_t max, bool data_first, uint64_t *largest) {
    int n = data_first ? 0 : 1;
    uint64_t sum = 0, align = gguf_alignment(g);
    *largest = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        uint64_t bytes = round_up(gguf_tensor_at(g, i)->n_bytes, align);
        if (i == 0 || (sum && sum + bytes > max)) {
            n++;
            sum = 0;
        }
        sum += bytes;
        if (sum > *largest) *largest = sum;
    }
    return n;
}

/* Adds the result: number of shards, total size and largest size in bytes. */
static void emit_split(struct emit *m, const char *first, int n, uint64_t total, uint64_t largest,
                       const struct copy_report *r) {
    char size[48];
    emit_fmt_bytes(size, total);
    emit_str(m, "first", "first file", first);
    emit_i64(m, "n_files", "files", n);
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)total);
    emit_fmt_bytes(size, largest);
    emit_str(m, "largest", "most tensor data in a file", size);
    emit_i64(m, "largest_bytes", NULL, (int64_t)largest);
    if (r) {
        emit_i64(m, "n_tensors", "tensors copied and compared", r->n_tensors);
        emit_i64(m, "n_manifest", "known to the manifest", r->n_known);
        emit_num(m, "seconds", "seconds", r->seconds, 1);
    }
}

/* Warns if a merge of its shards cannot restore the file's bytes, because a writer would place
 * its parts differently. */
static int warn_layout(const struct gguf *g, struct err *e) {
    struct gguf_w *plain = gguf_w_new();
    struct buf b = {0};
    uint64_t n;
    const uint8_t *header = gguf_shard_header(g, 0, &n);
    int rc = copy_declare(g, plain, e);
    if (!rc) gguf_w_header(plain, &b);
    if (!rc && (b.len > n || memcmp(b.data, header, b.len) != 0 ||
                gguf_w_total_bytes(plain) != gguf_file_bytes(g)))
        log_warn("%s is an older version, is padded differently, or has bytes after its tensors; "
                 "`hone merge` will restore keys and tensors, but not the same file",
                 gguf_path(g));
    buf_release(&b);
    gguf_w_free(plain);
    return rc;
}

/* Divides a model into shards and compares the written tensors. */
static int write_split(const struct work *w, const struct split_opts *a, const struct gguf *g,
                       struct emit *m, struct err *e) {
    uint64_t max = a->max_size ? a->max_size : default_max, largest;
    const char *path = a->out ? a->out : gguf_path(g);
    int n = count_shards(g, max, a->data_first, &largest);
    if (gguf_n_tensors(g) == 0)
        return err_set(e, ERR_USAGE, "%s has no tensors, so there is nothing to split",
                       gguf_path(g));
    if (n < 2 || (!a->max_size && largest <= max && n == 2 && !a->data_first))
        return err_set(e, ERR_USAGE,
                       "%s fits in one file of %llu bytes%s; give a smaller --max-size to split it",
                       gguf_path(g), (unsigned long long)max,
                       a->max_size ? "" : ", the limit without --max-size or with 0");
    if (largest > max)
        log_warn("a tensor is larger than --max-size: its file has %llu bytes",
                 (unsigned long long)largest);
    if (gguf_n_shards(g) == 1) TRY(warn_layout(g, e));
    struct gguf_w *dst = gguf_w_new();
    struct copy_report r;
    char *first = gguf_split_name(path, 0, n);
    gguf_w_split(dst, max, !a->data_first);
    int rc = copy_declare(g, dst, e);
    if (rc == 0 && !a->dry_run) rc = copy_write(g, dst, path, first, w->overwrite, &r, e);
    if (rc == 0) emit_split(m, first, n, gguf_w_total_bytes(dst), largest, a->dry_run ? NULL : &r);
    gguf_w_free(dst);
    free(first);
    return rc;
}

int split_run(const struct work *w, const struct split_opts *o, struct emit *m, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, o->path, GGUF_TOLERANT, e));
    int rc = write_split(w, o, g, m, e);
    gguf_close(g);
    return rc;
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* Writes all shards as one file and compares the written tensors. */
static int write_merged(const struct work *w, const struct gguf *g, const char *out, struct emit *m,
                        struct err *e) {
    struct gguf_w *dst = gguf_w_new();
    struct copy_report r;
    int rc = copy_declare(g, dst, e);
    uint64_t total = rc ? 0 : gguf_w_total_bytes(dst);
    if (rc == 0) rc = copy_write(g, dst, out, out, w->overwrite, &r, e);
    gguf_w_free(dst);
    if (rc) return rc;
    char size[48];
    emit_fmt_bytes(size, total);
    emit_str(m, "output", "output", out);
    emit_i64(m, "n_files", "files read", gguf_n_shards(g));
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)total);
    emit_i64(m, "n_tensors", "tensors copied and compared", r.n_tensors);
    emit_i64(m, "n_manifest", "known to the manifest", r.n_known);
    emit_num(m, "seconds", "seconds", r.seconds, 1);
    return 0;
}

int merge_run(const struct work *w, const struct merge_opts *o, struct emit *m, struct err *e) {
    const char *shard = o->shard;
    struct gguf *g;
    int i, n;
    size_t len;
    if (!gguf_split_parse(shard, &i, &n, &len))
        return err_set(e, ERR_USAGE, "%s: names of shards end in -00001-of-00003.gguf", shard);
    char *first = gguf_split_name(shard, 0, n);
    char *whole = xasprintf("%.*s.gguf", (int)len, shard);
    int rc = gguf_open(&g, first, GGUF_TOLERANT, e);
    if (rc == 0 && gguf_n_shards(g) < n)
        rc = err_set(e, ERR_DATA,
                     "%s: named like a shard, but key \"split.count\" does not match; rename the "
                     "file",
                     first);
    else if (rc)
        g = NULL;
    if (rc == 0) rc = write_merged(w, g, o->out ? o->out : whole, m, e);
    gguf_close(g);
    free(first);
    free(whole);
    return rc;
}
