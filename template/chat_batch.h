// SPDX-License-Identifier: MIT
/* template/chat_batch.h - batches of renderings, for comparison with other engines. */
#ifndef HONE_TEMPLATE_CHAT_BATCH_H
#define HONE_TEMPLATE_CHAT_BATCH_H

#include "base/buf.h"
#include "base/err.h"
#include "template/jinja.h"

/* Renders one template with many scenarios, JSON text of `len` bytes: {"defaults": {...}, "clock":
 * "2026-03-05T14:30:00", "scenarios": [{"id", "messages", ...}]}. `what` names that text in
 * messages. out gets a JSON object: id -> text or {"error", "kind"}. */
int chat_batch_render(const char *tmpl, size_t tmpl_len, const char *name, enum jinja_mode mode,
                      const char *scenarios, size_t len, const char *what, struct buf *out,
                      struct err *e);
/* Renders many templates, each with its own variables. units is {"engine": {"clock"}, "units":
 * [{"id", "template", "context"}]}. The output has the same form as from chat_batch_render. */
int chat_batch_eval(const char *units, size_t len, const char *what, enum jinja_mode mode,
                    struct buf *out, struct err *e);
/* Parses a time such as "2026-03-05T14:30:00", or a date alone, into seconds since 1970 in UTC.
 * Returns false for any other form. */
bool chat_clock(const char *text, int64_t *now);

#endif
