// SPDX-License-Identifier: MIT
/* base/log.c - leveled messages. Each is written to stderr in one piece, so that lines of different
 * threads do not mix. An unfinished progress line (base/progress.c) is cleared first. Never writes
 * to stdout. Messages quote files, so their control characters are spelled out (base/visible.h). */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/visible.h"

void log_set_level(enum log_level level) {
    atomic_store(&ctx_current()->log.level, (int)level);
}

enum log_level log_get_level(void) {
    return (enum log_level)atomic_load(&ctx_current()->log.level);
}

void log_set_color(int color) {
    atomic_store(&ctx_current()->log.color, color);
}

void log_set_sink(log_sink sink, void *ud) {
    struct ctx *c = ctx_current();
    c->log.sink = sink;
    c->log.sink_ud = ud;
}

void log_set_line(int open) {
    atomic_store(&ctx_current()->log.line_open, open);
}

/* Returns whether the text is printable ASCII and line ends, which needs no memory to show. */
static bool is_plain(const char *s) {
    while ((*s >= ' ' && *s < 0x7f) || *s == '\n') s++;
    return !*s;
}
/* Sends the message to the context's sink or to stderr. */
static void show(struct ctx *c, enum log_level level, const char *head, const char *msg) {
    if (c->log.sink) {
        c->log.sink(c->log.sink_ud, level, msg);
        return;
    }
    const char *clear = atomic_exchange(&c->log.line_open, 0) ? "\r\033[K" : "";
    fprintf(stderr, "%shone: %s%s\n", clear, head, msg);
}

__attribute__((format(printf, 2, 0))) static void write_line(enum log_level level, const char *fmt,
                                                             va_list ap) {
    static const struct {
        const char *plain, *color;
    } prefix[] = {
        [LOG_ERROR] = {"error: ", "\033[1;31merror:\033[0m "},
        [LOG_WARN] = {"warning: ", "\033[1;33mwarning:\033[0m "},
        [LOG_INFO] = {"", ""},
        [LOG_DEBUG] = {"debug: ", "\033[2mdebug:\033[0m "},
        [LOG_TRACE] = {"trace: ", "\033[2mtrace:\033[0m "},
    };
    struct ctx *c = ctx_current();
    if ((int)level > atomic_load(&c->log.level)) return;
    char msg[4096];
    vsnprintf(msg, sizeof msg, fmt, ap);
    const char *head = atomic_load(&c->log.color) ? prefix[level].color : prefix[level].plain;
    if (is_plain(msg)) {
        show(c, level, head, msg);
        return;
    }
    struct buf b = {0};
    text_visible(&b, msg, strlen(msg));
    buf_chr(&b, 0);
    show(c, level, head, (const char *)b.data);
    buf_release(&b);
}

#define LOG_FN(name, level)                                                                        \
    void name(const char *fmt, ...) {                                                              \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        write_line(level, fmt, ap);                                                                \
        va_end(ap);                                                                                \
    }
LOG_FN(log_error, LOG_ERROR)
LOG_FN(log_warn, LOG_WARN)
LOG_FN(log_info, LOG_INFO)
LOG_FN(log_debug, LOG_DEBUG)
