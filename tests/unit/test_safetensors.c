// SPDX-License-Identifier: MIT
/* tests/unit/test_safetensors.c - containers/safetensors.c: a file of the safetensors package,
 * every rule with a file that breaks it, truncation at every byte. */
#include "base/buf.h"
#include "base/num.h"
#include "containers/safetensors.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct buf b;
static struct err e;

/* Writes a file with this header text and n_data zero bytes. */
static const char *make(const char *header, size_t n_data) {
    uint64_t n = strlen(header);
    buf_reset(&b);
    buf_add(&b, &n, 8);
    buf_str(&b, header);
    for (size_t i = 0; i < n_data; i++) buf_chr(&b, 0);
    return tmp_write("x.safetensors", b.data, b.len);
}
static int try_open(const char *header, size_t n_data) {
    struct st *s;
    int rc = st_open(&s, make(header, n_data), &e);
    if (rc && s) return -1;
    st_close(s);
    return rc;
}

static const struct st_tensor *find(const struct st *s, const char *name) {
    for (int64_t i = 0; i < st_n_tensors(s); i++)
        if (strcmp(st_tensor_at(s, i)->name, name) == 0) return st_tensor_at(s, i);
    return NULL;
}

static void test_python_file(void) {
    struct st *s;
    float v[4];
    CHECK_OK(st_open(&s, "tests/golden/containers/py.safetensors", &e));
    if (!s) return;
    CHECK_EQ_I64(st_n_tensors(s), 6);
    CHECK_EQ_STR(st_meta(s, "format"), "pt");
    CHECK(st_meta(s, "none") == NULL);
    CHECK(st_is_empty(s, "f.empty") && !st_is_empty(s, "a.f32") && !st_is_empty(s, "nope"));
    const struct st_tensor *t = find(s, "a.f32");
    CHECK(t && t->dtype == ST_F32 && t->n_dims == 2 && t->shape[0] == 2 && t->n_bytes == 16);
    CHECK_OK(st_to_f32(t, 0, 4, v, &e));
    CHECK(v[0] == 1.0f && v[1] == -2.5f && v[2] == 3.25f && v[3] == 4e-3f);
    CHECK_OK(st_to_f32(t, 3, 1, v, &e));
    CHECK(v[0] == 4e-3f);
    CHECK_ERR(st_to_f32(t, 3, 2, v, &e), ERR_DATA, "has 4 elements");
    CHECK_OK(st_to_f32(find(s, "b.f16"), 0, 3, v, &e));
    CHECK(v[0] == 1.5f && v[1] == -0.0625f && v[2] == 65504.0f);
    CHECK_OK(st_to_f32(find(s, "c.i64"), 0, 2, v, &e));
    CHECK(v[0] == -7.0f && v[1] == 9.0f);
    CHECK_OK(st_to_f32(find(s, "d.u8"), 0, 3, v, &e));
    CHECK(v[1] == 255.0f);
    t = find(s, "e.scalar");
    CHECK(t && t->n_dims == 0 && t->n_elems == 1);
    CHECK_OK(st_to_f32(t, 0, 1, v, &e));
    CHECK(v[0] == 42.0f);
    CHECK_OK(st_to_f32(find(s, "g.bool"), 0, 2, v, &e));
    CHECK(v[0] == 1.0f && v[1] == 0.0f);
    st_close(s);
}

/* Checks values by the definition of each small format. */
static void test_small_floats(void) {
    static const struct {
        const char *dtype;
        unsigned char byte[2];
        size_t n;
        float want;
    } c[] = {
        {"BF16", {0x80, 0xbf}, 2, -1.0f},   {"F8_E4M3", {0x7e}, 1, 448.0f},
        {"F8_E4M3", {0x01}, 1, 0x1p-9f},    {"F8_E5M2", {0x7b}, 1, 57344.0f},
        {"F8_E8M0", {0x80}, 1, 2.0f},       {"I8", {0x80}, 1, -128.0f},
        {"U16", {0xff, 0xff}, 2, 65535.0f}, {"I16", {0xff, 0xff}, 2, -1.0f},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        char h[128];
        struct st *s;
        float v = 0;
        snprintf(h, sizeof h, "{\"t\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,%zu]}}",
                 c[i].dtype, c[i].n);
        make(h, c[i].n);
        memcpy(b.data + b.len - c[i].n, c[i].byte, c[i].n);
        CHECK_OK(st_open(&s, tmp_write("f.safetensors", b.data, b.len), &e));
        CHECK_OK(st_to_f32(st_tensor_at(s, 0), 0, 1, &v, &e));
        if (v != c[i].want)
            CHECK_FAIL("%s: %g, expected %g", c[i].dtype, (double)v, (double)c[i].want);
        st_close(s);
    }
}

