// SPDX-License-Identifier: MIT
/* base/mem.h - memory allocation. Small allocations fall back on the job's emergency fund when
 * memory runs out; without a fund they end the process. Arrays that grow with the input, and large
 * buffers, can fail. */
#ifndef HONE_BASE_MEM_H
#define HONE_BASE_MEM_H

#ifndef __cplusplus /* CUDA sources need only the functions */
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Allocate less than 16 MiB, the size that a job's fund can cover; the caller frees with free().
 * Never return NULL. */
void *xmalloc(size_t n);
/* Returns zeroed memory, never NULL; ends the process if memory runs out. */
void *xcalloc(size_t n, size_t size);
/* Resizes like realloc, never to NULL; ends the process if memory runs out. */
void *xrealloc(void *p, size_t n);
/* Resizes an array to n items of `size` bytes. Checks the product for overflow. */
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *s);
/* Returns a copy of at most n bytes of s, up to its first NUL; free it. */
char *xstrndup(const char *s, size_t n);
/* Returns text formatted as by printf; free it. Never NULL. */
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* Allocate arrays that grow with a text, a file or a model; the caller frees with free(). Use these
 * or mem_alloc for anything that may exceed 16 MiB. On failure they return NULL and set *e to
 * ERR_SYS, naming `what`; try_realloc leaves p unchanged. */
void *try_calloc(size_t n, size_t size, const char *what, struct err *e);
/* Resizes p to n elements of `size` bytes; on failure returns NULL, sets e and keeps p. */
void *try_realloc(void *p, size_t n, size_t size, const char *what, struct err *e);

/* Emergency memory of a job (struct ctx). When an allocation fails, the functions above draw on it
 * and request that the job stop. The job then ends as if interrupted, and the process continues. A
 * zero-initialised fund is empty. Thread-safe. */
#ifndef __cplusplus
struct mem_fund {
    _Atomic(void *) block[3];
    atomic_bool spent; /* used since it was filled */
};
#endif
/* Returns ERR_SYS once the job has drawn on its fund. Loops that allocate for each item of a file
 * call it, so that they stop before the fund is empty. */
int mem_check(struct err *e);
/* Fills the fund: 17 MiB of address space in total, untouched. ERR_SYS: out of memory. */
int mem_fund_fill(struct mem_fund *f, struct err *e);
/* Frees the rest of the fund. */
void mem_fund_release(struct mem_fund *f);

/* Allocates memory for tensors and models, zeroed and 64-byte aligned; for 2 MiB or more it
 * requests huge pages. Free with mem_free. ERR_SYS names `what`, the bytes needed and the bytes
 * available. */
int mem_alloc(void **out, uint64_t n_bytes, const char *what, struct err *e);
/* Frees memory from mem_alloc(); p may be NULL. */
void mem_free(void *p);

/* Configures malloc for a process that runs for weeks: large blocks return to the system at once,
 * and there are few heaps. Affects the whole process; call before starting threads. */
void mem_give_back(void);

/* Returns freed memory to the system now; call after freeing a lot. */
void mem_trim(void);

/* Returns the available memory in bytes as reported by the machine, limited by control groups; 0:
 * unknown. */
uint64_t mem_available(void);
/* Like mem_available, but limited to the remainder of --max-memory; 0: unknown and unlimited. */
uint64_t buf_available(void);
/* Returns the memory to plan with. With --max-memory (*limit), it is the remainder of that, even if
 * less is free, so that plans do not depend on other processes. Otherwise (*limit 0) it is the
 * available memory. */
uint64_t buf_room(uint64_t *limit);

#endif
