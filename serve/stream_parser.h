// SPDX-License-Identifier: MIT
/* serve/stream_parser.h - incremental parser of an answer's text. It emits events for reasoning,
 * content and calls, never splits a character, and finds stop texts. It does not depend on the
 * model. */
#ifndef HONE_SERVE_STREAM_PARSER_H
#define HONE_SERVE_STREAM_PARSER_H

#include "serve/reply.h"
#include "chat/toolfmt.h"

struct parser;
typedef void (*parser_sink)(void *ud, const struct event *ev);
/* Creates the stream parser for one choice; free it with parser_free(). sink is called with ud for
 * each event. a, which has the tools and stop texts, is borrowed. think: whether the prompt has
 * opened reasoning. fmt: format of reasoning and calls; NULL: everything is content (text
 * completions). */
int parser_new(struct parser **out, const struct ask *a, const struct toolfmt *fmt,
               enum tool_think think, int choice, parser_sink sink, void *ud, struct err *e);
void parser_free(struct parser *s);
/* Sets the call marker at the end of the prompt; NULL: none. Call before parser_feed(). */
void parser_opened(struct parser *s, const char *marker);
/* Sets which texts end turns: see toolparse_ends(). Call before parser_feed(). */
void parser_ends(struct parser *s, toolparse_is_end *is_end, void *ud);
/* Emits a call only once it is complete, for answers that no grammar constrains: the model may
 * never complete it, and then it is text. Call before parser_feed(). */
void parser_whole_calls(struct parser *s);
/* Parses the next bytes, which may be split anywhere. Returns true if the answer ends at a stop
 * text, *stop. */
bool parser_feed(struct parser *s, const char *text, size_t n, const char **stop);
/* Returns whether the next text is reasoning. */
bool parser_thinks(const struct parser *s);
/* Returns whether the text so far ends within a character. */
bool parser_half(const struct parser *s);
/* Ends the text: emits the text that was held back, then the remaining calls. Appends the problems
 * found, as elements of a JSON list. cut: a limit ended the answer, so an incomplete call is
 * dropped. Sets *stop to a stop text found in the held-back text, or NULL. Returns the number of
 * calls. */
int parser_end(struct parser *s, bool cut, struct buf *problems, const char **stop);
/* Returns the number of calls written as bare JSON; call after parser_end(). */
int parser_loose(const struct parser *s);
/* Classifies each of the n byte offsets at[] by its place in a tool call, or outside calls, and
 * adds the counts to *out. Call after parser_end(). Does nothing if the answer cannot contain
 * calls. */
void parser_tally(const struct parser *s, const size_t *at, int64_t n, struct tool_tally *out);

#endif
