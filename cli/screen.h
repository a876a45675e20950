// SPDX-License-Identifier: MIT
/* cli/screen.h - display of an answer while it is generated: reasoning dimmed, folded or hidden,
 * tool calls readable, control characters visible. If stdout is not a terminal it receives the
 * answer without reasoning, with bytes and calls unchanged. */
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
    FILE *out;     /* NULL: show nothing */
    bool tty;      /* out is a terminal: make control characters visible */
    bool color;    /* out accepts colours */
    bool note_tty; /* stderr is a terminal that accepts colours */
    enum run_thinking thinking;
    /* state of the current answer: */
    size_t n_reasoning, n_content; /* bytes shown */
    int64_t n_thought;             /* reasoning tokens so far */
    bool open;                     /* reasoning has begun on the screen and not ended */
    bool at_start;                 /* the line is empty */
    double t_drawn;
};
/* Begins showing on `out`; NULL: shows nothing. */
void screen_init(struct screen *s, FILE *out, bool color);
/* Starts the display of an answer. Not called when an answer is continued. */
void screen_begin(struct screen *s);
/* Shows the part of the answer that became final since the last call. n_drawn: tokens sampled so
 * far. */
void screen_update(struct screen *s, struct toolparse *p, int64_t n_drawn);
/* Shows the rest of the complete answer. */
void screen_end(struct screen *s, const char *reasoning, const char *content,
                const struct json *calls, struct toolparse *p);
/* Shows n bytes of raw text: output with --raw, or the continuation of a text. */
void screen_text(struct screen *s, const char *text, size_t n);
/* Ends the line on the screen, unless it is empty. */
void screen_newline(struct screen *s);
/* Prints a note about the answer, dimmed, on stderr; nothing with -q. */
void screen_note(const struct screen *s, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
