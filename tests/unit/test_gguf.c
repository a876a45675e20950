// SPDX-License-Identifier: MIT
/* tests/unit/test_gguf.c - containers/gguf_*.c: every validation rule with a file that breaks it,
 * truncation at every byte, files of gguf-py, our writer, split sets. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/os.h"
#include "base/out.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

/* ---- building files ------------------------------------------------------------------ */

static void u32(struct buf *b, uint32_t v) {
    buf_add(b, &v, 4);
}
static void u64(struct buf *b, uint64_t v) {
    buf_add(b, &v, 8);
}
static void str(struct buf *b, const char *s) {
    u64(b, strlen(s));
    buf_add(b, s, strlen(s));
}
static void head(struct buf *b, uint64_t n_tensors, uint64_t n_kv) {
    buf_reset(b);
    buf_add(b, "GGUF", 4);
    u32(b, 3);
    u64(b, n_tensors);
    u64(b, n_kv);
}
static void kv_u32(struct buf *b, const char *key, uint32_t v) {
    str(b, key);
    u32(b, GV_U32);
    u32(b, v);
}
static void kv_str(struct buf *b, const char *key, const char *v) {
    str(b, key);
    u32(b, GV_STR);
    str(b, v);
}
static void kv_strs(struct buf *b, const char *key, int n, const char *const *v) {
    str(b, key);
    u32(b, GV_ARR);
    u32(b, GV_STR);
    u64(b, (uint64_t)n);
    for (int i = 0; i < n; i++) str(b, v[i]);
}
static void info(struct buf *b, const char *name, uint64_t ne0, uint32_t type, uint64_t off) {
    str(b, name);
    u32(b, 1);
    u64(b, ne0);
    u32(b, type);
    u64(b, off);
}
static void pad(struct buf *b, uint64_t extra) {
    while (b->len % 32) buf_chr(b, 0);
    for (uint64_t i = 0; i < extra; i++) buf_chr(b, 0);
}

static struct buf b;
static struct err e;

static int open_bytes(struct gguf **g, unsigned flags) {
    return gguf_open(g, tmp_write("x.gguf", b.data, b.len), flags, &e);
}
#define REFUSED(text)                                                                              \
    do {                                                                                           \
        struct gguf *g_ = NULL;                                                                    \
        CHECK_ERR(open_bytes(&g_, 0), ERR_DATA, text);                                             \
        CHECK(strstr(e.msg, "x.gguf") != NULL);                                                    \
        gguf_close(g_);                                                                            \
    } while (0)
#define ACCEPTED(flags)                                                                            \
    do {                                                                                           \
        struct gguf *g_ = NULL;                                                                    \
        CHECK_OK(open_bytes(&g_, flags));                                                          \
        gguf_close(g_);                                                                            \
    } while (0)

/* Two keys, two tensors (40 and 8 f32). */
static void small_file(void) {
    head(&b, 2, 3);
    kv_str(&b, "general.architecture", "qwen3");
    kv_u32(&b, "general.alignment", 32);
    kv_strs(&b, "t.list", 2, (const char *const[]){"ab", "c"});
    info(&b, "a", 40, QT_F32, 0);
    info(&b, "b", 8, QT_F32, 160);
    pad(&b, 192);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void test_header(void) {
    small_file();
    ACCEPTED(0);
    b.data[4] = 2;
    ACCEPTED(0);
    b.data[4] = 1;
    REFUSED("version 1");
    b.data[4] = 4;
    REFUSED("version 4");
    small_file();
    memcpy(b.data + 4, "\0\0\0\3", 4);
    REFUSED("big-endian");
    small_file();
    b.data[0] = 'X';
    REFUSED("not a GGUF file");
    head(&b, 1u << 21, 0);
    REFUSED("tensors");
    head(&b, 0, UINT64_MAX / 13);
    REFUSED("keys");
    head(&b, 5, 0);
    REFUSED("byte 8");
    head(&b, 0, 0);
    ACCEPTED(0);
    b.len = 0;
    REFUSED("");
    CHECK_ERR(gguf_open(&(struct gguf *){0}, tmp_path("absent.gguf"), 0, &e), e.code,
              "absent.gguf");
}

static void test_strings(void) {
    head(&b, 0, 1);
    u64(&b, UINT64_MAX);
    pad(&b, 64);
    REFUSED("a key at byte 24 claims 18446744073709551615 bytes");
    head(&b, 0, 1);
    u64(&b, 70000);
    pad(&b, 80000);
    REFUSED("limit is 65535");
    head(&b, 0, 1);
    kv_u32(&b, "", 1);
    REFUSED("empty");
    head(&b, 0, 1);
    u64(&b, 3);
    buf_add(&b, "a\0b", 3);
    u32(&b, GV_U8);
    pad(&b, 0);
    REFUSED("zero byte");
    head(&b, 0, 1);
    str(&b, "k");
    u32(&b, GV_STR);
    u64(&b, (64 << 20) + 1);
    pad(&b, 64);
    REFUSED("limit is 67108864");
}

static void test_values(void) {
    head(&b, 0, 1);
    str(&b, "k");
    u32(&b, 13);
    pad(&b, 0);
    REFUSED("type 13");
    head(&b, 0, 2);
    kv_u32(&b, "same.key", 1);
    kv_u32(&b, "same.key", 2);
    REFUSED("\"same.key\" occurs twice");
    CHECK(strstr(e.msg, "record 1 at byte 48") != NULL);
    static const struct {
        uint32_t elem;
        uint64_t n;
        const char *text;
    } arr[] = {
        {GV_ARR, 1, "arrays of arrays"},
        {13, 1, "element type 13"},
        {GV_U8, UINT64_MAX, "the limit is 1073741824"},
        {GV_U64, 1u << 29, "truncated"},
        {GV_STR, 1u << 20, "truncated"},
    };
    for (size_t i = 0; i < COUNT_OF(arr); i++) {
        head(&b, 0, 1);
        str(&b, "k");
        u32(&b, GV_ARR);
        u32(&b, arr[i].elem);
        u64(&b, arr[i].n);
        pad(&b, 64);
        REFUSED(arr[i].text);
    }
    head(&b, 0, 1);
    str(&b, "k");
    u32(&b, GV_ARR);
    u32(&b, GV_STR);
    u64(&b, 2);
    str(&b, "ok");
    u64(&b, 1000);
    REFUSED("array element 1");
}

static void test_alignment(void) {
    static const uint32_t bad[] = {0, 1, 4, 24, 33, 1u << 21, 0x80000000u};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        head(&b, 0, 1);
        kv_u32(&b, "general.alignment", bad[i]);
        REFUSED("power of two");
    }
    head(&b, 0, 1);
    str(&b, "general.alignment");
    u32(&b, GV_U64);
    u64(&b, 32);
    REFUSED("must be u32");
    head(&b, 1, 1);
    kv_u32(&b, "general.alignment", 8);
    info(&b, "a", 3, QT_F32, 0);
    while (b.len % 8) buf_chr(&b, 0);
    for (int i = 0; i < 12; i++) buf_chr(&b, 0); /* no final padding */
    ACCEPTED(0);
}

