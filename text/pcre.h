// SPDX-License-Identifier: MIT
/* text/pcre.h - memory for PCRE2: its small requests are those of base/mem.h, so that memory that
 * runs out inside a call of the library stops the call and not the process. */
#ifndef HONE_TEXT_PCRE_H
#define HONE_TEXT_PCRE_H

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

enum { PCRE_SMALL = 64 << 10 };

/* Returns n bytes. Large requests are those of a match that grows; it ends with an error without
 * them. */
static inline void *pcre_take(PCRE2_SIZE n, void *ud) {
    (void)ud;
    return n <= PCRE_SMALL ? xmalloc(n) : malloc(n);
}
static inline void pcre_give(void *p, void *ud) {
    (void)ud;
    free(p);
}
/* Makes what PCRE2's functions that create are given in place of NULL; pcre2_general_context_free,
 * also while what they made is in use. */
static inline pcre2_general_context *pcre_memory(void) {
    return pcre2_general_context_create(pcre_take, pcre_give, NULL);
}

#endif
