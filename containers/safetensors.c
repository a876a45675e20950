// SPDX-License-Identifier: MIT
/* containers/safetensors.c - reader of safetensors files: u64 header length, JSON header, data.
 *
 * The header is parsed and checked completely at open. Shapes and sizes use checked arithmetic, and
 * the data ranges, sorted by start, must tile the data section without holes or overlaps, so a file
 * that can be opened is complete. Tensors with a zero dimension hold no data and are omitted from
 * the list (st_is_empty finds them). Data stay in the map, and are read with memcpy because they
 * may be unaligned. */
#include "containers/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/fp.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/limits.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"

enum { MAX_DIMS = 8 };
static const int64_t max_dim = (int64_t)1 << 48;

struct st {
    struct map map;
    struct arena arena;
    struct json *header; /* kept for "__metadata__" */
    const struct json *meta;
    struct st_tensor *tensor; /* sorted by offset, empty ones last */
    int64_t n_tensors, n_all;
    struct strmap *names;
};

static const struct {
    const char *name;
    int bytes;
    bool is_type; /* a tensor type (enum qtype) has the same name and bytes */
} dtypes[ST_COUNT] = {
    [ST_BOOL] = {"BOOL", 1, false},       [ST_U8] = {"U8", 1, false},
    [ST_I8] = {"I8", 1, false},           [ST_F8_E4M3] = {"F8_E4M3", 1, false},
    [ST_F8_E5M2] = {"F8_E5M2", 1, false}, [ST_F8_E8M0] = {"F8_E8M0", 1, false},
    [ST_U16] = {"U16", 2, false},         [ST_I16] = {"I16", 2, false},
    [ST_F16] = {"F16", 2, true},          [ST_BF16] = {"BF16", 2, true},
    [ST_U32] = {"U32", 4, false},         [ST_I32] = {"I32", 4, false},
    [ST_F32] = {"F32", 4, true},          [ST_U64] = {"U64", 8, false},
    [ST_I64] = {"I64", 8, false},         [ST_F64] = {"F64", 8, false},
};

const char *st_dtype_name(enum st_dtype t) {
    return (unsigned)t < ST_COUNT ? dtypes[t].name : "?";
}
int st_dtype_bytes(enum st_dtype t) {
    return (unsigned)t < ST_COUNT ? dtypes[t].bytes : 0;
}

bool st_dtype_qtype(enum st_dtype t, enum qtype *out) {
    return (unsigned)t < ST_COUNT && dtypes[t].is_type && qtype_parse(dtypes[t].name, out);
}

/* ---- one header member ----------------------------------------------------------------------- */

/* Reads a tensor's dtype. ERR_DATA: not supported. */
static int read_dtype(const struct json *j, struct st_tensor *t, struct err *e) {
    const char *s = json_str(j);
    if (!s) return err_set(e, ERR_DATA, "\"dtype\" is not a string");
    for (int i = 0; i < ST_COUNT; i++)
        if (strcmp(s, dtypes[i].name) == 0) {
            t->dtype = (enum st_dtype)i;
            return 0;
        }
    return err_set(e, ERR_DATA, "dtype \"%s\" is not supported", show_n(s, strlen(s)).s);
}

/* Reads a tensor's shape and computes its size in bytes. */
static int read_dims(const struct json *j, struct st_tensor *t, struct err *e) {
    if (json_type(j) != JSON_ARR) return err_set(e, ERR_DATA, "\"shape\" is not an array");
    t->n_elems = 1;
    for (const struct json *c = json_first(j); c; c = json_next(c)) {
        int64_t dim;
        if (t->n_dims == MAX_DIMS) return err_set(e, ERR_DATA, "more than %d dimensions", MAX_DIMS);
        if (!json_is_int(c) || !json_i64(c, &dim) || dim < 0 || dim > max_dim)
            return err_set(e, ERR_DATA, "dimension %d is not a whole number from 0 to 2^48",
                           t->n_dims);
        t->shape[t->n_dims++] = dim;
        if (!mul_ok_i64(t->n_elems, dim, &t->n_elems))
            return err_set(e, ERR_DATA, "the number of elements overflows");
    }
    if (!mul_ok((uint64_t)t->n_elems, (uint64_t)dtypes[t->dtype].bytes, &t->n_bytes))
        return err_set(e, ERR_DATA, "the size in bytes overflows");
    return 0;
}

