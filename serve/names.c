// SPDX-License-Identifier: MIT
/* serve/names.c - lookup of a served file by the name that a request gives. */
#include "serve/names.h"

#include <string.h>
#include <strings.h>

#include "base/attr.h"

enum { LISTED = 12 };
struct span { /* part of a name */
    const char *s;
    size_t n;
};

/* Returns whether a and b are equal, ignoring case. */
static bool same_text(struct span a, struct span b) {
    return a.n == b.n && strncasecmp(a.s, b.s, a.n) == 0;
}
/* Returns whether id begins with `with`, ignoring case. */
static bool begins_with(struct span id, struct span with) {
    return id.n >= with.n && strncasecmp(id.s, with.s, with.n) == 0;
}
/* Returns whether id ends with `with`, ignoring case. */
static bool ends_with(struct span id, struct span with) {
    return id.n >= with.n && strncasecmp(id.s + id.n - with.n, with.s, with.n) == 0;
}
static bool is_separator(char c) {
    return c == '-' || c == '.' || c == '/';
}
/* Returns x without the ending unless nothing would remain. */
static struct span without_ending(struct span x, const char *end) {
    const struct span e = {end, strlen(end)};
    if (x.n > e.n && ends_with(x, e)) x.n -= e.n;
    return x;
}
/* Returns the part of x after its last slash. */
static struct span base_name(struct span x) {
    for (size_t i = x.n; i > 0; i--)
        if (x.s[i - 1] == '/') return (struct span){x.s + i, x.n - i};
    return x;
}

/* A requested name NAME:TAG, split; without a tag, `tag` is empty. */
struct asked {
    struct span name, tag;
};
typedef bool (*rule)(struct span id, const struct asked *a);

/* Returns whether the request has no tag and its name is exactly this id. */
static bool is_id(struct span id, const struct asked *a) {
    return !a->tag.n && same_text(id, a->name);
}
/* Returns whether the request is NAME:TAG and the id is NAME-TAG, with any separator. */
static bool is_tagged(struct span id, const struct asked *a) {
    return a->tag.n && id.n == a->name.n + 1 + a->tag.n && is_separator(id.s[a->name.n]) &&
           begins_with(id, a->name) && ends_with(id, a->tag);
}
/* Returns whether the request is NAME:TAG and the id is NAME-...-TAG, such as NAME-UD-TAG. */
static bool is_around(struct span id, const struct asked *a) {
    return a->tag.n && id.n > a->name.n + 1 + a->tag.n && is_separator(id.s[a->name.n]) &&
           is_separator(id.s[id.n - a->tag.n - 1]) && begins_with(id, a->name) &&
           ends_with(id, a->tag);
}
/* Returns whether the request has no tag and the id ends with a separator and its name. */
static bool is_end(struct span id, const struct asked *a) {
    return !a->tag.n && id.n > a->name.n && is_separator(id.s[id.n - a->name.n - 1]) &&
           ends_with(id, a->name);
}
/* Returns whether the request has no tag and the id begins with its name and a separator. */
static bool is_beginning(struct span id, const struct asked *a) {
    return !a->tag.n && id.n > a->name.n && is_separator(id.s[a->name.n]) &&
           begins_with(id, a->name);
}

/* Returns whether the request is NAME:TAG and the id begins with NAME-TAG and a separator. */
static bool is_below(struct span id, const struct asked *a) {
    const size_t n = a->name.n + 1 + a->tag.n;
    return a->tag.n && id.n > n && is_separator(id.s[n]) && is_tagged((struct span){id.s, n}, a);
}

/* Splits a requested name at its last colon. repository: also removes the owner and -GGUF. */
static struct asked split(struct span x, bool repository) {
    struct asked a = {x, {"", 0}};
    for (size_t i = x.n; i > 1; i--) {
        if (x.s[i - 1] == '/') break;
        if (x.s[i - 1] != ':') continue;
        a.name.n = i - 1;
        a.tag = (struct span){x.s + i, x.n - i};
        break;
    }
    if (same_text(a.tag, (struct span){"latest", 6})) a.tag.n = 0;
    a.tag = without_ending(a.tag, ".gguf");
    if (repository) a.name = without_ending(base_name(a.name), "-GGUF");
    a.name = without_ending(a.name, ".gguf");
    return a;
}

/* Returns the index of the only file whose id (own name, if `own` is set) satisfies `fits`;
 * NAMES_UNKNOWN: there is no such file, NAMES_SEVERAL: there are several. With take_usual, `usual`
 * wins if it matches. */
static int only(const struct serve_file *v, int n, int usual, const struct asked *a, rule fits,
                bool take_usual, bool own) {
    int found = NAMES_UNKNOWN;
    if (!a->name.n) return found;
    for (int i = 0; i < n; i++) {
        const char *name = own ? v[i].own : v[i].id;
        if (!name || !fits((struct span){name, strlen(name)}, a)) continue;
        if (take_usual && i == usual) return i;
        found = found == NAMES_UNKNOWN ? i : NAMES_SEVERAL;
    }
    return found;
}

/* Applies the rules of names_find() to the ids of all files or, if `own` is set, to their own
 * names. */
static int find(const struct serve_file *v, int n_files, int usual, struct span asked, bool own) {
    static const struct {
        rule fits;
        bool take_usual;
    } rules[] = {{is_id, false},  {is_tagged, false}, {is_around, false},
                 {is_end, false}, {is_below, true},   {is_beginning, true}};
    int found = NAMES_UNKNOWN;
    for (int repository = 0; repository < 2; repository++) {
        const struct asked a = split(asked, repository);
        for (size_t i = 0; i < COUNT_OF(rules); i++) {
            const int k = only(v, n_files, usual, &a, rules[i].fits, rules[i].take_usual, own);
            if (k >= 0) return k;
            if (k == NAMES_SEVERAL) found = k;
        }
    }
    return found;
}

int names_find(const struct serve_file *v, int n_files, int usual, const char *s, size_t n) {
    const struct span asked = {s, n};
    for (int i = 0; i < n_files; i++)
        if (strlen(v[i].id) == n && memcmp(v[i].id, s, n) == 0) return i;
    const int found = find(v, n_files, usual, asked, false);
    return found == NAMES_UNKNOWN ? find(v, n_files, usual, asked, true) : found;
}

void names_list(const struct serve_file *v, int n_files, struct buf *out) {
    const int n = n_files > LISTED ? LISTED - 1 : n_files;
    for (int i = 0; i < n; i++) buf_fmt(out, "%s%.60s", i ? ", " : "", v[i].id);
    if (n < n_files) buf_fmt(out, " and %d more (GET /v1/models)", n_files - n);
}
