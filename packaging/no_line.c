// SPDX-License-Identifier: MIT
/* packaging/no_line.c - cli/line.h in libhone, in place of cli/line.c: a library edits no lines at
 * a terminal, and needs no libedit for it. Whoever asks for a line is told that the input ended. */
#include "cli/line.h"

struct line *line_new(const char *history, const char *const *words) {
    (void)history;
    (void)words;
    return NULL;
}
void line_free(struct line *l) {
    (void)l;
}
enum line_end line_read(struct line *l, const char *prompt, struct buf *out) {
    (void)l;
    (void)prompt;
    (void)out;
    return LINE_EOF;
}
void line_remember(struct line *l, const char *text) {
    (void)l;
    (void)text;
}
void line_wake(void) {
}
void line_restore(void) {
}
char *line_history_path(void) {
    return NULL;
}
const char *line_library(void) {
    return "none";
}
