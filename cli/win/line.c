// SPDX-License-Identifier: MIT
/* cli/win/line.c - line input on Windows: the console's own editing and its history of keys, as
 * libedit does not exist there. Entries are saved to the same file as elsewhere; Tab completes
 * nothing. */
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/win/win.h"
#include "cli/line.h"

struct line {
    char *path; /* history file, or NULL */
};

struct line *line_new(const char *history, const char *const *words) {
    struct line *l = xcalloc(1, sizeof *l);
    (void)words;
    l->path = history ? xstrdup(history) : NULL;
    return l;
}
void line_free(struct line *l) {
    if (!l) return;
    free(l->path);
    free(l);
}
void line_wake(void) { /* Ctrl-C ends a read by itself */
}
void line_restore(void) {
}
const char *line_library(void) {
    return "Windows console";
}
char *line_history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state) return xasprintf("%s/hone/history", state);
    return home && *home ? xasprintf("%s/.local/state/hone/history", home) : NULL;
}

/* Reads a line of the console into out, without its end. */
static enum line_end read_console(HANDLE in, struct buf *out) {
    wchar_t w[1024];
    for (;;) {
        DWORD n = 0;
        SetLastError(0);
        const bool ok = ReadConsoleW(in, w, 1023, &n, NULL);
        if (progress_interrupted() || (ok && !n && GetLastError() == ERROR_OPERATION_ABORTED)) {
            for (int i = 0; i < 50 && !progress_interrupted(); i++) Sleep(10);
            return LINE_INTR;
        }
        if (!ok || !n || (!out->len && w[0] == 26)) return LINE_EOF; /* 26: Ctrl-Z */
        w[n] = 0;
        char *s = win_utf8(w, false);
        buf_str(out, s ? s : "");
        free(s);
        if (out->len && out->data[out->len - 1] == '\n') return LINE_TEXT;
    }
}
/* Reads a line of a pipe or a file into out. */
static enum line_end read_stream(struct buf *out) {
    int c;
    while ((c = getc(stdin)) != EOF) {
        buf_chr(out, (char)c);
        if (c == '\n') return LINE_TEXT;
    }
    return progress_interrupted() ? LINE_INTR : out->len ? LINE_TEXT : LINE_EOF;
}
enum line_end line_read(struct line *l, const char *prompt, struct buf *out) {
    HANDLE in = GetStdHandle(STD_INPUT_HANDLE);
    DWORD mode;
    (void)l;
    buf_reset(out);
    fputs(prompt, stderr);
    fflush(stderr);
    const enum line_end end = GetConsoleMode(in, &mode) ? read_console(in, out) : read_stream(out);
    while (out->len && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r'))
        out->data[--out->len] = 0;
    if (!out->data) buf_str(out, "");
    return end;
}

void line_remember(struct line *l, const char *text) {
    struct buf b = {0};
    struct err e;
    if (!l->path || !*text) return;
    char *dir = xstrdup(l->path);
    *strrchr(dir, '/') = 0;
    if (!io_is_dir(dir) && io_make_dir(dir, &e) == 0) (void)os_chmod(dir, 0700);
    free(dir);
    const int fd = os_open(l->path, OS_WRITE | OS_CREATE | OS_APPEND, 0600);
    if (fd < 0) return;
    json_quote(&b, text, strlen(text));
    buf_chr(&b, '\n');
    (void)os_write(fd, b.data, b.len);
    os_close(fd);
    buf_release(&b);
}
