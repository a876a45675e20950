// SPDX-License-Identifier: MIT
/* tests/unit/test_journal.c - whatever happens to a journal, reading it gives a prefix of the
 * records written; it has one owner at a time, as a job's folder has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/os.h"
#include "make/step.h"
#include "quantize/journal.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

enum { N = 12 };
static const char key[33] = "00112233445566778899aabbccddeeff";
static const char other[33] = "ffeeddccbbaa99887766554433221100";
static const char *out, *file;

static void hash_of(int i, char hex[33]) {
    for (int k = 0; k < 32; k++) hex[k] = "0123456789abcdef"[(i * 7 + k * 5) % 16];
    hex[32] = 0;
}

static double alpha_of(int i) {
    return i % 3 ? 0 : 1.0 / (i + 3);
}

static void write_all(void) {
    struct journal j;
    struct err e;
    enum journal_found found;
    remove(file);
    CHECK_OK(journal_open(&j, out, key, 3, &found, &e));
    CHECK_EQ_I64(found, JOURNAL_NONE);
    for (int i = 0; i < N; i++) {
        char hex[33];
        hash_of(i, hex);
        CHECK_OK(journal_add(&j, hex, alpha_of(i), &e));
    }
    journal_close(&j, false);
}

/* Returns the number of tensors read, which must be as written; -1: the journal belongs to a
 * different run. */
static int64_t read_all(void) {
    struct journal j;
    struct err e;
    enum journal_found found;
    int rc = journal_open(&j, out, key, 3, &found, &e);
    CHECK_EQ_I64(rc, 0);
    if (rc) return -2;
    int64_t n = found == JOURNAL_OTHER ? -1 : j.n;
    for (int64_t i = 0; i < j.n; i++) {
        char hex[33];
        hash_of((int)i, hex);
        CHECK(strcmp(hex, j.line[i].hash) == 0 && j.line[i].alpha == alpha_of((int)i));
    }
    journal_close(&j, false);
    return n;
}

static void put_file(const char *p, size_t n) {
    remove(file); /* avoids ext4's sync of truncated and rewritten files */
    FILE *f = fopen(file, "wb");
    CHECK(f && (n == 0 || fwrite(p, 1, n, f) == n) && fclose(f) == 0);
}

static void test_round_trip(void) {
    struct journal j;
    struct err e;
    enum journal_found found;
    write_all();
    CHECK_EQ_I64(read_all(), N);
    CHECK_OK(journal_open(&j, out, key, 3, &found, &e));
    CHECK_EQ_I64(found, JOURNAL_SAME);
    CHECK_OK(journal_cut(&j, 5, &e));
    char hex[33];
    hash_of(5, hex);
    CHECK_OK(journal_add(&j, hex, alpha_of(5), &e));
    journal_close(&j, false);
    CHECK_EQ_I64(read_all(), 6);
}

static void test_other_key(void) {
    struct journal j;
    struct err e;
    enum journal_found found;
    write_all();
    CHECK_OK(journal_open(&j, out, other, 7, &found, &e));
    CHECK_EQ_I64(found, JOURNAL_OTHER);
    CHECK_EQ_I64(j.n_files, 3);
    CHECK_EQ_I64(j.n, 0);
    journal_close(&j, true);
    CHECK(!io_exists(file));
}

static void test_one_owner(void) {
    struct journal j, second;
    struct err e;
    enum journal_found found;
    write_all();
    CHECK_OK(journal_open(&j, out, key, 3, &found, &e));
    CHECK_ERR(journal_open(&second, out, other, 3, &found, &e), ERR_SYS, "another hone");
    journal_close(&second, true);
    CHECK(io_exists(file));
    CHECK_EQ_I64(j.n, N);
    journal_close(&j, false);
    CHECK_EQ_I64(read_all(), N);
}

/* Tests every length, and changes to every byte (of the first lines, then every fifth): at most the
 * lines before the damage may be read. */
static void test_damage(void) {
    char *text;
    size_t len;
    struct err e;
    write_all();
    CHECK_OK(io_read_file(&text, &len, file, 1 << 20, &e));
    for (size_t n = 0; n < len; n += n < 200 ? 1 : 5) {
        int64_t whole = -1; /* lines in the first n bytes, the first not counted */
        for (size_t i = 0; i < n; i++) whole += text[i] == '\n';
        put_file(text, n);
        CHECK_EQ_I64(read_all(), n == 0 ? 0 : whole);
        text[n] ^= 1;
        put_file(text, len);
        CHECK_EQ_I64(read_all(), whole);
        text[n] ^= 1;
    }
    free(text);
}

/* Checks that a job's lock is refused only if another job has it, not if there are no locks (here:
 * no file). */
static void test_job_lock(void) {
    struct err e = {0};
    const char *path = tmp_path("lock");
    const int fd = os_open(path, OS_READ | OS_WRITE | OS_CREATE, 0600),
              next = os_open(path, OS_READ | OS_WRITE, 0);
    CHECK_OK(job_lock(fd, "x", &e));
    CHECK_ERR(job_lock(next, "x", &e), ERR_SYS, "another hone job is writing here");
    os_close(fd);
    CHECK_OK(job_lock(next, "x", &e));
    os_close(next);
    CHECK_OK(job_lock(next, "x", &e));
}

int main(void) {
    tmp_make();
    out = tmp_path("x.gguf");
    file = tmp_path("x.gguf.part.log");
    RUN(test_round_trip);
    RUN(test_other_key);
    RUN(test_one_owner);
    RUN(test_job_lock);
    RUN(test_damage);
    tmp_remove();
    return check_done();
}
