// SPDX-License-Identifier: MIT
/* template/chat_ends.h - detection of the tokens that end an answer. */
#ifndef HONE_TEMPLATE_CHAT_ENDS_H
#define HONE_TEMPLATE_CHAT_ENDS_H

#include "template/chat.h"

/* Renders probes and registers with t the tokens that the template writes after an answer or after
 * calls (tok_set_turn_end). Usual end tokens that it writes inside answers are unregistered
 * (tok_not_end). No effect if the template refuses the probes. Call before threads share t. */
void chat_find_ends(const struct chat *c, struct tok *t);
/* Calls chat_find_ends for the template of a GGUF file, if it has one that compiles. */
void chat_find_ends_gguf(const struct gguf *g, struct tok *t);

#endif
