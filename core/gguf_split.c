// SPDX-License-Identifier: MIT
/* core/gguf_split.c - names of the files of a split set: PREFIX-00001-of-00003.gguf, counted
 * from 1. */
#include <stdlib.h>
#include <string.h>

#include "core/gguf.h"
#include "core/mem.h"

enum { TAIL = 20 }; /* strlen("-00001-of-00003.gguf") */

static int five_digits(const char *s) {
    int v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return -1;
        v = 10 * v + (s[i] - '0');
    }
    return v;
}

bool gguf_split_parse(const char *path, int *i, int *n, size_t *prefix_len) {
    size_t len = strlen(path);
    if (len <= TAIL) return false;
    const char *t = path + len - TAIL;
    if (t[0] != '-' || strncmp(t + 6, "-of-", 4) != 0 || strcmp(t + 15, ".gguf") != 0) return false;
    if (t[-1] == '/') return false;
    int a = five_digits(t + 1), b = five_digits(t + 10);
    if (a < 1 || b < 1 || a > b || b > 65535) return false;
    *i = a - 1;
    *n = b;
    *prefix_len = len - TAIL;
    return true;
}

char *gguf_split_name(const char *path, int i, int n) {
    int old_i, old_n;
    size_t len = strlen(path);
    if (!gguf_split_parse(path, &old_i, &old_n, &len) && len > 5 &&
        strcmp(path + len - 5, ".gguf") == 0)
        len -= 5;
    return xasprintf("%.*s-%05d-of-%05d.gguf", (int)len, path, i + 1, n);
}
