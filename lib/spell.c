// SPDX-License-Identifier: MIT
/* lib/spell.c - translation of command-line options in messages to the fields of library calls
 * (spell.h). */
#include "lib/spell.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/form.h"

/* Returns the field or argument of f's call for an option name [n], or a letter (n 1); NULL: none.
 */
static const char *word_of(const struct form *f, const char *name, size_t n) {
    for (int i = 0; i < f->n; i++) {
        const struct option *o = &f->row[i];
        const char *word = o->in[f->which].name;
        if (!word || !o->name || strpbrk(word, " (")) continue;
        if (n == 1 ? o->letter == *name : strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return word;
    }
    return NULL;
}

/* Returns the API's spelling of the option's name; NULL if unknown. f may be NULL. */
static const char *find_word(const struct form *f, const char *name, size_t n) {
    const char *word = f ? word_of(f, name, n) : NULL;
    for (const struct form *g = forms_handles; g->call && !word; g++) word = word_of(g, name, n);
    return word;
}

/* Returns the length of a quoted command line at s, quotes included, or 0. */
static size_t quoted(const char *s) {
    if (*s != '`' && strncmp(s, "'hone ", 6) != 0) return 0;
    const char *end = strchr(s + 1, *s);
    return end ? (size_t)(end - s) + 1 : 0;
}

/* Returns the length of the option at s, dashes included, or 0. */
static size_t option_at(const char *text, const char *s) {
    if (s > text && (isalnum((unsigned char)s[-1]) || strchr("-_/.", s[-1]))) return 0;
    if (s[0] != '-') return 0;
    size_t n = 2;
    if (s[1] != '-') return isalpha((unsigned char)s[1]) && !isalnum((unsigned char)s[2]) ? 2 : 0;
    while (islower((unsigned char)s[n]) || (s[n] == '-' && islower((unsigned char)s[n + 1]))) n++;
    return n > 2 ? n : 0;
}

void spell(const struct form *f, const char *text, char *out, size_t n) {
    size_t at = 0;
    for (const char *s = text; *s && at + 1 < n;) {
        const size_t keep = quoted(s), len = keep ? 0 : option_at(text, s);
        if (!len) {
            at += (size_t)snprintf(out + at, n - at, "%.*s", keep ? (int)keep : 1, s);
            s += keep ? keep : 1;
            continue;
        }
        const size_t dashes = s[1] == '-' ? 2 : 1, name = len - dashes;
        const bool force = (dashes == 1 && s[1] == 'f') || (len == 7 && !memcmp(s, "--force", 7));
        const char *word = force ? "overwrite" : find_word(f, s + dashes, name);
        const size_t from = at;
        if (!word && dashes == 1)
            at += (size_t)snprintf(out + at, n - at, "-%c", s[1]);
        else if (word)
            at += (size_t)snprintf(out + at, n - at, "%s", word);
        else
            at += (size_t)snprintf(out + at, n - at, "%.*s", (int)name, s + dashes);
        for (size_t i = from; !word && dashes == 2 && i < at && i < n; i++)
            if (out[i] == '-') out[i] = '_';
        s += len;
    }
    out[at < n ? at : n - 1] = 0;
}
