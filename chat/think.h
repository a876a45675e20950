// SPDX-License-Identifier: MIT
/* chat/think.h - the template variable that turns a model's thinking on and off. Its name differs
 * between templates. It is found by rendering, since a name that occurs need not have an effect. */
#ifndef HONE_CHAT_THINK_H
#define HONE_CHAT_THINK_H

#include "template/chat.h"

/* Returns a member for the template's variables that turns thinking on or off, such as
 * "\"enable_thinking\": false". tmpl: text of the template. The string is static. NULL: no known
 * variable changes the rendering. */
const char *think_member(const struct chat *c, const char *tmpl, bool on);
/* Prepends a member to a JSON object unless the object has that name already. object NULL: {}. */
int think_merge(const char *member, const char *object, struct buf *out, struct err *e);

#endif