static void one_tensor(uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t off) {
    head(&b, 1, 0);
    str(&b, "tensor");
    u32(&b, n_dims);
    for (uint32_t d = 0; d < n_dims && d < 8; d++) u64(&b, ne[d]);
    u32(&b, type);
    u64(&b, off);
    pad(&b, 256);
}

static void test_shapes(void) {
    static const struct {
        uint32_t n_dims;
        uint64_t ne[8];
        uint32_t type;
        uint64_t off;
        const char *text;
    } bad[] = {
        {0, {0}, QT_F32, 0, "0 dimensions"},
        {5, {1, 1, 1, 1, 1}, QT_F32, 0, "5 dimensions"},
        {0xffffffffu, {1, 1, 1, 1, 1}, QT_F32, 0, "dimensions"},
        {2, {4, 0}, QT_F32, 0, "dimension 1 is 0"},
        {1, {UINT64_MAX}, QT_F32, 0, "dimension 0 is -1"},
        {4, {1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16}, QT_F32, 0, "overflows"},
        {1, {1ull << 62}, QT_F64, 0, "overflows"},
        {1, {32}, 4, 0, "type 4"},
        {1, {32}, 33, 0, "type 33"},
        {1, {32}, 43, 0, "type 43"},
        {1, {32}, 0xffffffffu, 0, "type -1"},
        {1, {256}, 139, 0, "ik_llama.cpp"},
        {1, {33}, QT_Q8_0, 0, "cannot be divided into Q8_0 blocks of 32"},
        {1, {32}, QT_F32, 7, "not a multiple of the alignment"},
        {1, {32}, QT_F32, 32, "packed data would put it at 0"},
        {1, {32}, QT_F32, UINT64_MAX - 31, "overflows"},
        {1, {1000}, QT_F32, 0, "truncated"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        one_tensor(bad[i].n_dims, bad[i].ne, bad[i].type, bad[i].off);
        REFUSED(bad[i].text);
        CHECK(strstr(e.msg, "\"tensor\"") != NULL);
        CHECK(strstr(e.msg, "record 0") != NULL);
    }
    one_tensor(1, (const uint64_t[]){32}, QT_F32, 32);
    ACCEPTED(GGUF_TOLERANT);
}

static void test_names(void) {
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    head(&b, 1, 0);
    info(&b, name, 1, QT_F32, 0);
    pad(&b, 32);
    REFUSED("limit is 63");
    head(&b, 1, 0);
    info(&b, name + 1, 1, QT_F32, 0);
    pad(&b, 32);
    ACCEPTED(0);
    head(&b, 1, 0);
    info(&b, "", 1, QT_F32, 0);
    pad(&b, 32);
    REFUSED("name is empty");
    head(&b, 1, 0);
    u64(&b, 3);
    buf_add(&b, "a\0\033", 3);
    u32(&b, 1);
    u64(&b, 1);
    u32(&b, 0);
    u64(&b, 0);
    pad(&b, 32);
    REFUSED("\"a??\" holds a zero byte");
    head(&b, 2, 0);
    info(&b, "twin", 8, QT_F32, 0);
    info(&b, "twin", 8, QT_F32, 32);
    pad(&b, 64);
    REFUSED("\"twin\" occurs twice");
}

static void test_tolerant_overlap(void) {
    struct gguf *g;
    head(&b, 2, 0);
    info(&b, "second", 8, QT_F32, 32);
    info(&b, "first", 8, QT_F32, 0);
    pad(&b, 64);
    REFUSED("packed");
    ACCEPTED(GGUF_TOLERANT);
    head(&b, 2, 0);
    info(&b, "one", 16, QT_F32, 0);
    info(&b, "two", 8, QT_F32, 32);
    pad(&b, 64);
    CHECK_ERR(open_bytes(&g, GGUF_TOLERANT), ERR_DATA, "overlap");
}

static void test_every_truncation(void) {
    small_file();
    size_t n = b.len;
    for (size_t cut = 0; cut < n; cut++) {
        struct gguf *g;
        e.msg[0] = 0;
        int rc = gguf_open(&g, tmp_write("cut.gguf", b.data, cut), 0, &e);
        if (rc != ERR_DATA || g || !e.msg[0]) CHECK_FAIL("cut at %zu: code %d, %s", cut, rc, e.msg);
        gguf_close(g);
    }
}

/* Changes every single byte: there must be no crash (run under sanitizers), and every file that
 * opens must be readable. */
static void test_every_byte_changed(void) {
    static const unsigned char vals[] = {0x00, 0x01, 0x09, 0x7f, 0x80, 0xff};
    small_file();
    for (size_t i = 0; i < b.len; i++) {
        char was = b.data[i];
        for (size_t v = 0; v < COUNT_OF(vals); v++) {
            struct gguf *g;
            b.data[i] = (char)vals[v];
            if (open_bytes(&g, v & 1 ? GGUF_TOLERANT : 0) == 0) {
                for (int64_t t = 0; t < gguf_n_tensors(g); t++)
                    (void)gguf_check_data(g, gguf_tensor_at(g, t), &e);
                (void)gguf_check_tokenizer(g, &e);
                gguf_close(g);
            }
        }
        b.data[i] = was;
    }
}

/* Checks that time is linear in the number of keys: 200 000 take a moment, not minutes. */
static void test_many_keys(void) {
    char key[16];
    struct gguf *g;
    head(&b, 0, 200000);
    for (int i = 0; i < 200000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        str(&b, key);
        u32(&b, GV_BOOL);
        buf_chr(&b, 1);
    }
    CHECK_OK(open_bytes(&g, 0));
    CHECK_EQ_I64(gguf_n_kv(g), 200000);
    CHECK(gguf_bool_or(g, "k199999", false));
    struct gguf_w *w = gguf_w_new(); /* and so is writing them */
    for (int64_t i = 0; i < gguf_n_kv(g); i++) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    CHECK(gguf_w_total_bytes(w) >= gguf_file_bytes(g));
    gguf_w_free(w);
    gguf_close(g);
}

/* ---- tokenizer and data ---------------------------------------------------------------------- */

struct tok {
    const char *model, *dup, *merge;
    int n_types, n_scores, types_vtype;
    uint32_t eos, suppress;
};
static void tok_file(struct tok t) {
    static const char *const base[] = {"a", "b", "ab", "!"};
    const char *tokens[] = {base[0], base[1], base[2], t.dup ? t.dup : base[3]};
    head(&b, 0, 7);
    kv_str(&b, "tokenizer.ggml.model", t.model ? t.model : "gpt2");
    kv_strs(&b, "tokenizer.ggml.tokens", 4, tokens);
    str(&b, "tokenizer.ggml.token_type");
    u32(&b, GV_ARR);
    u32(&b, t.types_vtype ? (uint32_t)t.types_vtype : GV_I32);
    u64(&b, (uint64_t)t.n_types);
    for (int i = 0; i < t.n_types; i++) u32(&b, 1);
    str(&b, "tokenizer.ggml.scores");
    u32(&b, GV_ARR);
    u32(&b, GV_F32);
    u64(&b, (uint64_t)t.n_scores);
    for (int i = 0; i < t.n_scores; i++) u32(&b, 0);
    kv_strs(&b, "tokenizer.ggml.merges", 1, &t.merge);
    kv_u32(&b, "tokenizer.ggml.eos_token_id", t.eos);
    str(&b, "tokenizer.ggml.suppress_tokens");
    u32(&b, GV_ARR);
    u32(&b, GV_I32);
    u64(&b, 1);
    u32(&b, t.suppress);
}
static int check_tok(struct tok t) {
    struct gguf *g;
    tok_file(t);
    if (open_bytes(&g, 0)) return -1;
    int rc = gguf_check_tokenizer(g, &e);
    gguf_close(g);
    return rc;
}
static void test_tokenizer(void) {
    const struct tok ok = {.merge = "a b", .n_types = 4, .n_scores = 4, .eos = 3};
    struct tok t = ok;
    struct gguf *g;
    CHECK_OK(check_tok(ok));
    t.dup = "ab";
    CHECK_ERR(check_tok(t), ERR_DATA, "tokens 2 and 3 have the same text");
    t = ok;
    t.n_types = 3;
    CHECK_ERR(check_tok(t), ERR_DATA, "3 elements for 4 tokens");
    t = ok;
    t.types_vtype = GV_U32; /* as MLX's save_gguf() writes them */
    CHECK_OK(check_tok(t));
    t.types_vtype = GV_F32;
    CHECK_ERR(check_tok(t), ERR_DATA, "token_type\" is not an array of i32");
    t = ok;
    t.n_scores = 5;
    CHECK_ERR(check_tok(t), ERR_DATA, "scores");
    t = ok;
    t.eos = 4;
    CHECK_ERR(check_tok(t), ERR_DATA, "eos_token_id\" is 4, there are 4 tokens");
    t = ok;
    t.suppress = 0xffffffffu;
    CHECK_ERR(check_tok(t), ERR_DATA, "names token -1");
    t = ok;
    t.merge = " ab";
    CHECK_ERR(check_tok(t), ERR_DATA, "merge 0");
    t.model = "none";
    CHECK_OK(check_tok(t));
    head(&b, 0, 1);
    kv_str(&b, "tokenizer.ggml.model", "llama");
    CHECK_OK(open_bytes(&g, 0));
    CHECK_ERR(gguf_check_tokenizer(g, &e), ERR_DATA, "tokens\" is missing");
    gguf_close(g);
    head(&b, 0, 2);
    kv_str(&b, "tokenizer.ggml.model", "gpt2");
    kv_strs(&b, "tokenizer.ggml.tokens", 1, (const char *const[]){"a"});
    CHECK_OK(open_bytes(&g, 0));
    CHECK_ERR(gguf_check_tokenizer(g, &e), ERR_DATA, "merges\" is missing");
    gguf_close(g);
    head(&b, 0, 0);
    CHECK_OK(open_bytes(&g, 0));
    CHECK_OK(gguf_check_tokenizer(g, &e));
    gguf_close(g);
}

/* Checks one block of `type` with `bytes` at offset `at` and zeros elsewhere. */
static int check_block(enum qtype type, size_t at, const void *bytes, size_t n) {
    const struct qtype_info *qi = qtype_info((int64_t)type);
    struct gguf *g;
    head(&b, 1, 0);
    info(&b, "w", (uint64_t)qi->block_elems * 2, (uint32_t)type, 0);
    pad(&b, 0);
    size_t start = b.len;
    pad(&b, (uint64_t)qi->block_bytes * 2);
    memcpy(b.data + start + (size_t)qi->block_bytes + at, bytes, n);
    if (open_bytes(&g, 0)) return -1;
    int rc = gguf_check_data(g, gguf_tensor_at(g, 0), &e);
    gguf_close(g);
    return rc;
}
static void test_data(void) {
    static const unsigned char inf16[] = {0x00, 0x7c}, nan16[] = {0x01, 0xfe},
                               big16[] = {0xff, 0x7b};
    static const unsigned char nan32[] = {0, 0, 0xc0, 0x7f}, e8[] = {255}, e4[] = {0x7f};
    static const unsigned char iq1m[] = {0, 0, 0, 0, 0, 0xc0, 0, 0x70}; /* super scale 0x7c00 */
    static const unsigned char iq1m_ok[] = {0xff, 0x0f, 0xff, 0x0f, 0xff, 0x0f, 0xff, 0x0f};
    CHECK_ERR(check_block(QT_F32, 0, nan32, 4), ERR_DATA, "NaN or infinity at element 1");
    CHECK_ERR(check_block(QT_BF16, 0, nan32 + 2, 2), ERR_DATA, "element 1");
    CHECK_ERR(check_block(QT_F16, 0, inf16, 2), ERR_DATA, "element 1");
    CHECK_OK(check_block(QT_F16, 0, big16, 2));
    CHECK_ERR(check_block(QT_Q8_0, 0, nan16, 2), ERR_DATA,
              "a block scale is NaN or infinity at element 32");
    CHECK_OK(check_block(QT_Q8_0, 2, nan16, 2)); /* not the scale */
    CHECK_ERR(check_block(QT_Q4_1, 2, inf16, 2), ERR_DATA, "element 32");
    CHECK_ERR(check_block(QT_Q4_K, 0, inf16, 2), ERR_DATA, "element 256");
    CHECK_ERR(check_block(QT_Q4_K, 2, inf16, 2), ERR_DATA, "element 256");
    CHECK_OK(check_block(QT_Q4_K, 4, inf16, 2));
    CHECK_ERR(check_block(QT_Q6_K, 208, inf16, 2), ERR_DATA, "element 256");
    CHECK_ERR(check_block(QT_Q3_K, 108, inf16, 2), ERR_DATA, "element 256");
    CHECK_ERR(check_block(QT_Q2_K, 80, inf16, 2), ERR_DATA, "element 256");
    CHECK_ERR(check_block(QT_Q2_K, 82, inf16, 2), ERR_DATA, "element 256");
    CHECK_ERR(check_block(QT_MXFP4, 0, e8, 1), ERR_DATA, "element 32");
    CHECK_ERR(check_block(QT_NVFP4, 3, e4, 1), ERR_DATA, "element 64");
    CHECK_ERR(check_block(QT_IQ1_M, 48, iq1m, 8), ERR_DATA, "element 256");
    CHECK_OK(check_block(QT_IQ1_M, 48, iq1m_ok, 8));
}

/* ---- reading what gguf-py wrote -------------------------------------------------------------- */

static void test_gguf_py_file(void) {
    struct gguf *g;
    uint64_t u = 0;
    double d = 0;
    bool t = false;
    const char *s = "";
    CHECK_OK(gguf_open(&g, "tests/golden/containers/py.gguf", 0, &e));
    if (!g) return;
    CHECK_EQ_I64(gguf_version(g), 3);
    CHECK_EQ_I64(gguf_n_tensors(g), 3);
    CHECK_EQ_STR(gguf_str_or(g, "general.architecture", ""), "qwen3");
    CHECK_EQ_STR(gguf_str_or(g, "t.str", ""), "h\xc3\xa9llo");
    CHECK_OK(gguf_get_u64(g, "t.u8", &u, &e));
    CHECK_EQ_I64(u, 200);
    CHECK_OK(gguf_get_u64(g, "t.u64", &u, &e));
    CHECK(u == 0x8000000000000005ull);
    CHECK_OK(gguf_get_u64(g, "t.u32", &u, &e));
    CHECK_EQ_I64(u, 4000000000);
    CHECK_ERR(gguf_get_u64(g, "t.i8", &u, &e), ERR_DATA, "must not be negative");
    CHECK_ERR(gguf_get_u64(g, "t.f32", &u, &e), ERR_DATA, "is of type f32, expected an integer");
    CHECK_ERR(gguf_get_str(g, "t.none", &s, &e), ERR_DATA, "\"t.none\" is missing");
    CHECK_EQ_I64(gguf_kv_i64(gguf_find(g, "t.i8"), 0), -100);
    CHECK_EQ_I64(gguf_kv_i64(gguf_find(g, "t.i16"), 0), -30000);
    CHECK_EQ_I64(gguf_kv_i64(gguf_find(g, "t.i32"), 0), -2000000000);
    CHECK_EQ_I64(gguf_kv_i64(gguf_find(g, "t.i64"), 0), -(1ll << 62));
    CHECK_OK(gguf_get_f64(g, "t.f32", &d, &e));
    CHECK(d == 1.5);
    CHECK_OK(gguf_get_f64(g, "t.f64", &d, &e));
    CHECK(d == 0.1);
    CHECK_OK(gguf_get_bool(g, "t.bool", &t, &e));
    CHECK(t);
    CHECK_EQ_I64(gguf_u64_or(g, "t.str", 7), 7);
    const struct gguf_kv *kv = gguf_find(g, "t.arr_i32");
    CHECK(kv && kv->type == GV_ARR && kv->elem == GV_I32 && kv->count == 3);
    CHECK_EQ_I64(gguf_kv_i64(kv, 1), -2);
    CHECK(gguf_kv_f64(gguf_find(g, "t.arr_f32"), 1) == 0.25);
    kv = gguf_find(g, "t.arr_str");
    const uint8_t *pos = kv->data;
    static const char *const want[] = {"a", "", "b c"};
    for (int i = 0; i < 3; i++) {
        uint64_t len;
        gguf_kv_str_next(kv, &pos, &s, &len);
        CHECK(len == strlen(want[i]) && memcmp(s, want[i], len) == 0);
    }
    const struct gguf_tensor *q = gguf_find_tensor(g, "blk.0.attn_q.weight");
    CHECK(q && q->n_dims == 2 && q->ne[0] == 32 && q->ne[1] == 2 && q->ne[2] == 1);
    float v;
    memcpy(&v, q->data + 4 * 63, 4);
    CHECK(v == 63.0f);
    q = gguf_find_tensor(g, "output.weight");
    CHECK(q && q->type == QT_Q8_0 && q->n_bytes == 102 && q->data[2] == 0x81); /* -1 -> -127 */
    CHECK(gguf_find_tensor(g, "output") == NULL);
    gguf_close(g);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int64_t add_tensors(struct gguf_w *w) {
    CHECK_OK(gguf_w_tensor(w, "token_embd.weight", QT_F16, 2, (const int64_t[]){32, 3}, &e));
    CHECK_OK(gguf_w_tensor(w, "a", QT_F32, 1, (const int64_t[]){5}, &e));
    CHECK_OK(gguf_w_tensor(w, "q", QT_Q4_K, 2, (const int64_t[]){256, 2}, &e));
    return 32 * 3 * 2 + 20 + 288;
}
static struct gguf_w *sample_writer(void) {
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "llama");
    gguf_w_u32(w, "x.u32", 1);
    gguf_w_u32(w, "x.gone", 1);
    gguf_w_f32(w, "x.f32", 0.5f);
    gguf_w_arr_str(w, "x.strs", (const char *const[]){"one", "", "three"}, 3);
    gguf_w_arr(w, "x.i32s", GV_I32, (const int32_t[]){1, -1}, 2);
    gguf_w_u32(w, "x.u32", 77);
    gguf_w_remove(w, "x.gone");
    gguf_w_f32(w, "x.f32", 0.5f);
    gguf_w_int(w, "split.no", GV_U16, 9); /* written by the writer itself */
    return w;
}
static void bytes_of(uint8_t *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) p[i] = (uint8_t)(i * 7 % 251);
}
static void check_sample(const struct gguf *g) {
    const struct gguf_tensor *t = gguf_find_tensor(g, "q");
    uint8_t want[500];
    bytes_of(want, 500);
    CHECK_EQ_I64(gguf_n_tensors(g), 3);
    CHECK_EQ_I64(gguf_u64_or(g, "x.u32", 0), 77);
    CHECK(gguf_find(g, "x.gone") == NULL);
    CHECK_EQ_I64(gguf_find(g, "x.strs")->count, 3);
    CHECK(t && t->ne[1] == 2 && t->n_bytes == 288);
    CHECK(memcmp(t->data, want + 212, 288) == 0);
    CHECK(memcmp(gguf_find_tensor(g, "a")->data, want + 192, 20) == 0);
}

