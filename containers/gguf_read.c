// SPDX-License-Identifier: MIT
/* containers/gguf_read.c - GGUF reader: header, keys, tensor records, split sets.
 *
 * The file is mapped and scanned once with a cursor. Nothing is trusted: every length is checked
 * against the remaining bytes before use, and all arithmetic for overflow. Names are stored in hash
 * maps, so for any input the work is linear in the size of the header. Keys and names are copied
 * (NUL-terminated) into an arena; values and tensor data stay in the map. docs/formats/gguf.md
 * numbers the rules that are enforced. Memory: about 200 bytes per record plus keys, names and
 * string values. */
#include "containers/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"

enum {
    MAX_KEY = 65535, /* bytes */
    MAX_NAME = 63,   /* bytes */
    SIBLING_NAME = MAX_NAME + 16,
    MIN_KV_BYTES = 13,     /* length 8, text 0, type 4, value 1 */
    MIN_TENSOR_BYTES = 24, /* length 8, dims 4, type 4, offset 8 */
    MIN_ALIGN = 8,
    MAX_ALIGN = 1 << 20,
    DEFAULT_ALIGN = 32
};

struct shard {
    struct map map;
    uint32_t version;
    struct gguf_kv *kv;
    const char **str; /* [n_kv] copies of the string values; NULL for other types */
    int64_t n_kv;
    struct strmap *keys;
    uint64_t align;
    uint64_t data_off; /* file offset of the data */
    int64_t first_tensor, n_tensors;
};
struct gguf {
    char *path;
    struct shard *shard;
    int n_shards;
    struct arena arena;
    struct gguf_tensor *tensor; /* tensors of all shards */
    int64_t n_tensors, cap_tensors;
    struct strmap *names;
    bool has_new_header; /* shard 0's map is a header in memory (gguf_open_edited) */
};

static const struct {
    const char *name;
    int bytes;
} vtypes[GV_COUNT] = {
    [GV_U8] = {"u8", 1},   [GV_I8] = {"i8", 1},   [GV_U16] = {"u16", 2}, [GV_I16] = {"i16", 2},
    [GV_U32] = {"u32", 4}, [GV_I32] = {"i32", 4}, [GV_F32] = {"f32", 4}, [GV_BOOL] = {"bool", 1},
    [GV_STR] = {"str", 0}, [GV_ARR] = {"arr", 0}, [GV_U64] = {"u64", 8}, [GV_I64] = {"i64", 8},
    [GV_F64] = {"f64", 8},
};

int gguf_vtype_bytes(enum gguf_vtype t) {
    return (unsigned)t < GV_COUNT ? vtypes[t].bytes : 0;
}
const char *gguf_vtype_name(enum gguf_vtype t) {
    return (unsigned)t < GV_COUNT ? vtypes[t].name : "?";
}

/* ---- cursor ---------------------------------------------------------------------------------- */

