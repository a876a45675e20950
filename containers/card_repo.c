// SPDX-License-Identifier: MIT
/* containers/card_repo.c - origin of a folder: the Hub repository that its path or its model card
 * names. */
#include <stdlib.h>
#include <string.h>

#include "containers/card_yaml.h"
#include "base/io.h"
#include "base/mem.h"

static const char id_chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

/* Returns ORG/NAME from a path with "models--ORG--NAME", as in the Hub's cache; NULL: none. */
static char *repo_of_cache(const char *path) {
    static const char mark[] = "models--";
    for (const char *p = strstr(path, mark); p; p = strstr(p + 1, mark)) {
        const char *org = p + sizeof mark - 1, *mid = strstr(org, "--");
        if (p > path && p[-1] != '/') continue;
        size_t n = mid ? strspn(mid + 2, id_chars) : 0;
        if (!n || mid == org || strspn(org, id_chars) < (size_t)(mid - org)) continue;
        return xasprintf("%.*s/%.*s", (int)(mid - org), org, (int)n, mid + 2);
    }
    return NULL;
}

/* Returns the length of ORG in "ORG/NAME", where p points to the '/'; 0: not a repository name. */
static size_t org_before(const char *text, const char *p) {
    static const char host[] = "huggingface.co/";
    const size_t n_host = sizeof host - 1;
    size_t n = 0;
    while (p - n > text && strchr(id_chars, p[-(ptrdiff_t)n - 1]) && p[-(ptrdiff_t)n - 1]) n++;
    const char *org = p - n;
    if (!n) return 0;
    if (org == text || strchr(" \n\t\"'`(<[:=", org[-1])) return n;
    bool hub = (size_t)(org - text) >= n_host && memcmp(org - n_host, host, n_host) == 0;
    return hub ? n : 0;
}

/* Returns the repository mentioned in a card whose name is that of the folder; NULL: none, or
 * several. */
static char *repo_of_card(const char *name, const char *card, size_t len) {
    size_t n = strlen(name), n_org = 0;
    const char *org = NULL, *end = card + len;
    if (!n || strspn(name, id_chars) < n) return NULL;
    for (const char *p = memchr(card, '/', len); p; p = memchr(p + 1, '/', (size_t)(end - p - 1))) {
        if ((size_t)(end - p) <= n || memcmp(p + 1, name, n) != 0) continue;
        const char *behind = p + 1 + n;
        if (behind < end && *behind && strchr(id_chars, *behind) && *behind != '.') continue;
        size_t k = org_before(card, p);
        if (!k) continue;
        if (org && (k != n_org || memcmp(org, p - k, k) != 0)) return NULL;
        org = p - k, n_org = k;
    }
    return org && n_org < 200 ? xasprintf("%.*s/%s", (int)n_org, org, name) : NULL;
}

bool card_is_hash(const char *name) {
    const size_t n = strlen(name);
    return n >= 20 && strspn(name, "0123456789abcdefABCDEF") == n;
}

char *card_repo(const char *dir, const char *card, size_t len) {
    char *real = io_real(dir), *repo = real ? repo_of_cache(real) : NULL;
    if (!repo && real && card) repo = repo_of_card(io_base(real), card, len);
    free(real);
    return repo;
}