static void test_write(void) {
    struct gguf_w *w = sample_writer();
    struct gguf *g;
    int64_t n = add_tensors(w);
    uint8_t data[500];
    const char *path = tmp_path("w.gguf");
    char cmd[128];
    bytes_of(data, n);
    uint64_t total = gguf_w_total_bytes(w), size = 0;
    CHECK_OK(gguf_w_begin(w, path, false, &e));
    CHECK(!io_exists(path));
    for (int64_t i = 0; i < n; i += 100) /* pieces that straddle tensors */
        CHECK_OK(gguf_w_data(w, data + i, (uint64_t)(n - i < 100 ? n - i : 100), &e));
    CHECK_ERR(gguf_w_data(w, data, 1, &e), ERR_USAGE, "after the last tensor");
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(io_file_size(path, &size, &e));
    CHECK_EQ_I64(size, total);
    CHECK_OK(gguf_open(&g, path, 0, &e));
    check_sample(g);
    CHECK(gguf_find(g, "split.no") == NULL);
    CHECK_EQ_STR(gguf_kv_at(g, 0)->key, "general.architecture");
    gguf_close(g);

    w = gguf_w_new(); /* refuses to overwrite; leaves no files */
    CHECK_ERR(gguf_w_begin(w, path, false, &e), ERR_USAGE, "w.gguf");
    gguf_w_free(w);
    w = sample_writer();
    add_tensors(w);
    CHECK_OK(gguf_w_begin(w, tmp_path("part.gguf"), false, &e));
    CHECK_OK(gguf_w_data(w, data, 200, &e));
    CHECK_ERR(gguf_w_commit(w, &e), ERR_USAGE, "\"a\" got 8 of 20 bytes");
    gguf_w_free(w);
    CHECK(!io_exists(tmp_path("part.gguf")));
    snprintf(cmd, sizeof cmd, "ls %s | grep -c tmp- >/dev/null", tmp_dir);
    CHECK(system(cmd) != 0); /* no temporary file is left */
}

