// SPDX-License-Identifier: MIT
/* jobs/gguf_diff.c - hone diff: comparison of two GGUF files or split sets.
 *
 * Compares keys by value, and tensors by name, shape, type and data. Data of equal type are
 * compared by the hashes in both files' manifest.json, without reading them, otherwise byte by byte
 * in chunks of 8 MiB. Order of keys and tensors, padding and number of shards do not matter. Exit
 * status 1 if anything differs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/gguf_diff.h"
#include "work/kv_text.h"
#include "containers/gguf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "report/manifest.h"
#include "template/fix_diff.h"

enum change { SAME, ONLY_A, ONLY_B, SHAPE, TYPE, DATA, CHANGE_COUNT };
static const char *const change_name[CHANGE_COUNT] = {"same",  "removed", "added",
                                                      "shape", "type",    "data"};

struct row {
    const struct gguf_tensor *a, *b; /* NULL: missing in that file */
    enum change change;
    bool has_error;
    double error; /* relative RMS error of b against a; NaN: a weight is not a number */
};
struct diff {
    const struct gguf *a, *b;
    struct manifest *ma, *mb;
    bool want_error, list;
    struct kern kern;
    struct row *row;
    int64_t n_rows, n_keys, count[CHANGE_COUNT];
    uint64_t n_read; /* bytes compared by reading */
};

/* ---- tensors --------------------------------------------------------------------------------- */

