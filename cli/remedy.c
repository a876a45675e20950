// SPDX-License-Identifier: MIT
/* cli/remedy.c - hints for error messages that name an option of a different command (remedy.h).
 * Messages that already name a command ("hone convert --type bf16 ...") are left unchanged. */
#include "cli/remedy.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/guess.h"
#include "base/buf.h"

struct wanted { /* an option in a message */
    const char *name;
    size_t len;
    const struct cmd_spec *spec; /* the command that failed */
    struct buf owners;           /* commands that have it: "hone convert, hone make" */
    bool common;                 /* a common option */
};

static bool has_option(const struct option *o, const char *name, size_t len) {
    for (; o && o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0) return true;
    return false;
}

/* Adds the command to the list if it has the wanted option. */
static void add_owner(void *ctx, const struct cmd_spec *spec, const struct option *common) {
    struct wanted *w = ctx;
    w->common |= has_option(common, w->name, w->len);
    if (has_option(spec->opts, w->name, w->len))
        buf_fmt(&w->owners, "%shone %s", w->owners.len ? ", " : "", spec->name);
}

/* Returns whether the command has the option that the row suggests. */
static bool is_taken(void *ctx, const struct peer_option *row) {
    const struct wanted *w = ctx;
    return row->ours && row->ours[0] && has_option(w->spec->opts, row->ours, strlen(row->ours));
}

/* Returns the name in the next "--name" that begins a word at or after s, or NULL. */
static const char *next_option(const char *s, size_t *len) {
    for (const char *begin = s; (s = strstr(s, "--")); s += 2) {
        if (s > begin && !strchr(" '(`", s[-1])) continue;
        size_t n = 0;
        while (islower((unsigned char)s[2 + n]) || isdigit((unsigned char)s[2 + n]) ||
               (n && s[2 + n] == '-'))
            n++;
        if (n > 1) {
            *len = n;
            return s + 2;
        }
    }
    return NULL;
}

void remedy_complete(const struct cmd_spec *spec, const struct subcommand *table, int n,
                     struct err *e) {
    struct wanted w = {.spec = spec};
    const char *command = strstr(e->msg, "hone "), *s = e->msg;
    while (!w.owners.len && (s = next_option(s, &w.len))) {
        char *argv[] = {NULL};
        struct err none;
        if (command && command < s) break;
        w.name = s;
        s += w.len;
        if (has_option(spec->opts, w.name, w.len)) continue;
        for (int i = 0; i < n; i++) {
            struct cli probe = {.visit = add_owner, .visit_ctx = &w};
            (void)table[i].run(&probe, 0, argv, &none);
        }
        if (w.common) w.common = false, w.owners.len = 0;
    }
    if (w.owners.len) {
        char name[48];
        const struct peer_option *same = peer_option(w.name, w.len, spec->name, is_taken, &w);
        const size_t at = strlen(e->msg);
        snprintf(name, sizeof name, "%.*s", (int)w.len, w.name);
        if (same)
            snprintf(e->msg + at, sizeof e->msg - at, " (hone %s calls it --%s)", spec->name,
                     same->ours);
        else
            snprintf(e->msg + at, sizeof e->msg - at, " (--%s is an option of %s)", name,
                     w.owners.data);
    }
    buf_release(&w.owners);
}