struct cur {
    const uint8_t *data;
    uint64_t size, off;
};
static uint64_t bytes_left(const struct cur *c) {
    return c->size - c->off;
}
/* Returns ERR_DATA unless n bytes are left. what: the part being read. */
static int need_bytes(const struct cur *c, uint64_t n, const char *what, struct err *e) {
    if (n <= bytes_left(c)) return 0;
    return err_set(
        e, ERR_DATA,
        "the file ends at byte %llu inside %s, which needs %llu bytes from byte %llu on; it "
        "is truncated: download or write it again",
        (unsigned long long)c->size, what, (unsigned long long)n, (unsigned long long)c->off);
}
/* Reads a number; ERR_DATA if the file ends before it. what: the part being read. */
static int take_u32(struct cur *c, uint32_t *v, const char *what, struct err *e) {
    TRY(need_bytes(c, 4, what, e));
    *v = load_u32(c->data + c->off);
    c->off += 4;
    return 0;
}
/* Reads a number; ERR_DATA if the file ends before it. what: the part being read. */
static int take_u64(struct cur *c, uint64_t *v, const char *what, struct err *e) {
    TRY(need_bytes(c, 8, what, e));
    *v = load_u64(c->data + c->off);
    c->off += 8;
    return 0;
}
/* Reads a length, at most `max`, and that many bytes. */
static int take_str(struct cur *c, uint64_t max, const char **s, uint64_t *len, const char *what,
                    struct err *e) {
    uint64_t at = c->off, n;
    TRY(take_u64(c, &n, what, e));
    if (n > max)
        return err_set(e, ERR_DATA, "%s at byte %llu claims %llu bytes; the limit is %llu", what,
                       (unsigned long long)at, (unsigned long long)n, (unsigned long long)max);
    TRY(need_bytes(c, n, what, e));
    *s = (const char *)(c->data + c->off);
    *len = n;
    c->off += n;
    return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Returns ERR_DATA unless all bytes are 0 or 1; at: offset for the message. */
static int check_bools(const struct gguf_kv *kv, uint64_t at, struct err *e) {
    for (uint64_t i = 0; i < kv->n_bytes; i++)
        if (kv->data[i] > 1)
            return err_set(e, ERR_DATA, "the bool at byte %llu is %d, neither 0 nor 1",
                           (unsigned long long)at, kv->data[i]);
    return 0;
}

/* Reads an array's type, count and data. */
static int read_array(struct cur *c, struct gguf_kv *kv, struct err *e) {
    uint64_t at = c->off, bytes;
    uint32_t elem;
    TRY(take_u32(c, &elem, "an array's element type", e));
    if (elem == GV_ARR)
        return err_set(e, ERR_DATA, "arrays of arrays (byte %llu) are not supported",
                       (unsigned long long)at);
    if (elem >= GV_COUNT)
        return err_set(e, ERR_DATA, "array element type %u at byte %llu does not exist", elem,
                       (unsigned long long)at);
    kv->elem = (enum gguf_vtype)elem;
    TRY(take_u64(c, &kv->count, "an array's length", e));
    if (kv->count > limit_of(LIM_GGUF_ARRAY))
        return err_set(e, ERR_DATA,
                       "the array at byte %llu claims %llu elements; the limit is %llu",
                       (unsigned long long)at, (unsigned long long)kv->count,
                       (unsigned long long)limit_of(LIM_GGUF_ARRAY));
    uint64_t size = elem == GV_STR ? 8 : (uint64_t)vtypes[elem].bytes;
    if (!mul_ok(kv->count, size, &bytes))
        return err_set(e, ERR_DATA, "the array at byte %llu is too large", (unsigned long long)at);
    TRY(need_bytes(c, bytes, "an array", e));
    kv->data = c->data + c->off;
    if (elem == GV_STR) {
        for (uint64_t i = 0; i < kv->count; i++) {
            const char *s;
            uint64_t len;
            if (take_str(c, limit_of(LIM_GGUF_STRING), &s, &len, "a string", e))
                return err_wrap(e, "array element %llu", (unsigned long long)i);
        }
    } else {
        c->off += bytes;
    }
    kv->n_bytes = (uint64_t)(c->data + c->off - kv->data);
    return elem == GV_BOOL ? check_bools(kv, at, e) : 0;
}

/* Reads a value; *str: its text with a NUL if it is a string. */
static int read_value(struct cur *c, struct gguf *g, struct gguf_kv *kv, const char **str,
                      struct err *e) {
    uint64_t at = c->off;
    uint32_t type;
    TRY(take_u32(c, &type, "a value's type", e));
    if (type >= GV_COUNT)
        return err_set(e, ERR_DATA, "value type %u at byte %llu does not exist", type,
                       (unsigned long long)at);
    kv->type = (enum gguf_vtype)type;
    kv->elem = kv->type;
    kv->count = 1;
    if (type == GV_ARR) return read_array(c, kv, e);
    if (type == GV_STR) {
        const char *s;
        TRY(take_str(c, limit_of(LIM_GGUF_STRING), &s, &kv->count, "a string", e));
        kv->data = (const uint8_t *)s;
        kv->n_bytes = kv->count;
        *str = arena_strndup(&g->arena, s, kv->count);
        return 0;
    }
    kv->n_bytes = (uint64_t)vtypes[type].bytes;
    TRY(need_bytes(c, kv->n_bytes, "a value", e));
    kv->data = c->data + c->off;
    c->off += kv->n_bytes;
    return type == GV_BOOL ? check_bools(kv, at, e) : 0;
}

/* Reads key record i. ERR_DATA: malformed, or a repeated key. */
static int read_kv(struct cur *c, struct gguf *g, struct shard *s, int64_t i, struct err *e) {
    struct gguf_kv *kv = &s->kv[i];
    const char *key;
    uint64_t len;
    TRY(mem_check(e));
    TRY(take_str(c, MAX_KEY, &key, &len, "a key", e));
    if (len == 0) return err_set(e, ERR_DATA, "the key is empty");
    if (memchr(key, 0, len))
        return err_set(e, ERR_DATA, "key \"%s\" holds a zero byte", show_n(key, len).s);
    kv->key = arena_strndup(&g->arena, key, len);
    if (!strmap_add(s->keys, kv->key, len, i))
        return err_set(e, ERR_DATA, "key \"%s\" occurs twice", show_n(key, len).s);
    if (read_value(c, g, kv, &s->str[i], e)) return err_wrap(e, "key \"%s\"", show_n(key, len).s);
    return 0;
}

static int read_kvs(struct cur *c, struct gguf *g, struct shard *s, uint64_t n, struct err *e) {
    int64_t cap = 0;
    s->keys = strmap_try_new((size_t)n, "the list of keys", e);
    if (!s->keys) return ERR_SYS;
    for (int64_t i = 0; i < (int64_t)n; i++) {
        uint64_t at = c->off;
        if (i == cap) {
            cap = cap ? 2 * cap : 64;
            void *kv = try_realloc(s->kv, (size_t)cap, sizeof *s->kv, "the list of keys", e);
            if (kv) s->kv = kv;
            void *str = try_realloc(s->str, (size_t)cap, sizeof *s->str, "the list of keys", e);
            if (str) s->str = str;
            if (!kv || !str) return ERR_SYS;
        }
        memset(&s->kv[i], 0, sizeof s->kv[i]);
        s->str[i] = NULL;
        if (read_kv(c, g, s, i, e))
            return err_wrap(e, "key record %lld at byte %llu", (long long)i,
                            (unsigned long long)at);
        s->n_kv = i + 1;
    }
    return 0;
}

/* ---- tensor records -------------------------------------------------------------------------- */

/* Returns ERR_DATA unless the tensor type is supported. */
static int check_type(int64_t id, struct err *e) {
    if (qtype_info(id)) return 0;
    const char *why = qtype_foreign(id);
    if (why)
        return err_set(
            e, ERR_DATA,
            "tensor type %lld is %s, which is not supported; create the file again from the "
            "original with a standard type",
            (long long)id, why);
    return err_set(e, ERR_DATA, "tensor type %lld does not exist", (long long)id);
}

/* Reads shape, type and offset of a tensor record, after its name. */
static int read_shape(struct cur *c, struct gguf_tensor *t, struct err *e) {
    uint32_t n_dims, type;
    int64_t n_elems = 1;
    TRY(take_u32(c, &n_dims, "the number of dimensions", e));
    if (n_dims < 1 || n_dims > 4)
        return err_set(e, ERR_DATA, "%u dimensions; 1 to 4 are allowed", n_dims);
    t->n_dims = (int)n_dims;
    for (int d = 0; d < 4; d++) t->ne[d] = 1;
    for (uint32_t d = 0; d < n_dims; d++) {
        uint64_t ne;
        TRY(take_u64(c, &ne, "a dimension", e));
        if (ne < 1 || ne > INT64_MAX)
            return err_set(e, ERR_DATA, "dimension %u is %lld, but it must be at least 1", d,
                           (long long)ne);
        t->ne[d] = (int64_t)ne;
        if (!mul_ok_i64(n_elems, t->ne[d], &n_elems))
            return err_set(e, ERR_DATA, "the number of elements overflows");
    }
    TRY(take_u32(c, &type, "the tensor type", e));
    TRY(check_type((int32_t)type, e));
    t->type = (enum qtype)type;
    const struct qtype_info *qi = qtype_info(t->type);
    if (t->ne[0] % qi->block_elems)
        return err_set(e, ERR_DATA, "rows of %lld elements cannot be divided into %s blocks of %d",
                       (long long)t->ne[0], qi->name, qi->block_elems);
    if (!mul_ok((uint64_t)(n_elems / qi->block_elems), (uint64_t)qi->block_bytes, &t->n_bytes))
        return err_set(e, ERR_DATA, "the size in bytes overflows");
    return take_u64(c, &t->off, "the data offset", e);
}

static int read_tensor(struct cur *c, struct gguf *g, int shard, struct err *e) {
    struct gguf_tensor *t = &g->tensor[g->n_tensors];
    const char *name;
    uint64_t len;
    memset(t, 0, sizeof *t);
    TRY(mem_check(e));
    TRY(take_str(c, MAX_NAME, &name, &len, "a tensor name", e));
    if (len == 0) return err_set(e, ERR_DATA, "the tensor name is empty");
    if (memchr(name, 0, len))
        return err_set(e, ERR_DATA, "tensor name \"%s\" holds a zero byte", show_n(name, len).s);
    t->name = arena_strndup(&g->arena, name, len);
    t->shard = shard;
    if (!strmap_add(g->names, t->name, len, g->n_tensors))
        return err_set(e, ERR_DATA, "tensor \"%s\" occurs twice", show_n(name, len).s);
    if (read_shape(c, t, e)) {
        err_about(e, NULL, t->name);
        return err_wrap(e, "tensor \"%s\"", show_n(name, len).s);
    }
    g->n_tensors++;
    return 0;
}

static int read_tensors(struct cur *c, struct gguf *g, int shard, uint64_t n, struct err *e) {
    g->shard[shard].first_tensor = g->n_tensors;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = c->off;
        if (g->n_tensors == g->cap_tensors) {
            const int64_t cap = g->cap_tensors ? 2 * g->cap_tensors : 64;
            void *v = try_realloc(g->tensor, (size_t)cap, sizeof *g->tensor, "tensors", e);
            if (!v) return ERR_SYS;
            g->tensor = v;
            g->cap_tensors = cap;
        }
        if (read_tensor(c, g, shard, e))
            return err_wrap(e, "tensor record %llu at byte %llu", (unsigned long long)i,
                            (unsigned long long)at);
        g->shard[shard].n_tensors = (int64_t)i + 1;
    }
    return 0;
}

