// SPDX-License-Identifier: MIT
/* chat/talk.h - a growing conversation. Messages are kept as JSON text, so that numbers reach the
 * template as they were written: 1.0, and integers of any size. The format is the one that
 * `hone run --chat` reads. */
#ifndef HONE_CHAT_TALK_H
#define HONE_CHAT_TALK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct talk {    /* zero-initialized: empty */
    char **msg;  /* JSON objects */
    char **role; /* "system", "user", "assistant", "tool", ...; "": none */
    int n;
    char *extra; /* the other members, as "\"tools\":[...],..."; NULL: none */
    char *tools; /* list of tools, JSON text; NULL: none */
    int n_calls; /* calls so far, for unique ids */
};
void talk_release(struct talk *t);
/* Replaces t by a conversation parsed from `len` bytes of JSON: {"messages": [...], "tools":
 * [...]?, ...} or an array of messages. what: name of the text in error messages. On error t is
 * unchanged. */
int talk_parse(struct talk *t, const char *text, size_t len, const char *what, struct err *e);
/* Writes the conversation as JSON, leaving out the first `skip` messages as counted by talk_skip();
 * leading system messages stay. */
void talk_write(const struct talk *t, int skip, struct buf *out);

void talk_add(struct talk *t, const char *role, const char *content, size_t len);
/* Appends an answer of the model. calls: a list of {"name", "arguments"} as in chat/toolfmt.h;
 * empty or NULL: none. reasoning: "" or NULL: none. */
void talk_add_answer(struct talk *t, const char *content, const char *reasoning,
                     const struct json *calls);
/* Adds `len` bytes of text as the result of the first call of the last answer that has none yet.
 * Returns false, and adds nothing, if there is no such call. */
bool talk_add_result(struct talk *t, const char *text, size_t len);
int talk_open_calls(const struct talk *t); /* calls of the last answer without a result */
void talk_drop_last(struct talk *t);
/* Sets or replaces the leading system message; text NULL: removes it. */
void talk_set_system(struct talk *t, const char *text);
char *talk_system(const struct talk *t); /* its text, free(); NULL: none, or not a string */
void talk_clear(struct talk *t);         /* keeps the leading system messages and the tools */
const char *talk_last_role(const struct talk *t); /* "": no messages */
/* Returns the text of message i, which the caller frees. NULL: the content is not a string, or
 * there is no such message. */
char *talk_content(const struct talk *t, int i);

/* Returns the number of messages after the system messages up to the end of the first turn after
 * `skip` of them; a turn begins with a user message. -1: only one turn is left. */
int talk_skip(const struct talk *t, int skip);
/* Drops the oldest whole turns, as few as needed for count() to report at most n_most tokens; the
 * last turn always stays. *skip: start value and result. */
typedef int (*talk_count)(void *ud, int skip, int64_t *n, struct err *e);
int talk_fit(const struct talk *t, int64_t n_most, talk_count count, void *ud, int *skip,
             struct err *e);

#endif
