// SPDX-License-Identifier: MIT
/* chat/think.h - search for the template variable that turns a model's thinking on and off. Its
 * name differs between templates. Candidates are tested by rendering, since a variable that occurs
 * in a template need not have an effect. */
#ifndef HONE_CHAT_THINK_H
#define HONE_CHAT_THINK_H

#include "template/chat.h"

/* Renders a conversation of one short message into out, so that the caller can see how prompts end.
 * Returns false if the template fails or writes nothing. */
bool think_sample(const struct chat *c, struct buf *out);
/* Returns the JSON member, such as "\"enable_thinking\": false", that turns thinking on or off when
 * added to the template's variables. tmpl: text of the template. The string is static. NULL: no
 * known variable changes the rendering. */
const char *think_member(const struct chat *c, const char *tmpl, bool on);
/* Writes a JSON object to out with `member` prepended, unless it has a member of that name already.
 * object NULL: {}. */
int think_merge(const char *member, const char *object, struct buf *out, struct err *e);

#endif
