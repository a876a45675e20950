// SPDX-License-Identifier: MIT
/* containers/gguf_kv.c - typed access to metadata values. Values are unaligned views into the map,
 * so they are loaded with memcpy. If the type is wrong, a getter returns an error that names the
 * actual and the expected type. */
#include <math.h>

#include "base/bytes.h"
#include "containers/gguf.h"
#include "base/str.h"

static bool is_int(enum gguf_vtype t) {
    return t == GV_U8 || t == GV_I8 || t == GV_U16 || t == GV_I16 || t == GV_U32 || t == GV_I32 ||
           t == GV_U64 || t == GV_I64;
}

/* Sets and returns the error for a missing key. */
static int fail_absent(const struct gguf *g, const char *key, struct err *e) {
    return err_set(e, ERR_DATA, "%s: key \"%s\" is missing", gguf_path(g), key);
}
/* Sets and returns the error for a key whose type is not `want`. */
static int wrong_type(const struct gguf *g, const struct gguf_kv *kv, const char *want,
                      struct err *e) {
    return err_set(e, ERR_DATA, "%s: key \"%s\" is of type %s, expected %s", gguf_path(g), kv->key,
                   gguf_vtype_name(kv->type), want);
}

int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *v, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return fail_absent(g, key, e);
    if (!is_int(kv->type)) return wrong_type(g, kv, "an integer", e);
    int64_t x = gguf_kv_i64(kv, 0);
    if (x < 0 && kv->type != GV_U64)
        return err_set(e, ERR_DATA, "%s: key \"%s\" is %lld, but it must not be negative",
                       gguf_path(g), key, (long long)x);
    *v = (uint64_t)x;
    return 0;
}
int gguf_get_f64(const struct gguf *g, const char *key, double *v, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return fail_absent(g, key, e);
    if (kv->type != GV_F32 && kv->type != GV_F64) return wrong_type(g, kv, "f32 or f64", e);
    *v = gguf_kv_f64(kv, 0);
    return 0;
}
int gguf_get_bool(const struct gguf *g, const char *key, bool *v, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return fail_absent(g, key, e);
    if (kv->type != GV_BOOL) return wrong_type(g, kv, "bool", e);
    *v = kv->data[0] != 0;
    return 0;
}
int gguf_get_str(const struct gguf *g, const char *key, const char **s, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return fail_absent(g, key, e);
    if (kv->type != GV_STR) return wrong_type(g, kv, "str", e);
    *s = gguf_kv_text(g, kv);
    return 0;
}

int gguf_opt_u64(const struct gguf *g, const char *key, uint64_t *v, struct err *e) {
    return gguf_find(g, key) ? gguf_get_u64(g, key, v, e) : 0;
}
int gguf_opt_f64(const struct gguf *g, const char *key, double *v, struct err *e) {
    return gguf_find(g, key) ? gguf_get_f64(g, key, v, e) : 0;
}
int gguf_opt_bool(const struct gguf *g, const char *key, bool *v, struct err *e) {
    return gguf_find(g, key) ? gguf_get_bool(g, key, v, e) : 0;
}

uint64_t gguf_u64_or(const struct gguf *g, const char *key, uint64_t otherwise) {
    struct err e;
    uint64_t v = 0;
    return gguf_get_u64(g, key, &v, &e) ? otherwise : v;
}
double gguf_f64_or(const struct gguf *g, const char *key, double otherwise) {
    struct err e;
    double v = 0;
    return gguf_get_f64(g, key, &v, &e) ? otherwise : v;
}
bool gguf_bool_or(const struct gguf *g, const char *key, bool otherwise) {
    struct err e;
    bool v = false;
    return gguf_get_bool(g, key, &v, &e) ? otherwise : v;
}
const char *gguf_str_or(const struct gguf *g, const char *key, const char *otherwise) {
    struct err e;
    const char *s = NULL;
    return gguf_get_str(g, key, &s, &e) ? otherwise : s;
}

int gguf_chat_template(const struct gguf *g, const char **text, struct err *e) {
    static const char key[] = "tokenizer.chat_template";
    const struct gguf_kv *kv = gguf_find(g, key);
    *text = gguf_str_or(g, key, NULL);
    if (!*text || !str_no_nul((const char *)kv->data, (size_t)kv->count, key, e)) return 0;
    return err_wrap(e, "%s", gguf_path(g));
}

int64_t gguf_kv_i64(const struct gguf_kv *kv, uint64_t i) {
    const uint8_t *p = kv->data + i * (uint64_t)gguf_vtype_bytes(kv->elem);
    switch (kv->elem) {
    case GV_U8:
        return *p;
    case GV_I8:
        return (int8_t)*p;
    case GV_BOOL:
        return *p != 0;
    case GV_U16:
        return load_u16(p);
    case GV_I16:
        return load_i16(p);
    case GV_U32:
        return load_u32(p);
    case GV_I32:
        return load_i32(p);
    case GV_U64:
        return (int64_t)load_u64(p);
    case GV_I64:
        return load_i64(p);
    case GV_F32:
    case GV_F64: {
        double v = gguf_kv_f64(kv, i);
        return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : 0; /* NaN becomes 0 */
    }
    case GV_STR:
    case GV_ARR:
    case GV_COUNT:
        break;
    }
    return 0;
}

double gguf_kv_f64(const struct gguf_kv *kv, uint64_t i) {
    const uint8_t *p = kv->data + i * (uint64_t)gguf_vtype_bytes(kv->elem);
    if (kv->elem == GV_F32) return (double)load_f32(p);
    if (kv->elem == GV_F64) return load_f64(p);
    if (kv->elem == GV_U64) return (double)load_u64(p);
    return (double)gguf_kv_i64(kv, i);
}

void gguf_kv_str_next(const struct gguf_kv *kv, const uint8_t **pos, const char **s,
                      uint64_t *len) {
    (void)kv; /* lengths were checked at open */
    *len = load_u64(*pos);
    *s = (const char *)*pos + 8;
    *pos += 8 + *len;
}
