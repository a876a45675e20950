// SPDX-License-Identifier: MIT
/* cli/help.h - what --help prints. One screen: the options that fit, the rest by name (all of them
 * with --verbose), the common ones in a line, and examples of cli/examples.def. */
#ifndef HONE_CLI_HELP_H
#define HONE_CLI_HELP_H

#include "cli/opt.h"
#include "core/buf.h"

enum { HELP_LINES = 40 };

/* Columns of the terminal behind f, or of $COLUMNS, from 40 to 100; 80 where nobody says. */
int help_width(FILE *f);
/* Appends `text` broken at spaces so that no line is longer than `width`, where a word allows it.
 * The first line begins at column `at`, the others with `indent` spaces. Line ends in the text
 * count as spaces. No line end is appended. */
void help_wrap(struct buf *b, const char *text, int at, int indent, int width);
/* The help of a command. `all`: every option with its text, also the common ones. */
void help_command(struct buf *b, const struct cmd_spec *spec, const struct opt *common,
                  int n_common, bool all, int width);
/* The help of a command with subcommands; `synopsis` gives each one's, or NULL. */
void help_subcommands(struct buf *b, const char *command, const struct subcommand *sub,
                      const char *const *synopsis, int n, const char *operands, int width);
/* `hone --help`. */
void help_overview(struct buf *b, const struct subcommand *s, int n, int width);
/* The k-th example of a command, or NULL. */
const char *help_example(const char *command, int k);
/* The k-th positional argument that a synopsis asks for, as it names it (not NUL-terminated, *n
 * characters); NULL: it asks for fewer. */
const char *help_operand(const char *synopsis, int k, int *n);

#endif
