// SPDX-License-Identifier: MIT
/* cli/lib.c - include/hone.h: each call runs a command of commands.def with its result going to
 * memory. Levels, limits and the interruption flag belong to the process, so calls run one at a
 * time and each begins by setting them. */
#include "include/hone.h"

#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/lib.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/prog.h"

#define COMMAND(name, id, summary) {name, cmd_##id, summary},
static const struct subcommand commands[] = {
#include "cli/commands.def"
};
#undef COMMAND

const struct subcommand *command_table(int *n) {
    *n = (int)COUNT_OF(commands);
    return commands;
}

/* A signal that a handler took is no error: what is not written yet stays in the stream. */
static int flush_result(FILE *f, struct err *e) {
    while (fflush(f) != 0) {
        if (errno != EINTR) return err_sys(e, "cannot write the result");
        clearerr(f);
    }
    return 0;
}

int command_run(struct cli *c, int argc, char **argv, struct err *e) {
    const struct subcommand *s = commands, *end = commands + COUNT_OF(commands);
    while (s < end && strcmp(s->name, argv[1]) != 0) s++;
    if (s == end)
        return err_set(e, ERR_USAGE, "no command '%s'; 'hone --help' lists them", argv[1]);
    c->full_argc = argc;
    c->full_argv = argv;
    arena_init(&c->mem);
    int rc = s->run(c, argc - 1, argv + 1, e);
    if (rc != 0)
        (void)fflush(c->out); /* the first error counts */
    else
        rc = flush_result(c->out, e);
    pool_free(c->pool);
    arena_release(&c->mem);
    return rc;
}

static pthread_mutex_t one_call = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool in_call;
static struct hone_opts cur; /* of the call that holds the lock */

static void on_log(void *ctx, enum log_level level, const char *text) {
    (void)ctx;
    cur.log(cur.user, (enum hone_level)level, text);
}

static int on_progress(void *ctx, const char *stage, uint64_t done, uint64_t total) {
    (void)ctx;
    return cur.progress ? cur.progress(cur.user, stage, done, total) : 0;
}

static void set_opts(const struct hone_opts *o) {
    memset(&cur, 0, sizeof cur);
    if (o) memcpy(&cur, o, o->size < sizeof cur ? o->size : sizeof cur);
    log_set_sink(cur.log ? on_log : NULL, NULL);
    prog_set_sink(on_progress, NULL);
    prog_resume();
}

static int run(const char *command, const char *const *args, FILE *out, struct err *e) {
    struct cli c = {.out = out, .form = EMIT_JSON};
    int n = 0;
    while (args && args[n]) n++;
    char **argv = xcalloc((size_t)n + 3, sizeof *argv);
    argv[0] = xstrdup("hone");
    argv[1] = xstrdup(command);
    for (int i = 0; i < n; i++) argv[i + 2] = xstrdup(args[i]);
    int rc = command_run(&c, n + 2, argv, e);
    for (int i = 0; i < n + 2; i++) free(argv[i]);
    free(argv);
    return rc;
}

/* Numbers in results and arguments have a decimal point wherever the caller lives. */
static int run_in_c_locale(const char *command, const char *const *args, FILE *out, struct err *e) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return err_sys(e, "%s: no memory", command);
    locale_t callers = uselocale(plain);
    int rc = run(command, args, out, e);
    uselocale(callers);
    freelocale(plain);
    return rc;
}

int hone_call(const char *command, const char *const *args, const struct hone_opts *opts,
              struct hone_result *r) {
    struct err e = {0};
    FILE *out = NULL;
    int rc;
    memset(r, 0, sizeof *r);
    if (in_call)
        rc = err_set(&e, ERR_USAGE, "%s: called from a callback of another call", command);
    else if (opts && opts->size == 0)
        rc = err_set(&e, ERR_USAGE, "%s: hone_opts.size is not set", command);
    else if (!(out = open_memstream(&r->text, &r->len)))
        rc = err_sys(&e, "%s: no memory for the result", command);
    else {
        pthread_mutex_lock(&one_call);
        in_call = true;
        set_opts(opts);
        rc = run_in_c_locale(command, args, out, &e);
        log_set_sink(NULL, NULL);
        prog_set_sink(NULL, NULL);
        in_call = false;
        pthread_mutex_unlock(&one_call);
    }
    if (out && fclose(out) != 0 && !rc) rc = err_sys(&e, "%s: no memory for the result", command);
    if (!r->text) r->text = xcalloc(1, 1);
    snprintf(r->message, sizeof r->message, "%s", rc ? e.msg : "");
    return rc;
}

#define COMMAND(name, id, summary)                                                                 \
    int hone_##id(const char *const *args, const struct hone_opts *opts, struct hone_result *r) {  \
        return hone_call(name, args, opts, r);                                                     \
    }
#include "cli/commands.def"
#undef COMMAND

void hone_result_free(struct hone_result *r) {
    free(r->text);
    memset(r, 0, sizeof *r);
}

const char *hone_version(void) {
    return HONE_VERSION;
}
