// SPDX-License-Identifier: MIT
/* tests/unit/ref_compare.h - compares a model folder converted to F32 with the output of the
 * reference converter (gguf-reference.json): every tensor's name, shape and SHA-256 and every
 * metadata key, type and value, in both directions. */
#ifndef HONE_TESTS_REF_COMPARE_H
#define HONE_TESTS_REF_COMPARE_H

#include <unistd.h>

#include "convert/convert.h"
#include "base/buf.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/json.h"
#include "tests/check.h"

static const char *reference_type(enum gguf_vtype t) {
    static const char *const name[GV_COUNT] = {
        "UINT8", "INT8",   "UINT16", "INT16",  "UINT32", "INT32",   "FLOAT32",
        "BOOL",  "STRING", "ARRAY",  "UINT64", "INT64",  "FLOAT64",
    };
    return name[t];
}

/* Writes a string like Python's json.dumps: ASCII only. The input is valid UTF-8. */
static void dump_str(struct buf *b, const char *s, size_t n) {
    buf_chr(b, '"');
    for (size_t i = 0; i < n;) {
        unsigned c = (unsigned char)s[i++];
        int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
        if (more) c &= 0x3fu >> more;
        for (; more > 0 && i < n; more--) c = c << 6 | ((unsigned char)s[i++] & 63u);
        if (c == '"' || c == '\\')
            buf_fmt(b, "\\%c", (int)c);
        else if (c == '\n')
            buf_str(b, "\\n");
        else if (c == '\r')
            buf_str(b, "\\r");
        else if (c == '\t')
            buf_str(b, "\\t");
        else if (c >= 0x20 && c < 0x7f)
            buf_chr(b, (char)c);
        else if (c < 0x10000)
            buf_fmt(b, "\\u%04x", c);
        else
            buf_fmt(b, "\\u%04x\\u%04x", 0xd800u + ((c - 0x10000) >> 10), 0xdc00u + (c & 0x3ffu));
    }
    buf_chr(b, '"');
}

static void dump_array(struct buf *b, const struct gguf_kv *kv) {
    const uint8_t *pos = kv->data;
    buf_chr(b, '[');
    for (uint64_t i = 0; i < kv->count; i++) {
        if (i) buf_str(b, ", ");
        if (kv->elem == GV_STR) {
            const char *s;
            uint64_t n;
            gguf_kv_str_next(kv, &pos, &s, &n);
            dump_str(b, s, (size_t)n);
        } else if (kv->elem == GV_F32) /* only whole numbers occur */
            buf_fmt(b, "%.1f", gguf_kv_f64(kv, i));
        else
            buf_fmt(b, "%" PRId64, gguf_kv_i64(kv, i));
    }
    buf_chr(b, ']');
}

static void check_array(const char *key, const struct gguf_kv *kv, const struct json *want) {
    const struct json *sum = json_get(want, "sha256_of_json");
    if (sum) {
        CHECK_EQ_I64(kv->count, json_num(json_get(want, "length"), -1));
        struct buf b = {0};
        dump_array(&b, kv);
        struct sha256 h;
        char hex[65];
        sha256_init(&h);
        sha256_add(&h, b.data, b.len);
        sha256_hex(&h, hex);
        if (strcmp(hex, json_str(sum)) != 0) CHECK_FAIL("%s: other contents", key);
        buf_release(&b);
        return;
    }
    CHECK_EQ_I64(kv->count, json_len(want));
    uint64_t i = 0;
    for (const struct json *v = json_first(want); v && i < kv->count; v = json_next(v), i++)
        if (gguf_kv_f64(kv, i) !=
            (json_type(v) == JSON_BOOL ? (double)json_bool(v, false) : json_num(v, (double)NAN)))
            CHECK_FAIL("%s[%d] differs", key, (int)i);
}

