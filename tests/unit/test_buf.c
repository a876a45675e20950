// SPDX-License-Identifier: MIT
/* tests/unit/test_buf.c - growth, termination, formatting past the capacity, handing over. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "tests/check.h"

static void test_append(void) {
    struct buf b;
    buf_init(&b);
    CHECK(b.data == NULL && b.len == 0);
    buf_str(&b, "ab");
    buf_chr(&b, 'c');
    buf_add(&b, "\0x", 2);
    CHECK_EQ_I64(b.len, 5);
    CHECK(memcmp(b.data, "abc\0x", 6) == 0);
    buf_reset(&b);
    CHECK_EQ_I64(b.len, 0);
    CHECK_EQ_STR(b.data, "");
    buf_release(&b);
    CHECK(b.data == NULL);
}

static void test_stays_terminated_at_every_length(void) {
    struct buf b = {0};
    for (size_t i = 0; i < 5000; i++) {
        buf_chr(&b, (char)('a' + i % 26));
        if (b.len >= b.cap || b.data[b.len] != 0 || b.len != i + 1) {
            CHECK_FAIL("length %zu, capacity %zu", b.len, b.cap);
            break;
        }
    }
    CHECK_EQ_I64(b.data[4999], 'a' + 4999 % 26);
    buf_release(&b);
}

static void test_fmt_longer_than_room(void) {
    struct buf b = {0};
    char big[3000];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = 0;
    buf_fmt(&b, "%d:%s:%d", 1, big, 2);
    CHECK_EQ_I64(b.len, 2999 + 4);
    CHECK(b.data[0] == '1' && b.data[2] == 'y' && b.data[b.len - 1] == '2' && !b.data[b.len]);
    for (int i = 0; i < 200; i++) buf_fmt(&b, "%02d", i % 100);
    CHECK_EQ_I64(b.len, 3003 + 400);
    buf_release(&b);
}

static void test_take(void) {
    struct buf b = {0};
    char *s = buf_take(&b);
    CHECK_EQ_STR(s, "");
    free(s);
    buf_str(&b, "text");
    s = buf_take(&b);
    CHECK_EQ_STR(s, "text");
    CHECK(b.data == NULL && b.len == 0);
    free(s);
}

/* Checks that reserving more memory than available fails and changes nothing. */
static void test_no_memory(void) {
    struct err e = {0};
    struct buf b = {0};
    struct arena a = {0};
    buf_str(&b, "text");
    CHECK_ERR(buf_try_reserve(&b, (size_t)1 << 60, "a text", &e), ERR_SYS, "a text");
    CHECK_EQ_STR(b.data, "text");
    CHECK_OK(buf_try_reserve(&b, (size_t)20 << 20, "a text", &e));
    CHECK(b.cap > (size_t)20 << 20 && b.len == 4);
    CHECK_EQ_STR(b.data, "text");
    buf_release(&b);
    CHECK_ERR(arena_reserve(&a, (size_t)1 << 60, "a text", &e), ERR_SYS, "a text");
    CHECK_OK(arena_reserve(&a, (size_t)20 << 20, "a text", &e));
    struct arena_chunk *was = a.head;
    memset(arena_alloc(&a, (size_t)20 << 20), 1, (size_t)20 << 20);
    CHECK(a.head == was);
    arena_release(&a);
    CHECK(!strmap_try_new((size_t)1 << 50, "names", &e) && e.code == ERR_SYS);
    CHECK(!try_calloc(SIZE_MAX, 16, "rows", &e) && !try_realloc(NULL, SIZE_MAX, 16, "rows", &e));
    CHECK(strstr(e.msg, "rows"));
}

int main(void) {
    RUN(test_append);
    RUN(test_stays_terminated_at_every_length);
    RUN(test_fmt_longer_than_room);
    RUN(test_take);
    RUN(test_no_memory);
    return check_done();
}
