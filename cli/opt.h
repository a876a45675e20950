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

/* Row of an option table that is written by hand. */
#define ROW(name_, letter_, kind_, at_, arg_, help_)                                               \
    { .name = name_, .letter = letter_, .kind = kind_, .at = at_, .arg = arg_, .help = help_ }
/* Row of an option table: where the plot goes, a const char * at that offset. */
#define OPT_PLOT(at, help) ROW("plot", 0, OPT_OUT, at, "FILE", "SVG: " help)

/* Rows that several commands have in the same words; `at` is the offset of the member, a
 * const char *. */
#define OPT_KV_TYPE(at)                                                                            \
    ROW("kv-type", 0, OPT_TEXT, at, "T",                                                           \
        "cache of keys and values: f16 (default), q8_0, tq4, ... or K/V")
#define OPT_ACT(at) ROW("act", 0, OPT_TEXT, at, "MODE", "activations: f32 or q8 (default)")
#define OPT_KWARGS(at) ROW("kwargs", 0, OPT_TEXT, at, "JSON", "more variables for the template")
#define OPT_SPECIAL(at)                                                                            \
    ROW("special-in-content", 0, OPT_TEXT, at, "HOW",                                              \
        "texts of control tokens in messages: plain (default), parse")
/* Rows of sampling. SET(TOP_K) is the offset of the text of --top-k, and so on. */
// clang-format off
#define OPT_SAMPLING(SET)                                                                          \
    ROW("top-k", 0, OPT_TEXT, SET(TOP_K), "K", "only the K likeliest; 0: all"),                        \
    ROW("top-p", 0, OPT_TEXT, SET(TOP_P), "P", "only the likeliest with total probability P; 1: all"), \
    ROW("min-p", 0, OPT_TEXT, SET(MIN_P), "P", "none below P times the likeliest; 0: all"),            \
    ROW("repeat-penalty", 0, OPT_TEXT, SET(REPEAT_PENALTY), "X",                                       \
     "penalty for repeated tokens; 1: none"),                                                      \
    ROW("repeat-last-n", 0, OPT_TEXT, SET(REPEAT_LAST_N), "N",                                         \
     "how far back the penalties look (64)"),                                                      \
    ROW("seed", 0, OPT_TEXT, SET(SEED), "N", "same seed, same text (default: another each time)")
// clang-format on

#endif
