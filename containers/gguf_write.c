// SPDX-License-Identifier: MIT
/* containers/gguf_write.c - streaming writer of GGUF files, single or split.
 *
 * Keys and tensors are declared first, which fixes all sizes and offsets. Headers are then written
 * in full, and tensor data follow in declared order without seeking. The output depends only on the
 * declarations and the data. Files get their names at commit, the first shard last, so a set that
 * can be opened is complete. Memory: the values of the keys, and 100 bytes per tensor; data are not
 * buffered. */
#include "containers/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"

enum {
    VERSION = 3,
    MAX_KEY = 65535,
    MAX_NAME = 63,
    MAX_STRING = 64 << 20,
    MAX_RECORDS = 1 << 20,
    MAX_ARRAY = 1 << 30,
    MAX_SHARDS = 65535,
    MAX_ALIGN = 1 << 20
};

struct wkv { /* value as encoded in the file, without type and length */
    char *key;
    enum gguf_vtype type, elem;
    uint64_t count, n_bytes;
    char *data;
};
struct wtensor {
    const char *name;
    enum qtype type;
    int n_dims;
    int64_t ne[4];
    uint64_t n_bytes;
    uint64_t off; /* offset in its shard's data; set by plan() */
};
struct wshard {
    int64_t first, n; /* tensors of the shard */
    uint64_t header_bytes, data_bytes;
};
struct gguf_w {
    struct wkv *kv;
    int64_t n_kv, cap_kv;
    struct strmap *keys; /* index of each key */
    struct wtensor *tensor;
    int64_t n_tensors, cap_tensors;
    struct strmap *names;
    struct arena arena; /* names of tensors */
    struct err bad;     /* first refused declaration; code 0: none */
    uint64_t sum_bytes; /* bytes of all tensors without padding */
    uint64_t max_bytes;
    bool metadata_first, any_space;
    /* Set by begin. */
    char *path;
    struct wshard *shard;
    struct out **out;
    int n_shards;
    int i_shard;
    int64_t i_tensor;
    uint64_t n_done; /* bytes written of the current tensor */
};

struct gguf_w *gguf_w_new(void) {
    struct gguf_w *w = xcalloc(1, sizeof *w);
    arena_init(&w->arena);
    w->keys = strmap_new(64);
    w->names = strmap_new(256);
    return w;
}