static void check_key(const struct gguf *g, const struct json *want) {
    const char *key = json_name(want);
    const struct gguf_kv *kv = gguf_find(g, key);
    struct err e;
    if (!kv) {
        CHECK_FAIL("key %s is missing", key);
        return;
    }
    const struct json *type = json_first(json_get(want, "type")), *v = json_get(want, "value");
    CHECK_EQ_STR(reference_type(kv->type), json_str(type));
    if (kv->type == GV_ARR) {
        CHECK_EQ_STR(reference_type(kv->elem), json_str(json_next(type)));
        check_array(key, kv, v);
    } else if (kv->type == GV_STR) {
        const char *s;
        CHECK_OK(gguf_get_str(g, key, &s, &e));
        CHECK_EQ_STR(s, json_str(v));
    } else if (kv->type == GV_BOOL)
        CHECK_EQ_I64(gguf_bool_or(g, key, false), json_bool(v, false));
    else if (gguf_kv_f64(kv, 0) != json_num(v, (double)NAN))
        CHECK_FAIL("%s is %.17g, expected %.17g", key, gguf_kv_f64(kv, 0),
                   json_num(v, (double)NAN));
}

static void check_tensor(const struct gguf *g, const struct json *want) {
    const char *name = json_name(want);
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    if (!t) {
        CHECK_FAIL("tensor %s is missing", name);
        return;
    }
    CHECK_EQ_STR(qtype_name(t->type), json_str(json_get(want, "type")));
    int d = 0;
    for (const struct json *ne = json_first(json_get(want, "ne")); ne; ne = json_next(ne), d++)
        if (d >= 4 || (double)t->ne[d] != json_num(ne, -1)) CHECK_FAIL("%s: other shape", name);
    CHECK_EQ_I64(t->n_dims, d);
    struct sha256 h;
    char hex[65];
    sha256_init(&h);
    sha256_add(&h, t->data, t->n_bytes);
    sha256_hex(&h, hex);
    if (strcmp(hex, json_str(json_get(want, "sha256"))) != 0) CHECK_FAIL("%s: other bytes", name);
}

/* Converts the folder tests/golden/models/<model>; removes the output again. */
static inline void ref_compare(const char *model, const char *arch, const char *out) {
    struct err e;
    char src[256], ref_path[512];
    snprintf(src, sizeof src, "tests/golden/models/%s", model);
    snprintf(ref_path, sizeof ref_path, "%s/gguf-reference.json", src);
    struct convert_opts o = {.src = src, .out = out, .type = "f32", .overwrite = true};
    struct convert_report r;
    struct json *ref = NULL;
    struct gguf *g = NULL;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(json_read(&ref, ref_path, 1 << 24, &e));
    CHECK_OK(gguf_open(&g, out, 0, &e));
    if (!ref || !g) goto out;
    CHECK_EQ_STR(r.arch, arch);
    CHECK_EQ_STR(r.type, "F32");
    CHECK_EQ_I64(r.n_tensors, json_num(json_get(ref, "tensor_count"), -1));
    CHECK_EQ_I64(gguf_n_tensors(g), json_len(json_get(ref, "tensors")));
    CHECK_EQ_I64(r.size_bytes, gguf_file_bytes(g));
    for (const struct json *t = json_first(json_get(ref, "tensors")); t; t = json_next(t))
        check_tensor(g, t);
    const struct json *meta = json_get(ref, "metadata");
    for (const struct json *k = json_first(meta); k; k = json_next(k)) check_key(g, k);
    /* values guessed from the folder's name are not recorded there (test_names.c) */
    static const char *const guessed[] = {"general.name", "general.size_label"};
    for (int64_t i = 0; i < gguf_n_kv(g); i++)
        if (!json_get(meta, gguf_kv_at(g, i)->key) &&
            strncmp(gguf_kv_at(g, i)->key, "hone.", 5) != 0 && /* keys that only hone writes */
            strcmp(gguf_kv_at(g, i)->key, guessed[0]) != 0 &&
            strcmp(gguf_kv_at(g, i)->key, guessed[1]) != 0)
            CHECK_FAIL("%s: key %s is not in the reference", model, gguf_kv_at(g, i)->key);
out:
    gguf_close(g);
    json_free(ref);
    unlink(out);
}

#endif