/* Checks that temporaries of killed processes, even for different models, are removed when the same
 * output is written again, but not files that are being written or belong to a running process or a
 * user. No process has the number 4199999, which exceeds the maximum on Linux. */
static void test_old_temporaries(void) {
    char own[64];
    snprintf(own, sizeof own, "p.gguf.tmp-%ld-0", (long)getpid());
    const struct {
        const char *name;
        bool stays, locked;
    } row[] = {{"o.gguf.tmp-4199999-0", false, false},
               {"o.gguf.tmp-1-12", false, false},
               {"p.gguf.tmp-4199999-0", false, false},
               {"p-00001-of-00002.gguf.tmp-4199999-0", false, false},
               {"o.gguf.tmp-4199999-1", true, true},
               {"p.gguf.tmp-4199999-1", true, true},
               {"q.gguf.moments.tmp-4199999-0", false, false},
               {"q.gguf.moments", true, false},
               {"o.gguf.tmp-notes-1", true, false},
               {"o.gguf.tmp-4199999-", true, false},
               {"notes.txt.tmp-4199999-0", true, false},
               {"p.gguf.tmp-4199999-0.txt", true, false},
               {own, true, false}};
    int fd[COUNT_OF(row)];
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        fd[i] = os_open(tmp_path(row[i].name), OS_READ | OS_WRITE | OS_CREATE, 0666);
        CHECK(fd[i] >= 0 && os_write(fd[i], "x", 1) == 1);
        if (row[i].locked)
            CHECK(os_lock(fd[i], true) == 0);
        else
            CHECK(os_close(fd[i]) == 0);
    }
    CHECK_OK(out_write_file(tmp_path("o.gguf"), "y", 1, true, &e));
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        if (io_exists(tmp_path(row[i].name)) != row[i].stays) CHECK_FAIL("%s", row[i].name);
        if (row[i].locked) os_close(fd[i]);
        (void)unlink(tmp_path(row[i].name));
    }
}

