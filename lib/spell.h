// SPDX-License-Identifier: MIT
/* lib/spell.h - sentences of jobs in a program's words: what they call --max-memory or -o is a
 * field or an argument there. */
#ifndef HONE_LIB_SPELL_H
#define HONE_LIB_SPELL_H

#include <stddef.h>

struct form;
/* Copies a sentence to out[n] with the options in it as the call of f has them, or, f being NULL,
 * as the handles have them. What stands in quotes as a command line to type stays as it is. */
void spell(const struct form *f, const char *text, char *out, size_t n);

#endif
