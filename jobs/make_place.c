// SPDX-License-Identifier: MIT
/* jobs/make_place.c - the output folder of `hone make` belongs to one model. The job records its
 * source in DIR.work/source.json; a later job with another source is refused, so that the card,
 * report and checksums of the first one stay. Without that record, results.json tells. */
#include <stdlib.h>
#include <string.h>

#include "jobs/make.h"
#include "core/io.h"
#include "core/mem.h"
#include "core/out.h"

static const char source_file[] = "source.json";
enum { MAX_RESULTS = 256 << 20 };

/* Returns a path as io_real does, though its last components may not exist yet. */
static char *real_or_new(const char *path) {
    char *real = io_real(path);
    if (real) return real;
    char *parent = xstrdup(path);
    size_t n = strlen(parent);
    while (n > 1 && parent[n - 1] == '/') parent[--n] = 0;
    const char *name = io_base(parent);
    char *last = xstrdup(name), *above;
    if (name == parent)
        above = real_or_new(".");
    else
        parent[name - parent > 1 ? name - parent - 1 : 1] = 0, above = real_or_new(parent);
    real = io_join(above, last);
    free(last);
    free(above);
    free(parent);
    return real;
}

int make_check_place(const char *src, const char *out, struct err *e) {
    char *from = io_real(src), *to = real_or_new(out);
    size_t n = from ? strlen(from) : 0;
    bool inside = from && io_is_dir(src) && strncmp(to, from, n) == 0 && (!to[n] || to[n] == '/');
    free(from);
    free(to);
    if (!inside) return 0;
    return err_set(e, ERR_USAGE,
                   "%s is the model's own folder or inside it: results would mix with the source; "
                   "choose a folder elsewhere with -o",
                   out);
}

struct source { /* whose job a folder holds; texts are borrowed from root */
    struct json *root;
    const char *name, *path, *hash; /* NULL: not known */
};

static bool source_read(struct source *s, const char *dir, const char *file, const char *member) {
    char *path = io_join(dir, file);
    struct err ignored;
    bool found = io_exists(path) && json_read(&s->root, path, MAX_RESULTS, &ignored) == 0;
    free(path);
    if (!found) return false;
    const struct json *o = member ? json_get(s->root, member) : s->root;
    /* The name in results.json may be one for display (`publish --name`). */
    s->name = json_str(json_get(o, member ? "source" : "name"));
    s->path = json_str(json_get(o, "path"));
    s->hash = json_str(json_get(o, member ? "source_xxh128" : "xxh128"));
    return s->name != NULL;
}

/* Tells whether the job in a folder is of this model: the same name, and the same content or the
 * same place. A source without a hash yet (mk->src_hash "") is judged by its name alone. */
static bool same_model(const struct make *mk, const struct source *s) {
    if (strcmp(s->name, mk->name) != 0) return false;
    if (!mk->src_hash[0] || !s->hash || strcmp(s->hash, mk->src_hash) == 0) return true;
    char *here = io_real(mk->src);
    bool same = here && s->path && strcmp(here, s->path) == 0;
    free(here);
    return same;
}

int make_check_earlier(const struct make *mk, const char *out, struct err *e) {
    struct source s = {0};
    char *state = job_work(out);
    int rc = 0;
    bool known = state && source_read(&s, state, source_file, NULL);
    if (!known) {
        json_free(s.root);
        s.root = NULL;
        known = source_read(&s, out, "results.json", "model");
    }
    if (known && !same_model(mk, &s))
        rc = err_set(e, ERR_USAGE,
                     "%s holds the job of another model (%.100s%s%.300s): choose another folder "
                     "with -o, or move that one and its .work away",
                     out, s.name, s.path ? ", from " : "", s.path ? s.path : "");
    json_free(s.root);
    free(state);
    return rc;
}

int make_keep_source(const struct make *mk, struct err *e) {
    struct buf b = {0};
    struct jw w;
    char *path = io_join(mk->job.state, source_file), *real = io_real(mk->src);
    jw_init(&w, &b, true);
    jw_obj(&w, NULL);
    jw_str(&w, "name", mk->name);
    if (real) jw_str(&w, "path", real);
    if (mk->src_hash[0]) jw_str(&w, "xxh128", mk->src_hash);
    jw_end(&w);
    buf_chr(&b, '\n');
    int rc = out_write_again(path, b.data, b.len, true, e);
    buf_release(&b);
    free(real);
    free(path);
    return rc;
}
