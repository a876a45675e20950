// SPDX-License-Identifier: MIT
/* make/file_guard.c - hashes of the texts that hone wrote, and writing that respects the user's
 * edits. Folders of earlier versions have no "written_sha256": in these, a text counts as ours if
 * SHA256SUMS lists its current hash, and README.md only if it also has our marker. */
#include "make/file_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/os.h"
#include "base/out.h"
#include "base/doc.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "report/manifest.h"
#include "report/result.h"

enum { MAX_TEXT = 256 << 20, MAX_KNOWN = 256 };
#define WRITING ".hone-writing"
#define SUMS "SHA256SUMS"

struct known {
    char *name;
    char hex[65];
    bool announced; /* announced, but not in the manifest yet */
};
struct constraint {
    char *dir, *sums; /* sums: text of SHA256SUMS, or NULL */
    bool manifest;    /* the folder has a manifest written by hone */
    bool old;         /* written by a version that stored no hashes of texts */
    struct known *known;
    int n;
};

/* ---- notes ----------------------------------------------------------------------------------- */

/* Returns the first occurrence of `what` in s [n]; NULL: none. */
static const char *find_text(const char *s, size_t n, const char *what) {
    return memmem(s, n, what, strlen(what));
}

bool guard_notes(const char *card, size_t len, const char **notes, size_t *n) {
    const char *end = card + len, *a = find_text(card, len, NOTES_BEGIN);
    if (!a) return false;
    a += sizeof NOTES_BEGIN - 1;
    const char *b = find_text(a, (size_t)(end - a), NOTES_END);
    if (!b || find_text(b + 1, (size_t)(end - b - 1), NOTES_END) ||
        find_text(a, (size_t)(end - a), NOTES_BEGIN))
        return false;
    *notes = a;
    *n = (size_t)(b - a);
    return true;
}

/* Hashes a text; a card is hashed without its notes. */
static void text_hash(const char *name, const char *text, size_t len, char hex[65]) {
    struct sha256 s;
    const char *notes = text + len;
    size_t n = 0;
    if (strcmp(name, "README.md") == 0) (void)guard_notes(text, len, &notes, &n);
    sha256_init(&s);
    sha256_add(&s, text, (size_t)(notes - text));
    sha256_add(&s, notes + n, len - (size_t)(notes - text) - n);
    sha256_hex(&s, hex);
}

/* ---- state of a file ---- */

/* Returns what is known about a file; NULL: nothing. */
static struct known *find_known(const struct constraint *g, const char *name) {
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->known[i].name, name) == 0) return &g->known[i];
    return NULL;
}

/* Records a file's SHA-256 if it has 64 digits. announced: it is about to be written. */
static void add_known(struct constraint *g, const char *name, const char *hex, bool announced) {
    if (!name || !hex || strlen(hex) != 64 || g->n == MAX_KNOWN) return;
    g->known = xreallocarray(g->known, (size_t)g->n + 1, sizeof *g->known);
    struct known *k = &g->known[g->n++];
    *k = (struct known){.name = xstrdup(name), .announced = announced};
    memcpy(k->hex, hex, 65);
}

/* Reads which files an earlier run wrote, from the folder's manifest. */
static void read_manifest(struct constraint *g) {
    cJSON *root = doc_find(g->dir, MANIFEST_NAME, MAX_TEXT);
    g->manifest = doc_is(root, "format", "hone-manifest");
    for (const cJSON *f = doc_first(doc_get(root, "files")); f && g->manifest; f = f->next)
        add_known(g, doc_str(f, "file"), doc_str(f, "written_sha256"), false);
    cJSON_Delete(root);
    g->old = g->n == 0;
}

/* Reads a file of the folder; *text is NULL if it does not exist. */
static int read_text(const char *dir, const char *name, char **text, size_t *len, struct err *e) {
    char *path = io_join(dir, name);
    *text = NULL;
    *len = 0;
    int rc = io_exists(path) ? io_read_file(text, len, path, MAX_TEXT, e) : 0;
    free(path);
    return rc;
}

