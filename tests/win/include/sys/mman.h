// SPDX-License-Identifier: MIT
/* tests/win/include/sys/mman.h - anonymous memory and its protection on Windows, for the tests. */
#ifndef HONE_TESTS_WIN_MMAN_H
#define HONE_TESTS_WIN_MMAN_H

#include <stddef.h>
#include <stdint.h>

enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 32 };
#define MAP_FAILED ((void *)-1)
#define _SC_PAGESIZE 30
#define sysconf(name) 4096

/* Allocates pages; only anonymous ones. */
void *mmap(void *at, size_t n, int protection, int flags, int fd, int64_t offset);
/* Changes the protection of pages. */
int mprotect(void *p, size_t n, int protection);
/* Frees all pages of a mapping. */
int munmap(void *p, size_t n);

#endif
