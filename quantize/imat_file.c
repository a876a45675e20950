// SPDX-License-Identifier: MIT
/* quantize/imat_file.c - importance matrices in memory and in both file formats
 * (docs/formats/imatrix.md).
 *
 * GGUF: raw sums and counts, exact up to the rounding to f32. Legacy .dat: one count per entry, and
 * value = sum/count * ncall, so experts cannot be told apart: an entry is read as one flat matrix
 * of ne0 * n_mat columns with one count, and imat_fit gives it the shape of its weight. The bytes
 * written depend only on the contents, because entries are sorted by name. Sums of squares that are
 * negative or not finite are rejected. */
#include "quantize/imat_file.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/map.h"
#include "base/out.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"

enum { DEFAULT_CHUNK = 512, MAX_NAME = 1024 };
static const int64_t max_values = (int64_t)1 << 34; /* limit on the values of one entry */

void imat_init(struct imat *m) {
    memset(m, 0, sizeof *m);
}
void imat_release(struct imat *m) {
    for (int64_t i = 0; i < m->n_entries; i++) {
        free(m->entry[i].name);
        free(m->entry[i].sum2);
        free(m->entry[i].sum1);
        free(m->entry[i].sum4);
        free(m->entry[i].count);
    }
    free(m->entry);
    for (int i = 0; i < m->n_datasets; i++) free(m->dataset[i]);
    free(m->dataset);
    imat_init(m);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Returns the index of the first entry with a name not less than `name`. */
static int64_t lower_bound(const struct imat *m, const char *name) {
    int64_t lo = 0, hi = m->n_entries;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (strcmp(m->entry[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
struct imat_entry *imat_find(const struct imat *m, const char *name) {
    int64_t i = lower_bound(m, name);
    return i < m->n_entries && strcmp(m->entry[i].name, name) == 0 ? &m->entry[i] : NULL;
}
struct imat_entry *imat_add(struct imat *m, const char *name, int64_t ne0, int64_t n_mat) {
    int64_t i = lower_bound(m, name), n;
    if (i < m->n_entries && strcmp(m->entry[i].name, name) == 0) {
        struct imat_entry *en = &m->entry[i];
        return en->ne0 == ne0 && en->n_mat == n_mat ? en : NULL;
    }
    if (ne0 < 1 || n_mat < 1 || !mul_ok_i64(ne0, n_mat, &n) || n > max_values) return NULL;
    if (m->n_entries == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->entry = xreallocarray(m->entry, (size_t)m->cap, sizeof *m->entry);
    }
    struct imat_entry *en = &m->entry[i];
    memmove(en + 1, en, (size_t)(m->n_entries - i) * sizeof *en);
    m->n_entries++;
    *en = (struct imat_entry){.name = xstrdup(name), .ne0 = ne0, .n_mat = n_mat};
    en->sum2 = xcalloc((size_t)n, sizeof *en->sum2);
    en->count = xcalloc((size_t)n_mat, sizeof *en->count);
    if (m->moments) {
        en->sum1 = xcalloc((size_t)n, sizeof *en->sum1);
        en->sum4 = xcalloc((size_t)n, sizeof *en->sum4);
    }
    return en;
}
void imat_add_dataset(struct imat *m, const char *base_name) {
    m->dataset = xreallocarray(m->dataset, (size_t)m->n_datasets + 1, sizeof *m->dataset);
    m->dataset[m->n_datasets++] = xstrdup(base_name);
}

int imat_fit(struct imat_entry *en, int64_t ne0, int64_t n_mat, struct err *e) {
    int64_t n;
    if (en->ne0 == ne0 && en->n_mat == n_mat) return 0;
    if (en->n_mat != 1 || ne0 < 1 || n_mat < 1 || !mul_ok_i64(ne0, n_mat, &n) || en->ne0 != n)
        return err_set(
            e, ERR_DATA,
            "importance of \"%s\" is for %lld x %lld columns, the tensor has %lld x %lld; "
            "make the matrix from this model",
            en->name, (long long)en->n_mat, (long long)en->ne0, (long long)n_mat, (long long)ne0);
    en->count = xreallocarray(en->count, (size_t)n_mat, sizeof *en->count);
    for (int64_t k = 1; k < n_mat; k++) en->count[k] = en->count[0];
    en->ne0 = ne0;
    en->n_mat = n_mat;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Returns ERR_DATA unless v is finite and not negative. */
static int check_value(float v, const char *name, struct err *e) {
    if (v >= 0 && v <= 0x1.fffffep127f) return 0;
    return err_set(e, ERR_DATA,
                   "entry \"%s\" holds %g; sums of squares are finite and not negative",
                   show_n(name, strlen(name)).s, (double)v);
}

struct cur {
    const uint8_t *p;
    uint64_t left;
};
/* Reads a number; ERR_DATA if the file ends before it. what: the part being read. */
static int take_i32(struct cur *c, int32_t *v, const char *what, struct err *e) {
    if (c->left < 4) return err_set(e, ERR_DATA, "the file ends inside %s; it is truncated", what);
    *v = load_i32(c->p);
    c->p += 4;
    c->left -= 4;
    return 0;
}
/* Reads an int32 length and a string of that length; copies it with a terminating NUL. */
static int take_text(struct cur *c, int32_t max, char **out, const char *what, struct err *e) {
    int32_t len = 0;
    TRY(take_i32(c, &len, what, e));
    if (len < 0 || len > max)
        return err_set(e, ERR_DATA, "%s claims %d bytes (0 to %d allowed)", what, len, max);
    if ((uint64_t)len > c->left)
        return err_set(e, ERR_DATA, "the file ends inside %s; it is truncated", what);
    *out = xstrndup((const char *)c->p, (size_t)len);
    c->p += len;
    c->left -= (uint64_t)len;
    return 0;
}

/* Reads the values of an entry, which are sum/count * ncall. The file does not record the number of
 * tokens per call. */
static int read_dat_values(struct imat *m, struct cur *c, const char *name, struct err *e) {
    int32_t ncall = 0, nval = 0;
    TRY(take_i32(c, &ncall, "an entry", e));
    TRY(take_i32(c, &nval, "an entry", e));
    if (nval <= 0) return err_set(e, ERR_DATA, "invalid number of values: %d", nval);
    if ((uint64_t)nval * 4 > c->left)
        return err_set(e, ERR_DATA, "the file ends inside its %d values; it is truncated", nval);
    if (imat_find(m, name)) return err_set(e, ERR_DATA, "duplicate entry");
    struct imat_entry *en = imat_add(m, name, nval, 1);
    if (!en) return err_set(e, ERR_DATA, "%d values are too many", nval);
    int32_t calls = ncall > 0 ? ncall : 1;
    en->count[0] = (double)calls * DEFAULT_CHUNK;
    for (int32_t k = 0; k < nval; k++, c->p += 4) {
        float v = load_f32(c->p);
        TRY(check_value(v, name, e));
        en->sum2[k] = (double)v * DEFAULT_CHUNK;
    }
    c->left -= (uint64_t)nval * 4;
    return 0;
}

/* Reads an entry of the older format: name and values. */
static int read_dat_entry(struct imat *m, struct cur *c, struct err *e) {
    char *name;
    TRY(take_text(c, MAX_NAME, &name, "an entry's name", e));
    int rc = *name ? read_dat_values(m, c, name, e) : err_set(e, ERR_DATA, "the name is empty");
    if (rc) err_wrap(e, "\"%s\"", show_n(name, strlen(name)).s);
    free(name);
    return rc;
}

/* Reads a file of the older format (.dat). */
static int read_dat(struct imat *m, const struct map *map, struct err *e) {
    struct cur c = {map->data, map->size};
    int32_t n = 0, chunks = 0;
    char *text;
    TRY(take_i32(&c, &n, "the header", e));
    if (n < 1 || (uint64_t)n > limit_of(LIM_IMAT_ENTRIES) || (uint64_t)n * 16 > c.left)
        return err_set(e, ERR_DATA, "not an importance matrix: neither GGUF nor a .dat file");
    for (int32_t i = 0; i < n; i++)
        if (read_dat_entry(m, &c, e)) return err_wrap(e, "entry %d of %d", i + 1, n);
    m->chunk_size = DEFAULT_CHUNK;
    if (!c.left) return 0;
    TRY(take_i32(&c, &chunks, "the trailer", e));
    m->n_chunks = chunks > 0 ? (uint32_t)chunks : 0;
    if (!c.left) return 0;
    TRY(take_text(&c, 1 << 20, &text, "the data set's name", e));
    if (*text) imat_add_dataset(m, io_base(text));
    free(text);
    if (c.left)
        return err_set(e, ERR_DATA, "%llu bytes after the last field", (unsigned long long)c.left);
    return 0;
}

/* Returns the tensor whose name is the first base_len bytes of `name` plus suffix; NULL: not
 * found. */
static const struct gguf_tensor *pair_of(const struct gguf *g, const char *name, size_t base_len,
                                         const char *suffix) {
    char other[80];
    if (base_len + strlen(suffix) >= sizeof other) return NULL;
    memcpy(other, name, base_len);
    memcpy(other + base_len, suffix, strlen(suffix) + 1);
    return gguf_find_tensor(g, other);
}

/* Adds an entry from its tensors of sums and counts. ERR_DATA: malformed. */
static int read_pair(struct imat *m, const char *name, const struct gguf_tensor *sum,
                     const struct gguf_tensor *cnt, struct err *e) {
    if (sum->type != QT_F32 || cnt->type != QT_F32 || sum->ne[2] != 1 || sum->ne[3] != 1)
        return err_set(e, ERR_DATA, "entry \"%s\" is not a pair of F32 matrices", name);
    int64_t ne0 = sum->ne[0], n_mat = sum->ne[1];
    int64_t n_cnt = (int64_t)(cnt->n_bytes / 4);
    if (n_cnt != n_mat && n_cnt != 1)
        return err_set(e, ERR_DATA, "entry \"%s\" has %lld matrices but %lld counts", name,
                       (long long)n_mat, (long long)n_cnt);
    struct imat_entry *en = imat_add(m, name, ne0, n_mat);
    if (!en) return err_set(e, ERR_DATA, "entry \"%s\" is too large", name);
    for (int64_t k = 0; k < ne0 * n_mat; k++) {
        float v = load_f32(sum->data + 4 * k);
        TRY(check_value(v, name, e));
        en->sum2[k] = (double)v;
    }
    for (int64_t k = 0; k < n_mat; k++) {
        float v = load_f32(cnt->data + (n_cnt == 1 ? 0 : 4 * k));
        TRY(check_value(v, name, e));
        en->count[k] = rint((double)v);
    }
    return 0;
}

/* Adds the entries of a GGUF file. ERR_DATA: no entries, or malformed. */
static int read_gguf_entries(struct imat *m, const struct gguf *g, struct err *e) {
    uint64_t most = 2 * limit_of(LIM_IMAT_ENTRIES);
    if ((uint64_t)gguf_n_tensors(g) > most)
        return err_set(e, ERR_DATA, "%lld tensors, an importance matrix has at most %llu",
                       (long long)gguf_n_tensors(g), (unsigned long long)most);
    static const char s2[] = ".in_sum2", cn[] = ".counts";
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        size_t len = strlen(t->name);
        char name[80];
        for (int k = 0; k < 2; k++) {
            const char *suf = k ? cn : s2;
            size_t base = len > strlen(suf) ? len - strlen(suf) : 0;
            if (!base || strcmp(t->name + base, suf) != 0) continue;
            const struct gguf_tensor *other = pair_of(g, t->name, base, k ? s2 : cn);
            if (!other)
                return err_set(e, ERR_DATA, "tensor \"%s\" lacks its partner \"%.*s%s\"", t->name,
                               (int)base, t->name, k ? s2 : cn);
            memcpy(name, t->name, base);
            name[base] = 0;
            if (!k) TRY(read_pair(m, name, t, other, e));
        }
    }
    if (!m->n_entries) return err_set(e, ERR_DATA, "there are no importance entries");
    return 0;
}

/* Reads chunk count, chunk size and names of data sets. */
static int read_gguf_meta(struct imat *m, const struct gguf *g, struct err *e) {
    uint64_t chunks = gguf_u64_or(g, "imatrix.chunk_count", UINT64_MAX);
    uint64_t size = gguf_u64_or(g, "imatrix.chunk_size", UINT64_MAX);
    const struct gguf_kv *kv = gguf_find(g, "imatrix.datasets");
    if (strcmp(gguf_str_or(g, "general.type", "imatrix"), "imatrix") != 0)
        return err_set(e, ERR_DATA, "general.type is \"%.40s\", not \"imatrix\"",
                       gguf_str_or(g, "general.type", ""));
    if (!kv || !gguf_find(g, "imatrix.chunk_count") || !gguf_find(g, "imatrix.chunk_size"))
        return err_set(e, ERR_DATA, "not an importance matrix: key \"%s\" is missing",
                       !kv                                    ? "imatrix.datasets"
                       : !gguf_find(g, "imatrix.chunk_count") ? "imatrix.chunk_count"
                                                              : "imatrix.chunk_size");
    if (kv->type != GV_ARR || kv->elem != GV_STR)
        return err_set(e, ERR_DATA, "key \"imatrix.datasets\" is not an array of strings");
    if (chunks > UINT32_MAX || size > UINT32_MAX || size == 0)
        return err_set(e, ERR_DATA, "invalid header: %llu chunks of %llu tokens",
                       (unsigned long long)chunks, (unsigned long long)size);
    m->n_chunks = (uint32_t)chunks;
    m->chunk_size = (uint32_t)size;
    const uint8_t *pos = kv->data;
    for (uint64_t i = 0; i < kv->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(kv, &pos, &s, &len);
        char *copy = xstrndup(s, (size_t)len);
        imat_add_dataset(m, copy);
        free(copy);
    }
    return 0;
}

/* Reads a file of either format, distinguished by its first bytes. */
static int read_any(struct imat *m, const char *path, struct err *e) {
    struct map map;
    struct gguf *g;
    TRY(map_open(&map, path, e));
    bool is_gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    int rc = 0;
    if (!is_gguf && read_dat(m, &map, e)) rc = err_wrap(e, "%s", path);
    map_close(&map);
    if (rc || !is_gguf) return rc;
    TRY(gguf_open(&g, path, 0, e));
    rc = read_gguf_meta(m, g, e);
    if (!rc) rc = read_gguf_entries(m, g, e);
    if (rc) err_wrap(e, "%s", path);
    gguf_close(g);
    return rc;
}

int imat_read(struct imat *m, const char *path, struct err *e) {
    imat_init(m);
    int rc = read_any(m, path, e);
    if (rc) imat_release(m);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns the largest count of an entry's matrices. */
static double max_count(const struct imat_entry *en) {
    double max = 0;
    for (int64_t k = 0; k < en->n_mat; k++)
        if (en->count[k] > max) max = en->count[k];
    return max;
}

/* Counts the entries that have tokens; logs a warning that the others are omitted. Commands that
 * collect or use a matrix report unseen experts themselves. */
static int64_t count_used(const struct imat *m) {
    int64_t n = 0, unused = 0;
    for (int64_t i = 0; i < m->n_entries; i++) {
        const struct imat_entry *en = &m->entry[i];
        int64_t zero = 0;
        for (int64_t k = 0; k < en->n_mat; k++) zero += en->count[k] <= 0;
        if (zero == en->n_mat)
            unused++;
        else
            n++;
    }
    if (unused)
        log_warn("%lld weight%s received no tokens and are left out of the importance matrix",
                 (long long)unused, str_s(unused));
    return n;
}

/* Writes n numbers as floats; b is scratch. */
static int write_floats(struct gguf_w *w, const double *v, int64_t n, struct buf *b,
                        struct err *e) {
    buf_reset(b);
    for (int64_t k = 0; k < n; k++) {
        float x = (float)v[k];
        buf_add(b, &x, sizeof x);
    }
    return gguf_w_data(w, b->data, b->len, e);
}
/* A tensor of an entry, in the standard file or in the file of moments. */
struct part {
    const char *suffix;
    const double *v;
    int64_t ne0;
};
enum { MAX_PARTS = 3 };

/* Lists the tensors of an entry and returns their number; moments: sums of x and x^4. */
static int parts_of(const struct imat_entry *en, bool moments, struct part p[MAX_PARTS]) {
    int n = 0;
    if (moments) {
        p[n++] = (struct part){".in_sum", en->sum1, en->ne0};
        p[n++] = (struct part){".in_sum4", en->sum4, en->ne0};
    } else {
        p[n++] = (struct part){".in_sum2", en->sum2, en->ne0};
    }
    p[n++] = (struct part){".counts", en->count, 1};
    return n;
}

/* Declares the tensors of an entry, in the order of write_gguf_data(). */
static int declare_entry(struct gguf_w *w, const struct imat_entry *en, bool moments,
                         struct err *e) {
    struct part p[MAX_PARTS];
    const int n = parts_of(en, moments, p);
    for (int i = 0; i < n; i++) {
        char *name = xasprintf("%s%s", en->name, p[i].suffix);
        const int64_t ne[2] = {p[i].ne0, en->n_mat};
        int rc = gguf_w_tensor(w, name, QT_F32, 2, ne, e);
        free(name);
        TRY(rc);
    }
    return 0;
}

/* Writes the sums of all entries in the order declared; moments: sums of all powers. */
static int write_gguf_data(const struct imat *m, bool moments, struct gguf_w *w, struct err *e) {
    struct buf b = {0};
    int rc = 0;
    for (int64_t i = 0; i < m->n_entries && !rc; i++) {
        const struct imat_entry *en = &m->entry[i];
        struct part p[MAX_PARTS];
        const int n = max_count(en) > 0 ? parts_of(en, moments, p) : 0;
        for (int k = 0; k < n && !rc; k++)
            rc = write_floats(w, p[k].v, p[k].ne0 * en->n_mat, &b, e);
    }
    buf_release(&b);
    return rc;
}

/* Writes the importance matrix as GGUF; moments: includes sums of all powers. */
static int write_gguf(const struct imat *m, const char *path, bool moments, bool overwrite,
                      struct err *e) {
    struct gguf_w *w = gguf_w_new();
    int rc = 0;
    gguf_w_str(w, "general.type", moments ? "imatrix-moments" : "imatrix");
    gguf_w_arr_str(w, "imatrix.datasets", (const char *const *)m->dataset, (uint64_t)m->n_datasets);
    gguf_w_u32(w, "imatrix.chunk_count", m->n_chunks);
    gguf_w_u32(w, "imatrix.chunk_size", m->chunk_size ? m->chunk_size : DEFAULT_CHUNK);
    for (int64_t i = 0; i < m->n_entries && !rc; i++)
        if (max_count(&m->entry[i]) > 0) rc = declare_entry(w, &m->entry[i], moments, e);
    if (!rc) rc = gguf_w_begin(w, path, overwrite, e);
    if (!rc) rc = write_gguf_data(m, moments, w, e);
    if (!rc) rc = gguf_w_commit(w, e);
    gguf_w_free(w);
    return rc;
}

int imat_write_moments(const struct imat *m, const char *path, bool overwrite, struct err *e) {
    for (int64_t i = 0; i < m->n_entries; i++) {
        const struct imat_entry *en = &m->entry[i];
        for (int64_t k = 0; k < en->ne0 * en->n_mat; k++)
            if (!(en->sum4[k] <= 0x1.fffffep127))
                return err_set(e, ERR_DATA,
                               "%s: \"%s\", column %lld: the sum of fourth powers is %g", path,
                               en->name, (long long)k, en->sum4[k]);
    }
    return write_gguf(m, path, true, overwrite, e);
}

/* Appends a number, clamped to INT32_MAX. */
static void add_i32(struct buf *b, int64_t v) {
    int32_t x = v > INT32_MAX ? INT32_MAX : (int32_t)v;
    buf_add(b, &x, sizeof x);
}
/* Appends a text's length and bytes. */
static void add_text(struct buf *b, const char *s) {
    add_i32(b, (int64_t)strlen(s));
    buf_add(b, s, strlen(s));
}

/* Appends an entry in the old format. An unseen expert is written as 1 per call: readers divide by
 * ncall, which gives equal weights. */
static void add_dat_entry(struct buf *b, const struct imat_entry *en, double chunk) {
    double ncall = floor((max_count(en) + chunk - 1) / chunk);
    if (ncall < 1) ncall = 1;
    if (ncall > INT32_MAX) ncall = INT32_MAX;
    add_text(b, en->name);
    add_i32(b, (int64_t)ncall);
    add_i32(b, en->ne0 * en->n_mat);
    for (int64_t k = 0; k < en->n_mat; k++) {
        for (int64_t j = 0; j < en->ne0; j++) {
            double mean = en->count[k] > 0 ? en->sum2[k * en->ne0 + j] / en->count[k] : 1.0;
            float v = (float)(mean * ncall);
            buf_add(b, &v, sizeof v);
        }
    }
}

/* Writes the older format, which contains the n entries in use, with sums divided by chunks. */
static int write_dat(const struct imat *m, const char *path, int64_t n, bool overwrite,
                     struct err *e) {
    struct buf b = {0};
    double chunk = m->chunk_size ? (double)m->chunk_size : DEFAULT_CHUNK;
    int rc = 0;
    add_i32(&b, n);
    for (int64_t i = 0; i < m->n_entries && !rc; i++) {
        const struct imat_entry *en = &m->entry[i];
        if (max_count(en) <= 0) continue;
        if (en->ne0 * en->n_mat > INT32_MAX)
            rc = err_set(e, ERR_DATA, "%s: \"%s\" is too large for a .dat file; write GGUF", path,
                         en->name);
        else
            add_dat_entry(&b, en, chunk);
    }
    add_i32(&b, m->n_chunks);
    add_text(&b, m->n_datasets ? m->dataset[m->n_datasets - 1] : "");
    if (!rc) rc = out_write_file(path, b.data, b.len, overwrite, e);
    buf_release(&b);
    return rc;
}

int imat_write(const struct imat *m, const char *path, enum imat_form form, bool overwrite,
               struct err *e) {
    int64_t n = count_used(m);
    if (n == 0)
        return err_set(e, ERR_DATA,
                       "%s: the importance matrix is empty, no token reached any weight", path);
    for (int64_t i = 0; i < m->n_entries; i++) {
        const struct imat_entry *en = &m->entry[i];
        for (int64_t k = 0; k < en->ne0 * en->n_mat; k++)
            if (!(en->sum2[k] >= 0 && en->sum2[k] <= 0x1.fffffep127))
                return err_set(e, ERR_DATA, "%s: \"%s\", column %lld: the sum of squares is %g",
                               path, en->name, (long long)k, en->sum2[k]);
        for (int64_t k = 0; k < en->n_mat; k++)
            if (!(en->count[k] >= 0 && en->count[k] <= 0x1.fffffep127))
                return err_set(e, ERR_DATA, "%s: \"%s\", matrix %lld: the count is %g", path,
                               en->name, (long long)k, en->count[k]);
    }
    return form == IMAT_DAT ? write_dat(m, path, n, overwrite, e)
                            : write_gguf(m, path, false, overwrite, e);
}

/* ---- merging and use ------------------------------------------------------------------------- */

/* Returns whether entries can be added: their sizes are equal, or one of them has joined
 * matrices. */
static bool same_size(const struct imat_entry *a, const struct imat_entry *b) {
    return (a->ne0 == b->ne0 && a->n_mat == b->n_mat) ||
           ((a->n_mat == 1 || b->n_mat == 1) && a->ne0 * a->n_mat == b->ne0 * b->n_mat);
}

/* Adds an entry's sums and counts to the entry of the same name in dst. */
static int add_entry(struct imat *dst, const struct imat_entry *s, struct err *e) {
    struct imat_entry *d = imat_find(dst, s->name);
    if (!d) d = imat_add(dst, s->name, s->ne0, s->n_mat);
    if (!d) return err_set(e, ERR_DATA, "entry \"%s\" is too large", s->name);
    if (d->n_mat < s->n_mat) TRY(imat_fit(d, s->ne0, s->n_mat, e));
    for (int64_t k = 0; k < d->ne0 * d->n_mat; k++) d->sum2[k] += s->sum2[k];
    for (int64_t k = 0; k < d->n_mat; k++) d->count[k] += s->count[s->n_mat == 1 ? 0 : k];
    for (int64_t k = 0; d->sum1 && s->sum1 && k < d->ne0 * d->n_mat; k++) {
        d->sum1[k] += s->sum1[k];
        d->sum4[k] += s->sum4[k];
    }
    return 0;
}

int imat_merge(struct imat *dst, const struct imat *src, struct err *e) {
    for (int64_t i = 0; i < src->n_entries; i++) {
        const struct imat_entry *s = &src->entry[i], *d = imat_find(dst, s->name);
        if (d && !same_size(d, s))
            return err_set(
                e, ERR_DATA,
                "\"%s\" has %lld x %lld columns in one matrix and %lld x %lld in the other; "
                "they are of different models",
                s->name, (long long)d->n_mat, (long long)d->ne0, (long long)s->n_mat,
                (long long)s->ne0);
    }
    for (int64_t i = 0; i < src->n_entries; i++) TRY(add_entry(dst, &src->entry[i], e));
    for (int i = 0; i < src->n_datasets; i++) imat_add_dataset(dst, src->dataset[i]);
    uint64_t size = src->chunk_size ? src->chunk_size : DEFAULT_CHUNK;
    if (!dst->chunk_size) dst->chunk_size = (uint32_t)size;
    uint64_t chunks = (src->n_chunks * size + dst->chunk_size - 1) / dst->chunk_size;
    chunks += dst->n_chunks;
    dst->n_chunks = chunks > UINT32_MAX ? UINT32_MAX : (uint32_t)chunks;
    return 0;
}

int64_t imat_blind(struct imat_entry *en) {
    int64_t n = 0;
    for (int64_t k = 0; k < en->n_mat; k++) {
        int64_t j = 0;
        while (j < en->ne0 && !(en->sum2[k * en->ne0 + j] > 0)) j++;
        if (j == en->ne0) en->count[k] = 0;
        n += !(en->count[k] > 0);
    }
    return n;
}

/* Largest weight that stays as it is: encoders multiply weights by squares of values in float. */
static const float MOST_WEIGHT = 0x1p60f;

/* Divides n weights by a power of two if they are so large that encoders would overflow. */
static void limit_weights(float *w, int64_t n) {
    float most = 0;
    int exponent;
    for (int64_t j = 0; j < n; j++) most = fmaxf(most, w[j]);
    if (!(most > MOST_WEIGHT)) return;
    (void)frexpf(most, &exponent);
    for (int64_t j = 0; j < n; j++) w[j] = ldexpf(w[j], -exponent);
}

void imat_weights(const struct imat_entry *en, double tau, float *out) {
    double tokens = 0;
    for (int64_t k = 0; k < en->n_mat; k++) tokens += en->count[k];
    for (int64_t j = 0; j < en->ne0; j++) {
        double sum = 0;
        for (int64_t k = 0; k < en->n_mat; k++)
            if (en->count[k] > 0) sum += en->sum2[k * en->ne0 + j];
        double mean = tokens > 0 ? sum / tokens : 1.0;
        for (int64_t k = 0; k < en->n_mat; k++) {
            double n = en->count[k];
            double v = n > 0 ? (en->sum2[k * en->ne0 + j] + tau * mean) / (n + tau) : mean;
            out[k * en->ne0 + j] = (float)fmin(v, (double)FLT_MAX);
        }
    }
    for (int64_t k = 0; k < en->n_mat; k++) limit_weights(out + k * en->ne0, en->ne0);
}