static bool same_shape(const struct gguf_tensor *a, const struct gguf_tensor *b) {
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

struct against {
    const struct gguf *b;
    struct gguf_tensor part; /* next part of b */
    bool equal;
};
/* Compares a piece of a tensor with the other file's; ud: struct against. */
static int compare_piece(void *ud, const uint8_t *data, uint64_t n, struct err *e) {
    struct against *x = ud;
    (void)e;
    x->part.n_bytes = n;
    if (x->equal) x->equal = memcmp(data, x->part.data, (size_t)n) == 0;
    gguf_drop(x->b, &x->part);
    x->part.data += n;
    x->part.off += n;
    return 0;
}

/* Sets *same to whether the row's two tensors have the same bytes. With manifests the
 * tensors need not be read. */
static int same_data(struct diff *d, const struct row *r, struct progress *p, bool *same,
                     struct err *e) {
    const char *ha = manifest_tensor(d->ma, r->a->name), *hb = manifest_tensor(d->mb, r->b->name);
    if (ha && hb) {
        *same = strcmp(ha, hb) == 0;
        return 0;
    }
    struct against x = {.b = d->b, .part = *r->b, .equal = true};
    d->n_read += 2 * r->a->n_bytes;
    TRY(manifest_walk(d->a, r->a, compare_piece, &x, p, e));
    *same = x.equal;
    return 0;
}

/* Computes sqrt(sum (b-a)^2 / sum a^2) over all rows, both decoded to f32 and summed in double. */
static int tensor_error(const struct diff *d, struct row *r, struct err *e) {
    const struct gguf_tensor *a = r->a, *b = r->b;
    void (*decode_a)(const void *restrict, float *restrict, int64_t) = d->kern.op[a->type].decode;
    void (*decode_b)(const void *restrict, float *restrict, int64_t) = d->kern.op[b->type].decode;
    if (!decode_a || !decode_b) return 0;
    uint64_t row_a = qtype_row_bytes(a->type, a->ne[0]), row_b = qtype_row_bytes(b->type, b->ne[0]);
    int64_t n = a->ne[0], n_rows = (int64_t)(a->n_bytes / row_a);
    void *mem;
    TRY(mem_alloc(&mem, 2 * (uint64_t)n * sizeof(float), "two rows of weights", e));
    float *x = mem, *y = x + n;
    double sum = 0, ref = 0;
    int64_t n_a = 1, n_b = 1; /* scales: gguf_scales */
    const float *s_a = gguf_scales(d->a, a, &n_a), *s_b = gguf_scales(d->b, b, &n_b);
    for (int64_t i = 0; i < n_rows; i++) {
        const double by_a = s_a ? (double)s_a[n_a > 1 ? i / a->ne[1] : 0] : 1,
                     by_b = s_b ? (double)s_b[n_b > 1 ? i / b->ne[1] : 0] : 1;
        if (i % 1024 == 0 && progress_interrupted()) {
            mem_free(mem);
            return err_set(e, ERR_INTR, "interrupted");
        }
        decode_a(a->data + (uint64_t)i * row_a, x, n);
        decode_b(b->data + (uint64_t)i * row_b, y, n);
        for (int64_t k = 0; k < n; k++) {
            const double v = by_a * (double)x[k], dx = by_b * (double)y[k] - v;
            sum += dx * dx;
            ref += v * v;
        }
    }
    r->has_error = true;
    r->error = sum == 0 ? 0 : sqrt(sum / ref); /* infinite if only b has weights other than 0 */
    gguf_drop(d->a, a);
    gguf_drop(d->b, b);
    mem_free(mem);
    return 0;
}

/* Decides how two tensors of the same name differ, and measures by how much if requested. */
static int classify_row(struct diff *d, struct row *r, struct progress *p, struct err *e) {
    bool same = true;
    if (!same_shape(r->a, r->b)) {
        r->change = SHAPE;
        return 0;
    }
    if (r->a->type != r->b->type)
        r->change = TYPE;
    else {
        TRY(same_data(d, r, p, &same, e));
        r->change = same ? SAME : DATA;
    }
    if (d->want_error && r->change != SAME) TRY(tensor_error(d, r, e));
    return 0;
}

/* Compares all tensors by name and counts the changes. */
static int compare_tensors(struct diff *d, struct err *e) {
    int64_t na = gguf_n_tensors(d->a), nb = gguf_n_tensors(d->b);
    struct progress p;
    int rc = 0;
    d->row = xcalloc((size_t)(na + nb) + 1, sizeof *d->row);
    progress_begin(&p, "comparing", PROG_BYTES, gguf_file_bytes(d->a));
    for (int64_t i = 0; i < na && rc == 0; i++) {
        struct row *r = &d->row[d->n_rows++];
        r->a = gguf_tensor_at(d->a, i);
        r->b = gguf_find_tensor(d->b, r->a->name);
        r->change = ONLY_A;
        if (r->b) rc = classify_row(d, r, &p, e);
    }
    progress_end(&p);
    for (int64_t i = 0; i < nb && rc == 0; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(d->b, i);
        if (gguf_find_tensor(d->a, t->name)) continue;
        d->row[d->n_rows++] = (struct row){.b = t, .change = ONLY_B};
    }
    for (int64_t i = 0; i < d->n_rows; i++) d->count[d->row[i].change]++;
    return rc;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Returns whether two keys have the same type and bytes. */
static bool same_value(const struct gguf_kv *a, const struct gguf_kv *b) {
    return a->type == b->type && a->elem == b->elem && a->n_bytes == b->n_bytes &&
           a->count == b->count && memcmp(a->data, b->data, (size_t)a->n_bytes) == 0;
}

/* Counts the elements that differ in two arrays of equal type and length. *first: index of the
 * first one. */
static uint64_t count_different(const struct gguf_kv *a, const struct gguf_kv *b, uint64_t *first) {
    const uint8_t *pa = a->data, *pb = b->data;
    uint64_t n = 0, la, lb, size = (uint64_t)gguf_vtype_bytes(a->elem);
    const char *sa, *sb;
    for (uint64_t i = 0; i < a->count; i++) {
        bool same;
        if (a->elem == GV_STR) {
            gguf_kv_str_next(a, &pa, &sa, &la);
            gguf_kv_str_next(b, &pb, &sb, &lb);
            same = la == lb && memcmp(sa, sb, (size_t)la) == 0;
        } else {
            same = memcmp(pa, pb, (size_t)size) == 0;
            pa += size, pb += size;
        }
        if (!same && n++ == 0) *first = i;
    }
    return n;
}

/* Writes a row for a key; a or b is NULL if only the other file has it. */
static void key_row(struct diff *d, struct emit *m, const char *key, const struct gguf_kv *a,
                    const struct gguf_kv *b) {
    struct buf v = {0};
    uint64_t first = 0;
    d->n_keys++;
    emit_row(m);
    emit_cell_str(m, key);
    emit_cell_str(m, !b ? "removed" : !a ? "added" : a->type != b->type ? "type" : "value");
    const struct gguf_kv *side[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (side[i])
            kv_value(&v, side[i], false);
        else
            buf_reset(&v);
        if (a && b && a->type == GV_ARR && b->type == GV_ARR && i == 1 && a->elem == b->elem &&
            a->count == b->count) {
            uint64_t n = count_different(a, b, &first);
            buf_reset(&v);
            buf_fmt(&v, "%llu of %llu elements differ, the first at index %llu",
                    (unsigned long long)n, (unsigned long long)a->count, (unsigned long long)first);
        }
        if (side[i])
            emit_cell_str(m, v.data);
        else
            emit_cell_none(m);
    }
    buf_release(&v);
}

/* Returns whether the key describes a shard; these keys are not compared. */
static bool is_split_key(const char *key) {
    return strncmp(key, "split.", 6) == 0;
}

/* Writes and counts all keys that differ; show: the table is visible. */
static void compare_keys(struct diff *d, struct emit *m, bool show) {
    emit_table(m, "keys", show ? "metadata" : NULL);
    emit_col(m, "key", "key");
    emit_col(m, "change", "change");
    emit_col(m, "a", "A");
    emit_col(m, "b", "B");
    for (int64_t i = 0; i < gguf_n_kv(d->a); i++) {
        const struct gguf_kv *a = gguf_kv_at(d->a, i), *b = gguf_find(d->b, a->key);
        if (is_split_key(a->key) || (b && same_value(a, b))) continue;
        key_row(d, m, a->key, a, b);
    }
    for (int64_t i = 0; i < gguf_n_kv(d->b); i++) {
        const struct gguf_kv *b = gguf_kv_at(d->b, i);
        if (!is_split_key(b->key) && !gguf_find(d->a, b->key)) key_row(d, m, b->key, NULL, b);
    }
}

/* Emits unified diffs of long texts, such as chat templates. */
static void emit_texts(const struct diff *d, struct emit *m) {
    struct buf out = {0};
    for (int64_t i = 0; i < gguf_n_kv(d->a); i++) {
        const struct gguf_kv *a = gguf_kv_at(d->a, i), *b = gguf_find(d->b, a->key);
        if (a->type != GV_STR || !b || b->type != GV_STR || same_value(a, b)) continue;
        if (!memchr(a->data, '\n', (size_t)a->count) && !memchr(b->data, '\n', (size_t)b->count))
            continue;
        char *name_a = xasprintf("A %s", a->key), *name_b = xasprintf("B %s", a->key);
        text_diff((const char *)a->data, (size_t)a->count, name_a, (const char *)b->data,
                  (size_t)b->count, name_b, &out);
        free(name_a);
        free(name_b);
    }
    emit_table(m, "text", out.len ? "text" : NULL);
    emit_col(m, "line", "line");
    for (char *s = out.data, *nl; s && *s; s = nl) {
        nl = strchr(s, '\n');
        if (nl) *nl++ = 0;
        emit_row(m);
        emit_cell_str(m, s);
        if (!nl) break;
    }
    buf_release(&out);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Writes the tensor's shape; an empty cell for NULL. */
static void cell_shape(struct emit *m, const struct gguf_tensor *t) {
    struct buf b = {0};
    for (int i = 0; t && i < t->n_dims; i++)
        buf_fmt(&b, "%s%lld", i ? " x " : "", (long long)t->ne[i]);
    if (t)
        emit_cell_str(m, b.data);
    else
        emit_cell_none(m);
    buf_release(&b);
}
/* Writes the tensor's type; an empty cell for NULL. */
static void cell_type(struct emit *m, const struct gguf_tensor *t) {
    if (t)
        emit_cell_str(m, qtype_name(t->type));
    else
        emit_cell_none(m);
}

/* Adds the table of tensors that differ; readers see it only if d->list is set. */
static void emit_tensors(const struct diff *d, struct emit *m) {
    bool some = d->list && d->count[SAME] < d->n_rows;
    emit_table(m, "tensors", some ? "tensors" : NULL);
    emit_col(m, "name", "name");
    emit_col(m, "change", "change");
    emit_col(m, "type_a", "A");
    emit_col(m, "type_b", "B");
    emit_col(m, "shape_a", "shape");
    emit_col(m, "shape_b", NULL);
    emit_col(m, "rel_rms_error", d->want_error ? "error" : NULL);
    for (int64_t i = 0; i < d->n_rows; i++) {
        const struct row *r = &d->row[i];
        if (r->change == SAME) continue;
        emit_row(m);
        emit_cell_str(m, r->a ? r->a->name : r->b->name);
        emit_cell_str(m, change_name[r->change]);
        cell_type(m, r->a);
        cell_type(m, r->b);
        cell_shape(m, r->a);
        cell_shape(m, r->b);
        if (r->has_error)
            emit_cell_num(m, r->error, 6);
        else
            emit_cell_none(m);
    }
}

/* Emits the tensors that differ, grouped by change and types. */
static void emit_groups(const struct diff *d, struct emit *m) {
    bool *done = xcalloc((size_t)d->n_rows + 1, sizeof *done);
    emit_table(m, "groups", d->count[SAME] < d->n_rows ? "tensors by change" : NULL);
    emit_col(m, "change", "change");
    emit_col(m, "type_a", "A");
    emit_col(m, "type_b", "B");
    emit_col(m, "n_tensors", "tensors");
    emit_col(m, "bytes_a", "bytes of A");
    emit_col(m, "bytes_b", "bytes of B");
    for (int64_t i = 0; i < d->n_rows; i++) {
        const struct row *r = &d->row[i];
        int64_t n = 0;
        uint64_t sum_a = 0, sum_b = 0;
        if (done[i] || r->change == SAME) continue;
        for (int64_t k = i; k < d->n_rows; k++) {
            const struct row *o = &d->row[k];
            if (o->change != r->change || (r->a && o->a->type != r->a->type) ||
                (r->b && o->b->type != r->b->type))
                continue;
            done[k] = true;
            n++;
            sum_a += o->a ? o->a->n_bytes : 0;
            sum_b += o->b ? o->b->n_bytes : 0;
        }
        emit_row(m);
        emit_cell_str(m, change_name[r->change]);
        cell_type(m, r->a);
        cell_type(m, r->b);
        emit_cell_i64(m, n);
        emit_cell_i64(m, (int64_t)sum_a);
        emit_cell_i64(m, (int64_t)sum_b);
    }
    free(done);
}

/* Emits all differences. ERR_VERDICT: there are differences. */
static int emit_report(struct diff *d, struct emit *m, struct err *e) {
    struct emit *keys = emit_new();
    compare_keys(d, keys, false); /* only counts */
    emit_free(keys);
    int64_t n_keys = d->n_keys, n_tensors = d->n_rows - d->count[SAME];
    bool same = n_keys == 0 && n_tensors == 0;
    emit_bool(m, "same", "same", same);
    emit_str(m, "a", "A", gguf_path(d->a));
    emit_str(m, "b", "B", gguf_path(d->b));
    emit_i64(m, "size_bytes_a", "bytes of A", (int64_t)gguf_file_bytes(d->a));
    emit_i64(m, "size_bytes_b", "bytes of B", (int64_t)gguf_file_bytes(d->b));
    emit_i64(m, "n_keys", "keys that differ", n_keys);
    emit_i64(m, "n_tensors", "tensors that differ", n_tensors);
    emit_i64(m, "n_tensors_same", "tensors equal", d->count[SAME]);
    emit_str(m, "compared", "data compared by", d->ma && d->mb ? "manifests" : "reading");
    emit_i64(m, "data_bytes_read", NULL, (int64_t)d->n_read);
    compare_keys(d, m, n_keys > 0);
    emit_texts(d, m);
    emit_groups(d, m);
    emit_tensors(d, m);
    if (same) return 0;
    return err_set(e, ERR_VERDICT, "%lld key%s and %lld tensor%s differ", (long long)n_keys,
                   n_keys == 1 ? "" : "s", (long long)n_tensors, n_tensors == 1 ? "" : "s");
}

int diff_run(const struct work *w, const struct diff_opts *o, struct emit *m, struct err *e) {
    struct diff d = {.want_error = o->want_error, .list = o->list || o->want_error};
    struct gguf *a = NULL, *b = NULL;
    int rc;
    kern_init(&d.kern, w->isa);
    TRY_GOTO(out, rc, gguf_open(&a, o->a, GGUF_TOLERANT, e));
    TRY_GOTO(out, rc, gguf_open(&b, o->b, GGUF_TOLERANT, e));
    d.a = a;
    d.b = b;
    if (!o->no_manifest && !o->want_error) {
        manifest_of(&d.ma, a);
        manifest_of(&d.mb, b);
    }
    rc = compare_tensors(&d, e);
    if (rc == 0) rc = emit_report(&d, m, e);
out:
    manifest_free(d.ma);
    manifest_free(d.mb);
    free(d.row);
    gguf_close(a);
    gguf_close(b);
    return rc;
}
