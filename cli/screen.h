// SPDX-License-Identifier: MIT
/* cli/screen.h - an answer as a person sees it while it is written: reasoning dimmed, folded or
 * hidden, tool calls readable, what could command the terminal made visible. Where stdout is no
 * terminal it gets the answer without reasoning, bytes as they are, calls as they were written. */
#ifndef HONE_CLI_SCREEN_H
#define HONE_CLI_SCREEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/generate/run_set.h"
#include "base/attr.h"
#include "base/json.h"
#include "chat/toolfmt.h"

struct screen {
    FILE *out;     /* NULL: nothing is shown */
    bool tty;      /* a terminal: controls are made visible */
    bool color;    /* it may be told colours */
    bool note_tty; /* stderr is a terminal that may be told colours */
    enum run_thinking thinking;
    /* of the answer under way */
    size_t n_reasoning, n_content; /* bytes shown */
    int64_t n_thought;             /* tokens so far that are reasoning */
    bool open;                     /* reasoning is on the screen, its end not yet */
    bool at_start;                 /* nothing is in this line */
    double t_drawn;
};
void screen_init(struct screen *s, FILE *out, bool color);
/* Begins to show an answer. It is not called for one that goes on. */
void screen_begin(struct screen *s);
/* Shows what of the answer has become certain since the last call. n_drawn counts its tokens so
 * far. */
void screen_update(struct screen *s, struct toolparse *p, int64_t n_drawn);
/* Shows what of the whole answer, now that it is read, was not shown yet. */
void screen_end(struct screen *s, const char *reasoning, const char *content,
                const struct json *calls, struct toolparse *p);
/* Shows n bytes of text as it is: raw output, or the continuation of a text. */
void screen_text(struct screen *s, const char *text, size_t n);
/* Ends the line on the screen, unless it is empty. */
void screen_newline(struct screen *s);
/* Prints a sentence beside the answer, on stderr and dimmed. With -q it prints nothing. */
void screen_note(const struct screen *s, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
