// SPDX-License-Identifier: MIT
/* lib/spell.h - translation of jobs' messages for the library: options such as --max-memory or -o
 * become fields or arguments of the call. */
#ifndef HONE_LIB_SPELL_H
#define HONE_LIB_SPELL_H

#include <stddef.h>

struct form;
/* Copies a message to out[n], with its options replaced by the fields and arguments of f's call, or
 * of the handles (f NULL). Quoted command lines stay unchanged. */
void spell(const struct form *f, const char *text, char *out, size_t n);

#endif
