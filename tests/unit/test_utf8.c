// SPDX-License-Identifier: MIT
/* tests/unit/test_utf8.c - well-formed UTF-8 (Unicode 15, table 3-7) and NFC (examples of UAX
 * 15). */
#include "text/utf8.h"

#include "base/attr.h"
#include "tests/check.h"

static void test_every_code_point(void) {
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char s[4];
        uint32_t back = 0;
        if (c == 0xd800) c = 0xe000;
        size_t len = utf8_encode(c, s);
        size_t want = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        if (len != want || utf8_decode(s, len, &back) != len || back != c ||
            (len > 1 && utf8_decode(s, len - 1, &back) != 0)) {
            CHECK_FAIL("U+%04X", c);
            return;
        }
    }
    char s[4];
    CHECK(utf8_encode(0xd800, s) == 3 && memcmp(s, "\xef\xbf\xbd", 3) == 0);
    CHECK(utf8_encode(0x110000, s) == 3 && memcmp(s, "\xef\xbf\xbd", 3) == 0);
}

static void test_refused_forms(void) {
    static const char *const bad[] = {
        "\x80",         "\xbf",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x80\x80",
        "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",     "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",
        "\xf5\x80\x80", "\xff",         "\xf4\x90\x80\x80", "\xe2\x82",         "\xf0\x9f\x98",
        "\xc3(",        "\xe2(\xa1",    "\xf8\x88\x80\x80",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint32_t cp;
        char s[32] = "0123456789abcdef";
        memcpy(s + 16, bad[i], strlen(bad[i]) + 1);
        if (utf8_decode(bad[i], strlen(bad[i]), &cp) != 0) CHECK_FAIL("form %zu taken", i);
        CHECK_EQ_I64(utf8_valid_prefix(s, strlen(s)), 16);
    }
    CHECK_EQ_I64(utf8_valid_prefix("a\0b", 3), 3);
    CHECK_EQ_I64(utf8_valid_prefix("", 0), 0);
}

static void test_nfc(void) {
    static const char *const pair[][2] = {
        {"plain ASCII", "plain ASCII"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"cafe\xcc\x81", "caf\xc3\xa9"},                                /* e + acute */
        {"\xe2\x84\xab", "\xc3\x85"},                                   /* Angstrom sign */
        {"A\xcc\x8a-A\xcc\x8a", "\xc3\x85-\xc3\x85"},                   /* twice */
        {"\xe1\xba\x9b\xcc\xa3", "\xe1\xba\x9b\xcc\xa3"},               /* U+1E9B U+0323 */
        {"s\xcc\xa3\xcc\x87", "\xe1\xb9\xa9"},                          /* U+1E69 */
        {"s\xcc\x87\xcc\xa3", "\xe1\xb9\xa9"},                          /* reordered first */
        {"\xef\xac\x81", "\xef\xac\x81"},                               /* ligature stays */
        {"\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"},       /* Hangul L V T */
        {"\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc"},       /* excluded */
        {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"},                   /* and decomposed */
        {"\xcc\x81x", "\xcc\x81x"},                                     /* mark without a base */
        {"x\xe2\x80\x9cy\xe2\x80\x9dz", "x\xe2\x80\x9cy\xe2\x80\x9dz"}, /* runs keep their order */
        {"a\xcc\x81\xe2\x84\xab"
         "b\xcc\x81",
         "\xc3\xa1\xc3\x85"
         "b\xcc\x81"},
    };
    for (size_t i = 0; i < COUNT_OF(pair); i++) {
        struct buf b = {0};
        utf8_nfc(&b, pair[i][0], strlen(pair[i][0]));
        CHECK_EQ_STR(b.data, pair[i][1]);
        buf_release(&b);
    }
    struct buf b = {0};
    utf8_nfc(&b, "e\0\xcc\x81", 4); /* U+0000 is an ordinary character */
    CHECK(b.len == 4 && memcmp(b.data, "e\0\xcc\x81", 4) == 0);
    buf_release(&b);
}

int main(void) {
    RUN(test_every_code_point);
    RUN(test_refused_forms);
    RUN(test_nfc);
    return check_done();
}
