// SPDX-License-Identifier: MIT
/* core/log.h - levelled messages to stderr: "hone: warning: ...". Lower case, no full stop.
 * A warning names a consequence for the output; without one it is debug. */
#ifndef HONE_CORE_LOG_H
#define HONE_CORE_LOG_H

#include "core/attr.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* Process-wide; set once by cli/ before threads start. Default LOG_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* colour: 1 when stderr may carry ANSI colours (decided by cli/). */
void log_set_color(int color);
/* open: stderr holds an unfinished progress line; the next message clears it (core/prog.c only). */
void log_set_line(int open);

/* Messages go to `sink` instead of stderr; NULL: to stderr again. It may be called by any thread.
 */
typedef void (*log_sink)(void *ctx, enum log_level level, const char *text);
void log_set_sink(log_sink sink, void *ctx);

void log_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_info(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_debug(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_trace(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
