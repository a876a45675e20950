// SPDX-License-Identifier: MIT
/* runtime/generate/pictures_find.c - search for the projector file of a model (pictures_prompt.h).
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/generate/pictures_prompt.h"

/* How well a file's name shows whose projector it is. */
enum named { NAMED_OTHER, NAMED_BY_KEY, NAMED_BY_FILE };

struct candidate {
    char *path, *stem;
    uint64_t size;
    enum projector type;
    enum named named;
    bool fits;
    int rc; /* ERR_DATA: cannot be used by any model; the reason is in `why` */
    struct err why;
};
struct search {
    const struct model *m;
    char *dir, *stem; /* of the model's file */
    struct candidate *v;
    int n;
};

/* ---- names ---- */

/* Returns a file's name without extension, shard number and type: "M" for "M-Q4_K_M.gguf". A name
 * that is a type becomes "". The caller frees it. */
static char *stem_of(const char *path) {
    char type[32], *stem = gguf_stem(io_base(path));
    size_t n = strlen(stem);
    if (gguf_name_encoding(io_base(path), type)) n -= strlen(type);
    while (n && strchr("-._", stem[n - 1])) n--;
    stem[n] = 0;
    return stem;
}

/* Returns the same for a projector file, without "mmproj" at the start or the end: "M" for
 * "mmproj-M-F16.gguf" and "M.mmproj-f16.gguf". The caller frees it. */
static char *projector_stem(const char *path) {
    char *stem = stem_of(path);
    size_t n = strlen(stem);
    if (strncasecmp(stem, "mmproj", 6) == 0) {
        const size_t skip = 6 + strspn(stem + 6, "-._");
        memmove(stem, stem + skip, n - skip + 1);
    } else if (n >= 6 && strcasecmp(stem + n - 6, "mmproj") == 0) {
        for (n -= 6; n && strchr("-._", stem[n - 1]);) n--;
        stem[n] = 0;
    }
    return stem;
}

/* Returns whether two files have the same text under a key. */
static bool same_key(const struct gguf *a, const struct gguf *b, const char *key) {
    const char *x = gguf_str_or(a, key, ""), *y = gguf_str_or(b, key, "");
    return *x && strcmp(x, y) == 0;
}

/* ---- candidates ---- */

/* Adds a file to the candidates. Takes the path. */
static void look_at(struct search *s, char *path) {
    struct gguf *g = NULL;
    struct vision_params params = {0};
    struct err other;
    s->v = xreallocarray(s->v, (size_t)s->n + 1, sizeof *s->v);
    struct candidate *c = &s->v[s->n++];
    *c = (struct candidate){.path = path, .stem = projector_stem(path)};
    c->rc = gguf_open(&g, path, GGUF_TOLERANT, &c->why);
    if (!c->rc) c->rc = vision_params_read(g, &params, &c->why);
    const int64_t width = c->rc ? 0 : (int64_t)gguf_u64_or(g, "clip.vision.projection_dim", 0);
    c->fits = !c->rc && !pictures_fit(g, s->m, width, &other);
    c->type = params.type;
    if (*c->stem && strcasecmp(c->stem, s->stem) == 0)
        c->named = NAMED_BY_FILE;
    else if (c->fits && (same_key(g, s->m->gguf, "general.name") ||
                         same_key(g, s->m->gguf, "general.basename")))
        c->named = NAMED_BY_KEY;
    if (g) c->size = gguf_file_bytes(g);
    gguf_close(g);
}

/* Returns whether two files are, by their names, the same tower in different types. */
static bool same_tower(const struct candidate *a, const struct candidate *b) {
    return a->type == b->type && strcasecmp(a->stem, b->stem) == 0;
}

/* Returns the fitting candidate with the best name, the largest of its tower; NULL: none. */
static const struct candidate *best_of(const struct search *s) {
    const struct candidate *best = NULL;
    for (int i = 0; i < s->n; i++) {
        const struct candidate *c = &s->v[i];
        if (c->fits && (!best || c->named > best->named ||
                        (c->named == best->named && same_tower(c, best) && c->size > best->size)))
            best = c;
    }
    return best;
}

/* Returns ERR_USAGE if candidates of another tower are named as well as `best`. */
static int need_one(const struct search *s, const struct candidate *best, struct err *e) {
    struct buf others = {0};
    for (int i = 0; i < s->n; i++) {
        const struct candidate *c = &s->v[i];
        if (c->fits && c->named == best->named && !same_tower(c, best))
            buf_fmt(&others, ", %s", io_base(c->path));
    }
    int rc = 0;
    if (others.len)
        rc = err_set(e, ERR_USAGE,
                     "several projector files may belong to this model: %s%s: name the right one "
                     "with --mmproj FILE%s%s",
                     best->path, others.data,
                     *s->stem ? ", or rename it to begin with mmproj-" : "", s->stem);
    buf_release(&others);
    return rc;
}

/* Returns the error of a file that is the model's by its name or, if none fits, of any other. */
static int refuse_unusable(const struct search *s, const struct candidate *best, struct err *e) {
    const struct candidate *bad = NULL;
    if (best && best->named == NAMED_BY_FILE) return 0;
    for (int i = 0; i < s->n; i++) {
        const struct candidate *c = &s->v[i];
        if (c->rc && (c->named == NAMED_BY_FILE || !best) && (!bad || c->named > bad->named))
            bad = c;
    }
    if (!bad) return 0;
    *e = bad->why;
    return bad->rc;
}

/* ---- the search ---- */

static void release(struct search *s) {
    for (int i = 0; i < s->n; i++) {
        free(s->v[i].path);
        free(s->v[i].stem);
    }
    free(s->v);
    free(s->stem);
    free(s->dir);
}

int pictures_find(const struct model *m, const char *model_path, char **out, struct err *e) {
    const size_t n = (size_t)(io_base(model_path) - model_path);
    struct search s = {
        .m = m, .dir = n ? xstrndup(model_path, n) : xstrdup("./"), .stem = stem_of(model_path)};
    struct io_names l = {0};
    *out = NULL;
    int rc = io_list(&l, s.dir, e);
    io_names_sort(&l);
    for (int i = 0; i < l.n && !rc; i++)
        if (strcasestr(l.v[i], "mmproj") && str_ends(l.v[i], ".gguf"))
            look_at(&s, xasprintf("%s%s", s.dir, l.v[i]));
    const struct candidate *best = best_of(&s);
    if (!rc) rc = refuse_unusable(&s, best, e);
    if (!rc && best) rc = need_one(&s, best, e);
    if (!rc && best) *out = xstrdup(best->path);
    io_names_release(&l);
    release(&s);
    return rc;
}

int pictures_need(const struct model *m, const char *model_path, char **out, struct err *e) {
    TRY(pictures_find(m, model_path, out, e));
    const int n = (int)(io_base(model_path) - model_path);
    return *out ? 0
                : err_set(e, ERR_USAGE,
                          "%.*s: no projector file of this model (mmproj-*.gguf), which images "
                          "need; --mmproj FILE names one, `hone convert SRC --mmproj FILE` writes "
                          "one",
                          n ? n : 2, n ? model_path : "./");
}