#define T(name, dtype, shape, from, to)                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to   \
    "]}"

static void test_accepts(void) {
    CHECK_OK(try_open("{}", 0));
    CHECK_OK(try_open("{}        ", 0));
    CHECK_OK(try_open("{" T("a", "F32", "[2]", 0, 8) "," T("b", "U8", "[3]", 8, 11) "}", 11));
    CHECK_OK(try_open("{" T("b", "U8", "[3]", 8, 11) "," T("a", "F32", "[2]", 0, 8) "}", 11));
    CHECK_OK(try_open("{" T("a", "F32", "[1,1,1,1,1,1,1,2]", 0, 8) "}", 8));
    CHECK_OK(try_open("{" T("z", "F32", "[0,9]", 4, 4) "," T("a", "F32", "[]", 0, 4) "}", 4));
}

static void test_refuses(void) {
    static const struct {
        const char *header;
        size_t n_data;
        const char *text;
    } bad[] = {
        {"[]", 0, "does not begin with '{'"},
        {"{\"a\":1}", 0, "not an object"},
        {"{\"a\":", 0, "safetensors header"},
        {"{" T("a", "F32", "[1]", 0, 4) "," T("a", "F32", "[1]", 4, 8) "}", 8, "a"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "missing"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "\"dtype\""},
        {"{" T("a", "F4", "[1]", 0, 4) "}", 4, "\"F4\" is not supported"},
        {"{" T("a", "f32", "[1]", 0, 4) "}", 4, "not supported"},
        {"{" T("a", "F32", "7", 0, 4) "}", 4, "\"shape\" is not an array"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "more than 8"},
        {"{" T("a", "F32", "[-1]", 0, 4) "}", 4, "dimension 0"},
        {"{" T("a", "F32", "[1.5]", 0, 6) "}", 6, "dimension 0"},
        {"{" T("a", "F32", "[1.0]", 0, 4) "}", 4, "dimension 0"},
        {"{" T("a", "F32", "[\"1\"]", 0, 4) "}", 4, "dimension 0"},
        {"{" T("a", "F32", "[281474976710657]", 0, 4) "}", 4, "2^48"},
        {"{" T("a", "U8", "[281474976710656,281474976710656]", 0, 4) "}", 4, "overflows"},
        {"{" T("a", "U8", "[16777216,16777216,65536,128]", 0, 0) "}", 0, "overflows"},
        {"{" T("a", "F64", "[16777216,16777216,16384,1]", 0, 0) "}", 0, "size in bytes overflows"},
        {"{" T("a", "F32", "[2]", 0, 4) "}", 4, "4 bytes of data, but its shape and dtype need 8"},
        {"{" T("a", "F32", "[1]", 4, 0) "}", 4, "increasing"},
        {"{" T("a", "F32", "[1]", -4, 0) "}", 4, "increasing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "pair"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "pair"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9007199254740993,"
         "9007199254740994]}}",
         1, "pair"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1.0]}}", 1, "pair"},
        {"{" T("a", "F32", "[1]", 4, 8) "}", 8, "a hole"},
        {"{" T("a", "F32", "[1]", 0, 4) "," T("b", "F32", "[0]", 2, 2) "}", 4, "inside another"},
        {"{" T("a", "F32", "[1]", 0, 4) "," T("b", "F32", "[0]", 100, 100) "}", 4,
         "inside another"},
        {"{" T("a", "F32", "[1]", 0, 4) "," T("b", "F32", "[1]", 8, 12) "}", 12, "a hole"},
        {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[1]", 4, 8) "}", 8, "an overlap"},
        {"{" T("a", "F32", "[1]", 0, 4) "}", 5, "describes only"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":0}}", 1,
         "unknown member \"x\""},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"},
        {"{" T("", "U8", "[1]", 0, 1) "}", 1, "empty name"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK_ERR(try_open(bad[i].header, bad[i].n_data), ERR_DATA, bad[i].text);
        CHECK(strstr(e.msg, "x.safetensors") != NULL);
    }
}

