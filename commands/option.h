// SPDX-License-Identifier: MIT
/* commands/option.h - one option of a command. A table of them ends with {0}; its important rows
 * come first, since --help shows as many as a screen has lines for. */
#ifndef HONE_COMMANDS_OPTION_H
#define HONE_COMMANDS_OPTION_H

#include <stddef.h>

enum option_kind {
    OPT_FLAG,    /* bool */
    OPT_TEXT,    /* const char * */
    OPT_OUT,     /* const char *, a file or folder to write: not a stream */
    OPT_COUNT,   /* int64_t, >= 0 */
    OPT_NUMBER,  /* double */
    OPT_TIME,    /* double, seconds: "90s", "12h", "1h30m", or a number of hours: size.c */
    OPT_MINUTES, /* the same; refuses a plain number, which used to count minutes */
    OPT_SECONDS, /* the same; refuses a plain number, which used to count seconds */
    OPT_SIZE,    /* uint64_t: "16GiB", "700M", "24 gb": size.c */
    OPT_LIST     /* struct str_list, may be given several times */
};
struct option {
    const char *name; /* without "--" */
    char letter;      /* 'o' or 0 */
    enum option_kind kind;
    size_t at;        /* offset of its value in the struct that cli_parse fills */
    const char *arg;  /* "FILE" in the help; NULL for flags */
    const char *help; /* one line */
};

#endif