/* Reads the lines "SHA-256 NAME" left by a job that was killed while writing. */
static int read_writing(struct constraint *g, struct err *e) {
    char *text;
    size_t len;
    TRY(read_text(g->dir, WRITING, &text, &len, e));
    for (char *s = text, *next; s && *s; s = next) {
        next = strchr(s, '\n');
        if (next) *next++ = 0;
        if (strlen(s) > 66 && memcmp(s + 64, "  ", 2) == 0) {
            s[64] = 0;
            add_known(g, s + 66, s, true);
        }
    }
    free(text);
    return 0;
}

int guard_open(struct constraint **out, const char *dir, struct err *e) {
    struct constraint *g = xcalloc(1, sizeof *g);
    size_t len;
    g->dir = xstrdup(dir);
    read_manifest(g);
    int rc = read_writing(g, e);
    if (rc == 0) rc = read_text(dir, SUMS, &g->sums, &len, e);
    if (rc)
        guard_free(g);
    else
        *out = g;
    return rc;
}

void guard_free(struct constraint *g) {
    if (!g) return;
    for (int i = 0; i < g->n; i++) free(g->known[i].name);
    free(g->known);
    free(g->sums);
    free(g->dir);
    free(g);
}

const char *guard_hash_of(const struct constraint *g, const char *name) {
    const char *last = NULL;
    char *text, hex[65];
    size_t len;
    struct err ignored;
    if (!find_known(g, name) || read_text(g->dir, name, &text, &len, &ignored)) return NULL;
    text_hash(name, text ? text : "", len, hex);
    free(text);
    /* Prefer an entry that matches the file. If only other entries have that name, the file was
     * edited. */
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->known[i].name, name) == 0 && (!last || strcmp(g->known[i].hex, hex) == 0))
            last = g->known[i].hex;
    return last;
}

/* ---- ownership ------------------------------------------------------------------------------- */

/* Returns whether a text consists only of checksum lines in the form that hone writes, so that
 * replacing it destroys none of the user's work. */
static bool is_our_sums(const struct constraint *g, const char *s) {
    if (!strstr(s, "  " MANIFEST_NAME "\n") && !strstr(s, "  results.json\n")) return false;
    for (const char *nl; *s; s = nl + 1) {
        nl = strchr(s, '\n');
        if (!nl || nl - s < 67 || strspn(s, "0123456789abcdef") != 64) return false;
        if (memcmp(s + 64, "  ", 2) != 0) return false;
    }
    return g->manifest || find_known(g, SUMS) || g->old;
}

/* Returns whether SHA256SUMS lists this file with this content. */
static bool is_in_sums(const struct constraint *g, const char *name, const char *text, size_t len) {
    char hex[65];
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, text, len);
    sha256_hex(&s, hex);
    char *line = xasprintf("%s  %s\n", hex, name);
    bool found = g->sums && strstr(g->sums, line) != NULL;
    free(line);
    return found;
}

/* Returns whether the file is unchanged since hone wrote it. */
static bool is_ours(const struct constraint *g, const char *name, const char *text, size_t len) {
    char hex[65];
    if (strcmp(name, MANIFEST_NAME) == 0) return g->manifest;
    if (strcmp(name, SUMS) == 0) return is_our_sums(g, text);
    text_hash(name, text, len, hex);
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->known[i].name, name) == 0 && strcmp(g->known[i].hex, hex) == 0) return true;
    if (!g->old || !is_in_sums(g, name, text, len)) return false;
    return strcmp(name, "README.md") != 0 || strstr(text, README_MARK_START);
}

int guard_ask(const struct constraint *g, const char *name, const char *text, size_t len,
              enum guard_state *state, struct err *e) {
    char *path = io_join(g->dir, name), *old = NULL;
    size_t n = 0;
    bool there;
    int rc = io_there(&there, path, e);
    *state = GUARD_FREE;
    if (rc == 0 && there) rc = io_read_file(&old, &n, path, MAX_TEXT, e);
    free(path);
    if (rc || !there) return rc;
    bool same = text && n == len && memcmp(old, text, len) == 0;
    if (!same && !is_ours(g, name, old, n))
        *state =
            find_known(g, name) || strstr(old, README_MARK_START) ? GUARD_EDITED : GUARD_FOREIGN;
    free(old);
    return 0;
}

