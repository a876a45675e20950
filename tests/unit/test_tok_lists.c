// SPDX-License-Identifier: MIT
/* tests/unit/test_tok_lists.c - the tokenizer.ggml.* keys made from a Hugging Face folder equal
 * those of the reference converter (gguf-reference.json): same keys, types and values. It records
 * lists as the SHA-256 of their JSON text as written by Python's json.dumps. */
#include "tests/unit/test_tok_common.h"

#include "base/hash.h"
#include "text/utf8.h"

#define PREFIX "tokenizer.ggml."

/* Writes a string like json.dumps with default options: everything except printable ASCII is
 * escaped. */
static void dump_str(struct buf *b, const char *s, size_t n) {
    static const char plain[] = "\"\\\n\r\t\b\f", letter[] = "\"\\nrtbf";
    buf_chr(b, '"');
    while (n > 0) {
        uint32_t cp = 0;
        size_t len = utf8_decode(s, n, &cp);
        if (len == 0) len = 1;
        const char *k = cp ? strchr(plain, (int)cp) : NULL;
        if (cp < 0x80 && k)
            buf_fmt(b, "\\%c", letter[k - plain]);
        else if (cp >= 0x20 && cp < 0x80)
            buf_chr(b, (char)cp);
        else if (cp < 0x10000)
            buf_fmt(b, "\\u%04x", cp);
        else
            buf_fmt(b, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                    0xdc00 + ((cp - 0x10000) & 0x3ff));
        s += len;
        n -= len;
    }
    buf_chr(b, '"');
}

static void dump_list(struct buf *b, const struct gguf_kv *kv) {
    const uint8_t *pos = kv->data;
    buf_chr(b, '[');
    for (uint64_t i = 0; i < kv->count; i++) {
        const char *s;
        uint64_t len;
        if (i) buf_str(b, ", ");
        if (kv->elem == GV_STR) {
            gguf_kv_str_next(kv, &pos, &s, &len);
            dump_str(b, s, (size_t)len);
        } else if (kv->elem == GV_F32)
            buf_fmt(b, "%.1f", gguf_kv_f64(kv, i));
        else
            buf_fmt(b, "%" PRId64, gguf_kv_i64(kv, i));
    }
    buf_chr(b, ']');
}

static void check_list(const char *what, const struct gguf_kv *kv, const struct json *value) {
    int64_t n = -1;
    struct buf b = {0};
    struct sha256 sha;
    char hex[65];
    json_i64(json_get(value, "length"), &n);
    if (kv->type != GV_ARR || (int64_t)kv->count != n) {
        CHECK_FAIL("%s: %" PRIu64 " entries, expected %" PRId64, what, kv->count, n);
        return;
    }
    dump_list(&b, kv);
    sha256_init(&sha);
    sha256_add(&sha, b.data, b.len);
    sha256_hex(&sha, hex);
    const char *want = json_str(json_get(value, "sha256_of_json"));
    if (!want || strcmp(hex, want) != 0) CHECK_FAIL("%s: list differs", what);
    buf_release(&b);
}

static const char *type_name(enum gguf_vtype t) {
    return t == GV_STR    ? "STRING"
           : t == GV_BOOL ? "BOOL"
           : t == GV_U32  ? "UINT32"
           : t == GV_I32  ? "INT32"
           : t == GV_F32  ? "FLOAT32"
           : t == GV_ARR  ? "ARRAY"
                          : "?";
}

static void check_key(const char *model, const struct gguf *g, const struct json *want) {
    const char *key = json_name(want);
    const struct gguf_kv *kv = gguf_find(g, key);
    const struct json *type = json_first(json_get(want, "type")), *value = json_get(want, "value");
    struct err e = {0};
    char what[160];
    snprintf(what, sizeof what, "%s %s", model, key);
    if (!kv) {
        CHECK_FAIL("%s: missing", what);
        return;
    }
    CHECK_EQ_STR(type_name(kv->type), json_str(type));
    if (kv->type == GV_ARR) {
        CHECK_EQ_STR(type_name(kv->elem), json_str(json_next(type)));
        check_list(what, kv, value);
    } else if (kv->type == GV_STR) {
        const char *s = NULL;
        CHECK_OK(gguf_get_str(g, key, &s, &e));
        CHECK_EQ_STR(s, json_str(value));
    } else if (kv->type == GV_BOOL) {
        bool v = false;
        CHECK_OK(gguf_get_bool(g, key, &v, &e));
        CHECK_EQ_I64(v, json_bool(value, !v));
    } else
        CHECK_EQ_I64(gguf_kv_i64(kv, 0), (int64_t)json_num(value, -1));
}

static void check_model(const char *model) {
    struct err e = {0};
    char path[256], tmp[] = "/tmp/hone-test-lists-XXXXXX";
    struct json *ref = NULL;
    struct gguf *g = NULL;
    struct tok *t = tok_of_folder(model);
    int fd = mkstemp(tmp);
    if (!t || fd < 0) return;
    close(fd);
    snprintf(path, sizeof path, MODELS "%s/gguf-reference.json", model);
    CHECK_OK(json_read(&ref, path, 1 << 26, &e));
    struct gguf_w *w = gguf_w_new();
    tok_to_gguf(t, w);
    gguf_w_str(w, "general.architecture", "none");
    CHECK_OK(gguf_w_begin(w, tmp, true, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    CHECK_OK(gguf_open(&g, tmp, 0, &e));
    int n_want = 0, n_got = 0;
    const struct json *c = json_first(json_get(ref, "metadata"));
    for (; g && c; c = json_next(c)) {
        if (strncmp(json_name(c), PREFIX, sizeof PREFIX - 1) != 0) continue;
        n_want++;
        check_key(model, g, c);
    }
    for (int64_t i = 0; g && i < gguf_n_kv(g); i++)
        n_got += strncmp(gguf_kv_at(g, i)->key, PREFIX, sizeof PREFIX - 1) == 0;
    CHECK(n_want >= 8);
    CHECK_EQ_I64(n_got, n_want);
    gguf_close(g);
    gguf_w_free(w);
    unlink(tmp);
    json_free(ref);
    tok_free(t);
}

static void test_reference_keys(void) {
    static const char *const models[] = {"qwen35moe", "qwen35",  "qwen3",
                                         "qwen3moe",  "mistral", "gemma4moe"};
    for (size_t i = 0; i < COUNT_OF(models); i++) check_model(models[i]);
}

int main(void) {
    RUN(test_reference_keys);
    return check_done();
}
