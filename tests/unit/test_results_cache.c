// SPDX-License-Identifier: MIT
/* tests/unit/test_results_cache.c - base/results_cache and base/checkpoint: whatever happens to
 * their files, reading gives the written data or nothing; other programs' files are not touched. */
#include "base/results_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/checkpoint.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

enum { N = 9, MAX = 40 };
static const char *file;

/* Makes the value of record i: i * 5 bytes, so the first one is empty. */
static size_t value(int i, uint8_t v[MAX]) {
    for (int k = 0; k < i * 5; k++) v[k] = (uint8_t)(i * 31 + k * 7);
    return (size_t)i * 5;
}

static void put_file(const char *p, size_t n) {
    remove(file);
    FILE *f = fopen(file, "wb");
    CHECK(f && (n == 0 || fwrite(p, 1, n, f) == n) && fclose(f) == 0);
}

static void write_all(const char *what, int n) {
    struct results_cache *k = NULL;
    struct err e;
    uint8_t v[MAX];
    CHECK_OK(results_cache_open(&k, file, &e));
    const struct results_cache_of of = {k, what};
    for (int i = 0; i < n; i++) {
        char which[16];
        const size_t len = value(i, v);
        snprintf(which, sizeof which, "case %d", i);
        results_cache_put(&of, which, v, len);
    }
    results_cache_close(k, false);
}

/* Returns the number of records found, which must be as written; -1: the file is refused.
 */
static int read_all(const char *what) {
    struct results_cache *k = NULL;
    struct err e;
    uint8_t v[MAX], got[MAX];
    int n = 0;
    if (results_cache_open(&k, file, &e)) return -1;
    const struct results_cache_of of = {k, what};
    for (int i = 0; i < N; i++) {
        char which[16];
        const size_t len = value(i, v);
        snprintf(which, sizeof which, "case %d", i);
        CHECK(!results_cache_get(&of, which, got, len + 1));
        if (!results_cache_get(&of, which, got, len)) continue;
        CHECK(memcmp(v, got, len) == 0);
        n++;
    }
    results_cache_close(k, false);
    return n;
}

static void test_records(void) {
    struct results_cache *k = NULL;
    struct err e;
    struct buf b = {0};
    remove(file);
    write_all("model a", N);
    CHECK_EQ_I64(read_all("model a"), N);
    CHECK_EQ_I64(read_all("model b"), 0);
    write_all("model b", 4);
    CHECK_EQ_I64(read_all("model a"), N);
    CHECK_EQ_I64(read_all("model b"), 4);
    CHECK_OK(results_cache_open(&k, file, &e));
    const struct results_cache_of of = {k, "model a"};
    uint8_t v[MAX];
    const size_t len = value(7, v);
    CHECK(results_cache_get_buf(&of, "case 7", &b) && b.len == len && memcmp(b.data, v, len) == 0);
    results_cache_put(&of, "case 7", "new", 3); /* the last one counts */
    buf_reset(&b);
    CHECK(results_cache_get_buf(&of, "case 7", &b) && strcmp(b.data, "new") == 0);
    results_cache_close(k, true);
    CHECK(!io_exists(file));
    CHECK(!results_cache_get(NULL, "case 7", v, 3) &&
          !results_cache_get(&(struct results_cache_of){NULL, "x"}, "y", v, 3));
    results_cache_put(NULL, "case 7", v, 3);
    buf_release(&b);
}

static void test_many(void) {
    struct results_cache *k = NULL;
    struct err e;
    remove(file);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(results_cache_open(&k, file, &e));
        const struct results_cache_of of = {k, "many"};
        for (int i = 0; i < 2000; i++) {
            char which[16];
            int got = -1;
            snprintf(which, sizeof which, "%d", i);
            if (round) CHECK(results_cache_get(&of, which, &got, sizeof got) && got == i * 3);
            if (!round) results_cache_put(&of, which, &(int){i * 3}, sizeof(int));
        }
        results_cache_close(k, false);
    }
}

static void test_one_owner(void) {
    struct results_cache *k = NULL, *second = NULL;
    struct err e;
    CHECK_OK(results_cache_open(&k, file, &e));
    CHECK_ERR(results_cache_open(&second, file, &e), ERR_SYS, "another hone");
    results_cache_close(k, true);
}

/* Tests truncation at every length, and changes to every byte: records before the damage are read,
 * and so are records written afterwards. */
