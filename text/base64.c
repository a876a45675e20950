// SPDX-License-Identifier: MIT
/* text/base64.c - padded base64 (base64.h). */
#include "text/base64.h"

#include <string.h>

/* Returns the value of a digit; -1: not a digit. */
static int digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int64_t base64_decode(const char *s, char *out, size_t cap) {
    size_t n = strlen(s), k = 0;
    uint32_t v = 0;
    if (n % 4) return -1;
    for (size_t i = 0; i < n; i++) {
        int d = s[i] == '=' && i + 2 >= n && s[n - 1] == '=' ? 0 : digit(s[i]);
        if (d < 0) return -1;
        v = v << 6 | (uint32_t)d;
        if (i % 4 != 3) continue;
        size_t bytes = 3; /* bytes encoded by these four digits */
        if (i + 1 == n) bytes -= (size_t)(s[i] == '=') + (s[i - 1] == '=');
        if (k + bytes > cap) return -1;
        for (size_t b = 0; b < bytes; b++) out[k++] = (char)(unsigned char)(v >> (16 - 8 * b));
        v = 0;
    }
    return (int64_t)k;
}

void base64_encode(struct buf *out, const char *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = 0;
        for (size_t b = 0; b < 3; b++)
            v = v << 8 | (i + b < n ? (uint32_t)(unsigned char)bytes[i + b] : 0);
        for (size_t d = 0; d < 4; d++)
            buf_chr(out, i + d > n ? '=' : digits[v >> (18 - 6 * d) & 63]);
    }
}
