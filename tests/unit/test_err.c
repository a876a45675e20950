// SPDX-License-Identifier: MIT
/* tests/unit/test_err.c - messages, codes, wrapping, and truncation of long texts. */
#include <errno.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/check.h"

static void test_set_and_wrap(void) {
    struct err e = {0};
    CHECK_EQ_I64(err_set(&e, ERR_DATA, "tensor %d: bad", 7), 3);
    CHECK_EQ_STR(e.msg, "tensor 7: bad");
    CHECK_EQ_I64(err_wrap(&e, "%s", "a.gguf"), ERR_DATA);
    CHECK_EQ_STR(e.msg, "a.gguf: tensor 7: bad");
    CHECK_EQ_I64(e.code, ERR_DATA);
    err_wrap(&e, "%s", "a.gguf"); /* a file is named once */
    CHECK_EQ_STR(e.msg, "a.gguf: tensor 7: bad");
    err_wrap(&e, "%s", "a.gg"); /* another one */
    CHECK_EQ_STR(e.msg, "a.gg: a.gguf: tensor 7: bad");
}

static void test_sys_takes_errno_at_entry(void) {
    struct err e = {0};
    errno = ENOENT;
    CHECK_EQ_I64(err_sys(&e, "cannot open %s", "x"), ERR_SYS);
    CHECK_EQ_STR(e.msg, "cannot open x: No such file or directory");
    errno = ENOENT;
    CHECK_EQ_I64(err_path(&e, "cannot open %s", "x"), ERR_USAGE);
    CHECK_EQ_STR(e.msg, "cannot open x: No such file or directory");
    errno = EACCES;
    CHECK_EQ_I64(err_path(&e, "cannot open %s", "x"), ERR_SYS);
}

/* Checks that only errors about too little memory are marked as such. */
static void test_no_memory(void) {
    struct err e = {0};
    void *p;
    CHECK_EQ_I64(err_memory(&e, "no %s", "room"), ERR_SYS);
    CHECK_EQ_STR(e.msg, "no room");
    CHECK(e.no_memory);
    err_wrap(&e, "a.gguf");
    CHECK(e.no_memory);
    err_set(&e, ERR_SYS, "no device");
    CHECK(!e.no_memory);
    errno = ENOMEM;
    err_sys(&e, "cannot map a.gguf");
    CHECK(e.no_memory);
    errno = ENOSPC;
    err_sys(&e, "cannot write a.gguf");
    CHECK(!e.no_memory);
    CHECK_ERR(mem_alloc(&p, UINT64_C(1) << 50, "the model", &e), ERR_SYS, "not enough memory");
    CHECK(e.no_memory);
}

static void test_long_messages_are_cut(void) {
    struct err e = {0};
    char *s = xcalloc(5001, 1);
    memset(s, 'a', 5000);
    err_set(&e, ERR_DATA, "%s", s);
    CHECK_EQ_I64(strlen(e.msg), sizeof e.msg - 1);
    errno = EIO;
    err_sys(&e, "%s", s);
    CHECK_EQ_I64(strlen(e.msg), sizeof e.msg - 1);
    err_set(&e, ERR_DATA, "end");
    err_wrap(&e, "%s", s);
    CHECK_EQ_I64(strlen(e.msg), sizeof e.msg - 1);
    err_set(&e, ERR_DATA, "%s", s);
    err_wrap(&e, "p");
    CHECK(strncmp(e.msg, "p: aaa", 6) == 0 && strlen(e.msg) == sizeof e.msg - 1);
    free(s);
}

static int fails(struct err *e) {
    return err_set(e, ERR_VERDICT, "no");
}
static int tries(struct err *e, int *reached) {
    TRY(fails(e));
    *reached = 1;
    return 0;
}

static void test_try_returns_at_once(void) {
    struct err e = {0};
    int reached = 0;
    CHECK_ERR(tries(&e, &reached), ERR_VERDICT, "no");
    CHECK_EQ_I64(reached, 0);
}

static void test_buf_alloc(void) {
    struct err e = {0};
    void *p;
    CHECK_ERR(mem_alloc(&p, UINT64_C(1) << 50, "the model", &e), ERR_SYS,
              "for the model: 1.0 PiB needed");
    CHECK(p == NULL);
    CHECK_ERR(mem_alloc(&p, UINT64_MAX, "it", &e), ERR_SYS, "not enough memory");
    static const uint64_t sizes[] = {
        0, 1, 63, 4096, (UINT64_C(2) << 20) - 1, UINT64_C(2) << 20, (UINT64_C(20) << 20) + 5};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        CHECK_OK(mem_alloc(&p, sizes[i], "test", &e));
        CHECK(p && (uintptr_t)p % 64 == 0);
        const unsigned char *b = p;
        unsigned char any = 0;
        for (uint64_t k = 0; k < sizes[i]; k++) any |= b[k];
        CHECK_EQ_I64(any, 0);
        if (sizes[i]) memset(p, 0xff, sizes[i]);
        mem_free(p);
    }
    mem_free(NULL);
}

static void test_small_allocations(void) {
    char *s = xasprintf("%s-%d", "abc", 42), *t = xstrndup("abcdef", 3), *u = xstrdup("");
    CHECK_EQ_STR(s, "abc-42");
    CHECK_EQ_STR(t, "abc");
    CHECK_EQ_STR(u, "");
    int *v = xreallocarray(NULL, 4, sizeof *v);
    v[3] = 1;
    v = xreallocarray(v, 0, sizeof *v);
    CHECK(v != NULL);
    free(s), free(t), free(u), free(v);
}

/* Checks the statuses, which are documented in docs/man/hone.1, used by other programs, and must
 * never change. */
static void test_statuses(void) {
    static const int want[] = {ERR_OK, ERR_VERDICT, ERR_USAGE, ERR_DATA, ERR_SYS, ERR_INTR};
    static const int number[] = {0, 1, 2, 3, 4, 130};
    for (int i = 0; i < (int)COUNT_OF(want); i++) {
        CHECK(err_status(i) != NULL);
        CHECK_EQ_I64(want[i], number[i]);
        CHECK_EQ_I64(err_status(i)->status, number[i]);
        CHECK(err_status(i)->name[0] && err_status(i)->brief[0] && err_status(i)->meaning[0]);
    }
    CHECK(!err_status((int)COUNT_OF(want)) && !err_status(-1));
}

int main(void) {
    RUN(test_statuses);
    RUN(test_set_and_wrap);
    RUN(test_sys_takes_errno_at_entry);
    RUN(test_no_memory);
    RUN(test_long_messages_are_cut);
    RUN(test_try_returns_at_once);
    RUN(test_buf_alloc);
    RUN(test_small_allocations);
    return check_done();
}
