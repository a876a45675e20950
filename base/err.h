// SPDX-License-Identifier: MIT
/* base/err.h - the one error idiom.
 *
 * A function that can fail returns int: 0, or an enum err_code, and fills `struct err *e`, its last
 * parameter. It neither prints nor exits; cli/main.c does both. A message is one clear sentence
 * that names the file, tensor or offset and, when known, the remedy. Callers add where they were
 * with err_wrap(). */
#ifndef HONE_BASE_ERR_H
#define HONE_BASE_ERR_H

#include "base/attr.h"

/* ERR_OK, ERR_VERDICT, ERR_USAGE, ERR_DATA, ERR_SYS, ERR_INTR: what each means is in the table. */
enum err_code {
#define STATUS(id, public_id, status, name, brief, meaning) ERR_##id = (status),
#include "base/status.def"
#undef STATUS
};

/* A row of base/status.def. */
struct err_status {
    int status;          /* what the process ends with */
    const char *name;    /* one word for programs: "usage" */
    const char *brief;   /* for a list on one line: "bad input data" */
    const char *meaning; /* whole sentences */
};
/* Returns row i of the table, in ascending order of the status; NULL behind the last one. */
const struct err_status *err_status(int i);

struct err {
    enum err_code code;
    char msg[1024];
    char file[512], tensor[128]; /* what it is about, for programs; "": not known, or neither */
};

/* Sets code and message; returns the code. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Does what err_set does and appends ": " and the text of errno, which is read at entry;
 * ERR_SYS. */
int err_sys(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Does the same about a path that somebody named, the first argument behind the format: ERR_USAGE
 * when nothing is there (ENOENT, ENOTDIR), since the machine did nothing wrong. */
int err_path(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Puts "prefix: " in front of the message ("model.gguf: tensor 7: old message"), unless it begins
 * with the prefix already; returns e->code. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Says for programs which file and which tensor an error is about, where that was not said yet.
 * NULL: nothing of it. Returns e->code. */
int err_about(struct err *e, const char *file, const char *tensor);
/* make analyze, make tidy: they see one file at a time, and no error is 0. */
#ifdef HONE_ANALYZE
#define err_set(e, code, ...) (err_set(e, code, __VA_ARGS__), (int)(code))
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