/* Reads data_offsets into t->off, here still relative to the data section, and checks the size. */
static int read_range(const struct json *j, struct st_tensor *t, struct err *e) {
    const struct json *a = json_first(j), *b = a ? json_next(a) : NULL;
    int64_t begin, end;
    if (json_type(j) != JSON_ARR || !b || json_next(b) || !json_is_int(a) || !json_is_int(b) ||
        !json_i64(a, &begin) || !json_i64(b, &end) || begin < 0 || end < begin)
        return err_set(e, ERR_DATA, "\"data_offsets\" is not a pair of increasing whole numbers");
    if ((uint64_t)(end - begin) != t->n_bytes)
        return err_set(e, ERR_DATA, "%lld bytes of data, but its shape and dtype need %llu",
                       (long long)(end - begin), (unsigned long long)t->n_bytes);
    t->off = (uint64_t)begin;
    return 0;
}

/* Reads a tensor's entry in the header. */
static int read_member(const struct json *j, struct st_tensor *t, struct err *e) {
    const struct json *dtype = NULL, *shape = NULL, *range = NULL;
    if (json_type(j) != JSON_OBJ) return err_set(e, ERR_DATA, "its entry is not an object");
    for (const struct json *c = json_first(j); c; c = json_next(c)) {
        const char *name = json_name(c);
        if (strcmp(name, "dtype") == 0)
            dtype = c;
        else if (strcmp(name, "shape") == 0)
            shape = c;
        else if (strcmp(name, "data_offsets") == 0)
            range = c;
        else
            return err_set(e, ERR_DATA, "unknown member \"%s\"", show_n(name, strlen(name)).s);
    }
    if (!dtype || !shape || !range)
        return err_set(e, ERR_DATA, "\"dtype\", \"shape\" or \"data_offsets\" is missing");
    TRY(read_dtype(dtype, t, e));
    TRY(read_dims(shape, t, e));
    return read_range(range, t, e);
}

/* Checks __metadata__, whose values must be strings. */
static int read_meta(struct st *s, const struct json *j, struct err *e) {
    if (json_type(j) != JSON_OBJ) return err_set(e, ERR_DATA, "\"__metadata__\" is not an object");
    for (const struct json *c = json_first(j); c; c = json_next(c))
        if (!json_str(c))
            return err_set(e, ERR_DATA, "\"__metadata__\" holds something other than strings");
    s->meta = j;
    return 0;
}

static int read_members(struct st *s, struct err *e) {
    int64_t n = json_len(s->header);
    if ((uint64_t)n > limit_of(LIM_ST_TENSORS))
        return err_set(e, ERR_DATA, "%lld tensors; the limit is %llu", (long long)n,
                       (unsigned long long)limit_of(LIM_ST_TENSORS));
    if (!(s->tensor = try_calloc((size_t)n + 1, sizeof *s->tensor, "the list of tensors", e)) ||
        !(s->names = strmap_try_new((size_t)n, "the list of tensors", e)))
        return ERR_SYS;
    for (const struct json *c = json_first(s->header); c; c = json_next(c)) {
        const char *name = json_name(c);
        struct st_tensor *t = &s->tensor[s->n_all];
        if (strcmp(name, "__metadata__") == 0) {
            TRY(read_meta(s, c, e));
            continue;
        }
        size_t len = strlen(name);
        if (len == 0) return err_set(e, ERR_DATA, "a tensor has an empty name");
        t->name = arena_strdup(&s->arena, name);
        if (read_member(c, t, e)) return err_wrap(e, "tensor \"%s\"", show_n(name, len).s);
        s->n_all++;
    }
    return 0;
}

/* ---- the whole file -------------------------------------------------------------------------- */

