// SPDX-License-Identifier: MIT
/* serve/conv_repair.h - step-by-step repair of conversations that a template rejects.
 *
 * Clients send system messages in the middle, several messages of one role in a row, an assistant
 * message first, no user message at all, a user message after tool results, arguments that a broken
 * stream left incomplete, call ids that Mistral does not allow, or text between reasoning and a
 * call, which gpt-oss does not allow. For such input some templates raise an error, which the user
 * of the client cannot fix; others silently drop the system message. A conversation that the
 * template accepts and renders in full is left unchanged. */
#ifndef HONE_SERVE_CONV_REPAIR_H
#define HONE_SERVE_CONV_REPAIR_H

#include <stdbool.h>

#include "base/buf.h"

enum conv_repair_step { /* in the order they are tried */
                        MEND_NULL,
                        MEND_IDS,
                        MEND_ARGUMENTS,
                        MEND_SYSTEM,
                        MEND_NEIGHBOURS,
                        MEND_RESULTS,
                        MEND_FIRST,
                        MEND_THOUGHT, /* also tried alone, before all others */
                        MEND_NO_SYSTEM,
                        /* Never tried: for templates that print a call's id as its name. */
                        MEND_NUMBERS,
                        MEND_STEPS
};
/* Applies one step to conv. Returns the changed conversation {"messages", "tools"?} as JSON text,
 * freed by the caller, or NULL if there is nothing to change. Sets *what to a description of the
 * change. */
char *conv_repair_conv(const char *conv, enum conv_repair_step step, const char **what);
/* Returns the conversation with each system text replaced by a marker word that no template
 * contains, and lists those words in `words`, one per line. Returns NULL if there are no system
 * texts. The caller frees both. */
char *conv_repair_probe(const char *conv, struct buf *words);
struct jinja_spans;
/* Returns whether at least part of every system message appears in the prompt. */
bool conv_repair_shown(const char *conv, const struct jinja_spans *spans);

#endif
