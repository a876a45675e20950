// SPDX-License-Identifier: MIT
/* text/pcre.h - memory functions for PCRE2. They pass small requests to base/mem.h, so that running
 * out of memory inside the library ends the job, not the process. */
#ifndef HONE_TEXT_PCRE_H
#define HONE_TEXT_PCRE_H

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

enum { PCRE_SMALL = 64 << 10 };

/* Allocates n bytes. Only the memory of a growing match is large; if that allocation fails, PCRE2
 * reports an error. */
static inline void *pcre_take(PCRE2_SIZE n, void *ud) {
    (void)ud;
    return n <= PCRE_SMALL ? xmalloc(n) : malloc(n);
}
static inline void pcre_give(void *p, void *ud) {
    (void)ud;
    free(p);
}
/* Creates the general context to pass to PCRE2's constructors; free it with
 * pcre2_general_context_free, even while objects created with it are in use. */
static inline pcre2_general_context *pcre_memory(void) {
    return pcre2_general_context_create(pcre_take, pcre_give, NULL);
}

#endif
