// SPDX-License-Identifier: MIT
/* tests/unit/test_textfile.c - text/textfile.c: accepted texts, and files that are rejected before
 * a job spends hours on them. */
#include "text/textfile.h"
#include "base/log.h"
#include "base/rng.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct err e;
#define TEXT(s) text_check(s, sizeof(s) - 1, "x.txt", &e)

static void test_texts(void) {
    CHECK_OK(TEXT(""));
    CHECK_OK(TEXT("plain words\n"));
    CHECK_OK(TEXT("GGUF is a format; BZh, PK and PAR1 are the first letters of others"));
    CHECK_OK(TEXT("{\"messages\": []}\n"));
    CHECK_OK(TEXT("\xef\xbb\xbfwith a byte-order mark"));
    CHECK_OK(TEXT("\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82, \xe4\xbd\xa0\xe5\xa5\xbd"));
}

static void test_formats(void) {
    CHECK_ERR(TEXT("GGUF\3\0\0\0"), ERR_DATA, "x.txt is a GGUF file");
    CHECK_ERR(TEXT("hone_kld\1\0\0\0"), ERR_DATA, "--base-file");
    CHECK_ERR(TEXT("PK\3\4\n\0"), ERR_DATA, "ZIP");
    CHECK_ERR(TEXT("%PDF-1.7 text only"), ERR_DATA, "PDF");
    CHECK_ERR(TEXT("\x1f\x8b\x08"), ERR_DATA, "gzip twice");
    CHECK_ERR(TEXT("\x28\xb5\x2f\xfd...."), ERR_DATA, "zstd");
    CHECK_ERR(TEXT("PAR1\x15\0"), ERR_DATA, "Parquet");
    CHECK_ERR(TEXT("\x10\0\0\0\0\0\0\0{\"a\":1}"), ERR_DATA, "safetensors");
    CHECK_ERR(TEXT("\xff\xfeT\0e\0x\0t\0"), ERR_DATA, "iconv -f UTF-16");
    CHECK_ERR(TEXT("T\0e\0x\0t\0"), ERR_DATA, "byte 1 is NUL");
    CHECK_ERR(TEXT("\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0"), ERR_DATA, "iconv -f NAME");
    CHECK_ERR(text_check("GGUF\0", 5, "-", &e), ERR_DATA, "standard input is a GGUF file");
    CHECK_ERR(text_check_file("tests/unit", &e), ERR_USAGE, "not a regular file");
    CHECK_ERR(text_check_file("no/such.txt", &e), ERR_USAGE, "no/such.txt");
    CHECK_OK(text_check_file("-", &e)); /* can be read only once, so not now */
}

/* Tests that a byte order mark is skipped at the beginning of a text and kept elsewhere. */
static void test_mark(void) {
    static const struct {
        const char *file, *text;
    } c[] = {{"\xef\xbb\xbf{\"a\": 1}\n", "{\"a\": 1}\n"},
             {"\xef\xbb\xbf", ""},
             {"a\xef\xbb\xbf", "a\xef\xbb\xbf"},
             {"", ""}};
    tmp_make();
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char *out = NULL;
        size_t len = 99;
        CHECK_OK(text_read_file(&out, &len, tmp_write("mark", c[i].file, strlen(c[i].file)), &e));
        CHECK_EQ_I64((int64_t)len, (int64_t)strlen(c[i].text));
        CHECK_EQ_STR(out, c[i].text);
        free(out);
    }
    tmp_remove();
}

/* Tests random bytes without NUL, nearly none of which begins a character. */
static void test_random(void) {
    char b[4000];
    struct rng r;
    rng_seed(&r, 1);
    for (size_t i = 0; i < sizeof b; i++) b[i] = (char)(1 + (int)(rng_unit(&r) * 255));
    CHECK_ERR(text_check(b, sizeof b, "x", &e), ERR_DATA, "not UTF-8 text");
}

/* Tests texts that are mostly ASCII: without a UTF-8 character beyond it, they are in another
 * encoding; otherwise they are damaged, and read. */
static void test_encodings(void) {
    CHECK_ERR(TEXT("A caf\xe9 is a place where people drink coffee."), ERR_DATA,
              "byte 5 is 0xe9, and 1 of its first 44 bytes are invalid");
    CHECK_OK(TEXT("A caf\xc3\xa9 is a place where people drink coff\xe9."));
}

int main(void) {
    log_set_level(LOG_ERROR);
    RUN(test_texts);
    RUN(test_formats);
    RUN(test_mark);
    RUN(test_random);
    RUN(test_encodings);
    return check_done();
}