/* ---- tensor data ----------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b) {
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a;
    const struct gguf_tensor *y = *(const struct gguf_tensor *const *)b;
    if (x->off != y->off) return x->off < y->off ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Returns ERR_DATA if the data of two tensors overlap. */
static int check_overlap(const struct gguf *g, const struct shard *s, struct err *e) {
    const struct gguf_tensor **v = try_calloc((size_t)s->n_tensors + 1, sizeof *v, "tensors", e);
    int rc = 0;
    if (!v) return ERR_SYS;
    for (int64_t i = 0; i < s->n_tensors; i++) v[i] = &g->tensor[s->first_tensor + i];
    qsort(v, (size_t)s->n_tensors, sizeof *v, by_offset);
    for (int64_t i = 1; i < s->n_tensors && !rc; i++)
        if (v[i]->off < v[i - 1]->off + v[i - 1]->n_bytes)
            rc = err_set(e, ERR_DATA, "the data of tensors \"%s\" and \"%s\" overlap",
                         show_n(v[i - 1]->name, strlen(v[i - 1]->name)).s,
                         show_n(v[i]->name, strlen(v[i]->name)).s);
    free(v);
    return rc;
}

/* Returns ERR_DATA unless the tensor's data are aligned and within the file. */
static int check_place(const struct shard *s, const struct gguf_tensor *t, struct err *e) {
    uint64_t end;
    if (t->off % s->align)
        return err_set(e, ERR_DATA, "data offset %llu is not a multiple of the alignment %llu",
                       (unsigned long long)t->off, (unsigned long long)s->align);
    if (!add_ok(s->data_off, t->off, &end) || !add_ok(end, t->n_bytes, &end))
        return err_set(e, ERR_DATA, "data offset %llu overflows", (unsigned long long)t->off);
    if (end > s->map.size)
        return err_set(e, ERR_DATA,
                       "its data end at byte %llu but the file has only %llu; it is truncated: "
                       "download or write it again",
                       (unsigned long long)end, (unsigned long long)s->map.size);
    return 0;
}

