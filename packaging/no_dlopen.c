// SPDX-License-Identifier: MIT
/* packaging/no_dlopen.c - the static program's dlopen, which always fails: OpenBLAS would bring a
 * second C library. (The linker sends every call here by --wrap.) */
#include <stddef.h>

void *__wrap_dlopen(const char *, int);
void *__wrap_dlopen(const char *name, int flags) {
    (void)name, (void)flags;
    return NULL;
}
char *__wrap_dlerror(void);
char *__wrap_dlerror(void) {
    static char text[] = "the static program loads no libraries";
    return text;
}
