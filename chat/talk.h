// SPDX-License-Identifier: MIT
/* chat/talk.h - a conversation to which messages are added. It stores messages as JSON text, so
 * that the template receives numbers as they were written, e.g. 1.0 or integers of any size. Its
 * format is the one that `hone run --chat` reads. */
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
    char *extra; /* members other than "messages", as "\"tools\":[...],..."; NULL: none */
    char *tools; /* list of tools, JSON text; NULL: none */
    int n_calls; /* number of calls so far, to make ids unique */
};
void talk_release(struct talk *t);
/* Replaces t by a conversation parsed from `len` bytes of JSON: {"messages": [...], "tools":
 * [...]?, ...} or an array of messages. what: name of the JSON text in error messages. On error t
 * is unchanged. */
int talk_parse(struct talk *t, const char *text, size_t len, const char *what, struct err *e);
/* Writes the conversation as JSON without the first `skip` messages after the leading system
 * messages (see talk_skip()). */
void talk_write(const struct talk *t, int skip, struct buf *out);

/* Appends a message with len bytes of content. */
void talk_add(struct talk *t, const char *role, const char *content, size_t len);
/* Appends a user's message that begins with n images, each a file or data URL; len 0: without a
 * text. */
void talk_add_images(struct talk *t, const char *const *image, int n, const char *content,
                     size_t len);
/* Appends an answer of the model. calls: a list of {"name", "arguments"} as in chat/toolfmt.h;
 * empty or NULL: none. reasoning: "" or NULL: none. */
void talk_add_answer(struct talk *t, const char *content, const char *reasoning,
                     const struct json *calls);
/* Adds `len` bytes of text as the result of the last answer's first call without a result. Returns
 * false, and adds nothing, if there is no such call. */
bool talk_add_result(struct talk *t, const char *text, size_t len);
int talk_open_calls(const struct talk *t); /* calls of the last answer without a result */
/* Removes the last message; does nothing without messages. */
void talk_drop_last(struct talk *t);
/* Removes the last message and returns it, for talk_put_back() or free(); NULL: no messages. */
char *talk_take_last(struct talk *t);
/* Appends a message of this role that talk_take_last() returned, and takes ownership of it. */
void talk_put_back(struct talk *t, const char *role, char *msg);
/* Sets or replaces the leading system message; text NULL: removes it. */
void talk_set_system(struct talk *t, const char *text);
char *talk_system(const struct talk *t); /* its text, free(); NULL: none, or not a string */
void talk_clear(struct talk *t);         /* keeps the leading system messages and the tools */
const char *talk_last_role(const struct talk *t); /* "": no messages */
/* Returns the text of message i, which the caller frees. NULL: the content is not a string, or
 * there is no such message. */
char *talk_content(const struct talk *t, int i);

/* Returns how many messages to skip in order to drop one more turn than `skip` does. A turn begins
 * with a user message; leading system messages are not counted. -1: only one turn is left. */
int talk_skip(const struct talk *t, int skip);
/* Drops whole turns, oldest first, until count() reports at most n_most tokens. The last turn
 * always stays. *skip: start value and result. */
typedef int (*talk_count)(void *ud, int skip, int64_t *n, struct err *e);
/* Raises *skip until the remaining messages have at most n_most tokens or nothing more can be
 * skipped. */
int talk_fit(const struct talk *t, int64_t n_most, talk_count count, void *ud, int *skip,
             struct err *e);

#endif
