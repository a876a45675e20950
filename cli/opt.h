// SPDX-License-Identifier: MIT
/* cli/opt.h - command-line parser: specs of commands, options and results.
 *
 * Each command has a table of options, important ones first because --help shows only those that
 * fit on a screen; the parser adds the common options. "--opt=X" and "--opt X" are equivalent; "--"
 * ends options. Options of other programs are translated or answered by cli/peers.def. */
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
    const char *name;          /* "quantize", "eval ppl" */
    const char *synopsis;      /* "IN.gguf -o OUT.gguf --recipe NAME", as in the man page */
    const char *about;         /* a few sentences for --help, which wraps them */
    const struct option *opts; /* NULL: only the common ones */
    int min_args, max_args;    /* positional; max -1: unlimited */
};
/* Lists a command and its options. If struct cli has a visitor, cli_parse calls it instead of
 * parsing. */
typedef void (*opt_visitor)(void *ctx, const struct cmd_spec *spec, const struct option *common);
/* Returns the number of options in a table, which may be NULL. */
int opt_count(const struct option *o);
struct cli {          /* state of one command line */
    struct work work; /* context of the job */
    const char **arg; /* positional arguments */
    int n_args;
    const struct cmd_spec *spec; /* the command; NULL until its options are parsed */
    bool done;                   /* --help was printed: return 0 at once */
    FILE *out;                   /* stream for the result */
    enum emit_form form;         /* set by the caller; options override it */
    bool color;                  /* stdout may carry ANSI colours */
    int full_argc;
    char **full_argv;
    opt_visitor visit; /* NULL: run the command */
    void *visit_ctx;
};
struct subcommand {
    const char *name;
    int (*run)(struct cli *c, int argc, char **argv, struct err *e);
    const char *summary;
};
/* Returns whether a word in place of a command asks for help: "help", "--help", ... */
bool cli_is_help(const char *word);
/* Runs the subcommand argv[1] of the command argv[0]. `operands`: arguments that all of them share.
 */
int cli_sub(struct cli *c, const struct subcommand *sub, int n, const char *operands, int argc,
            char **argv, struct err *e);
/* Parses argv[1..] by spec and the common options. Stores values, borrowed from argv, in the struct
 * `args` at the offsets in spec's table. */
int cli_parse(struct cli *c, const struct cmd_spec *spec, void *args, int argc, char **argv,
              struct err *e);
/* Moves options before the name of a command (`hone -q recipes`) after it. `is_name` returns
 * whether a word is such a name; `ctx` is passed to it. */
void cli_to_front(int argc, char **argv, bool (*is_name)(void *ctx, const char *word), void *ctx);
/* Adds version, command line and machine to a result and prints it in the chosen format. */
void cli_emit(struct cli *c, struct emit *m);
/* Prints the result if rc is 0, then frees it. Returns rc. */
int cli_result(struct cli *c, struct emit *m, int rc);
/* Like cli_result, but also prints the result for ERR_VERDICT. */
int cli_verdict(struct cli *c, struct emit *m, int rc);

#endif
