// SPDX-License-Identifier: MIT
/* base/log.h - leveled messages to stderr: "hone: warning: ...". Messages begin in lower case and
 * have no full stop. A warning names a consequence for the output; messages without one have level
 * debug. */
#ifndef HONE_BASE_LOG_H
#define HONE_BASE_LOG_H

#include "base/attr.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* Sets the level. Like all setters here, acts on the calling thread's context (base/ctx.h). cli/
 * sets levels before threads start; the default is LOG_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* Allows (1) or forbids (0) ANSI colours on stderr; cli/ decides. */
void log_set_color(int color);
/* Records whether stderr shows an unfinished progress line, which the next message must clear
 * (base/progress.c only). */
void log_set_line(int open);

/* Sends messages to `sink` instead of stderr; any thread of the job may call it. NULL: back to
 * stderr. */
typedef void (*log_sink)(void *ud, enum log_level level, const char *text);
/* Sets the function that receives this context's messages; NULL: the default output. */
void log_set_sink(log_sink sink, void *ud);

void log_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_info(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_debug(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
