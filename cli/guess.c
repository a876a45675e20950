// SPDX-License-Identifier: MIT
/* cli/guess.c - lookup of the nearest name, and of the names that other programs use. */
#include "cli/guess.h"

#include <ctype.h>
#include <string.h>

#include "base/attr.h"

/* Returns the edit distance of two strings of up to 31 bytes; a swap of neighbours counts once.
 * Longer strings: 99. */
static int distance(const char *a, const char *b) {
    size_t la = strlen(a), lb = strlen(b);
    int row[3][33] = {{0}};
    if (la > 31 || lb > 31) return 99;
    for (size_t j = 0; j <= lb; j++) row[0][j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *above = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best) best = up[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above[j - 2] + 1 < best)
                best = above[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[la % 3][lb];
}

const char *guess_name(const char *typed, const char *(*next)(void *ctx, int i), void *ctx) {
    const char *best = NULL, *begun = NULL;
    size_t len = strlen(typed);
    /* least: a guess must need fewer edits than this */
    int n_begun = 0, least = len <= 4 ? 2 : len <= 7 ? 3 : 4;
    if (len <= 2) return NULL;
    for (int i = 0; next(ctx, i); i++) {
        const char *name = next(ctx, i);
        int d = distance(typed, name);
        if (d < least) least = d, best = name;
        if (strncmp(typed, name, len) == 0) n_begun++, begun = name;
    }
    return n_begun == 1 ? begun : best;
}

#define PEER_OPTION(name, commands, ours, say) {name, commands, ours, say},
#define PEER_COMMAND(name, say)
static const struct peer_option options[] = {
#include "cli/peers.def"
};
#undef PEER_OPTION
#undef PEER_COMMAND

/* Returns whether `word` is in a comma-separated list. */
static bool in_list(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || !p[n])) return true;
    return false;
}

/* Returns whether n bytes typed mean `ours`, ignoring case and '_' for '-'. */
static bool same_name(const char *ours, const char *typed, size_t n) {
    if (strlen(ours) != n) return false;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)typed[i];
        if (n > 1) c = c == '_' ? '-' : tolower(c);
        if (c != ours[i]) return false;
    }
    return true;
}

const struct peer_option *peer_option(const char *name, size_t n, const char *command,
                                      bool (*fits)(void *ctx, const struct peer_option *p),
                                      void *ctx) {
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        const struct peer_option *p = &options[i];
        if (same_name(p->name, name, n) && (!p->commands[0] || in_list(p->commands, command)) &&
            fits(ctx, p))
            return p;
    }
    return NULL;
}

#define PEER_OPTION(name, commands, ours, say)
#define PEER_COMMAND(name, say) {name, say},
static const struct {
    const char *name, *say;
} commands[] = {
#include "cli/peers.def"
};
#undef PEER_OPTION
#undef PEER_COMMAND

const char *peer_command(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (same_name(commands[i].name, name, n)) return commands[i].say;
    return NULL;
}
