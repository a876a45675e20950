// SPDX-License-Identifier: MIT
/* grammar/grammar.c - grammars of regular expressions and of lists of choices. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/gram_int.h"

int grammar_done(struct grammar **out, struct grammar *g, gnode root, int rc, struct err *e) {
    if (!rc) rc = grammar_seal(g, root, e);
    if (!rc || g->cost->stopped) rc = grammar_full(g, e);
    if (rc) {
        grammar_free(g);
        return rc;
    }
    *out = g;
    return 0;
}

int grammar_of_regex(struct grammar **out, const struct gram_vocab *v, const char *pattern,
                     size_t len, struct err *e) {
    struct grammar *g = grammar_new(v);
    const struct gregex o = {.what = "regular expression"};
    gnode root = G_NONE;
    const int rc = gn_regex(g, pattern, len, &o, &root, e);
    return grammar_done(out, g, root, rc, e);
}

int grammar_of_choices(struct grammar **out, const struct gram_vocab *v, const char *const *text,
                       int n, struct err *e) {
    struct grammar *g = grammar_new(v);
    gnode root = G_NONE, *all = xcalloc((size_t)(n > 0 ? n : 0) + 1, sizeof *all);
    int rc = 0;
    if (n < 1) rc = err_set(e, ERR_USAGE, "the list of choices is empty");
    for (int i = 0; i < n; i++) {
        if (!*text[i] && !rc) rc = err_set(e, ERR_USAGE, "choice %d is an empty string", i + 1);
        all[i] = gn_str(g, text[i]);
    }
    if (!rc) root = gn_alts(g, all, (size_t)n);
    free(all);
    return grammar_done(out, g, root, rc, e);
}
