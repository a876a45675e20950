// SPDX-License-Identifier: MIT
/* cli/help.h - text of --help: one screen with the options that fit, the names of the others (all
 * with --verbose), the common options in a line, and examples (cli/examples.def). */
#ifndef HONE_CLI_HELP_H
#define HONE_CLI_HELP_H

#include "cli/opt.h"
#include "base/buf.h"

enum { HELP_LINES = 40 };

/* Returns the width of the terminal at f in columns, otherwise $COLUMNS, clamped to 40..100; 80 if
 * neither is known. */
int help_width(FILE *f);
/* Appends `text` wrapped at `width` columns; only a longer word exceeds it. The first line begins
 * at column `at`, the others with `indent` spaces. Line ends in the text count as spaces. No line
 * end is appended. */
void help_wrap(struct buf *b, const char *text, int at, int indent, int width);
/* Appends the help of a command, `width` columns wide: the options that fit in HELP_LINES lines, or
 * with `all` every option with its text, including the common ones. */
void help_command(struct buf *b, const struct cmd_spec *spec, const struct option *common, bool all,
                  int width);
/* Appends the help of a command with n subcommands; synopsis[i] belongs to sub[i] or is NULL.
 * `operands`: arguments that they share. */
void help_subcommands(struct buf *b, const char *command, const struct subcommand *sub,
                      const char *const *synopsis, int n, const char *operands, int width);
/* Appends the text of `hone --help`: the n commands of s and their summaries. */
void help_overview(struct buf *b, const struct subcommand *s, int n, int width);
/* Returns the k-th example of a command, counted from 0, or NULL if it has fewer. */
const char *help_example(const char *command, int k);
/* Returns the name of the k-th required argument of a synopsis, counted from 0: *n characters, not
 * NUL-terminated. NULL if it requires fewer. */
const char *help_operand(const char *synopsis, int k, int *n);

#endif
