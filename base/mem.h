// SPDX-License-Identifier: MIT
/* base/mem.h - small allocations, which fall back on the job's reserve when memory runs out and end
 * the process if there is none; arrays that grow with input and large buffers, which can fail. */
#ifndef HONE_BASE_MEM_H
#define HONE_BASE_MEM_H

#ifndef __cplusplus /* CUDA sources need the functions only */
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Allocate things of less than 16 MiB, which is as much as a job's fund holds, and which the caller
 * frees with free(). Never return NULL. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
/* Grows an array to n items of `size` bytes; the product is checked for overflow. */
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* Allocate arrays that grow with a text, a file or a model, which the caller frees with free():
 * whatever may pass 16 MiB comes from here or from mem_alloc. NULL: ERR_SYS in *e, which names
 * `what`; try_realloc leaves p as it was. */
void *try_calloc(size_t n, size_t size, const char *what, struct err *e);
void *try_realloc(void *p, size_t n, size_t size, const char *what, struct err *e);

/* Memory that a job has set aside (struct ctx): what the functions above cannot get they take from
 * here, and tell the job to stop, so that it ends as if interrupted and not with the process. A
 * zero-initialised fund is an empty one. Any number of threads may use it. */
#ifndef __cplusplus
struct mem_fund {
    _Atomic(void *) block[3];
    atomic_bool spent; /* something was taken since it was filled */
};
#endif
/* Fails with ERR_SYS once the job has used its fund. Loops that allocate for each item of a file
 * call it, so that they stop before the fund is empty. */
int mem_check(struct err *e);
/* Fills the fund up: 17 MiB of addresses in all, none of them touched. ERR_SYS: there is no memory.
 */
int mem_fund_fill(struct mem_fund *f, struct err *e);
/* Gives back what is left of the fund. */
void mem_fund_release(struct mem_fund *f);

/* Allocates tensor- and model-sized memory, 64-byte aligned (huge pages are asked for from 2 MiB
 * on) and zeroed, which mem_free frees. ERR_SYS names `what`, the bytes needed and the bytes
 * available. */
int mem_alloc(void **out, uint64_t n_bytes, const char *what, struct err *e);
void mem_free(void *p);

/* Makes the allocator give large pieces back to the system at once, and keep few heaps: for a
 * process that runs for weeks and frees what it takes. It acts on the process and is called
 * before its threads begin. */
void mem_give_back(void);

/* Returns freed memory to the system now; call it after freeing much. */
void mem_trim(void);

/* Returns the bytes of memory that the machine reports as available now, or what control groups
 * leave of them; 0 if unknown. */
uint64_t mem_available(void);
/* Returns the same, but not more than --max-memory leaves for mem_alloc; 0 if unknown and not
 * limited. */
uint64_t buf_available(void);
/* Returns the memory to plan with: what --max-memory (*limit) leaves, even if less is free, so that
 * the plan does not depend on other processes; without a limit (*limit 0), what is available. */
uint64_t buf_room(uint64_t *limit);

#endif
