// SPDX-License-Identifier: MIT
/* serve/stream_parser.h - the text of an answer, as its tokens give it, to events: whole
 * characters, reasoning apart from content, calls, stop texts. Knows no model. */
#ifndef HONE_SERVE_STREAM_PARSER_H
#define HONE_SERVE_STREAM_PARSER_H

#include "serve/reply.h"
#include "chat/toolfmt.h"

struct parser;
typedef void (*parser_sink)(void *ud, const struct event *ev);
/* Makes what turns the text of answer number `choice` into events, which sink gets with ud;
 * parser_free frees it. a is borrowed, with its tools and stop texts. think is what the end of the
 * prompt says about reasoning. fmt says how reasoning and calls are written; NULL means that all is
 * content (text completions). */
int parser_new(struct parser **out, const struct ask *a, const struct toolfmt *fmt,
               enum tool_think think, int choice, parser_sink sink, void *ud, struct err *e);
void parser_free(struct parser *s);
/* Says that the prompt ends with this marker of calls, before text is fed; NULL: with none. */
void parser_opened(struct parser *s, const char *marker);
/* Takes bytes of any cut. Returns true when the answer ends here, at the stop text *stop. */
bool parser_feed(struct parser *s, const char *text, size_t n, const char **stop);
/* Tells whether what comes now is reasoning. */
bool parser_thinks(const struct parser *s);
/* Tells whether a character has begun that is not complete. */
bool parser_half(const struct parser *s);
/* Ends the text: what was held back comes out, then calls that are complete. Appends what was wrong
 * to problems, as elements of a JSON list. cut tells that a limit ended it, so that what begins
 * like a call is one that is not complete, and is left out. Returns the number of calls. Sets *stop
 * to the stop text that what was held back had, or to NULL. */
int parser_end(struct parser *s, bool cut, struct buf *problems, const char **stop);
/* Returns how many of the calls were written as bare JSON, after parser_end. */
int parser_loose(const struct parser *s);
/* Counts where in calls n bytes of the text are, after parser_end; of answers that may have none,
 * nothing. */
void parser_tally(const struct parser *s, const size_t *at, int64_t n, struct tool_tally *out);

#endif