static void test_damage(void) {
    char *text;
    size_t len;
    struct err e;
    remove(file);
    write_all("m", N);
    CHECK_OK(io_read_file(&text, &len, file, 1 << 20, &e));
    for (size_t n = 0; n < len; n++) {
        int whole = 0; /* records that end within n bytes */
        for (size_t end = 16; whole < N && end + 32 + (size_t)whole * 5 <= n; whole++)
            end += 32 + (size_t)whole * 5;
        put_file(text, n);
        CHECK_EQ_I64(read_all("m"), whole);
        write_all("m", N);
        CHECK_EQ_I64(read_all("m"), N);
        text[n] ^= 1;
        put_file(text, len);
        CHECK_EQ_I64(read_all("m"), n < 16 ? -1 : whole);
        text[n] ^= 1;
    }
    free(text);
}

static void test_foreign(void) {
    static const char theirs[] = "a file of another program, longer than a header";
    struct results_cache *k = NULL;
    struct checkpoint_r r;
    struct err e;
    char *text;
    size_t len;
    put_file(theirs, sizeof theirs - 1);
    CHECK_ERR(results_cache_open(&k, file, &e), ERR_USAGE, "something else");
    CHECK_EQ_I64(checkpoint_open(&r, file, "x"), SNAP_FOREIGN);
    checkpoint_close(&r);
    checkpoint_remove(file);
    CHECK_OK(io_read_file(&text, &len, file, 1000, &e));
    CHECK(strcmp(text, theirs) == 0);
    free(text);
    CHECK_ERR(results_cache_open(&k, tmp_dir, &e), ERR_SYS, "cannot create");
    remove(file);
}

static int write_snap(const char *what, struct err *e) {
    struct checkpoint_w *w;
    uint8_t v[MAX];
    const size_t len = value(8, v);
    int rc = checkpoint_begin(&w, file, what, e);
    if (!rc) rc = checkpoint_put(w, v, len, e);
    if (!rc) rc = checkpoint_put(w, v, 3, e);
    if (!rc) rc = checkpoint_commit(w, e);
    checkpoint_end(w);
    return rc;
}

static enum checkpoint_found read_snap(const char *what) {
    struct checkpoint_r r;
    uint8_t v[MAX], got[MAX];
    const size_t len = value(8, v);
    const enum checkpoint_found is = checkpoint_open(&r, file, what);
    if (is == SNAP_SAME) {
        CHECK_EQ_I64((int64_t)checkpoint_left(&r), (int64_t)len + 3);
        CHECK(checkpoint_get(&r, got, len) && memcmp(got, v, len) == 0);
        CHECK(!checkpoint_get(&r, got, 4) && checkpoint_get(&r, got, 3) && memcmp(got, v, 3) == 0);
        CHECK_EQ_I64((int64_t)checkpoint_left(&r), 0);
    }
    checkpoint_close(&r);
    return is;
}

static void test_snapshot(void) {
    char *text;
    size_t len;
    struct err e;
    remove(file);
    CHECK_EQ_I64(read_snap("a"), SNAP_NONE);
    CHECK_OK(write_snap("a", &e));
    CHECK_EQ_I64(read_snap("a"), SNAP_SAME);
    CHECK_EQ_I64(read_snap("b"), SNAP_OTHER);
    CHECK_OK(io_read_file(&text, &len, file, 1 << 20, &e));
    for (size_t n = 0; n < len; n++) {
        put_file(text, n);
        CHECK_EQ_I64(read_snap("a"), n < 16 ? SNAP_FOREIGN : SNAP_OTHER);
        text[n] ^= 1;
        put_file(text, len);
        CHECK_EQ_I64(read_snap("a"), n < 16 ? SNAP_FOREIGN : SNAP_OTHER);
        text[n] ^= 1;
    }
    free(text);
    CHECK_OK(write_snap("b", &e));
    CHECK_EQ_I64(read_snap("b"), SNAP_SAME);
    checkpoint_remove(file);
    CHECK(!io_exists(file));
}

/* Checks that checkpoints are written less often if writing takes long. */
static void test_clock(void) {
    struct checkpoint_clock c = {.every = 1e-9};
    CHECK(!checkpoint_due(&c));
    while (!checkpoint_due(&c)) continue;
    checkpoint_wrote(&c, c.last);
    c.took = 1;
    CHECK(!checkpoint_due(&c));
    c.last -= 15;
    CHECK(!checkpoint_due(&c));
    c.last -= 11;
    CHECK(checkpoint_due(&c));
    CHECK(!checkpoint_due(&(struct checkpoint_clock){0}));
}

int main(void) {
    tmp_make();
    log_set_level(LOG_ERROR);
    file = strdup(tmp_path("kept"));
    RUN(test_records);
    RUN(test_many);
    RUN(test_one_owner);
    RUN(test_damage);
    RUN(test_foreign);
    RUN(test_snapshot);
    RUN(test_clock);
    free((void *)(uintptr_t)file);
    tmp_remove();
    return check_done();
}