/* Checks the offsets of the shard's tensors, whose data must be contiguous unless GGUF_TOLERANT is
 * set, and sets the data pointers. */
static int place_data(struct gguf *g, struct shard *s, unsigned flags, struct err *e) {
    uint64_t sum = 0; /* expected offset of the next tensor */
    for (int64_t i = 0; i < s->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensor[s->first_tensor + i];
        int rc = check_place(s, t, e);
        if (!rc && !(flags & GGUF_TOLERANT) && t->off != sum)
            rc = err_set(e, ERR_DATA, "data offset %llu, but packed data would put it at %llu",
                         (unsigned long long)t->off, (unsigned long long)sum);
        if (rc) {
            err_about(e, NULL, t->name);
            return err_wrap(e, "tensor record %lld \"%s\"", (long long)i,
                            show_n(t->name, strlen(t->name)).s);
        }
        t->data = s->map.data + s->data_off + t->off;
        /* Cannot overflow, because the tensor is inside the file. */
        sum = round_up(t->off + t->n_bytes, s->align);
    }
    return flags & GGUF_TOLERANT ? check_overlap(g, s, e) : 0;
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Returns a key of the shard; NULL: missing. */
static const struct gguf_kv *shard_find(const struct shard *s, const char *key) {
    int64_t i = strmap_get(s->keys, key, strlen(key));
    return i < 0 ? NULL : &s->kv[i];
}

/* Reads version and counts. ERR_DATA: different byte order, or impossible counts. */
static int read_fixed_header(struct cur *c, struct shard *s, uint64_t *n_tensors, uint64_t *n_kv,
                             struct err *e) {
    TRY(need_bytes(c, 24, "the header", e));
    s->version = load_u32(c->data + 4);
    if ((s->version & 0xffffu) == 0 && s->version)
        return err_set(e, ERR_DATA, "a big-endian GGUF file; get the little-endian one");
    if (s->version != 2 && s->version != 3)
        return err_set(e, ERR_DATA, "GGUF version %u; only 2 and 3 can be read", s->version);
    *n_tensors = load_u64(c->data + 8);
    *n_kv = load_u64(c->data + 16);
    c->off = 24;
    if (*n_tensors > limit_of(LIM_GGUF_RECORDS) || *n_tensors * MIN_TENSOR_BYTES > bytes_left(c))
        return err_set(e, ERR_DATA,
                       "the header (byte 8) claims %llu tensors, too many for this file",
                       (unsigned long long)*n_tensors);
    if (*n_kv > limit_of(LIM_GGUF_RECORDS) || *n_kv * MIN_KV_BYTES > bytes_left(c))
        return err_set(e, ERR_DATA, "the header (byte 16) claims %llu keys, too many for this file",
                       (unsigned long long)*n_kv);
    return 0;
}

/* Reads the alignment; without a key, it is the default. */
static int read_align(struct shard *s, struct err *e) {
    const struct gguf_kv *kv = shard_find(s, "general.alignment");
    s->align = DEFAULT_ALIGN;
    if (!kv) return 0;
    if (kv->type != GV_U32)
        return err_set(e, ERR_DATA, "key \"general.alignment\" is %s, but it must be u32",
                       gguf_vtype_name(kv->type));
    s->align = load_u32(kv->data);
    if (s->align < MIN_ALIGN || s->align > MAX_ALIGN || (s->align & (s->align - 1)))
        return err_set(
            e, ERR_DATA,
            "key \"general.alignment\" is %llu, but it must be a power of two from %d to %d",
            (unsigned long long)s->align, MIN_ALIGN, MAX_ALIGN);
    return 0;
}

/* Reads the header of a mapped shard; it is in the first n_bytes. */
static int read_header(struct gguf *g, int i, uint64_t n_bytes, unsigned flags, struct err *e) {
    struct shard *s = &g->shard[i];
    const char *path = s->map.path;
    uint64_t n_tensors = 0, n_kv = 0;
    struct cur c = {s->map.data, n_bytes, 0};
    int rc;
    TRY_GOTO(fail, rc, gguf_no_file(path, c.data, c.size, e));
    TRY_GOTO(fail, rc, read_fixed_header(&c, s, &n_tensors, &n_kv, e));
    TRY_GOTO(fail, rc, read_kvs(&c, g, s, n_kv, e));
    TRY_GOTO(fail, rc, read_align(s, e));
    TRY_GOTO(fail, rc, read_tensors(&c, g, i, n_tensors, e));
    s->data_off = round_up(c.off, s->align);
    TRY_GOTO(fail, rc, place_data(g, s, flags, e));
    return 0;
fail:
    err_about(e, path, NULL);
    return err_wrap(e, "%s", path);
}

/* Maps shard i and reads its header; first undoes an interrupted edit. */
static int read_shard(struct gguf *g, int i, const char *path, unsigned flags, struct err *e) {
    struct map *m = &g->shard[i].map;
    TRY(gguf_recover(path, e));
    TRY(map_open(m, path, e)); /* map_open names the file itself */
    return read_header(g, i, m->size, flags, e);
}

/* ---- split sets ------------------------------------------------------------------------------ */

/* Reads an unsigned integer key of a shard. If it is absent, returns 0 and leaves *v unchanged. */
static int split_key(const struct shard *s, const char *key, uint64_t *v, struct err *e) {
    const struct gguf_kv *kv = shard_find(s, key);
    if (!kv) return 0;
    if (kv->type == GV_U16 || kv->type == GV_I32 || kv->type == GV_U32 || kv->type == GV_U8 ||
        kv->type == GV_U64 || kv->type == GV_I64) {
        *v = (uint64_t)gguf_kv_i64(kv, 0);
        if (*v <= INT32_MAX) return 0;
    }
    return err_set(e, ERR_DATA, "key \"%s\" is not a small whole number", key);
}

/* Returns ERR_DATA unless shard i is marked as number i of n. */
static int check_shard(struct gguf *g, int i, int n, struct err *e) {
    uint64_t no = UINT64_MAX, count = 0;
    const struct shard *s = &g->shard[i];
    TRY(split_key(s, "split.no", &no, e));
    TRY(split_key(s, "split.count", &count, e));
    if (count != (uint64_t)n)
        return err_set(e, ERR_DATA, "claims a set of %llu files, but the first shard claims %d",
                       (unsigned long long)count, n);
    if (no == UINT64_MAX) return err_set(e, ERR_DATA, "key \"split.no\" is missing");
    if (no != (uint64_t)i)
        return err_set(e, ERR_DATA, "claims to be shard %llu, but is named shard %d of %d",
                       (unsigned long long)no + 1, i + 1, n);
    return 0;
}

/* Opens shards 1 to n - 1 of a set. */
static int open_others(struct gguf *g, int n, unsigned flags, struct err *e) {
    g->shard = xreallocarray(g->shard, (size_t)n, sizeof *g->shard);
    memset(g->shard + 1, 0, (size_t)(n - 1) * sizeof *g->shard);
    for (int i = 1; i < n; i++) {
        char *path = gguf_split_name(g->path, i, n);
        int rc = 0;
        g->n_shards = i + 1;
        if (!io_exists(path))
            rc = err_set(e, ERR_DATA, "%s: shard %d of %d is missing; download it again", path,
                         i + 1, n);
        if (!rc) rc = read_shard(g, i, path, flags, e);
        if (!rc && check_shard(g, i, n, e)) rc = err_wrap(e, "%s", path);
        free(path);
        TRY(rc);
    }
    uint64_t total = (uint64_t)g->n_tensors;
    if (split_key(&g->shard[0], "split.tensors.count", &total, e))
        return err_wrap(e, "%s", g->path);
    if (total != (uint64_t)g->n_tensors)
        return err_set(e, ERR_DATA,
                       "%s: the set should have %llu tensors, but its %d files have %lld", g->path,
                       (unsigned long long)total, n, (long long)g->n_tensors);
    return 0;
}

/* Opens the other shards, if the file is the first one of a set. */
static int open_set(struct gguf *g, unsigned flags, struct err *e) {
    uint64_t count = 0, no = 0;
    int i = 0, n = 0, rc;
    size_t prefix = 0;
    TRY_GOTO(fail, rc, split_key(&g->shard[0], "split.count", &count, e));
    if (count <= 1 || (flags & GGUF_ONE_FILE)) return 0;
    TRY_GOTO(fail, rc, split_key(&g->shard[0], "split.no", &no, e));
    if (!gguf_split_parse(g->path, &i, &n, &prefix) || (uint64_t)n != count) {
        rc = err_set(
            e, ERR_DATA,
            "one of a set of %llu files, but its name does not end in -00001-of-%05llu.gguf; "
            "restore the files' original names",
            (unsigned long long)count, (unsigned long long)count);
        goto fail;
    }
    if (no != (uint64_t)i) {
        rc = check_shard(g, 0, n, e);
        goto fail;
    }
    if (i != 0) {
        char *first = gguf_split_name(g->path, 0, n);
        rc = err_set(e, ERR_DATA, "shard %llu of %d; name the first one, %s",
                     (unsigned long long)no + 1, n, first);
        free(first);
        goto fail;
    }
    return open_others(g, n, flags, e);
fail:
    return err_wrap(e, "%s", g->path);
}

static struct gguf *new_gguf(const char *path) {
    struct gguf *g = xcalloc(1, sizeof *g);
    g->path = xstrdup(path);
    g->shard = xcalloc(1, sizeof *g->shard);
    g->n_shards = 1;
    arena_init(&g->arena);
    g->names = strmap_new(256);
    return g;
}

int gguf_open(struct gguf **out, const char *path, unsigned flags, struct err *e) {
    *out = NULL;
    if (io_is_dir(path)) return gguf_no_folder(path, e);
    struct gguf *g = new_gguf(path);
    int rc;
    TRY_GOTO(fail, rc, read_shard(g, 0, path, flags, e));
    TRY_GOTO(fail, rc, open_set(g, flags, e));
    *out = g;
    return 0;
fail:
    gguf_close(g);
    return rc;
}

int gguf_open_edited(struct gguf **out, const char *path, const struct buf *header, uint64_t size,
                     unsigned flags, struct err *e) {
    struct gguf *g = new_gguf(path);
    int rc;
    *out = NULL;
    g->has_new_header = true;
    g->shard[0].map =
        (struct map){.data = (const uint8_t *)header->data, .size = size, .path = xstrdup(path)};
    TRY_GOTO(fail, rc, read_header(g, 0, header->len, flags, e));
    TRY_GOTO(fail, rc, open_set(g, flags, e));
    *out = g;
    return 0;
fail:
    gguf_close(g);
    return rc;
}

void gguf_close(struct gguf *g) {
    if (!g) return;
    if (g->has_new_header) g->shard[0].map.data = NULL; /* the caller's */
    for (int i = 0; i < g->n_shards; i++) {
        struct shard *s = &g->shard[i];
        strmap_free(s->keys);
        free(s->kv);
        free(s->str);
        map_close(&s->map);
    }
    free(g->shard);
    strmap_free(g->names);
    free(g->tensor);
    arena_release(&g->arena);
    free(g->path);
    free(g);
}

/* ---- contents -------------------------------------------------------------------------------- */

const char *gguf_path(const struct gguf *g) {
    return g->path;
}
uint32_t gguf_version(const struct gguf *g) {
    return g->shard[0].version;
}
uint64_t gguf_alignment(const struct gguf *g) {
    return g->shard[0].align;
}
uint64_t gguf_file_bytes(const struct gguf *g) {
    uint64_t sum = 0;
    for (int i = 0; i < g->n_shards; i++) sum += g->shard[i].map.size;
    return sum;
}
int gguf_n_shards(const struct gguf *g) {
    return g->n_shards;
}
const char *gguf_shard_path(const struct gguf *g, int shard) {
    return g->shard[shard].map.path;
}
const uint8_t *gguf_shard_header(const struct gguf *g, int shard, uint64_t *n_bytes) {
    const struct shard *s = &g->shard[shard];
    *n_bytes = s->data_off < s->map.size ? s->data_off : s->map.size;
    return s->map.data;
}
const struct file_id *gguf_shard_id(const struct gguf *g, int shard) {
    return &g->shard[shard].map.id;
}
uint64_t gguf_shard_bytes(const struct gguf *g, int shard) {
    return g->shard[shard].map.size;
}
int64_t gguf_n_kv(const struct gguf *g) {
    return g->shard[0].n_kv;
}
int64_t gguf_n_tensors(const struct gguf *g) {
    return g->n_tensors;
}
const struct gguf_kv *gguf_shard_kv_at(const struct gguf *g, int shard, int64_t i) {
    return i >= 0 && i < g->shard[shard].n_kv ? &g->shard[shard].kv[i] : NULL;
}
const struct gguf_kv *gguf_kv_at(const struct gguf *g, int64_t i) {
    return gguf_shard_kv_at(g, 0, i);
}
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int64_t i) {
    return i >= 0 && i < g->n_tensors ? &g->tensor[i] : NULL;
}
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key) {
    return shard_find(&g->shard[0], key);
}
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name) {
    int64_t i = strmap_get(g->names, name, strlen(name));
    return i < 0 ? NULL : &g->tensor[i];
}
/* Returns the tensor whose name is `name`, which ends in `from`, with `to` in its place; NULL: not
 * found. */
