// SPDX-License-Identifier: MIT
/* template/chat_ends.h - which tokens end an answer, found by rendering. */
#ifndef HONE_TEMPLATE_CHAT_ENDS_H
#define HONE_TEMPLATE_CHAT_ENDS_H

#include "template/chat.h"

/* Renders probes with the template and makes what it writes after an answer, or after calls, ends
 * of answers in t (tok_set_turn_end); usual texts that it writes inside answers are none
 * (tok_not_end). A template that refuses the probes changes nothing. Before threads share t. */
void chat_find_ends(const struct chat *c, struct tok *t);
/* Does the same with the template of a GGUF file, if it has one that compiles. */
void chat_find_ends_gguf(const struct gguf *g, struct tok *t);

#endif
