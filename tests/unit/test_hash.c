// SPDX-License-Identifier: MIT
/* tests/unit/test_hash.c - published vectors (FIPS 180-4, xxHash's specification) and the map. */
#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "tests/check.h"

static const char *sha_of(const char *s, size_t n) {
    static char hex[65];
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, s, n);
    sha256_hex(&h, hex);
    return hex;
}

static void test_sha256_vectors(void) {
    CHECK_EQ_STR(sha_of("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_EQ_STR(sha_of("abc", 3),
                 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_EQ_STR(sha_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *a = xmalloc(1000000);
    memset(a, 'a', 1000000);
    CHECK_EQ_STR(sha_of(a, 1000000),
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    /* the same for every way of splitting it */
    for (size_t step = 1; step < 200; step += 7) {
        struct sha256 h;
        char hex[65];
        sha256_init(&h);
        for (size_t i = 0; i < 1000; i += step)
            sha256_add(&h, a + i, 1000 - i < step ? 1000 - i : step);
        sha256_hex(&h, hex);
        CHECK_EQ_STR(hex, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
    }
    free(a);
}

static void test_sha256_file(void) {
    struct err e = {0};
    char hex[65];
    CHECK_ERR(sha256_file("no/such/file", hex, &e), ERR_USAGE, "no/such/file");
    const char *path = "tests/golden/models/tokens.json"; /* streaming and mapping agree */
    char *text;
    size_t len;
    CHECK_OK(io_read_file(&text, &len, path, 1 << 24, &e));
    CHECK_OK(sha256_file(path, hex, &e));
    CHECK(text && strcmp(sha_of(text, len), hex) == 0);
    free(text);
}

static void test_xxhash_vectors(void) {
    CHECK(hash_u64("", 0) == 0xef46db3751d8e999u);
    CHECK(hash_u64("abc", 3) == 0x44bc2cf5ad770999u);
    CHECK(hash_u64(NULL, 0) == 0xef46db3751d8e999u);
    char hex[33];
    hash_xxh128_hex(hex, "", 0);
    CHECK_EQ_STR(hex, "99aa06d3014798d86001c324468d497f");
}

/* Tests input in pieces. Expected value: the Python package xxhash. */
static void test_xxh128_pieces(void) {
    enum { N = 100000 };
    uint8_t *d = xmalloc(N);
    for (int i = 0; i < N; i++) d[i] = (uint8_t)((i * 131 + 7) % 251);
    struct xxh128 *x = xxh128_new();
    char hex[33];
    xxh128_hex(x, hex);
    CHECK_EQ_STR(hex, "99aa06d3014798d86001c324468d497f"); /* of nothing */
    for (size_t step = 1; step < N; step *= 7) {
        xxh128_reset(x);
        for (size_t at = 0; at < N; at += step)
            xxh128_add(x, d + at, N - at < step ? N - at : step);
        xxh128_hex(x, hex);
        CHECK_EQ_STR(hex, "0af6b8609f8d1f2ed61c58ce093c4ea0");
    }
    xxh128_free(x);
    xxh128_free(NULL);
    free(d);
}

static void test_map(void) {
    enum { N = 50000 };
    struct strmap *m = strmap_new(0);
    char(*key)[16] = xmalloc(N * sizeof *key);
    for (int i = 0; i < N; i++) {
        snprintf(key[i], sizeof key[i], "k%d", i * 7);
        if (!strmap_add(m, key[i], strlen(key[i]), i)) CHECK_FAIL("%s is new", key[i]);
    }
    CHECK(!strmap_add(m, "k7", 2, 99));
    for (int i = 0; i < N; i++)
        if (strmap_get(m, key[i], strlen(key[i])) != i) CHECK_FAIL("%s", key[i]);
    CHECK_EQ_I64(strmap_get(m, "k7", 2), 1);
    CHECK_EQ_I64(strmap_get(m, "k8", 2), -1);
    CHECK_EQ_I64(strmap_get(m, "", 0), -1);
    CHECK(strmap_add(m, "", 0, 5));
    CHECK(!strmap_add(m, NULL, 0, 6));
    CHECK_EQ_I64(strmap_get(m, NULL, 0), 5);
    CHECK(strmap_add(m, "a\0b", 3, 1) && strmap_add(m, "a\0c", 3, 2)); /* bytes, not C strings */
    CHECK_EQ_I64(strmap_get(m, "a\0c", 3), 2);
    strmap_free(m);
    strmap_free(NULL);
    free(key);
}

int main(void) {
    RUN(test_sha256_vectors);
    RUN(test_sha256_file);
    RUN(test_xxhash_vectors);
    RUN(test_xxh128_pieces);
    RUN(test_map);
    return check_done();
}
