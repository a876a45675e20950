// SPDX-License-Identifier: MIT
/* tests/unit/test_pages.c - pages of 16 and 64 KiB, as on macOS and some ARM kernels: only whole
 * pages of that size within the given range are returned to the system or distributed over memory
 * nodes. sysconf, madvise and mbind are mocked. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "base/numa.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

/* Disables AddressSanitizer's signal stack, for whose size it would call sysconf. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "use_sigaltstack=0";
}

static long page;
static struct {
    int n;
    uintptr_t at;
    size_t n_bytes;
} last;

long sysconf(int name) {
    if (name == _SC_PAGESIZE) return page;
    errno = EINVAL;
    return -1;
}
int madvise(void *p, size_t n, int how) {
    if (how == MADV_DONTNEED) {
        last.n++;
        last.at = (uintptr_t)p;
        last.n_bytes = n;
    }
    return 0;
}

enum { KIB = 1024, FILE_BYTES = 300 * KIB + 77 };

static void drop_is(const struct map *m, uint64_t off, uint64_t n, uint64_t begin, uint64_t end) {
    last.n = 0;
    map_drop(m, off, n);
    CHECK_EQ_I64(last.n, begin < end);
    if (last.n && begin < end) {
        CHECK(last.at == (uintptr_t)m->data + begin);
        CHECK_EQ_I64((int64_t)last.n_bytes, (int64_t)(end - begin));
    }
}

static void test_drops(void) {
    char *data = calloc(1, FILE_BYTES);
    const char *path = tmp_write("file", data, FILE_BYTES);
    struct map m;
    struct err e = {0};
    free(data);
    page = 4 * KIB;
    CHECK_OK(map_open(&m, path, &e));
    drop_is(&m, 5 * KIB, 40 * KIB, 8 * KIB, 44 * KIB);
    page = 16 * KIB;
    drop_is(&m, 5 * KIB, 40 * KIB, 16 * KIB, 32 * KIB);
    drop_is(&m, 1, 30 * KIB, 0, 0); /* no whole page in the range */
    drop_is(&m, 16 * KIB, 16 * KIB, 16 * KIB, 32 * KIB);
    drop_is(&m, 250 * KIB, 100 * KIB, 256 * KIB, FILE_BYTES); /* up to the end of the file */
    page = 64 * KIB;
    drop_is(&m, 5 * KIB, 40 * KIB, 0, 0);
    drop_is(&m, 5 * KIB, 200 * KIB, 64 * KIB, 192 * KIB);
    drop_is(&m, 0, FILE_BYTES, 0, FILE_BYTES);
    map_close(&m);
}

/* Mocks mbind, which refuses an address within a page. */
long syscall(long number, ...) {
    va_list v;
    va_start(v, number);
    last.n += number == SYS_mbind;
    last.at = (uintptr_t)va_arg(v, void *);
    last.n_bytes = va_arg(v, uint64_t);
    va_end(v);
    return 0;
}
static void test_spread(void) {
    struct numa m = {.n = 1};
    static _Alignas(64 * KIB) uint8_t p[512 * KIB];
    m.node[0].n_cpus = 1;
    for (page = 16 * KIB; page <= 64 * KIB; page *= 4) {
        const int64_t one = page;
        last.n = 0;
        CHECK_EQ_I64(numa_spread(&m, p + 1, 2 * (uint64_t)one - 2), 0);
        CHECK_EQ_I64(last.n, 0); /* no whole page in the range */
        CHECK_EQ_I64(numa_spread(&m, p + 100, 400 * KIB), 0);
        CHECK(last.n == 1 && last.at == (uintptr_t)(p + one));
        CHECK_EQ_I64((int64_t)last.n_bytes, (400 * KIB + 100 - one) / one * one);
    }
}

int main(void) {
    tmp_make();
    RUN(test_drops);
    RUN(test_spread);
    tmp_remove();
    return check_done();
}
