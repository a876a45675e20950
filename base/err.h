// SPDX-License-Identifier: MIT
/* base/err.h - error codes and messages.
 *
 * A function that can fail returns int: 0 or an enum err_code, with the details in its last
 * parameter, `struct err *e`. It neither prints nor exits; cli/main.c does both. A message is one
 * sentence that names the file, tensor or offset, and the remedy if there is one. Callers add
 * context with err_wrap(). */
#ifndef HONE_BASE_ERR_H
#define HONE_BASE_ERR_H

#include <stdbool.h>

#include "base/attr.h"

/* ERR_OK, ERR_VERDICT, ERR_USAGE, ERR_DATA, ERR_SYS, ERR_INTR: see base/status.def. */
enum err_code {
#define STATUS(id, public_id, status, name, brief, meaning) ERR_##id = (status),
#include "base/status.def"
#undef STATUS
};

/* A row of base/status.def. */
struct err_status {
    int status;          /* exit status of the process */
    const char *name;    /* one word for programs: "usage" */
    const char *brief;   /* entry for a list: "bad input data" */
    const char *meaning; /* full sentences */
};
/* Returns row i of the table, which is sorted by status; NULL after the last one. */
const struct err_status *err_status(int i);

struct err {
    enum err_code code;
    char msg[1024];
    char file[512], tensor[128]; /* subject of the error, for programs; "": unknown or none */
    bool no_memory;              /* out of memory: something that needs less may still work */
};

/* Sets code and message; returns the code. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Like err_set with ERR_SYS, and sets no_memory. */
int err_memory(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Like err_set with ERR_SYS, but appends ": " and the description of errno as it was on entry. */
int err_sys(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Like err_sys, for a path given by the user (the first argument after the format). Returns
 * ERR_USAGE if nothing exists there (ENOENT, ENOTDIR), because that is the user's mistake. */
int err_path(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Prepends "prefix: " to the message ("model.gguf: tensor 7: old message"), unless the message
 * already begins so. Returns e->code. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Records, for programs, the file and the tensor that an error is about, unless they are already
 * recorded. NULL: leaves the field unset. Returns e->code. */
int err_about(struct err *e, const char *file, const char *tensor);
/* Tells make analyze and make tidy, which see one file at a time, that no error code is 0. */
#ifdef HONE_ANALYZE
#define err_set(e, code, ...) (err_set(e, code, __VA_ARGS__), (int)(code))
#define err_memory(...) (err_memory(__VA_ARGS__), (int)ERR_SYS)
#define err_sys(...) (err_sys(__VA_ARGS__), (int)ERR_SYS)
#define err_path(...) (err_path(__VA_ARGS__), (int)ERR_SYS)
#define err_wrap(...) (err_wrap(__VA_ARGS__), (int)ERR_DATA)
#endif

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_rc_ = (call);                                                                      \
        if (try_rc_) return try_rc_;                                                               \
    } while (0)
#define TRY_GOTO(label, rc, call)                                                                  \
    do {                                                                                           \
        (rc) = (call);                                                                             \
        if (rc) goto label;                                                                        \
    } while (0)

#endif
