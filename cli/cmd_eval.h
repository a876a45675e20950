// SPDX-License-Identifier: MIT
/* cli/cmd_eval.h - what the files of `hone eval` share: rows of option tables, and the subcommands.
 */
#ifndef HONE_CLI_CMD_EVAL_H
#define HONE_CLI_CMD_EVAL_H

#include "cli/opt.h"
#include "runtime/measure/job.h"

/* Rows of an option table whose struct is, or begins with, a struct eval_args: what a measurement
 * of quality computes in. */
#define EVAL_HELP_KV                                                                               \
    "cache of keys and values: f32 (default), f16, bf16, q8_0, q5_1, q4_0, tq4, ... or K/V"
#define EVAL_OPT_KV                                                                                \
    ROW("kv-type", 0, OPT_TEXT, offsetof(struct eval_args, kv_type), "T", EVAL_HELP_KV)
#define EVAL_HELP_ACT "activations: f32 (default) or q8"
#define EVAL_OPT_ACT ROW("act", 0, OPT_TEXT, offsetof(struct eval_args, act), "MODE", EVAL_HELP_ACT)
#define EVAL_OPT_PRE ROW("pre", 0, OPT_TEXT, offsetof(struct eval_args, pre), "NAME", HELP_PRE)
#define EVAL_OPT_KEEP                                                                              \
    ROW("keep", 0, OPT_TEXT, offsetof(struct eval_args, keep), "FILE",                             \
        "keep numbers in FILE as they come; go on from it")

int eval_cmd_tools(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_choice(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_needle(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_suite(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_compare(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_checks(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_replay(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_kv(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_mtp(struct cli *c, int argc, char **argv, struct err *e);
int eval_cmd_kld(struct cli *c, int argc, char **argv, struct err *e);

#endif
