// SPDX-License-Identifier: MIT
/* commands/option.h - a command's option, declared once as a row of commands/NAME.def: name, type,
 * help, and its field in the library's calls. The row generates the member of the job's struct
 * (members.h), the table for the command line and the library (rows.h), and the struct in hone.h
 * and the manual page (gen.c). A table ends with {0}. Important rows come first, because --help
 * prints only those that fit on a screen. */
#ifndef HONE_COMMANDS_OPTION_H
#define HONE_COMMANDS_OPTION_H

#include <stddef.h>

/* Help of options that several commands share. */
#define HELP_PRE "split text by this pre-tokenizer instead of the model's own"
#define HELP_KV_TYPE "cache of keys and values: f16 (default), q8_0, tq4, ... or K/V"
#define HELP_ACT "activations: f32 or q8 (default)"
#define HELP_KEEP "save results in FILE as they come, and resume from it"
#define HELP_OPEN_OBJECTS "allow object members that their schemas do not name, as in JSON Schema"
#define HELP_SPECIAL "control tokens written in messages: plain (default), parse"
#define HELP_STRICT_CALLS "accept calls in the template's own syntax only, not bare JSON"

/* Type of the job's member; then the type of the field in hone.h, if different. */
enum option_kind {
    OPT_FLAG,   /* bool; int */
    OPT_TEXT,   /* const char * */
    OPT_OUT,    /* const char *, a file or folder to write: not a stream */
    OPT_COUNT,  /* int64_t, >= 0; in a field, 0 means the default and a negative value 0 */
    OPT_TOKENS, /* like OPT_COUNT: "131072" or "128K" */
    OPT_NUMBER, /* double; fields like OPT_COUNT */
    OPT_TIME,   /* double, seconds: "90s", "12h", "1h30m": size.c */
    OPT_HOURS,  /* like OPT_TIME; a bare number means hours */
    OPT_SIZE,   /* uint64_t: "16GiB", "700M", "24 gb" (size.c); in a field, 0 means the default */
    OPT_LIST    /* struct str_list, repeatable; const char *const * */
};

/* Calls of a command: indices into option.in of its rows. */
enum {
    CALL_bench_kernels = 0,
    CALL_convert = 0,
    CALL_diff = 0,
    CALL_doctor = 0,
    CALL_eval_cases = 0,
    CALL_eval_choice = 0,
    CALL_eval_kld = 0,
    CALL_eval_kv = 0,
    CALL_eval_logits = 0,
    CALL_eval_mtp = 0,
    CALL_eval_needle = 0,
    CALL_eval_ppl = 0,
    CALL_eval_replay = 0,
    CALL_eval_speed = 0,
    CALL_eval_suite = 0,
    CALL_eval_vision = 0,
    CALL_generate = 0,
    CALL_session_new,
    CALL_template_tokens,
    CALL_model_open,
    CALL_serve, /* 0 belongs to run, which shares the sampling options */
    CALL_imatrix = 0,
    CALL_imatrix_merge,
    CALL_imatrix_stats,
    CALL_imatrix_select,
    CALL_inspect = 0,
    CALL_make = 2, /* 0 and 1 belong to publish, which shares the facts */
    CALL_merge = 0,
    CALL_meta = 0,
    CALL_opts = 0,
    CALL_plan = 0,
    CALL_publish = 0,
    CALL_publish_check,
    CALL_quantize = 0,
    CALL_mix,
    CALL_recipes = 0,
    CALL_replay = 0,
    CALL_sensitivity = 0,
    CALL_split = 0,
    CALL_synth = 0,
    CALL_template_describe = 0,
    CALL_template_eval = 0,
    CALL_template_fix = 0,
    CALL_template_lint = 0,
    CALL_template_explain,
    CALL_template_read_answer = 0,
    CALL_template_spans = 0,
    CALL_template_batch,
    CALL_tokenize = 0,
    CALL_detokenize,
    CALL_verify = 0,
    CALL_versus = 0,
    MOST_CALLS = 5
};
enum place_how {
    PLACE_NONE,
    PLACE_ARGUMENT, /* an argument of the function: nothing is copied */
    PLACE_COPIED,   /* copied from the field to the job's member */
    PLACE_SAID,     /* the same, from a number in the call to text in the job */
    PLACE_READ,     /* read by the call itself: nothing is copied */
    PLACE_FORCE,    /* sets whether the job may overwrite */
    PLACE_DEVICE    /* sets the job's device */
};
struct placement { /* where a library call takes the option */
    enum place_how how;
    const char *name; /* field or argument */
    size_t from;      /* offset of the field in the call's struct */
    size_t n_bytes;   /* size of the field */
};
struct option {
    const char *name; /* without "--"; NULL: a field without an option, after all options */
    char letter;      /* 'o' or 0 */
    enum option_kind kind;
    size_t at;            /* offset of the member in the job's struct */
    const char *arg;      /* "FILE" in the help; NULL for flags */
    const char *help;     /* one line */
    const char *values;   /* completions: "auto|always|never"; NULL: none */
    const char *only_cli; /* why no call takes it, or NULL */
    /* Names of options, separated by spaces; NULL: none. cli/opt.c checks both. */
    const char *excludes;  /* options that must not be given with it */
    const char *goes_with; /* options of which one must also be given */
    const char *of;        /* row without a name: option that this field also sets */
    struct placement in[MOST_CALLS];
};

#endif