/* Compares a small file with bytes composed manually. */
static void test_written_bytes(void) {
    struct gguf_w *w = gguf_w_new();
    float v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    char *got = NULL;
    size_t len = 0;
    gguf_w_str(w, "general.architecture", "qwen3");
    gguf_w_u32(w, "general.alignment", 32);
    gguf_w_arr_str(w, "t.list", (const char *const[]){"ab", "c"}, 2);
    CHECK_OK(gguf_w_tensor(w, "a", QT_F32, 1, (const int64_t[]){8}, &e));
    CHECK_OK(gguf_w_begin(w, tmp_path("b.gguf"), true, &e));
    CHECK_OK(gguf_w_data(w, v, sizeof v, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    head(&b, 1, 3);
    kv_str(&b, "general.architecture", "qwen3");
    kv_u32(&b, "general.alignment", 32);
    kv_strs(&b, "t.list", 2, (const char *const[]){"ab", "c"});
    info(&b, "a", 8, QT_F32, 0);
    pad(&b, 0);
    buf_add(&b, v, sizeof v);
    CHECK_OK(io_read_file(&got, &len, tmp_path("b.gguf"), 1 << 20, &e));
    CHECK(len == b.len && memcmp(got, b.data, len) == 0);
    free(got);
}

static void test_writer_refuses(void) {
    struct gguf_w *w = gguf_w_new();
    char name[70];
    memset(name, 'x', 69);
    name[69] = 0;
    CHECK_ERR(gguf_w_tensor(w, name, QT_F32, 1, (const int64_t[]){1}, &e), ERR_DATA, "1 to 63");
    CHECK_ERR(gguf_w_tensor(w, "t", QT_F32, 0, (const int64_t[]){1}, &e), ERR_DATA, "0 dimensions");
    CHECK_ERR(gguf_w_tensor(w, "t", QT_F32, 5, (const int64_t[]){1}, &e), ERR_DATA, "5 dimensions");
    CHECK_ERR(gguf_w_tensor(w, "t", QT_F32, 1, (const int64_t[]){0}, &e), ERR_DATA, "dimension 0");
    CHECK_ERR(gguf_w_tensor(w, "t", QT_Q4_K, 1, (const int64_t[]){32}, &e), ERR_DATA, "Q4_K");
    CHECK_OK(gguf_w_tensor(w, "t", QT_F32, 1, (const int64_t[]){1}, &e));
    CHECK_ERR(gguf_w_tensor(w, "t", QT_F32, 1, (const int64_t[]){1}, &e), ERR_DATA, "twice");
    gguf_w_str(w, "", "x");
    CHECK_ERR(gguf_w_begin(w, tmp_path("no.gguf"), false, &e), ERR_DATA, "1 to 65535 bytes");
    gguf_w_free(w);
    w = gguf_w_new();
    gguf_w_u32(w, "general.alignment", 48);
    CHECK_ERR(gguf_w_begin(w, tmp_path("no.gguf"), false, &e), ERR_DATA, "power of two");
    gguf_w_free(w);
    gguf_w_free(NULL);
}

/* Checks that keys of another file are copied unchanged, whatever their type. */
static void test_copy_kv(void) {
    struct gguf *a, *c;
    struct gguf_w *w = gguf_w_new();
    CHECK_OK(gguf_open(&a, "tests/golden/containers/py.gguf", 0, &e));
    for (int64_t i = 0; i < gguf_n_kv(a); i++) gguf_w_copy_kv(w, gguf_kv_at(a, i));
    CHECK_OK(gguf_w_begin(w, tmp_path("copy.gguf"), true, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&c, tmp_path("copy.gguf"), 0, &e));
    CHECK_EQ_I64(gguf_n_kv(c), gguf_n_kv(a));
    for (int64_t i = 0; i < gguf_n_kv(a); i++) {
        const struct gguf_kv *x = gguf_kv_at(a, i), *y = gguf_find(c, x->key);
        CHECK(y && x->type == y->type && x->elem == y->elem && x->count == y->count &&
              x->n_bytes == y->n_bytes && memcmp(x->data, y->data, x->n_bytes) == 0);
    }
    gguf_close(a);
    gguf_close(c);
}

/* ---- split sets ------------------------------------------------------------------------------ */

static void test_split_names(void) {
    int i = -1, n = -1;
    size_t len = 0;
    char *s = gguf_split_name("dir/M.gguf", 0, 3);
    CHECK_EQ_STR(s, "dir/M-00001-of-00003.gguf");
    free(s);
    s = gguf_split_name("dir/M-00001-of-00003.gguf", 2, 3);
    CHECK_EQ_STR(s, "dir/M-00003-of-00003.gguf");
    free(s);
    CHECK(gguf_split_parse("d/M-00002-of-00003.gguf", &i, &n, &len) && i == 1 && n == 3 &&
          len == 3);
    CHECK(!gguf_split_parse("M-00004-of-00003.gguf", &i, &n, &len));
    CHECK(!gguf_split_parse("M-00000-of-00003.gguf", &i, &n, &len));
    CHECK(!gguf_split_parse("M-0001-of-0003.gguf", &i, &n, &len));
    CHECK(!gguf_split_parse("-00001-of-00003.gguf", &i, &n, &len));
    CHECK(!gguf_split_parse("M.gguf", &i, &n, &len));
}

static void write_set(const char *name, uint64_t max, bool meta_first) {
    struct gguf_w *w = sample_writer();
    int64_t n = add_tensors(w);
    uint8_t data[500];
    bytes_of(data, n);
    gguf_w_split(w, max, meta_first);
    CHECK_OK(gguf_w_begin(w, tmp_path(name), true, &e));
    CHECK_OK(gguf_w_data(w, data, (uint64_t)n, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

static void test_split_set(void) {
    struct gguf *g;
    write_set("S.gguf", 256, false); /* 192 + 32, then 288 */
    CHECK_OK(gguf_open(&g, tmp_path("S-00001-of-00002.gguf"), 0, &e));
    CHECK_EQ_I64(gguf_n_shards(g), 2);
    check_sample(g);
    CHECK_EQ_I64(gguf_find(g, "split.no")->type, GV_U16);
    CHECK_EQ_I64(gguf_find(g, "split.tensors.count")->type, GV_I32);
    CHECK_EQ_I64(gguf_find_tensor(g, "q")->shard, 1);
    gguf_drop(g, gguf_find_tensor(g, "q"));
    gguf_close(g);
    CHECK_OK(gguf_open(&g, tmp_path("S-00001-of-00002.gguf"), GGUF_ONE_FILE, &e));
    CHECK_EQ_I64(gguf_n_tensors(g), 2);
    gguf_close(g);
    CHECK_ERR(gguf_open(&g, tmp_path("S-00002-of-00002.gguf"), 0, &e), ERR_DATA,
              "S-00001-of-00002.gguf");
    write_set("F.gguf", 0, true);
    CHECK_OK(gguf_open(&g, tmp_path("F-00001-of-00002.gguf"), 0, &e));
    CHECK_EQ_I64(gguf_find_tensor(g, "a")->shard, 1);
    check_sample(g);
    gguf_close(g);
    write_set("One.gguf", 1 << 20, false); /* fits into one file: no set */
    CHECK_OK(gguf_open(&g, tmp_path("One.gguf"), 0, &e));
    CHECK(gguf_find(g, "split.count") == NULL);
    gguf_close(g);
}

static void rename_tmp(const char *a, const char *to) {
    if (rename(tmp_path(a), tmp_path(to))) perror(a);
}
static void split_shard(const char *file, uint16_t no, uint16_t count, uint32_t total,
                        const char *tensor) {
    head(&b, 1, 3);
    str(&b, "split.no");
    u32(&b, GV_U16);
    buf_add(&b, &no, 2);
    str(&b, "split.count");
    u32(&b, GV_U16);
    buf_add(&b, &count, 2);
    str(&b, "split.tensors.count");
    u32(&b, GV_I32);
    u32(&b, total);
    info(&b, tensor, 8, QT_F32, 0);
    pad(&b, 32);
    tmp_write(file, b.data, b.len);
}
static void test_split_defects(void) {
    struct gguf *g;
    const char *first = "P-00001-of-00002.gguf", *second = "P-00002-of-00002.gguf";
    split_shard(first, 0, 2, 2, "a");
    split_shard(second, 1, 2, 2, "b");
    CHECK_OK(gguf_open(&g, tmp_path(first), 0, &e));
    gguf_close(g);
    split_shard(second, 1, 2, 2, "a");
    CHECK_ERR(gguf_open(&g, tmp_path(first), 0, &e), ERR_DATA, "\"a\" occurs twice");
    split_shard(second, 0, 2, 2, "b");
    CHECK_ERR(gguf_open(&g, tmp_path(first), 0, &e), ERR_DATA, "but is named shard 2 of 2");
    split_shard(second, 1, 3, 2, "b");
    CHECK_ERR(gguf_open(&g, tmp_path(first), 0, &e), ERR_DATA, "a set of 3 files");
    split_shard(second, 1, 2, 2, "b");
    split_shard(first, 0, 2, 5, "a");
    CHECK_ERR(gguf_open(&g, tmp_path(first), 0, &e), ERR_DATA, "should have 5 tensors");
    split_shard(first, 0, 2, 2, "a");
    rename_tmp(second, "away.gguf");
    CHECK_ERR(gguf_open(&g, tmp_path(first), 0, &e), ERR_DATA,
              "P-00002-of-00002.gguf: shard 2 of 2");
    rename_tmp(first, "odd.gguf");
    CHECK_ERR(gguf_open(&g, tmp_path("odd.gguf"), 0, &e), ERR_DATA, "name");
    head(&b, 0, 1); /* split.count has the wrong type */
    kv_str(&b, "split.count", "2");
    CHECK_ERR(open_bytes(&g, 0), ERR_DATA, "split.count");
}

int main(void) {
    tmp_make();
    RUN(test_header);
    RUN(test_strings);
    RUN(test_values);
    RUN(test_alignment);
    RUN(test_shapes);
    RUN(test_names);
    RUN(test_tolerant_overlap);
    RUN(test_every_truncation);
    RUN(test_every_byte_changed);
    RUN(test_many_keys);
    RUN(test_tokenizer);
    RUN(test_data);
    RUN(test_gguf_py_file);
    RUN(test_write);
    RUN(test_old_temporaries);
    RUN(test_written_bytes);
    RUN(test_writer_refuses);
    RUN(test_copy_kv);
    RUN(test_split_names);
    RUN(test_split_set);
    RUN(test_split_defects);
    buf_release(&b);
    tmp_remove();
    return check_done();
}
