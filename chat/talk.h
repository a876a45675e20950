// SPDX-License-Identifier: MIT
/* chat/talk.h - a conversation as it grows: messages kept as JSON text, in which numbers stay as
 * they were written: 1.0 and integers of any size must reach the template. Read from and written as
 * what `hone run --chat` takes. */
#ifndef HONE_CHAT_TALK_H
#define HONE_CHAT_TALK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct talk {    /* zero-initialised is an empty one */
    char **msg;  /* JSON objects */
    char **role; /* "system", "user", "assistant", "tool", ...; "" when a message has none */
    int n;
    char *extra; /* the other members, as "\"tools\":[...],..."; NULL: none */
    char *tools; /* the list of tools, JSON text; NULL: none */
    int n_calls; /* given so far: their ids differ */
};
void talk_release(struct talk *t);
/* Reads a conversation from JSON text of `len` bytes, in place of what t held: {"messages": [...],
 * "tools": [...]?, ...}, or an array of messages. `what` names the text in messages of errors.
 * After an error t is as it was. */
int talk_parse(struct talk *t, const char *text, size_t len, const char *what, struct err *e);
/* Writes the conversation as JSON without the first `skip` messages that talk_skip() counts; system
 * messages at the head stay. */
void talk_write(const struct talk *t, int skip, struct buf *out);

void talk_add(struct talk *t, const char *role, const char *content, size_t len);
/* Appends an answer of the model to the conversation. calls is a list of {"name", "arguments"}, as
 * chat/toolfmt.h gives it; an empty list or NULL: the answer has no calls. reasoning is what the
 * model thought; "" or NULL: nothing. */
void talk_add_answer(struct talk *t, const char *content, const char *reasoning,
                     const struct json *calls);
/* Adds `len` bytes of text as the result of the first call of the last answer that has none yet.
 * Returns false, and adds nothing, when there is no such call. */
bool talk_add_result(struct talk *t, const char *text, size_t len);
int talk_open_calls(const struct talk *t); /* calls of the last answer without a result */
void talk_drop_last(struct talk *t);
/* Sets the system message at the head, or replaces it; text NULL: removes it. */
void talk_set_system(struct talk *t, const char *text);
char *talk_system(const struct talk *t); /* its text, free(); NULL: none, or not a text */
void talk_clear(struct talk *t);         /* but the system messages at the head, and tools */
const char *talk_last_role(const struct talk *t); /* "" when there are no messages */
/* Returns the text of the i-th message, to be freed with free(). NULL when its content is no text,
 * or there is no such message. */
char *talk_content(const struct talk *t, int i);

/* Returns the number of messages behind the system messages up to the end of the first turn after
 * `skip` of them: a turn begins with a message of the user. -1 when only one turn is left. */
int talk_skip(const struct talk *t, int skip);
/* Leaves out the oldest whole turns, as few as needed, so that count() says at most n_most tokens;
 * the last turn always stays. *skip: where to begin, and what came of it. */
typedef int (*talk_count)(void *ud, int skip, int64_t *n, struct err *e);
int talk_fit(const struct talk *t, int64_t n_most, talk_count count, void *ud, int *skip,
             struct err *e);

#endif
