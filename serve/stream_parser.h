// SPDX-License-Identifier: MIT
/* serve/stream_parser.h - incremental parser of an answer's text: emits events for reasoning,
 * content and calls, splits only at whole characters, and finds stop texts. Independent of the
 * model. */
#ifndef HONE_SERVE_STREAM_PARSER_H
#define HONE_SERVE_STREAM_PARSER_H

#include "serve/reply.h"
#include "chat/toolfmt.h"

struct parser;
typedef void (*parser_sink)(void *ud, const struct event *ev);
/* Creates the stream parser for one choice; free it with parser_free(). sink gets the events, with
 * ud. a is borrowed, with its tools and stop texts. think: whether the prompt has opened reasoning.
 * fmt: format of reasoning and calls; NULL: everything is content (text completions). */
int parser_new(struct parser **out, const struct ask *a, const struct toolfmt *fmt,
               enum tool_think think, int choice, parser_sink sink, void *ud, struct err *e);
void parser_free(struct parser *s);
/* Sets the call marker at the end of the prompt; NULL: none. Call before parser_feed(). */
void parser_opened(struct parser *s, const char *marker);
/* Feeds bytes, split anywhere. Returns true if the answer ends here, at the stop text *stop. */
bool parser_feed(struct parser *s, const char *text, size_t n, const char **stop);
/* Returns whether the next text is reasoning. */
bool parser_thinks(const struct parser *s);
/* Returns whether the text ends within a character. */
bool parser_half(const struct parser *s);
/* Ends the text: emits the text held back, then complete calls. Appends the problems found, as
 * elements of a JSON list. cut: a limit ended the answer, so an incomplete call is dropped. Sets
 * *stop to the stop text found in the text held back, or NULL. Returns the number of calls. */
int parser_end(struct parser *s, bool cut, struct buf *problems, const char **stop);
/* Returns the number of calls written as bare JSON; call after parser_end(). */
int parser_loose(const struct parser *s);
/* Counts in *out the positions in tool calls of the n byte offsets at[]; call after
 * parser_end(). Counts nothing if the answer may not have calls. */
void parser_tally(const struct parser *s, const size_t *at, int64_t n, struct tool_tally *out);

#endif
