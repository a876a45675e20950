// SPDX-License-Identifier: MIT
/* chat/think.h - the variable by which a template switches a model's thinking on and off: they have
 * several names. Found by rendering, since a name that occurs need not decide anything. */
#ifndef HONE_CHAT_THINK_H
#define HONE_CHAT_THINK_H

#include "template/chat.h"

/* Returns a member for the variables of the template that switches thinking on or off, such as
 * "\"enable_thinking\": false". tmpl is the text of the template, and the returned string is
 * static. NULL when nothing known changes what this template writes. */
const char *think_member(const struct chat *c, const char *tmpl, bool on);
/* Puts a member in front of those of a JSON object, unless the object has that name already.
 * object: NULL is {}. */
int think_merge(const char *member, const char *object, struct buf *out, struct err *e);

#endif
