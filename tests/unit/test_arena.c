// SPDX-License-Identifier: MIT
/* tests/unit/test_arena.c - alignment, zeroing, reuse after reset, big requests. */
#include "base/arena.h"
#include "tests/check.h"

static void test_many_sizes_do_not_overlap(void) {
    struct arena a;
    arena_init(&a);
    enum { N = 3000 };
    unsigned char *p[N];
    for (int round = 0; round < 3; round++) {
        size_t total = 0;
        for (int i = 0; i < N; i++) {
            size_t n = (size_t)(i * 7919 % 500) + (i % 500 == 0 ? 200000 : 0);
            total += n;
            p[i] = arena_alloc(&a, n);
            if ((uintptr_t)p[i] % 16) CHECK_FAIL("alignment");
            for (size_t k = 0; k < n; k++)
                if (p[i][k]) {
                    CHECK_FAIL("not zero: round %d, item %d", round, i);
                    break;
                }
            memset(p[i], i % 255 + 1, n);
        }
        for (int i = 0; i < N; i++) {
            size_t n = (size_t)(i * 7919 % 500) + (i % 500 == 0 ? 200000 : 0);
            for (size_t k = 0; k < n; k++)
                if (p[i][k] != i % 255 + 1) {
                    CHECK_FAIL("overwritten: item %d", i);
                    break;
                }
        }
        CHECK_EQ_I64(a.total_bytes, total);
        arena_reset(&a);
        CHECK_EQ_I64(a.total_bytes, 0);
    }
    arena_release(&a);
    CHECK(a.head == NULL);
}

static void test_strings(void) {
    struct arena a;
    arena_init(&a);
    CHECK_EQ_STR(arena_strdup(&a, "hello"), "hello");
    CHECK_EQ_STR(arena_strndup(&a, "hello", 2), "he");
    CHECK_EQ_STR(arena_strndup(&a, "he", 20), "he");
    int32_t *v = arena_array(&a, 1000, sizeof *v);
    CHECK_EQ_I64(v[999], 0);
    CHECK(arena_alloc(&a, 0) != NULL);
    arena_release(&a);
    CHECK_EQ_STR(arena_strdup(&a, "again"), "again"); /* usable after release */
    arena_release(&a);
}

int main(void) {
    RUN(test_many_sizes_do_not_overlap);
    RUN(test_strings);
    return check_done();
}
