// SPDX-License-Identifier: MIT
/* cli/screen.c - display of answers on a terminal or in a file (screen.h). */
#include "cli/screen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/visible.h"

static const char dim[] = "\033[2m", plain[] = "\033[0m", wipe[] = "\r\033[K";
static const double redraw_s = 0.1;

void screen_init(struct screen *s, FILE *out, bool color) {
    memset(s, 0, sizeof *s);
    s->out = out;
    s->tty = out && os_is_tty(out);
    s->color = s->tty && color;
    s->note_tty = color && os_is_tty(stderr);
    s->at_start = true;
}

void screen_begin(struct screen *s) {
    s->n_reasoning = s->n_content = 0;
    s->n_thought = 0;
    s->open = false;
    s->at_start = true;
    s->t_drawn = 0;
}

/* Shows n bytes; on a terminal with control characters made visible. */
static void put_text(struct screen *s, const char *text, size_t n) {
    if (!s->out || !n) return;
    if (s->tty) {
        struct buf b = {0};
        text_visible(&b, text, n);
        fwrite(b.data, 1, b.len, s->out);
        buf_release(&b);
    } else
        fwrite(text, 1, n, s->out);
    s->at_start = text[n - 1] == '\n';
    fflush(s->out);
}

void screen_text(struct screen *s, const char *text, size_t n) {
    put_text(s, text, n);
}

void screen_newline(struct screen *s) {
    if (s->out && !s->at_start) fputc('\n', s->out);
    if (s->out) fflush(s->out);
    s->at_start = true;
}

/* ---- reasoning: on terminals only ---- */

/* Begins showing reasoning. */
static void open_thought(struct screen *s) {
    s->open = true;
    if (s->thinking == THINKING_SHOW) fputs(s->color ? dim : "[thinking]\n", s->out);
}

/* Shows how long the reasoning is, at most every redraw_s seconds. */
static void draw_folded(struct screen *s) {
    const double now = progress_now_s();
    if (!s->color || now - s->t_drawn < redraw_s) return;
    s->t_drawn = now;
    fprintf(s->out, "%s%sthinking: %" PRId64 " tokens%s", wipe, dim, s->n_thought, plain);
    fflush(s->out);
}

/* Ends showing reasoning; nothing if none is shown. */
static void close_thought(struct screen *s) {
    if (!s->open) return;
    s->open = false;
    if (s->thinking == THINKING_SHOW) {
        if (!s->at_start) fputc('\n', s->out);
        fputs(s->color ? plain : "[answer]", s->out);
        fputc('\n', s->out);
    } else {
        fprintf(s->out, "%s%sthought for %" PRId64 " tokens%s\n\n", s->color ? wipe : "",
                s->color ? dim : "", s->n_thought, s->color ? plain : "");
    }
    s->at_start = true;
    fflush(s->out);
}

/* Shows the reasoning that is new since the last call; n: bytes in all. */
static void show_thought(struct screen *s, const char *text, size_t n) {
    if (!s->out || !s->tty || s->thinking == THINKING_HIDE || n <= s->n_reasoning) return;
    if (!s->open) open_thought(s);
    if (s->thinking == THINKING_SHOW)
        put_text(s, text + s->n_reasoning, n - s->n_reasoning);
    else
        draw_folded(s);
    s->n_reasoning = n;
}

/* Shows the content that is new since the last call; n: bytes in all. */
static void show_content(struct screen *s, const char *text, size_t n) {
    if (n <= s->n_content) return;
    close_thought(s);
    put_text(s, text + s->n_content, n - s->n_content);
    s->n_content = n;
}

void screen_update(struct screen *s, struct toolparse *p, int64_t n_drawn) {
    size_t n;
    const char *text = toolparse_content(p, &n);
    if (!n) { /* Content ends the reasoning. */
        size_t n_r;
        const char *r = toolparse_reasoning(p, &n_r);
        if (n_r) s->n_thought = n_drawn;
        show_thought(s, r, n_r);
    }
    show_content(s, text, n);
}

/* ---- the end ---- */

/* Prints the name of a call, then its arguments, one per line. */
static void show_call(struct screen *s, const struct json *call) {
    struct buf b = {0};
    const char *name = json_str(json_get(call, "name"));
    const struct json *args = json_get(call, "arguments");
    buf_fmt(&b, "[call] %s\n", name ? name : "?");
    for (const struct json *a = json_first(args); a; a = json_next(a)) {
        buf_fmt(&b, "    %s = ", json_name(a));
        json_write(&b, a);
        buf_chr(&b, '\n');
    }
    put_text(s, b.data, b.len);
    buf_release(&b);
}

void screen_end(struct screen *s, const char *reasoning, const char *text, const struct json *calls,
                struct toolparse *p) {
    if (!s->out) return;
    if (!s->n_content) show_thought(s, reasoning, strlen(reasoning));
    if (!s->tty && json_len(calls)) {
        size_t n;
        const char *streamed = toolparse_content(p, &n);
        show_content(s, streamed, n);
        const char *rest = toolparse_rest(p, &n);
        put_text(s, rest, n);
    } else {
        show_content(s, text, strlen(text));
        close_thought(s);
        if (json_len(calls)) screen_newline(s);
        for (const struct json *c = json_first(calls); c; c = json_next(c)) show_call(s, c);
    }
    screen_newline(s);
}

void screen_note(const struct screen *s, const char *fmt, ...) {
    char text[4096];
    va_list ap;
    if (log_get_level() < LOG_INFO) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s%s%s\n", s->note_tty ? dim : "", text, s->note_tty ? plain : "");
    fflush(stderr);
}