int guard_check(const struct constraint *g, const char *name, const char *text, size_t len,
                struct err *e) {
    enum guard_state state;
    TRY(guard_ask(g, name, text, len, &state, e));
    if (state == GUARD_FREE) return 0;
    bool edited = state == GUARD_EDITED, card = strcmp(name, "README.md") == 0;
    return err_set(e, ERR_USAGE, "%s/%s %s: %s, or use -f, which keeps it as %s.orig", g->dir, name,
                   edited ? "was edited since hone wrote it" : "was not written by hone",
                   edited && card ? "move your text between its notes marks or into a file for "
                                    "--notes, and delete it"
                                  : "move it away",
                   name);
}

/* ---- writing --------------------------------------------------------------------------------- */

void guard_announce(struct constraint *g, const char *name, const char *text, size_t len) {
    char hex[65];
    text_hash(name, text, len, hex);
    for (int i = 0; i < g->n; i++) /* left by a killed job, or announced twice */
        if (g->known[i].announced && strcmp(g->known[i].name, name) == 0 &&
            strcmp(g->known[i].hex, hex) == 0)
            return;
    add_known(g, name, hex, true);
}

int guard_begin(struct constraint *g, struct err *e) {
    struct buf b = {0};
    char *path = io_join(g->dir, WRITING);
    for (int i = 0; i < g->n; i++)
        if (g->known[i].announced) buf_fmt(&b, "%s  %s\n", g->known[i].hex, g->known[i].name);
    int rc = out_write_file(path, b.data ? b.data : "", b.len, true, e);
    buf_release(&b);
    free(path);
    return rc;
}

int guard_end(struct constraint *g, struct err *e) {
    char *path = io_join(g->dir, WRITING);
    int rc = os_unlink(path) == 0 ? 0 : err_sys(e, "%s: cannot be removed", path);
    free(path);
    return rc;
}

bool guard_is_aside(const char *name) {
    static const char *const fresh[] = {".new",     ".new.md",   ".new.html", ".new.svg",
                                        ".new.txt", ".new.json", ".new.yaml", ".new.jinja"};
    const char *orig = strstr(name, ".orig");
    for (size_t i = 0; i < sizeof fresh / sizeof *fresh; i++)
        if (str_ends(name, fresh[i])) return true;
    if (!orig) return false;
    orig += 5;
    return !*orig || (*orig == '.' && orig[1] && !orig[1 + strspn(orig + 1, "0123456789")]);
}

int guard_keep(const char *dir, const char *name, struct err *e) {
    char *path = io_join(dir, name), *to = xasprintf("%s.orig", path);
    for (int i = 1; io_exists(to) && i < 1000; i++) {
        free(to);
        to = xasprintf("%s.orig.%d", path, i);
    }
    int rc = os_rename(path, to) == 0 ? 0 : err_sys(e, "%s: cannot be renamed", path);
    if (rc == 0)
        log_warn("%s was not written by hone or was edited: renamed to %s", path, io_base(to));
    free(to);
    free(path);
    return rc;
}

/* Returns the name for our file if the user's file is kept: "README.md" -> "README.new.md". */
static char *aside_name(const char *name) {
    const char *dot = strrchr(name, '.');
    size_t n = dot && dot != name ? (size_t)(dot - name) : strlen(name);
    return xasprintf("%.*s.new%s", (int)n, name, name + n);
}

int guard_write(struct constraint *g, const char *name, const char *text, size_t len,
                enum guard_way way, bool *written, struct err *e) {
    enum guard_state state;
    char *path = io_join(g->dir, name), *old = NULL, *aside = NULL;
    size_t n = 0;
    *written = false;
    int rc = guard_ask(g, name, text, len, &state, e);
    if (rc == 0 && io_exists(path)) rc = io_read_file(&old, &n, path, MAX_TEXT, e);
    bool same = old && n == len && memcmp(old, text, len) == 0;
    if (rc == 0 && !same && state != GUARD_FREE) {
        if (way == GUARD_REFUSE) rc = guard_check(g, name, text, len, e);
        if (way == GUARD_KEEP) rc = guard_keep(g->dir, name, e);
        if (way == GUARD_ASIDE) {
            aside = aside_name(name);
            log_warn("%s %s and is kept: the new one is %s", path,
                     state == GUARD_EDITED ? "was edited" : "was not written by hone", aside);
            free(path);
            path = io_join(g->dir, aside);
        }
    }
    if (rc == 0 && !same) {
        rc = out_write_file(path, text, len, true, e);
        *written = rc == 0;
    }
    free(aside);
    free(old);
    free(path);
    return rc;
}