/* Compares tensors by offset, empty ones last, for qsort(). */
static int by_place(const void *a, const void *b) {
    const struct st_tensor *x = a, *y = b;
    bool ex = x->n_bytes == 0, ey = y->n_bytes == 0;
    if (ex != ey) return ex ? 1 : -1;
    if (!ex && x->off != y->off) return x->off < y->off ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Returns ERR_DATA unless every empty tensor, of those at the end of the list, is at the start of
 * another one or at the end of the data. */
static int check_empty(const struct st *s, uint64_t n_data, struct err *e) {
    for (int64_t i = s->n_tensors; i < s->n_all; i++) {
        const struct st_tensor *t = &s->tensor[i];
        int64_t lo = 0, hi = s->n_tensors;
        while (lo < hi) {
            const int64_t mid = lo + (hi - lo) / 2;
            if (s->tensor[mid].off < t->off)
                lo = mid + 1;
            else
                hi = mid;
        }
        if (t->off != (lo < s->n_tensors ? s->tensor[lo].off : n_data))
            return err_set(e, ERR_DATA,
                           "tensor \"%s\" is empty and at data byte %llu, inside "
                           "another tensor or after all of them",
                           show_n(t->name, strlen(t->name)).s, (unsigned long long)t->off);
    }
    return 0;
}

/* Checks that the sorted ranges tile [0, n_data). */
static int check_tiling(struct st *s, uint64_t data_off, struct err *e) {
    uint64_t at = 0, n_data = s->map.size - data_off;
    qsort(s->tensor, (size_t)s->n_all, sizeof *s->tensor, by_place);
    for (int64_t i = 0; i < s->n_all; i++) {
        struct st_tensor *t = &s->tensor[i];
        if (!strmap_add(s->names, t->name, strlen(t->name), i))
            return err_set(e, ERR_DATA, "tensor \"%s\" occurs twice",
                           show_n(t->name, strlen(t->name)).s);
        if (t->n_bytes == 0) continue;
        s->n_tensors = i + 1;
        if (t->off != at)
            return err_set(
                e, ERR_DATA,
                "tensor \"%s\" begins at data byte %llu, the one before ends at %llu: the "
                "header has %s",
                show_n(t->name, strlen(t->name)).s, (unsigned long long)t->off,
                (unsigned long long)at, t->off < at ? "an overlap" : "a hole");
        /* Each size is below 2^54, and there are at most 2^20 tensors, so the sum cannot overflow.
         * It is the start of the next tensor. */
        at += t->n_bytes;
    }
    if (at > n_data)
        return err_set(e, ERR_DATA,
                       "truncated: %llu bytes, but its header describes %llu; download it again",
                       (unsigned long long)s->map.size, (unsigned long long)(data_off + at));
    if (at < n_data)
        return err_set(e, ERR_DATA, "%llu bytes, but its header describes only %llu",
                       (unsigned long long)s->map.size, (unsigned long long)(data_off + at));
    TRY(check_empty(s, n_data, e));
    for (int64_t i = 0; i < s->n_tensors; i++) {
        s->tensor[i].off += data_off;
        s->tensor[i].data = s->map.data + s->tensor[i].off;
    }
    return 0;
}

/* Checks the start of the file and sets *n_header to the length of its JSON. */
static int check_start(const struct st *s, uint64_t *n_header, struct err *e) {
    static const char lfs[] = "version https://git-lfs";
    const struct map *m = &s->map;
    if (m->size >= sizeof lfs - 1 && memcmp(m->data, lfs, sizeof lfs - 1) == 0)
        return err_set(
            e, ERR_DATA,
            "a Git LFS pointer, not the weights; run \"git lfs pull\" or download it again");
    /* The lengths of some headers, e.g. of 640 and 19280 bytes, look like the magic of a pickle or
     * a zip file; '{' tells them apart. */
    if (m->size >= 2 && !(m->size > 8 && m->data[8] == '{') &&
        (memcmp(m->data, "PK", 2) == 0 || memcmp(m->data, "\x80\x02", 2) == 0))
        return err_set(e, ERR_DATA,
                       "a pickled PyTorch file; get the safetensors form of the model");
    if (m->size < 10)
        return err_set(e, ERR_DATA, "truncated: %llu bytes hold no header; download it again",
                       (unsigned long long)m->size);
    uint64_t n = load_u64(m->data);
    if (n < 2 || n > limit_of(LIM_ST_HEADER))
        return err_set(
            e, ERR_DATA,
            "not a safetensors file: it claims a header of %llu bytes (2 to %llu allowed)",
            (unsigned long long)n, (unsigned long long)limit_of(LIM_ST_HEADER));
    if (8 + n > m->size)
        return err_set(e, ERR_DATA,
                       "truncated: %llu bytes, but its header alone takes %llu; download it again",
                       (unsigned long long)m->size, (unsigned long long)(8 + n));
    if (m->data[8] != '{')
        return err_set(e, ERR_DATA, "not a safetensors file: the header does not begin with '{'");
    *n_header = n;
    return 0;
}

int st_open(struct st **out, const char *path, struct err *e) {
    struct st *s = xcalloc(1, sizeof *s);
    uint64_t n = 0;
    int rc;
    *out = NULL;
    arena_init(&s->arena);
    rc = map_open(&s->map, path, e); /* map_open names the file itself */
    if (rc) {
        st_close(s);
        return rc;
    }
    TRY_GOTO(fail, rc, check_start(s, &n, e));
    TRY_GOTO(fail, rc,
             json_parse(&s->header, (const char *)s->map.data + 8, n, "safetensors header", e));
    if (json_type(s->header) != JSON_OBJ) {
        rc = err_set(e, ERR_DATA, "the header is not a JSON object");
        goto fail;
    }
    TRY_GOTO(fail, rc, read_members(s, e));
    TRY_GOTO(fail, rc, check_tiling(s, 8 + n, e));
    *out = s;
    return 0;
fail:
    rc = err_wrap(e, "%s", path);
    st_close(s);
    return rc;
}

void st_close(struct st *s) {
    if (!s) return;
    json_free(s->header);
    strmap_free(s->names);
    free(s->tensor);
    arena_release(&s->arena);
    map_close(&s->map);
    free(s);
}

const char *st_path(const struct st *s) {
    return s->map.path;
}
int64_t st_n_tensors(const struct st *s) {
    return s->n_tensors;
}
const struct st_tensor *st_tensor_at(const struct st *s, int64_t i) {
    return i >= 0 && i < s->n_tensors ? &s->tensor[i] : NULL;
}
int st_is_empty(const struct st *s, const char *name) {
    return strmap_get(s->names, name, strlen(name)) >= s->n_tensors;
}
const char *st_empty_name(const struct st *s) {
    return s->n_tensors < s->n_all ? s->tensor[s->n_tensors].name : NULL;
}
const char *st_meta(const struct st *s, const char *key) {
    return json_str(json_get(s->meta, key));
}
void st_drop(const struct st *s, uint64_t off, uint64_t len) {
    map_drop(&s->map, off, len);
}
void st_end(struct st *s) {
    map_detach(&s->map);
    for (int64_t i = 0; i < s->n_tensors; i++) s->tensor[i].data = NULL;
}
const uint8_t *st_header(const struct st *s, uint64_t *n_bytes) {
    *n_bytes = 8 + load_u64(s->map.data);
    return s->map.data;
}
uint64_t st_file_bytes(const struct st *s) {
    return s->map.size;
}

/* ---- values ---------------------------------------------------------------------------------- */

static float from_bool(const uint8_t *p) {
    return *p ? 1.0f : 0.0f;
}
static float from_u8(const uint8_t *p) {
    return (float)*p;
}
static float from_i8(const uint8_t *p) {
    return (float)(int8_t)*p;
}
static float from_e4m3(const uint8_t *p) {
    return fp_f8e4m3_to_f32(*p);
}
static float from_e5m2(const uint8_t *p) {
    return fp_f8e5m2_to_f32(*p);
}
static float from_e8m0(const uint8_t *p) {
    return fp_e8m0_to_f32(*p);
}
static float from_u16(const uint8_t *p) {
    return (float)load_u16(p);
}
static float from_i16(const uint8_t *p) {
    return (float)load_i16(p);
}
static float from_f16(const uint8_t *p) {
    return fp_f16_to_f32(load_u16(p));
}
static float from_bf16(const uint8_t *p) {
    return fp_bf16_to_f32(load_u16(p));
}
static float from_u32(const uint8_t *p) {
    return (float)load_u32(p);
}
static float from_i32(const uint8_t *p) {
    return (float)load_i32(p);
}
static float from_u64(const uint8_t *p) {
    return (float)load_u64(p);
}
static float from_i64(const uint8_t *p) {
    return (float)load_i64(p);
}
static float from_f64(const uint8_t *p) {
    return (float)load_f64(p);
}
/* The common types (F32, BF16, F16) have their own loops below. */
static float (*const convert[ST_COUNT])(const uint8_t *p) = {
    [ST_BOOL] = from_bool,    [ST_U8] = from_u8,        [ST_I8] = from_i8,
    [ST_F8_E4M3] = from_e4m3, [ST_F8_E5M2] = from_e5m2, [ST_F8_E8M0] = from_e8m0,
    [ST_U16] = from_u16,      [ST_I16] = from_i16,      [ST_F16] = from_f16,
    [ST_BF16] = from_bf16,    [ST_U32] = from_u32,      [ST_I32] = from_i32,
    [ST_U64] = from_u64,      [ST_I64] = from_i64,      [ST_F64] = from_f64,
};

int st_to_f32(const struct st_tensor *t, int64_t i, int64_t n, float *dst, struct err *e) {
    if (i < 0 || n < 0 || n > t->n_elems || i > t->n_elems - n)
        return err_set(e, ERR_DATA,
                       "tensor \"%s\" has %lld elements, %lld from %lld on were requested", t->name,
                       (long long)t->n_elems, (long long)n, (long long)i);
    if (n == 0) return 0;
    int size = dtypes[t->dtype].bytes;
    const uint8_t *p = t->data + (uint64_t)i * (uint64_t)size;
    if (t->dtype == ST_F32) {
        memcpy(dst, p, (size_t)n * sizeof *dst);
    } else if (t->dtype == ST_BF16) {
        for (int64_t k = 0; k < n; k++) dst[k] = fp_bf16_to_f32(load_u16(p + 2 * k));
    } else if (t->dtype == ST_F16) {
        for (int64_t k = 0; k < n; k++) dst[k] = fp_f16_to_f32(load_u16(p + 2 * k));
    } else {
        for (int64_t k = 0; k < n; k++) dst[k] = convert[t->dtype](p + (int64_t)size * k);
    }
    return 0;
}
