// SPDX-License-Identifier: MIT
/* cli/opt.h - option tables. Each command owns one, the important rows first, since --help shows as
 * many as a screen has lines for; the options every command has are added by the parser. Long
 * options only, except -h -V -v -q -o -f -j. "--opt=X" and "--opt X"; "--" ends options. What other
 * programs call an option is taken or answered by cli/peers.def. */
#ifndef HONE_CLI_OPT_H
#define HONE_CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "commands/option.h"
#include "base/emit.h"
#include "base/err.h"
#include "work/work.h"

struct cmd_spec {
    const char *name;     /* "quantize", "eval ppl" */
    const char *synopsis; /* "IN.gguf -o OUT.gguf --recipe NAME": equals the man page's SYNOPSIS */
    const char *about;    /* a few sentences for --help, which wraps them */
    const struct option *opts; /* NULL: it has none of its own */
    int min_args, max_args;    /* positional; max -1: any */
};
/* What a command or subcommand has, for those who list them: cli_parse calls it instead of parsing
 * when struct cli asks for it. */
typedef void (*opt_visitor)(void *ctx, const struct cmd_spec *spec, const struct option *common);
/* Returns the number of options in a table, which may be NULL. */
int opt_count(const struct option *o);
struct cli {          /* what every command gets */
    struct work work; /* what its job gets */
    const char **arg; /* positional arguments */
    int n_args;
    const struct cmd_spec *spec; /* the command; NULL until its words are parsed */
    bool done;                   /* --help was printed: return 0 at once */
    FILE *out; /* the result goes here: stdout, or the text a call of the library returns */
    enum emit_form form; /* as set by the caller, unless an option says otherwise */
    bool color;          /* stdout may carry ANSI colours */
    int full_argc;
    char **full_argv;
    opt_visitor visit; /* NULL: run */
    void *visit_ctx;
};
struct subcommand {
    const char *name;
    int (*run)(struct cli *c, int argc, char **argv, struct err *e);
    const char *summary;
};
/* Runs the one of `sub` that argv[1] names; argv[0] is the command they belong to, `operands` what
 * they take in general. */
int cli_sub(struct cli *c, const struct subcommand *sub, int n, const char *operands, int argc,
            char **argv, struct err *e);
/* Parses argv[1..] by spec plus the common options; values go to the struct `args` that the table
 * of spec has offsets of. They are borrowed from argv. */
int cli_parse(struct cli *c, const struct cmd_spec *spec, void *args, int argc, char **argv,
              struct err *e);
/* Moves options that stand before the name of a command (`hone -q recipes`) behind it. `is_name`
 * tells whether a word is such a name; `ctx` is passed to it. */
void cli_to_front(int argc, char **argv, bool (*is_name)(void *ctx, const char *word), void *ctx);
/* Adds tool version, command line and machine to a result, then prints it in the chosen form. */
void cli_emit(struct cli *c, struct emit *m);
/* Prints and frees the result of a job that returned rc, where it succeeded. Returns rc. */
int cli_result(struct cli *c, struct emit *m, int rc);
/* Does what cli_result does, for jobs that have a result with ERR_VERDICT too. */
int cli_verdict(struct cli *c, struct emit *m, int rc);

#endif