static void test_truncated_says_sizes(void) {
    const char *h = "{" T("a", "F32", "[100]", 0, 400) "}";
    char want[128];
    snprintf(want, sizeof want,
             "truncated: %zu bytes, but its header describes %zu; download it again",
             8 + strlen(h) + 10, 8 + strlen(h) + 400);
    CHECK_ERR(try_open(h, 10), ERR_DATA, want);
}

/* Tests header lengths whose bytes equal the first bytes of a pickle or a zip file. */
static void test_header_like_a_pickle(void) {
    static const int length[] = {0x280, 0x4b50};
    static char h[0x4b51];
    for (int i = 0; i < 2; i++) {
        snprintf(h, sizeof h, "%-*s", length[i], "{" T("a", "F32", "[1]", 0, 4) "}");
        CHECK_OK(try_open(h, 4));
    }
}

static void test_other_files(void) {
    struct st *s;
    const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    CHECK_ERR(st_open(&s, tmp_write("a", lfs, sizeof lfs - 1), &e), ERR_DATA, "Git LFS pointer");
    CHECK_ERR(st_open(&s, tmp_write("a", "PK\3\4 and more bytes", 16), &e), ERR_DATA, "pickled");
    CHECK_ERR(st_open(&s, tmp_write("a", "\x80\x02 and more bytes", 16), &e), ERR_DATA, "pickled");
    CHECK_ERR(st_open(&s, tmp_write("a", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), &e), ERR_DATA,
              "header of 18446744073709551615 bytes");
    CHECK_ERR(st_open(&s, tmp_write("a", "", 0), &e), ERR_DATA, "truncated");
    CHECK_ERR(st_open(&s, tmp_path("nowhere"), &e), ERR_USAGE, "nowhere");
    CHECK(s == NULL);
}

static void test_every_truncation(void) {
    make("{" T("a", "F32", "[2]", 0, 8) "," T("b", "U8", "[3]", 8, 11) "}", 11);
    for (size_t cut = 0; cut < b.len; cut++) {
        struct st *s;
        int rc = st_open(&s, tmp_write("cut", b.data, cut), &e);
        if (rc != ERR_DATA || s) CHECK_FAIL("cut at %zu: code %d", cut, rc);
    }
}

static void test_every_byte_changed(void) {
    static const char vals[] = {0, '0', '9', '"', '{', '}', '[', ',', '\\', (char)0xff};
    make("{" T("a", "F32", "[2]", 0, 8) "," T("b", "U8", "[3]", 8, 11) "}", 11);
    for (size_t i = 0; i < b.len; i++) {
        char was = b.data[i];
        for (size_t v = 0; v < COUNT_OF(vals); v++) {
            struct st *s;
            float f[8];
            b.data[i] = vals[v];
            if (st_open(&s, tmp_write("chg", b.data, b.len), &e)) continue;
            for (int64_t t = 0; t < st_n_tensors(s); t++)
                CHECK_OK(st_to_f32(st_tensor_at(s, t), 0, min_i64(st_tensor_at(s, t)->n_elems, 8),
                                   f, &e));
            st_close(s);
        }
        b.data[i] = was;
    }
}

int main(void) {
    tmp_make();
    RUN(test_python_file);
    RUN(test_small_floats);
    RUN(test_accepts);
    RUN(test_refuses);
    RUN(test_truncated_says_sizes);
    RUN(test_header_like_a_pickle);
    RUN(test_other_files);
    RUN(test_every_truncation);
    RUN(test_every_byte_changed);
    buf_release(&b);
    tmp_remove();
    return check_done();
}
