// SPDX-License-Identifier: MIT
/* tests/command.h - runs a command of the program in this process, with the library's options, to
 * compare its result with that of the library call. */
#ifndef HONE_TESTS_COMMAND_H
#define HONE_TESTS_COMMAND_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "lib/call.h"

struct result {
    char *text; /* what the command prints; never NULL */
    size_t len;
    char message[1024]; /* what went wrong; "" when nothing */
};

static inline void result_free(struct result *r) {
    free(r->text);
    *r = (struct result){0};
}

/* Runs the command `name` with args, which end with NULL, and fills r. Returns its status. */
static inline int command(const char *name, const char *const *args, const struct hone_opts *o,
                          struct result *r) {
    struct hone_error e = {0};
    struct owner *owner;
    struct call c = {0};
    *r = (struct result){0};
    FILE *out = tmpfile(); /* not open_memstream, which Windows lacks */
    int rc = owner_new(&owner, o, NULL, &e), n = 2;
    if (!rc) rc = call_begin(&c, owner, &e);
    if (!rc) {
        struct cli cli = {.work.ctx = ctx_current(), .out = out, .form = EMIT_JSON};
        char *argv[64] = {strdup("hone"), strdup(name)};
        for (; args && args[n - 2]; n++) argv[n] = strdup(args[n - 2]);
        if (!o || !o->log) log_set_level(LOG_INFO);
        rc = call_end(&c, command_run(&cli, n, argv, &c.err), &e);
        while (n > 0) free(argv[--n]);
    }
    owner_drop(owner);
    if (out && fseek(out, 0, SEEK_END) == 0) r->len = (size_t)ftell(out);
    r->text = calloc(1, r->len + 1);
    if (out) rewind(out);
    if (out && r->text) r->len = fread(r->text, 1, r->len, out);
    if (out) fclose(out);
    /* as the program says it: call_end has the words of the library */
    snprintf(r->message, sizeof r->message, "%s", !rc ? "" : c.err.msg[0] ? c.err.msg : e.message);
    return rc;
}

#endif
