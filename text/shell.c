// SPDX-License-Identifier: MIT
/* text/shell.c - words of command lines that users copy into a shell. */
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
