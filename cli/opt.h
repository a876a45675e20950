// SPDX-License-Identifier: MIT
/* cli/opt.h - option tables. Each command owns one, the important rows first, since --help shows as
 * many as a screen has lines for; the options every command has are added by the parser. Long
 * options only, except -h -V -v -q -o -f -j. "--opt=X" and "--opt X"; "--" ends options. What other
 * programs call an option is taken or answered by cli/peers.def. */
#ifndef HONE_CLI_OPT_H
#define HONE_CLI_OPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/arena.h"
#include "core/ctx.h"
#include "core/emit.h"
#include "core/err.h"
#include "core/pool.h"
#include "kernels/kern.h"
#include "runtime/engine/session.h"

struct str_list { /* of a repeatable option */
    const char **v;
    int n;
};
enum opt_kind {
    OPT_FLAG, /* bool */
    OPT_STR,  /* const char * */
    OPT_I64,  /* int64_t, >= 0 */
    OPT_NUM,  /* double */
    OPT_TIME, /* double, in the unit that `arg` names, HOURS or MINUTES: size.c */
    OPT_SIZE, /* uint64_t: "16GiB", "700M", "24 gb": size.c */
    OPT_LIST  /* struct str_list, may be given several times */
};
struct opt {
    const char *name; /* without "--" */
    char letter;      /* 'o' or 0 */
    enum opt_kind kind;
    void *dst;
    const char *arg;  /* "FILE" in the help; NULL for flags */
    const char *help; /* one line */
};
struct cmd_spec {
    const char *name;     /* "quantize", "eval ppl" */
    const char *synopsis; /* "IN.gguf -o OUT.gguf --recipe NAME": equals the man page's SYNOPSIS */
    const char *about;    /* a few sentences for --help, which wraps them */
    const struct opt *opts;
    int n_opts;
    int min_args, max_args; /* positional; max -1: any */
};
/* What a command or subcommand has, for those who list them: cli_parse calls it instead of parsing
 * when struct cli asks for it. */
typedef void (*opt_visitor)(void *ctx, const struct cmd_spec *spec, const struct opt *common,
                            int n_common);
struct cli {          /* what every command gets */
    struct ctx *ctx;  /* the one that the calling thread works for; it owns the pool */
    const char **arg; /* positional arguments */
    int n_args;
    bool done; /* --help was printed: return 0 at once */
    FILE *out; /* the result goes here: stdout, or the text a call of the library returns */
    enum emit_form form;    /* as set by the caller, unless an option says otherwise */
    bool overwrite;         /* -f */
    bool color;             /* stdout may carry ANSI colours */
    int threads;            /* --threads, 0: all */
    struct device device;   /* --device, default the CPU */
    enum kern_isa isa;      /* --isa, default best */
    const char *pack_cache; /* --pack-cache, or NULL */
    const char *pre;        /* --pre of commands that open several models; NULL: each file's own */
    struct pool *pool;      /* ctx's, made by cli_pool() on first use */
    struct keep *kept;      /* what long steps measure, core/keep.h; NULL: nothing is kept */
    struct arena mem;       /* lists and strings of this command */
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
/* Parses argv[1..] by spec plus the common options. Values are borrowed from argv. */
int cli_parse(struct cli *c, const struct cmd_spec *spec, int argc, char **argv, struct err *e);
/* Options that stand before the name of a command (`hone -q recipes`) go behind it. */
void cli_to_front(int argc, char **argv, bool (*is_name)(void *ctx, const char *word), void *ctx);
/* Values of --act: activations as they are, or rounded to 8 bits. */
#define ACT_EXACT "f32"
#define ACT_FAST "q8"
int cli_act(const char *text, enum act_mode *out, struct err *e);
int cli_pool(struct cli *c, struct err *e);
/* Adds tool version, command line and machine to a result, then prints it in the chosen form. */
void cli_emit(struct cli *c, struct emit *m);
/* "16GiB" -> bytes. ERR_USAGE naming `what`; a number without a unit below 1 MiB too. */
int cli_size(const char *text, const char *what, uint64_t *out, struct err *e);
/* Reads a time, "90m", "2h" or a number of `unit` (such as "MINUTES"), into `out`, which counts
 * that unit too. Returns ERR_USAGE naming `what` otherwise. */
int cli_time(const char *text, const char *what, const char *unit, double *out, struct err *e);
/* Appends a borrowed string; the array lives in c->mem. */
void cli_list_add(struct cli *c, struct str_list *l, const char *value);
/* Splits "a,b,c" into a list; everything lives in c->mem. */
void cli_split(struct cli *c, const char *text, struct str_list *out);

/* --pre NAME of the commands that read text. */
#define CLI_HELP_PRE "split text by the rules of this pre-tokenizer, whatever the model names"

#endif
