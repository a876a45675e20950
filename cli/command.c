// SPDX-License-Identifier: MIT
/* cli/command.c - lookup and execution of the commands in commands.def. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/guess.h"
#include "cli/help.h"
#include "cli/hub.h"
#include "cli/command.h"
#include "cli/remedy.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"

#define COMMAND(name, id, summary) {name, cmd_##id, summary},
static const struct subcommand commands[] = {
#include "cli/commands.def"
};
#undef COMMAND

const struct subcommand *command_table(int *n) {
    *n = (int)COUNT_OF(commands);
    return commands;
}

/* Flushes the stream, and repeats that after each interrupted write. Only ferror() shows an earlier
 * failed write. */
static int flush_result(FILE *f, struct err *e) {
    while (fflush(f) != 0) {
        if (errno != EINTR) return err_sys(e, "cannot write the result to standard output");
        clearerr(f);
    }
    if (ferror(f))
        return err_set(e, ERR_SYS,
                       "cannot write the result to standard output: it is full or closed");
    return 0;
}

/* Returns the command of this name; NULL: unknown. */
static const struct subcommand *find_command(const char *name) {
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}
static bool is_command(void *ctx, const char *word) {
    (void)ctx;
    return find_command(word) != NULL;
}
/* Returns the name of command i; NULL past the end. */
static const char *next_command(void *ctx, int i) {
    (void)ctx;
    return i < (int)COUNT_OF(commands) ? commands[i].name : NULL;
}

void command_to_front(int argc, char **argv) {
    cli_to_front(argc, argv, is_command, NULL);
}

/* Sets and returns the error for an unknown command, with a suggestion. */
static int unknown_command(const char *name, struct err *e) {
    const char *say = peer_command(name), *best = guess_name(name, next_command, NULL);
    if (say) return err_set(e, ERR_USAGE, "no command '%.80s': %s", name, say);
    if (best)
        return err_set(e, ERR_USAGE, "no command '%.80s'; did you mean 'hone %s'?", name, best);
    if (name[0] == '-')
        return err_set(e, ERR_USAGE,
                       "expected a command, found '%.80s': hone COMMAND [options], such as "
                       "'hone run MODEL.gguf'; 'hone --help' lists the commands",
                       name);
    if (str_ends(name, ".gguf"))
        return err_set(e, ERR_USAGE,
                       "no command '%.80s'; 'hone run FILE' runs a model, 'hone inspect FILE' "
                       "describes it, 'hone --help' lists the commands",
                       name);
    return err_set(e, ERR_USAGE, "no command '%.80s'; 'hone --help' lists the commands", name);
}

static void print_overview(struct cli *c) {
    struct buf b = {0};
    help_overview(&b, commands, COUNT_OF(commands), help_width(c->out == stdout ? stdout : NULL));
    fwrite(b.data, 1, b.len, c->out);
    buf_release(&b);
}

/* Returns whether the i-th argument is a path, rather than the name of a shell, a text to tokenize
 * or a prompt. */
static bool takes_path(const struct subcommand *s, int i) {
    bool words = strcmp(s->name, "tokenize") == 0 || strcmp(s->name, "run") == 0;
    return strcmp(s->name, "completion") != 0 && (i == 0 || !words);
}

/* Runs the command argv[1] and completes its error messages. */
static int run_words(struct cli *c, int argc, char **argv, struct err *e) {
    const struct subcommand *s = find_command(argv[1]);
    char say[600];
    if (!s) return unknown_command(argv[1], e);
    int rc = s->run(c, argc - 1, argv + 1, e);
    /* If a file is missing, that is the likelier cause, even if a different error came first. */
    for (int i = 0; (rc == ERR_USAGE || rc == ERR_DATA) && i < c->n_args; i++)
        if (takes_path(s, i) && hub_name(c->arg[i], i == 0, s->name, say, sizeof say))
            return err_set(e, ERR_USAGE, "there is no file or folder '%.200s', and %s", c->arg[i],
                           say);
    if ((rc == ERR_USAGE || rc == ERR_DATA || rc == ERR_SYS) && c->spec)
        remedy_complete(c->spec, commands, COUNT_OF(commands), e);
    return rc;
}

/* Runs help [COMMAND [SUBCOMMAND]] [-v] as COMMAND [SUBCOMMAND] --help. */
static int help(struct cli *c, int argc, char **argv, struct err *e) {
    if (argc < 3) {
        print_overview(c);
        return 0;
    }
    char **words = arena_array(&c->work.mem, (size_t)argc + 1, sizeof *words);
    char option[] = "--help"; /* Only run_words below reads it. */
    words[0] = argv[0];
    for (int i = 2; i < argc; i++) words[i - 1] = argv[i];
    words[argc - 1] = option;
    if (strcmp(words[1], "help") == 0) {
        print_overview(c);
        return 0;
    }
    return run_words(c, argc, words, e);
}

/* Runs argv[1]: a command, help or --version. */
static int run_first(struct cli *c, int argc, char **argv, struct err *e) {
    static const char *const versions[] = {"version", "--version", "-V"};
    if (cli_is_help(argv[1])) return help(c, argc, argv, e);
    for (size_t i = 0; i < COUNT_OF(versions); i++)
        if (strcmp(argv[1], versions[i]) == 0) {
            fprintf(c->out, "hone %s\n", HONE_VERSION);
            return 0;
        }
    return run_words(c, argc, argv, e);
}

int command_run(struct cli *c, int argc, char **argv, struct err *e) {
    c->full_argc = argc;
    c->full_argv = argv;
    const char *tmp = getenv("TMPDIR");
    c->work.tmp = tmp && *tmp ? tmp : os_temp_dir();
    arena_init(&c->work.mem);
    int rc = 0;
    if (argc < 2) {
        FILE *out = c->out;
        c->out = stderr;
        print_overview(c);
        c->out = out;
        rc = ERR_USAGE;
    } else
        rc = run_first(c, argc, argv, e);
    if (rc != 0)
        (void)fflush(c->out); /* The first error counts. */
    else
        rc = flush_result(c->out, e);
    arena_release(&c->work.mem);
    return rc;
}
