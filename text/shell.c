// SPDX-License-Identifier: MIT
/* text/shell.c - words of command lines (shell.h). */
#include "text/shell.h"

#include <stdbool.h>
#include <string.h>

void shell_word(struct buf *b, const char *s) {
    bool plain = *s != 0 && *s != '-';
    for (const char *c = s; *c; c++)
        plain = plain && (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "._-/+=:,@%",
                                 *c) != NULL);
    if (plain) {
        buf_str(b, s);
        return;
    }
    buf_chr(b, '\'');
    for (const char *c = s; *c; c++) {
        if (*c == '\'')
            buf_str(b, "'\\''");
        else
            buf_chr(b, (unsigned char)*c < 0x20 ? '?' : *c);
    }
    buf_chr(b, '\'');
}

char *shell_read(const char *s) {
    struct buf b = {0};
    char quote = 0;
    size_t n = strlen(s);
    while (n && s[n - 1] == ' ' && !(n > 1 && s[n - 2] == '\\')) n--;
    bool one = n > 0;
    for (size_t i = 0; i < n && one; i++) {
        const char c = s[i];
        if (c == quote) {
            quote = 0;
        } else if (!quote && (c == '"' || c == '\'')) {
            quote = c;
        } else if (c == '\\' && i + 1 < n &&
                   (!quote || (quote == '"' && strchr("\\\"$`", s[i + 1])))) {
            buf_chr(&b, s[++i]);
        } else {
            one = quote || !strchr(" \t", c);
            buf_chr(&b, c);
        }
    }
    if (one && !quote && b.len) return buf_take(&b);
    buf_release(&b);
    return NULL;
}
