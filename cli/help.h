// SPDX-License-Identifier: MIT
/* cli/help.h - what --help prints. One screen: the options that fit, the rest by name (all of them
 * with --verbose), the common ones in a line, and examples of cli/examples.def. */
#ifndef HONE_CLI_HELP_H
#define HONE_CLI_HELP_H

#include "cli/opt.h"
#include "base/buf.h"

enum { HELP_LINES = 40 };

/* Returns the width in columns of the terminal behind f, else that of $COLUMNS, held between 40 and
 * 100; 80 where nobody says. */
int help_width(FILE *f);
/* Appends `text` broken at spaces so that no line is longer than `width`, where a word allows it.
 * The first line begins at column `at`, the others with `indent` spaces. Line ends in the text
 * count as spaces. No line end is appended. */
void help_wrap(struct buf *b, const char *text, int at, int indent, int width);
/* Appends the help of a command, at most `width` columns wide. It has as many options as HELP_LINES
 * lines hold; with `all` it has every option with its text, also the common ones. */
void help_command(struct buf *b, const struct cmd_spec *spec, const struct option *common, bool all,
                  int width);
/* Appends the help of a command with n subcommands; synopsis[i] is that of sub[i], or NULL.
 * `operands` is what they take in general. */
void help_subcommands(struct buf *b, const char *command, const struct subcommand *sub,
                      const char *const *synopsis, int n, const char *operands, int width);
/* Appends what `hone --help` prints: the n commands of s and what each is for. */
void help_overview(struct buf *b, const struct subcommand *s, int n, int width);
/* Returns the k-th example of a command, counted from 0, or NULL when it has fewer. */
const char *help_example(const char *command, int k);
/* Returns the k-th positional argument, counted from 0, that a synopsis asks for, under the name
 * that it has there: *n characters, not NUL-terminated. Returns NULL when it asks for fewer. */
const char *help_operand(const char *synopsis, int k, int *n);

#endif