static const struct gguf_tensor *sibling(const struct gguf *g, const char *name, const char *from,
                                         const char *to) {
    char other[SIBLING_NAME];
    const size_t n = strlen(name), k = strlen(from);
    if (n < k || n - k + strlen(to) >= sizeof other || strcmp(name + n - k, from) != 0) return NULL;
    memcpy(other, name, n - k);
    memcpy(other + n - k, to, strlen(to) + 1);
    return gguf_find_tensor(g, other);
}

/* Returns whether s can hold the scales of w. */
static bool fits_scales(const struct gguf_tensor *w, const struct gguf_tensor *s) {
    const int64_t n = w->ne[2] * w->ne[3];
    return s && s->type == QT_F32 && s->n_dims == 1 && w->n_dims > 1 &&
           (s->ne[0] == 1 || s->ne[0] == n);
}

const float *gguf_scales(const struct gguf *g, const struct gguf_tensor *t, int64_t *n) {
    const struct gguf_tensor *s = sibling(g, t->name, ".weight", ".scale");
    if (!fits_scales(t, s)) return NULL;
    *n = s->ne[0];
    return (const float *)(const void *)s->data;
}

bool gguf_is_scale(const struct gguf *g, const struct gguf_tensor *t) {
    const struct gguf_tensor *w = sibling(g, t->name, ".scale", ".weight");
    if (!w) w = sibling(g, t->name, ".input_scale", ".weight");
    return w && fits_scales(w, t);
}
void gguf_drop(const struct gguf *g, const struct gguf_tensor *t) {
    const struct shard *s = &g->shard[t->shard];
    map_drop(&s->map, s->data_off + t->off, t->n_bytes);
}

const char *gguf_kv_text(const struct gguf *g, const struct gguf_kv *kv) {
    return kv->type == GV_STR ? g->shard[0].str[kv - g->shard[0].kv] : NULL;
}