void gguf_w_free(struct gguf_w *w) {
    if (!w) return;
    if (w->out)
        for (int i = 0; i < w->n_shards; i++) out_close(w->out[i]);
    free(w->out);
    free(w->shard);
    for (int64_t i = 0; i < w->n_kv; i++) {
        free(w->kv[i].key);
        free(w->kv[i].data);
    }
    free(w->kv);
    free(w->tensor);
    strmap_free(w->keys);
    strmap_free(w->names);
    arena_release(&w->arena);
    free(w->path);
    free(w);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Returns whether the key describes a shard, which the writer sets itself. */
static bool is_split_key(const char *key) {
    return strcmp(key, "split.no") == 0 || strcmp(key, "split.count") == 0 ||
           strcmp(key, "split.tensors.count") == 0;
}

/* Returns whether key and count are within the format's limits; if not, records an error. */
static bool key_fits(struct gguf_w *w, const char *key, uint64_t n, uint64_t max) {
    size_t len = strlen(key);
    if (w->bad.code) return false;
    if (len == 0 || len > MAX_KEY)
        err_set(&w->bad, ERR_DATA, "metadata key \"%s\": a key has 1 to %d bytes",
                show_n(key, len).s, MAX_KEY);
    else if (n > max)
        err_set(&w->bad, ERR_DATA, "metadata key \"%s\": %llu is over the format's limit of %llu",
                show_n(key, len).s, (unsigned long long)n, (unsigned long long)max);
    return w->bad.code == ERR_OK;
}

/* Returns the index of a key; -1: not found. */
static int64_t find_kv(const struct gguf_w *w, const char *key) {
    return strmap_get(w->keys, key, strlen(key));
}

/* Sets a key and takes ownership of `data`. */
static void set_kv(struct gguf_w *w, const char *key, enum gguf_vtype type, enum gguf_vtype elem,
                   uint64_t count, char *data, uint64_t n_bytes) {
    int64_t i = find_kv(w, key);
    if (is_split_key(key)) {
        free(data);
        return;
    }
    if (i < 0) {
        if (w->n_kv == w->cap_kv) {
            w->cap_kv = w->cap_kv ? 2 * w->cap_kv : 64;
            w->kv = xreallocarray(w->kv, (size_t)w->cap_kv, sizeof *w->kv);
        }
        i = w->n_kv++;
        w->kv[i].key = xstrdup(key);
        strmap_add(w->keys, w->kv[i].key, strlen(key), i);
    } else {
        free(w->kv[i].data);
    }
    struct wkv *kv = &w->kv[i];
    kv->type = type;
    kv->elem = elem;
    kv->count = count;
    kv->data = data;
    kv->n_bytes = n_bytes;
}

/* Sets a key to a copy of the data. */
static void put_copy(struct gguf_w *w, const char *key, enum gguf_vtype type, enum gguf_vtype elem,
                     uint64_t count, const void *data, uint64_t n_bytes) {
    char *copy = xmalloc(n_bytes ? n_bytes : 1);
    if (n_bytes) memcpy(copy, data, n_bytes);
    set_kv(w, key, type, elem, count, copy, n_bytes);
}

static void put_scalar(struct gguf_w *w, const char *key, enum gguf_vtype type, const void *v) {
    if (key_fits(w, key, 0, 0))
        put_copy(w, key, type, type, 1, v, (uint64_t)gguf_vtype_bytes(type));
}
void gguf_w_u32(struct gguf_w *w, const char *key, uint32_t v) {
    put_scalar(w, key, GV_U32, &v);
}
void gguf_w_i32(struct gguf_w *w, const char *key, int32_t v) {
    put_scalar(w, key, GV_I32, &v);
}
void gguf_w_int(struct gguf_w *w, const char *key, enum gguf_vtype type, int64_t v) {
    uint8_t le[8]; /* narrower types use its first bytes */
    store_u64(le, (uint64_t)v);
    put_scalar(w, key, type, le);
}
void gguf_w_f32(struct gguf_w *w, const char *key, float v) {
    put_scalar(w, key, GV_F32, &v);
}
void gguf_w_bool(struct gguf_w *w, const char *key, bool v) {
    uint8_t b = v;
    put_scalar(w, key, GV_BOOL, &b);
}
void gguf_w_str(struct gguf_w *w, const char *key, const char *s) {
    gguf_w_strn(w, key, s, strlen(s));
}
void gguf_w_strn(struct gguf_w *w, const char *key, const char *s, uint64_t len) {
    if (key_fits(w, key, len, MAX_STRING)) put_copy(w, key, GV_STR, GV_STR, len, s, len);
}
void gguf_w_arr(struct gguf_w *w, const char *key, enum gguf_vtype elem, const void *v,
                uint64_t n) {
    uint64_t size = (uint64_t)gguf_vtype_bytes(elem);
    if (!size) {
        if (!w->bad.code)
            err_set(&w->bad, ERR_DATA, "metadata key \"%s\": arrays of %s need another call", key,
                    gguf_vtype_name(elem));
        return;
    }
    if (key_fits(w, key, n, MAX_ARRAY)) put_copy(w, key, GV_ARR, elem, n, v, n * size);
}
void gguf_w_arr_strn(struct gguf_w *w, const char *key, const char *const *s, const uint64_t *len,
                     uint64_t n) {
    struct buf b = {0};
    if (!key_fits(w, key, n, MAX_ARRAY)) return;
    for (uint64_t i = 0; i < n; i++) {
        uint8_t field[8];
        uint64_t l = len ? len[i] : strlen(s[i]);
        if (!key_fits(w, key, l, MAX_STRING)) {
            buf_release(&b);
            return;
        }
        store_u64(field, l);
        buf_add(&b, field, 8);
        buf_add(&b, s[i], l);
    }
    uint64_t n_bytes = b.len;
    set_kv(w, key, GV_ARR, GV_STR, n, buf_take(&b), n_bytes);
}
void gguf_w_arr_str(struct gguf_w *w, const char *key, const char *const *s, uint64_t n) {
    gguf_w_arr_strn(w, key, s, NULL, n);
}
void gguf_w_copy_kv(struct gguf_w *w, const struct gguf_kv *kv) {
    if (key_fits(w, kv->key, 0, 0))
        put_copy(w, kv->key, kv->type, kv->elem, kv->count, kv->data, kv->n_bytes);
}
void gguf_w_remove(struct gguf_w *w, const char *key) {
    int64_t i = find_kv(w, key);
    if (i < 0) return;
    free(w->kv[i].key);
    free(w->kv[i].data);
    w->n_kv--;
    memmove(&w->kv[i], &w->kv[i + 1], (size_t)(w->n_kv - i) * sizeof w->kv[0]);
    strmap_free(w->keys);
    w->keys = strmap_new((size_t)w->n_kv);
    for (int64_t k = 0; k < w->n_kv; k++)
        strmap_add(w->keys, w->kv[k].key, strlen(w->kv[k].key), k);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Computes the tensor's bytes. ERR_DATA: impossible shape or overflow. */
static int tensor_size(struct wtensor *t, struct err *e) {
    const struct qtype_info *qi = qtype_info((int64_t)t->type);
    int64_t n = 1;
    if (!qi) return err_set(e, ERR_DATA, "type %d does not exist", (int)t->type);
    for (int d = 0; d < t->n_dims; d++)
        if (t->ne[d] < 1 || !mul_ok_i64(n, t->ne[d], &n))
            return err_set(e, ERR_DATA, "dimension %d is %lld", d, (long long)t->ne[d]);
    if (t->ne[0] % qi->block_elems)
        return err_set(e, ERR_DATA, "rows of %lld elements cannot be divided into %s blocks of %d",
                       (long long)t->ne[0], qi->name, qi->block_elems);
    if (!mul_ok((uint64_t)(n / qi->block_elems), (uint64_t)qi->block_bytes, &t->n_bytes) ||
        t->n_bytes > INT64_MAX / 4)
        return err_set(e, ERR_DATA, "the size in bytes overflows");
    return 0;
}

int gguf_w_tensor(struct gguf_w *w, const char *name, enum qtype type, int n_dims,
                  const int64_t *ne, struct err *e) {
    size_t len = strlen(name);
    struct wtensor t = {.type = type, .n_dims = n_dims, .ne = {1, 1, 1, 1}};
    if (len == 0 || len > MAX_NAME)
        return err_set(e, ERR_DATA, "tensor \"%s\": a name has 1 to %d bytes", show_n(name, len).s,
                       MAX_NAME);
    if (n_dims < 1 || n_dims > 4)
        return err_set(e, ERR_DATA, "tensor \"%s\": %d dimensions, 1 to 4 are allowed",
                       show_n(name, len).s, n_dims);
    if (w->n_tensors >= MAX_RECORDS)
        return err_set(e, ERR_DATA, "more than %d tensors", MAX_RECORDS);
    memcpy(t.ne, ne, (size_t)n_dims * sizeof ne[0]);
    if (tensor_size(&t, e)) return err_wrap(e, "tensor \"%s\"", show_n(name, len).s);
    if (w->sum_bytes + t.n_bytes > INT64_MAX / 4)
        return err_set(e, ERR_DATA, "tensor \"%s\": the file would be too large", name);
    t.name = arena_strdup(&w->arena, name);
    if (!strmap_add(w->names, t.name, len, w->n_tensors))
        return err_set(e, ERR_DATA, "tensor \"%s\" is declared twice", show_n(name, len).s);
    if (w->n_tensors == w->cap_tensors) {
        w->cap_tensors = w->cap_tensors ? 2 * w->cap_tensors : 64;
        w->tensor = xreallocarray(w->tensor, (size_t)w->cap_tensors, sizeof *w->tensor);
    }
    w->tensor[w->n_tensors++] = t;
    w->sum_bytes += t.n_bytes;
    return 0;
}

void gguf_w_split(struct gguf_w *w, uint64_t max_bytes, bool metadata_first) {
    w->max_bytes = max_bytes;
    w->metadata_first = metadata_first;
}

/* ---- layout ---------------------------------------------------------------------------------- */

static uint64_t alignment_of(const struct gguf_w *w) {
    int64_t i = find_kv(w, "general.alignment");
    return i >= 0 && w->kv[i].type == GV_U32 ? load_u32(w->kv[i].data) : 32;
}

static uint64_t kv_bytes(const struct wkv *kv) {
    uint64_t head = kv->type == GV_STR ? 8 : kv->type == GV_ARR ? 12 : 0;
    return 8 + strlen(kv->key) + 4 + head + kv->n_bytes;
}
static uint64_t info_bytes(const struct wtensor *t) {
    return 8 + strlen(t->name) + 4 + 8 * (uint64_t)t->n_dims + 4 + 8;
}

/* Returns whether a shard gets the key: the first shard gets all keys, the others only the
 * alignment. */
static bool kv_in_shard(const struct wkv *kv, int shard) {
    return shard == 0 || strcmp(kv->key, "general.alignment") == 0;
}

/* Computes the header bytes of shard i of n. */
static void plan_header(const struct gguf_w *w, struct wshard *s, int i, int n, uint64_t align) {
    uint64_t bytes = 24;
    for (int64_t k = 0; k < w->n_kv; k++)
        if (kv_in_shard(&w->kv[k], i)) bytes += kv_bytes(&w->kv[k]);
    if (n > 1)
        bytes += (8 + strlen("split.no") + 4 + 2) + (8 + strlen("split.count") + 4 + 2) +
                 (8 + strlen("split.tensors.count") + 4 + 4);
    for (int64_t t = s->first; t < s->first + s->n; t++) bytes += info_bytes(&w->tensor[t]);
    s->header_bytes = round_up(bytes, align);
}

/* Distributes the tensors and sets their offsets and the sizes of all shards; the caller frees *out
 * with free(). Returns the number of shards. */
static int plan(const struct gguf_w *w, struct wshard **out) {
    uint64_t align = alignment_of(w);
    int n = 1, cap = 16;
    struct wshard *s = xcalloc((size_t)cap, sizeof *s);
    bool fresh = w->metadata_first && w->n_tensors > 0; /* the next tensor starts a shard */
    for (int64_t i = 0; i < w->n_tensors; i++) {
        struct wtensor *t = &w->tensor[i];
        uint64_t bytes = round_up(t->n_bytes, align);
        if (w->max_bytes && s[n - 1].n && s[n - 1].data_bytes + bytes > w->max_bytes) fresh = true;
        if (fresh) {
            if (n == cap) {
                cap *= 2;
                s = xreallocarray(s, (size_t)cap, sizeof *s);
            }
            s[n++] = (struct wshard){.first = i};
            fresh = false;
        }
        t->off = s[n - 1].data_bytes;
        s[n - 1].data_bytes += bytes;
        s[n - 1].n++;
    }
    for (int i = 0; i < n; i++) plan_header(w, &s[i], i, n, align);
    *out = s;
    return n;
}

/* Returns the total size of all n shards. */
static uint64_t plan_bytes(const struct wshard *s, int n) {
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) sum += s[i].header_bytes + s[i].data_bytes;
    return sum;
}

uint64_t gguf_w_total_bytes(const struct gguf_w *w) {
    struct wshard *s;
    int n = plan(w, &s);
    uint64_t sum = plan_bytes(s, n);
    free(s);
    return sum;
}

/* ---- the header ------------------------------------------------------------------------------ */

static void add_u32(struct buf *b, uint32_t v) {
    buf_add(b, &v, 4);
}
static void add_u64(struct buf *b, uint64_t v) {
    buf_add(b, &v, 8);
}
static void add_str(struct buf *b, const char *s) {
    size_t len = strlen(s);
    add_u64(b, len);
    buf_add(b, s, len);
}
static void add_kv(struct buf *b, const struct wkv *kv) {
    add_str(b, kv->key);
    add_u32(b, (uint32_t)kv->type);
    if (kv->type == GV_ARR) add_u32(b, (uint32_t)kv->elem);
    if (kv->type == GV_ARR || kv->type == GV_STR) add_u64(b, kv->count);
    buf_add(b, kv->data, kv->n_bytes);
}
static void add_scalar_kv(struct buf *b, const char *key, enum gguf_vtype type, const void *v) {
    add_str(b, key);
    add_u32(b, (uint32_t)type);
    buf_add(b, v, (size_t)gguf_vtype_bytes(type));
}

/* Appends the header of shard i. */
static void build_header(const struct gguf_w *w, int i, struct buf *b) {
    const struct wshard *s = &w->shard[i];
    uint64_t n_kv = w->n_shards > 1 ? 3 : 0;
    for (int64_t k = 0; k < w->n_kv; k++) n_kv += kv_in_shard(&w->kv[k], i);
    buf_add(b, "GGUF", 4);
    add_u32(b, VERSION);
    add_u64(b, (uint64_t)s->n);
    add_u64(b, n_kv);
    for (int64_t k = 0; k < w->n_kv; k++)
        if (kv_in_shard(&w->kv[k], i)) add_kv(b, &w->kv[k]);
    if (w->n_shards > 1) {
        uint16_t no = (uint16_t)i, count = (uint16_t)w->n_shards;
        int32_t total = (int32_t)w->n_tensors;
        add_scalar_kv(b, "split.no", GV_U16, &no);
        add_scalar_kv(b, "split.count", GV_U16, &count);
        add_scalar_kv(b, "split.tensors.count", GV_I32, &total);
    }
    for (int64_t t = s->first; t < s->first + s->n; t++) {
        const struct wtensor *wt = &w->tensor[t];
        add_str(b, wt->name);
        add_u32(b, (uint32_t)wt->n_dims);
        for (int d = 0; d < wt->n_dims; d++) add_u64(b, (uint64_t)wt->ne[d]);
        add_u32(b, (uint32_t)wt->type);
        add_u64(b, wt->off);
    }
}

/* Returns the name of file i of an output; free it. */
static char *file_name(const struct gguf_w *w, const char *path, int i) {
    return w->n_shards > 1 ? gguf_split_name(path, i, w->n_shards) : xstrdup(path);
}

enum begin { BEGIN_TEMPORARY, BEGIN_PART, BEGIN_FRESH_PART };
/* Opens the output of shard i; how: temporary, or a part that a later run can resume. */
static int open_shard(struct gguf_w *w, int i, bool overwrite, enum begin how, struct err *e) {
    char *name = file_name(w, w->path, i);
    int rc = how == BEGIN_TEMPORARY
                 ? out_open(&w->out[i], name, overwrite, e)
                 : out_open_part(&w->out[i], name, overwrite, how == BEGIN_FRESH_PART, e);
    free(name);
    return rc;
}

/* Writes the header of shard i, padded to the alignment. */
static int write_header(struct gguf_w *w, int i, struct err *e) {
    struct buf b = {0};
    build_header(w, i, &b);
    int rc = out_write(w->out[i], b.data, b.len, e);
    if (!rc) rc = out_pad(w->out[i], w->shard[i].header_bytes - b.len, e);
    buf_release(&b);
    return rc;
}

/* Rejects keys that gguf_open would reject. */
static int check_keys(const struct gguf_w *w, struct err *e) {
    uint64_t align = alignment_of(w);
    int64_t i = find_kv(w, "general.alignment");
    if (i >= 0 && w->kv[i].type != GV_U32)
        return err_set(e, ERR_DATA, "metadata key \"general.alignment\" must be u32");
    if (align < 8 || align > (uint64_t)MAX_ALIGN || (align & (align - 1)))
        return err_set(
            e, ERR_DATA,
            "metadata key \"general.alignment\" is %llu, but it must be a power of two from 8 "
            "to %d",
            (unsigned long long)align, MAX_ALIGN);
    return 0;
}

/* Divides the tensors into shards, on the first call. */
static void plan_once(struct gguf_w *w) {
    if (!w->shard) w->n_shards = plan(w, &w->shard);
}

int gguf_w_apart(struct gguf_w *w, const char *path, const struct gguf *g, struct err *e) {
    const int n = gguf_n_shards(g);
    const char **in = xcalloc((size_t)n + 1, sizeof *in);
    int rc = 0;
    plan_once(w);
    for (int k = 0; k < n; k++) in[k] = gguf_shard_path(g, k);
    for (int i = 0; i < w->n_shards && !rc; i++) {
        char *name = file_name(w, path, i);
        rc = out_apart(name, in, (size_t)n, e);
        free(name);
    }
    free(in);
    return rc;
}

/* Opens all shards and writes their headers. */
static int begin_file(struct gguf_w *w, const char *path, bool overwrite, enum begin how,
                      struct err *e) {
    if (w->bad.code) return err_set(e, w->bad.code, "%s", w->bad.msg);
    if (w->out) return err_set(e, ERR_USAGE, "%s: begun twice", path);
    TRY(check_keys(w, e));
    w->path = xstrdup(path);
    plan_once(w);
    if (w->n_shards > MAX_SHARDS)
        return err_set(e, ERR_USAGE, "%s: %d shards; the limit is %d; allow larger shards", path,
                       w->n_shards, MAX_SHARDS);
    w->out = xcalloc((size_t)w->n_shards, sizeof(struct out *));
    uint64_t need = plan_bytes(w->shard, w->n_shards), have = 0;
    /* Check the free space before creating files. */
    if (how == BEGIN_TEMPORARY) TRY(io_need_space(path, need, e));
    for (int i = 0; i < w->n_shards; i++) TRY(open_shard(w, i, overwrite, how, e));
    for (int i = 0; i < w->n_shards && how != BEGIN_TEMPORARY; i++) have += out_size(w->out[i]);
    if (how != BEGIN_TEMPORARY && !w->any_space)
        TRY(io_need_space(path, have < need ? need - have : 0, e));
    for (int i = 0; i < w->n_shards; i++) TRY(write_header(w, i, e));
    while (w->i_shard + 1 < w->n_shards && w->shard[w->i_shard].n == 0) w->i_shard++;
    return 0;
}

int gguf_w_begin(struct gguf_w *w, const char *path, bool overwrite, struct err *e) {
    return begin_file(w, path, overwrite, BEGIN_TEMPORARY, e);
}

/* ---- resuming a part ------------------------------------------------------------------------- */

int gguf_w_begin_part(struct gguf_w *w, const char *path, bool overwrite, bool fresh,
                      struct err *e) {
    return begin_file(w, path, overwrite, fresh ? BEGIN_FRESH_PART : BEGIN_PART, e);
}

void gguf_w_header(struct gguf_w *w, struct buf *out) {
    plan_once(w);
    build_header(w, 0, out);
}

int gguf_w_header_hash(struct gguf_w *w, char hex[33]) {
    struct buf b = {0};
    plan_once(w);
    for (int i = 0; i < w->n_shards; i++) build_header(w, i, &b);
    hash_xxh128_hex(hex, b.data, b.len);
    buf_release(&b);
    return w->n_shards;
}

static int shard_of(const struct gguf_w *w, int64_t tensor) {
    int i = 0;
    while (tensor >= w->shard[i].first + w->shard[i].n) i++;
    return i;
}

int gguf_w_part_hash(struct gguf_w *w, int64_t i, char hex[33], struct err *e) {
    enum { PIECE = 1 << 20 };
    const struct wtensor *t = &w->tensor[i];
    int shard = shard_of(w, i), rc = 0;
    uint8_t *p = xmalloc(PIECE);
    struct xxh128 *x = xxh128_new();
    for (uint64_t at = 0, n; at < t->n_bytes && !rc; at += n) {
        n = t->n_bytes - at < PIECE ? t->n_bytes - at : PIECE;
        rc = out_read_back(w->out[shard], p, n, w->shard[shard].header_bytes + t->off + at, e);
        if (!rc) xxh128_add(x, p, (size_t)n);
    }
    xxh128_hex(x, hex);
    xxh128_free(x);
    free(p);
    return rc;
}

int gguf_w_resume(struct gguf_w *w, int64_t n_tensors, struct err *e) {
    for (int i = 0; i < w->n_shards; i++) {
        const struct wshard *s = &w->shard[i];
        uint64_t data = n_tensors >= s->first + s->n ? s->data_bytes
                        : n_tensors > s->first       ? w->tensor[n_tensors].off
                                                     : 0;
        TRY(out_cut(w->out[i], s->header_bytes + data, e));
    }
    w->i_tensor = n_tensors;
    while (w->i_shard + 1 < w->n_shards &&
           n_tensors >= w->shard[w->i_shard].first + w->shard[w->i_shard].n)
        w->i_shard++;
    return 0;
}

int gguf_w_flush(struct gguf_w *w, struct err *e) {
    for (int i = 0; i < w->n_shards; i++) TRY(out_flush(w->out[i], e));
    return 0;
}

int gguf_w_sync(struct gguf_w *w, struct err *e) {
    for (int i = 0; i < w->n_shards; i++) TRY(out_sync(w->out[i], e));
    return 0;
}

void gguf_w_any_space(struct gguf_w *w) {
    w->any_space = true;
}

int64_t gguf_w_n_complete(const struct gguf_w *w) {
    return w->i_tensor;
}

void gguf_w_keep(struct gguf_w *w) {
    for (int i = 0; w->out && i < w->n_shards; i++)
        if (w->out[i]) out_keep(w->out[i]);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Pads the finished tensor and moves to the next one, or the next shard. */
static int end_tensor(struct gguf_w *w, struct err *e) {
    const struct wtensor *t = &w->tensor[w->i_tensor];
    uint64_t pad = round_up(t->n_bytes, alignment_of(w)) - t->n_bytes;
    if (pad) TRY(out_pad(w->out[w->i_shard], pad, e));
    w->i_tensor++;
    w->n_done = 0;
    const struct wshard *s = &w->shard[w->i_shard];
    if (w->i_tensor == s->first + s->n && w->i_shard + 1 < w->n_shards) w->i_shard++;
    return 0;
}

int gguf_w_data(struct gguf_w *w, const void *p, uint64_t n, struct err *e) {
    const uint8_t *src = p;
    if (!w->out) return err_set(e, ERR_USAGE, "tensor data before the header");
    while (n) {
        if (w->i_tensor == w->n_tensors)
            return err_set(e, ERR_USAGE, "%s: %llu bytes after the last tensor", w->path,
                           (unsigned long long)n);
        uint64_t want = w->tensor[w->i_tensor].n_bytes - w->n_done;
        uint64_t m = n < want ? n : want;
        TRY(out_write(w->out[w->i_shard], src, m, e));
        src += m;
        n -= m;
        w->n_done += m;
        if (m == want) TRY(end_tensor(w, e));
    }
    return 0;
}

int gguf_w_commit(struct gguf_w *w, struct err *e) {
    if (!w->out) return err_set(e, ERR_USAGE, "commit before the header");
    if (w->i_tensor != w->n_tensors)
        return err_set(e, ERR_USAGE, "%s: tensor \"%s\" got %llu of %llu bytes", w->path,
                       w->tensor[w->i_tensor].name, (unsigned long long)w->n_done,
                       (unsigned long long)w->tensor[w->i_tensor].n_bytes);
    for (int i = w->n_shards - 1; i >= 0; i--) TRY(out_commit(w->out[i], e));
    return 0;
}
