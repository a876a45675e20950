// SPDX-License-Identifier: MIT
/* commands/option.h - one option of a command. Its row in commands/NAME.def says all of it: name,
 * type, help, and its field in the calls of the library. From that row come the member of the job's
 * struct (members.h), the table that the command line and the library run on (rows.h), and the
 * struct in hone.h and the manual page (gen.c). A table ends with {0}; its important rows come
 * first, since --help shows as many as a screen has lines for. */
#ifndef HONE_COMMANDS_OPTION_H
#define HONE_COMMANDS_OPTION_H

#include <stddef.h>

/* Help of an option that several commands have. */
#define HELP_PRE "split text by the rules of this pre-tokenizer, whatever the model names"
#define HELP_KV_TYPE "cache of keys and values: f16 (default), q8_0, tq4, ... or K/V"
#define HELP_ACT "activations: f32 or q8 (default)"
#define HELP_KEEP "keep numbers in FILE as they come; go on from it"
#define HELP_OPEN_OBJECTS                                                                          \
    "objects may have members that their schemas do not name, as JSON Schema has it"
#define HELP_SPECIAL "texts of control tokens in messages: plain (default), parse"
#define HELP_STRICT_CALLS                                                                          \
    "only the template's own syntax makes a call, not bare JSON that names a tool"

/* Type of the job's member; of the field in hone.h, where it is another. */
enum option_kind {
    OPT_FLAG,   /* bool; int */
    OPT_TEXT,   /* const char * */
    OPT_OUT,    /* const char *, a file or folder to write: not a stream */
    OPT_COUNT,  /* int64_t, >= 0; a field of 0 says as usual, one below 0 says 0 */
    OPT_TOKENS, /* the same: "131072" or "128K" */
    OPT_NUMBER, /* double; the same */
    OPT_TIME,   /* double, seconds: "90s", "12h", "1h30m": size.c */
    OPT_HOURS,  /* the same; a number alone counts hours */
    OPT_SIZE,   /* uint64_t: "16GiB", "700M", "24 gb": size.c; a field of 0 says as usual */
    OPT_LIST    /* struct str_list, may be given several times; const char *const * */
};

/* The calls of a command, by their place in `in` of its rows. */
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
    CALL_generate = 0,
    CALL_session_new,
    CALL_template_tokens,
    CALL_model_open,
    CALL_serve, /* the first is of run, which has the same sampling */
    CALL_imatrix = 0,
    CALL_imatrix_merge,
    CALL_imatrix_stats,
    CALL_imatrix_select,
    CALL_inspect = 0,
    CALL_make = 2, /* 0 and 1 are of publish, which has the same facts */
    CALL_merge = 0,
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
    MOST_CALLS = 5
};
enum place_how {
    PLACE_NONE,
    PLACE_ARGUMENT, /* of the function: nothing is copied */
    PLACE_COPIED,   /* from the field to the job's member */
    PLACE_SAID,     /* the same, a number of the call as the job's text */
    PLACE_READ,     /* by the call itself: nothing is copied */
    PLACE_FORCE,    /* may the job overwrite? */
    PLACE_DEVICE    /* the job's device */
};
struct placement { /* where a call of the library has an option */
    enum place_how how;
    const char *name; /* of the field or argument */
    size_t from;      /* offset of the field in the call's struct */
    size_t n_bytes;   /* of the field */
};
struct option {
    const char *name; /* without "--"; NULL: a field of calls alone, after all options */
    char letter;      /* 'o' or 0 */
    enum option_kind kind;
    size_t at;            /* offset of its member in the job's struct */
    const char *arg;      /* "FILE" in the help; NULL for flags */
    const char *help;     /* one line */
    const char *values;   /* that a shell completes: "auto|always|never"; NULL: none */
    const char *only_cli; /* why no call has it, or NULL */
    /* Names of options, separated by blanks; NULL: none. cli/opt.c checks both. */
    const char *excludes;  /* that may not be given together with it */
    const char *goes_with; /* of which it needs one */
    const char *of; /* of a row without a name: the option that the field is another form of */
    struct placement in[MOST_CALLS];
};

#endif
